//! The QEMU plugin: counts every instruction that a guest executes, by call path and task.
//!
//! A shared library that QEMU loads, so it is built apart from bakeoff (`../build.rs`) and uses nothing but `std`. It knows
//! addresses only; the host resolves names after the guest has ended.
//!
//! ```text
//! translation  block -> length, last instruction, function    (`decode`, `functions`)
//! execution    block -> node of the call tree                 (`engine`)
//! mark         writes all changes since the last one          (`output`)
//! ```
#![deny(missing_docs)]

mod block;
mod decode;
mod engine;
mod functions;
mod memory;
mod output;
#[path = "../counter/qemu.rs"]
#[allow(dead_code)]
mod qemu;
#[path = "../counter/strings.rs"]
#[allow(dead_code)]
mod strings;
mod tree;
mod waits;

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher as _};
use std::io::Write as _;

use block::Block;
use decode::Isa;
use engine::Engine;
use functions::Setup;
use memory::{Memory as _, Ram};
use qemu::{Info, NO_REGISTERS, READS_REGISTERS, Tb};
use tree::Mixer;

/// First kernel address.
const KERNEL: u64 = 1 << 63;

/// The API version that QEMU checks: guest memory can be read since version 4 (QEMU 9.2).
#[unsafe(no_mangle)]
#[used]
pub static qemu_plugin_version: c_int = 4;

/// Most blocks of code. A server with a just-in-time compiler has some hundred thousand.
const MOST_BLOCKS: usize = 1 << 21;

/// Most marks to write, as many as the host reads.
const MOST_MARKS: u32 = 4096;

unsafe extern "C" {
    fn _exit(status: c_int) -> !;
}

/// Ends QEMU, because a guest must not fill the host's memory.
fn too_much_code() -> ! {
    eprintln!("bakeoff's profiler: the guest has more code than a profile can have");
    // SAFETY: it takes a number. QEMU's regular exit would wait for this thread.
    unsafe { _exit(1) }
}

struct Plugin {
    /// Number of marks so far.
    marks: u32,
    engine: Engine<Ram>,
    isa: Isa,
    setup: Setup,
    /// QEMU's handle of the register that has the next task at a switch; looked up when the switch is translated.
    next_task: Option<Option<*mut c_void>>,
    blocks: HashMap<(u64, u64, u64), u32, BuildHasherDefault<Mixer>>,
    out: File,
}

/// The single plugin of this QEMU process.
struct PluginCell(UnsafeCell<Option<Plugin>>);

// SAFETY: with counted instructions QEMU has one thread that translates and executes, and calls nothing here from others. The
// plugin is stored here before that thread starts.
unsafe impl Sync for PluginCell {}

static PLUGIN: PluginCell = PluginCell(UnsafeCell::new(None));

#[inline]
fn with_plugin(act: impl FnOnce(&mut Plugin)) {
    // SAFETY: see `PluginCell`; QEMU runs no two callbacks at the same time.
    if let Some(plugin) = unsafe { &mut *PLUGIN.0.get() } {
        act(plugin);
    }
}

extern "C" fn executed(_cpu: c_uint, index: *mut c_void) {
    with_plugin(|plugin| plugin.engine.execute(index as usize as u32));
}

extern "C" fn marked(_cpu: c_uint, mark: *mut c_void) {
    with_plugin(|plugin| {
        // Writes one more than the host reads, so that the host detects the excess.
        if plugin.marks > MOST_MARKS {
            return;
        }
        plugin.marks += 1;
        let bytes = plugin.engine.mark(mark as usize as u64);
        // If writing fails, the file ends early, which its reader detects.
        let _ = plugin.out.write_all(&bytes);
    });
}

extern "C" fn switched(_cpu: c_uint, _data: *mut c_void) {
    with_plugin(|plugin| {
        let handle = plugin.next_task.flatten();
        let task = handle.and_then(qemu::read_u64);
        plugin.engine.switch_to(task.unwrap_or(0));
    });
}

extern "C" fn translated(_id: u64, tb: *mut Tb) {
    with_plugin(|plugin| {
        // SAFETY: the block lives until this function returns.
        let block = unsafe { TranslatedBlock::read(tb, plugin.isa, plugin.setup.layout.switch) };
        let index = plugin.index(&block);
        if block.switch.is_some() {
            let [_, next] = plugin.isa.arguments();
            plugin.next_task.get_or_insert_with(|| qemu::register(next));
        }
        // SAFETY: as above; the data is a number.
        unsafe {
            qemu::qemu_plugin_register_vcpu_tb_exec_cb(
                tb,
                executed,
                NO_REGISTERS,
                index as usize as *mut c_void,
            );
            if let Some(at) = block.switch {
                let insn = qemu::qemu_plugin_tb_get_insn(tb, at);
                let data = std::ptr::null_mut();
                qemu::qemu_plugin_register_vcpu_insn_exec_cb(
                    insn,
                    switched,
                    READS_REGISTERS,
                    data,
                );
            }
            for (at, mark) in &block.marks {
                let insn = qemu::qemu_plugin_tb_get_insn(tb, *at);
                let mark = usize::from(*mark) as *mut c_void;
                qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, NO_REGISTERS, mark);
            }
        }
    });
}

/// A block that QEMU translates.
struct TranslatedBlock {
    address: u64,
    /// Address of its first byte in QEMU's memory.
    host: usize,
    /// Start of each instruction, as an offset from `address`.
    starts: Vec<u16>,
    end: u64,
    last: decode::Last,
    hash: u64,
    marks: Vec<(usize, u8)>,
    /// Index of the first instruction of the function that switches stacks.
    switch: Option<usize>,
}

impl TranslatedBlock {
    /// # Safety
    /// `tb` is a block that QEMU is translating.
    unsafe fn read(tb: *mut Tb, isa: Isa, switch: u64) -> Self {
        // SAFETY: the calls query the block and its instructions by index below their number.
        unsafe {
            let address = qemu::qemu_plugin_tb_vaddr(tb);
            let count = qemu::qemu_plugin_tb_n_insns(tb);
            let mut hash = Mixer::default();
            let (mut starts, mut marks) = (Vec::with_capacity(count), Vec::new());
            let (mut end, mut last) = (address, decode::Last::OTHER);
            let (mut host, mut switch_index) = (0, None);
            for index in 0..count {
                let insn = qemu::qemu_plugin_tb_get_insn(tb, index);
                if index == 0 {
                    host = qemu::qemu_plugin_insn_haddr(insn) as usize;
                }
                let at = qemu::qemu_plugin_insn_vaddr(insn);
                let (buffer, size) = qemu::bytes(insn);
                let bytes = &buffer[..size];
                let (low, high) = buffer_words(bytes);
                hash.write_u64(low);
                hash.write_u64(high);
                starts.push(at.wrapping_sub(address) as u16);
                if at == switch && switch != 0 {
                    switch_index = Some(index);
                }
                marks.extend(isa.mark(bytes).map(|mark| (index, mark)));
                end = at + bytes.len() as u64;
                if index + 1 == count {
                    last = isa.last(at, bytes);
                }
            }
            Self {
                address,
                host,
                starts,
                end,
                last,
                hash: hash.finish(),
                marks,
                switch: switch_index,
            }
        }
    }
}

/// An instruction as two words.
fn buffer_words(bytes: &[u8]) -> (u64, u64) {
    let mut words = [0; qemu::INSTRUCTION_BYTES];
    words[..bytes.len()].copy_from_slice(bytes);
    let words = u128::from_le_bytes(words);
    (words as u64, (words >> 64) as u64)
}

impl Plugin {
    /// The index of a block; the same for an unchanged block that is retranslated.
    fn index(&mut self, translated: &TranslatedBlock) -> u32 {
        let is_user = translated.address < KERNEL;
        let page = if is_user {
            self.engine.memory.physical(translated.host).unwrap_or(0)
        } else {
            0
        };
        let key = (translated.address, page, translated.hash);
        if let Some(index) = self.blocks.get(&key) {
            return *index;
        }
        let place = match is_user {
            true => functions::Place::user(page),
            false => self.setup.functions.place(translated.address),
        };
        if self.blocks.len() >= MOST_BLOCKS {
            too_much_code();
        }
        let block = Block::new(
            translated.address,
            translated.end,
            translated.last,
            place,
            &translated.starts,
        );
        let index = self.engine.add(block);
        self.blocks.insert(key, index);
        index
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
    // SAFETY: QEMU passes its description and `argc` arguments.
    let (target, arguments) = unsafe {
        let texts = (0..argc as usize).map(|at| CStr::from_ptr(*argv.add(at)));
        let texts: Vec<_> = texts
            .map(|text| text.to_string_lossy().into_owned())
            .collect();
        (Info::target(info), texts)
    };
    match install(&arguments, &target) {
        // SAFETY: see `PluginCell`.
        Ok(plugin) => unsafe { *PLUGIN.0.get() = Some(plugin) },
        Err(why) => {
            eprintln!("bakeoff's profiler: {why}");
            return -1;
        }
    }
    // SAFETY: `translated` has the type that QEMU requires.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
    0
}

fn install(arguments: &[String], target: &str) -> Result<Plugin, String> {
    let isa = Isa::of_target(target).ok_or_else(|| format!("unknown architecture: {target}"))?;
    let value = |key: &str| {
        let mut pairs = arguments.iter().filter_map(|text| text.split_once('='));
        let value = pairs.find_map(|(name, value)| (name == key).then_some(value));
        value.ok_or_else(|| format!("argument missing: {key}"))
    };
    let path = value("setup")?;
    let setup = std::fs::read(path).map_err(|why| format!("cannot read {path}: {why}"))?;
    let setup = Setup::read(&setup)?;
    let out = value("out")?;
    let mut out = File::options()
        .append(true)
        .open(out)
        .map_err(|why| format!("cannot write {out}: {why}"))?;
    out.write_all(output::MAGIC)
        .map_err(|why| why.to_string())?;
    let engine = Engine::new(Ram::new(isa, qemu::word), setup.layout);
    Ok(Plugin {
        marks: 0,
        engine,
        isa,
        setup,
        next_task: None,
        blocks: HashMap::default(),
        out,
    })
}
