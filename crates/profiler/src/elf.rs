//! Functions of programs, libraries and modules, from their ELF files.

use anyhow::{Context, Result, bail};
use base::input::text;
use object::elf::DT_NEEDED;
use object::read::elf::ElfFile64;
use object::{
    File, Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, Section, Symbol,
    SymbolKind,
};

use crate::budget::NAME_BYTES;

/// Names of sections or symbols of one file together, in bytes. Several may stand in one text of the file, so that its own length
/// bounds nothing. The largest server has 50 MiB.
const NAMES_BYTES: usize = 128 << 20;

/// Segments of a file that are looked at; programs have a dozen.
const MOST_SEGMENTS: usize = 64;

/// A section by its name. Names that are damaged end the search.
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

/// What names of a file have come to.
#[derive(Default)]
struct NameBudget {
    bytes: usize,
}

impl NameBudget {
    /// The next name. One that has no end has cost as much time as all of the file.
    fn take<'n>(&mut self, name: object::Result<&'n [u8]>) -> Result<&'n [u8]> {
        let name = name.context("name without an end")?;
        self.bytes += name.len();
        if self.bytes > NAMES_BYTES {
            bail!("names of more than {NAMES_BYTES} bytes");
        }
        Ok(name)
    }

    /// The name of a symbol, as long as a profile keeps it; none where it has none, or one that is no text.
    fn of_symbol(&mut self, symbol: &Symbol<'_, '_>) -> Result<Option<String>> {
        let name = std::str::from_utf8(self.take(symbol.name_bytes())?);
        let name = name.ok().filter(|name| !name.is_empty());
        Ok(name.map(|name| text::cut(name, NAME_BYTES).into()))
    }
}

/// A function in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileFunction {
    /// Where it begins in the file; in a module, in its section.
    pub offset: u64,
    /// Its length; 0 where the file does not say.
    pub bytes: u64,
    /// Its name.
    pub name: String,
}

/// Functions of a program or library by their place in the file, ascending; none where it has been stripped of all.
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
    let (mut names, mut found) = (NameBudget::default(), Vec::new());
    for symbol in symbols {
        if let (Some(offset), Some(name)) = (place(symbol.address()), names.of_symbol(&symbol)?) {
            let bytes = symbol.size();
            found.push(FileFunction {
                offset,
                bytes,
                name,
            });
        }
    }
    Ok(sorted(found))
}

/// Names of the libraries that a program or library is linked with (`DT_NEEDED` in elf(5)); none where it is not an ELF file of 64 bits.
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

/// Functions of a module in one of its sections, by their place in it, ascending.
pub fn module_functions(module: &[u8], section: &str) -> Result<Vec<FileFunction>> {
    let file = object::File::parse(module).context("not a module")?;
    let Some(section) = self::section(&file, section) else {
        return Ok(Vec::new());
    };
    let mine = file
        .symbols()
        .filter(|symbol| symbol.section_index() == Some(section.index()));
    let (mut names, mut found) = (NameBudget::default(), Vec::new());
    for symbol in mine.filter(|symbol| symbol.kind() == SymbolKind::Text) {
        let name = names.of_symbol(&symbol)?;
        if let Some(name) = name.filter(|name| !name.starts_with("__pfx_")) {
            found.push(FileFunction {
                offset: symbol.address(),
                bytes: symbol.size(),
                name,
            });
        }
    }
    Ok(sorted(found))
}

/// Of several names of one place the one with the fewest leading underscores.
fn sorted(mut functions: Vec<FileFunction>) -> Vec<FileFunction> {
    let underscores = |name: &str| name.bytes().take_while(|byte| *byte == b'_').count();
    functions.sort_by(|one, other| {
        let key = |function: &FileFunction| {
            (
                function.offset,
                underscores(&function.name),
                function.name.len(),
            )
        };
        key(one)
            .cmp(&key(other))
            .then_with(|| one.name.cmp(&other.name))
    });
    functions.dedup_by_key(|function| function.offset);
    functions
}

/// The function that a place lies in.
pub fn at(functions: &[FileFunction], offset: u64) -> Option<&FileFunction> {
    let after = functions.partition_point(|function| function.offset <= offset);
    let function = functions.get(after.checked_sub(1)?)?;
    // Code written by hand often has no length.
    (function.bytes == 0 || offset - function.offset < function.bytes).then_some(function)
}

#[cfg(test)]
mod tests {
    use base::skip::limits;

    use super::*;

    /// An ELF file of 64 bits with a section for each kind and body, whose names all begin in the last section.
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

    /// A symbol of a function in the first section, whose name begins at the first byte.
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
            let names: Vec<usize> = functions.iter().map(|one| one.name.len()).collect();
            assert_eq!(names, [want]);
        }
    }
}
