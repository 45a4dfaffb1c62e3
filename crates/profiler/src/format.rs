//! The format of `profile.zst`.
//!
//! One zstd frame of LEB128 numbers and length-prefixed texts:
//!
//! ```text
//! magic "bkprofil", version
//! strings    number, texts                            each once
//! nodes      number, (distance to the parent, kind, name, image)       from the second on; the first is the whole
//! windows    number, (mark, mark, instructions, lost, mended, cut, switches, counts, queued, blame, asleep, preempted, ran)
//!   counts   number, (distance from the last row's node, instructions, iterations, bytes and starts of string instructions, calls)
//!   queued   number, (node, size, count, ns)         asleep the same
//!   blame    number, (waiter, size, runner, ns)
//!   preempted, ran   number, (node, value)
//! lacks      number, texts
//! sampling   clock (0 cycles, 1 cpu clock), frequency, samples, lost, outside, CPU time, number,
//!            (name, unit (0 events, 1 nanoseconds), value)            version 2 alone
//! ```
//! Version 1 is a counted profile, version 2 a sampled one. A file of a later version is refused. Input is untrusted: sizes are
//! limited, and damage is reported with its offset.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use anyhow::{Context, Result, bail};
use base::input::text;

use crate::budget::{self, Budget, NAME_BYTES};
use crate::profile::{
    Blame, Clock, Count, Counter, CounterUnit, Health, Kind, Node, Profile, SAMPLED_VERSION,
    Sampling, StringCounts, VERSION, Wait, Window,
};
use crate::unpack;
use crate::wire::{Damage, Reader, Writer};

const MAGIC: &[u8; 8] = b"bkprofil";

/// Largest file of a profile, in bytes.
pub const PACKED_BYTES: u64 = 32 << 20;

/// Most bytes of an unpacked profile. One of ten seconds takes some hundred thousand.
const MOST_BYTES: u64 = 64 << 20;

/// A profile of a later version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newer {
    /// Version of the profile.
    pub version: u64,
}

impl fmt::Display for Newer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "profile of a newer bakeoff: version {}, and this one reads {SAMPLED_VERSION}",
            self.version
        )
    }
}

impl std::error::Error for Newer {}

/// Why a profile is too large to be read back, if it is.
pub fn excess(profile: &Profile) -> Option<&'static str> {
    Budget::check(profile).err()
}

/// The beginning of a text, as much as a profile keeps.
fn cut(text: &str) -> &str {
    text::cut(text, NAME_BYTES)
}

/// Encodes a profile. Names longer than `budget::NAME_BYTES` are cut.
pub fn write(profile: &Profile) -> Vec<u8> {
    let mut out = Writer(MAGIC.to_vec());
    let version = match profile.sampling {
        None => VERSION,
        Some(_) => SAMPLED_VERSION,
    };
    out.number(version.into());
    let mut strings = Strings::default();
    for node in &profile.nodes {
        strings.add(cut(&node.name));
        strings.add(cut(&node.image));
    }
    out.number(strings.texts.len() as u64);
    strings.texts.iter().for_each(|text| out.text(text));
    write_nodes(profile, &strings, &mut out);
    out.number(profile.windows.len() as u64);
    profile
        .windows
        .iter()
        .for_each(|window| write_window(window, &mut out));
    out.number(profile.lacks.len() as u64);
    profile.lacks.iter().for_each(|text| out.text(cut(text)));
    if let Some(sampling) = &profile.sampling {
        write_sampling(sampling, &mut out);
    }
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    ruzstd::encoding::compress_to_vec(out.0.as_slice(), level)
}

#[derive(Default)]
struct Strings<'s> {
    texts: Vec<&'s str>,
    places: HashMap<&'s str, u64>,
}

impl<'s> Strings<'s> {
    fn add(&mut self, text: &'s str) {
        let next = self.texts.len() as u64;
        if let Entry::Vacant(free) = self.places.entry(text) {
            free.insert(next);
            self.texts.push(text);
        }
    }
}

fn write_nodes(profile: &Profile, strings: &Strings<'_>, out: &mut Writer) {
    out.number(profile.nodes.len() as u64);
    for (node, index) in profile.nodes.iter().zip(0_u64..).skip(1) {
        out.number(index - u64::from(node.parent));
        out.number(match node.kind {
            Kind::All => 0,
            Kind::Task => 1,
            Kind::Kernel => 2,
            Kind::Module => 3,
            Kind::User => 4,
        });
        out.number(strings.places[cut(&node.name)]);
        out.number(strings.places[cut(&node.image)]);
    }
}

fn write_window(window: &Window, out: &mut Writer) {
    let Health {
        lost,
        mended,
        cut,
        switches,
    } = window.health;
    let (begin, end) = window.marks;
    out.numbers([begin.into(), end.into(), window.instructions]);
    out.numbers([lost, mended, cut, switches]);
    out.number(window.counts.len() as u64);
    let mut last = 0;
    for count in &window.counts {
        let distance = u64::from(count.node - last);
        last = count.node;
        let StringCounts {
            iterations,
            bytes,
            starts,
        } = count.strings;
        out.numbers([distance, count.instructions, iterations, bytes]);
        out.numbers([starts, count.calls]);
    }
    write_waits(&window.queued, out);
    out.number(window.blame.len() as u64);
    for blame in &window.blame {
        out.numbers([
            blame.waiter.into(),
            blame.size.into(),
            blame.runner.into(),
            blame.ns,
        ]);
    }
    write_waits(&window.asleep, out);
    for pairs in [&window.preempted, &window.ran] {
        out.number(pairs.len() as u64);
        for (node, value) in pairs {
            out.numbers([(*node).into(), *value]);
        }
    }
}

fn write_sampling(sampling: &Sampling, out: &mut Writer) {
    out.number(match sampling.clock {
        Clock::Cycles => 0,
        Clock::CpuClock => 1,
    });
    let Sampling {
        frequency_hz,
        samples,
        lost,
        outside,
        cpu_ns,
        ..
    } = *sampling;
    out.numbers([frequency_hz.into(), samples, lost, outside, cpu_ns]);
    out.number(sampling.counters.len() as u64);
    for counter in &sampling.counters {
        out.text(&counter.name);
        out.number(match counter.unit {
            CounterUnit::Events => 0,
            CounterUnit::Nanoseconds => 1,
        });
        out.number(counter.value);
    }
}

fn write_waits(waits: &[Wait], out: &mut Writer) {
    out.number(waits.len() as u64);
    for wait in waits {
        out.numbers([wait.node.into(), wait.size.into(), wait.count, wait.ns]);
    }
}

/// Reads a profile.
///
/// # Errors
/// The bytes are not a profile, of a later version (`Newer`), or damaged; the error contains the offset.
pub fn read(bytes: &[u8]) -> Result<Profile> {
    let body = unpack::zstd(bytes, MOST_BYTES).context("profile damaged or cut off")?;
    read_body(&body).map_err(|why| {
        if why.is::<Newer>() {
            why
        } else {
            why.context("profile damaged")
        }
    })
}

fn read_body(body: &[u8]) -> Result<Profile> {
    let mut input = Reader::new(body);
    if input.bytes(MAGIC.len())? != MAGIC {
        bail!("not a profile");
    }
    let version = input.number()?;
    if version > SAMPLED_VERSION.into() {
        bail!(Newer { version });
    }
    let strings = read_texts(&mut input, budget::MOST_TEXTS)?;
    let mut budget = Budget::default();
    let nodes = read_nodes(&mut input, &strings, &mut budget)?;
    let mut windows = Vec::new();
    for _ in 0..input.rows()? {
        budget.window().map_err(|what| input.damage(what))?;
        windows.push(read_window(&mut input, &nodes, &mut budget)?);
    }
    let lacks = read_texts(&mut input, budget::MOST_LACKS)?
        .into_iter()
        .map(String::from)
        .collect();
    let sampling = match version {
        version if version == u64::from(SAMPLED_VERSION) => Some(read_sampling(&mut input)?),
        _ => None,
    };
    if !input.is_empty() {
        bail!(input.damage("more than a profile"));
    }
    Ok(Profile {
        nodes,
        windows,
        lacks,
        sampling,
    })
}

fn read_sampling(input: &mut Reader<'_>) -> Result<Sampling, Damage> {
    let clock = match input.number()? {
        0 => Clock::Cycles,
        1 => Clock::CpuClock,
        _ => return Err(input.damage("unknown clock")),
    };
    let frequency_hz = input.limited(u32::MAX.into(), "no such frequency")? as u32;
    let (samples, lost) = (input.number()?, input.number()?);
    let (outside, cpu_ns) = (input.number()?, input.number()?);
    let rows = 0..input.limited(budget::MOST_COUNTERS, "too many counters")?;
    let row = |_| {
        let name = cut(input.text()?).to_string();
        let unit = match input.number()? {
            0 => CounterUnit::Events,
            1 => CounterUnit::Nanoseconds,
            _ => return Err(input.damage("unknown unit")),
        };
        let value = input.number()?;
        Ok(Counter { name, unit, value })
    };
    let counters = rows.map(row).collect::<Result<_, _>>()?;
    Ok(Sampling {
        clock,
        frequency_hz,
        samples,
        lost,
        outside,
        cpu_ns,
        counters,
    })
}

fn read_texts<'r>(input: &mut Reader<'r>, most: u64) -> Result<Vec<&'r str>, Damage> {
    let count = input.limited(most, "too many texts")?;
    let mut texts = Vec::new();
    for _ in 0..count {
        let text = input.text()?;
        if text.len() > NAME_BYTES {
            return Err(input.damage("text too long"));
        }
        texts.push(text);
    }
    Ok(texts)
}

fn read_nodes(
    input: &mut Reader<'_>,
    strings: &[&str],
    budget: &mut Budget,
) -> Result<Vec<Node>, Damage> {
    let count = input.number()?;
    if count == 0 {
        return Err(input.damage("no nodes"));
    }
    let mut nodes = vec![Node {
        parent: 0,
        kind: Kind::All,
        name: String::new(),
        image: String::new(),
    }];
    for index in 1..count {
        let distance = input.limited(index, "parent before the whole")?;
        let parent = u32::try_from(index - distance).map_err(|_| input.damage("too many nodes"))?;
        if distance == 0 {
            return Err(input.damage("node that is its own parent"));
        }
        let kind = match input.number()? {
            1 => Kind::Task,
            2 => Kind::Kernel,
            3 => Kind::Module,
            4 => Kind::User,
            _ => return Err(input.damage("unknown kind of node")),
        };
        let (name, image) = (string(input, strings)?, string(input, strings)?);
        let within = budget.node(parent, name, image);
        within.map_err(|what| input.damage(what))?;
        nodes.push(Node {
            parent,
            kind,
            name: name.into(),
            image: image.into(),
        });
    }
    Ok(nodes)
}

fn string<'s>(input: &mut Reader<'_>, strings: &[&'s str]) -> Result<&'s str, Damage> {
    let text = strings.get(input.number()? as usize);
    text.copied().ok_or_else(|| input.damage("no such string"))
}

fn read_window(
    input: &mut Reader<'_>,
    nodes: &[Node],
    budget: &mut Budget,
) -> Result<Window, Damage> {
    let most = nodes.len() as u64 - 1;
    let marks = (mark(input)?, mark(input)?);
    let instructions = input.number()?;
    let health = Health {
        lost: input.number()?,
        mended: input.number()?,
        cut: input.number()?,
        switches: input.number()?,
    };
    let mut counts = Vec::new();
    let mut last = 0;
    for _ in 0..rows(input, budget)? {
        last = input
            .number()?
            .checked_add(last)
            .filter(|node| *node <= most)
            .ok_or_else(|| input.damage("no such node"))?;
        counts.push(Count {
            node: last as u32,
            instructions: input.number()?,
            strings: StringCounts {
                iterations: input.number()?,
                bytes: input.number()?,
                starts: input.number()?,
            },
            calls: input.number()?,
        });
    }
    Ok(Window {
        marks,
        instructions,
        counts,
        queued: read_waits(input, most, budget)?,
        blame: read_blame(input, nodes, budget)?,
        asleep: read_asleep(input, most, budget)?,
        preempted: read_pairs(input, most, budget)?,
        ran: read_pairs(input, most, budget)?,
        health,
    })
}

/// The number of rows that follow, counted against the limit of a profile.
fn rows(input: &mut Reader<'_>, budget: &mut Budget) -> Result<usize, Damage> {
    let rows = input.rows()?;
    budget.rows(rows).map_err(|what| input.damage(what))?;
    Ok(rows)
}

fn mark(input: &mut Reader<'_>) -> Result<u8, Damage> {
    Ok(input.limited(u8::MAX.into(), "no such mark")? as u8)
}

fn node(input: &mut Reader<'_>, most: u64) -> Result<u32, Damage> {
    Ok(input.limited(most, "no such node")? as u32)
}

fn size(input: &mut Reader<'_>) -> Result<u8, Damage> {
    Ok(input.limited(64, "no such size of a wait")? as u8)
}

fn read_asleep(
    input: &mut Reader<'_>,
    most: u64,
    budget: &mut Budget,
) -> Result<Vec<Wait>, Damage> {
    let waits = read_waits(input, most, budget)?;
    for wait in &waits {
        let within = budget.asleep(wait.node);
        within.map_err(|what| input.damage(what))?;
    }
    Ok(waits)
}

fn read_waits(input: &mut Reader<'_>, most: u64, budget: &mut Budget) -> Result<Vec<Wait>, Damage> {
    let rows = 0..rows(input, budget)?;
    let row = |_| {
        Ok(Wait {
            node: node(input, most)?,
            size: size(input)?,
            count: input.number()?,
            ns: input.number()?,
        })
    };
    rows.map(row).collect()
}

fn read_blame(
    input: &mut Reader<'_>,
    nodes: &[Node],
    budget: &mut Budget,
) -> Result<Vec<Blame>, Damage> {
    let most = nodes.len() as u64 - 1;
    let rows = 0..rows(input, budget)?;
    let row = |_| {
        let blame = Blame {
            waiter: node(input, most)?,
            size: size(input)?,
            runner: node(input, most)?,
            ns: input.number()?,
        };
        let within = budget.blame(&nodes[blame.runner as usize].name);
        within.map_err(|what| input.damage(what))?;
        Ok(blame)
    };
    rows.map(row).collect()
}

fn read_pairs(
    input: &mut Reader<'_>,
    most: u64,
    budget: &mut Budget,
) -> Result<Vec<(u32, u64)>, Damage> {
    let rows = 0..rows(input, budget)?;
    rows.map(|_| Ok((node(input, most)?, input.number()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use base::skip::limits;

    use super::*;

    /// Reproducible pseudo-random numbers.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self, below: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % below
        }
    }

    fn profile(seed: u64) -> Profile {
        let mut numbers = Numbers(seed);
        let kinds = [Kind::Task, Kind::Kernel, Kind::Module, Kind::User];
        let mut nodes = vec![Node {
            parent: 0,
            kind: Kind::All,
            name: String::new(),
            image: String::new(),
        }];
        for index in 1..200 {
            nodes.push(Node {
                parent: numbers.next(index) as u32,
                kind: kinds[numbers.next(4) as usize],
                name: format!("function_{}", numbers.next(50)),
                image: ["", "libc.so.6"][numbers.next(2) as usize].into(),
            });
        }
        let window = |numbers: &mut Numbers| Window {
            marks: (1, 2),
            instructions: numbers.next(1 << 40),
            counts: (0..200)
                .map(|node| Count {
                    node,
                    instructions: numbers.next(1 << 40),
                    strings: StringCounts {
                        iterations: numbers.next(100),
                        bytes: numbers.next(800),
                        starts: numbers.next(100),
                    },
                    calls: numbers.next(1000),
                })
                .collect(),
            queued: vec![Wait {
                node: 1,
                size: 20,
                count: 3,
                ns: u64::MAX,
            }],
            blame: vec![Blame {
                waiter: 1,
                size: 20,
                runner: 2,
                ns: 7,
            }],
            asleep: vec![Wait::default()],
            preempted: vec![(1, 5)],
            ran: vec![(2, 6), (199, 0)],
            health: Health {
                lost: 1,
                mended: 2,
                cut: 3,
                switches: 4,
            },
        };
        Profile {
            windows: vec![window(&mut numbers), window(&mut numbers)],
            nodes,
            lacks: vec!["kernel without BTF".into()],
            sampling: seed.is_multiple_of(2).then(|| Sampling {
                clock: [Clock::Cycles, Clock::CpuClock][numbers.next(2) as usize],
                frequency_hz: 1999,
                samples: 20_000,
                lost: 3,
                outside: 40,
                cpu_ns: 9_900_000_000,
                counters: vec![Counter {
                    name: "run-queue-wait nginx".into(),
                    unit: CounterUnit::Nanoseconds,
                    value: u64::MAX,
                }],
            }),
        }
    }

    #[test]
    fn a_profile_survives_a_round_trip() {
        for seed in 0..20 {
            let profile = profile(seed);
            assert_eq!(read(&write(&profile)).unwrap(), profile);
        }
    }

    #[test]
    fn equal_profiles_are_equal_bytes_and_zstd_reads_them() {
        let bytes = write(&profile(1));
        assert_eq!(bytes, write(&profile(1)));
        assert_eq!(bytes[..4], [0x28, 0xb5, 0x2f, 0xfd]);
    }

    /// Damage anywhere, packed or unpacked, gives an error or another consistent profile, never a panic.
    #[test]
    fn damage_gives_an_error_with_its_offset_or_a_consistent_profile() {
        let whole = unpacked(2);
        for cut in (0..whole.len()).step_by(7) {
            let why = format!("{:#}", read_body(&whole[..cut]).unwrap_err());
            assert!(why.contains(" at byte "), "{cut}: {why}");
        }
        let mut numbers = Numbers(7);
        for _ in 0..3000 {
            let mut damaged = whole.clone();
            for _ in 0..=numbers.next(3) {
                let at = numbers.next(damaged.len() as u64) as usize;
                damaged[at] = numbers.next(256) as u8;
            }
            if let Ok(profile) = read_body(&damaged) {
                check(&profile);
            }
        }
        let packed = write(&profile(2));
        for _ in 0..300 {
            let mut damaged = packed.clone();
            let at = numbers.next(damaged.len() as u64) as usize;
            damaged[at] ^= 1 << numbers.next(8);
            damaged.truncate(1 + numbers.next(2 * packed.len() as u64) as usize);
            if let Ok(profile) = read(&damaged) {
                check(&profile);
            }
        }
    }

    /// Checks everything that users of a profile may rely on.
    fn check(profile: &Profile) {
        for (node, index) in profile.nodes.iter().zip(0..).skip(1) {
            assert!(node.parent < index);
        }
        assert_eq!(profile.busy_tasks().len(), profile.nodes.len());
        let nodes = profile.windows.iter().flat_map(|window| &window.counts);
        assert!(
            nodes
                .into_iter()
                .all(|count| (count.node as usize) < profile.nodes.len())
        );
    }

    fn unpacked(seed: u64) -> Vec<u8> {
        let packed = write(&profile(seed));
        unpack::zstd(&packed, MOST_BYTES).unwrap()
    }

    #[test]
    fn a_later_version_is_refused_with_the_remedy() {
        let mut body = unpacked(1);
        assert_eq!(body[MAGIC.len()], 1);
        body[MAGIC.len()] = 9;
        let why = read_body(&body).unwrap_err().to_string();
        assert_eq!(
            why,
            "profile of a newer bakeoff: version 9, and this one reads 2"
        );
        let why = format!("{:#}", read(b"PK").unwrap_err());
        assert!(
            why.starts_with("profile damaged or cut off: zstd: "),
            "{why}"
        );
    }

    /// Packs a profile that is written number by number.
    fn packed(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Writer(MAGIC.to_vec());
        out.number(VERSION.into());
        write(&mut out);
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(out.0.as_slice(), level)
    }

    /// Texts, and a chain of nodes of the kernel, each with the last text as its name.
    fn chain(out: &mut Writer, text: &str, nodes: u64) {
        out.number(2);
        out.text("");
        out.text(text);
        out.number(1 + nodes);
        for _ in 0..nodes {
            out.numbers([1, 2, 1, 0]);
        }
    }

    /// Texts, and nodes of the kernel that are all below the first.
    fn comb(out: &mut Writer, text: &str, nodes: u64) {
        out.number(2);
        out.text("");
        out.text(text);
        out.number(1 + nodes);
        for index in 1..=nodes {
            out.numbers([index, 2, 1, 0]);
        }
    }

    fn refused(bytes: &[u8], want: &str) {
        let why = format!("{:#}", read(bytes).unwrap_err());
        let what = why.split(" at byte ").next().unwrap();
        assert_eq!(what, format!("profile damaged: {want}"));
    }

    #[test]
    fn one_long_text_that_many_nodes_name_is_refused_within_limits() {
        let bytes = packed(|out| comb(out, &"x".repeat(1 << 20), 20_000));
        assert!(bytes.len() < 1 << 20, "{} bytes", bytes.len());
        let why = limits::refusal(|| read(&bytes));
        assert_eq!(why, "profile damaged: text too long at byte 1048590");
    }

    #[test]
    fn what_nodes_and_rows_name_together_is_bounded() {
        let name = "x".repeat(NAME_BYTES);
        let bytes = packed(|out| comb(out, &name, 40_000));
        let why = limits::refusal(|| read(&bytes));
        assert!(
            why.starts_with("profile damaged: too much text in names at byte "),
            "{why}"
        );
        refused(&packed(|out| comb(out, "", 1 << 19)), "too many nodes");
        refused(
            &packed(|out| chain(out, "", 4000)),
            "node too deep in the tree",
        );
        // Sleeps with one long path, in many sizes.
        let sleeps = |out: &mut Writer| {
            chain(out, &name, 1000);
            out.number(1);
            out.numbers([1, 2, 0, 0, 0, 0, 0]);
            out.numbers([0, 0, 0, 100]);
            for _ in 0..100 {
                out.numbers([1000, 20, 1, 1]);
            }
        };
        refused(&packed(sleeps), "causes of waits too long");
        let rows = |out: &mut Writer| {
            chain(out, "", 1);
            out.number(1);
            out.numbers([1, 2, 0, 0, 0, 0, 0, (1 << 20) + 1]);
            for _ in 0..=1 << 20 {
                out.numbers([0, 0, 0, 0, 0, 0]);
            }
        };
        refused(&packed(rows), "too many rows");
        let windows = |out: &mut Writer| {
            chain(out, "", 1);
            out.number(5000);
            (0..5000).for_each(|_| out.numbers([0; 13]));
        };
        refused(&packed(windows), "too many windows");
    }

    #[test]
    fn a_profile_that_unpacks_without_end_is_refused_within_limits() {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zeros = std::io::Read::take(std::io::repeat(0), MOST_BYTES + 1);
        let mut bytes = Vec::new();
        ruzstd::encoding::compress(zeros, &mut bytes, level);
        assert!(bytes.len() < 1 << 16, "{} bytes", bytes.len());
        let why = limits::refusal(|| read(&bytes));
        assert_eq!(
            why,
            "profile damaged or cut off: zstd: longer than 64.0 MiB"
        );
    }

    #[test]
    fn a_profile_that_is_too_large_to_be_read_back_is_detected() {
        assert_eq!(excess(&profile(1)), None);
        let mut deep = profile(1);
        deep.nodes.truncate(1);
        for parent in 0..3000 {
            deep.nodes.push(Node {
                parent,
                kind: Kind::Kernel,
                name: "f".into(),
                image: String::new(),
            });
        }
        assert_eq!(excess(&deep), Some("node too deep in the tree"));
        // A name that is too long is cut at a character boundary.
        let mut long = profile(1);
        long.nodes[1].name = "\u{b5}".repeat(NAME_BYTES);
        let back = read(&write(&long)).unwrap();
        assert_eq!(back.nodes[1].name, "\u{b5}".repeat(NAME_BYTES / 2));
    }
}
