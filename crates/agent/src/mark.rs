//! Marks: instructions without effect that tell a profiler in the emulator where the guest is.
//!
//! Every guest executes them, profiled or not, so that all run the same code.

/// The window begins.
#[expect(unsafe_code, reason = "one instruction that does nothing")]
pub(crate) fn window_begins() {
    // SAFETY: nopl 0xbabe0f01(%rax) reads no memory and changes no register.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80, 0x01, 0x0f, 0xbe, 0xba",
            options(nostack, preserves_flags)
        );
    }
}

/// The window ends.
#[expect(unsafe_code, reason = "one instruction that does nothing")]
pub(crate) fn window_ends() {
    // SAFETY: nopl 0xbabe0f02(%rax) reads no memory and changes no register.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80, 0x02, 0x0f, 0xbe, 0xba",
            options(nostack, preserves_flags)
        );
    }
}

/// A step of a ramp begins.
#[expect(unsafe_code, reason = "one instruction that does nothing")]
pub(crate) fn step_begins() {
    // SAFETY: nopl 0xbabe0f03(%rax) reads no memory and changes no register.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80, 0x03, 0x0f, 0xbe, 0xba",
            options(nostack, preserves_flags)
        );
    }
}
