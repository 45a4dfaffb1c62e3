//! Output for the host. Each mark writes all counts since the start, because QEMU is killed in the end.
//!
//! ```text
//! group NAME EXECUTED START1 START2 START4 START8 REPEAT1 REPEAT2 REPEAT4 REPEAT8 UNKNOWN
//! mark NUMBER EXECUTED START1 START2 START4 START8 REPEAT1 REPEAT2 REPEAT4 REPEAT8 UNKNOWN
//! ```
//! Groups precede the mark that they belong to.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::{Counts, Plugin};

/// More marks than any ramp has steps; further marks are ignored.
const MOST_MARKS: u32 = 4096;

/// Writes a mark.
pub fn mark(plugin: &mut Plugin, number: u8, counts: &Counts) {
    if plugin.marks > MOST_MARKS {
        return;
    }
    let mut text = String::new();
    for (name, sum) in plugin.groups.sums() {
        line(&mut text, "group", name, sum);
    }
    line(&mut text, "mark", &number.to_string(), counts);
    plugin.groups.forget_names();
    // If writing fails, the file ends early, which its reader detects.
    let _ = plugin.out.write_all(text.as_bytes());
}

fn line(text: &mut String, kind: &str, name: &str, counts: &Counts) {
    let Counts { executed, starts, repeats, unknown } = counts;
    let _ = write!(text, "{kind} {name} {executed}");
    for count in starts.iter().chain(repeats) {
        let _ = write!(text, " {count}");
    }
    let _ = writeln!(text, " {unknown}");
}
