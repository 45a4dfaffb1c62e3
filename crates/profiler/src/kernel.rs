//! What the plugin and its reader need of a kernel: its functions, and where it keeps its tasks.

use anyhow::{Context, Result};
use base::arch::Arch;
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
    /// Its architecture.
    pub arch: Arch,
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
        match Arch::of_image(vmlinuz) {
            Some(Arch::Aarch64) => Self::from_flat_image(vmlinuz),
            Some(Arch::X86_64) | None => Self::from_vmlinux(&bzimage::unpack(vmlinuz)?),
        }
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
        Ok(Self::new(
            Arch::X86_64,
            symbols,
            section(".BTF").map(|(_, data)| data),
        ))
    }

    /// An image that is the kernel as it lies in memory, without sections.
    fn from_flat_image(image: &[u8]) -> Result<Self> {
        let release = Arch::Aarch64.facts().release(image);
        let start = start_of_arm_kernel(release.context("kernel image without a release")?);
        let section = Section {
            address: start,
            data: image,
        };
        let symbols = kallsyms::read(section, start)?;
        Ok(Self::new(Arch::Aarch64, symbols, find_btf(image)))
    }

    fn new(arch: Arch, symbols: Vec<Symbol>, btf: Option<&[u8]>) -> Self {
        let mut lacks = Vec::new();
        let btf = btf.context("kernel without BTF (CONFIG_DEBUG_INFO_BTF)");
        let btf = btf.and_then(Btf::read);
        let btf = btf
            .map_err(|why| lacks.push(format!("{why:#}: no tasks and no waits")))
            .ok();
        let has_switch = symbols
            .iter()
            .any(|symbol| symbol.name == arch.facts().switch());
        let layout = layout(btf.as_ref(), has_switch, &mut lacks);
        let (functions, end) = functions(symbols);
        Self {
            arch,
            functions,
            end,
            layout,
            lacks,
        }
    }

    /// The first address of the function that switches stacks; `None` if tasks are unknown.
    pub fn switch(&self) -> Option<u64> {
        let is_known = self.layout.task.comm != 0;
        is_known.then(|| self.address(self.arch.facts().switch()))?
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

/// The type information in an image without sections, by its header (`struct btf_header` in include/uapi/linux/btf.h): types directly
/// behind it, then strings.
fn find_btf(image: &[u8]) -> Option<&[u8]> {
    const HEADER_BYTES: usize = 24;
    const START: &[u8] = &[0x9f, 0xeb, 1, 0, HEADER_BYTES as u8, 0, 0, 0];
    let starts = image.windows(START.len()).enumerate();
    let mut starts = starts.filter(|(_, window)| *window == START);
    starts.find_map(|(at, _)| {
        let number = |index: usize| {
            let place = at + START.len() + index * 4;
            let bytes = image.get(place..place + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
        };
        let [types, types_length, strings, strings_length] =
            [number(0)?, number(1)?, number(2)?, number(3)?];
        let is_header = types == 0 && strings == types_length && strings_length > 0;
        let end = at + HEADER_BYTES + strings + strings_length;
        is_header.then(|| image.get(at..end))?
    })
}

/// `KIMAGE_VADDR` of an arm64 kernel with virtual addresses of 48 bits (arch/arm64/include/asm/memory.h). It moves with the size of
/// the modules' region, which lies before it.
fn start_of_arm_kernel(release: &str) -> u64 {
    let mut numbers = release
        .split(['.', '-', '+'])
        .map_while(|text| text.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version {
        (6, 5..) | (7.., _) => 0xffff_8000_8000_0000,
        (5, 17..) | (6, _) => 0xffff_8000_0800_0000,
        _ => 0xffff_8000_1000_0000,
    }
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

fn layout(btf: Option<&Btf<'_>>, has_switch: bool, lacks: &mut Vec<String>) -> Layout {
    let member = |path: &[&str]| {
        btf.and_then(|btf| btf.offset("task_struct", path))
            .unwrap_or(0)
    };
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
    if !has_switch || task.comm == 0 {
        lacks.push("kernel that does not say where its running task is: all is one task".into());
        return Layout::default();
    }
    if task.run_delay == 0 || task.last_arrival == 0 {
        lacks.push("kernel without sched_info (CONFIG_SCHEDSTATS): no waits".into());
    }
    Layout { task, group }
}
