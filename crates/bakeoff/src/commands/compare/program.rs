//! The user's program for `compare`: what it needs, and how it gets to the system that runs it.
//!
//! An argument with a slash that names a file is a file of the user. It is copied beside the program, into the directory
//! in which the program runs, and the argument then names the copy. Files below /proc, /etc, /usr and the like are those of
//! the guest. A name without a slash is a program of the image, or of this host. If the program is linked against libraries
//! that a minimal Debian system lacks, this host's libraries are copied too.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

use anyhow::{Context, Result, bail};
use base::input::file;
use machine::os_release::OsRelease;
use workload::command::adapter::{Adaptation, adaptation};

use super::arms;
use crate::plan_text::{Line, WorkloadText};

/// A program as a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// The workload's table in the plan.
    pub(super) workload: WorkloadText,
    /// The suite whose C library the program is linked against, if it is not the images' default.
    pub(super) suite: Option<String>,
    /// Files to copy, including the program.
    pub(super) files: Vec<PathBuf>,
    /// Notes for the user about decisions made here.
    pub(super) notes: Vec<String>,
}

/// The suite of the recipes that come with bakeoff.
const IMAGE_SUITE: &str = "bookworm";

/// Search path for programs named without a slash; the same as in `workload::context::command`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Libraries that every Debian system has, and that must match its C library.
const SYSTEM_LIBRARIES: [&str; 13] = [
    "ld-linux",
    "linux-vdso",
    "libc.so",
    "libm.so",
    "libmvec.so",
    "libpthread.so",
    "libdl.so",
    "librt.so",
    "libresolv.so",
    "libutil.so",
    "libgcc_s.so",
    "libstdc++.so",
    "libanl.so",
];

/// Directories whose files belong to the system, in a guest to the guest's.
const SYSTEM_DIRECTORIES: [&str; 13] = [
    "/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin",
    "/sbin", "/run", "/var",
];

/// What a program needs on the system that runs it.
#[derive(Debug, Default)]
struct Payload {
    files: Vec<PathBuf>,
    packages: Vec<String>,
    /// The `files` that the user named, as the user wrote them; without the program.
    named: Vec<String>,
    /// Whether libraries are among the files.
    has_libraries: bool,
    suite: Option<String>,
    notes: Vec<String>,
}

/// Reads a command line; `extra` are further files to copy.
pub(super) fn read(words: &[String], extra: &[PathBuf], is_local: bool) -> Result<Program> {
    let (first, arguments) = words.split_first().context("a program without a name")?;
    let mut payload = Payload::default();
    for path in extra {
        payload.add_named_file(path)?;
    }
    let name = Path::new(first).file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let adaptation = adaptation(&name, arguments);
    let mut command = vec![if first.contains('/') {
        check_executable(first)?;
        payload.add_file(Path::new(first))?;
        if !is_local {
            payload.add_dependencies(Path::new(first))?;
        }
        format!("{{dir}}/{name}")
    } else {
        match (&adaptation, is_local) {
            (Adaptation::Unknown, false) => payload.add_package(first, "program")?,
            (_, true) => check_installed(first)?,
            (Adaptation::Ready(_) | Adaptation::Lacks { .. }, false) => {}
        }
        first.clone()
    }];
    for word in arguments {
        command.push(payload.map_argument(word)?);
    }
    if !payload.named.is_empty() {
        let files = payload.named.join(", ");
        payload.notes.push(format!("{first} takes {files} along"));
    }
    if payload.has_libraries {
        command.splice(0..0, ["env".into(), "LD_LIBRARY_PATH={dir}".into()]);
    }
    if let Adaptation::Lacks { package, option } = adaptation {
        payload.packages.push(package.into());
        payload.notes.push(format!(
            "{name} without {option}: its time decides (add {option}, and its own figures do)"
        ));
    }
    let mut lines = vec![
        Line::new("name", arms::arm_name(&name), ""),
        Line::new("command", command, "{dir} is where it runs"),
    ];
    if let Adaptation::Ready(word) = adaptation {
        lines.push(Line::new("adapter", word, "finds its figures"));
    }
    lines.extend(payload.lines());
    lines.push(Line::new("limit", "10m", "time that it may take"));
    Ok(Program {
        workload: WorkloadText::with_lines("command", lines)?,
        suite: payload.suite,
        files: payload.files,
        notes: payload.notes,
    })
}

impl Payload {
    /// Adds a file to copy, unless it is already added.
    fn add_file(&mut self, path: &Path) -> Result<()> {
        file::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        let path = absolute(path).with_context(|| format!("no path: {}", path.display()))?;
        let mut files = self.files.iter();
        match files.find(|other| other.file_name() == path.file_name()) {
            Some(other) if *other != path => bail!(
                "two files of one name: {} and {} (rename one of them: they are put into one directory)",
                other.display(),
                path.display()
            ),
            Some(_) => {}
            None => self.files.push(path),
        }
        Ok(())
    }

    fn add_named_file(&mut self, path: &Path) -> Result<()> {
        self.add_file(path)?;
        let name = path.display().to_string();
        if !self.named.contains(&name) {
            self.named.push(name);
        }
        Ok(())
    }

    /// Whether a file is the user's: it is not in a system directory, or the user added it by name.
    fn is_users_file(&self, path: &Path) -> bool {
        let is_system = SYSTEM_DIRECTORIES.iter().any(|dir| path.starts_with(dir));
        !is_system || self.files.iter().any(|file| file == path)
    }

    /// Maps an argument. If it names a file of the user by a path, possibly after an equals sign, the file is copied and the
    /// argument names the copy.
    fn map_argument(&mut self, word: &str) -> Result<String> {
        let (option, path) = match word.split_once('=') {
            Some((option, path)) if word.starts_with('-') => (format!("{option}="), path),
            _ => (String::new(), word),
        };
        let is_path = path.contains('/');
        let path = Path::new(path);
        if !is_path || !self.is_users_file(path) || !path.is_file() {
            return Ok(word.into());
        }
        self.add_named_file(path)?;
        let name = path.file_name().unwrap_or_default();
        Ok(format!("{option}{{dir}}/{}", name.to_string_lossy()))
    }

    /// Adds what the user's program needs in an image: its interpreter, or its libraries.
    fn add_dependencies(&mut self, program: &Path) -> Result<()> {
        match Kind::of(program)? {
            Kind::Script(Interpreter::OnPath(name)) => self.add_package(&name, "interpreter"),
            Kind::Script(Interpreter::At(path)) => self.add_interpreter(&path, program),
            Kind::Dynamic => self.add_libraries(program),
            Kind::Other => Ok(()),
        }
    }

    fn add_libraries(&mut self, program: &Path) -> Result<()> {
        let output = Command::new("ldd")
            .arg(absolute(program)?)
            .env("LC_ALL", "C")
            .output()
            .context("cannot run ldd")?;
        let libraries = libraries(&String::from_utf8_lossy(&output.stdout))
            .with_context(|| format!("program {}", program.display()))?;
        self.has_libraries = !libraries.is_empty();
        for library in &libraries {
            self.add_file(library)?;
        }
        let names: Vec<_> = libraries
            .iter()
            .filter_map(|path| path.file_name()?.to_str())
            .collect();
        if !names.is_empty() {
            self.notes.push(format!(
                "{} takes this host's libraries along: {}",
                program.display(),
                names.join(", ")
            ));
        }
        match host_suite() {
            Some(suite) if suite == IMAGE_SUITE => {}
            Some(suite) if machine::image::check_suite(&suite).is_ok() => self.suite = Some(suite),
            _ => self.notes.push(format!(
                "{} is linked against this host's C library, the image has that of {IMAGE_SUITE} (link it statically if guests \
                 say that a version is not found)",
                program.display()
            )),
        }
        Ok(())
    }

    /// Adds the Debian package of a program, unless every image has it.
    fn add_package(&mut self, name: &str, what: &str) -> Result<()> {
        let Some(path) = on_path(
            name,
            &env::var("PATH").unwrap_or_else(|_| DEFAULT_PATH.into()),
        ) else {
            if machine::image::covering(&[name]).is_some() {
                self.packages.push(name.into());
                return Ok(());
            }
            bail!("no such {what}: {name} (one of your own is named by its path, ./{name})");
        };
        self.add_package_of(
            name,
            what,
            &path,
            "name it by its path, and it is put beside",
        )
    }

    /// Adds the package of the interpreter that a script names by its path.
    fn add_interpreter(&mut self, path: &Path, script: &Path) -> Result<()> {
        let (shown, script) = (path.display().to_string(), script.display());
        if is_program(path) {
            let remedy = format!("write it before the script: -- {shown} {script}");
            return self.add_package_of(&shown, "interpreter", path, &remedy);
        }
        let is_usual = ["/usr/bin", "/bin"]
            .iter()
            .any(|dir| path.parent() == Some(Path::new(dir)));
        if is_usual && machine::image::covering(&[base_name(&shown)]).is_some() {
            self.packages.push(base_name(&shown).into());
            return Ok(());
        }
        bail!(
            "no such interpreter: {shown} (the first line of {script} names it: correct it, or install it here)"
        )
    }

    /// Adds the package that owns a program of this host; `remedy` is for a program that belongs to no package.
    fn add_package_of(&mut self, name: &str, what: &str, path: &Path, remedy: &str) -> Result<()> {
        let recipe_has = |package: &str| machine::image::covering(&[package]).is_some();
        match owning_package(path) {
            Some(package) if is_in_every_image(&package) => Ok(()),
            Some(package) if recipe_has(&package) => {
                self.packages.push(package);
                Ok(())
            }
            Some(package) => bail!(
                "no image recipe has the {what} {name}, of package {package} (write a recipe with packages = [\"{package}\"], \
                 images/README.md says how, and name it in [image] of a plan; or name the program by its path, {})",
                path.display()
            ),
            None => bail!(
                "no image has the {what} {name}: {} is of no package ({remedy})",
                path.display()
            ),
        }
    }

    fn lines(&self) -> Vec<Line> {
        let files: Vec<String> = self
            .files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let mut lines = Vec::new();
        if !files.is_empty() {
            lines.push(Line::new("files", files, "put into {dir}"));
        }
        if !self.packages.is_empty() {
            lines.push(Line::new(
                "packages",
                self.packages.clone(),
                "that the image must have",
            ));
        }
        lines
    }
}

/// The kind of a program, which determines what it needs.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// A script for this interpreter.
    Script(Interpreter),
    /// A binary that needs libraries.
    Dynamic,
    Other,
}

/// The interpreter in a script's first line.
#[derive(Debug, PartialEq, Eq)]
enum Interpreter {
    /// By its path.
    At(PathBuf),
    /// By its name, which `env` looks up.
    OnPath(String),
}

impl Interpreter {
    /// Reads the rest of the line after `#!`.
    fn from_line(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if !["/usr/bin/env", "/bin/env"].contains(&first) {
            return Self::At(first.into());
        }
        let name = words.find(|word| !word.starts_with('-') && !word.contains('='));
        Self::OnPath(name.unwrap_or_default().into())
    }
}

impl Kind {
    fn of(program: &Path) -> Result<Self> {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut head = Vec::new();
            File::open(program)?.take(4096).read_to_end(&mut head)?;
            Ok(head)
        };
        let head = read().with_context(|| format!("cannot read {}", program.display()))?;
        Ok(Self::from_head(&head))
    }

    fn from_head(head: &[u8]) -> Self {
        if let Some(line) = head.strip_prefix(b"#!") {
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
            return Self::Script(Interpreter::from_line(&String::from_utf8_lossy(line)));
        }
        // A dynamic program names its dynamic loader near its beginning; a static one does not.
        let names_loader = head.windows(8).any(|bytes| bytes == b"ld-linux");
        if head.starts_with(b"\x7fELF") && names_loader {
            Self::Dynamic
        } else {
            Self::Other
        }
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The libraries in the output of ldd that a minimal system lacks.
fn libraries(ldd_output: &str) -> Result<Vec<PathBuf>> {
    let mut libraries = Vec::new();
    for line in ldd_output.lines() {
        let Some((name, location)) = line.trim().split_once(" => ") else {
            continue;
        };
        let is_system = SYSTEM_LIBRARIES
            .iter()
            .any(|library| base_name(name).starts_with(library));
        if is_system {
            continue;
        }
        match location.split(" (").next().map(str::trim) {
            Some(path) if path.starts_with('/') => libraries.push(PathBuf::from(path)),
            _ => bail!("library not found: {name} (install it, or set LD_LIBRARY_PATH)"),
        }
    }
    Ok(libraries)
}

/// The Debian suite of this host.
fn host_suite() -> Option<String> {
    let os_release = OsRelease::read();
    os_release.field("ID").filter(|id| *id == "debian")?;
    os_release.field("VERSION_CODENAME").map(str::to_string)
}

fn check_executable(program: &str) -> Result<()> {
    let metadata = match fs::metadata(program) {
        Ok(metadata) => metadata,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
            bail!("no such program: {program} (paths begin in the working directory)")
        }
        Err(why) => return Err(why).with_context(|| format!("cannot read {program}")),
    };
    if !metadata.is_file() {
        bail!("not a program: {program} (name a file)");
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        bail!("not executable: {program} (chmod +x {program})");
    }
    Ok(())
}

/// Checks that this host has a program.
fn check_installed(name: &str) -> Result<()> {
    match on_path(name, DEFAULT_PATH) {
        Some(_) => Ok(()),
        None => bail!(
            "no such program: {name} (looked for in {DEFAULT_PATH}; one of your own is named by its path, ./{name})"
        ),
    }
}

fn on_path(name: &str, search_path: &str) -> Option<PathBuf> {
    let mut paths = env::split_paths(search_path).map(|dir| dir.join(name));
    paths.find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The package of this host that owns a file.
fn owning_package(path: &Path) -> Option<String> {
    let text = path.display().to_string();
    // Packages from before the merge of /bin and /usr/bin name the former.
    let unmerged = text.strip_prefix("/usr").unwrap_or(&text).to_string();
    // A link such as python3 or awk may belong to no package, but its target does.
    let target = fs::canonicalize(path).ok()?.display().to_string();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for path in [&text, &unmerged, &target] {
        let output = Command::new("dpkg-query")
            .arg("-S")
            .arg(path)
            .env("LC_ALL", "C")
            .output()
            .ok()?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let owners = output.lines().filter(|line| !line.starts_with("diversion"));
        names.extend(owners.filter_map(|line| Some(line.split([':', ',']).next()?.to_string())));
        if let Some(name) = names.pop_first() {
            return Some(name);
        }
    }
    None
}

/// Whether a package is part of every Debian system, and so of every image.
fn is_in_every_image(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${Essential} ${Priority}", package]);
    query.output().is_ok_and(|output| {
        output.stdout.starts_with(b"yes") || output.stdout.ends_with(b"required")
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    fn read_text(text: &str, is_local: bool) -> String {
        match read(&words(text), &[], is_local) {
            Ok(program) => format!("{}{:?}\n", program.workload.text(), program.notes),
            Err(why) => format!("{why:#}\n"),
        }
    }

    #[test]
    fn files_that_are_named_by_a_path_are_copied() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        fs::write(at("mine"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(at("mine"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(at("data"), "").unwrap();
        let text = format!(
            "{} --in={} --out=/nowhere/else plain",
            at("mine"),
            at("data")
        );
        let program = read_text(&text, false).replace(&*dir.path().to_string_lossy(), "DIR");
        expect![[r#"
            [[workload]]
            kind = "command"
            name = "mine"
            command = ["{dir}/mine", "--in={dir}/data", "--out=/nowhere/else", "plain"]  # {dir} is where it runs
            files = ["DIR/mine", "DIR/data"]  # put into {dir}
            limit = "10m"               # time that it may take
            ["DIR/mine takes DIR/data along"]
        "#]].assert_eq(&program);
    }

    #[test]
    fn arguments_that_name_system_files_do_not_change() {
        let text = read_text("sysbench /proc/version --config=/etc/os-release", false);
        assert!(
            text.contains(r#"["sysbench", "/proc/version", "--config=/etc/os-release"]"#),
            "{text}"
        );
        assert!(
            !text.contains("files =") && !text.contains("along"),
            "{text}"
        );
        let program = read(
            &words("sysbench /proc/version /etc/os-release"),
            &["/etc/os-release".into()],
            false,
        );
        let program = program.unwrap();
        let text = program.workload.text();
        assert!(
            text.contains(r#"["sysbench", "/proc/version", "{dir}/os-release"]"#),
            "{text}"
        );
        assert_eq!(program.notes, ["sysbench takes /etc/os-release along"]);
    }

    #[test]
    fn an_interpreter_is_looked_for_where_the_script_says() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("mine").display().to_string();
        let script_text = |line: &str| {
            fs::write(&script, line).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
            read_text(&script, false).replace(&*dir.path().to_string_lossy(), "DIR")
        };
        expect![[r#"
            no such interpreter: /nowhere/bin/sh (the first line of DIR/mine names it: correct it, or install it here)
        "#]].assert_eq(&script_text("#!/nowhere/bin/sh -e\n"));
        expect![[r#"
            no such interpreter: no-such (one of your own is named by its path, ./no-such)
        "#]]
        .assert_eq(&script_text("#!/usr/bin/env -S no-such -u\n"));
        assert!(script_text("#!/bin/sh\n").starts_with("[[workload]]"));
    }

    #[test]
    fn an_adapter_is_used_if_the_program_prints_its_figures() {
        expect![[r#"
            [[workload]]
            kind = "command"
            name = "sysbench"
            command = ["sysbench", "cpu", "run"]  # {dir} is where it runs
            adapter = "sysbench"        # finds its figures
            limit = "10m"               # time that it may take
            []
        "#]]
        .assert_eq(&read_text("sysbench cpu run", false));
        expect![[r#"
            [[workload]]
            kind = "command"
            name = "fio"
            command = ["fio", "--name=read"]  # {dir} is where it runs
            packages = ["fio"]          # that the image must have
            limit = "10m"               # time that it may take
            ["fio without --output-format=json: its time decides (add --output-format=json, and its own figures do)"]
        "#]].assert_eq(&read_text("fio --name=read", false));
    }

    #[test]
    fn a_missing_program_is_named() {
        expect![[r#"
            no such program: ./no-such-program (paths begin in the working directory)
        "#]]
        .assert_eq(&read_text("./no-such-program", false));
        expect![[r#"
            no such program: no-such-program (one of your own is named by its path, ./no-such-program)
        "#]].assert_eq(&read_text("no-such-program", false));
        expect![[r#"
            no such program: no-such-program (looked for in /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; one of your own is named by its path, ./no-such-program)
        "#]].assert_eq(&read_text("no-such-program", true));
        expect![[r#"
            not executable: /etc/passwd (chmod +x /etc/passwd)
        "#]]
        .assert_eq(&read_text("/etc/passwd", true));
        expect![[r#"
            not a program: /etc/ (name a file)
        "#]]
        .assert_eq(&read_text("/etc/", true));
    }

    #[test]
    fn libraries_of_a_minimal_system_are_not_copied() {
        let output = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibfoo.so.1 => /opt/lib/libfoo.so.1 (0x00007f)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries(output).unwrap(),
            [Path::new("/opt/lib/libfoo.so.1")]
        );
        expect!["library not found: libbar.so.2 (install it, or set LD_LIBRARY_PATH)"].assert_eq(
            &libraries("\tlibbar.so.2 => not found\n")
                .unwrap_err()
                .to_string(),
        );
    }

    #[test]
    fn scripts_static_and_dynamic_programs_are_distinguished() {
        assert_eq!(
            Kind::from_head(b"#!/usr/bin/env -S LANG=C python3 -u\n"),
            Kind::Script(Interpreter::OnPath("python3".into()))
        );
        assert_eq!(
            Kind::from_head(b"#! /opt/own/env sh\n"),
            Kind::Script(Interpreter::At("/opt/own/env".into()))
        );
        assert_eq!(
            Kind::from_head(b"\x7fELF....../lib64/ld-linux-x86-64.so.2"),
            Kind::Dynamic
        );
        assert_eq!(Kind::from_head(b"\x7fELF......"), Kind::Other);
    }
}
