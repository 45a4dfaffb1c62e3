//! A QEMU: how it is started, its models and features, its known faults.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base::arch::Arch;
use base::input::problem::remedy_among;
use base::process::Confinement;
use plan::cpu::{CpuModel, PERFORMANCE_MONITORING};

use crate::profiling;
use crate::program;
use crate::task::Task;

/// The first release that emulates AVX: guests of older releases run other code.
pub const LEAST: Release = Release { major: 7, minor: 2 };

/// The first release whose `cmpxchg16b` sets the flags correctly.
///
/// Up to 7.2 the instruction was a call of a helper that computed the flags from a condition-code state which the
/// translator had not yet stored, so an interrupt that came right behind it could save a register's value as flags.
/// 8.0 translates it inline.
pub const CMPXCHG16B_MENDED: Release = Release { major: 8, minor: 0 };

/// The first release whose blocks tell where a string instruction starts: it emulates the CPU's resume flag.
pub const TELLS_STARTS: Release = Release {
    major: 10,
    minor: 0,
};

/// Longest time that a QEMU may take to print its version, on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most names that a message lists.
const MANY_NAMES: usize = 20;

/// Major and minor number of a QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// 10 of 10.0.13.
    pub major: u32,
    /// 0 of 10.0.13.
    pub minor: u32,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Release {
    /// From `QEMU 7.2.22 (Debian ...)`.
    fn of(version: &str) -> Option<Self> {
        let mut numbers = version.strip_prefix("QEMU ")?.split(['.', ' ']);
        let mut next = || numbers.next()?.parse().ok();
        Some(Self {
            major: next()?,
            minor: next()?,
        })
    }
}

/// A QEMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Architecture of its guests.
    pub arch: Arch,
    /// The binary.
    pub path: PathBuf,
    /// First line of `--version`, without the part that all versions share.
    pub version: String,
    /// Its numbers.
    pub release: Release,
    /// How it is started.
    pub launch: Launch,
    /// CPU models that it supports.
    pub models: BTreeSet<String>,
    /// Names of CPU features that it supports.
    pub features: BTreeSet<String>,
    /// Whether it was built with seccomp, so that it can drop system calls.
    pub has_seccomp: bool,
}

/// System calls that QEMU drops: obsolete ones, those that raise rights, start programs or change priorities.
const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// Devices that QEMU opens.
pub(crate) fn devices() -> Vec<PathBuf> {
    ["/dev/kvm", "/dev/null", "/dev/urandom", "/dev/zero"]
        .map(PathBuf::from)
        .to_vec()
}

/// The directory of libraries in an unpacked tree, which is for this host.
pub(crate) fn tree_libraries(root: &Path) -> PathBuf {
    root.join("usr/lib").join(Arch::HOST.facts().multiarch())
}

/// The loader of an unpacked tree's libraries.
fn tree_loader(root: &Path) -> PathBuf {
    tree_libraries(root).join(Arch::HOST.facts().loader())
}

/// How a QEMU is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// Directly, with the host's libraries.
    Direct,
    /// From an unpacked tree, with the tree's loader, libraries, modules and firmware.
    Tree(PathBuf),
}

impl Launch {
    /// How to start a binary that the user names: one in an unpacked tree needs the tree's loader.
    pub(crate) fn of(path: &Path) -> Self {
        let is_unpacked = |root: &&Path| root.parent().is_some() && tree_loader(root).exists();
        // The path is ROOT/usr/bin/BINARY.
        match path.ancestors().nth(3).filter(is_unpacked) {
            Some(root) if path.parent() == Some(&root.join("usr/bin")) => Self::Tree(root.into()),
            Some(_) | None => Self::Direct,
        }
    }

    /// The start of a command line that runs the binary at `path`.
    fn command(&self, path: &Path) -> Command {
        match self {
            Self::Direct => Command::new(path),
            Self::Tree(root) => {
                let libraries = tree_libraries(root);
                let mut command = Command::new(tree_loader(root));
                command
                    // The host's list of libraries has none of the tree.
                    .args(["--inhibit-cache", "--library-path"])
                    .arg(&libraries)
                    .arg(path)
                    .arg("-L")
                    .arg(root.join("usr/share/qemu"))
                    .arg("-L")
                    .arg(root.join("usr/share/seabios"))
                    .env("QEMU_MODULE_DIR", libraries.join("qemu"));
                command
            }
        }
    }
}

impl Program {
    /// The start of its command line.
    pub fn command(&self) -> Command {
        self.launch.command(&self.path)
    }

    /// Confines a command of this QEMU to what it needs, and to these files of the guest.
    pub(crate) fn confine(&self, qemu: &mut Command, files: &[&Path]) -> Result<()> {
        if self.has_seccomp {
            qemu.args(["-sandbox", SANDBOX]);
        }
        let confinement = Confinement {
            reads: files
                .iter()
                .map(PathBuf::from)
                .chain(self.files())
                .collect(),
            devices: devices(),
        };
        base::process::confine(qemu, &confinement).context("cannot confine QEMU")
    }

    /// The program, its libraries and its firmware.
    fn files(&self) -> Vec<PathBuf> {
        if let Launch::Tree(root) = &self.launch {
            return vec![root.clone()];
        }
        let system = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache"];
        let mut files = system.map(PathBuf::from).to_vec();
        let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        files.extend(std::env::split_paths(&libraries));
        // A QEMU built by the user has libraries and firmware beside it, or where it was installed.
        let program = self.path.canonicalize().unwrap_or_default();
        if let Some(place) = program.parent() {
            files.push(place.into());
            files.extend(
                ["lib", "lib64", "share", "pc-bios"].map(|name| place.with_file_name(name)),
            );
        }
        files
    }

    /// A fault of its emulation, and the first release without it.
    pub fn fault(&self) -> Option<String> {
        if self.arch != Arch::X86_64 {
            return (self.release < TELLS_STARTS)
                .then(|| format!("instructions are counted with QEMU {TELLS_STARTS} or later"));
        }
        if (CMPXCHG16B_MENDED..TELLS_STARTS).contains(&self.release) {
            return Some(format!(
                "QEMU tells where string instructions start since {TELLS_STARTS}, and no instructions are counted without that"
            ));
        }
        let is_faulty = self.release < CMPXCHG16B_MENDED;
        is_faulty.then(|| {
            format!(
                "emulated cmpxchg16b corrupts flags now and then before QEMU {CMPXCHG16B_MENDED}, and guests panic"
            )
        })
    }

    /// Fails if this QEMU does not know a CPU model or one of its features.
    pub fn check_model(&self, model: &CpuModel) -> Result<(), String> {
        let words = |known: &BTreeSet<String>, wrong: &str| {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let remedy = remedy_among(wrong, &known);
            // A list of hundreds of names is no help.
            if known.len() > MANY_NAMES && !remedy.starts_with("did you mean") {
                let (program, _) = self.arch.facts().emulator();
                return format!("{program} -cpu help lists what it knows");
            }
            remedy
        };
        if !self.models.contains(&model.name) {
            return Err(format!(
                "CPU model that {} does not know: {:?} ({})",
                self.version,
                model.name,
                words(&self.models, &model.name)
            ));
        }
        for (feature, _) in &model.features {
            if !self.features.contains(feature) && feature != PERFORMANCE_MONITORING {
                return Err(format!(
                    "CPU feature that {} does not know: {feature:?} ({})",
                    self.version,
                    words(&self.features, feature)
                ));
            }
        }
        Ok(())
    }
}

/// Queries a QEMU's version, models and features; fails if it is too old.
pub(crate) fn open(path: &Path, arch: Arch, launch: Launch, task: Task<'_>) -> Result<Program> {
    let output = program::run_within(PATIENCE, launch.command(path).arg("--version"), task)?;
    let line = output.lines().next().unwrap_or_default();
    let version = line.replace("emulator version ", "");
    let Some(release) = Release::of(&version) else {
        bail!(
            "not a QEMU: {} (its --version says {line:?})",
            path.display()
        );
    };
    if release.cmp(&LEAST) == Ordering::Less {
        bail!(
            "QEMU too old: {release} at {} (the least is {LEAST}: older ones emulate no AVX, so that guests run other \
             code and figures cannot be compared; run bakeoff cache qemu fetch, or name another with --qemu PATH)",
            path.display()
        );
    }
    let help = program::run(launch.command(path).args(["-cpu", "help"]), task)?;
    let (models, features) = read_cpu_help(&help);
    if !models.contains(arch.facts().usual_cpu()) {
        bail!(
            "{} does not emulate {arch}: {} (name {} with --qemu PATH)",
            version,
            path.display(),
            arch.facts().emulator().0
        );
    }
    let mut program = Program {
        arch,
        path: path.into(),
        version,
        release,
        launch,
        models,
        features,
        has_seccomp: true,
    };
    let refused = profiling::refuses(&program, task, |qemu| program.confine(qemu, &[]))?;
    program.has_seccomp = refused.is_none();
    Ok(program)
}

/// Models and features from `-cpu help`.
fn read_cpu_help(help: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (models, features) = help
        .split_once("Recognized CPUID flags:")
        .unwrap_or((help, ""));
    let model = |line: &str| {
        // Before 9.2 each line began with the architecture.
        let line = line.strip_prefix("x86 ").unwrap_or(line);
        line.split_whitespace().next().map(String::from)
    };
    let models = models
        .lines()
        .filter(|line| !line.ends_with(':'))
        .filter_map(model);
    let features = features.split_whitespace().map(String::from);
    (models.collect(), features.collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::process::Stdio;
    use std::sync::atomic::AtomicBool;

    use super::*;

    const HELP: &str = "Available CPUs:\n\
        x86 EPYC                  (alias configured by machine type)\n\
        x86 Haswell-noTSX         (alias of Haswell-v2)\n\
        x86 max                   Enables all features supported by the accelerator\n\n\
        Recognized CPUID flags:\n  3dnow avx\n  avx2 erms fsrm\n";

    fn program(version: &str) -> Program {
        let (models, features) = read_cpu_help(HELP);
        Program {
            arch: Arch::X86_64,
            path: "qemu".into(),
            version: version.into(),
            release: Release::of(version).unwrap(),
            launch: Launch::Direct,
            models,
            features,
            has_seccomp: true,
        }
    }

    #[test]
    fn the_release_is_read_from_the_version() {
        let release = |major, minor| Some(Release { major, minor });
        assert_eq!(
            Release::of("QEMU 7.2.22 (Debian 1:7.2+dfsg)"),
            release(7, 2)
        );
        assert_eq!(Release::of("QEMU 10.0.13 (Debian 1:10.0)"), release(10, 0));
        assert_eq!(Release::of("QEMU 9.1"), release(9, 1));
        assert_eq!(Release::of("wine 9.1"), None);
        assert!(LEAST < CMPXCHG16B_MENDED);
    }

    #[test]
    fn faults_are_known_by_the_release() {
        let fault = |version: &str| program(version).fault().unwrap_or_default();
        assert!(fault("QEMU 7.2.22").contains("cmpxchg16b"));
        assert!(fault("QEMU 8.0.0").contains("where string instructions start since 10.0"));
        assert!(fault("QEMU 9.2.1").contains("where string instructions start since 10.0"));
        assert_eq!(program("QEMU 10.0.13").fault(), None);
    }

    #[test]
    fn guests_of_arm_have_no_fault_of_x86() {
        let fault = |version: &str| {
            let program = Program {
                arch: Arch::Aarch64,
                ..program(version)
            };
            program.fault()
        };
        let old = "instructions are counted with QEMU 10.0 or later".to_string();
        assert_eq!(fault("QEMU 7.2.22"), Some(old));
        assert_eq!(fault("QEMU 10.0.13"), None);
    }

    #[test]
    fn models_and_features_are_checked_by_the_emulators_own_lists() {
        let program = program("QEMU 7.2.22");
        let check = |text| program.check_model(&CpuModel::parse(text).unwrap());
        assert_eq!(check("EPYC,-avx2"), Ok(()));
        assert_eq!(check("EPYC,-pmu"), Ok(()));
        assert_eq!(
            check("EPIC").unwrap_err(),
            "CPU model that QEMU 7.2.22 does not know: \"EPIC\" (did you mean \"EPYC\"?)"
        );
        let why = check("Pentium").unwrap_err();
        assert!(why.ends_with("(known: EPYC, Haswell-noTSX, max)"), "{why}");
        assert_eq!(
            check("max,-avx3").unwrap_err(),
            "CPU feature that QEMU 7.2.22 does not know: \"avx3\" (did you mean \"avx\"?)"
        );
    }

    #[test]
    fn the_list_of_later_releases_has_no_architecture() {
        let (models, features) = read_cpu_help(
            "Available CPUs:\n  486-v1\n  max   Enables\n\nRecognized CPUID flags:\n  erms\n",
        );
        assert_eq!(models.into_iter().collect::<Vec<_>>(), ["486-v1", "max"]);
        assert_eq!(features.into_iter().collect::<Vec<_>>(), ["erms"]);
    }

    #[test]
    fn a_binary_in_an_unpacked_tree_is_known_by_the_trees_loader() {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("usr/bin/qemu-system-x86_64");
        assert_eq!(Launch::of(&binary), Launch::Direct);
        fs::create_dir_all(tree_libraries(dir.path())).unwrap();
        fs::write(tree_loader(dir.path()), "").unwrap();
        assert_eq!(Launch::of(&binary), Launch::Tree(dir.path().into()));
        assert_eq!(
            Launch::of(Path::new("/usr/bin/qemu-system-x86_64")),
            Launch::Direct
        );
        assert_eq!(Launch::of(Path::new("qemu")), Launch::Direct);
    }

    #[test]
    fn an_unpacked_tree_brings_its_own_loader_libraries_and_firmware() {
        let launch = Launch::Tree("/cache/q".into());
        let command = launch.command(Path::new("/cache/q/usr/bin/qemu-system-x86_64"));
        assert!(
            command
                .get_program()
                .to_string_lossy()
                .starts_with("/cache/q/usr/lib/")
        );
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        assert!(
            words
                .iter()
                .any(|word| word == "/cache/q/usr/share/seabios"),
            "{words:?}"
        );
    }

    /// The host's QEMU; it boots nothing.
    #[test]
    fn a_confined_qemu_has_given_up_rights_and_system_calls() {
        let stop = AtomicBool::new(false);
        let task = Task::silent(&stop);
        let (name, package) = Arch::HOST.facts().emulator();
        let path = program::find(name).expect(package);
        let qemu = open(&path, Arch::HOST, Launch::Direct, task).unwrap();
        let mut command = qemu.command();
        command.args(["-machine", "none", "-display", "none", "-nodefaults", "-S"]);
        command.args(["-monitor", "stdio"]);
        qemu.confine(&mut command, &[]).unwrap();
        base::process::bind(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The monitor greets once the command line is processed.
        let mut greeting = [0; 4];
        let output = child.stdout.as_mut().unwrap();
        output.read_exact(&mut greeting).unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        base::process::end(&mut child);
        let value = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.unwrap_or_default().trim().to_string()
        };
        assert_eq!(value("NoNewPrivs:"), "1");
        assert_eq!(value("Seccomp:"), if qemu.has_seccomp { "2" } else { "0" });
        if base::process::substitute_obstacle(&devices()).is_none() {
            assert!(!value("Uid:").starts_with("0\t"), "{status}");
            // CAP_DAC_READ_SEARCH alone, or none where bakeoff has none.
            let capabilities = u64::from_str_radix(&value("CapEff:"), 16).unwrap();
            assert!([0, 4].contains(&capabilities), "{status}");
        }
    }
}
