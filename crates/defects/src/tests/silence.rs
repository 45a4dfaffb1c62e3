//! Logs without defects.

use super::{read, summary};

/// Shortened boot logs of guests, and lines of other boots that only look like defects.
const LOGS: [(&str, &str); 4] = [
    ("6.1", include_str!("boot/6.1.log")),
    ("6.12", include_str!("boot/6.12.log")),
    ("7.2", include_str!("boot/7.2.log")),
    ("false alarms", include_str!("boot/false_alarms.log")),
];

#[test]
fn boots_of_debian_kernels_have_no_defects() {
    for (name, log) in LOGS {
        assert!(log.lines().count() > 100, "{name}");
        let stamped: Vec<_> = log
            .lines()
            .map(|line| format!("[    1.000000] {line}"))
            .collect();
        let stamped = stamped.join("\n");
        for log in [log, &stamped] {
            let defects: Vec<_> = read(log)
                .into_iter()
                .map(|defect| (defect.kind, defect.lines))
                .collect();
            assert!(defects.is_empty(), "{name}: {defects:?}");
        }
    }
}

#[test]
fn a_defect_among_other_lines_is_found() {
    for (name, log) in LOGS {
        let log =
            format!("{log}BUG: kernel NULL pointer dereference, address: 0000000000000018\n{log}");
        assert_eq!(summary(&log), [("oops", String::new(), 1)], "{name}");
    }
}

#[test]
fn messages_quoted_within_a_line_are_no_defects() {
    let quotes = [
        "nginx: client said \"BUG: kernel NULL pointer dereference, address: 0\"",
        "echo: WARNING: CPU: 3 PID: 1234 at net/ipv4/tcp.c:2650 tcp_cleanup_rbuf+0x5d/0x70",
        "see Kernel panic - not syncing: x",
        "---[ end Kernel panic - not syncing: Fatal exception ]---",
        "BUG: kernel NULL pointer dereference, address: none",
        "nginx[x]: segfault at 0 ip 0 sp 0 error 4",
    ];
    for quote in quotes {
        assert_eq!(summary(&format!("{quote}\n")), [], "{quote}");
    }
}
