//! Reads the plugin's output (`plugin/output.rs`): counts by address.

use anyhow::{Context, Result, bail};

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The root.
    All,
    /// A task, by index among the names.
    Task(u32),
    /// Code of the kernel, by address.
    Kernel(u64),
    /// Code of a program, by physical address.
    User(u64),
}

/// A node; its parent precedes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its parent.
    pub parent: u32,
    /// What it stands for.
    pub key: Key,
}

/// Rows of a section, each of `WORDS` words.
pub type Rows<const WORDS: usize> = Vec<[u64; WORDS]>;

/// The sections of a mark.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mark {
    /// Number of the mark; see `profile::mark`.
    pub number: u8,
    /// Node, instructions, iterations, bytes and starts of string instructions (all signed), calls; since the last mark.
    pub counts: Rows<6>,
    /// Node, size, count, nanoseconds; since the start, as all below.
    pub queued: Rows<4>,
    /// Node, size, node of the task that ran, nanoseconds.
    pub blame: Rows<4>,
    /// Node, size, count, nanoseconds.
    pub asleep: Rows<4>,
    /// Node, count.
    pub preempted: Rows<2>,
    /// Node, nanoseconds.
    pub ran: Rows<2>,
    /// Instructions, lost, mended, cut, switches.
    pub totals: [u64; 5],
}

/// Everything written up to the last complete mark.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Raw {
    /// Names of tasks.
    pub names: Vec<String>,
    /// The call tree.
    pub nodes: Vec<Node>,
    /// Marks in order.
    pub marks: Vec<Mark>,
}

const MAGIC: &[u8; 8] = b"bkoraw02";

/// Most nodes that the plugin makes (`plugin/engine.rs`). Further code is charged to its callers, or to no task.
pub const MOST_NODES: usize = 1 << 21;

/// More marks than any ramp has steps.
const MOST_MARKS: usize = 4096;

/// Reads the output. An incomplete mark at the end, after a killed emulator, is dropped.
pub fn read(bytes: &[u8]) -> Result<Raw> {
    let body = bytes
        .strip_prefix(MAGIC)
        .context("the plugin has written nothing")?;
    let mut words = Words { body, at: 0 };
    let (mut raw, mut mark) = (Raw::default(), Mark::default());
    while let Some((tag, count)) = words.head() {
        let count = count as usize;
        let is_whole = match tag {
            1 => words
                .rows(count)
                .map(|rows| raw.names.extend(rows.into_iter().map(name))),
            2 => words
                .rows(count)
                .map(|rows| nodes(&mut raw, rows))
                .transpose()?,
            3 => words.rows(count).map(|rows| mark.counts = rows),
            4 => words.rows(count).map(|rows| mark.queued = rows),
            5 => words.rows(count).map(|rows| mark.blame = rows),
            6 => words.rows(count).map(|rows| mark.asleep = rows),
            7 => words.rows(count).map(|rows| mark.preempted = rows),
            8 => words.rows(count).map(|rows| mark.ran = rows),
            9 => words.rows::<6>(count).and_then(|rows| {
                let [number, totals @ ..] = *rows.first()?;
                mark.number = number as u8;
                mark.totals = totals;
                raw.marks.push(std::mem::take(&mut mark));
                Some(())
            }),
            _ => bail!("what the plugin wrote is damaged at word {}", words.at / 8),
        };
        if is_whole.is_none() {
            break;
        }
        if raw.marks.len() > MOST_MARKS {
            bail!("more than {MOST_MARKS} marks");
        }
    }
    check(&raw)?;
    Ok(raw)
}

fn name([low, high]: [u64; 2]) -> String {
    let bytes: Vec<u8> = [low, high].into_iter().flat_map(u64::to_le_bytes).collect();
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let name = String::from_utf8_lossy(&bytes[..end]);
    // A task can choose any name.
    name.chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

fn nodes(raw: &mut Raw, rows: Rows<3>) -> Result<()> {
    for [parent, kind, key] in rows {
        let index = raw.nodes.len();
        let key = match kind {
            0 => Key::All,
            1 => Key::Task(key as u32),
            2 => Key::Kernel(key),
            3 => Key::User(key),
            _ => bail!("unknown kind of node: {kind}"),
        };
        let is_first = index == 0;
        if is_first != (key == Key::All) || (!is_first && parent >= index as u64) {
            bail!("node {index} has no place in the tree");
        }
        raw.nodes.push(Node {
            parent: parent as u32,
            key,
        });
    }
    Ok(())
}

/// Checks that all referenced nodes and names exist.
fn check(raw: &Raw) -> Result<()> {
    let count = raw.nodes.len() as u64;
    for mark in &raw.marks {
        let counted = mark.counts.iter().map(|row| row[0]);
        let timed = mark
            .queued
            .iter()
            .chain(&mark.blame)
            .chain(&mark.asleep)
            .map(|row| row[0])
            .chain(counted);
        let pairs = mark.preempted.iter().chain(&mark.ran).map(|row| row[0]);
        let runners = mark.blame.iter().map(|row| row[2]);
        if timed.chain(pairs).chain(runners).any(|node| node >= count) {
            bail!("a mark names a node that is not there");
        }
    }
    let is_unnamed =
        |node: &Node| matches!(node.key, Key::Task(name) if name as usize >= raw.names.len());
    if raw.nodes.iter().any(is_unnamed) {
        bail!("a task without a name");
    }
    Ok(())
}

struct Words<'w> {
    body: &'w [u8],
    at: usize,
}

impl Words<'_> {
    fn word(&mut self) -> Option<u64> {
        let word = self.body.get(self.at..)?.first_chunk()?;
        self.at += 8;
        Some(u64::from_le_bytes(*word))
    }

    fn head(&mut self) -> Option<(u64, u64)> {
        Some((self.word()?, self.word()?))
    }

    fn rows<const WORDS: usize>(&mut self, count: usize) -> Option<Rows<WORDS>> {
        let bytes = count.checked_mul(WORDS * 8)?;
        let body = self.body.get(self.at..self.at.checked_add(bytes)?)?;
        self.at += bytes;
        let row = |row: &[u8]| {
            std::array::from_fn(|index| {
                u64::from_le_bytes(*row[index * 8..].first_chunk().expect("a row is whole"))
            })
        };
        Some(body.chunks_exact(WORDS * 8).map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// A root, a task, and one mark.
    fn written() -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(words(&[1, 1]));
        bytes.extend(b"nginx\x1b\0\0\0\0\0\0\0\0\0\0");
        bytes.extend(words(&[2, 2, 0, 0, 0, 0, 1, 0]));
        bytes.extend(words(&[3, 1, 1, 10, 0, 0, 0, 1]));
        bytes.extend(words(&[9, 1, 1, 10, 0, 0, 0, 0]));
        bytes
    }

    #[test]
    fn what_was_written_up_to_the_last_whole_mark_is_read() {
        let raw = read(&written()).unwrap();
        assert_eq!(raw.names, ["nginx?"], "no terminal is told what to do");
        assert_eq!((raw.nodes.len(), raw.marks.len()), (2, 1));
        assert_eq!(raw.marks[0].counts, [[1, 10, 0, 0, 0, 1]]);
        let mut more = written();
        more.extend(words(&[3, 1000, 1]));
        assert_eq!(read(&more).unwrap().marks.len(), 1);
        assert_eq!(
            read(b"").unwrap_err().to_string(),
            "the plugin has written nothing"
        );
    }

    #[test]
    fn damage_is_refused_or_harmless() {
        let whole = written();
        for at in MAGIC.len()..whole.len() {
            assert!(
                read(&whole[..at]).is_ok_and(|raw| raw.marks.is_empty()),
                "cut at {at}"
            );
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                if let Ok(raw) = read(&damaged) {
                    let nodes = raw.nodes.iter().zip(0..).skip(1);
                    assert!(nodes.into_iter().all(|(node, index)| node.parent < index));
                }
            }
        }
    }
}
