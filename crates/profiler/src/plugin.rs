//! The plugin library for QEMU, and its setup file.

use crate::kernel::{KernelSymbols, is_entry};

/// The built library; empty if this build could not make it.
static PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plugin.so"));

/// Follows the API version that a plugin announces to QEMU (`plugin/lib.rs`).
const TAG: &[u8] = b"bakeoff plugin's API";

/// The first major release of QEMU that refuses plugins of API version 1.
const FIRST_OF_API_2: u32 = 9;

/// The shared library for a QEMU of this major release; `None` if this build of bakeoff has none.
pub fn library(qemu_major: u32) -> Option<Vec<u8>> {
    let mut library = PLUGIN.to_vec();
    let tag = library
        .windows(TAG.len())
        .position(|window| window == TAG)?;
    let api: i32 = if qemu_major < FIRST_OF_API_2 { 1 } else { 2 };
    let at = tag.checked_sub(4)?;
    library[at..tag].copy_from_slice(&api.to_le_bytes());
    Some(library)
}

/// First bytes of the setup, as in `plugin/functions.rs`.
const MAGIC: &[u8; 8] = b"bkosetp2";

/// The setup that the plugin reads before the guest starts.
pub fn setup(kernel: &KernelSymbols, memory_bytes: u64, ns_per_instruction: u32) -> Vec<u8> {
    let layout = kernel.layout;
    let task = layout.task;
    let words = [
        layout.per_cpu_offset,
        layout.current_task,
        layout.page_offset_base,
        task.comm,
        task.pid,
        task.state,
        task.run_delay,
        task.last_arrival,
        task.last_queued,
        task.pcount,
        ns_per_instruction.into(),
        memory_bytes,
    ];
    let functions = kernel
        .functions
        .iter()
        .flat_map(|function| [function.address, flags(&function.name)]);
    let end = [kernel.end, 0];
    let words = words.into_iter().chain(functions).chain(end);
    let mut setup = MAGIC.to_vec();
    words.for_each(|word| setup.extend(word.to_le_bytes()));
    setup
}

/// The flags of a function, as in `plugin/functions.rs`.
fn flags(name: &str) -> u64 {
    const ENTRY: u64 = 1;
    const FAULT: u64 = 2;
    const SWITCH: u64 = 4;
    const RESUME: u64 = 8;
    const STUBS: u64 = 16;
    const THUNK: u64 = 32;
    let starts_with_any =
        |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let mut flags = 0;
    if is_entry(name) {
        flags |= ENTRY;
    }
    if starts_with_any(&["asm_exc_"]) {
        flags |= FAULT;
    }
    if name == "__switch_to_asm" {
        flags |= SWITCH;
    }
    if starts_with_any(&["__schedule", "ret_from_fork", "context_switch"]) {
        flags |= RESUME;
    }
    if matches!(name, "irq_entries_start" | "spurious_entries_start") {
        flags |= STUBS;
    }
    if starts_with_any(&["__x86_indirect_"]) {
        flags |= THUNK;
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_announces_the_api_that_its_qemu_wants() {
        let api = |major| {
            let library = library(major).expect("the tests' toolchain builds the plugin");
            let tag = library
                .windows(TAG.len())
                .position(|window| window == TAG)
                .unwrap();
            library[tag - 4]
        };
        assert_eq!([api(7), api(8), api(9), api(10)], [1, 1, 2, 2]);
    }
}
