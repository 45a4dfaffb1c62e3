//! Instructions without effect that mark the window for a profiler in the emulator.
//!
//! Every guest executes them, profiled or not, so that all run the same code.

use profiler::profile::mark;

/// The window begins.
pub(crate) fn window_begins() {
    execute::<{ mark::BEGIN }>();
}

/// The window ends.
pub(crate) fn window_ends() {
    execute::<{ mark::END }>();
}

/// A step of a ramp begins.
pub(crate) fn step_begins() {
    execute::<{ mark::STEP }>();
}

#[expect(unsafe_code, reason = "one instruction that does nothing")]
fn execute<const NUMBER: u8>() {
    // SAFETY: nopl 0xbabe0f00+NUMBER(%rax) reads no memory and changes no register.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80, {number}, 0x0f, 0xbe, 0xba",
            number = const NUMBER,
            options(nostack, preserves_flags)
        );
    }
}
