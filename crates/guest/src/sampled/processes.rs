//! Names of tasks, and which file a program's code is from.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use perf_event::data::Record;

/// A piece of a file that a process may execute.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

/// Whether a process is of this PID namespace, and not about to be gone.
pub(super) fn can_be_seen(process: u32) -> bool {
    ![0, u32::MAX].contains(&process)
}

/// What is known of tasks, ended ones too.
#[derive(Debug, Default)]
pub(super) struct Processes {
    /// Names of tasks.
    names: HashMap<u32, String>,
    /// Of each process, the latest last.
    mappings: HashMap<u32, Vec<Mapping>>,
    /// Whom a process was forked from: until it executes something else, it has its code.
    parents: HashMap<u32, u32>,
}

impl Processes {
    /// Those that run now.
    pub(super) fn running() -> Self {
        let mut known = Self::default();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = process.file_name();
            if let Ok(number) = name.to_string_lossy().parse() {
                known.look_at(number, &process.path());
            }
        }
        known
    }

    fn look_at(&mut self, process: u32, dir: &Path) {
        for task in fs::read_dir(dir.join("task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if let Ok(number) = task.file_name().to_string_lossy().parse() {
                self.names.insert(number, name.trim_end().into());
            }
        }
        let maps = fs::read_to_string(dir.join("maps")).unwrap_or_default();
        let mappings: Vec<Mapping> = maps.lines().filter_map(Mapping::of).collect();
        if !mappings.is_empty() {
            self.mappings.insert(process, mappings);
        }
    }

    /// Takes note of a task that began, changed its name, or got code.
    pub(super) fn hear(&mut self, record: &Record<'_>) {
        match record {
            Record::Comm(comm) if can_be_seen(comm.pid) => {
                let name = String::from_utf8_lossy(&comm.comm).into_owned();
                self.names.insert(comm.tid, name);
            }
            Record::Fork(fork) if can_be_seen(fork.pid) => {
                if fork.pid != fork.ppid {
                    self.parents.insert(fork.pid, fork.ppid);
                }
                if let Some(name) = self.names.get(&fork.ptid).cloned() {
                    self.names.entry(fork.tid).or_insert(name);
                }
            }
            Record::Mmap2(mmap) if can_be_seen(mmap.pid) => {
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

    /// The file that an address of a process is from, and the place in it.
    pub(super) fn code(&self, process: u32, address: u64) -> Option<(&str, u64)> {
        // Nobody has so many ancestors; a number that was used again may make a circle.
        const GENERATIONS: usize = 16;
        let ancestors = std::iter::successors(Some(process), |one| self.parents.get(one).copied());
        ancestors.take(GENERATIONS).find_map(|one| {
            let own = self.mappings.get(&one)?.iter().rev();
            let mut own = own.filter(|map| map.start <= address && address < map.end);
            let map = own.next()?;
            Some((map.path.as_str(), address - map.start + map.offset))
        })
    }
}

impl Mapping {
    /// From a line of `/proc/PID/maps`; nothing where it cannot be executed.
    fn of(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let offset = number(words.next()?)?;
        let path = words.nth(2).unwrap_or_default().trim_start();
        rights.contains('x').then_some(Self {
            start: number(start)?,
            end: number(end)?,
            offset,
            path: path.into(),
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
        let code = Mapping::of(line).unwrap();
        assert_eq!((code.start, code.offset), (0x7f00, 0x26));
        assert_eq!(code.path, "/usr/lib/libc.so.6");
        assert_eq!(Mapping::of(&line.replace("r-xp", "r--p")), None);
        let bare = Mapping::of("7f00-7f10 r-xp 00000000 00:00 0").unwrap();
        assert_eq!(bare.path, "");
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
        // A circle ends.
        known.parents.insert(1, 2);
        assert_eq!(known.code(2, 0x5000), None);
    }
}
