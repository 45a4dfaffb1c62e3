//! Converts counts by address to a profile: resolves addresses to names, and merges nodes of one name below one parent.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::{Result, bail};

use crate::elf::{self, FileFunction};
use crate::kernel::KernelSymbols;
use crate::profile::{Blame, Count, Health, Kind, Node, Profile, StringCounts, Wait, Window, mark};
use crate::raw::{self, Key, Raw};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Code of a module in the guest's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleCode {
    /// Name of the module.
    pub name: String,
    /// Start of its section.
    pub address: u64,
    /// Functions by their offset in the section.
    pub functions: Arc<Vec<FileFunction>>,
}

/// Pages of a file in the guest's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCode {
    /// Name of the file.
    pub name: String,
    /// First page in the file, first page in memory, number of pages.
    pub pieces: Vec<(u64, u64, u64)>,
    /// Functions by their offset in the file; empty if it has no symbols.
    pub functions: Arc<Vec<FileFunction>>,
}

/// Everything that resolves addresses to names.
#[derive(Debug, Clone, Copy)]
pub struct Names<'n> {
    /// Symbols of the kernel.
    pub kernel: &'n KernelSymbols,
    /// Code of modules.
    pub modules: &'n [ModuleCode],
    /// Code of programs and libraries.
    pub files: &'n [FileCode],
}

/// Resolves the plugin's output to a profile.
///
/// # Errors
/// The guest executed no begin mark of a window, or no end mark after it.
pub fn resolve(raw: &Raw, names: Names<'_>) -> Result<Profile> {
    let Some(first) = raw.marks.iter().position(|mark| mark.number == mark::BEGIN) else {
        bail!("the window's begin was not marked");
    };
    // After the end, the guest only collects facts.
    let last = raw
        .marks
        .iter()
        .rposition(|mark| mark.number == mark::END)
        .filter(|last| *last > first);
    let Some(last) = last else {
        bail!("the window's end was not marked");
    };
    let marks = &raw.marks[first..=last];
    let lookup = Lookup::new(names);
    let tree = Tree::from_raw(raw, &lookup);
    let windows = marks
        .windows(2)
        .map(|pair| tree.window(&pair[0], &pair[1]))
        .collect();
    let mut profile = Profile {
        nodes: tree.nodes,
        windows,
        lacks: names.kernel.lacks.clone(),
        sampling: None,
    };
    prune(&mut profile);
    Ok(profile)
}

/// Resolves addresses.
struct Lookup<'n> {
    names: Names<'n>,
    /// First page in memory, number of pages, first page in the file, file; ascending.
    pages: Vec<(u64, u64, u64, usize)>,
    /// Start of a module's section, index of the module; ascending.
    sections: Vec<(u64, usize)>,
}

impl<'n> Lookup<'n> {
    fn new(names: Names<'n>) -> Self {
        let files = names.files.iter().enumerate();
        let mut pages: Vec<_> = files
            .flat_map(|(file, code)| {
                code.pieces
                    .iter()
                    .map(move |piece| (piece.1, piece.2, piece.0, file))
            })
            .collect();
        pages.sort_unstable();
        let mut sections: Vec<_> = names
            .modules
            .iter()
            .enumerate()
            .map(|(index, code)| (code.address, index))
            .collect();
        sections.sort_unstable();
        Self {
            names,
            pages,
            sections,
        }
    }

    /// Kind, name and image of kernel code.
    fn kernel(&self, address: u64) -> (Kind, String, String) {
        if let Some(name) = self.names.kernel.name(address) {
            return (Kind::Kernel, name.into(), String::new());
        }
        let after = self
            .sections
            .partition_point(|(start, _)| *start <= address);
        let module = after
            .checked_sub(1)
            .map(|index| &self.names.modules[self.sections[index].1]);
        let module_function = module.and_then(|module| {
            Some((
                module,
                elf::at(&module.functions, address - module.address)?,
            ))
        });
        match module_function {
            Some((module, function)) => (Kind::Module, function.name.clone(), module.name.clone()),
            None => (Kind::Module, String::new(), String::new()),
        }
    }

    /// Kind, name and image of program code.
    fn user(&self, physical: u64) -> (Kind, String, String) {
        let frame = physical / PAGE;
        let after = self.pages.partition_point(|(start, ..)| *start <= frame);
        let piece = after.checked_sub(1).map(|index| self.pages[index]);
        let Some((start, _, page, file)) =
            piece.filter(|(start, count, ..)| frame - start < *count)
        else {
            return (Kind::User, String::new(), String::new());
        };
        let file = &self.names.files[file];
        let offset = (page + frame - start) * PAGE + physical % PAGE;
        let function = elf::at(&file.functions, offset).map(|function| function.name.clone());
        (Kind::User, function.unwrap_or_default(), file.name.clone())
    }
}

/// The call tree with names.
struct Tree {
    nodes: Vec<Node>,
    /// The resolved node of each raw node.
    resolved: Vec<u32>,
}

impl Tree {
    fn from_raw(raw: &Raw, lookup: &Lookup<'_>) -> Self {
        let mut tree = Self {
            nodes: Vec::new(),
            resolved: Vec::new(),
        };
        let mut indices: HashMap<Node, u32> = HashMap::new();
        for raw::Node { parent, key } in raw.nodes.iter().copied() {
            let parent = tree.resolved.get(parent as usize).copied().unwrap_or(0);
            let (kind, name, image) = match key {
                Key::All => (Kind::All, String::new(), String::new()),
                Key::Task(name) => (Kind::Task, raw.names[name as usize].clone(), String::new()),
                Key::Kernel(address) => lookup.kernel(address),
                Key::User(physical) => lookup.user(physical),
            };
            let node = Node {
                parent,
                kind,
                name,
                image,
            };
            let next = tree.nodes.len() as u32;
            let index = *indices.entry(node).or_insert_with_key(|node| {
                tree.nodes.push(node.clone());
                next
            });
            tree.resolved.push(index);
        }
        tree
    }

    fn resolved_node(&self, node: u64) -> u32 {
        self.resolved[node as usize]
    }

    fn window(&self, before: &raw::Mark, now: &raw::Mark) -> Window {
        let total = |index: usize| now.totals[index].saturating_sub(before.totals[index]);
        Window {
            marks: (before.number, now.number),
            instructions: total(0),
            counts: self.counts(&now.counts),
            queued: self.waits(&now.queued, &before.queued),
            blame: self.blame(&now.blame, &before.blame),
            asleep: self.waits(&now.asleep, &before.asleep),
            preempted: self.pairs(&now.preempted, &before.preempted),
            ran: self.pairs(&now.ran, &before.ran),
            health: Health {
                lost: total(1),
                mended: total(2),
                cut: total(3),
                switches: total(4),
            },
        }
    }

    fn counts(&self, rows: &raw::Rows<6>) -> Vec<Count> {
        let mut sums: BTreeMap<u32, ([i64; 4], u64)> = BTreeMap::new();
        for [node, own, iterations, bytes, starts, calls] in rows.iter().copied() {
            let sum = sums.entry(self.resolved_node(node)).or_default();
            for (sum, new) in sum.0.iter_mut().zip([own, iterations, bytes, starts]) {
                *sum = sum.saturating_add(new.cast_signed());
            }
            sum.1 = sum.1.saturating_add(calls);
        }
        // A mark in the middle of a block counts too much, which is subtracted after it.
        let clamped = |value: i64| u64::try_from(value).unwrap_or(0);
        let count = |(node, (sums, calls)): (u32, ([i64; 4], u64))| {
            let [instructions, iterations, bytes, starts] = sums.map(clamped);
            Count {
                node,
                instructions,
                strings: StringCounts {
                    iterations,
                    bytes,
                    starts,
                },
                calls,
            }
        };
        sums.into_iter().map(count).collect()
    }

    fn waits(&self, now: &raw::Rows<4>, before: &raw::Rows<4>) -> Vec<Wait> {
        let sums = since(now, before, |[node, size, ..]| {
            (self.resolved_node(node), size.min(64) as u8)
        });
        let wait = |((node, size), [count, ns]): ((u32, u8), [u64; 2])| Wait {
            node,
            size,
            count,
            ns,
        };
        let waits = sums.into_iter().map(wait);
        waits.filter(|wait| wait.count > 0).collect()
    }

    fn blame(&self, now: &raw::Rows<4>, before: &raw::Rows<4>) -> Vec<Blame> {
        let key = |[waiter, key, ..]: [u64; 4]| {
            (
                self.resolved_node(waiter),
                (key & 0xff) as u8,
                self.resolved_node(key >> 8),
            )
        };
        let sums = since(&packed_runners(now), &packed_runners(before), key);
        let blame = sums
            .into_iter()
            .map(|((waiter, size, runner), [ns, _])| Blame {
                waiter,
                size,
                runner,
                ns,
            });
        blame.filter(|blame| blame.ns > 0).collect()
    }

    fn pairs(&self, now: &raw::Rows<2>, before: &raw::Rows<2>) -> Vec<(u32, u64)> {
        let widen = |rows: &raw::Rows<2>| -> raw::Rows<4> {
            let row = |[node, value]: &[u64; 2]| [*node, 0, *value, 0];
            rows.iter().map(row).collect()
        };
        let sums = since(&widen(now), &widen(before), |[node, ..]| {
            self.resolved_node(node)
        });
        let pairs = sums.into_iter().map(|(node, [value, _])| (node, value));
        pairs.filter(|(_, value)| *value > 0).collect()
    }
}

/// Sums the last two words of rows by a key, minus those of earlier rows.
fn since<K: Ord>(
    now: &raw::Rows<4>,
    before: &raw::Rows<4>,
    key: impl Fn([u64; 4]) -> K,
) -> BTreeMap<K, [u64; 2]> {
    let mut sums: BTreeMap<K, [u64; 2]> = BTreeMap::new();
    for row in now {
        let sum = sums.entry(key(*row)).or_default();
        sum[0] = sum[0].saturating_add(row[2]);
        sum[1] = sum[1].saturating_add(row[3]);
    }
    for row in before {
        if let Some(sum) = sums.get_mut(&key(*row)) {
            sum[0] = sum[0].saturating_sub(row[2]);
            sum[1] = sum[1].saturating_sub(row[3]);
        }
    }
    sums
}

/// Packs size and runner of a blame row into one word, so that its nanoseconds are in the same column as in other rows.
fn packed_runners(rows: &raw::Rows<4>) -> raw::Rows<4> {
    let row =
        |[waiter, size, runner, ns]: &[u64; 4]| [*waiter, (*size).min(64) | runner << 8, *ns, 0];
    rows.iter().map(row).collect()
}

/// Removes nodes that no window refers to and that no remaining node has as a caller.
fn prune(profile: &mut Profile) {
    let used = used(profile);
    // The new index of each node.
    let mut next = 0_u32;
    let mut new_index = Vec::with_capacity(used.len());
    for used in &used {
        new_index.push(next);
        next += u32::from(*used);
    }
    let mut stays = used.iter().copied();
    profile.nodes.retain(|_| stays.next() == Some(true));
    let renumber = |node: &mut u32| *node = new_index[*node as usize];
    profile
        .nodes
        .iter_mut()
        .for_each(|node| renumber(&mut node.parent));
    for window in &mut profile.windows {
        window.counts.retain(is_counted);
        window
            .counts
            .iter_mut()
            .for_each(|count| renumber(&mut count.node));
        let waits = window.queued.iter_mut().chain(&mut window.asleep);
        waits.for_each(|wait| renumber(&mut wait.node));
        for blame in &mut window.blame {
            renumber(&mut blame.waiter);
            renumber(&mut blame.runner);
        }
        let pairs = window.preempted.iter_mut().chain(&mut window.ran);
        pairs.for_each(|pair| renumber(&mut pair.0));
    }
}

fn is_counted(count: &Count) -> bool {
    count.instructions > 0 || count.calls > 0
}

/// Which nodes a window refers to, including their callers.
fn used(profile: &Profile) -> Vec<bool> {
    let mut used = vec![false; profile.nodes.len()];
    used[0] = true;
    for window in &profile.windows {
        let counts = window.counts.iter().filter(|count| is_counted(count));
        let counts = counts.map(|count| count.node);
        let waits = window.queued.iter().chain(&window.asleep);
        let blame = window
            .blame
            .iter()
            .flat_map(|blame| [blame.waiter, blame.runner]);
        let pairs = window
            .preempted
            .iter()
            .chain(&window.ran)
            .map(|pair| pair.0);
        let all = counts
            .chain(waits.map(|wait| wait.node))
            .chain(blame)
            .chain(pairs);
        all.for_each(|node| used[node as usize] = true);
    }
    // Parents precede their children.
    for node in (1..used.len()).rev() {
        if used[node] {
            used[profile.nodes[node].parent as usize] = true;
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Function, Layout};

    fn kernel() -> KernelSymbols {
        let function = |address, name: &str| Function {
            address,
            name: name.into(),
        };
        KernelSymbols {
            arch: base::arch::Arch::X86_64,
            functions: vec![function(0x1000, "entry"), function(0x2000, "tcp_sendmsg")],
            end: 0x3000,
            layout: Layout::default(),
            lacks: vec!["no waits".into()],
        }
    }

    fn function(offset: u64, name: &str) -> FileFunction {
        FileFunction {
            offset,
            bytes: 0x10,
            name: name.into(),
        }
    }

    /// A mark with the counts of each node since the last one.
    fn mark_of(number: u8, counts: &[(u64, i64)], instructions: u64) -> raw::Mark {
        let row = |(node, own): &(u64, i64)| [*node, own.cast_unsigned(), 0, 0, 0, 1];
        raw::Mark {
            number,
            counts: counts.iter().map(row).collect(),
            queued: vec![[1, 10, instructions / 10, instructions]],
            totals: [instructions, 0, 0, 0, 0],
            ..raw::Mark::default()
        }
    }

    fn raw() -> Raw {
        let keys = [
            (0, Key::All),
            (0, Key::Task(0)),
            (1, Key::Kernel(0x1000)),
            // Two entries of one module's function, and code of two blocks of one program's.
            (2, Key::Kernel(0x9004)),
            (2, Key::Kernel(0x9008)),
            (1, Key::User(0x5_0004)),
            (1, Key::User(0x5_0008)),
            (1, Key::User(0x7_0000)),
            (2, Key::Kernel(0x2000)),
        ];
        Raw {
            names: vec!["nginx".into()],
            nodes: keys
                .into_iter()
                .map(|(parent, key)| raw::Node { parent, key })
                .collect(),
            marks: vec![
                mark_of(mark::BEGIN, &[(8, 1000)], 1000),
                mark_of(
                    mark::END,
                    &[(2, 5), (3, 1), (4, 2), (5, 3), (6, 4), (7, 10)],
                    1025,
                ),
            ],
        }
    }

    fn resolved(raw: &Raw) -> Result<Profile> {
        let modules = [ModuleCode {
            name: "veth".into(),
            address: 0x9000,
            functions: vec![function(0, "veth_xmit")].into(),
        }];
        let files = [FileCode {
            name: "nginx".into(),
            pieces: vec![(2, 0x50, 1)],
            functions: vec![function(0x2000, "ngx_send")].into(),
        }];
        let names = Names {
            kernel: &kernel(),
            modules: &modules,
            files: &files,
        };
        resolve(raw, names)
    }

    #[test]
    fn nodes_of_one_name_below_one_caller_are_merged() {
        let profile = resolved(&raw()).unwrap();
        let name = |count: &Count| {
            let node = &profile.nodes[count.node as usize];
            format!(
                "{:?} {} {} {}",
                node.kind, node.image, node.name, count.instructions
            )
        };
        let [window] = profile.windows.as_slice() else {
            panic!("{}", profile.windows.len())
        };
        let counts: Vec<String> = window.counts.iter().map(name).collect();
        let want = [
            "Kernel  entry 5",
            "Module veth veth_xmit 3",
            "User nginx ngx_send 7",
            "User   10",
        ];
        assert_eq!(counts, want);
        // A function that ran only before the window is dropped.
        assert!(profile.nodes.iter().all(|node| node.name != "tcp_sendmsg"));
        assert_eq!((window.instructions, window.queued[0].count), (25, 2));
        assert_eq!(profile.busy_instructions(), 25);
        assert_eq!(profile.lacks, ["no waits"]);
    }

    #[test]
    fn missing_marks_of_a_window_are_reported() {
        let why = |number: usize| {
            let mut raw = raw();
            raw.marks.remove(number);
            resolved(&raw).unwrap_err().to_string()
        };
        assert_eq!(why(0), "the window's begin was not marked");
        assert_eq!(why(1), "the window's end was not marked");
    }
}
