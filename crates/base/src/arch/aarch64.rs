//! Arm with 64 bits.

use super::{Architecture, Role};

pub(super) struct Aarch64;

/// The magic number (Documentation/arch/arm64/booting.rst).
const MAGIC: usize = 0x38;

impl Architecture for Aarch64 {
    fn name(&self) -> &'static str {
        "aarch64"
    }

    fn debian(&self) -> &'static str {
        "arm64"
    }

    fn multiarch(&self) -> &'static str {
        "aarch64-linux-gnu"
    }

    fn loader(&self) -> &'static str {
        "ld-linux-aarch64.so.1"
    }

    fn rust_target(&self) -> &'static str {
        "aarch64-unknown-linux-gnu"
    }

    fn elf_machine(&self) -> u16 {
        183
    }

    fn emulator(&self) -> (&'static str, &'static str) {
        ("qemu-system-aarch64", "qemu-system-arm")
    }

    fn firmware(&self) -> &'static [&'static str] {
        &["usr/share/qemu"]
    }

    fn machine(&self) -> &'static str {
        "virt,gic-version=3"
    }

    /// Graviton 2 and Ampere Altra. `max` has features of no current server, and the kernel mitigates differently there.
    fn usual_cpu(&self) -> &'static str {
        "neoverse-n1"
    }

    /// Servers have none: `FEAT_MOPS` copies and fills by instruction, but only in CPUs of Armv8.8 and later.
    fn fast_strings(&self) -> &'static [&'static str] {
        &[]
    }

    fn needed_fast_strings(&self) -> &'static [&'static str] {
        &[]
    }

    fn console(&self) -> &'static str {
        "ttyAMA0"
    }

    fn emulated_cmdline(&self, _cpus: u32) -> Vec<&'static str> {
        Vec::new()
    }

    fn source_dir(&self) -> &'static str {
        "arch/arm64"
    }

    fn built_image(&self) -> (&'static str, &'static str) {
        ("arch/arm64/boot/Image", "Image")
    }

    fn is_image(&self, image: &[u8]) -> bool {
        image.get(MAGIC..MAGIC + 4) == Some(b"ARM\x64")
    }

    /// The header has only the size in memory, with zeroes at the end that are not in the file.
    fn least_bytes(&self, _image: &[u8]) -> Option<u64> {
        None
    }

    fn release<'i>(&self, image: &'i [u8]) -> Option<&'i str> {
        const BANNER: &[u8] = b"Linux version ";
        self.is_image(image).then_some(())?;
        let at = image
            .windows(BANNER.len())
            .enumerate()
            .filter(|(_, window)| *window == BANNER)
            .map(|(at, _)| at + BANNER.len());
        // The kernel has the words in formats, too, where no number follows.
        at.filter(|at| image.get(*at).is_some_and(u8::is_ascii_digit))
            .find_map(|at| {
                let text = &image[at..image.len().min(at + 128)];
                let end = text.iter().position(|byte| *byte == b' ')?;
                std::str::from_utf8(&text[..end]).ok()
            })
    }

    fn head_bytes(&self) -> Option<usize> {
        None
    }

    fn roles(&self, function: &str) -> Vec<Role> {
        // The vectors branch to handlers such as `el0t_64_sync`, which call C functions.
        let is_vector = matches!(function, "vectors" | "tramp_vectors")
            || function.starts_with("__bp_harden_el1_vectors");
        let is_resumed = function == "__switch_to" || function.starts_with("ret_from_fork");
        let roles = [
            (is_vector, Role::Stubs),
            (function == self.switch(), Role::Switch),
            (is_resumed, Role::Resume),
        ];
        let roles = roles.into_iter().filter(|(is_so, _)| *is_so);
        roles.map(|(_, role)| role).collect()
    }

    fn switch(&self) -> &'static str {
        "cpu_switch_to"
    }
}
