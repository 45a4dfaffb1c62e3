//! Functions of programs, libraries and modules, from their ELF files.

use anyhow::{Context, Result};
use object::elf::DT_NEEDED;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

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
    let found = symbols.filter_map(|symbol| {
        Some(FileFunction {
            offset: place(symbol.address())?,
            bytes: symbol.size(),
            name: symbol.name().ok().filter(|name| !name.is_empty())?.into(),
        })
    });
    Ok(sorted(found.collect()))
}

/// Names of the libraries that a program or library is linked with (`DT_NEEDED` in elf(5)); none where it is not an ELF file of 64 bits.
pub fn needed(file: &[u8]) -> Vec<String> {
    let Ok(elf) = ElfFile64::<object::Endianness>::parse(file) else {
        return Vec::new();
    };
    let Ok(table) = elf.elf_dynamic_table() else {
        return Vec::new();
    };
    let names = table.iter().filter(|entry| entry.tag == DT_NEEDED);
    let names = names.filter_map(|entry| table.string(entry).ok());
    names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

/// Functions of a module in one of its sections, by their place in it, ascending.
pub fn module_functions(module: &[u8], section: &str) -> Result<Vec<FileFunction>> {
    let file = object::File::parse(module).context("not a module")?;
    let Some(section) = file.section_by_name(section) else {
        return Ok(Vec::new());
    };
    let mine = file
        .symbols()
        .filter(|symbol| symbol.section_index() == Some(section.index()));
    let found = mine
        .filter(|symbol| symbol.kind() == SymbolKind::Text)
        .filter_map(|symbol| {
            Some(FileFunction {
                offset: symbol.address(),
                bytes: symbol.size(),
                name: symbol
                    .name()
                    .ok()
                    .filter(|name| !name.is_empty() && !name.starts_with("__pfx_"))?
                    .into(),
            })
        });
    Ok(sorted(found.collect()))
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
