//! Instruction set architectures of guests, a file each: all that differs between them on the host's side.
//!
//! Decoding of instructions is in `crates/profiler/plugin/decode/`, because the emulator's plugins use nothing but `std`.

mod aarch64;
mod x86_64;

use std::fmt;

use serde::{Deserialize, Serialize};

/// An architecture, by the name that uname(1) prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    /// x86 with 64 bits.
    X86_64,
    /// Arm with 64 bits.
    Aarch64,
}

/// What a function of the kernel means to the flow of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The CPU enters it by a system call, an interrupt or an exception, at its first address.
    Entry,
    /// The same, by an exception after which the instruction is executed again.
    Fault,
    /// It switches stacks from one task to another.
    Switch,
    /// A task continues in it after a switch.
    Resume,
    /// The CPU enters it at many addresses, one for each kind of interrupt.
    Stubs,
    /// It calls a function by returning to it.
    Thunk,
}

/// What bakeoff knows of an architecture.
pub trait Architecture: Sync {
    /// Name that uname(1) prints.
    fn name(&self) -> &'static str;

    /// Debian's name.
    fn debian(&self) -> &'static str;

    /// Directory of Debian's libraries, below `/usr/lib`.
    fn multiarch(&self) -> &'static str;

    /// The dynamic linker in that directory.
    fn loader(&self) -> &'static str;

    /// The target of rustc.
    fn rust_target(&self) -> &'static str;

    /// `e_machine` of its ELF files (elf.h).
    fn elf_machine(&self) -> u16;

    /// QEMU's program for whole systems, and its Debian package.
    fn emulator(&self) -> (&'static str, &'static str);

    /// Directories of an unpacked emulator that it needs beside its libraries.
    fn firmware(&self) -> &'static [&'static str];

    /// QEMU's machine type.
    fn machine(&self) -> &'static str;

    /// The CPU model of emulated guests.
    fn usual_cpu(&self) -> &'static str;

    /// CPU features by which most copies and fills are single instructions. Guests of counted instructions have those that the
    /// emulator knows.
    fn fast_strings(&self) -> &'static [&'static str];

    /// Those of them that every guest of counted instructions must have.
    fn needed_fast_strings(&self) -> &'static [&'static str];

    /// Name of the serial console's device.
    fn console(&self) -> &'static str;

    /// Words of the kernel's command line under emulation.
    fn emulated_cmdline(&self, cpus: u32) -> Vec<&'static str>;

    /// Where a kernel tree has the sources of this architecture.
    fn source_dir(&self) -> &'static str;

    /// The bootable image of a built tree, and its target of make(1).
    fn built_image(&self) -> (&'static str, &'static str);

    /// Whether the bytes begin a bootable image.
    fn is_image(&self, image: &[u8]) -> bool;

    /// Fewest bytes of the whole image, if its header has them.
    fn least_bytes(&self, image: &[u8]) -> Option<u64>;

    /// The release that a bootable image names.
    fn release<'i>(&self, image: &'i [u8]) -> Option<&'i str>;

    /// Bytes at the beginning of an image that `release` needs; `None` for all.
    fn head_bytes(&self) -> Option<usize>;

    /// The roles of a kernel function.
    fn roles(&self, function: &str) -> Vec<Role>;

    /// The function that switches stacks.
    fn switch(&self) -> &'static str;
}

impl Arch {
    /// The host's.
    pub const HOST: Self = if cfg!(target_arch = "aarch64") {
        Self::Aarch64
    } else {
        Self::X86_64
    };

    /// All of them.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// What bakeoff knows of it.
    pub fn facts(self) -> &'static dyn Architecture {
        match self {
            Self::X86_64 => &x86_64::X86_64,
            Self::Aarch64 => &aarch64::Aarch64,
        }
    }

    /// The architecture that a bootable image is for.
    pub fn of_image(image: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|arch| arch.facts().is_image(image))
    }
}

/// Whether the CPU itself enters a kernel function of this name, on any architecture.
pub fn is_entry(function: &str) -> bool {
    let is_entry = |role: &Role| matches!(role, Role::Entry | Role::Stubs);
    let mut all = Arch::ALL.into_iter();
    all.any(|arch| arch.facts().roles(function).iter().any(is_entry))
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_header() {
        let mut image = vec![0; 4096];
        assert_eq!(Arch::of_image(&image), None);
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        assert_eq!(Arch::of_image(&image), Some(Arch::Aarch64));
        let text = b"\0Linux version 6.1.0-50-cloud-arm64 (debian-kernel@lists.debian.org)";
        image.extend(text);
        let release = Arch::Aarch64.facts().release(&image);
        assert_eq!(release, Some("6.1.0-50-cloud-arm64"));
        let mut image = vec![0; 4096];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        assert_eq!(Arch::of_image(&image), Some(Arch::X86_64));
        assert_eq!(Arch::of_image(b"MZ"), None);
    }

    #[test]
    fn functions_that_the_cpu_enters_directly_are_entries_and_stack_switches_are_not() {
        let is_entry = |arch: Arch, name: &str| arch.facts().roles(name).contains(&Role::Entry);
        for name in [
            "asm_exc_page_fault",
            "asm_sysvec_apic_timer_interrupt",
            "asm_common_interrupt",
            "entry_SYSCALL_64",
        ] {
            assert!(is_entry(Arch::X86_64, name), "{name}");
        }
        for name in [
            "asm_call_on_stack",
            "asm_call_sysvec_on_stack",
            "asm_call_irq_on_stack",
            "do_syscall_64",
        ] {
            assert!(!is_entry(Arch::X86_64, name), "{name}");
        }
        assert_eq!(Arch::Aarch64.facts().roles("vectors"), [Role::Stubs]);
        assert_eq!(Arch::Aarch64.facts().roles("el0t_64_sync_handler"), []);
    }
}
