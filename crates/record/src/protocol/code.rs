//! Addresses of a guest's code, to resolve those of a profile. Profiled guests send them after the window.

use serde::{Deserialize, Serialize};

/// Code of a guest, or part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// Sections of modules.
    pub sections: Vec<ModuleSection>,
    /// Files with executable pages, and the memory in which a virtual machine of Java compiles.
    pub files: Vec<MappedFile>,
    /// Methods that such machines have compiled.
    pub methods: Vec<Method>,
}

/// A section of a kernel module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleSection {
    /// The module.
    pub module: String,
    /// The section, `.text`.
    pub section: String,
    /// Its address.
    pub address: u64,
}

/// A file with executable pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedFile {
    /// Its path in the guest.
    pub path: String,
    /// Its pages in memory.
    pub pieces: Vec<Piece>,
}

/// A method that a virtual machine of Java has compiled, or a part of that machine that it has made at its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Method {
    /// The machine's process.
    pub process: u32,
    /// Its address in that process.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// Class and method.
    pub name: String,
}

/// The path of `MappedFile` for code that a process of Java has compiled. Its pages are numbered by their addresses in that process.
pub fn java_code(process: u32) -> String {
    format!("[java {process}]")
}

/// Consecutive pages in a file and in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Piece {
    /// Number of the first page in the file.
    pub page: u64,
    /// Number of the first page in the guest's physical memory.
    pub frame: u64,
    /// Number of pages.
    pub pages: u64,
}

/// Longest name, in bytes: the kernel's limit of a path.
const NAME_BYTES: usize = 4096;

/// Limits above those of any real guest.
const MOST_SECTIONS: usize = 1 << 14;
const MOST_FILES: usize = 1 << 12;
const MOST_PIECES: usize = 1 << 18;
const MOST_METHODS: usize = 1 << 18;

/// Most pages of a file or a memory.
const MOST_PAGES: u64 = 1 << 40;

impl Code {
    /// Adds a part.
    ///
    /// # Errors
    /// The part exceeds a limit.
    pub fn add(&mut self, part: Self) -> Result<(), String> {
        let names = part
            .sections
            .iter()
            .flat_map(|section| [&section.module, &section.section]);
        let names = names.chain(part.files.iter().map(|file| &file.path));
        let names = names.chain(part.methods.iter().map(|method| &method.name));
        if let Some(name) = names.into_iter().find(|name| name.len() > NAME_BYTES) {
            return Err(format!("name of code too long: {} bytes", name.len()));
        }
        let mut pieces = part.files.iter().flat_map(|file| &file.pieces);
        let is_out_of_range = |piece: &&Piece| {
            [piece.page, piece.frame, piece.pages]
                .into_iter()
                .any(|number| number > MOST_PAGES)
        };
        if let Some(piece) = pieces.find(is_out_of_range) {
            return Err(format!("pages of code beyond any memory: {piece:?}"));
        }
        self.sections.extend(part.sections);
        self.files.extend(part.files);
        self.methods.extend(part.methods);
        let pieces: usize = self.files.iter().map(|file| file.pieces.len()).sum();
        if self.sections.len() > MOST_SECTIONS
            || self.files.len() > MOST_FILES
            || pieces > MOST_PIECES
            || self.methods.len() > MOST_METHODS
        {
            return Err("more code than a guest has".into());
        }
        Ok(())
    }

    /// Divides it into parts for messages below `LIMIT`.
    pub fn parts(self) -> impl Iterator<Item = Self> {
        // A section takes about 100 bytes, a piece about 50, a method some hundred, rarely a thousand.
        const SECTIONS: usize = 1000;
        const PIECES: usize = 4000;
        const METHODS: usize = 500;
        let sections = self.sections.chunks(SECTIONS).map(|sections| Self {
            sections: sections.to_vec(),
            ..Self::default()
        });
        let methods = self.methods.chunks(METHODS).map(|methods| Self {
            methods: methods.to_vec(),
            ..Self::default()
        });
        let mut parts: Vec<Self> = sections.chain(methods).collect();
        for MappedFile { path, pieces } in self.files {
            parts.extend(pieces.chunks(PIECES).map(|pieces| Self {
                files: vec![MappedFile {
                    path: path.clone(),
                    pieces: pieces.to_vec(),
                }],
                ..Self::default()
            }));
        }
        parts.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(pieces: u64) -> Code {
        let piece = |page| Piece {
            page,
            frame: page + 7,
            pages: 1,
        };
        Code {
            sections: vec![ModuleSection {
                module: "veth".into(),
                section: ".text".into(),
                address: 1 << 63,
            }],
            files: vec![MappedFile {
                path: "/usr/sbin/nginx".into(),
                pieces: (0..pieces).map(piece).collect(),
            }],
            methods: vec![
                Method {
                    process: 7,
                    address: 1 << 46,
                    bytes: 100,
                    name: "trade.Trade.service".into(),
                };
                1200
            ],
        }
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let mut all = Code::default();
        for part in code(10_000).parts() {
            assert!(serde_json::to_vec(&part).unwrap().len() < crate::protocol::LIMIT as usize);
            all.add(part).unwrap();
        }
        assert_eq!(all.sections, code(1).sections);
        assert_eq!(all.methods, code(1).methods);
        let pieces = all
            .files
            .iter()
            .map(|file| file.pieces.len())
            .sum::<usize>();
        assert_eq!(pieces, 10_000);
    }

    #[test]
    fn more_than_a_guest_has_is_refused() {
        let mut out_of_range = code(1);
        out_of_range.files[0].pieces[0].frame = u64::MAX;
        let why = Code::default().add(out_of_range).unwrap_err();
        assert!(why.contains("beyond any memory"));
        let mut long = code(1);
        long.sections[0].module = "m".repeat(5000);
        assert_eq!(
            Code::default().add(long).unwrap_err(),
            "name of code too long: 5000 bytes"
        );
        let mut all = Code::default();
        let why = (0..100).find_map(|_| all.add(code(10_000)).err());
        assert_eq!(why.as_deref(), Some("more code than a guest has"));
    }
}
