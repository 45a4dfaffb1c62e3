//! Offsets of members in the kernel's structures, from its BTF (Documentation/bpf/btf.rst).

use anyhow::{Context, Result, bail};

/// The types of a kernel.
#[derive(Debug)]
pub struct Btf<'b> {
    types: Vec<Type>,
    body: &'b [u8],
    strings: &'b [u8],
}

/// A type; its members are in the body.
#[derive(Debug, Clone, Copy)]
struct Type {
    name: u32,
    kind: u8,
    /// Whether members have individual bit sizes.
    has_sizes: bool,
    count: u32,
    /// Size, or the type that it refers to.
    size_or_id: u32,
    /// Start of its members in the body.
    members_at: usize,
}

const MAGIC: u16 = 0xeb9f;
/// Most members to visit for one path, because the ways through nested anonymous structures grow exponentially.
const MOST_MEMBERS: u32 = 1 << 16;

const STRUCT: u8 = 4;
const UNION: u8 = 5;

/// Bytes after the header of a type, by its kind: a fixed number, and a number per member.
fn extra(kind: u8) -> Option<(usize, usize)> {
    Some(match kind {
        // int, variable, declaration tag
        1 | 14 | 17 => (4, 0),
        // array
        3 => (12, 0),
        // pointer, forward, typedef, volatile, const, restrict, function, float, type tag
        2 | 7..=12 | 16 | 18 => (0, 0),
        STRUCT | UNION | 15 | 19 => (0, 12),
        // enumeration, parameters of a function
        6 | 13 => (0, 8),
        _ => return None,
    })
}

impl<'b> Btf<'b> {
    /// Reads the section `.BTF`.
    pub fn read(data: &'b [u8]) -> Result<Self> {
        let cut = "BTF cut off";
        let header = data.get(..24).context(cut)?;
        if u16::from_le_bytes([header[0], header[1]]) != MAGIC {
            bail!("not BTF");
        }
        let part = |at: usize| {
            let offset =
                (word(data, 4).unwrap_or(0) as usize).checked_add(word(data, at)? as usize)?;
            data.get(offset..offset.checked_add(word(data, at + 4)? as usize)?)
        };
        let (body, strings) = (part(8).context(cut)?, part(16).context(cut)?);
        let mut types = Vec::new();
        let mut at = 0;
        while at < body.len() {
            let header = |index: usize| word(body, at + index * 4).context(cut);
            let (name, info, size_or_id) = (header(0)?, header(1)?, header(2)?);
            let (kind, count) = ((info >> 24 & 0x1f) as u8, info & 0xffff);
            let Some((fixed, each)) = extra(kind) else {
                bail!("BTF with an unknown kind of type: {kind}");
            };
            let has_sizes = info >> 31 == 1;
            types.push(Type {
                name,
                kind,
                has_sizes,
                count,
                size_or_id,
                members_at: at + 12,
            });
            at += 12 + fixed + each * count as usize;
        }
        Ok(Self {
            types,
            body,
            strings,
        })
    }

    /// Offset of a member in a structure, in bytes: `offset("task_struct", &["sched_info", "run_delay"])`.
    pub fn offset(&self, structure: &str, path: &[&str]) -> Option<u64> {
        let is_wanted = |kind: &&Type| kind.kind == STRUCT && self.is_named(kind.name, structure);
        let mut parent = *self.types.iter().find(is_wanted)?;
        let (mut bytes, mut steps) = (0, MOST_MEMBERS);
        for name in path {
            let (offset, member_type) = self.member(parent, name, 0, &mut steps)?;
            bytes += offset;
            parent = self.resolve(member_type)?;
        }
        Some(bytes)
    }

    /// Offset and type of a member, including those of anonymous structures within.
    fn member(
        &self,
        parent: Type,
        wanted: &str,
        depth: u32,
        steps: &mut u32,
    ) -> Option<(u64, u32)> {
        const MAX_DEPTH: u32 = 8;
        if !matches!(parent.kind, STRUCT | UNION) || depth > MAX_DEPTH {
            return None;
        }
        (0..parent.count as usize).find_map(|index| {
            *steps = steps.checked_sub(1)?;
            let at = parent.members_at + index * 12;
            let (name, member_type, place) = (
                word(self.body, at)?,
                word(self.body, at + 4)?,
                word(self.body, at + 8)?,
            );
            let bits = if parent.has_sizes {
                place & 0x00ff_ffff
            } else {
                place
            };
            let bytes = u64::from(bits / 8);
            if self.is_named(name, "") {
                let (inner, member_type) =
                    self.member(self.resolve(member_type)?, wanted, depth + 1, steps)?;
                return Some((bytes + inner, member_type));
            }
            self.is_named(name, wanted).then_some((bytes, member_type))
        })
    }

    /// The type behind typedefs and qualifiers.
    fn resolve(&self, id: u32) -> Option<Type> {
        let mut id = id;
        for _ in 0..16 {
            let resolved = *self.types.get((id as usize).checked_sub(1)?)?;
            match resolved.kind {
                8..=11 | 18 => id = resolved.size_or_id,
                _ => return Some(resolved),
            }
        }
        None
    }

    /// Whether the string at an offset equals `wanted`.
    fn is_named(&self, at: u32, wanted: &str) -> bool {
        let rest = self.strings.get(at as usize..).unwrap_or_default();
        let rest = rest.strip_prefix(wanted.as_bytes());
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use base::skip::limits;

    use super::*;

    /// A section of types, each given by its words, and of concatenated names; the first name is empty.
    fn section(types: &[&[u32]], names: &[&str]) -> Vec<u8> {
        let body: Vec<u8> = types
            .concat()
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let strings = names.join("\0") + "\0";
        let mut data = MAGIC.to_le_bytes().to_vec();
        data.extend([1, 0]);
        let sizes = [24, 0, body.len(), body.len(), strings.len()];
        data.extend(sizes.iter().flat_map(|size| (*size as u32).to_le_bytes()));
        data.extend(body);
        data.extend(strings.as_bytes());
        data
    }

    /// Offset of a name among `names`.
    fn at(names: &[&str], wanted: &str) -> u32 {
        let before = names.iter().take_while(|name| **name != wanted);
        before.map(|name| name.len() as u32 + 1).sum()
    }

    fn kind(kind: u8, has_sizes: bool, count: u32) -> u32 {
        u32::from(has_sizes) << 31 | u32::from(kind) << 24 | count
    }

    const NAMES: [&str; 7] = ["", "int", "task", "pid", "info", "delay", "alias"];

    /// `struct { int delay at 8 }`, known as `alias`, in an anonymous union of `task`, after `pid`, which is a bit field.
    fn task() -> Vec<u8> {
        let name = |wanted| at(&NAMES, wanted);
        section(
            &[
                &[name("int"), kind(1, false, 0), 4, 32],
                &[0, kind(STRUCT, false, 1), 16, name("delay"), 1, 64],
                &[name("alias"), kind(8, false, 0), 2],
                &[0, kind(10, false, 0), 3],
                &[0, kind(UNION, false, 1), 16, name("info"), 4, 0],
                &[
                    name("task"),
                    kind(STRUCT, true, 2),
                    64,
                    name("pid"),
                    1,
                    5 << 24 | 32,
                    0,
                    5,
                    128,
                ],
            ],
            &NAMES,
        )
    }

    #[test]
    fn members_are_found_through_anonymous_unions_typedefs_and_bit_fields() {
        let data = task();
        let btf = Btf::read(&data).unwrap();
        assert_eq!(btf.offset("task", &["pid"]), Some(4));
        assert_eq!(btf.offset("task", &["info"]), Some(16));
        assert_eq!(btf.offset("task", &["info", "delay"]), Some(24));
        assert_eq!(btf.offset("task", &["delay"]), None);
        assert_eq!(btf.offset("alias", &["delay"]), None);
    }

    #[test]
    fn a_truncated_or_circular_section_does_not_panic() {
        let data = task();
        for end in 0..data.len() {
            if let Ok(btf) = Btf::read(&data[..end]) {
                let _ = btf.offset("task", &["info", "delay"]);
            }
        }
        let name = |wanted| at(&NAMES, wanted);
        let circle = section(
            &[
                &[name("alias"), kind(8, false, 0), 1],
                &[
                    name("task"),
                    kind(STRUCT, false, 2),
                    8,
                    name("pid"),
                    1,
                    0,
                    0,
                    2,
                    0,
                ],
            ],
            &NAMES,
        );
        let btf = Btf::read(&circle).unwrap();
        assert_eq!(btf.offset("task", &["pid", "delay"]), None);
        assert_eq!(btf.offset("task", &["delay"]), None);
        let unknown = section(&[&[0, kind(31, false, 0), 0]], &NAMES);
        let why = Btf::read(&unknown).unwrap_err().to_string();
        assert_eq!(why, "BTF with an unknown kind of type: 31");
    }

    #[test]
    fn nested_anonymous_structures_are_given_up_within_limits() {
        // Each of eight structures has a thousand members, all of the next one.
        let types: Vec<Vec<u32>> = (1..=8)
            .map(|next| {
                let name = if next == 1 { at(&NAMES, "task") } else { 0 };
                let mut words = vec![name, kind(STRUCT, false, 1000), 8];
                (0..1000).for_each(|_| words.extend([0, next + 1, 0]));
                words
            })
            .collect();
        let types: Vec<&[u32]> = types.iter().map(Vec::as_slice).collect();
        let data = section(&types, &NAMES);
        let why = limits::refusal(|| {
            let btf = Btf::read(&data)?;
            btf.offset("task", &["pid"]).context("no such member")
        });
        assert_eq!(why, "no such member");
    }
}
