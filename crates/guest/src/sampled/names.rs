//! Turns addresses into names, and sums of stacks into a call tree.

use std::collections::HashMap;
use std::fs;
use std::rc::Rc;

use profiler::elf::{self, FileFunction};
use profiler::profile::{Count, Kind, Node, Profile, StringCounts, Window, mark};

use super::Recorded;

/// Functions of the kernel and its modules, by address.
#[derive(Debug, Default)]
pub(super) struct Names {
    functions: Vec<Function>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    address: u64,
    /// Number of leading underscores; of names with one address, the lowest rank is used.
    rank: usize,
    name: String,
    /// Empty for the kernel's own.
    module: String,
}

impl Names {
    /// Reads the kernel's symbol table.
    pub(super) fn read(lacks: &mut Vec<String>) -> Self {
        let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let names = Self::parse(&text);
        if names.functions.is_empty() {
            let restrict = fs::read_to_string("/proc/sys/kernel/kptr_restrict");
            lacks.push(format!(
                "no symbols in /proc/kallsyms: functions of the kernel have no names (kernel.kptr_restrict is {}: set it to 0)",
                restrict.unwrap_or_default().trim()
            ));
        }
        names
    }

    /// Parses lines of address, kind, name and perhaps a module in brackets.
    fn parse(text: &str) -> Self {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = ["t", "T", "w", "W"].contains(&words.next()?);
            let name = words.next().filter(|name| !name.starts_with("__pfx_"))?;
            let module = words.next().unwrap_or_default();
            (is_code && address != 0).then(|| Function {
                address,
                rank: name.bytes().take_while(|byte| *byte == b'_').count(),
                name: name.into(),
                module: module.trim_matches(['[', ']']).into(),
            })
        };
        let mut functions: Vec<Function> = text.lines().filter_map(function).collect();
        functions.sort();
        functions.dedup_by_key(|function| function.address);
        Self { functions }
    }

    /// Name and module of the function at an address; empty if unknown.
    pub(super) fn at(&self, address: u64) -> (&str, &str) {
        let after = self
            .functions
            .partition_point(|function| function.address <= address);
        let function = after.checked_sub(1).map(|place| &self.functions[place]);
        function.map_or(("", ""), |function| (&function.name, &function.module))
    }
}

/// A call tree under construction.
struct Tree {
    nodes: Vec<Node>,
    places: HashMap<Node, u32>,
    weights: Vec<u64>,
}

impl Tree {
    fn new() -> Self {
        Self {
            nodes: vec![Node {
                parent: 0,
                kind: Kind::All,
                name: String::new(),
                image: String::new(),
            }],
            places: HashMap::new(),
            weights: vec![0],
        }
    }

    fn child(&mut self, parent: u32, kind: Kind, name: &str, image: &str) -> u32 {
        let node = Node {
            parent,
            kind,
            name: name.into(),
            image: image.into(),
        };
        let next = self.nodes.len() as u32;
        *self.places.entry(node).or_insert_with_key(|node| {
            self.nodes.push(node.clone());
            self.weights.push(0);
            next
        })
    }
}

/// The profile of the recorded stacks. The caller adds `lacks` and `sampling`.
pub(super) fn profile(recorded: &Recorded, names: &Names, lacks: &mut Vec<String>) -> Profile {
    let mut tree = Tree::new();
    let mut files = Files::default();
    // Sorted, because the order of a hash map varies.
    let mut sums: Vec<_> = recorded.sums.iter().collect();
    sums.sort_by_key(|(stack, _)| (stack.process, stack.task, stack.kernel.clone(), stack.user));
    for (stack, sum) in sums {
        let task = recorded.processes.name(stack.process, stack.task);
        let mut node = tree.child(0, Kind::Task, task, "");
        // Outermost first. A return address is after its call, perhaps in the next function.
        for (place, address) in stack.kernel.iter().enumerate().rev() {
            let (name, module) = names.at(address - u64::from(place > 0));
            let kind = if module.is_empty() {
                Kind::Kernel
            } else {
                Kind::Module
            };
            node = tree.child(node, kind, name, module);
        }
        if let Some(address) = stack.user {
            let code = recorded.processes.code(stack.process, address);
            let (name, image) = files.at(code);
            node = tree.child(node, Kind::User, &name, &image);
        }
        tree.weights[node as usize] += sum.weight;
    }
    lacks.extend(files.lacks);
    let counted = tree
        .weights
        .iter()
        .zip(0..)
        .filter(|(weight, _)| **weight > 0);
    let counts = counted.map(|(weight, node)| Count {
        node,
        instructions: *weight,
        strings: StringCounts::default(),
        calls: 0,
    });
    let window = Window {
        marks: (mark::BEGIN, mark::END),
        instructions: tree.weights.iter().sum(),
        counts: counts.collect(),
        ..Window::default()
    };
    Profile {
        nodes: tree.nodes,
        windows: vec![window],
        lacks: Vec::new(),
        sampling: None,
    }
}

/// Functions of programs and libraries, each file read once.
#[derive(Default)]
struct Files {
    functions: HashMap<String, Rc<Vec<FileFunction>>>,
    lacks: Vec<String>,
}

impl Files {
    /// Names of the function and of the file at an offset of a file; empty if unknown.
    fn at(&mut self, code: Option<(&str, u64)>) -> (String, String) {
        let Some((path, offset)) = code else {
            return (String::new(), String::new());
        };
        let functions = self.functions(path);
        let function = elf::at(&functions, offset);
        let name = function.map_or("", |function| &function.name);
        let image = path.rsplit('/').next().unwrap_or_default();
        (name.into(), image.into())
    }

    fn functions(&mut self, path: &str) -> Rc<Vec<FileFunction>> {
        if let Some(known) = self.functions.get(path) {
            return Rc::clone(known);
        }
        let read = fs::read(path)
            .ok()
            .and_then(|body| elf::functions(&body).ok());
        let functions = Rc::new(read.unwrap_or_default());
        if functions.is_empty() && path.starts_with('/') {
            self.lacks
                .push(format!("no symbols in {path}: known as one program"));
        }
        self.functions.insert(path.into(), Rc::clone(&functions));
        functions
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Stack, Sum};
    use super::*;

    const KALLSYMS: &str = "\
ffffffff81000000 T _text
ffffffff81000010 T __ksys_read
ffffffff81000010 T ksys_read
ffffffff8100000f t __pfx_ksys_read
ffffffff81000020 D jiffies
ffffffffc0000000 t veth_xmit\t[veth]
";

    #[test]
    fn an_address_is_named_by_the_function_before_it() {
        let names = Names::parse(KALLSYMS);
        assert_eq!(names.at(0xffff_ffff_8100_0018), ("ksys_read", ""));
        assert_eq!(names.at(0xffff_ffff_c000_0001), ("veth_xmit", "veth"));
        assert_eq!(names.at(1), ("", ""));
    }

    #[test]
    fn a_table_that_hides_its_addresses_is_none() {
        let hidden = "0000000000000000 T _text\n0000000000000000 T ksys_read\n";
        assert!(Names::parse(hidden).functions.is_empty());
    }

    #[test]
    fn stacks_become_a_tree_with_the_task_first() {
        let stack = |kernel: &[u64], user| Stack {
            process: 7,
            task: 7,
            kernel: kernel.into(),
            user,
        };
        let sum = |weight| Sum { samples: 1, weight };
        let read = 0xffff_ffff_8100_0010;
        let recorded = Recorded {
            sums: [
                (stack(&[0xffff_ffff_c000_0004, read + 5], None), sum(3)),
                // The call is the last instruction of its function, so the return address is in the next one.
                (stack(&[0xffff_ffff_c000_0008, read + 1], None), sum(4)),
                (stack(&[], Some(0x1234)), sum(5)),
            ]
            .into(),
            ..Recorded::default()
        };
        let mut lacks = Vec::new();
        let profile = profile(&recorded, &Names::parse(KALLSYMS), &mut lacks);
        let lines: Vec<String> = profiler::folded::lines(&profile).collect();
        assert_eq!(lines, ["?;[unknown] 5", "?;ksys_read;veth_xmit 7"]);
        assert_eq!(profile.windows[0].instructions, 12);
    }
}
