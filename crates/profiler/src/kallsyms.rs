//! The kernel's own table of symbols, as it lies in the unpacked image.
//!
//! Nothing says where it is, so it is found by its form (scripts/kallsyms.c): names are packed with 256 tokens, whose table and
//! index are unmistakable; the packed names are checked by their markers, and the addresses by where `_text` lies.
//!
//! ```text
//! to 6.3      offsets, base, number, names, markers, (order by name,) tokens, index
//! from 6.4    number, names, markers, tokens, index, offsets, base
//! 7.x         the same, and each offset is relative to its own place
//! ```

use anyhow::{Context, Result};

/// A symbol of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its address; of per-CPU variables the place in the area in kernels where that begins at 0.
    pub address: u64,
    /// As in nm(1): `T`, `t`, `W`, `w` are functions.
    pub kind: u8,
    /// Its name.
    pub name: String,
}

/// Read-only data of the kernel, and where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Section<'s> {
    /// Address of its first byte.
    pub address: u64,
    /// Its bytes.
    pub data: &'s [u8],
}

/// Kernels have from thousands to hundreds of thousands; no data takes a number beyond for theirs.
const MOST_SYMBOLS: usize = 4 << 20;
const FEWEST_SYMBOLS: usize = 64;

/// Names between two markers.
const PER_MARKER: usize = 256;

/// Most characters of a name, `KSYM_NAME_LEN`.
const MOST_NAME: usize = 512;

/// Reads the table; `text` is the address of `_text`.
pub fn read(section: Section<'_>, text: u64) -> Result<Vec<Symbol>> {
    let tokens = Tokens::find(section.data).context("kernel without kallsyms (CONFIG_KALLSYMS)")?;
    let names =
        Names::find(section.data, &tokens).context("kallsyms of an unknown form: no names")?;
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

/// Words that names are packed with.
struct Tokens<'s> {
    words: Vec<&'s [u8]>,
    start: usize,
    /// Behind the index.
    end: usize,
}

impl<'s> Tokens<'s> {
    /// Digits are tokens of their own in every kernel; what stands around them must be a table with its index.
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

    /// The table in which the token of the digit 0, the 48th, lies at `zero`.
    fn around(data: &'s [u8], zero: usize) -> Option<Self> {
        let mut start = zero;
        for _ in 0..usize::from(b'0') {
            start = data[..start.checked_sub(1)?]
                .iter()
                .rposition(|byte| *byte == 0)?
                + 1;
        }
        let (mut words, mut offsets) = (Vec::new(), Vec::new());
        let mut at = start;
        for _ in 0..256 {
            let length = data
                .get(at..)?
                .iter()
                .take(MOST_NAME)
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

/// Names with their kinds as first characters, and where their number stands.
struct Names {
    texts: Vec<Vec<u8>>,
    number: usize,
}

impl Names {
    fn find(data: &[u8], tokens: &Tokens<'_>) -> Option<Self> {
        // From the table backwards: the names are the nearest thing of their size before it.
        let places = (0..tokens.start.checked_sub(8)?).step_by(4);
        for number in places {
            let count = word(data, number)? as usize;
            if !(FEWEST_SYMBOLS..MOST_SYMBOLS).contains(&count) {
                continue;
            }
            // Up to 6.x what follows begins at a multiple of 8.
            for start in [number + 8, number + 4] {
                if let Some(texts) = Self::at(data, start, count, tokens) {
                    return Some(Self { texts, number });
                }
            }
        }
        None
    }

    fn at(data: &[u8], start: usize, count: usize, tokens: &Tokens<'_>) -> Option<Vec<Vec<u8>>> {
        let mut at = start;
        let (mut texts, mut markers) = (Vec::new(), Vec::new());
        for index in 0..count {
            if index % PER_MARKER == 0 {
                markers.push(u32::try_from(at - start).ok()?);
            }
            let (length, head) = match (*data.get(at)?, *data.get(at + 1)?) {
                (short, _) if short < 0x80 => (usize::from(short), 1),
                (low, high) => (usize::from(low & 0x7f) | usize::from(high) << 7, 2),
            };
            at += head;
            let packed = data
                .get(at..at + length)
                .filter(|_| (1..=MOST_NAME).contains(&length))?;
            at += length;
            if at > tokens.start {
                return None;
            }
            let text: Vec<u8> = packed
                .iter()
                .flat_map(|code| tokens.words[usize::from(*code)])
                .copied()
                .collect();
            let is_name =
                text.len() > 1 && text[0].is_ascii_alphabetic() && text.len() <= 2 * MOST_NAME;
            if !is_name {
                return None;
            }
            texts.push(text);
        }
        [4, 8].into_iter().find_map(|alignment| {
            let place = at.next_multiple_of(alignment);
            let is_it = markers
                .iter()
                .zip((place..).step_by(4))
                .all(|(marker, at)| word(data, at) == Some(*marker));
            is_it.then(|| std::mem::take(&mut texts))
        })
    }
}

/// How an offset becomes an address.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// From a base; those that are not negative are addresses themselves.
    Mixed { base: u64 },
    /// From a base.
    Based { base: u64 },
    /// From where the offset stands.
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
    let behind = [4, 8].map(|alignment| {
        let start = tokens.end.next_multiple_of(alignment);
        Some((
            start,
            long(data, (start + bytes).next_multiple_of(8)).unwrap_or(0),
        ))
    });
    let places = [before].into_iter().chain(behind).flatten();
    let marks: Vec<usize> = names
        .texts
        .iter()
        .enumerate()
        .filter(|(_, name)| matches!(&name[1..], b"_text" | b"_stext"))
        .map(|(index, _)| index)
        .collect();
    for (start, base) in places {
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
                address(*index).is_some_and(|address| address.wrapping_sub(text) < 0x1000)
            };
            if !marks.is_empty() && marks.iter().all(fits) {
                return (0..names.texts.len()).map(address).collect();
            }
        }
    }
    None
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

fn long(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

fn find(data: &[u8], wanted: &[u8]) -> Option<usize> {
    // The first byte is rare enough in tables and frequent enough in texts: windows compare quickly either way.
    data.windows(wanted.len())
        .position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: u64 = 0xffff_ffff_8100_0000;
    const RODATA: u64 = 0xffff_ffff_8200_0000;

    /// How kernels have laid the table out.
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

    /// The table as scripts/kallsyms.c writes it, without tokens of several characters, behind other data.
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
    fn a_kernel_without_a_table_is_named_and_damage_is_no_panic() {
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
}
