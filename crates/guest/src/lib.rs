//! The guest side: first process, modules, namespaces, services, samplers, facts.
//!
//! ```text
//! host ==virtio-serial== boot: hello -> job ----------------------------------> done | failed -> power off
//!                                       job: sysctls -> services -> settle -> drive -> figures -> facts
//!                                                              sampler, once a second
//! ```
//! `boot` is needed only in a guest, `local` only on a live host: there the agent works in namespaces and a
//! cgroup made for it, on a copy of the file system that keeps nothing. The agent does one job and never
//! learns that there is another arm.

mod apart;
mod arch;
mod boot;
mod ceiling;
mod cgroup;
mod channel;
mod code;
mod counters;
mod cpu_hog;
mod cpus;
mod debugfs;
mod defect_watch;
pub mod disk;
mod disk_queue;
mod disk_watch;
mod disturb;
mod env;
mod evidence;
mod facts;
pub mod hardware_counters;
mod hung_tasks;
mod hystart;
mod injected_cost;
mod java_log;
mod java_methods;
mod job;
mod kernel_log;
mod local;
mod mark;
pub mod needs;
pub mod netns;
mod path;
mod perf_open;
mod preload;
mod priority;
mod proc;
mod refused;
mod remote;
mod sampled;
mod sampler;
mod scheduler;
pub mod schedulers;
mod service_files;
mod services;
mod session;
mod sysctl;
mod wait_idle;
mod watch;

pub use crate::apart::hosted::hosted;
pub use crate::apart::{clients, clients_of_box, try_clients};
pub use crate::boot::init;
pub use crate::evidence::try_source;
pub use crate::local::{live, remote};

/// Why locking a mutex of this crate cannot fail.
const UNPOISONED: &str = "who holds the lock does not panic";

/// Whether this process is the first of a guest: the kernel starts `/init` of an initramfs as pid 1.
pub fn is_first_process() -> bool {
    std::process::id() == 1
        && std::env::args_os()
            .next()
            .is_some_and(|name| name == "/init")
}
