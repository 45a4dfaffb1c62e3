//! One short test with real guests for each kind of machine. `.ci/run` runs this module. It checks no
//! figure, so these guests may slow each other down. QEMU itself has its test in `make test`.

mod clients_apart;
mod kvm;
mod slurm;
mod ssh_box;
