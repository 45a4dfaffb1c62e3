//! Functions of programs, libraries and kernel modules, from their ELF files.

use anyhow::{Context, Result, bail};
use base::input::text;
use object::elf::DT_NEEDED;
use object::read::elf::ElfFile64;
use object::{
    File, Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, Section, Symbol,
    SymbolKind,
};

use crate::budget::NAME_BYTES;

/// Total length of the names of sections or symbols of one file, in bytes. Several names may share one text, so the file's
/// length does not limit it. The largest server has 50 MiB.
const NAMES_BYTES: usize = 128 << 20;

/// Most segments that are inspected; programs have a dozen.
const MOST_SEGMENTS: usize = 64;

/// The section with a name. A damaged name ends the search.
pub fn section<'d, 'f>(file: &'f File<'d>, wanted: &str) -> Option<Section<'d, 'f>> {
    let mut names = NameBudget::default();
    for section in file.sections() {
        let name = names.take(section.name_bytes()).ok()?;
        if name == wanted.as_bytes() {
            return Some(section);
        }
    }
    None
}

/// Length of the names read so far.
#[derive(Default)]
struct NameBudget {
    bytes: usize,
}

impl NameBudget {
    /// Counts the next name. Finding an unterminated name costs as much time as reading the whole file.
    fn take<'n>(&mut self, name: object::Result<&'n [u8]>) -> Result<&'n [u8]> {
        let name = name.context("name without an end")?;
        self.bytes += name.len();
        if self.bytes > NAMES_BYTES {
            bail!("names of more than {NAMES_BYTES} bytes");
        }
        Ok(name)
    }

    /// The name of a symbol, cut to what a profile keeps; `None` if it has none or is not UTF-8.
    fn symbol_name(&mut self, symbol: &Symbol<'_, '_>) -> Result<Option<String>> {
        let name = std::str::from_utf8(self.take(symbol.name_bytes())?);
        let name = name.ok().filter(|name| !name.is_empty());
        Ok(name.map(|name| text::cut(name, NAME_BYTES).into()))
    }
}

/// A function in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileFunction {
    /// Its start in the file; in a module, in its section.
    pub offset: u64,
    /// Its length; 0 if the file does not tell.
    pub bytes: u64,
    /// Name of the function.
    pub name: String,
}

/// Functions of a program or library by their offset in the file, ascending; empty if the file is stripped.
pub fn functions(file: &[u8]) -> Result<Vec<FileFunction>> {
    let file = object::File::parse(file).context("not an ELF file")?;
    let segments: Vec<_> = file
        .segments()
        .take(MOST_SEGMENTS)
        .map(|segment| (segment.address(), segment.file_range()))
        .collect();
    let place = |address: u64| {
        segments.iter().find_map(|(start, (offset, bytes))| {
            let inside = address
                .checked_sub(*start)
                .filter(|inside| inside < bytes)?;
            Some(offset + inside)
        })
    };
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let symbols =
        symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    let (mut names, mut functions) = (NameBudget::default(), Vec::new());
    for symbol in symbols {
        if let (Some(offset), Some(name)) = (place(symbol.address()), names.symbol_name(&symbol)?) {
            let bytes = symbol.size();
            functions.push(FileFunction {
                offset,
                bytes,
                name,
            });
        }
    }
    Ok(sorted(functions))
}

/// Names of the linked libraries (`DT_NEEDED` in elf(5)); empty if the file is not a 64-bit ELF file.
pub fn needed(file: &[u8]) -> Vec<String> {
    let Ok(elf) = ElfFile64::<object::Endianness>::parse(file) else {
        return Vec::new();
    };
    let Ok(table) = elf.elf_dynamic_table() else {
        return Vec::new();
    };
    let entries = table.iter().filter(|entry| entry.tag == DT_NEEDED);
    let mut names = NameBudget::default();
    let taken = entries.map_while(|entry| names.take(table.string(entry)).ok());
    let whole = taken.filter(|name| name.len() <= NAME_BYTES);
    whole
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

/// Functions in one section of a module, by their offset in it, ascending.
pub fn module_functions(module: &[u8], section: &str) -> Result<Vec<FileFunction>> {
    let file = object::File::parse(module).context("not a module")?;
    let Some(section) = self::section(&file, section) else {
        return Ok(Vec::new());
    };
    let symbols = file
        .symbols()
        .filter(|symbol| symbol.section_index() == Some(section.index()));
    let (mut names, mut functions) = (NameBudget::default(), Vec::new());
    for symbol in symbols.filter(|symbol| symbol.kind() == SymbolKind::Text) {
        let name = names.symbol_name(&symbol)?;
        if let Some(name) = name.filter(|name| !name.starts_with("__pfx_")) {
            functions.push(FileFunction {
                offset: symbol.address(),
                bytes: symbol.size(),
                name,
            });
        }
    }
    Ok(sorted(functions))
}

/// Sorts by offset. Of several names at one offset, keeps the one with the fewest leading underscores.
fn sorted(mut functions: Vec<FileFunction>) -> Vec<FileFunction> {
    let underscores = |name: &str| name.bytes().take_while(|byte| *byte == b'_').count();
    let key = |function: &FileFunction| {
        let name = &function.name;
        (function.offset, underscores(name), name.len())
    };
    functions.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name)));
    functions.dedup_by_key(|function| function.offset);
    functions
}

/// The function that contains an offset.
pub fn at(functions: &[FileFunction], offset: u64) -> Option<&FileFunction> {
    let after = functions.partition_point(|function| function.offset <= offset);
    let function = functions.get(after.checked_sub(1)?)?;
    // Assembly code often has no length.
    (function.bytes == 0 || offset - function.offset < function.bytes).then_some(function)
}

#[cfg(test)]
mod tests {
    use base::skip::limits;

    use super::*;

    /// An ELF file of 64 bits with a section per kind and body; all names are in the last section.
    fn file(sections: &[(u32, u64, &[u8])]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        bytes.extend([1, 0, 62, 0, 1, 0, 0, 0]);
        bytes.resize(64, 0);
        let mut heads = vec![0; 64];
        for (kind, entry_bytes, body) in sections {
            let mut head = vec![0; 4];
            head.extend(kind.to_le_bytes());
            head.extend([0; 16]);
            for value in [bytes.len() as u64, body.len() as u64] {
                head.extend(value.to_le_bytes());
            }
            // Names of symbols are in the last section too.
            head.extend((sections.len() as u32).to_le_bytes());
            head.extend([0; 12]);
            head.extend(entry_bytes.to_le_bytes());
            heads.extend(head);
            bytes.extend(*body);
        }
        let at = bytes.len() as u64;
        bytes[40..48].copy_from_slice(&at.to_le_bytes());
        bytes[58..60].copy_from_slice(&64_u16.to_le_bytes());
        let count = sections.len() as u16;
        bytes[60..62].copy_from_slice(&(count + 1).to_le_bytes());
        bytes[62..64].copy_from_slice(&count.to_le_bytes());
        bytes.extend(heads);
        bytes
    }

    const SYMBOLS: u32 = 2;
    const TEXTS: u32 = 3;

    /// A function symbol in the first section, whose name starts at the first byte.
    fn symbol() -> Vec<u8> {
        let mut symbol = 1_u32.to_le_bytes().to_vec();
        symbol.extend([2, 0, 1, 0]);
        symbol.extend([0; 16]);
        symbol
    }

    fn texts(bytes: usize) -> Vec<u8> {
        let mut texts = vec![b'x'; bytes];
        (texts[0], texts[bytes - 1]) = (0, 0);
        texts
    }

    #[test]
    fn symbols_that_share_a_long_name_are_refused_within_limits() {
        let symbols = symbol().repeat(40_000);
        let long = texts(1 << 20);
        let sections: [(u32, u64, &[u8]); 3] =
            [(1, 0, b"code"), (SYMBOLS, 24, &symbols), (TEXTS, 0, &long)];
        let body = file(&sections);
        let why = limits::refusal(|| module_functions(&body, ""));
        assert_eq!(why, "names of more than 134217728 bytes");
    }

    #[test]
    fn a_long_name_is_cut_and_a_short_one_is_kept() {
        for (bytes, want) in [(12, 10), (2000, NAME_BYTES)] {
            // The first symbol of a table is none.
            let (symbols, texts) = (symbol().repeat(2), texts(bytes));
            let sections: [(u32, u64, &[u8]); 3] =
                [(1, 0, b"code"), (SYMBOLS, 24, &symbols), (TEXTS, 0, &texts)];
            let functions = module_functions(&file(&sections), "").unwrap();
            let names: Vec<usize> = functions
                .iter()
                .map(|function| function.name.len())
                .collect();
            assert_eq!(names, [want]);
        }
    }
}
