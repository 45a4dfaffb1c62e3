//! One short test of real guests for each kind of machine: `.ci/run` asks for this module, and `make test-all` for more.

mod clients_apart;
mod kvm;
mod qemu;
mod slurm;
mod ssh_box;
