//! The host side of an arm: kernels, images, boot, attach, stop.
//!
//! It knows nothing of workloads. All that it starts ends with it: each program runs in a separate process group,
//! and the kernel kills it when bakeoff ends, however it ends.
//!
//! ```text
//! plan --kernel::fetch--> Kernel --initramfs::build--> cpio --+
//!      --image::build---> Image (ext4) -----------------------+--> qemu::Qemu --boot--> Guest
//!      --qemu::settle---> Hardware ---------------------------+
//!      --------------------------------------------------------> local::Local --boot--> Guest
//!      --ssh::ProbedBox--------------------------------------> ssh::SshBox --boot--> Guest
//! ```

pub mod acceleration;
pub mod cache;
pub mod client_hosts;
pub mod clients;
pub mod clock;
pub mod console;
pub mod counting;
pub mod doctor;
pub mod emulator;
pub mod emulator_choice;
pub mod fake;
pub mod fetched;
pub mod flavour;
pub mod git;
pub mod guest;
pub mod host;
pub mod host_state;
pub mod image;
pub mod initramfs;
pub mod kernel;
pub mod kernel_build;
pub mod kernel_versions;
pub mod kvm;
pub mod kvm_host;
pub mod local;
mod maven;
pub mod os_release;
pub mod qemu;
pub mod remote;
pub mod slurm;
pub mod ssh;
pub mod string_cost;
pub mod task;
pub mod vmlinux;

mod apt;
mod debian;
mod modules;
mod pinning;
mod process_guest;
pub mod profiling;
pub mod program;
mod topology;
