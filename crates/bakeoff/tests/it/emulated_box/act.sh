#!/bin/bash
# The workload of the test: sends the kernel's release to the test, receives a fault, and injects it.
set -eu
there() { nsenter --target 1 --net "$@"; }
fault=$(there bash -c "exec 3<> /dev/tcp/10.0.2.2/$1 && uname -r >&3 && read -r word <&3 && echo \$word")
case $fault in
    none) ;;
    # The stopped agent no longer feeds the watchdog.
    hang) kill -STOP "$PPID" ;;
    panic) echo c > /proc/sysrq-trigger ;;
    unplug) there ip link set eth0 down ;;
esac
case $fault in none) ;; *) sleep 600 ;; esac
for file in 1 2 3; do
    sha256sum /usr/sbin/nginx > /dev/null
done
echo "rounds 3"
