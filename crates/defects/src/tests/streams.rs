//! Logs as they arrive: in pieces, interleaved, damaged, endless.

use std::time::Duration;

use super::summary;
use crate::defect_set::{LIMIT_PER_KIND, LINE_BYTES, LINES, OTHERS};
use crate::kind::Kind;
use crate::reader::Reader;

/// A warning of one CPU, each line with the prefix `stamp`.
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

fn interleaved(first: &[String], second: &[String]) -> String {
    first
        .iter()
        .zip(second)
        .flat_map(|(first, second)| [first.as_str(), second])
        .collect()
}

const BOTH: [(&str, &str, u64); 2] = [("warning", "one_work", 1), ("warning", "other_work", 1)];

fn short<'a>(rows: &'a [(&'static str, String, u64)]) -> Vec<(&'static str, &'a str, u64)> {
    rows.iter()
        .map(|(kind, top, count)| (*kind, top.as_str(), *count))
        .collect()
}

#[test]
fn reports_of_two_cpus_are_distinguished_by_their_callers() {
    let first = warning("one_work", 0, "[    5.000000][   T12] ");
    let second = warning("other_work", 1, "[    5.000001][   T34] ");
    assert_eq!(short(&summary(&interleaved(&first, &second))), BOTH);
}

#[test]
fn without_a_caller_reports_are_distinguished_by_the_cpu_in_the_warning() {
    let first = warning("one_work", 0, "[    5.000000] ");
    let second = warning("other_work", 1, "[    5.000001] ");
    assert_eq!(short(&summary(&interleaved(&first, &second))), BOTH);
}

#[test]
fn a_gap_in_time_ends_a_report_that_lost_its_end() {
    let first: String = warning("one_work", 0, "[    5.000000] ")[..5].concat();
    let second = warning("other_work", 0, "[    9.000000] ").concat();
    assert_eq!(short(&summary(&format!("{first}{second}"))), BOTH);
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
        let defects = reader.defects();
        assert_eq!(defects.len(), 1, "{size}");
        assert_eq!(
            (defects[0].kind, defects[0].top.as_str()),
            (Kind::Warning, "one_work")
        );
    }
}

#[test]
fn a_reader_can_be_queried_during_a_report() {
    let mut reader = Reader::new();
    let before_report = reader.changes();
    reader.set_clock(Duration::from_secs(3600));
    reader.feed(
        b"noise\n[    5.000000] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [nginx:812]\n",
    );
    let defects = reader.defects();
    assert_eq!((defects[0].top.as_str(), defects[0].count), ("nginx", 1));
    assert_eq!(defects[0].first.line, 2);
    assert_eq!(defects[0].first.since_boot, Some(Duration::from_secs(5)));
    assert_eq!(defects[0].first.clock, Some(Duration::from_secs(3600)));
    assert!(reader.changes() > before_report);
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
fn a_line_after_other_output_and_a_truncated_line_are_read() {
    let lost = "login: [    5.000000] Kernel panic - not syncing: Fatal exception\n";
    assert_eq!(short(&summary(lost)), [("panic", "Fatal exception", 1)]);
    let cut = "[    5.000000] Kernel panic - not sync";
    assert_eq!(summary(cut), []);
    // The last line of a guest that died before the newline.
    let unended = "[    5.000000] Kernel panic - not syncing: Fatal exc";
    assert_eq!(short(&summary(unended)), [("panic", "Fatal exc", 1)]);
}

#[test]
fn memory_is_limited_and_excess_defects_are_counted() {
    let mut reader = Reader::new();
    let names = 10 * LIMIT_PER_KIND;
    for number in 0..names {
        // Letters, because names that differ only in numbers are equal.
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
    let defects = reader.defects();
    assert_eq!(defects.len(), LIMIT_PER_KIND + 1);
    assert_eq!(
        defects.iter().map(|defect| defect.count).sum::<u64>(),
        names as u64
    );
    let others = defects.iter().find(|defect| defect.top == OTHERS).unwrap();
    assert_eq!(others.count, (names - LIMIT_PER_KIND) as u64);
    assert!(
        defects
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
    let defects = reader.defects();
    assert_eq!(
        (defects.len(), defects[0].count, defects[0].lines.len()),
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
