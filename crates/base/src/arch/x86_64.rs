//! x86 with 64 bits.

use super::{Architecture, Role};

pub(super) struct X86_64;

/// Documentation/arch/x86/boot.rst: `setup_sects`, `syssize`, the magic number, `kernel_version`.
const SETUP_SECTORS: usize = 0x1f1;
const PARAGRAPHS: usize = 0x1f4;
const MAGIC: usize = 0x202;
const RELEASE: usize = 0x20e;

impl Architecture for X86_64 {
    fn name(&self) -> &'static str {
        "x86_64"
    }

    fn debian(&self) -> &'static str {
        "amd64"
    }

    fn multiarch(&self) -> &'static str {
        "x86_64-linux-gnu"
    }

    fn loader(&self) -> &'static str {
        "ld-linux-x86-64.so.2"
    }

    fn rust_target(&self) -> &'static str {
        "x86_64-unknown-linux-gnu"
    }

    fn elf_machine(&self) -> u16 {
        62
    }

    fn emulator(&self) -> (&'static str, &'static str) {
        ("qemu-system-x86_64", "qemu-system-x86")
    }

    fn firmware(&self) -> &'static [&'static str] {
        &["usr/share/qemu", "usr/share/seabios"]
    }

    fn machine(&self) -> &'static str {
        "q35,usb=off,vmport=off"
    }

    /// `max` has the fewest mitigations, like a current server; other models are "vulnerable" where no such server is.
    fn usual_cpu(&self) -> &'static str {
        "max"
    }

    /// Current servers have `erms` since 2013, `fsrm` since 2019.
    fn fast_strings(&self) -> &'static [&'static str] {
        &["erms", "fsrm", "fzrm", "fsrs", "fsrc"]
    }

    fn needed_fast_strings(&self) -> &'static [&'static str] {
        &["erms", "fsrm"]
    }

    fn console(&self) -> &'static str {
        "ttyS0"
    }

    fn emulated_cmdline(&self, cpus: u32) -> Vec<&'static str> {
        // On a busy host the emulated timer may miss the check's deadline, and the kernel panics.
        let mut words = vec!["no_timer_check"];
        if cpus > 1 {
            // 7.2's clocksource watchdog waits for another CPU with interrupts off, and its timeout counts jiffies
            // while the kernel boots. If that CPU waits in stop_machine, jiffies stop, and the boot hangs.
            words.push("tsc=nowatchdog");
        }
        words
    }

    fn source_dir(&self) -> &'static str {
        "arch/x86"
    }

    fn built_image(&self) -> (&'static str, &'static str) {
        ("arch/x86/boot/bzImage", "bzImage")
    }

    fn is_image(&self, image: &[u8]) -> bool {
        image.get(MAGIC..MAGIC + 4) == Some(b"HdrS")
    }

    fn least_bytes(&self, image: &[u8]) -> Option<u64> {
        let sectors = match image.get(SETUP_SECTORS)? {
            // By the boot protocol.
            0 => 4,
            sectors => u64::from(*sectors),
        };
        let paragraphs: [u8; 4] = image.get(PARAGRAPHS..PARAGRAPHS + 4)?.try_into().ok()?;
        let paragraphs = u64::from(u32::from_le_bytes(paragraphs));
        (paragraphs > 0).then_some((sectors + 1) * 512 + paragraphs * 16)
    }

    fn release<'i>(&self, image: &'i [u8]) -> Option<&'i str> {
        self.is_image(image).then_some(())?;
        let pointer = u16::from_le_bytes([*image.get(RELEASE)?, *image.get(RELEASE + 1)?]);
        let text = image.get(0x200 + usize::from(pointer)..)?;
        let end = text.iter().position(|byte| *byte == 0 || *byte == b' ')?;
        std::str::from_utf8(&text[..end]).ok()
    }

    fn head_bytes(&self) -> Option<usize> {
        // The header's pointer to the release has 16 bits.
        Some((1 << 16) + (1 << 10))
    }

    fn roles(&self, function: &str) -> Vec<Role> {
        let starts_with_any =
            |prefixes: &[&str]| prefixes.iter().any(|prefix| function.starts_with(prefix));
        // `asm_call_on_stack` and similar functions of 5.8 to 5.11 are called and return.
        let is_called = function.starts_with("asm_call_");
        let is_entry =
            starts_with_any(&["asm_", "entry_SYSCALL_", "entry_SYSENTER_", "entry_INT80_"]);
        let roles = [
            (is_entry && !is_called, Role::Entry),
            (starts_with_any(&["asm_exc_"]), Role::Fault),
            (function == self.switch(), Role::Switch),
            (
                starts_with_any(&["__schedule", "ret_from_fork", "context_switch"]),
                Role::Resume,
            ),
            (
                matches!(function, "irq_entries_start" | "spurious_entries_start"),
                Role::Stubs,
            ),
            (starts_with_any(&["__x86_indirect_"]), Role::Thunk),
        ];
        let roles = roles.into_iter().filter(|(is_so, _)| *is_so);
        roles.map(|(_, role)| role).collect()
    }

    fn switch(&self) -> &'static str {
        "__switch_to_asm"
    }
}
