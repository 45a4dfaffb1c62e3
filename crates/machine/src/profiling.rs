//! Profiled trials: QEMU gets the plugin and a guest memory that the plugin can read; its output becomes a profile.
//!
//! Plugin, setup, guest memory and output are files in memory that QEMU inherits: without a path, so that
//! nothing is left of them, however QEMU ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base::arch::Arch;
use profiler::elf::{self, FileFunction};
use profiler::kernel::{Function, KernelSymbols, Layout};
use profiler::profile::{Kind, Profile};
use profiler::resolve::{self, FileCode, ModuleCode, Names};
use profiler::{plugin, raw};
use record::protocol::code::{Code, MappedFile, Method, ModuleSection, java_code};

use crate::cache;
use crate::cache::Cache;
use crate::emulator::Program;
use crate::kernel::Kernel;
use crate::modules;
use crate::program;
use crate::task::Task;

/// Version of the cached symbols of a kernel.
const LAYOUT: &str = "symbols-5";

/// Longest output of a plugin, more than any guest needs.
const MOST_BYTES: u64 = 64 << 20;

/// Longest time that a QEMU may take to load the plugin and end, on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Symbols of an arm's kernel.
#[derive(Debug)]
pub struct ArmSymbols {
    pub(crate) kernel: KernelSymbols,
    /// Its directory `lib/modules/RELEASE`.
    modules: Option<PathBuf>,
}

/// Reads the symbols of the arms' kernels; for a kernel without symbols, the result has the reason.
///
/// # Errors
/// The user has stopped it.
pub fn read_symbols(
    arms: &[(String, &Kernel)],
    cache: &Cache,
    task: Task<'_>,
) -> Result<BTreeMap<String, Result<ArmSymbols, String>>> {
    let mut by_arm = BTreeMap::new();
    for (arm, kernel) in arms {
        task.go_on()?;
        task.tell("reading the kernel's symbols", None);
        let symbols = symbols(cache, kernel).map(|symbols| ArmSymbols {
            kernel: symbols,
            modules: kernel.modules.clone(),
        });
        by_arm.insert(arm.clone(), symbols.map_err(|why| format!("{why:#}")));
    }
    Ok(by_arm)
}

/// Profiles trials of a plan's arms.
#[derive(Debug)]
pub struct Profiler {
    arms: BTreeMap<String, Result<ArmSymbols, String>>,
    /// The guests' root file system.
    image: PathBuf,
    /// The path of this program, a guest's `/init`.
    init: PathBuf,
    /// Why QEMU cannot profile, if so: then no trial has a profile.
    refused: Option<String>,
    /// Functions of programs and modules by file, each read once.
    functions: Mutex<BTreeMap<String, Arc<Vec<FileFunction>>>>,
}

impl Profiler {
    /// For arms with these symbols. Trials of an arm without any have no profile.
    pub fn new(
        arms: BTreeMap<String, Result<ArmSymbols, String>>,
        image: &Path,
        init: &Path,
    ) -> Self {
        Self {
            arms,
            image: image.into(),
            init: init.into(),
            refused: None,
            functions: Mutex::default(),
        }
    }

    /// For a QEMU that cannot profile: every trial has the reason in the place of a profile.
    #[must_use]
    pub fn refused(why: String) -> Self {
        Self {
            arms: BTreeMap::new(),
            image: PathBuf::new(),
            init: PathBuf::new(),
            refused: Some(why),
            functions: Mutex::default(),
        }
    }

    /// Whether trials will have profiles, as far as QEMU is concerned.
    pub(crate) fn is_able(&self) -> bool {
        self.refused.is_none()
    }

    fn arm(&self, arm: &str) -> Result<&ArmSymbols> {
        if let Some(why) = &self.refused {
            bail!("{why}");
        }
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
        let ram = program::in_memory("bakeoff-ram")?;
        ram.set_len(hardware.memory_bytes)
            .context("cannot have the guest's memory")?;
        let memory = format!(
            "memory-backend-file,id=ram,size={},mem-path={},share=on",
            hardware.memory_bytes,
            path(&ram)
        );
        qemu.args(["-machine", "memory-backend=ram", "-object", &memory]);
        base::process::inherit(qemu, ram.into());
        add_plugin(&symbols.kernel, hardware.ns_per_instruction, qemu)
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
            .map(|file| match methods_in(file, &code.methods) {
                Some(methods) => {
                    if methods.is_empty() {
                        lacks.push(
                            "no methods of Java: its compiled code is known as one program".into(),
                        );
                    }
                    file_code(JAVA, file, methods.into())
                }
                None => self.file(file, &mut lacks),
            })
            .collect();
        let names = Names {
            kernel: &symbols.kernel,
            modules: &modules,
            files: &files,
        };
        let mut profile = resolve::resolve(&raw, names)?;
        profile.lacks.extend(lacks);
        profile.lacks.extend(unknown_programs(&profile));
        profile.lacks.extend(full_tree(&raw));
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
                OWN => fs::read(&self.init).ok()?,
                path => from_image(&self.image, path)?,
            };
            elf::functions(&body).ok()
        };
        let functions = self.known(file.path.clone(), read);
        let name = file.path.rsplit('/').next().unwrap_or_default();
        // This program has no symbols, and its work is the same in all arms.
        if functions.is_empty() && name != "[vdso]" && file.path != OWN {
            lacks.push(format!("no symbols in {}: known as one program", file.path));
        }
        file_code(name, file, functions)
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

fn file_code(name: &str, file: &MappedFile, functions: Arc<Vec<FileFunction>>) -> FileCode {
    let pieces = file.pieces.iter();
    FileCode {
        name: name.into(),
        pieces: pieces
            .map(|piece| (piece.page, piece.frame, piece.pages))
            .collect(),
        functions,
    }
}

/// The name of all code that Java compiles.
const JAVA: &str = "[java]";

/// Methods by their address, if the file stands for code that a process of Java has compiled.
fn methods_in(file: &MappedFile, methods: &[Method]) -> Option<Vec<FileFunction>> {
    file.path.starts_with("[java ").then_some(())?;
    let methods = methods.iter();
    let mut functions: Vec<_> = methods
        .filter(|method| java_code(method.process) == file.path)
        .map(|method| FileFunction {
            offset: method.address,
            bytes: method.bytes,
            name: method.name.clone(),
        })
        .collect();
    functions.sort_unstable();
    Some(functions)
}

/// The warning for a large share of user code of unknown files.
const UNKNOWN: f64 = 0.01;

/// Code is collected after the window; that of a program which has ended by then is missing.
fn unknown_programs(profile: &Profile) -> Option<String> {
    let counts = profile.windows.iter().flat_map(|window| &window.counts);
    let is_unknown = |node: u32| {
        let node = &profile.nodes[node as usize];
        node.kind == Kind::User && node.image.is_empty()
    };
    let (mut unknown, mut all) = (0.0, 0.0);
    for count in counts {
        let instructions = count.instructions as f64;
        all += instructions;
        unknown += if is_unknown(count.node) {
            instructions
        } else {
            0.0
        };
    }
    (unknown > UNKNOWN * all).then(|| {
        "programs that had ended when their code was looked for: their user code is (program not known)".into()
    })
}

/// The warning for a profile with more call paths than the plugin keeps.
fn full_tree(raw: &raw::Raw) -> Option<String> {
    (raw.nodes.len() >= raw::MOST_NODES).then(|| {
        "more call paths than the profiler keeps: some code is charged to its callers or to no task".into()
    })
}

/// This program in a guest.
const OWN: &str = "/init";

/// Why this QEMU cannot profile, if it cannot: not every one is built to load plugins, and one that is not ends at once. It
/// is tried without a guest.
///
/// # Errors
/// The user has stopped it, or nothing can be tried on this host.
pub fn refusal(program: &Program, task: Task<'_>) -> Result<Option<String>> {
    let why = refuses(program, task, |qemu| {
        add_plugin(&no_kernel(), 1, qemu).map(drop)
    })?;
    Ok(why.map(|why| {
        format!(
            "{} does not load the profiler's plugin: {why} (name another QEMU with --qemu PATH, or run bakeoff cache qemu fetch)",
            program.version
        )
    }))
}

/// Why a QEMU refuses the arguments that `add` adds, if it does.
pub(crate) fn refuses(
    program: &Program,
    task: Task<'_>,
    add: impl FnOnce(&mut Command) -> Result<()>,
) -> Result<Option<String>> {
    let mut qemu = program.command();
    // The monitor gets a quit, so QEMU ends as soon as it has loaded the plugin.
    qemu.args(["-machine", "none", "-display", "none", "-nodefaults", "-S"]);
    qemu.args(["-monitor", "stdio"]);
    add(&mut qemu)?;
    let quit = program::in_memory_with("bakeoff-quit", b"quit\n")?;
    match program::run_fed(PATIENCE, &mut qemu, quit, task) {
        Ok(_) => Ok(None),
        Err(why) if task.is_stopped() => Err(why),
        Err(why) => Ok(Some(format!("{why:#}"))),
    }
}

/// A kernel of one function, for a QEMU that never runs one.
fn no_kernel() -> KernelSymbols {
    KernelSymbols {
        arch: Arch::HOST,
        functions: vec![Function {
            address: 0,
            name: String::new(),
        }],
        end: 1,
        layout: Layout::default(),
        lacks: Vec::new(),
    }
}

/// Has QEMU load the plugin; what it will write.
fn add_plugin(kernel: &KernelSymbols, ns_per_instruction: u32, qemu: &mut Command) -> Result<File> {
    let Some(library) = plugin::library() else {
        bail!(
            "this build of bakeoff has no profiler (build it where rustc can build for this host)"
        );
    };
    let setup = plugin::setup(kernel, ns_per_instruction);
    let library = program::in_memory_with("bakeoff-plugin", library)?;
    let setup = program::in_memory_with("bakeoff-setup", &setup)?;
    let out = program::in_memory("bakeoff-profile")?;
    let load = format!(
        "file={},setup={},out={}",
        path(&library),
        path(&setup),
        path(&out)
    );
    qemu.args(["-plugin", &load]);
    let written = out.try_clone()?;
    for file in [library, setup, out] {
        base::process::inherit(qemu, file.into());
    }
    Ok(written)
}

/// The path of an inherited file for QEMU.
pub(crate) fn path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Properties of a machine that the plugin needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hardware {
    pub(crate) memory_bytes: u64,
    pub(crate) ns_per_instruction: u32,
}

/// The output so far.
pub(crate) fn read(mut written: &File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    written.seek(SeekFrom::Start(0))?;
    written.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The symbols of a kernel; read from its image once.
fn symbols(cache: &Cache, kernel: &Kernel) -> Result<KernelSymbols> {
    let id = cache::hash(format!("{LAYOUT}\n{}", kernel.sha256).as_bytes());
    let known = cache
        .entry("symbols", &id)?
        .and_then(|place| fs::read(place.join(FILE)).ok());
    if let Some(symbols) = known.and_then(|text| serde_json::from_slice(&text).ok()) {
        return Ok(symbols);
    }
    let image = base::input::file::read(&kernel.vmlinuz, crate::kernel::IMAGE_BYTES)
        .with_context(|| format!("cannot read {}", kernel.vmlinuz.display()))?;
    let symbols = KernelSymbols::read(&image)?;
    let text = serde_json::to_vec(&symbols)?;
    let staging = cache.staging(text.len() as u64)?;
    cache::write(&staging.path.join(FILE), &text).map_err(|why| cache.cannot_write(&why))?;
    cache.keep(&staging, "symbols", &id)?;
    Ok(symbols)
}

const FILE: &str = "symbols.json";

/// A file of a guest's root file system; `None` if it cannot be read.
fn from_image(image: &Path, path: &str) -> Option<Vec<u8>> {
    // debugfs splits its command at spaces and interprets quotes; no server has such a name.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-@".contains(c);
    if !path.starts_with('/') || !path.chars().all(is_plain) {
        return None;
    }
    let stop = AtomicBool::new(false);
    let task = Task::silent(&stop);
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

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt as _;

    use profiler::profile::{Count, Node, StringCounts, Window};

    use super::*;
    use crate::emulator::{Launch, Release};

    /// What `refusal` says of a script in the place of a QEMU of this release.
    pub(crate) fn of_script(
        release: &str,
        script: &str,
        refusal: fn(&Program, Task<'_>) -> Result<Option<String>>,
    ) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qemu");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let mut numbers = release.split('.').map(|number| number.parse().unwrap());
        let program = Program {
            arch: Arch::X86_64,
            path,
            version: format!("QEMU {release}"),
            release: Release {
                major: numbers.next().unwrap(),
                minor: numbers.next().unwrap(),
            },
            launch: Launch::Direct,
            models: BTreeSet::new(),
            features: BTreeSet::new(),
            has_seccomp: true,
        };
        let stop = AtomicBool::new(false);
        let task = Task::silent(&stop);
        refusal(&program, task).unwrap()
    }

    #[test]
    fn a_qemu_without_plugins_is_known_before_the_first_guest() {
        let script = "for a in \"$@\"; do\n\
            [ \"$a\" = -plugin ] && { echo 'qemu: -plugin: invalid option' >&2; exit 1; }\ndone\nread -r said";
        let refused = |script| of_script("10.0.13", script, refusal);
        let why = refused(script).unwrap();
        assert!(
            why.starts_with("QEMU 10.0.13 does not load the profiler's plugin: ")
                && why.contains("-plugin: invalid option")
                && why.ends_with(
                    "(name another QEMU with --qemu PATH, or run bakeoff cache qemu fetch)"
                ),
            "{why}"
        );
        // One that takes the plugin is told to quit, and does.
        assert_eq!(refused("read -r said; [ \"$said\" = quit ]"), None);
    }

    #[test]
    fn every_trial_of_a_qemu_without_plugins_has_the_reason() {
        let profiler = Profiler::refused("QEMU loads no plugin".into());
        assert!(!profiler.is_able());
        let hardware = Hardware {
            memory_bytes: 4096,
            ns_per_instruction: 1,
        };
        let mut qemu = Command::new("qemu");
        let why = profiler.attach("6.1", &hardware, &mut qemu).unwrap_err();
        assert_eq!(why.to_string(), "QEMU loads no plugin");
        assert_eq!(
            qemu.get_args().count(),
            0,
            "QEMU is started as without --why"
        );
    }

    #[test]
    fn programs_that_are_known_by_no_file_are_told_of_where_they_weigh() {
        let node = |kind, image: &str| Node {
            parent: 0,
            kind,
            name: String::new(),
            image: image.into(),
        };
        let has_warning = |unknown| {
            let count = |node, instructions| Count {
                node,
                instructions,
                strings: StringCounts::default(),
                calls: 0,
            };
            let profile = Profile {
                nodes: vec![
                    node(Kind::All, ""),
                    node(Kind::User, ""),
                    node(Kind::User, "nginx"),
                ],
                windows: vec![Window {
                    counts: vec![count(1, unknown), count(2, 1000)],
                    ..Window::default()
                }],
                lacks: Vec::new(),
                sampling: None,
            };
            unknown_programs(&profile).is_some()
        };
        assert!(has_warning(500));
        assert!(!has_warning(5));
    }

    #[test]
    fn programs_without_symbols_are_told_but_for_bakeoffs_own() {
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("absent");
        let profiler = Profiler {
            init: absent.clone(),
            image: absent,
            ..Profiler::refused(String::new())
        };
        let mut lacks = Vec::new();
        for path in ["/init", "[vdso]", "/usr/bin/stripped"] {
            let file = MappedFile {
                path: path.into(),
                pieces: Vec::new(),
            };
            profiler.file(&file, &mut lacks);
        }
        assert_eq!(
            lacks,
            ["no symbols in /usr/bin/stripped: known as one program"]
        );
    }
}
