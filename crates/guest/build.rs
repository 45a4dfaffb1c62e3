//! Compiles the schedulers to BPF with clang. Where there is none the build goes on without them, and plans that name one
//! are refused.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Each for one CPU, and for several: as kernels were built with and without SMP, so that locks cost one CPU nothing.
const NAMES: [&str; 6] = [
    "goodness",
    "o1",
    "fifo",
    "goodness_smp",
    "o1_smp",
    "fifo_smp",
];

/// Where libelf and zlib are searched, as `libbpf-sys` does.
fn library_dir() -> String {
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let variable = format!("LIBBPF_SYS_LIBRARY_PATH_{}", target.replace('-', "_"));
    println!("cargo::rerun-if-env-changed={variable}");
    env::var(variable).unwrap_or_default()
}

fn main() {
    println!("cargo::rerun-if-changed=src/schedulers/bpf");
    // Debian's libelf uses zstd since 13.
    let libraries = library_dir();
    if Path::new(&libraries).join("libzstd.a").exists() {
        println!("cargo::rustc-link-search=native={libraries}");
        println!("cargo::rustc-link-lib=static=zstd");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to build"));
    let clang = env::var("CLANG").unwrap_or("clang".into());
    let is_built = match Command::new(&clang).arg("--version").output() {
        Ok(version) if version.status.success() => {
            for name in NAMES {
                compile(&clang, name, &out);
            }
            true
        }
        Ok(_) | Err(_) => {
            println!(
                "cargo::warning=no schedulers in this build: program not found: {clang} (install Debian's package clang)"
            );
            // A file that is not there has cargo ask again at each build, so that one with clang needs no cleaning.
            println!("cargo::rerun-if-changed=clang-is-missing");
            false
        }
    };
    let code = objects(is_built);
    fs::write(out.join("objects.rs"), code).expect("the build directory can be written");
}

/// The architecture, as libbpf's headers call it.
fn bpf_arch() -> &'static str {
    match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "arm64",
        _ => "x86",
    }
}

fn compile(clang: &str, name: &str, out: &Path) {
    let include = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    let status = Command::new(clang)
        // BTF, which the kernel wants, is made of debug information.
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .arg(format!("-D__TARGET_ARCH_{}", bpf_arch()))
        // Without the folders of this build, so that each folder gives the same bytes.
        .arg("-fdebug-compilation-dir=.")
        .arg(format!("-ffile-prefix-map={include}=include"))
        .arg(format!("-I{include}"))
        .arg("-c")
        .arg(format!("src/schedulers/bpf/{name}.bpf.c"))
        .arg("-o")
        .arg(out.join(format!("{name}.bpf.o")))
        .status()
        .expect("clang has just been started");
    assert!(
        status.success(),
        "the scheduler {name} does not compile: {status}"
    );
}

fn objects(is_built: bool) -> String {
    let object = |name: &&str| {
        if is_built {
            format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.bpf.o\"))")
        } else {
            "&[]".into()
        }
    };
    let objects: Vec<String> = NAMES.iter().map(object).collect();
    format!(
        "/// Whether this build has the schedulers.\n\
         pub const IS_BUILT: bool = {is_built};\n\
         const OBJECTS: [&[u8]; {}] = [{}];\n",
        NAMES.len(),
        objects.join(", ")
    )
}
