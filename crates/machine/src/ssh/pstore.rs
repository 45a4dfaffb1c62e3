//! A kernel's last messages in memory that survives a restart (pstore): the panic, and defects before it.

use std::cmp::Reverse;
use std::path::Path;

use base::input::text;

use super::session::Session;
use crate::console::{PANIC, Scan};
use crate::task::Task;
use base::input::tree::Tree;

/// Prints the last messages of earlier kernels, and removes them.
const SCRIPT: &str = "for file in /sys/fs/pstore/*; do [ -f \"$file\" ] || continue; echo \"=== ${file##*/}\"; cat \"$file\"; rm -f \"$file\"; done";

/// Takes the messages from pstore, and saves them beside the trial's console.
pub(super) fn take(session: &Session, dir: &Path, task: Task<'_>) -> String {
    let messages = session.run(SCRIPT, task).unwrap_or_default();
    if !messages.trim().is_empty() {
        // Fails if the trial's directory was removed.
        let _ = Tree::at(dir).replace("pstore.log", messages.as_bytes());
    }
    messages
}

/// The first line of a kernel panic.
pub(super) fn panic_in(messages: &str) -> Option<String> {
    let line = messages
        .lines()
        .find_map(|line| Some(&line[line.find(PANIC)?..]))?;
    Some(text::clean_line(text::cut(line, 1024)))
}

/// Defects in the messages.
pub(super) fn defects_in(messages: &str) -> Vec<defects::Defect> {
    let mut parts: Vec<&str> = messages.split("=== ").collect();
    // Part 1 has the last messages.
    parts.sort_by_key(|part| Reverse(part_number(part)));
    let mut scan = Scan::default();
    for part in parts {
        let messages = part.lines().skip_while(|line| !line.starts_with('<'));
        for line in messages {
            scan.feed(line.as_bytes());
            scan.feed(b"\n");
        }
    }
    scan.defects()
}

/// The number in `Panic#2 Part1`, the second line of a part.
fn part_number(part: &str) -> u64 {
    let header = part.lines().nth(1).unwrap_or_default();
    let number = header.rsplit_once(" Part").map(|(_, number)| number);
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An oops whose first line is in the earlier part, and whose place is in the later one.
    const LEFT: &str = "=== dmesg-erst-7580\nPanic#2 Part1\n<4>[   82.9] RIP: 0010:victim+0x16/0x20\n\
                        <4>[   82.9] Call Trace:\n<0>[   82.9] Kernel panic - not syncing: sysrq triggered crash\n\
                        === dmesg-erst-7581\nPanic#2 Part2\n<4>[   60.1] eth0: link up\n\
                        <1>[   82.8] BUG: kernel NULL pointer dereference, address: 0000000000000000\n";

    #[test]
    fn a_panic_that_firmware_kept_is_found() {
        assert_eq!(
            panic_in(LEFT).as_deref(),
            Some("Kernel panic - not syncing: sysrq triggered crash")
        );
        assert_eq!(panic_in("=== dmesg-erst-1\nOops#1\n"), None);
    }

    #[test]
    fn an_oops_is_read_across_the_parts_of_its_dump() {
        let defects = defects_in(LEFT);
        let is_victim = |defect: &defects::Defect| defect.top == "victim";
        assert!(defects.iter().any(is_victim), "{defects:?}");
        assert!(defects_in("").is_empty());
        assert!(defects_in("=== dmesg-erst-1\nOops#1\nno dump").is_empty());
    }
}
