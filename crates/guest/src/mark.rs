//! Instructions without effect that mark the window for a profiler in the emulator.
//!
//! Every guest executes them, profiled or not, so that all run the same code.

use profiler::profile::mark;

use crate::arch;

/// The window begins.
pub(crate) fn window_begins() {
    arch::mark::<{ mark::BEGIN }>();
}

/// The window ends.
pub(crate) fn window_ends() {
    arch::mark::<{ mark::END }>();
}

/// A step of a ramp begins.
pub(crate) fn step_begins() {
    arch::mark::<{ mark::STEP }>();
}
