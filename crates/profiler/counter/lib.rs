//! The QEMU plugin for trials with counted instructions: counts REP string instructions, and instructions by control group.
//!
//! A shared library that QEMU loads, built apart from bakeoff (`../build.rs`), with nothing but `std`. It counts by inline
//! additions, which cost a guest almost nothing; functions are called only at task switches and at marks.
//!
//! ```text
//! translation  block -> additions for its instructions, and for a string instruction at its end   (`strings`)
//! switch       attributes the counts since the last switch to the control group that ran          (`groups`)
//! mark         writes all counts since the start as lines of text                                 (`output`)
//! ```
#![deny(missing_docs)]

#[path = "../plugin/decode.rs"]
#[allow(dead_code)]
mod decode;
mod groups;
mod output;
#[allow(dead_code)]
mod qemu;
mod strings;

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;

use decode::Isa;
use groups::{Groups, Layout};
use qemu::{INLINE_ADD, Info, NO_REGISTERS, READS_REGISTERS, Score, Tb};
use strings::{Pass, StringOp};

/// The API version that QEMU checks: guest memory can be read since version 4 (QEMU 9.2).
#[unsafe(no_mangle)]
#[used]
pub static qemu_plugin_version: c_int = 4;

/// Counts that inline additions update, in QEMU's memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions of started blocks.
    pub executed: u64,
    /// Starts of string instructions, by the logarithm of the bytes of an iteration.
    pub starts: [u64; 4],
    /// Iterations after the first one, by the same logarithm.
    pub repeats: [u64; 4],
    /// Executions of string instructions that QEMU does not classify as start or repeat.
    pub unknown: u64,
}

impl Counts {
    /// Offset of the count for an execution of a string instruction.
    fn offset(op: StringOp, pass: Pass) -> usize {
        let by_size = |field: usize| field + op.size * size_of::<u64>();
        match pass {
            Pass::Start => by_size(std::mem::offset_of!(Self, starts)),
            Pass::Repeat => by_size(std::mem::offset_of!(Self, repeats)),
            Pass::Unknown => std::mem::offset_of!(Self, unknown),
        }
    }
}

struct Plugin {
    isa: Isa,
    score: *mut Score,
    /// QEMU's handle of the register with the resume flag; looked up when the first string instruction is translated.
    flags: Option<Option<*mut c_void>>,
    /// QEMU's handles of the registers that have the tasks at a switch; looked up when the switch is translated.
    tasks: Option<[Option<*mut c_void>; 2]>,
    /// The running task; 0 before the first switch.
    task: u64,
    groups: Groups,
    /// First address of the function that switches stacks; 0 if unknown.
    switch: u64,
    marks: u32,
    out: File,
}

/// The single plugin of this QEMU process.
struct PluginCell(UnsafeCell<Option<Plugin>>);

// SAFETY: with counted instructions QEMU has one thread that translates and executes, and calls nothing here from others. The
// plugin is stored here before that thread starts.
unsafe impl Sync for PluginCell {}

static PLUGIN: PluginCell = PluginCell(UnsafeCell::new(None));

fn with_plugin(act: impl FnOnce(&mut Plugin)) {
    // SAFETY: see `PluginCell`; QEMU runs no two callbacks at the same time.
    if let Some(plugin) = unsafe { &mut *PLUGIN.0.get() } {
        act(plugin);
    }
}

extern "C" fn switched(_cpu: c_uint, _data: *mut c_void) {
    with_plugin(|plugin| {
        let counts = plugin.counts();
        let [from, to] = plugin.tasks.unwrap_or_default();
        let read = |handle: Option<*mut c_void>| handle.and_then(qemu::read_u64).unwrap_or(0);
        plugin.groups.attribute(read(from), &counts);
        plugin.task = read(to);
    });
}

extern "C" fn marked(_cpu: c_uint, mark: *mut c_void) {
    with_plugin(|plugin| {
        let counts = plugin.counts();
        plugin.groups.attribute(plugin.task, &counts);
        plugin.marks += 1;
        output::mark(plugin, mark as usize as u8, &counts);
    });
}

extern "C" fn translated(_id: u64, tb: *mut Tb) {
    with_plugin(|plugin| plugin.translate(tb));
}

impl Plugin {
    fn counts(&self) -> Counts {
        // SAFETY: the score has one `Counts` for each CPU, and there is one.
        unsafe { *qemu::qemu_plugin_scoreboard_find(self.score, 0).cast::<Counts>() }
    }

    fn translate(&mut self, tb: *mut Tb) {
        // SAFETY: the block lives until this function returns, and its instructions are addressed by index.
        unsafe {
            let count = qemu::qemu_plugin_tb_n_insns(tb);
            let executed = qemu::entry(self.score, std::mem::offset_of!(Counts, executed));
            qemu::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
                tb, INLINE_ADD, executed, count as u64,
            );
            for index in 0..count {
                let insn = qemu::qemu_plugin_tb_get_insn(tb, index);
                let (buffer, size) = qemu::bytes(insn);
                let bytes = &buffer[..size];
                if let Some(mark) = self.isa.mark(bytes) {
                    let data = usize::from(mark) as *mut c_void;
                    qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, NO_REGISTERS, data);
                }
                let at = qemu::qemu_plugin_insn_vaddr(insn);
                if at == self.switch && self.switch != 0 {
                    self.tasks.get_or_insert_with(|| self.isa.arguments().map(qemu::register));
                    let data = std::ptr::null_mut();
                    qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, switched, READS_REGISTERS, data);
                }
                if self.isa != Isa::X86_64 {
                    continue;
                }
                if let Some(op) = StringOp::of(bytes) {
                    let offset = Counts::offset(op, self.pass(index));
                    let entry = qemu::entry(self.score, offset);
                    qemu::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
                        insn, INLINE_ADD, entry, 1,
                    );
                }
            }
        }
    }

    /// Which executions a string instruction at this index of a block is translated for.
    ///
    /// QEMU executes one iteration at a time and starts a new block for the next one. After the first iteration it sets the
    /// CPU's resume flag, and blocks translated with that flag set are not reused without it.
    fn pass(&mut self, index: usize) -> Pass {
        if index > 0 {
            return Pass::Start;
        }
        let flags = *self.flags.get_or_insert_with(|| qemu::register(c"eflags"));
        match flags.and_then(qemu::read_u32) {
            Some(flags) if flags & strings::RESUME != 0 => Pass::Repeat,
            Some(_) => Pass::Start,
            None => Pass::Unknown,
        }
    }
}

/// Called by QEMU when it loads the plugin; anything but 0 ends QEMU.
#[unsafe(no_mangle)]
pub extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes `argc` arguments.
    let arguments: HashMap<String, String> = unsafe {
        let texts = (0..argc as usize).map(|at| CStr::from_ptr(*argv.add(at)));
        let pairs = texts.filter_map(|text| {
            let (key, value) = text.to_str().ok()?.split_once('=')?;
            Some((key.into(), value.into()))
        });
        pairs.collect()
    };
    // SAFETY: QEMU passes its description.
    let target = unsafe { Info::target(info) };
    match install(&arguments, &target) {
        // SAFETY: see `PluginCell`.
        Ok(plugin) => unsafe { *PLUGIN.0.get() = Some(plugin) },
        Err(why) => {
            eprintln!("bakeoff's counter: {why}");
            return -1;
        }
    }
    // SAFETY: `translated` has the type that QEMU requires.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
    0
}

fn install(arguments: &HashMap<String, String>, target: &str) -> Result<Plugin, String> {
    let isa = Isa::of_target(target).ok_or_else(|| format!("unknown architecture: {target}"))?;
    let path = arguments.get("out").ok_or("argument missing: out")?;
    let out = File::options()
        .append(true)
        .open(path)
        .map_err(|why| format!("cannot write {path}: {why}"))?;
    let number = |key: &str| -> Result<u64, String> {
        let Some(text) = arguments.get(key) else {
            return Ok(0);
        };
        text.parse()
            .map_err(|why| format!("argument {key}={text}: {why}"))
    };
    let layout = Layout {
        cgroups: number("cgroups")?,
        default_cgroup: number("default_cgroup")?,
        node: number("node")?,
        name: number("name")?,
    };
    // SAFETY: QEMU allocates a zeroed score of this size per CPU.
    let score = unsafe { qemu::qemu_plugin_scoreboard_new(size_of::<Counts>()) };
    Ok(Plugin {
        isa,
        score,
        flags: None,
        tasks: None,
        task: 0,
        groups: Groups::new(layout),
        switch: number("switch")?,
        marks: 0,
        out,
    })
}
