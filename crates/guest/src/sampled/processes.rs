//! Names of tasks, and the files that their code comes from.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use perf_event::data::Record;

use crate::code::Region;

/// A region of a process that it may execute.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

/// Whether a process belongs to this PID namespace and is not about to end.
pub(super) fn is_visible(process: u32) -> bool {
    ![0, u32::MAX].contains(&process)
}

/// Running and ended tasks.
#[derive(Debug, Default)]
pub(super) struct Processes {
    /// Names of tasks.
    names: HashMap<u32, String>,
    /// Mappings of each process, the latest last.
    mappings: HashMap<u32, Vec<Mapping>>,
    /// Parents of processes: a forked process has its parent's code until it executes another program.
    parents: HashMap<u32, u32>,
}

impl Processes {
    /// Reads all running tasks.
    pub(super) fn running() -> Self {
        let mut known = Self::default();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = process.file_name();
            if let Ok(number) = name.to_string_lossy().parse() {
                known.add(number, &process.path());
            }
        }
        known
    }

    fn add(&mut self, process: u32, dir: &Path) {
        let tasks = fs::read_dir(dir.join("task"));
        for task in tasks.into_iter().flatten().flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if let Ok(number) = task.file_name().to_string_lossy().parse() {
                self.names.insert(number, name.trim_end().into());
            }
        }
        let maps = fs::read_to_string(dir.join("maps")).unwrap_or_default();
        let mappings: Vec<Mapping> = maps.lines().filter_map(Mapping::parse).collect();
        if !mappings.is_empty() {
            self.mappings.insert(process, mappings);
        }
    }

    /// Updates a task that began, changed its name, or mapped code.
    pub(super) fn update(&mut self, record: &Record<'_>) {
        match record {
            Record::Comm(comm) if is_visible(comm.pid) => {
                let name = String::from_utf8_lossy(&comm.comm).into_owned();
                self.names.insert(comm.tid, name);
            }
            Record::Fork(fork) if is_visible(fork.pid) => {
                if fork.pid != fork.ppid {
                    self.parents.insert(fork.pid, fork.ppid);
                }
                if let Some(name) = self.names.get(&fork.ptid).cloned() {
                    self.names.entry(fork.tid).or_insert(name);
                }
            }
            Record::Mmap2(mmap) if is_visible(mmap.pid) => {
                let mapping = Mapping {
                    start: mmap.addr,
                    end: mmap.addr.saturating_add(mmap.len),
                    offset: mmap.pgoff,
                    path: String::from_utf8_lossy(&mmap.filename).into_owned(),
                };
                self.mappings.entry(mmap.pid).or_default().push(mapping);
            }
            _ => {}
        }
    }

    /// The name of a task, or of its process.
    pub(super) fn name(&self, process: u32, task: u32) -> &str {
        let name = self.names.get(&task).or_else(|| self.names.get(&process));
        name.map_or("?", String::as_str)
    }

    /// The file of an address of a process, and the offset in it.
    pub(super) fn code(&self, process: u32, address: u64) -> Option<(&str, u64)> {
        // Reused process numbers may make a cycle.
        const MAX_ANCESTORS: usize = 16;
        let ancestors = std::iter::successors(Some(process), |pid| self.parents.get(pid).copied());
        ancestors.take(MAX_ANCESTORS).find_map(|pid| {
            let has_address = |map: &&Mapping| map.start <= address && address < map.end;
            let map = self.mappings.get(&pid)?.iter().rev().find(has_address)?;
            Some((map.path.as_str(), address - map.start + map.offset))
        })
    }
}

impl Mapping {
    /// Parses a line of `/proc/PID/maps`; `None` if the region is not executable.
    fn parse(line: &str) -> Option<Self> {
        let region = Region::parse(line)?;
        Some(Self {
            start: region.start,
            end: region.end,
            offset: region.offset,
            path: region.path.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end: start + 0x1000,
            offset: 0x2000,
            path: path.into(),
        }
    }

    #[test]
    fn a_line_of_maps_is_code_or_not() {
        let line = "7f00-7f10 r-xp 00000026 fe:00 1234      /usr/lib/libc.so.6";
        let code = Mapping::parse(line).unwrap();
        assert_eq!((code.start, code.offset), (0x7f00, 0x26));
        assert_eq!(code.path, "/usr/lib/libc.so.6");
        assert_eq!(Mapping::parse(&line.replace("r-xp", "r--p")), None);
        let anonymous = Mapping::parse("7f00-7f10 r-xp 00000000 00:00 0").unwrap();
        assert_eq!(anonymous.path, "");
    }

    #[test]
    fn a_forked_process_has_its_parents_code_until_it_has_its_own() {
        let mut known = Processes::default();
        known.mappings.insert(1, vec![mapping(0x1000, "/bin/sh")]);
        known.parents.insert(2, 1);
        assert_eq!(known.code(2, 0x1010), Some(("/bin/sh", 0x2010)));
        known.mappings.insert(2, vec![mapping(0x1000, "/bin/cat")]);
        assert_eq!(known.code(2, 0x1010), Some(("/bin/cat", 0x2010)));
        assert_eq!(known.code(2, 0x5000), None);
        // A cycle ends.
        known.parents.insert(1, 2);
        assert_eq!(known.code(2, 0x5000), None);
    }
}
