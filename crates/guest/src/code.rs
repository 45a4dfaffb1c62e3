//! Where this system's code is in memory, for the names in a profile. Read after the window, so that it affects no figure.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use record::protocol::code::{Code, MappedFile, ModuleSection, Piece, java_code};

use crate::java_methods;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Bits of a page map's entry: the frame's number, and whether the page is in memory
/// (Documentation/admin-guide/mm/pagemap.rst).
const FRAME: u64 = (1 << 55) - 1;
const PRESENT: u64 = 1 << 63;

/// All code that can be found.
pub(crate) fn collect() -> Code {
    let mut code = Code {
        sections: sections(Path::new("/sys/module")),
        ..Code::default()
    };
    let mut pages = Pages::new();
    for process in processes() {
        let java = java_methods::java(&process);
        let methods = java.into_iter().flat_map(java_methods::of);
        code.methods.extend(methods);
        add_process(&process, java, &mut pages);
    }
    let files = pages.into_iter().map(|(path, pages)| MappedFile {
        path,
        pieces: pieces(pages),
    });
    code.files = files.collect();
    code
}

/// Files with the frames of their pages, by number.
type Pages = BTreeMap<String, BTreeMap<u64, u64>>;

/// Directories of all processes.
fn processes() -> impl Iterator<Item = PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.map(|process| process.path());
    processes.filter(|process| {
        let name = process.file_name().unwrap_or_default().to_string_lossy();
        name.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// All modules' sections with code.
fn sections(modules: &Path) -> Vec<ModuleSection> {
    let mut code = Vec::new();
    for module in fs::read_dir(modules).into_iter().flatten().flatten() {
        let sections = fs::read_dir(module.path().join("sections"));
        for section in sections.into_iter().flatten().flatten() {
            let name = section.file_name().to_string_lossy().into_owned();
            let is_code =
                name.contains(".text") && !name.starts_with(".init") && !name.starts_with(".exit");
            let text = fs::read_to_string(section.path()).unwrap_or_default();
            let address = u64::from_str_radix(text.trim().trim_start_matches("0x"), 16);
            if let (true, Ok(address)) = (is_code, address) {
                code.push(ModuleSection {
                    module: module.file_name().to_string_lossy().into_owned(),
                    section: name,
                    address,
                });
            }
        }
    }
    code
}

/// Adds all files of which a process may execute pages, with the frames of these pages. Of Java also the memory in which it compiles.
fn add_process(process: &Path, java: Option<u32>, pages: &mut Pages) {
    let Ok(map) = File::open(process.join("pagemap")) else {
        return;
    };
    let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
    let compiled = java.map(java_code);
    for region in maps.lines().filter_map(Region::parse) {
        let (path, first) = match (&compiled, region.path) {
            (Some(compiled), "") => (compiled.as_str(), region.start / PAGE),
            (None, "") => continue,
            (_, path) => (path, region.offset / PAGE),
        };
        let count = ((region.end - region.start) / PAGE) as usize;
        let mut entries = vec![0; count * 8];
        if map
            .read_exact_at(&mut entries, region.start / PAGE * 8)
            .is_err()
        {
            continue;
        }
        let file = pages.entry(path.to_string()).or_default();
        for (entry, page) in entries.chunks_exact(8).zip(first..) {
            let entry = u64::from_le_bytes(entry.try_into().expect("a chunk of 8"));
            if entry & PRESENT != 0 && entry & FRAME != 0 {
                file.insert(page, entry & FRAME);
            }
        }
    }
}

/// The code of files in a process's `maps`, without anonymous memory.
pub(crate) fn code_of_files(maps: &str) -> impl Iterator<Item = Region<'_>> {
    let regions = maps.lines().filter_map(Region::parse);
    regions.filter(|region| !region.path.is_empty())
}

/// A region of a process that it may execute.
pub(crate) struct Region<'l> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Its offset in the file.
    pub(crate) offset: u64,
    /// The file; empty for anonymous memory.
    pub(crate) path: &'l str,
}

impl<'l> Region<'l> {
    /// Parses a line of `/proc/PID/maps`; `None` if the region is not executable.
    pub(crate) fn parse(line: &'l str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let offset = number(words.next()?)?;
        let path = words.nth(2).unwrap_or_default().trim_start();
        let (start, end) = (number(start)?, number(end)?);
        (rights.contains('x') && start < end).then_some(Self {
            start,
            end,
            offset,
            path,
        })
    }
}

/// Pages that follow one another in the file and in memory become one piece.
fn pieces(pages: BTreeMap<u64, u64>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (page, frame) in pages {
        match pieces.last_mut() {
            Some(last) if last.page + last.pages == page && last.frame + last.pages == frame => {
                last.pages += 1;
            }
            Some(_) | None => pieces.push(Piece {
                page,
                frame,
                pages: 1,
            }),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_taken() {
        let path =
            |line: &str| Region::parse(line).map(|region| (region.path.to_string(), region.offset));
        let code = "7ffff7d8a000-7ffff7edf000 r-xp 00026000 fe:00 1234                       /usr/lib/x86_64-linux-gnu/libc.so.6";
        assert_eq!(
            path(code),
            Some(("/usr/lib/x86_64-linux-gnu/libc.so.6".into(), 0x26000))
        );
        let anonymous = "7ffff7fc9000-7ffff7fcb000 r-xp 00000000 00:00 0";
        assert_eq!(path(anonymous), Some((String::new(), 0)));
        assert_eq!(code_of_files(anonymous).count(), 0);
        assert_eq!(code_of_files(code).count(), 1);
        let data = code.replace("r-xp", "r--p");
        assert_eq!(path(&data), None);
        let spaced = "1000-2000 r-xp 00000000 fe:00 1234   /a b";
        assert_eq!(path(spaced), Some(("/a b".into(), 0)));
    }

    #[test]
    fn pages_in_a_row_are_one_piece() {
        let pages = [(3, 10), (4, 11), (5, 20), (7, 21)].into();
        let piece = |page, frame, pages| Piece { page, frame, pages };
        assert_eq!(
            pieces(pages),
            [piece(3, 10, 2), piece(5, 20, 1), piece(7, 21, 1)]
        );
    }

    #[test]
    fn sections_with_code_are_read_with_their_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let sections_dir = dir.path().join("veth/sections");
        fs::create_dir_all(&sections_dir).unwrap();
        fs::create_dir_all(dir.path().join("built_in")).unwrap();
        for (name, text) in [
            (".text", "0xffffffffc0200000\n"),
            (".init.text", "0x0"),
            (".data", "0x1"),
            (".text.unlikely", "?"),
        ] {
            fs::write(sections_dir.join(name), text).unwrap();
        }
        let section = ModuleSection {
            module: "veth".into(),
            section: ".text".into(),
            address: 0xffff_ffff_c020_0000,
        };
        assert_eq!(sections(dir.path()), [section]);
    }
}
