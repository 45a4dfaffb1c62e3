//! The priority of threads that must not wait.

use rustix::process::setpriority_process;

/// The nice value of who must not wait: setpriority(2).
const HIGHEST: i32 = -20;

/// Raises the calling thread's priority as far as it goes, and for Linux that thread's alone. Who may not raise it goes on
/// as before.
pub(crate) fn raise() {
    let _ = setpriority_process(None, HIGHEST);
}
