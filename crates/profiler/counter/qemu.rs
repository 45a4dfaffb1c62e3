//! The part of QEMU's plugin API that is used, with the GLib arrays that it returns.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// A block that QEMU translates.
pub enum Tb {}
/// An instruction of a block.
pub enum Insn {}
/// Counters of all CPUs.
pub enum Score {}
/// `struct qemu_info_t`, as far as it is read.
#[repr(C)]
pub struct Info {
    target: *const c_char,
}

impl Info {
    /// QEMU's name of the guest's architecture.
    ///
    /// # Safety
    /// `info` is what QEMU passes when it loads a plugin.
    pub unsafe fn target(info: *const Self) -> String {
        // SAFETY: QEMU passes a text that ends with a zero.
        unsafe { CStr::from_ptr((*info).target) }.to_string_lossy().into_owned()
    }
}

/// `qemu_plugin_u64`: a counter in a score.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    score: *mut Score,
    offset: usize,
}

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
struct Register {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
}

/// `GArray` and `GByteArray`.
#[repr(C)]
struct Array<T> {
    data: *mut T,
    len: c_uint,
}

/// A function that QEMU calls while the guest executes.
pub type Callback = extern "C" fn(c_uint, *mut c_void);

/// `QEMU_PLUGIN_CB_NO_REGS`.
pub const NO_REGISTERS: c_int = 0;

/// `QEMU_PLUGIN_CB_R_REGS`: the callback may read registers.
pub const READS_REGISTERS: c_int = 1;

/// `QEMU_PLUGIN_INLINE_ADD_U64`.
pub const INLINE_ADD: c_int = 0;

/// More bytes than an instruction of any architecture can have.
pub const INSTRUCTION_BYTES: usize = 16;

#[allow(missing_docs)]
unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: extern "C" fn(u64, *mut Tb));
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(tb: *mut Tb, callback: Callback, flags: c_int, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb: *mut Tb, op: c_int, entry: Entry, value: u64);
    pub fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn: *mut Insn, op: c_int, entry: Entry, value: u64);
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(insn: *mut Insn, callback: Callback, flags: c_int, data: *mut c_void);
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_tb_vaddr(tb: *const Tb) -> u64;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_insn_haddr(insn: *const Insn) -> *const u8;
    fn qemu_plugin_insn_data(insn: *const Insn, to: *mut u8, bytes: usize) -> usize;
    fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_scoreboard_new(bytes: usize) -> *mut Score;
    pub fn qemu_plugin_scoreboard_find(score: *mut Score, cpu: c_uint) -> *mut c_void;
    fn qemu_plugin_get_registers() -> *mut Array<Register>;
    fn qemu_plugin_read_register(handle: *mut c_void, to: *mut Array<u8>) -> c_int;
    fn qemu_plugin_read_memory_vaddr(address: u64, to: *mut Array<u8>, bytes: usize) -> bool;
    fn g_byte_array_new() -> *mut Array<u8>;
    fn g_byte_array_unref(array: *mut Array<u8>);
    fn g_array_unref(array: *mut Array<Register>);
}

/// A counter at an offset of the score.
pub fn entry(score: *mut Score, offset: usize) -> Entry {
    Entry { score, offset }
}

/// The bytes of an instruction, and their number.
///
/// # Safety
/// `insn` is an instruction of the block that QEMU is translating.
pub unsafe fn bytes(insn: *const Insn) -> ([u8; INSTRUCTION_BYTES], usize) {
    let mut buffer = [0; INSTRUCTION_BYTES];
    // SAFETY: QEMU copies at most `size` bytes.
    let size = unsafe {
        let size = qemu_plugin_insn_size(insn).min(INSTRUCTION_BYTES);
        qemu_plugin_insn_data(insn, buffer.as_mut_ptr(), size)
    };
    (buffer, size)
}

/// QEMU's handle of a register.
pub fn register(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: QEMU returns an array of `len` descriptors, whose names live as long as QEMU.
    unsafe {
        let array = qemu_plugin_get_registers();
        let registers = std::slice::from_raw_parts((*array).data, (*array).len as usize);
        let is_wanted = |register: &&Register| {
            !register.name.is_null() && CStr::from_ptr(register.name) == name
        };
        let handle = registers.iter().find(is_wanted).map(|register| register.handle);
        g_array_unref(array);
        handle
    }
}

/// A register's bytes, the lowest first; `None` if QEMU does not allow reading it.
fn read_register(handle: *mut c_void) -> Option<Vec<u8>> {
    // SAFETY: the handle is QEMU's; QEMU appends bytes to our array.
    unsafe { filled(|array| qemu_plugin_read_register(handle, array) > 0) }
}

/// A register's lowest four bytes.
pub fn read_u32(handle: *mut c_void) -> Option<u32> {
    Some(u32::from_le_bytes(*read_register(handle)?.first_chunk()?))
}

/// A register's eight bytes.
pub fn read_u64(handle: *mut c_void) -> Option<u64> {
    Some(u64::from_le_bytes(*read_register(handle)?.first_chunk()?))
}

/// Eight bytes of guest memory at a virtual address.
pub fn word(address: u64) -> Option<u64> {
    Some(u64::from_le_bytes(*read_memory(address, 8)?.first_chunk()?))
}

/// Guest memory at a virtual address, as the running task sees it.
pub fn read_memory(address: u64, bytes: usize) -> Option<Vec<u8>> {
    // SAFETY: QEMU appends bytes to our array.
    unsafe { filled(|array| qemu_plugin_read_memory_vaddr(address, array, bytes)) }
}

/// # Safety
/// `fill` only lets QEMU append bytes to the array.
unsafe fn filled(fill: impl FnOnce(*mut Array<u8>) -> bool) -> Option<Vec<u8>> {
    // SAFETY: GLib's array starts empty and stores its length.
    unsafe {
        let array = g_byte_array_new();
        let is_filled = fill(array);
        let bytes = is_filled.then(|| {
            std::slice::from_raw_parts((*array).data, (*array).len as usize).to_vec()
        });
        g_byte_array_unref(array);
        bytes
    }
}
