//! Arm with 64 bits.

/// Executes an instruction without effect that no compiler emits: it moves 0xba00 + `NUMBER` into the zero register.
#[expect(unsafe_code, reason = "one instruction that does nothing")]
pub(crate) fn mark<const NUMBER: u8>() {
    // SAFETY: writes to the zero register are discarded.
    unsafe {
        std::arch::asm!(
            ".inst 0xd297401f + ({number} << 5)",
            number = const NUMBER,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// The CPU features by which copies are single instructions, and whether this CPU has them.
pub(crate) fn fast_strings() -> Vec<(&'static str, bool)> {
    Vec::new()
}
