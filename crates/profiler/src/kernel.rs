//! What the plugin and its reader need of a kernel: its functions, and where it keeps its tasks.

use anyhow::{Context, Result};
use object::ObjectSection as _;
use serde::{Deserialize, Serialize};

use crate::btf::Btf;
use crate::bzimage;
use crate::elf;
use crate::kallsyms::{self, Section, Symbol};

/// A function by its first address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// First address.
    pub address: u64,
    /// Name of the function.
    pub name: String,
}

/// Where a kernel keeps the data that the plugin reads; 0 if it lacks it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// `__per_cpu_offset`.
    pub per_cpu_offset: u64,
    /// Per-CPU address of the pointer to the running task.
    pub current_task: u64,
    /// `page_offset_base`.
    pub page_offset_base: u64,
    /// Offsets in `task_struct`.
    pub task: TaskLayout,
    /// The path from a task to the name of its control group.
    pub group: GroupLayout,
}

/// Offsets on the path from a task to the name of its control group; 0 if the kernel lacks the member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLayout {
    /// `cgroups` in `task_struct`.
    pub of_task: u64,
    /// `dfl_cgrp` in `css_set`.
    pub default: u64,
    /// `kn` in `cgroup`.
    pub node: u64,
    /// `name` in `kernfs_node`.
    pub name: u64,
}

/// Offsets in `task_struct`; 0 if it lacks the member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLayout {
    /// `comm`.
    pub comm: u64,
    /// `pid`.
    pub pid: u64,
    /// `__state`, `state` before 5.14.
    pub state: u64,
    /// `sched_info.run_delay`.
    pub run_delay: u64,
    /// `sched_info.last_arrival`.
    pub last_arrival: u64,
    /// `sched_info.last_queued`.
    pub last_queued: u64,
    /// `sched_info.pcount`.
    pub pcount: u64,
}

/// Symbols and layout of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSymbols {
    /// Functions by address, ascending, each address once.
    pub functions: Vec<Function>,
    /// The address after the last function.
    pub end: u64,
    /// Where the kernel keeps its tasks.
    pub layout: Layout,
    /// What could not be found, and what is unavailable because of it, in words.
    pub lacks: Vec<String>,
}

impl KernelSymbols {
    /// Reads a bootable image.
    ///
    /// # Errors
    /// The image cannot be unpacked or has no symbol table, so that nothing can be profiled.
    pub fn read(vmlinuz: &[u8]) -> Result<Self> {
        Self::from_vmlinux(&bzimage::unpack(vmlinuz)?)
    }

    fn from_vmlinux(vmlinux: &[u8]) -> Result<Self> {
        let file =
            object::File::parse(vmlinux).context("not an ELF file: the kernel in the image")?;
        let section = |name: &str| {
            let section = elf::section(&file, name)?;
            Some((section.address(), section.data().ok()?))
        };
        let (text, _) = section(".text").context("kernel without a .text section")?;
        let (address, data) = section(".rodata").context("kernel without a .rodata section")?;
        let symbols = kallsyms::read(Section { address, data }, text)?;
        let mut lacks = Vec::new();
        let btf = section(".BTF").context("kernel without BTF (CONFIG_DEBUG_INFO_BTF)");
        let btf = btf.and_then(|(_, data)| Btf::read(data));
        let btf = btf
            .map_err(|why| lacks.push(format!("{why:#}: no tasks and no waits")))
            .ok();
        let layout = layout(&symbols, btf.as_ref(), &mut lacks);
        let (functions, end) = functions(symbols);
        Ok(Self {
            functions,
            end,
            layout,
            lacks,
        })
    }

    /// The first address of a function.
    pub fn address(&self, name: &str) -> Option<u64> {
        let function = self.functions.iter().find(|function| function.name == name);
        function.map(|function| function.address)
    }

    /// The name of the function that contains an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self
            .functions
            .partition_point(|function| function.address <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (address < self.end).then_some(function.name.as_str())
    }
}

/// Whether the CPU enters a function of this name directly, by a system call, an interrupt or an exception, not by a call.
pub fn is_entry(name: &str) -> bool {
    // `asm_call_on_stack` and similar functions of 5.8 to 5.11 are called and return.
    let is_called = name.starts_with("asm_call_");
    let has_entry_prefix = ["asm_", "entry_SYSCALL_", "entry_SYSENTER_", "entry_INT80_"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    has_entry_prefix && !is_called
}

fn functions(symbols: Vec<Symbol>) -> (Vec<Function>, u64) {
    let end = symbols
        .iter()
        .filter(|symbol| symbol.name == "_einittext" || symbol.name == "_etext");
    let end = end.map(|symbol| symbol.address).max().unwrap_or(u64::MAX);
    let is_function = |symbol: &Symbol| {
        matches!(symbol.kind, b'T' | b't' | b'W' | b'w')
            && symbol.address >> 63 == 1
            && symbol.address < end
            && !is_no_function(&symbol.name)
    };
    let mut functions: Vec<Function> = symbols
        .into_iter()
        .filter(is_function)
        .map(|Symbol { address, name, .. }| Function { address, name })
        .collect();
    // Of several names, prefers one without leading underscores, then the shortest.
    functions.sort_by_cached_key(|function| {
        let underscores = function
            .name
            .bytes()
            .take_while(|byte| *byte == b'_')
            .count();
        (
            function.address,
            underscores,
            function.name.len(),
            function.name.clone(),
        )
    });
    functions.dedup_by_key(|function| function.address);
    (functions, end)
}

/// Whether a symbol marks a place that is no function: padding before a function, or the boundary of a section.
fn is_no_function(name: &str) -> bool {
    name.starts_with("__pfx_")
        || name.starts_with("__cfi_")
        || matches!(
            name,
            "_text" | "_stext" | "_etext" | "_einittext" | "_sinittext"
        )
        || (name.starts_with("__")
            && (name.ends_with("_text_start") || name.ends_with("_text_end")))
}

fn layout(symbols: &[Symbol], btf: Option<&Btf<'_>>, lacks: &mut Vec<String>) -> Layout {
    let symbol = |name: &str| {
        let symbol = symbols.iter().find(|symbol| symbol.name == name);
        symbol.map(|symbol| symbol.address)
    };
    let member = |path: &[&str]| {
        btf.and_then(|btf| btf.offset("task_struct", path))
            .unwrap_or(0)
    };
    // From 6.2 to 6.14 the running task is a member of `pcpu_hot`.
    let in_pcpu_hot = || Some(symbol("pcpu_hot")? + btf?.offset("pcpu_hot", &["current_task"])?);
    let current = symbol("current_task").or_else(in_pcpu_hot);
    let task = TaskLayout {
        comm: member(&["comm"]),
        pid: member(&["pid"]),
        state: [member(&["__state"]), member(&["state"])]
            .into_iter()
            .max()
            .unwrap_or(0),
        run_delay: member(&["sched_info", "run_delay"]),
        last_arrival: member(&["sched_info", "last_arrival"]),
        last_queued: member(&["sched_info", "last_queued"]),
        pcount: member(&["sched_info", "pcount"]),
    };
    let offset = |structure: &str, name: &str| {
        btf.and_then(|btf| btf.offset(structure, &[name]))
            .unwrap_or(0)
    };
    let group = GroupLayout {
        of_task: member(&["cgroups"]),
        default: offset("css_set", "dfl_cgrp"),
        node: offset("cgroup", "kn"),
        name: offset("kernfs_node", "name"),
    };
    let per_cpu_offset = symbol("__per_cpu_offset");
    if current.is_none() || per_cpu_offset.is_none() || task.comm == 0 {
        lacks.push("kernel that does not say where its running task is: all is one task".into());
        return Layout::default();
    }
    if task.run_delay == 0 || task.last_arrival == 0 {
        lacks.push("kernel without sched_info (CONFIG_SCHEDSTATS): no waits".into());
    }
    Layout {
        per_cpu_offset: per_cpu_offset.unwrap_or(0),
        current_task: current.unwrap_or(0),
        page_offset_base: symbol("page_offset_base").unwrap_or(0),
        task,
        group,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_the_cpu_enters_directly_are_entries_and_stack_switches_are_not() {
        let entries = [
            "asm_exc_page_fault",
            "asm_sysvec_apic_timer_interrupt",
            "asm_common_interrupt",
            "entry_SYSCALL_64",
        ];
        assert!(entries.into_iter().all(is_entry));
        let called = [
            "asm_call_on_stack",
            "asm_call_sysvec_on_stack",
            "asm_call_irq_on_stack",
            "do_syscall_64",
        ];
        assert!(!called.into_iter().any(is_entry));
    }
}
