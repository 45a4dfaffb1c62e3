//! Schedulers of earlier kernels, as BPF programs that a kernel with `sched_ext` runs in place of its own.
//!
//! ```text
//! schedulers/bpf/*.bpf.c -clang-> objects in this binary -load-> the kernel: enabled, or ejected with a reason
//!                                                            \-- counters, read while it runs
//! ```
//! Must never know what a trial is. What is faithful to those kernels and what is not: docs/research/mechanisms.md.

mod counters;
#[cfg(test)]
mod formulas;
mod kernel;
mod loaded;

pub use counters::Counters;
pub use kernel::{Lack, NEWEST_KFUNC, OLDEST, build_lacks, kernel_lacks};
pub use loaded::Loaded;

include!(concat!(env!("OUT_DIR"), "/objects.rs"));
