//! Builds the plugin that QEMU loads: a shared library for the host's QEMU, whatever bakeoff itself is built for.
//!
//! `rustc` is called without cargo, so that nothing but `std` is needed and the build's own flags (a C library linked in)
//! do not reach it. Where this toolchain cannot make such a library, an empty one is embedded, and profiling says so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What Debian's QEMU is built for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo::rerun-if-changed=plugin");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to build"));
    let plugin = out.join("plugin.so");
    let rustc = env::var_os("RUSTC").expect("cargo says what builds");
    let is_host = env::var("HOST").is_ok_and(|host| host == TARGET);
    let mut command = Command::new(rustc);
    command
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "cdylib",
            "--crate-name",
            "bakeoff_plugin",
        ])
        .args([
            "-C",
            "opt-level=3",
            "-C",
            "panic=abort",
            "-C",
            "strip=symbols",
        ])
        .args([
            "-C",
            "codegen-units=1",
            "-C",
            "lto=fat",
            "--cap-lints",
            "warn",
        ])
        .arg(Path::new("plugin/lib.rs"))
        .arg("-o")
        .arg(&plugin);
    if !is_host {
        // The host's own library needs no --target, which not every toolchain has.
        command.args(["--target", TARGET]);
    }
    let status = command.status().expect("rustc can be started");
    if status.success() {
        return;
    }
    assert!(!is_host, "the profiler's plugin does not build: {status}");
    println!("cargo::warning=no profiler in this build: rustc has no {TARGET} here ({status})");
    fs::write(&plugin, "").expect("the build directory can be written");
}
