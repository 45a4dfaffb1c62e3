//! The profiler: every instruction that an emulated guest executes, by call path and task.
//!
//! ```text
//! vmlinuz -> functions, offsets (`kernel`) -> setup -\
//!                                       plugin.so ----> QEMU -> raw counts by address (`raw`)
//! raw + symbols of the kernel, modules and servers (`resolve`) -> Profile -> profile.zst (`format`)
//!
//! offsets -> counter.so -> QEMU -> string instructions, and instructions by control group (`counter`): in every counted trial
//! ```
//! This crate starts nothing and knows no machine: `machine` gives the plugin to QEMU and passes on its output.

pub mod btf;
mod budget;
pub mod bzimage;
pub mod counter;
pub mod elf;
pub mod folded;
pub mod format;
pub mod kallsyms;
pub mod kernel;
pub mod plugin;
pub mod profile;
pub mod raw;
pub mod resolve;
pub mod unpack;
mod wire;
