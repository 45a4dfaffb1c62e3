//! Arms differ only in what the plan names.

mod boot_log;
mod clocksource;
mod command_line;
mod compiler;
mod congestion_control;
mod control_groups;
mod cpu_model;
mod cpus;
mod descriptors;
mod huge_pages;
mod injected;
mod io_scheduler;
mod kernel_configuration;
mod kernel_that_ran;
mod limits;
mod listen_backlog;
mod memory;
mod mitigations;
mod mounts;
mod numa;
mod one_sided_tuning;
mod power;
mod security_modules;
mod server_configuration;
mod server_program;
mod smt;
mod socket_buffers;
mod swap;
mod sysctls;
mod user_land;
mod workers;
mod writeback;

use crate::topics::fairness::Check;

pub(crate) use self::compiler::compiler_of;
pub(crate) use self::memory::has_like_memory;

pub(crate) const CHECKS: [&Check; 32] = [
    &boot_log::CHECK,
    &clocksource::CHECK,
    &command_line::CHECK,
    &compiler::CHECK,
    &congestion_control::CHECK,
    &control_groups::CHECK,
    &cpu_model::CHECK,
    &cpus::CHECK,
    &descriptors::CHECK,
    &huge_pages::CHECK,
    &injected::CHECK,
    &io_scheduler::CHECK,
    &kernel_configuration::CHECK,
    &kernel_that_ran::CHECK,
    &limits::CHECK,
    &listen_backlog::CHECK,
    &memory::CHECK,
    &mitigations::CHECK,
    &mounts::CHECK,
    &numa::CHECK,
    &one_sided_tuning::CHECK,
    &power::CHECK,
    &security_modules::CHECK,
    &server_configuration::CHECK,
    &server_program::CHECK,
    &smt::CHECK,
    &socket_buffers::CHECK,
    &swap::CHECK,
    &sysctls::CHECK,
    &user_land::CHECK,
    &workers::CHECK,
    &writeback::CHECK,
];
