//! The priority of threads that must not wait.

use rustix::process::setpriority_process;

/// The highest priority as a nice value: setpriority(2).
const HIGHEST: i32 = -20;

/// Raises the priority of the calling thread; on Linux this leaves other threads alone. Without the right to
/// do so, nothing changes.
pub(crate) fn raise() {
    let _ = setpriority_process(None, HIGHEST);
}
