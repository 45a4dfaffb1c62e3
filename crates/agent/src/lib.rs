//! The guest side: first process, modules, namespaces, services, samplers, facts.
//!
//! ```text
//! host ==virtio-serial== boot: hello -> job ----------------------------------> done | failed -> power off
//!                                       job: sysctls -> services -> drive -> figures -> facts
//!                                                              sampler, once a second
//! ```
//! `boot` is what only a guest needs; everything else also serves a live host, in namespaces and a cgroup
//! of its own. The agent does one job and never learns that there is another arm.

pub mod boot;
pub mod cells;
pub mod facts;
pub mod job;
pub mod proc;
pub mod sampler;
pub mod services;
pub mod sysctl;
pub mod watch;
pub mod wire;
