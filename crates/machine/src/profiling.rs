//! Trials that are profiled: QEMU gets the plugin and a guest memory that it can read, and what it wrote becomes a profile.
//!
//! Nothing of it has a path: plugin, setup, memory and what the plugin writes are files in memory that QEMU inherits, so that
//! nothing is left of them however it ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use profiler::elf::{self, FileFunction};
use profiler::kernel::KernelSymbols;
use profiler::profile::Profile;
use profiler::resolve::{self, FileCode, ModuleCode, Names};
use profiler::{plugin, raw};
use protocol::code::{Code, MappedFile, ModuleSection};

use crate::cache::{self, Cache};
use crate::kernel::Kernel;
use crate::modules;
use crate::program;
use crate::task::Task;

/// Raised when what is kept of a kernel changes.
const LAYOUT: &str = "symbols-2";

/// Most that a plugin may have written: what is more, no guest has done.
const MOST_BYTES: u64 = 1 << 30;

/// What one arm is profiled with.
#[derive(Debug)]
struct ArmSymbols {
    kernel: KernelSymbols,
    /// Its directory `lib/modules/RELEASE`.
    modules: Option<PathBuf>,
}

/// Profiles trials of a plan's arms.
#[derive(Debug)]
pub struct Profiler {
    arms: BTreeMap<String, Result<ArmSymbols, String>>,
    /// The guests' root file system.
    image: PathBuf,
    /// bakeoff's own binary, a guest's `/init`.
    init: PathBuf,
    /// Functions by file, of programs and modules; what has been read once is kept.
    functions: Mutex<BTreeMap<String, Arc<Vec<FileFunction>>>>,
}

impl Profiler {
    /// For arms with these kernels. One that has no symbols is remembered with the reason: its trials have no profile.
    pub fn new(
        arms: &[(String, &Kernel)],
        image: &Path,
        init: &Path,
        cache: &Cache,
        task: Task<'_>,
    ) -> Result<Self> {
        let mut own = BTreeMap::new();
        for (arm, kernel) in arms {
            task.go_on()?;
            task.tell("reading the kernel's symbols", None);
            let symbols = symbols(cache, kernel).map(|symbols| ArmSymbols {
                kernel: symbols,
                modules: kernel.modules.clone(),
            });
            own.insert(arm.clone(), symbols.map_err(|why| format!("{why:#}")));
        }
        Ok(Self {
            arms: own,
            image: image.into(),
            init: init.into(),
            functions: Mutex::default(),
        })
    }

    fn arm(&self, arm: &str) -> Result<&ArmSymbols> {
        match self.arms.get(arm) {
            Some(Ok(symbols)) => Ok(symbols),
            Some(Err(why)) => bail!("{why}"),
            None => bail!("unknown arm: {arm:?}"),
        }
    }

    /// Adds the plugin to QEMU's command line; what it will write.
    pub(crate) fn attach(
        &self,
        arm: &str,
        hardware: &Hardware,
        qemu: &mut Command,
    ) -> Result<File> {
        let symbols = self.arm(arm)?;
        let Some(library) = plugin::library(hardware.qemu_major) else {
            bail!(
                "this build of bakeoff has no profiler (build it where rustc has x86_64-unknown-linux-gnu)"
            );
        };
        let setup = plugin::setup(
            &symbols.kernel,
            hardware.memory_bytes,
            hardware.ns_per_instruction,
        );
        let library = in_memory("bakeoff-plugin", &library)?;
        let setup = in_memory("bakeoff-setup", &setup)?;
        let out = program::in_memory("bakeoff-profile")?;
        let ram = program::in_memory("bakeoff-ram")?;
        ram.set_len(hardware.memory_bytes)
            .context("cannot have the guest's memory")?;
        let path = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd());
        let memory = format!(
            "memory-backend-file,id=ram,size={},mem-path={},share=on",
            hardware.memory_bytes,
            path(&ram)
        );
        let load = format!(
            "file={},setup={},out={}",
            path(&library),
            path(&setup),
            path(&out)
        );
        qemu.args([
            "-machine",
            "memory-backend=ram",
            "-object",
            &memory,
            "-plugin",
            &load,
        ]);
        let written = out.try_clone()?;
        for file in [library, setup, out, ram] {
            process::inherit(qemu, file.into());
        }
        Ok(written)
    }

    /// The profile, from what the plugin wrote and where the guest has its code.
    pub(crate) fn profile(&self, arm: &str, written: &[u8], code: &Code) -> Result<Profile> {
        let symbols = self.arm(arm)?;
        let raw = raw::read(written)?;
        let modules = self.modules(symbols, &code.sections);
        let mut lacks = Vec::new();
        let files: Vec<FileCode> = code
            .files
            .iter()
            .map(|file| self.file(file, &mut lacks))
            .collect();
        let names = Names {
            kernel: &symbols.kernel,
            modules: &modules,
            files: &files,
        };
        let mut profile = resolve::resolve(&raw, names)?;
        profile.lacks.extend(lacks);
        Ok(profile)
    }

    fn modules(&self, symbols: &ArmSymbols, sections: &[ModuleSection]) -> Vec<ModuleCode> {
        let dir = symbols.modules.as_deref();
        let code = |section: &ModuleSection| {
            let key = format!(
                "{} {} {}",
                dir.unwrap_or(Path::new("")).display(),
                section.module,
                section.section
            );
            let read = || {
                let body = modules::body(dir?, &section.module)?;
                elf::module_functions(&body, &section.section).ok()
            };
            ModuleCode {
                name: section.module.clone(),
                address: section.address,
                functions: self.known(key, read),
            }
        };
        sections.iter().map(code).collect()
    }

    fn file(&self, file: &MappedFile, lacks: &mut Vec<String>) -> FileCode {
        let read = || {
            let body = match file.path.as_str() {
                "/init" => fs::read(&self.init).ok()?,
                path => from_image(&self.image, path)?,
            };
            elf::functions(&body).ok()
        };
        let functions = self.known(file.path.clone(), read);
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if functions.is_empty() && name != "[vdso]" {
            lacks.push(format!("no symbols in {}: known as one program", file.path));
        }
        FileCode {
            name: name.into(),
            pieces: file
                .pieces
                .iter()
                .map(|piece| (piece.page, piece.frame, piece.pages))
                .collect(),
            functions,
        }
    }

    fn known(
        &self,
        key: String,
        read: impl FnOnce() -> Option<Vec<FileFunction>>,
    ) -> Arc<Vec<FileFunction>> {
        let mut known = self
            .functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            known
                .entry(key)
                .or_insert_with(|| Arc::new(read().unwrap_or_default())),
        )
    }
}

/// What the plugin must know of a machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hardware {
    pub(crate) qemu_major: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) ns_per_instruction: u32,
}

/// All that was written so far.
pub(crate) fn read(mut written: &File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    written.seek(SeekFrom::Start(0))?;
    written.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn in_memory(name: &str, body: &[u8]) -> Result<File> {
    let mut file = program::in_memory(name)?;
    file.write_all(body)?;
    Ok(file)
}

/// The symbols of a kernel; read from its image once.
fn symbols(cache: &Cache, kernel: &Kernel) -> Result<KernelSymbols> {
    let id = cache::hash(format!("{LAYOUT}\n{}", kernel.sha256).as_bytes());
    let known = cache
        .entry("symbols", &id)
        .and_then(|place| fs::read(place.join(FILE)).ok());
    if let Some(symbols) = known.and_then(|text| serde_json::from_slice(&text).ok()) {
        return Ok(symbols);
    }
    let image = fs::read(&kernel.vmlinuz)
        .with_context(|| format!("cannot read {}", kernel.vmlinuz.display()))?;
    let symbols = KernelSymbols::read(&image)?;
    let text = serde_json::to_vec(&symbols)?;
    let staging = cache.staging(text.len() as u64)?;
    cache::write(&staging.path.join(FILE), &text).map_err(|why| cache.cannot_write(&why))?;
    cache.keep(&staging, "symbols", &id)?;
    Ok(symbols)
}

const FILE: &str = "symbols.json";

/// A file of a guest's root file system; nothing where it is not there, or cannot be read.
fn from_image(image: &Path, path: &str) -> Option<Vec<u8>> {
    // debugfs splits its command at spaces and knows quotes; no server has such a name.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-@".contains(c);
    if !path.starts_with('/') || !path.chars().all(is_plain) {
        return None;
    }
    let stop = AtomicBool::new(false);
    let task = Task {
        tell: &|_| {},
        stop: &stop,
    };
    let body = program::in_memory("bakeoff-file").ok()?;
    let to = format!("/proc/{}/fd/{}", std::process::id(), body.as_raw_fd());
    let mut debugfs = program::command("debugfs", "e2fsprogs").ok()?;
    debugfs
        .arg("-R")
        .arg(format!("dump {path} {to}"))
        .arg(image);
    program::run(&mut debugfs, task).ok()?;
    read(&body).ok().filter(|body| !body.is_empty())
}
