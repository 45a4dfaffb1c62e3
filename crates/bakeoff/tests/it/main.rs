//! The integration tests, in one binary: the whole program, from the plan to the report.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, helpers included"
)]

mod bad_guests;
mod bad_input;
mod bisect;
mod bombs;
mod bundles;
mod check_power;
mod cli_page;
mod client_hosts;
mod clients_apart;
mod compare_command;
mod damaged_runs;
mod disturbances;
mod docs_samples;
mod each_machine;
mod emulated_box;
mod fairness_command;
mod fleet;
mod foreign_files;
mod format;
mod fuzz;
mod gates;
mod golden;
mod hostile_guest;
mod interim_analyses;
mod json_schema;
mod judge_command;
mod kernel_build;
mod kernel_limits;
mod limits;
mod load_command;
mod load_hosts;
mod load_servers;
mod local_machine;
mod mindcraft;
mod nested_kvm;
mod network;
mod night;
mod one_fewer;
mod other_architecture;
mod page_in_browser;
mod profiled_lab;
mod profiled_runs;
mod program;
mod real_defects;
mod real_guests;
mod release;
mod seek_disk;
mod served_pages;
mod servers;
mod set_up;
mod several_cpus;
mod side_by_side;
mod simulated_lab;
mod slurm_cluster;
mod soak;
mod watched_runs;
