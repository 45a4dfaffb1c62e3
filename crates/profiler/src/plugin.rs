//! The plugin library for QEMU, and its setup file.

use base::arch::{Arch, Role};

use crate::kernel::KernelSymbols;

/// The built library; empty if this build could not make it.
static PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plugin.so"));

/// The shared library; `None` if this build of bakeoff has none.
pub fn library() -> Option<&'static [u8]> {
    (!PLUGIN.is_empty()).then_some(PLUGIN)
}

/// First bytes of the setup, as in `plugin/functions.rs`.
const MAGIC: &[u8; 8] = b"bkosetp3";

/// The setup that the plugin reads before the guest starts.
pub fn setup(kernel: &KernelSymbols, ns_per_instruction: u32) -> Vec<u8> {
    let task = kernel.layout.task;
    let words = [
        kernel.switch().unwrap_or(0),
        task.comm,
        task.pid,
        task.state,
        task.run_delay,
        task.last_arrival,
        task.last_queued,
        task.pcount,
        ns_per_instruction.into(),
    ];
    let functions = kernel
        .functions
        .iter()
        .flat_map(|function| [function.address, flags(kernel.arch, &function.name)]);
    let end = [kernel.end, 0];
    let words = words.into_iter().chain(functions).chain(end);
    let mut setup = MAGIC.to_vec();
    words.for_each(|word| setup.extend(word.to_le_bytes()));
    setup
}

/// The flags of a function, as in `plugin/functions.rs`.
fn flags(arch: Arch, name: &str) -> u64 {
    let flag = |role: Role| match role {
        Role::Entry => 1,
        Role::Fault => 2,
        Role::Switch => 4,
        Role::Resume => 8,
        Role::Stubs => 16,
        Role::Thunk => 32,
    };
    let roles = arch.facts().roles(name).into_iter();
    roles.fold(0, |flags, role| flags | flag(role))
}
