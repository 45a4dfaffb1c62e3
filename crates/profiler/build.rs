//! Builds the plugins that QEMU loads: shared libraries for the host's QEMU, whatever target bakeoff is built for.
//!
//! `rustc` is called without cargo, so that the plugins need only `std` and the build's flags (such as a linked C library)
//! do not apply to them. If this toolchain cannot build one, an empty file is embedded, and its users report that.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Plugins, by source folder.
const PLUGINS: [&str; 2] = ["plugin", "counter"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
    for name in PLUGINS {
        println!("cargo::rerun-if-changed={name}");
        build(name, &out.join(format!("{name}.so")), &rustc);
    }
}

/// QEMU runs where bakeoff runs. Its C library is Debian's, whatever bakeoff links.
fn target() -> String {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    format!("{arch}-unknown-linux-gnu")
}

fn join(key: &str, value: &OsStr) -> OsString {
    let mut joined = OsString::from(key);
    joined.push(value);
    joined
}

fn build(name: &str, library: &Path, rustc: &OsStr) {
    let target = target();
    let is_host = env::var("HOST").is_ok_and(|host| host == target);
    let mut command = Command::new(rustc);
    command
        .args(["--edition", "2024", "--crate-type", "cdylib"])
        .arg("--crate-name")
        .arg(format!("bakeoff_{name}"))
        .args(["-C", "opt-level=3", "-C", "panic=abort"])
        .args(["-C", "strip=symbols", "-C", "codegen-units=1"])
        .args(["-C", "lto=fat", "--cap-lints", "warn"])
        .arg(Path::new(name).join("lib.rs"))
        .arg("-o")
        .arg(library);
    if !is_host {
        // Without --target on the same host, because some toolchains lack the target's name.
        command.args(["--target", &target]);
        let linker = format!(
            "CARGO_TARGET_{}_LINKER",
            target.to_uppercase().replace('-', "_")
        );
        println!("cargo::rerun-if-env-changed={linker}");
        if let Some(linker) = env::var_os(&linker) {
            command.arg("-C").arg(join("linker=", &linker));
        }
    }
    let status = command.status().expect("rustc can be started");
    if status.success() {
        return;
    }
    assert!(!is_host, "the {name} for QEMU does not build: {status}");
    println!(
        "cargo::warning=no {name} for QEMU in this build: rustc has no {target} here ({status})"
    );
    fs::write(library, "").expect("the build directory can be written");
}
