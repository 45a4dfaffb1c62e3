//! Logs as they come: in pieces, interleaved, damaged, without end.

use std::time::Duration;

use super::told;
use crate::defect_set::{LIMIT_PER_KIND, LINE_BYTES, LINES, OTHERS};
use crate::kind::Kind;
use crate::reader::Reader;

/// A warning of one CPU, each line as that CPU's task prints it.
fn warning(function: &str, cpu: u32, stamp: &str) -> Vec<String> {
    let lines = [
        "------------[ cut here ]------------".to_string(),
        format!("WARNING: CPU: {cpu} PID: {cpu}7 at net/core/dev.c:12 {function}+0x5d/0x70"),
        format!("CPU: {cpu} PID: {cpu}7 Comm: nginx Not tainted 6.12.0"),
        format!("RIP: 0010:{function}+0x5d/0x70"),
        "Call Trace:".to_string(),
        " dev_hard_start_xmit+0x5d/0x70".to_string(),
        "---[ end trace 0000000000000000 ]---".to_string(),
    ];
    lines.map(|line| format!("{stamp}{line}\n")).to_vec()
}

fn interleaved(one: &[String], other: &[String]) -> String {
    one.iter()
        .zip(other)
        .flat_map(|(one, other)| [one.as_str(), other])
        .collect()
}

const BOTH: [(&str, &str, u64); 2] = [("warning", "one_work", 1), ("warning", "other_work", 1)];

fn short<'a>(told: &'a [(&'static str, String, u64)]) -> Vec<(&'static str, &'a str, u64)> {
    told.iter()
        .map(|(kind, top, count)| (*kind, top.as_str(), *count))
        .collect()
}

#[test]
fn reports_of_two_cpus_are_told_apart_by_who_printed_them() {
    let one = warning("one_work", 0, "[    5.000000][   T12] ");
    let other = warning("other_work", 1, "[    5.000001][   T34] ");
    assert_eq!(short(&told(&interleaved(&one, &other))), BOTH);
}

#[test]
fn without_a_caller_the_cpu_in_the_warning_tells_them_apart() {
    let one = warning("one_work", 0, "[    5.000000] ");
    let other = warning("other_work", 1, "[    5.000001] ");
    assert_eq!(short(&told(&interleaved(&one, &other))), BOTH);
}

#[test]
fn a_gap_in_time_ends_a_report_that_lost_its_end() {
    let one: String = warning("one_work", 0, "[    5.000000] ")[..5].concat();
    let other = warning("other_work", 0, "[    9.000000] ").concat();
    assert_eq!(short(&told(&format!("{one}{other}"))), BOTH);
}

#[test]
fn pieces_may_end_anywhere() {
    let log = warning("one_work", 0, "[    5.000000] ")
        .concat()
        .replace('\n', "\r\n");
    for size in [1, 2, 7, 64] {
        let mut reader = Reader::new();
        for piece in log.as_bytes().chunks(size) {
            reader.feed(piece);
        }
        let found = reader.defects();
        assert_eq!(found.len(), 1, "{size}");
        assert_eq!(
            (found[0].kind, found[0].top.as_str()),
            (Kind::Warning, "one_work")
        );
    }
}

#[test]
fn a_reader_can_be_asked_while_a_report_goes_on() {
    let mut reader = Reader::new();
    let asked = reader.changes();
    reader.set_clock(Duration::from_secs(3600));
    reader.feed(
        b"noise\n[    5.000000] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [nginx:812]\n",
    );
    let found = reader.defects();
    assert_eq!((found[0].top.as_str(), found[0].count), ("nginx", 1));
    assert_eq!(found[0].first.line, 2);
    assert_eq!(found[0].first.since_boot, Some(Duration::from_secs(5)));
    assert_eq!(found[0].first.clock, Some(Duration::from_secs(3600)));
    assert!(reader.changes() > asked);
    reader.feed(b"[    5.000001] RIP: 0010:tcp_ack+0x1/0x2\n");
    assert_eq!(reader.defects()[0].top, "tcp_ack");
    let before = reader.changes();
    reader.feed(b"[   15.000001] something else\n");
    reader.feed(b"[   15.000002] something else\n");
    assert_eq!(reader.defects()[0].count, 1);
    let ended = reader.changes();
    reader.feed(b"[   15.000003] something else\n");
    assert_eq!(reader.changes(), ended);
    assert!(ended > before);
}

#[test]
fn a_line_that_somebody_else_began_and_a_cut_one_are_read() {
    let lost = "login: [    5.000000] Kernel panic - not syncing: Fatal exception\n";
    assert_eq!(short(&told(lost)), [("panic", "Fatal exception", 1)]);
    let cut = "[    5.000000] Kernel panic - not sync";
    assert_eq!(told(cut), []);
    // The last line of a guest that died before it could end it.
    let unended = "[    5.000000] Kernel panic - not syncing: Fatal exc";
    assert_eq!(short(&told(unended)), [("panic", "Fatal exc", 1)]);
}

#[test]
fn memory_is_bounded_and_what_has_no_room_is_counted() {
    let mut reader = Reader::new();
    let names = 10 * LIMIT_PER_KIND;
    for number in 0..names {
        // Letters, because numbers do not make two.
        let name: String = number
            .to_string()
            .bytes()
            .map(|digit| char::from(digit + 49))
            .collect();
        let line = format!(
            "{name}[1]: segfault at 0 ip 0 sp 0 error 4 {}\n",
            "x".repeat(2000)
        );
        reader.feed(line.as_bytes());
    }
    let found = reader.defects();
    assert_eq!(found.len(), LIMIT_PER_KIND + 1);
    assert_eq!(
        found.iter().map(|defect| defect.count).sum::<u64>(),
        names as u64
    );
    let others = found.iter().find(|defect| defect.top == OTHERS).unwrap();
    assert_eq!(others.count, (names - LIMIT_PER_KIND) as u64);
    assert!(
        found
            .iter()
            .all(|defect| defect.lines[0].len() <= LINE_BYTES)
    );
}

#[test]
fn a_report_without_end_ends() {
    let mut reader = Reader::new();
    reader.feed(b"watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [nginx:812]\n");
    for _ in 0..100_000 {
        reader.feed(b" stack_frame+0x1/0x2\n");
    }
    let found = reader.defects();
    assert_eq!(
        (found.len(), found[0].count, found[0].lines.len()),
        (1, 1, LINES)
    );
    // An endless line, too.
    for _ in 0..1000 {
        reader.feed(&[b'x'; 10_000]);
    }
    reader.feed(b"\nKernel panic - not syncing: x\n");
    assert_eq!(reader.defects()[0].kind, Kind::Panic);
}

#[test]
fn any_bytes_are_read() {
    // xorshift, from a fixed seed; pieces of real messages among noise.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let log = warning("one_work", 0, "[    5.000000] ").concat();
    let mut reader = Reader::new();
    for _ in 0..20_000 {
        let from = (next() as usize) % log.len();
        let length = (next() as usize) % 80;
        let mut piece = log.as_bytes()[from..(from + length).min(log.len())].to_vec();
        if let Some(byte) = piece.first_mut() {
            *byte = next() as u8;
        }
        reader.feed(&piece);
    }
    reader.finish();
    assert!(reader.defects().len() <= Kind::ALL.len() * (LIMIT_PER_KIND + 1));
}
