//! Reads the kernel's symbol table (kallsyms) in the unpacked image.
//!
//! Nothing points to it, so it is found by its form (scripts/kallsyms.c). Names are packed with 256 tokens, whose table and
//! index are unmistakable; the packed names are verified by their markers, and the addresses by that of `_text`.
//!
//! ```text
//! to 6.3      offsets, base, number, names, markers, (order by name,) tokens, index
//! from 6.4    number, names, markers, tokens, index, offsets, base
//! 7.x         the same, but each offset is relative to its own position
//! ```

use std::ops::Range;

use anyhow::{Context, Result, bail};

/// A symbol of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its address; for per-CPU variables the offset in their area, in kernels where that starts at 0.
    pub address: u64,
    /// As in nm(1): `T`, `t`, `W`, `w` are functions.
    pub kind: u8,
    /// Name of the symbol.
    pub name: String,
}

/// Read-only data of the kernel, and its address.
#[derive(Debug, Clone, Copy)]
pub struct Section<'s> {
    /// Address of its first byte.
    pub address: u64,
    /// Its bytes.
    pub data: &'s [u8],
}

/// Kernels have thousands to hundreds of thousands of symbols; other numbers are not taken for the table's.
const MOST_SYMBOLS: usize = 1 << 20;
const FEWEST_SYMBOLS: usize = 64;

/// Names between two markers.
const PER_MARKER: usize = 256;

/// Longest name in bytes, `KSYM_NAME_LEN`.
const MAX_NAME_LEN: usize = 512;

/// Total length of the unpacked names, in bytes. A kernel has 6 MiB; tokens let three bytes stand for a name of 512.
const NAMES_BYTES: usize = 64 << 20;

/// Most names to skip until the table is found. A kernel takes some hundred thousand. Data in which names could start
/// everywhere would take quadratic time.
const MOST_STEPS: usize = 4 << 20;

/// `_stext` lies at most so far behind `_text`: on arm64 after the image's header, which fills 64 KiB.
const TEXT_OFFSET: u64 = 0x2_0000;

/// Reads the table; `text` is the address of `_text`.
pub fn read(section: Section<'_>, text: u64) -> Result<Vec<Symbol>> {
    let tokens = Tokens::find(section.data).context("kernel without kallsyms (CONFIG_KALLSYMS)")?;
    let names = Names::find(section.data, &tokens)?;
    let addresses = addresses(section, &tokens, &names, text)
        .context("kallsyms of an unknown form: no addresses")?;
    let symbols = names
        .texts
        .into_iter()
        .zip(addresses)
        .filter_map(|(text, address)| {
            let (kind, name) = text.split_first()?;
            Some(Symbol {
                address,
                kind: *kind,
                name: String::from_utf8_lossy(name).into_owned(),
            })
        });
    Ok(symbols.collect())
}

/// The token table that names are packed with.
struct Tokens<'s> {
    words: Vec<&'s [u8]>,
    start: usize,
    /// Offset after the index.
    end: usize,
}

impl<'s> Tokens<'s> {
    /// Finds the table by its digits, which every kernel has as single tokens, and verifies the table and index around them.
    fn find(data: &'s [u8]) -> Option<Self> {
        const DIGITS: &[u8; 20] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00";
        let mut from = 0;
        while let Some(at) = find(&data[from..], DIGITS) {
            from += at + 1;
            if let Some(tokens) = Self::around(data, from - 1) {
                return Some(tokens);
            }
        }
        None
    }

    /// The table whose token for the digit 0, the 48th, is at `zero`.
    fn around(data: &'s [u8], zero: usize) -> Option<Self> {
        let mut start = zero;
        for _ in 0..usize::from(b'0') {
            let end = start.checked_sub(1)?;
            let from = end.saturating_sub(MAX_NAME_LEN);
            start = from + data[from..end].iter().rposition(|byte| *byte == 0)? + 1;
        }
        let (mut words, mut offsets) = (Vec::new(), Vec::new());
        let mut at = start;
        for _ in 0..256 {
            let length = data
                .get(at..)?
                .iter()
                .take(MAX_NAME_LEN)
                .position(|byte| *byte == 0)?;
            words.push(&data[at..at + length]);
            offsets.push(u16::try_from(at - start).ok()?);
            at += length + 1;
        }
        [2, 4, 8].into_iter().find_map(|alignment| {
            let index = at.next_multiple_of(alignment);
            let entries = data.get(index..index + 512)?.chunks_exact(2);
            let is_index = entries
                .map(|entry| u16::from_le_bytes([entry[0], entry[1]]))
                .eq(offsets.iter().copied());
            is_index.then(|| Self {
                words: words.clone(),
                start,
                end: index + 512,
            })
        })
    }
}

/// Names, each starting with its kind, and the offset of their number.
struct Names {
    texts: Vec<Vec<u8>>,
    number: usize,
}

impl Names {
    fn find(data: &[u8], tokens: &Tokens<'_>) -> Result<Self> {
        const NONE: &str = "kallsyms of an unknown form: no names";
        let mut steps = MOST_STEPS;
        let places = (0..tokens.start.checked_sub(8).context(NONE)?).step_by(4);
        for number in places {
            let count = word(data, number).context(NONE)? as usize;
            if !(FEWEST_SYMBOLS..MOST_SYMBOLS).contains(&count) {
                continue;
            }
            // Up to 6.x the names start at a multiple of 8.
            for start in [number + 8, number + 4] {
                if is_table(&data[..tokens.start], start, count, &mut steps)
                    && let Some(texts) = Self::at(data, start, count, tokens)
                {
                    return Ok(Self { texts, number });
                }
            }
            if steps == 0 {
                bail!("kallsyms of an unknown form: no names within {MOST_STEPS} steps");
            }
        }
        bail!(NONE)
    }

    /// Unpacks the names of a table that starts at `start`.
    fn at(data: &[u8], start: usize, count: usize, tokens: &Tokens<'_>) -> Option<Vec<Vec<u8>>> {
        let mut at = start;
        let (mut texts, mut bytes) = (Vec::with_capacity(count), 0);
        for _ in 0..count {
            let packed = packed(data, at)?;
            at = packed.end;
            let mut text = Vec::new();
            for code in &data[packed] {
                text.extend_from_slice(tokens.words[usize::from(*code)]);
                if text.len() > 2 * MAX_NAME_LEN {
                    return None;
                }
            }
            bytes += text.len();
            let is_name = text.len() > 1 && text[0].is_ascii_alphabetic();
            if !is_name || bytes > NAMES_BYTES {
                return None;
            }
            texts.push(text);
        }
        Some(texts)
    }
}

/// The range of a packed name whose length is at `at`.
fn packed(data: &[u8], at: usize) -> Option<Range<usize>> {
    let (length, head) = match (*data.get(at)?, *data.get(at + 1)?) {
        (short, _) if short < 0x80 => (usize::from(short), 1),
        (low, high) => (usize::from(low & 0x7f) | usize::from(high) << 7, 2),
    };
    let end = at + head + length;
    ((1..=MAX_NAME_LEN).contains(&length) && end <= data.len()).then_some(at + head..end)
}

/// Whether `count` packed names start at `start`, followed by their markers. Nothing is unpacked; each name is a step.
fn is_table(data: &[u8], start: usize, count: usize, steps: &mut usize) -> bool {
    let (mut at, mut markers) = (start, Vec::new());
    for index in 0..count {
        if index % PER_MARKER == 0 {
            markers.push((at - start) as u32);
        }
        let Some(packed) = packed(data, at).filter(|_| *steps > 0) else {
            return false;
        };
        *steps -= 1;
        at = packed.end;
    }
    [4, 8].into_iter().any(|alignment| {
        let place = at.next_multiple_of(alignment);
        let mut places = markers.iter().zip((place..).step_by(4));
        places.all(|(marker, at)| word(data, at) == Some(*marker))
    })
}

/// How an offset is converted to an address.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// Relative to a base; non-negative offsets are addresses themselves.
    Mixed { base: u64 },
    /// Relative to a base.
    Based { base: u64 },
    /// Relative to the position of the offset.
    Placed,
}

fn addresses(
    section: Section<'_>,
    tokens: &Tokens<'_>,
    names: &Names,
    text: u64,
) -> Option<Vec<u64>> {
    let data = section.data;
    let bytes = names.texts.len() * 4;
    let before = names.number.checked_sub(8).and_then(|base| {
        let start = base.checked_sub(bytes.next_multiple_of(8))?;
        Some((start, long(data, base)?))
    });
    let after = [4, 8].map(|alignment| {
        let start = tokens.end.next_multiple_of(alignment);
        Some((
            start,
            long(data, (start + bytes).next_multiple_of(8)).unwrap_or(0),
        ))
    });
    let places = [before].into_iter().chain(after).flatten();
    let text_symbols: Vec<usize> = names
        .texts
        .iter()
        .enumerate()
        .filter(|(_, name)| matches!(&name[1..], b"_text" | b"_stext"))
        .map(|(index, _)| index)
        .collect();
    for (start, base) in places {
        let base = match base {
            0 => base_of_relocatable(names, text),
            base => base,
        };
        for form in [Form::Mixed { base }, Form::Based { base }, Form::Placed] {
            let address = |index: usize| {
                let at = start + index * 4;
                let offset = word(data, at)?;
                let signed = i64::from(offset.cast_signed());
                Some(match form {
                    Form::Mixed { .. } if signed >= 0 => offset.into(),
                    Form::Mixed { base } => base.wrapping_sub(1).wrapping_add_signed(-signed),
                    Form::Based { base } => base.wrapping_add(offset.into()),
                    Form::Placed => (section.address + at as u64).wrapping_add_signed(signed),
                })
            };
            let fits = |index: &usize| {
                address(*index).is_some_and(|address| address.wrapping_sub(text) < TEXT_OFFSET)
            };
            if !text_symbols.is_empty() && text_symbols.iter().all(fits) {
                return (0..names.texts.len()).map(address).collect();
            }
        }
    }
    None
}

/// The base in a relocatable kernel of arm64, which writes it only as it boots: the first symbol. That is `_text`, or `_stext` behind
/// the header in a kernel whose table has only functions.
fn base_of_relocatable(names: &Names, text: u64) -> u64 {
    const HEADER_BYTES: u64 = 0x1_0000;
    let has_text = names.texts.iter().any(|name| &name[1..] == b"_text");
    text + if has_text { 0 } else { HEADER_BYTES }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

fn long(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

fn find(data: &[u8], wanted: &[u8]) -> Option<usize> {
    // Comparing windows is fast enough, because most differ in the first byte.
    data.windows(wanted.len())
        .position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use base::skip::limits;

    use super::*;

    const TEXT: u64 = 0xffff_ffff_8100_0000;
    const RODATA: u64 = 0xffff_ffff_8200_0000;

    /// Layouts of the table in kernel versions.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Layout {
        /// To 6.3.
        OffsetsFirst,
        /// From 6.4.
        OffsetsLast,
        /// 7.x.
        Placed,
    }

    const LAYOUTS: [Layout; 3] = [Layout::OffsetsFirst, Layout::OffsetsLast, Layout::Placed];

    fn symbols() -> Vec<Symbol> {
        let symbol = |address, kind, name: &str| Symbol {
            address,
            kind,
            name: name.into(),
        };
        let mut symbols = vec![
            symbol(TEXT, b'T', "_stext"),
            symbol(TEXT, b'T', "_text"),
            symbol(TEXT + 0x40, b'T', &"long_name_".repeat(20)),
        ];
        let more =
            (0..1000).map(|index| symbol(TEXT + 0x100 * (index + 1), b't', &format!("f{index}")));
        symbols.extend(more);
        symbols
    }

    /// The table as scripts/kallsyms.c writes it, without tokens of several characters, after other data.
    fn table(layout: Layout) -> Vec<u8> {
        let symbols = symbols();
        let mut data =
            b"other read-only data 0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00 and more"
                .to_vec();
        let align = |data: &mut Vec<u8>, to: usize| data.resize(data.len().next_multiple_of(to), 0);
        let (mut names, mut markers) = (Vec::new(), Vec::new());
        for (symbol, index) in symbols.iter().zip(0..) {
            if index % PER_MARKER == 0 {
                markers.push(names.len() as u32);
            }
            let length = symbol.name.len() + 1;
            match length {
                0..0x80 => names.push(length as u8),
                _ => names.extend([length as u8 & 0x7f | 0x80, (length >> 7) as u8]),
            }
            names.push(symbol.kind);
            names.extend(symbol.name.as_bytes());
        }
        let based = |symbol: &Symbol| (TEXT - 1).wrapping_sub(symbol.address) as u32;
        align(&mut data, 8);
        if layout == Layout::OffsetsFirst {
            for symbol in &symbols {
                data.extend(based(symbol).to_le_bytes());
            }
            align(&mut data, 8);
            data.extend(TEXT.to_le_bytes());
        }
        data.extend((symbols.len() as u32).to_le_bytes());
        if layout != Layout::Placed {
            align(&mut data, 8);
        }
        data.extend(names);
        align(&mut data, 8);
        for marker in &markers {
            data.extend(marker.to_le_bytes());
        }
        align(&mut data, 8);
        let mut index = Vec::new();
        let start = data.len();
        for code in 0..=255_u8 {
            index.extend(((data.len() - start) as u16).to_le_bytes());
            if code.is_ascii_graphic() {
                data.push(code);
            }
            data.push(0);
        }
        align(&mut data, 8);
        data.extend(index);
        if layout != Layout::OffsetsFirst {
            for symbol in &symbols {
                let at = RODATA + data.len() as u64;
                let offset = match layout {
                    Layout::Placed => symbol.address.wrapping_sub(at) as u32,
                    Layout::OffsetsFirst | Layout::OffsetsLast => based(symbol),
                };
                data.extend(offset.to_le_bytes());
            }
            align(&mut data, 8);
            data.extend(TEXT.to_le_bytes());
        }
        data
    }

    fn read_table(data: &[u8]) -> Result<Vec<Symbol>> {
        read(
            Section {
                address: RODATA,
                data,
            },
            TEXT,
        )
    }

    #[test]
    fn tables_of_all_layouts_are_found_and_read() {
        for layout in LAYOUTS {
            assert!(
                read_table(&table(layout)).unwrap() == symbols(),
                "{layout:?}"
            );
        }
    }

    #[test]
    fn a_missing_table_is_reported_and_damage_does_not_panic() {
        let why = read_table(b"nothing of the kind").unwrap_err().to_string();
        assert_eq!(why, "kernel without kallsyms (CONFIG_KALLSYMS)");
        for layout in LAYOUTS {
            let whole = table(layout);
            for at in (0..whole.len()).step_by(311) {
                let _ = read_table(&whole[..at]);
                let mut damaged = whole.clone();
                damaged[at] ^= 0xff;
                let _ = read_table(&damaged);
            }
        }
    }

    #[test]
    fn names_that_could_start_anywhere_are_given_up_within_limits() {
        // Each word is a number of symbols that kernels have, and the beginning of a name of three tokens.
        let mut data = [3, b't', 10, 0].repeat(1 << 16);
        let (start, mut index) = (data.len(), Vec::new());
        for code in 0..=255_u8 {
            index.extend(((data.len() - start) as u16).to_le_bytes());
            data.push(if code.is_ascii_graphic() { code } else { b'x' });
            data.push(0);
        }
        data.extend(index);
        let why = limits::refusal(|| read_table(&data));
        assert_eq!(
            why,
            "kallsyms of an unknown form: no names within 4194304 steps"
        );
    }
}
