//! Messages about programs: exceptions that killed them, their cores, limits that they reached.

use super::{Extent, Row, row};
use crate::kind::{Kind, Severity};

use Extent::Line;
use Kind::{CoreDump, PidLimit, UserFault};
use Severity::{Defect, Suspicious};

pub(super) const ROWS: &[Row] = &[
    row(
        UserFault,
        Defect,
        Line,
        "%P[%d]: segfault at %x ip %x sp %x error %x",
        &[
            (
                "nginx[812]: segfault at 0 ip 000055d0c0ffee00 sp 00007ffd12345678 error 4 in nginx[55d0c0f00000+100000] likely on CPU 1 (core 1, socket 0)",
                "nginx",
            ),
            (
                "php-fpm8.4[77]: segfault at 8 ip 0000000000000000 sp 00007ffd12345678 error 14",
                "php-fpm#.#",
            ),
        ],
    ),
    row(
        UserFault,
        Defect,
        Line,
        "traps: %P[%d] %s ip:%x sp:%x error:%x",
        &[
            (
                "traps: nginx[812] trap invalid opcode ip:55d0c0ffee00 sp:7ffd12345678 error:0 in nginx[55d0c0f00000+100000]",
                "nginx",
            ),
            (
                "traps: nginx[812] general protection fault ip:55d0c0ffee00 sp:7ffd12345678 error:0 in nginx[55d0c0f00000+100000]",
                "nginx",
            ),
            (
                "traps: nginx[812] trap divide error ip:55d0c0ffee00 sp:7ffd12345678 error:0",
                "nginx",
            ),
        ],
    ),
    // Only if kernel.print-fatal-signals is on; from 6.12 on with the file.
    row(
        UserFault,
        Suspicious,
        Line,
        "%P: potentially unexpected fatal signal %d.",
        &[
            ("nginx: potentially unexpected fatal signal 11.", "nginx"),
            (
                "/usr/sbin/nginx: nginx: potentially unexpected fatal signal 11.",
                "/usr/sbin/nginx: nginx",
            ),
        ],
    ),
    row(
        UserFault,
        Suspicious,
        Line,
        "potentially unexpected fatal signal %d.",
        &[("potentially unexpected fatal signal 11.", "")],
    ),
    row(
        UserFault,
        Suspicious,
        Line,
        "%P[%d]: unhandled signal %d",
        &[(
            "nginx[812]: unhandled signal 11 code 0x1 at 0x0000000000000008",
            "nginx",
        )],
    ),
    // Up to 6.11 without process and command.
    row(
        CoreDump,
        Suspicious,
        Line,
        "coredump: %d(%P): %s",
        &[(
            "coredump: 812(nginx): over core_pipe_limit, skipping core dump",
            "nginx",
        )],
    ),
    row(
        CoreDump,
        Suspicious,
        Line,
        "Core dump to %s",
        &[("Core dump to |/usr/lib/handler pipe failed", "")],
    ),
    // Only if auditing is on: the only line about a process that called abort().
    row(
        CoreDump,
        Suspicious,
        Line,
        "audit: type=1701 audit(%s comm=\"%P\" %ssig=%d",
        &[(
            "audit: type=1701 audit(1700000000.123:45): auid=4294967295 uid=33 gid=33 ses=4294967295 pid=812 comm=\"nginx\" exe=\"/usr/sbin/nginx\" sig=6 res=1",
            "nginx",
        )],
    ),
    row(
        PidLimit,
        Suspicious,
        Line,
        "cgroup: fork rejected by pids controller in %N",
        &[(
            "cgroup: fork rejected by pids controller in /system.slice/nginx.service",
            "/system.slice/nginx.service",
        )],
    ),
];
