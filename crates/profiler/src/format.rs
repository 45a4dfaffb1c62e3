//! `profile.zst`: a profile in bytes.
//!
//! One zstd frame. In it, numbers in LEB128 and texts behind their length:
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
//! Version 1 is a profile that was counted, version 2 one that was sampled. A file of a later version is refused. What is read is untrusted: it is bounded, and damage is named with its place.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io::Read as _;

use anyhow::{Context, Result, bail};

use crate::profile::{
    Blame, Clock, Count, Counter, CounterUnit, Health, Kind, Node, Profile, SAMPLED_VERSION,
    Sampling, StringCounts, VERSION, Wait, Window,
};
use crate::wire::{Damage, Reader, Writer};

const MAGIC: &[u8; 8] = b"bkprofil";

/// Most bytes of a profile, unpacked. One of ten seconds takes some hundred thousand.
pub const MOST_BYTES: u64 = 256 << 20;

/// A profile of a later version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newer {
    /// Its version.
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

/// The bytes of a profile.
pub fn write(profile: &Profile) -> Vec<u8> {
    let mut out = Writer(MAGIC.to_vec());
    let version = match profile.sampling {
        None => VERSION,
        Some(_) => SAMPLED_VERSION,
    };
    out.number(version.into());
    let mut strings = Strings::default();
    for node in &profile.nodes {
        strings.add(&node.name);
        strings.add(&node.image);
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
    profile.lacks.iter().for_each(|text| out.text(text));
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
        out.number(strings.places[node.name.as_str()]);
        out.number(strings.places[node.image.as_str()]);
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
/// The bytes are no profile, of a later version (`Newer`), or damaged; the error says where.
pub fn read(bytes: &[u8]) -> Result<Profile> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(bytes);
    let decoder = decoder.map_err(|why| anyhow::anyhow!("profile is not zstd: {why}"))?;
    let mut body = Vec::new();
    decoder
        .take(MOST_BYTES + 1)
        .read_to_end(&mut body)
        .context("profile damaged or cut off")?;
    if body.len() as u64 > MOST_BYTES {
        bail!("profile longer than {MOST_BYTES} bytes");
    }
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
    let strings = read_texts(&mut input)?;
    let nodes = read_nodes(&mut input, &strings)?;
    let most = nodes.len() as u64 - 1;
    let windows = (0..input.rows()?).map(|_| read_window(&mut input, most));
    let windows = windows.collect::<Result<_, _>>()?;
    let lacks = read_texts(&mut input)?
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
    let rows = 0..input.rows()?;
    let row = |_| {
        let name = input.text()?.to_string();
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

fn read_texts<'r>(input: &mut Reader<'r>) -> Result<Vec<&'r str>, Damage> {
    (0..input.rows()?).map(|_| input.text()).collect()
}

fn read_nodes(input: &mut Reader<'_>, strings: &[&str]) -> Result<Vec<Node>, Damage> {
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
        nodes.push(Node {
            parent,
            kind,
            name,
            image,
        });
    }
    Ok(nodes)
}

fn string(input: &mut Reader<'_>, strings: &[&str]) -> Result<String, Damage> {
    let text = strings.get(input.number()? as usize);
    text.map(ToString::to_string)
        .ok_or_else(|| input.damage("no such string"))
}

fn read_window(input: &mut Reader<'_>, most: u64) -> Result<Window, Damage> {
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
    for _ in 0..input.rows()? {
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
        queued: read_waits(input, most)?,
        blame: read_blame(input, most)?,
        asleep: read_waits(input, most)?,
        preempted: read_pairs(input, most)?,
        ran: read_pairs(input, most)?,
        health,
    })
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

fn read_waits(input: &mut Reader<'_>, most: u64) -> Result<Vec<Wait>, Damage> {
    let rows = 0..input.rows()?;
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

fn read_blame(input: &mut Reader<'_>, most: u64) -> Result<Vec<Blame>, Damage> {
    let rows = 0..input.rows()?;
    let row = |_| {
        Ok(Blame {
            waiter: node(input, most)?,
            size: size(input)?,
            runner: node(input, most)?,
            ns: input.number()?,
        })
    };
    rows.map(row).collect()
}

fn read_pairs(input: &mut Reader<'_>, most: u64) -> Result<Vec<(u32, u64)>, Damage> {
    let rows = 0..input.rows()?;
    rows.map(|_| Ok((node(input, most)?, input.number()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random and are the same each time.
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
    fn a_profile_comes_back_as_it_was() {
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

    /// Damaged anywhere, packed or unpacked, it is an error or another profile whose parts fit; never a panic.
    #[test]
    fn damage_is_an_error_with_its_place_or_a_profile_that_holds() {
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

    /// All that users of a profile may rely on.
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
        let mut body = Vec::new();
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(packed.as_slice()).unwrap();
        decoder.read_to_end(&mut body).unwrap();
        body
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
        let why = read(b"PK").unwrap_err().to_string();
        assert!(why.starts_with("profile is not zstd"), "{why}");
    }
}
