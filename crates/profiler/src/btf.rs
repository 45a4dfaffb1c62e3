//! Where members lie in the kernel's structures, from its BTF (Documentation/bpf/btf.rst).

use anyhow::{Context, Result, bail};

/// The types of a kernel.
#[derive(Debug)]
pub struct Btf<'b> {
    types: Vec<Type>,
    body: &'b [u8],
    strings: &'b [u8],
}

/// One type; its members stand in the body.
#[derive(Debug, Clone, Copy)]
struct Type {
    name: u32,
    kind: u8,
    /// Whether members have bit sizes of their own.
    has_sizes: bool,
    count: u32,
    /// Size, or the type that it refers to.
    of: u32,
    at: usize,
}

const MAGIC: u16 = 0xeb9f;
const STRUCT: u8 = 4;
const UNION: u8 = 5;

/// Bytes behind the head of a type, by its kind: a fixed number, and so many for each of its parts.
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
        let head = data.get(..24).context(cut)?;
        if u16::from_le_bytes([head[0], head[1]]) != MAGIC {
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
            let head = |index: usize| word(body, at + index * 4).context(cut);
            let (name, info, of) = (head(0)?, head(1)?, head(2)?);
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
                of,
                at: at + 12,
            });
            at += 12 + fixed + each * count as usize;
        }
        Ok(Self {
            types,
            body,
            strings,
        })
    }

    /// Where a member lies in a structure, in bytes: `offset("task_struct", &["sched_info", "run_delay"])`.
    pub fn offset(&self, structure: &str, path: &[&str]) -> Option<u64> {
        let is_it = |kind: &&Type| {
            kind.kind == STRUCT && self.text(kind.name) == Some(structure.as_bytes())
        };
        let mut own = *self.types.iter().find(is_it)?;
        let mut bytes = 0;
        for name in path {
            let (offset, of) = self.member(own, name, 0)?;
            bytes += offset;
            own = self.resolve(of)?;
        }
        Some(bytes)
    }

    /// Offset and type of a member, also of one within a nameless structure.
    fn member(&self, own: Type, wanted: &str, depth: u32) -> Option<(u64, u32)> {
        const DEEPEST: u32 = 8;
        if !matches!(own.kind, STRUCT | UNION) || depth > DEEPEST {
            return None;
        }
        (0..own.count as usize).find_map(|index| {
            let at = own.at + index * 12;
            let (name, of, place) = (
                word(self.body, at)?,
                word(self.body, at + 4)?,
                word(self.body, at + 8)?,
            );
            let bits = if own.has_sizes {
                place & 0x00ff_ffff
            } else {
                place
            };
            let bytes = u64::from(bits / 8);
            match self.text(name)? {
                [] => {
                    let (inner, of) = self.member(self.resolve(of)?, wanted, depth + 1)?;
                    Some((bytes + inner, of))
                }
                text if text == wanted.as_bytes() => Some((bytes, of)),
                _ => None,
            }
        })
    }

    /// The type behind typedefs and qualifiers.
    fn resolve(&self, id: u32) -> Option<Type> {
        let mut id = id;
        for _ in 0..16 {
            let own = *self.types.get((id as usize).checked_sub(1)?)?;
            match own.kind {
                8..=11 | 18 => id = own.of,
                _ => return Some(own),
            }
        }
        None
    }

    fn text(&self, at: u32) -> Option<&'b [u8]> {
        let rest = self.strings.get(at as usize..)?;
        Some(&rest[..rest.iter().position(|byte| *byte == 0)?])
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?))
}
