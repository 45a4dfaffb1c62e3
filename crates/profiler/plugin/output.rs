//! Output for the host. Each mark writes everything that changed since the last one, because QEMU is killed in the end.
//!
//! Words of 8 bytes, little endian: `MAGIC`, then sections of a tag, a number of rows, and the rows, whose length depends on the tag.

use crate::engine::Engine;
use crate::memory::Memory;
use crate::tree::{Count, Key};

/// First bytes of the file; the number is its version.
pub const MAGIC: &[u8; 8] = b"bkoraw02";

/// Tags of sections, with the number of words per row.
mod tag {
    /// New names of tasks: 16 bytes.
    pub const NAMES: (u64, usize) = (1, 2);
    /// New nodes: parent, kind of key, key.
    pub const NODES: (u64, usize) = (2, 3);
    /// Node, instructions, iterations, bytes and starts of string instructions, calls since the last mark; all but calls are signed.
    pub const COUNTS: (u64, usize) = (3, 6);
    /// Since the start: node of the task, size, number, nanoseconds.
    pub const QUEUED: (u64, usize) = (4, 4);
    /// Since the start: node of the task, size, node of the task that ran, nanoseconds.
    pub const BLAME: (u64, usize) = (5, 4);
    /// Since the start: node, size, number, nanoseconds.
    pub const ASLEEP: (u64, usize) = (6, 4);
    /// Since the start: node of the task, preemptions.
    pub const PREEMPTED: (u64, usize) = (7, 2);
    /// Since the start: node of the task, nanoseconds on the CPU.
    pub const RAN: (u64, usize) = (8, 2);
    /// The mark, as its last section: its number, then since the start instructions, lost, mended, cut, switches.
    pub const MARK: (u64, usize) = (9, 6);
}

/// What has been written so far.
#[derive(Debug, Default)]
pub struct Written {
    names: usize,
    counts: Vec<Count>,
}

impl<M: Memory> Engine<M> {
    /// Encodes a mark.
    pub fn mark(&mut self, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        self.begin_user_nodes();
        self.mark_waits();
        self.write_tree(&mut out);
        self.write_waits(&mut out);
        let health = self.health();
        let row = [
            number,
            self.total().cast_unsigned(),
            health.lost,
            health.mended,
            health.cut,
            health.switches,
        ];
        section(&mut out, tag::MARK, [row].into_iter());
        out
    }

    /// Writes new names and nodes, and the counts since the last mark.
    fn write_tree(&mut self, out: &mut Vec<u8>) {
        let mut written = std::mem::take(&mut self.written);
        let half = |name: &[u8; 16], at: usize| {
            u64::from_le_bytes(name[at..at + 8].try_into().expect("a name has 16 bytes"))
        };
        let names = self.names()[written.names..].iter();
        section(
            out,
            tag::NAMES,
            names.map(|name| [half(name, 0), half(name, 8)]),
        );
        let new_nodes = self.nodes()[written.counts.len()..].iter().map(|node| {
            let (kind, key) = words_of(node.key);
            [u64::from(node.parent), kind, key]
        });
        section(out, tag::NODES, new_nodes);
        written.names = self.names().len();
        written.counts.resize(self.nodes().len(), Count::default());
        let pairs = self.nodes().iter().zip(&mut written.counts).zip(0_u64..);
        let changed = pairs.filter(|((node, old), _)| node.count != **old);
        let rows = changed.map(|((node, old), index)| {
            let now = node.count;
            let since = |now: i64, then: i64| (now - then).cast_unsigned();
            let row = [
                index,
                since(now.own, old.own),
                since(now.iterations, old.iterations),
                since(now.bytes, old.bytes),
                since(now.starts, old.starts),
                now.calls - old.calls,
            ];
            *old = node.count;
            row
        });
        section(out, tag::COUNTS, rows);
        self.written = written;
    }

    fn write_waits(&self, out: &mut Vec<u8>) {
        let waits = self.waits();
        let word = u64::from;
        for (tag, sums) in [(tag::QUEUED, &waits.queued), (tag::ASLEEP, &waits.asleep)] {
            let sums = sums.iter();
            let rows =
                sums.map(|((node, size), sum)| [word(*node), word(*size), sum.count, sum.ns]);
            section(out, tag, rows);
        }
        let blame = waits.blame.iter();
        let rows = blame.map(|((root, size, who), ns)| [word(*root), word(*size), word(*who), *ns]);
        section(out, tag::BLAME, rows);
        for (tag, sums) in [(tag::PREEMPTED, &waits.preempted), (tag::RAN, &waits.ran)] {
            section(out, tag, sums.iter().map(|(root, sum)| [word(*root), *sum]));
        }
    }
}

fn words_of(key: Key) -> (u64, u64) {
    match key {
        Key::All => (0, 0),
        Key::Task(task) => (1, task.into()),
        Key::Kernel(address) => (2, address),
        Key::User(address) => (3, address),
    }
}

fn section<const WORDS: usize>(
    out: &mut Vec<u8>,
    (tag, words): (u64, usize),
    rows: impl Iterator<Item = [u64; WORDS]>,
) {
    debug_assert_eq!(words, WORDS);
    out.extend(tag.to_le_bytes());
    let count_at = out.len();
    out.extend([0; 8]);
    let mut count = 0_u64;
    for row in rows {
        for word in row {
            out.extend(word.to_le_bytes());
        }
        count += 1;
    }
    out[count_at..count_at + 8].copy_from_slice(&count.to_le_bytes());
}
