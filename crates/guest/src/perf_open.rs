//! Common code of all uses of `perf_event_open(2)`.

use std::fs::{self, File};
use std::io;

use perf_event::Builder;
use perf_event::events::Event;

/// An event of a cgroup, or else of all tasks, on one CPU; in programs and in the kernel.
pub(crate) fn on_cpu<E: Event>(event: E, cgroup: Option<&File>, cpu: u32) -> Builder<'_> {
    let mut builder = Builder::new(event);
    match cgroup {
        Some(dir) => builder.observe_cgroup(dir),
        None => builder.any_pid(),
    };
    builder.one_cpu(cpu as usize).include_kernel();
    builder
}

/// Whether the kernel refuses because this process lacks rights.
pub(crate) fn is_forbidden(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// `kernel.perf_event_paranoid`.
pub(crate) fn paranoid() -> Option<i32> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}
