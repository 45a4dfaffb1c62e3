//! Examines what this host has and lacks, with remedies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use base::arch::Arch;
use base::input::units::show_bytes;
use rustix::process::geteuid;

use crate::acceleration::Kvm;
use crate::apt::{KEYRING, Source};
use crate::cache;
use crate::cache::{Cache, eviction};
use crate::clients::HostClients;
use crate::emulator;
use crate::emulator::Program;
use crate::emulator_choice;
use crate::host;
use crate::host_state::{HostState, Lack};
use crate::image;
use crate::kvm;
use crate::os_release::OsRelease;
use crate::program;
use crate::task::Task;

/// Disk space for a first run of two kernels and one image, including staging.
const WANTED_DISK_BYTES: u64 = 3 << 30;

/// Memory that a guest of 1 GiB and its host need.
const WANTED_MEMORY_BYTES: u64 = 2 << 30;

/// A property of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostProperty {
    /// The property.
    pub what: String,
    /// Its value: a version, a size, a reason.
    pub found: String,
    /// Its rating.
    pub state: State,
    /// Details that do not fit a line.
    pub detail: Option<String>,
}

/// The rating of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Good.
    Good,
    /// bakeoff works, but less well; the remedy.
    Weak(String),
    /// bakeoff cannot run without it; the remedy.
    Missing(String),
}

/// A program that bakeoff calls, and its Debian package.
struct Tool {
    program: &'static str,
    package: &'static str,
    /// The argument that prints its version.
    version: &'static str,
}

const TOOLS: [Tool; 5] = [
    Tool {
        program: "mmdebstrap",
        package: "mmdebstrap",
        version: "--version",
    },
    Tool {
        program: "mke2fs",
        package: "e2fsprogs",
        version: "-V",
    },
    Tool {
        program: "dpkg-deb",
        package: "dpkg",
        version: "--version",
    },
    Tool {
        program: "apt-get",
        package: "apt",
        version: "--version",
    },
    Tool {
        program: "unshare",
        package: "util-linux",
        version: "--version",
    },
];

/// Examines everything without changing or booting anything: the result for KVM is that of an earlier run.
pub fn examine(cache: &Cache, named: Option<&Path>, task: Task<'_>) -> Vec<HostProperty> {
    let mut findings = vec![system(&OsRelease::read())];
    findings.extend(emulators(cache, named, task));
    findings.extend(needs(task));
    findings.extend(kvm(cache, named, task));
    findings.push(disk(cache));
    findings.push(memory());
    findings.push(stock(cache));
    findings.extend(wrong_limit(eviction::limit()));
    findings
}

/// Fails if the host cannot fetch a kernel, build an image and boot, with all that it lacks.
pub fn refuse_lacks(task: Task<'_>) -> Result<()> {
    let mut findings = vec![system(&OsRelease::read())];
    findings.extend(needs(task));
    let lacks = lacks(&findings);
    if !lacks.is_empty() {
        bail!(
            "this host lacks what bakeoff needs:\n    {}",
            lacks.join("\n    ")
        );
    }
    Ok(())
}

/// What is missing, and the system's description if something is.
fn lacks(findings: &[HostProperty]) -> Vec<String> {
    let is_missing = |finding: &HostProperty| matches!(finding.state, State::Missing(_));
    if !findings.iter().any(is_missing) {
        return Vec::new();
    }
    let lines = findings.iter().filter_map(|finding| match &finding.state {
        State::Good => None,
        State::Weak(remedy) | State::Missing(remedy) => {
            let HostProperty { what, found, .. } = finding;
            Some(format!("{what}: {found} ({remedy})"))
        }
    });
    lines.collect()
}

/// Requirements of fetching kernels, building images and booting.
fn needs(task: Task<'_>) -> Vec<HostProperty> {
    // A missing QEMU is fetched.
    let mut findings: Vec<_> = TOOLS.iter().map(tool).collect();
    findings.push(keyring());
    if !geteuid().is_root() {
        findings.push(subordinate_ids());
    }
    if findings.iter().all(|finding| finding.state == State::Good) {
        findings.push(mirror(task));
    }
    findings
}

/// Which distribution this is.
fn system(os_release: &OsRelease) -> HostProperty {
    let field = |name| os_release.field(name);
    let name = field("PRETTY_NAME").or(field("ID"));
    let state = match (field("ID"), field("VERSION_ID")) {
        (Some("debian"), Some("12" | "13")) => State::Good,
        (Some("debian"), _) => State::Weak("tested on Debian 12 and 13".into()),
        _ => State::Weak(
            "made for Debian 12 and 13: packages are named as there; use one of them, or a container of one".into(),
        ),
    };
    finding("system", name.unwrap_or("unknown"), state)
}

/// How to get a package, on this system.
fn remedy(package: &str, has_apt: bool) -> String {
    if has_apt {
        format!("apt-get install {package}")
    } else {
        format!("install what brings it here; on Debian the package {package} does")
    }
}

fn install(package: &str) -> State {
    State::Missing(remedy(package, program::find("apt-get").is_some()))
}

fn tool(tool: &Tool) -> HostProperty {
    let Some(path) = program::find(tool.program) else {
        return finding(tool.program, "not found", install(tool.package));
    };
    // Some print it to standard output, some to standard error.
    let output = Command::new(&path).arg(tool.version).output();
    match output {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            finding(
                tool.program,
                text.lines().next().unwrap_or("no version told"),
                State::Good,
            )
        }
        Err(why) => {
            let remedy = format!("apt-get install --reinstall {}", tool.package);
            finding(
                tool.program,
                &format!("does not start: {why}"),
                State::Missing(remedy),
            )
        }
    }
}

/// The QEMU that would run guests, and the host's if that is another.
fn emulators(cache: &Cache, named: Option<&Path>, task: Task<'_>) -> Vec<HostProperty> {
    let (what, package) = cache.arch().facts().emulator();
    let chosen = match emulator_choice::find(named, cache, task) {
        Ok(chosen) => chosen,
        Err(why) => {
            let remedy = format!("apt-get install {package}, or bakeoff cache qemu fetch");
            return vec![finding(what, &format!("{why:#}"), State::Missing(remedy))];
        }
    };
    let describe = |program: &Program| format!("{} at {}", program.version, program.path.display());
    let state = match chosen.fault() {
        None => State::Good,
        Some(fault) => State::Weak(format!(
            "{fault}: bakeoff cache qemu fetch brings a release without the fault (`run` does so too, unless --qemu names one)"
        )),
    };
    let mut findings = vec![finding(what, &describe(&chosen), state)];
    findings.push(sandbox(&chosen));
    if named.is_none()
        && let Ok(host) = emulator_choice::of_host(cache.arch(), task)
        && host.path != chosen.path
    {
        let fault = host.fault().unwrap_or_default();
        let found = format!("{}: not used, {fault}", describe(&host));
        findings.push(finding("the host's own QEMU", &found, State::Good));
    }
    findings
}

/// The confinement of a guest that has taken over its QEMU.
fn sandbox(program: &Program) -> HostProperty {
    let mut holds = Vec::new();
    let mut lacks = Vec::new();
    if program.has_seccomp {
        holds.push("seccomp".to_string());
    } else {
        lacks.push("seccomp: not built into this QEMU (bakeoff cache qemu fetch)".to_string());
    }
    match base::process::landlock_obstacle() {
        None => holds.push("Landlock: files of its guest alone".into()),
        Some(obstacle) => lacks.push(format!("Landlock: {obstacle}")),
    }
    if geteuid().is_root() {
        match base::process::substitute_obstacle(&emulator::devices()) {
            None => holds.push("a user without files".into()),
            Some(obstacle) => lacks.push(format!("another user: {obstacle}")),
        }
    }
    let state = if lacks.is_empty() {
        State::Good
    } else {
        State::Weak(format!("without {}", lacks.join("; ")))
    };
    finding("sandbox of QEMU", &holds.join("; "), state)
}

fn keyring() -> HostProperty {
    if Path::new(KEYRING).exists() {
        return finding("Debian's archive keys", KEYRING, State::Good);
    }
    finding(
        "Debian's archive keys",
        "not found",
        install("debian-archive-keyring"),
    )
}

/// The source of kernels and images; examined if apt and the keys are there.
fn mirror(task: Task<'_>) -> HostProperty {
    let what = "Debian mirror";
    match Source::of_host(task) {
        Ok(source) => finding(what, &source.mirror, State::Good),
        Err(why) => {
            let remedy = "run apt-get update, or set BAKEOFF_DEBIAN_MIRROR to the URI of one";
            let found = why.to_string();
            let found = found.split(" (").next().unwrap_or_default();
            finding(what, found, State::Missing(remedy.into()))
        }
    }
}

/// Without root, an image is built in a user namespace that needs a range of ids.
fn subordinate_ids() -> HostProperty {
    let what = "ids for building images without root";
    if program::find("newuidmap").is_none() {
        return finding(what, "newuidmap not found", install("uidmap"));
    }
    let trial = program::enclosed("true".as_ref()).map(|mut command| command.output());
    match trial {
        Ok(Ok(output)) if output.status.success() => finding(what, "work", State::Good),
        Ok(Ok(output)) => {
            let remedy = "give yourself a line in /etc/subuid and /etc/subgid, or run as root";
            let why = program::last_lines(&String::from_utf8_lossy(&output.stderr), output.status);
            finding(what, &why, State::Missing(remedy.into()))
        }
        Ok(Err(why)) => finding(what, &why.to_string(), State::Missing("run as root".into())),
        Err(why) => finding(what, &why.to_string(), State::Missing("run as root".into())),
    }
}

/// The state of KVM, and what a host that may have it lacks.
fn kvm(cache: &Cache, named: Option<&Path>, task: Task<'_>) -> Vec<HostProperty> {
    let weak = "guests are emulated: figures count instructions, not time".to_string();
    if let Some(why) = kvm::obstacle(Arch::HOST) {
        return vec![finding("KVM", &why, State::Weak(weak))];
    }
    let known = emulator_choice::for_kvm(named, cache, task)
        .ok()
        .and_then(|program| kvm::known(cache, &program));
    let standing = match known {
        Some(Kvm::Works) => finding("KVM", "works", State::Good),
        Some(kvm @ (Kvm::Absent(_) | Kvm::Broken(_) | Kvm::Unwanted)) => {
            return vec![HostProperty {
                detail: kvm.detail().map(String::from),
                ..finding("KVM", &kvm.words(), State::Weak(weak))
            }];
        }
        None => {
            let remedy = "the first run tries a short boot".into();
            finding(
                "KVM",
                "/dev/kvm is there, not yet tried",
                State::Weak(remedy),
            )
        }
    };
    let lack = |lack: Lack| finding(lack.what, &lack.found, State::Weak(lack.remedy.into()));
    let lacks = HostState::at(Path::new("/")).lacks();
    std::iter::once(standing)
        .chain(lacks.into_iter().map(lack))
        .collect()
}

/// Whether clients of guests can be on this host; `program` is bakeoff's binary.
pub fn clients(program: &Path) -> HostProperty {
    let what = "clients outside guests";
    let weak = |why: &str| {
        let (found, remedy) = why.rsplit_once(" (").unwrap_or((why, ""));
        let remedy = format!("clients run in the guest: {}", remedy.trim_end_matches(')'));
        finding(what, found, State::Weak(remedy))
    };
    match HostClients::open(program) {
        Err(why) => weak(&why),
        Ok(_) if kvm::obstacle(Arch::HOST).is_some() => finding(what, "work", State::Good),
        Ok(clients) => match clients.under_kvm().lack() {
            Some(lack) => finding(
                what,
                &format!("work, without vhost: {}", lack.found),
                State::Weak(lack.remedy.into()),
            ),
            None => finding(what, "work, with vhost", State::Good),
        },
    }
}

/// Whether guests of another architecture can be had; `agent` is the program for them.
pub fn foreign(arch: Arch, agent: Result<PathBuf>) -> HostProperty {
    let what = format!("guests of {arch}");
    let weak = |why: &str| {
        let (found, remedy) = why.rsplit_once(" (").unwrap_or((why, ""));
        finding(
            &what,
            found,
            State::Weak(remedy.trim_end_matches(')').into()),
        )
    };
    let agent = match agent {
        Ok(agent) => agent,
        Err(why) => return weak(&why.to_string()),
    };
    match image::foreign_obstacle() {
        Some(why) => weak(&why),
        None => HostProperty {
            detail: Some(OTHERS.into()),
            ..finding(&what, &format!("agent at {}", agent.display()), State::Good)
        },
    }
}

/// What other architectures lack.
const OTHERS: &str = "riscv64, ppc64el and s390x: this build has no files for them (how they boot, which facts they have, \
                      how their instructions are decoded)";

fn disk(cache: &Cache) -> HostProperty {
    let place = format!("disk at {}", cache.root().display());
    match cache::free_bytes(cache.root()) {
        Ok(free) => {
            let state = if free >= WANTED_DISK_BYTES {
                State::Good
            } else {
                let want = show_bytes(WANTED_DISK_BYTES);
                State::Weak(format!(
                    "a first run takes about {want}: free some, or set XDG_CACHE_HOME"
                ))
            };
            finding(&place, &format!("{} free", show_bytes(free)), state)
        }
        Err(why) => finding(
            &place,
            &format!("{why:#}"),
            State::Missing("check the disk".into()),
        ),
    }
}

fn memory() -> HostProperty {
    let available = host::available_bytes();
    let state = if available >= WANTED_MEMORY_BYTES {
        State::Good
    } else {
        State::Weak("lower memory in [machine], or end other programs".into())
    };
    finding(
        "memory",
        &format!("{} available", show_bytes(available)),
        state,
    )
}

fn stock(cache: &Cache) -> HostProperty {
    let writable = cache.staging(0);
    if let Err(why) = cache.refuse_unreadable() {
        let remedy = match &writable {
            Ok(_) => "run as its owner, or set XDG_CACHE_HOME".into(),
            Err(why) => format!("{why:#}"),
        };
        let found = format!("cannot be read: {}", why.root_cause());
        return finding("cache", &found, State::Missing(remedy));
    }
    let count = |kind| fs::read_dir(cache.root().join(kind)).map_or(0, Iterator::count);
    let found = format!(
        "{} kernels, {} images, {}",
        count("kernels"),
        count("images"),
        show_bytes(cache.size_bytes())
    );
    match writable {
        Ok(_) => finding("cache", &found, State::Good),
        Err(why) => finding("cache", &found, State::Missing(format!("{why:#}"))),
    }
}

/// The cache's limit, if the user's setting is not a size.
fn wrong_limit(limit: Result<u64>) -> Option<HostProperty> {
    let why = limit.err()?.to_string();
    let (found, remedy) = why.rsplit_once(" (").unwrap_or((&why, ""));
    let remedy = remedy.trim_end_matches(')').into();
    Some(finding("cache limit", found, State::Missing(remedy)))
}

fn finding(what: &str, found: &str, state: State) -> HostProperty {
    HostProperty {
        what: what.into(),
        found: found.into(),
        state,
        detail: None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_missing_tool_is_told_with_its_package() {
        let missing = Tool {
            program: "no-such",
            package: "such",
            version: "-V",
        };
        let want = finding("no-such", "not found", install("such"));
        assert_eq!(tool(&missing), want);
        assert_eq!(remedy("such", true), "apt-get install such");
        let elsewhere = "install what brings it here; on Debian the package such does";
        assert_eq!(remedy("such", false), elsewhere);
    }

    fn system_of(os_release: &str) -> HostProperty {
        system(&OsRelease(os_release.into()))
    }

    #[test]
    fn the_system_is_told_and_what_bakeoff_is_made_for() {
        let bookworm =
            "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n";
        let want = finding("system", "Debian GNU/Linux 12 (bookworm)", State::Good);
        assert_eq!(system_of(bookworm), want);
        let trixie = bookworm.replace("12", "13");
        assert_eq!(system_of(&trixie).state, State::Good);
        let sid = "PRETTY_NAME=\"Debian GNU/Linux forky/sid\"\nID=debian\n";
        let want = State::Weak("tested on Debian 12 and 13".into());
        assert_eq!(system_of(sid).state, want);
        let others = [
            (
                "PRETTY_NAME='Ubuntu 24.04.3 LTS'\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n",
                "Ubuntu 24.04.3 LTS",
            ),
            ("ID=fedora\nVERSION_ID=42\n", "fedora"),
            ("", "unknown"),
        ];
        for (os_release, name) in others {
            let system = system_of(os_release);
            assert_eq!(system.found, name);
            assert!(
                matches!(&system.state, State::Weak(why) if why.starts_with("made for Debian 12 and 13")),
                "{system:?}"
            );
        }
    }

    #[test]
    fn all_lacks_are_told_at_once_and_the_system_with_them() {
        let fedora = system_of("ID=fedora\n");
        let there = finding("mke2fs", "1.47", State::Good);
        assert_eq!(lacks(&[fedora.clone(), there.clone()]), [""; 0]);
        let missing = |what| finding(what, "not found", State::Missing("get it".into()));
        let findings = [fedora, there, missing("apt-get"), missing("dpkg-deb")];
        let lacks = lacks(&findings);
        assert!(lacks[0].starts_with("system: fedora (made for Debian"));
        assert_eq!(
            lacks[1..],
            [
                "apt-get: not found (get it)",
                "dpkg-deb: not found (get it)"
            ]
        );
    }

    #[test]
    fn the_list_of_packages_has_what_is_needed() {
        let list = include_str!("../../../packages.txt");
        let run: Vec<_> = list
            .lines()
            .filter_map(|line| Some(line.strip_prefix("run ")?.trim()))
            .collect();
        let tools = TOOLS.iter().map(|tool| tool.package);
        for package in tools.chain(["debian-archive-keyring", "uidmap"]) {
            assert!(run.contains(&package), "{package} in {run:?}");
        }
    }

    #[test]
    fn a_limit_of_the_cache_that_is_no_size_is_missing_with_its_remedy() {
        assert_eq!(wrong_limit(eviction::limit_of(None)), None);
        let want = finding(
            "cache limit",
            "BAKEOFF_CACHE_LIMIT is no size: \"abc\"",
            State::Missing("write one such as 20GiB, or unset it".into()),
        );
        let limit = eviction::limit_of(Some("abc".as_ref()));
        assert_eq!(wrong_limit(limit), Some(want));
    }

    #[test]
    fn a_cache_that_cannot_be_made_is_a_finding() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let stop = AtomicBool::new(false);
        let task = Task::silent(&stop);
        let findings = examine(&Cache::open(&file), None, task);
        let cache = findings
            .iter()
            .find(|finding| finding.what == "cache")
            .unwrap();
        assert!(matches!(&cache.state, State::Missing(why) if why.contains("cannot write")));
    }
}
