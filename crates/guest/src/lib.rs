//! The guest side: first process, modules, namespaces, services, samplers, facts.
//!
//! ```text
//! host ==virtio-serial== boot: hello -> job ----------------------------------> done | failed -> power off
//!                                       job: sysctls -> services -> settle -> drive -> figures -> facts
//!                                                              sampler, once a second
//! ```
//! `boot` is what only a guest needs, and `live` what only a live host needs: there the agent works in namespaces
//! and a cgroup of its own, on a copy of the file system that keeps nothing. The agent does one job and never learns that there is another arm.

mod apart;
mod boot;
mod ceiling;
pub mod cgroup;
mod channel;
mod code;
mod counters;
mod cpu_hog;
mod cpus;
mod debugfs;
pub mod defect_watch;
pub mod disk;
mod disk_queue;
mod disk_watch;
mod disturb;
pub mod env;
mod evidence;
pub mod facts;
pub mod hardware_counters;
mod injected_cost;
pub mod job;
mod kernel_log;
mod local;
mod mark;
pub mod needs;
pub mod netns;
pub mod path;
mod perf_open;
mod preload;
mod priority;
pub mod proc;
mod refused;
mod remote;
mod sampled;
pub mod sampler;
mod scheduler;
pub mod schedulers;
mod service_files;
pub mod services;
mod session;
pub mod sysctl;
pub mod wait_idle;
pub mod watch;

use record::protocol::hosts::HostCommand;

pub use crate::apart::{clients, clients_of_box, hosted, try_clients};
pub use crate::boot::on_box::BoxNetwork;
pub use crate::evidence::try_source;

/// Whether this process is the first of a guest: the kernel starts `/init` of an initramfs as pid 1.
pub fn is_first_process() -> bool {
    std::process::id() == 1
        && std::env::args_os()
            .next()
            .is_some_and(|name| name == "/init")
}

/// Does one job on a live host, for the host's side of this program at the other end of standard input, and
/// returns the exit status. `cgroup` is the one that this process is in. To be called in PID and mount namespaces made for it, as root.
/// `files` are the plan's own, for the workload.
pub fn live(build: &str, cgroup: &std::path::Path, files: &[std::path::PathBuf]) -> i32 {
    local::serve(build, cgroup, files)
}

/// Does one job with its clients on this host, or on others that `hosts` reach, and its server elsewhere, as `live`, but as
/// anybody and in no namespace.
pub fn remote(build: &str, hosts: &[HostCommand]) -> i32 {
    local::serve_remote(build, hosts)
}

/// Runs a guest from its first to its last moment, in place of everything else that this program does.
/// Call it before any thread is started. `build` is the host's word for this very binary; there is no
/// `/proc` yet when the caller works it out.
///
/// Never returns: whatever happens ends in a power-off, told to the host where it can be reached and on
/// the console where it cannot.
pub fn init(build: &str) -> ! {
    boot::init(build)
}
