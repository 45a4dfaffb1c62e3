//! One short test with real guests for each kind of machine. `.ci/run` runs this module.

mod clients_apart;
mod kvm;
mod qemu;
mod slurm;
mod ssh_box;
