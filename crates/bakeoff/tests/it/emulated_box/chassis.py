#!/usr/bin/python3
"""The power switch behind ipmi_sim: chassis.py get|set PARAMETER [VALUE] ... acts on QEMU by QMP."""
import json
import os
import socket
import sys

here = os.path.dirname(os.path.abspath(__file__))


def qmp(*commands):
    monitor = socket.socket(socket.AF_UNIX)
    monitor.connect(os.path.join(here, "qmp"))
    lines = monitor.makefile("rw")
    lines.readline()
    answers = []
    for command in ("qmp_capabilities",) + commands:
        lines.write(json.dumps({"execute": command}) + "\n")
        lines.flush()
        while True:
            answer = json.loads(lines.readline())
            if "return" in answer or "error" in answer:
                answers.append(answer)
                break
    return answers[1:]


words = sys.argv[1:]
while words and words[0] not in ("get", "set"):
    words = words[1:]
with open(os.path.join(here, "power.log"), "a") as log:
    log.write(" ".join(words) + "\n")
if words[0] == "get":
    for name in words[1:]:
        if name == "power":
            # A box without power is a paused QEMU.
            is_on = qmp("query-status")[0]["return"]["status"] == "running"
            print("power:%d" % is_on)
        else:
            print(name + ":default")
else:
    for name, value in zip(words[1::2], words[2::2]):
        if name == "reset" and value != "0" or name == "power" and value == "1":
            qmp("system_reset", "cont")
        elif name == "power":
            qmp("stop")
