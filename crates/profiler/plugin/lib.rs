//! The QEMU plugin: counts every instruction that a guest executes, by call path and task.
//!
//! A shared library that QEMU loads, so it is built apart from bakeoff (`../build.rs`) and uses nothing but `std`. It runs
//! under API version 1 (QEMU before 9) and 2 and later; the version that it announces is patched when the file is written
//! for a QEMU. It knows addresses only; the host resolves names after the guest has ended.
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
use engine::Engine;
use functions::Setup;
use memory::{Memory as _, Ram};
use tree::Mixer;

/// First kernel address.
const KERNEL: u64 = 1 << 63;

/// More bytes than an x86 instruction can have.
const INSTRUCTION_BYTES: usize = 16;

/// The API version that QEMU checks. The host finds it by the tag that follows the number.
#[repr(C)]
pub struct Version {
    api: c_int,
    tag: [u8; 20],
}

/// Read by QEMU as an `int`.
#[unsafe(no_mangle)]
#[used]
pub static qemu_plugin_version: Version = Version {
    api: 1,
    tag: *b"bakeoff plugin's API",
};

/// `struct qemu_info_t`, as far as it is read.
#[repr(C)]
pub struct Info {
    target: *const c_char,
    least: c_int,
    current: c_int,
}

enum Tb {}
enum Insn {}

type Callback = extern "C" fn(c_uint, *mut c_void);

/// `QEMU_PLUGIN_CB_NO_REGS`.
const NO_REGISTERS: c_int = 0;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: extern "C" fn(u64, *mut Tb));
    fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        callback: Callback,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        callback: Callback,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    fn qemu_plugin_tb_vaddr(tb: *const Tb) -> u64;
    fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    // Until version 2 it takes only the first argument and returns a pointer to the bytes; since then it copies them and
    // returns their number. The calling convention lets one declaration serve both.
    fn qemu_plugin_insn_data(insn: *const Insn, to: *mut u8, bytes: usize) -> usize;
    fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    fn qemu_plugin_insn_haddr(insn: *const Insn) -> *const u8;
}

/// The first API version whose `qemu_plugin_insn_data` copies.
const COPIES: c_int = 3;

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
    setup: Setup,
    /// Whether `qemu_plugin_insn_data` copies.
    copies: bool,
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

extern "C" fn translated(_id: u64, tb: *mut Tb) {
    with_plugin(|plugin| {
        // SAFETY: the block lives until this function returns.
        let block = unsafe { TranslatedBlock::read(tb, plugin.copies) };
        let index = plugin.index(&block);
        // SAFETY: as above; the data is a number.
        unsafe {
            qemu_plugin_register_vcpu_tb_exec_cb(
                tb,
                executed,
                NO_REGISTERS,
                index as usize as *mut c_void,
            );
            for (at, mark) in &block.marks {
                let insn = qemu_plugin_tb_get_insn(tb, *at);
                let mark = usize::from(*mark) as *mut c_void;
                qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, NO_REGISTERS, mark);
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
}

impl TranslatedBlock {
    /// # Safety
    /// `tb` is a block that QEMU is translating.
    unsafe fn read(tb: *mut Tb, copies: bool) -> Self {
        // SAFETY: the calls query the block and its instructions by index below their number.
        unsafe {
            let address = qemu_plugin_tb_vaddr(tb);
            let count = qemu_plugin_tb_n_insns(tb);
            let mut hash = Mixer::default();
            let (mut starts, mut marks) = (Vec::with_capacity(count), Vec::new());
            let (mut end, mut last) = (address, decode::Last::OTHER);
            let mut host = 0;
            for index in 0..count {
                let insn = qemu_plugin_tb_get_insn(tb, index);
                if index == 0 {
                    host = qemu_plugin_insn_haddr(insn) as usize;
                }
                let at = qemu_plugin_insn_vaddr(insn);
                let mut buffer = [0; INSTRUCTION_BYTES];
                let bytes = bytes_of(insn, copies, &mut buffer);
                let (low, high) = buffer_words(bytes);
                hash.write_u64(low);
                hash.write_u64(high);
                starts.push(at.wrapping_sub(address) as u16);
                marks.extend(decode::mark(bytes).map(|mark| (index, mark)));
                end = at + bytes.len() as u64;
                if index + 1 == count {
                    last = decode::last(at, bytes);
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
            }
        }
    }
}

/// An instruction as two words.
fn buffer_words(bytes: &[u8]) -> (u64, u64) {
    let mut words = [0; INSTRUCTION_BYTES];
    words[..bytes.len()].copy_from_slice(bytes);
    let words = u128::from_le_bytes(words);
    (words as u64, (words >> 64) as u64)
}

/// # Safety
/// `insn` is an instruction of the block that QEMU is translating.
unsafe fn bytes_of(insn: *const Insn, copies: bool, buffer: &mut [u8; INSTRUCTION_BYTES]) -> &[u8] {
    // SAFETY: QEMU copies or points to `size` bytes of the instruction.
    unsafe {
        let size = qemu_plugin_insn_size(insn).min(INSTRUCTION_BYTES);
        let got = qemu_plugin_insn_data(insn, buffer.as_mut_ptr(), size);
        if !copies && got != 0 {
            std::ptr::copy_nonoverlapping(got as *const u8, buffer.as_mut_ptr(), size);
        }
        &buffer[..size]
    }
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
    let (version, arguments) = unsafe {
        let texts = (0..argc as usize).map(|at| CStr::from_ptr(*argv.add(at)));
        let texts: Vec<_> = texts
            .map(|text| text.to_string_lossy().into_owned())
            .collect();
        ((*info).current, texts)
    };
    match install(&arguments, version) {
        // SAFETY: see `PluginCell`.
        Ok(plugin) => unsafe { *PLUGIN.0.get() = Some(plugin) },
        Err(why) => {
            eprintln!("bakeoff's profiler: {why}");
            return -1;
        }
    }
    // SAFETY: `translated` has the type that QEMU requires.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
    0
}

fn install(arguments: &[String], version: c_int) -> Result<Plugin, String> {
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
    let engine = Engine::new(Ram::new(), setup.layout);
    Ok(Plugin {
        marks: 0,
        engine,
        setup,
        copies: version >= COPIES,
        blocks: HashMap::default(),
        out,
    })
}
