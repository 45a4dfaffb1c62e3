//! The program of `compare`: what it needs, and how it gets to where it runs.
//!
//! Words with a slash that name files are files of the user's own: they are put beside the program, in the directory that
//! it runs in, and the words then name them there. What lies below /proc, /etc, /usr and the like is the guest's. A bare name is a program of the image, or of this host. A program that
//! is linked against libraries which a minimal Debian system lacks takes this host's along.

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
    /// Its table.
    pub(super) workload: WorkloadText,
    /// The suite whose C library it is linked against, where that is not what images have by themselves.
    pub(super) suite: Option<String>,
    /// What is put beside it, itself among them.
    pub(super) files: Vec<PathBuf>,
    /// What was decided for the user.
    pub(super) remarks: Vec<String>,
}

/// The suite of the recipes that come with bakeoff.
const IMAGE_SUITE: &str = "bookworm";

/// Where programs are looked for that are named without a path; as `workload::context::command` has it.
const PLACES: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Libraries that every Debian system has, and that must fit its C library.
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

/// Where files are the system's, in a guest the guest's.
const SYSTEM_PLACES: [&str; 13] = [
    "/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin",
    "/sbin", "/run", "/var",
];

/// What has been gathered for a program.
#[derive(Debug, Default)]
struct Payload {
    files: Vec<PathBuf>,
    packages: Vec<String>,
    /// Those of `files` that the user named, as he wrote them; without the program.
    named: Vec<String>,
    /// Whether libraries are among the files.
    has_libraries: bool,
    suite: Option<String>,
    remarks: Vec<String>,
}

/// Reads a command; `extra` are files that it does not name.
pub(super) fn read(words: &[String], extra: &[PathBuf], is_local: bool) -> Result<Program> {
    let (first, arguments) = words.split_first().context("a program without a name")?;
    let mut payload = Payload::default();
    for path in extra {
        payload.bring_named(path)?;
    }
    let name = Path::new(first).file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let adaptation = adaptation(&name, arguments);
    let mut command = vec![if first.contains('/') {
        refuse_not_executable(first)?;
        payload.bring(Path::new(first))?;
        if !is_local {
            payload.bring_what_it_needs(Path::new(first))?;
        }
        format!("{{dir}}/{name}")
    } else {
        match (&adaptation, is_local) {
            (Adaptation::Unknown, false) => payload.find_package(first, "program")?,
            (_, true) => refuse_unknown(first)?,
            (Adaptation::Ready(_) | Adaptation::Lacks { .. }, false) => {}
        }
        first.clone()
    }];
    for word in arguments {
        command.push(payload.settle(word)?);
    }
    if !payload.named.is_empty() {
        let files = payload.named.join(", ");
        payload.remarks.push(format!("{first} takes {files} along"));
    }
    if payload.has_libraries {
        command.splice(0..0, ["env".into(), "LD_LIBRARY_PATH={dir}".into()]);
    }
    if let Adaptation::Lacks { package, option } = adaptation {
        payload.packages.push(package.into());
        payload.remarks.push(format!(
            "{name} without {option}: its time decides (add {option}, and its own figures do)"
        ));
    }
    let mut lines = vec![
        Line::new("name", arms::plain(&name), ""),
        Line::new("command", command, "{dir} is where it runs"),
    ];
    if let Adaptation::Ready(word) = adaptation {
        lines.push(Line::new("adapter", word, "finds its figures"));
    }
    lines.extend(payload.lines());
    lines.push(Line::new("limit", "10m", "time that it may take"));
    Ok(Program {
        workload: WorkloadText::of_lines("command", lines)?,
        suite: payload.suite,
        files: payload.files,
        remarks: payload.remarks,
    })
}

impl Payload {
    /// Takes a file along; twice is once.
    fn bring(&mut self, path: &Path) -> Result<()> {
        file::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        let path = absolute(path).with_context(|| format!("no path: {}", path.display()))?;
        let same = self
            .files
            .iter()
            .find(|other| other.file_name() == path.file_name());
        match same {
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

    fn bring_named(&mut self, path: &Path) -> Result<()> {
        self.bring(path)?;
        let shown = path.display().to_string();
        if !self.named.contains(&shown) {
            self.named.push(shown);
        }
        Ok(())
    }

    /// Whether a file is the user's own: not the system's, or brought by name.
    fn is_own(&self, path: &Path) -> bool {
        let is_system = SYSTEM_PLACES.iter().any(|place| path.starts_with(place));
        !is_system || self.files.iter().any(|file| file == path)
    }

    /// An argument; where it names a file of the user's own by a path, also behind an equals sign, the file comes along.
    fn settle(&mut self, word: &str) -> Result<String> {
        let (option, path) = match word.split_once('=') {
            Some((option, path)) if word.starts_with('-') => (format!("{option}="), path),
            _ => (String::new(), word),
        };
        let is_path = path.contains('/');
        let path = Path::new(path);
        if !is_path || !self.is_own(path) || !path.is_file() {
            return Ok(word.into());
        }
        self.bring_named(path)?;
        let name = path.file_name().unwrap_or_default();
        Ok(format!("{option}{{dir}}/{}", name.to_string_lossy()))
    }

    /// What a program of the user's own needs in an image: its interpreter, or its libraries.
    fn bring_what_it_needs(&mut self, program: &Path) -> Result<()> {
        match Kind::of(program)? {
            Kind::Script(Interpreter::OnPath(name)) => self.find_package(&name, "interpreter"),
            Kind::Script(Interpreter::At(path)) => self.find_interpreter(&path, program),
            Kind::Dynamic => self.bring_libraries(program),
            Kind::Other => Ok(()),
        }
    }

    fn bring_libraries(&mut self, program: &Path) -> Result<()> {
        let path = absolute(program)?;
        let mut ldd = Command::new("ldd");
        let said = ldd
            .arg(&path)
            .env("LC_ALL", "C")
            .output()
            .context("cannot run ldd")?;
        let libraries = libraries(&String::from_utf8_lossy(&said.stdout))
            .with_context(|| format!("program {}", program.display()))?;
        self.has_libraries = !libraries.is_empty();
        for library in &libraries {
            self.bring(library)?;
        }
        let names: Vec<_> = libraries
            .iter()
            .filter_map(|path| path.file_name()?.to_str())
            .collect();
        if !names.is_empty() {
            self.remarks.push(format!(
                "{} takes this host's libraries along: {}",
                program.display(),
                names.join(", ")
            ));
        }
        match host_suite() {
            Some(suite) if suite == IMAGE_SUITE => {}
            Some(suite) if machine::image::check_suite(&suite).is_ok() => self.suite = Some(suite),
            _ => self.remarks.push(format!(
                "{} is linked against this host's C library, the image has that of {IMAGE_SUITE} (link it statically if guests \
                 say that a version is not found)",
                program.display()
            )),
        }
        Ok(())
    }

    /// The Debian package of a program that an image must have; none for what every image has.
    fn find_package(&mut self, name: &str, what: &str) -> Result<()> {
        let Some(path) = on_path(name, &env::var("PATH").unwrap_or_else(|_| PLACES.into())) else {
            if machine::image::covering(&[name]).is_some() {
                self.packages.push(name.into());
                return Ok(());
            }
            bail!("no such {what}: {name} (one of your own is named by its path, ./{name})");
        };
        self.take_package(
            name,
            what,
            &path,
            "name it by its path, and it is put beside",
        )
    }

    /// The package of the interpreter that a script names by its path.
    fn find_interpreter(&mut self, path: &Path, script: &Path) -> Result<()> {
        let (shown, script) = (path.display().to_string(), script.display());
        if is_program(path) {
            let remedy = format!("write it before the script: -- {shown} {script}");
            return self.take_package(&shown, "interpreter", path, &remedy);
        }
        let is_usual = ["/usr/bin", "/bin"]
            .iter()
            .any(|dir| path.parent() == Some(Path::new(dir)));
        if is_usual && machine::image::covering(&[last(&shown)]).is_some() {
            self.packages.push(last(&shown).into());
            return Ok(());
        }
        bail!(
            "no such interpreter: {shown} (the first line of {script} names it: correct it, or install it here)"
        )
    }

    /// Notes the package of a program of this host's; `remedy` is for a program of none.
    fn take_package(&mut self, name: &str, what: &str, path: &Path, remedy: &str) -> Result<()> {
        let recipe_has = |package: &str| machine::image::covering(&[package]).is_some();
        match package_of(path) {
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

/// What a program is, as far as its needs go.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Text for this interpreter.
    Script(Interpreter),
    /// A binary that needs libraries.
    Dynamic,
    Other,
}

/// What a script's first line names.
#[derive(Debug, PartialEq, Eq)]
enum Interpreter {
    /// By its path.
    At(PathBuf),
    /// By its name, which `env` looks for.
    OnPath(String),
}

impl Interpreter {
    /// Reads what follows `#!`.
    fn of_line(line: &str) -> Self {
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
        Ok(Self::of_head(&head))
    }

    fn of_head(head: &[u8]) -> Self {
        if let Some(line) = head.strip_prefix(b"#!") {
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
            return Self::Script(Interpreter::of_line(&String::from_utf8_lossy(line)));
        }
        // A dynamic program names its interpreter, the dynamic loader, near its beginning; a static one names none.
        let names_loader = head.windows(8).any(|bytes| bytes == b"ld-linux");
        if head.starts_with(b"\x7fELF") && names_loader {
            Self::Dynamic
        } else {
            Self::Other
        }
    }
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The libraries in what ldd says that no minimal system has.
fn libraries(said: &str) -> Result<Vec<PathBuf>> {
    let mut libraries = Vec::new();
    for line in said.lines() {
        let Some((name, found)) = line.trim().split_once(" => ") else {
            continue;
        };
        let is_system = SYSTEM_LIBRARIES
            .iter()
            .any(|library| last(name).starts_with(library));
        if is_system {
            continue;
        }
        match found.split(" (").next().map(str::trim) {
            Some(path) if path.starts_with('/') => libraries.push(PathBuf::from(path)),
            _ => bail!("library not found: {name} (install it, or set LD_LIBRARY_PATH)"),
        }
    }
    Ok(libraries)
}

/// Debian's release of this host.
fn host_suite() -> Option<String> {
    let os_release = OsRelease::read();
    os_release.field("ID").filter(|id| *id == "debian")?;
    os_release.field("VERSION_CODENAME").map(str::to_string)
}

fn refuse_not_executable(program: &str) -> Result<()> {
    let about = match fs::metadata(program) {
        Ok(about) => about,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
            bail!("no such program: {program} (paths begin in the working directory)")
        }
        Err(why) => return Err(why).with_context(|| format!("cannot read {program}")),
    };
    if !about.is_file() {
        bail!("not a program: {program} (name a file)");
    }
    if about.permissions().mode() & 0o111 == 0 {
        bail!("not executable: {program} (chmod +x {program})");
    }
    Ok(())
}

/// A program of this host's that is named without a path.
fn refuse_unknown(name: &str) -> Result<()> {
    match on_path(name, PLACES) {
        Some(_) => Ok(()),
        None => bail!(
            "no such program: {name} (looked for in {PLACES}; one of your own is named by its path, ./{name})"
        ),
    }
}

fn on_path(name: &str, places: &str) -> Option<PathBuf> {
    let mut paths = env::split_paths(places).map(|place| place.join(name));
    paths.find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// The package of this host's that a file belongs to.
fn package_of(path: &Path) -> Option<String> {
    let text = path.display().to_string();
    // Packages of before the merge of /bin and /usr/bin name the former.
    let before = text.strip_prefix("/usr").unwrap_or(&text).to_string();
    // A link such as python3 or awk may be of no package, what it leads to is.
    let target = fs::canonicalize(path).ok()?.display().to_string();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for path in [&text, &before, &target] {
        let said = Command::new("dpkg-query")
            .arg("-S")
            .arg(path)
            .env("LC_ALL", "C")
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let owners = said.lines().filter(|line| !line.starts_with("diversion"));
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
    let said = query
        .output()
        .map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    said.is_ok_and(|said| said.starts_with("yes") || said.ends_with("required"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    fn told(text: &str, is_local: bool) -> String {
        match read(&words(text), &[], is_local) {
            Ok(program) => format!("{}{:?}\n", program.workload.text(), program.remarks),
            Err(why) => format!("{why:#}\n"),
        }
    }

    #[test]
    fn files_that_are_named_by_a_path_come_along() {
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
        let told = told(&text, false).replace(&*dir.path().to_string_lossy(), "DIR");
        expect![[r#"
            [[workload]]
            kind = "command"
            name = "mine"
            command = ["{dir}/mine", "--in={dir}/data", "--out=/nowhere/else", "plain"]  # {dir} is where it runs
            files = ["DIR/mine", "DIR/data"]  # put into {dir}
            limit = "10m"               # time that it may take
            ["DIR/mine takes DIR/data along"]
        "#]].assert_eq(&told);
    }

    #[test]
    fn files_of_the_system_stay_what_the_words_say() {
        let said = told("sysbench /proc/version --config=/etc/os-release", false);
        assert!(
            said.contains(r#"["sysbench", "/proc/version", "--config=/etc/os-release"]"#),
            "{said}"
        );
        assert!(
            !said.contains("files =") && !said.contains("along"),
            "{said}"
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
        assert_eq!(program.remarks, ["sysbench takes /etc/os-release along"]);
    }

    #[test]
    fn an_interpreter_is_looked_for_where_the_script_says() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("mine").display().to_string();
        let told = |line: &str| {
            fs::write(&script, line).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
            told(&script, false).replace(&*dir.path().to_string_lossy(), "DIR")
        };
        expect![[r#"
            no such interpreter: /nowhere/bin/sh (the first line of DIR/mine names it: correct it, or install it here)
        "#]].assert_eq(&told("#!/nowhere/bin/sh -e\n"));
        expect![[r#"
            no such interpreter: no-such (one of your own is named by its path, ./no-such)
        "#]]
        .assert_eq(&told("#!/usr/bin/env -S no-such -u\n"));
        assert!(told("#!/bin/sh\n").starts_with("[[workload]]"));
    }

    #[test]
    fn an_adapter_is_taken_where_the_program_says_its_figures() {
        expect![[r#"
            [[workload]]
            kind = "command"
            name = "sysbench"
            command = ["sysbench", "cpu", "run"]  # {dir} is where it runs
            adapter = "sysbench"        # finds its figures
            limit = "10m"               # time that it may take
            []
        "#]]
        .assert_eq(&told("sysbench cpu run", false));
        expect![[r#"
            [[workload]]
            kind = "command"
            name = "fio"
            command = ["fio", "--name=read"]  # {dir} is where it runs
            packages = ["fio"]          # that the image must have
            limit = "10m"               # time that it may take
            ["fio without --output-format=json: its time decides (add --output-format=json, and its own figures do)"]
        "#]].assert_eq(&told("fio --name=read", false));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        expect![[r#"
            no such program: ./no-such-program (paths begin in the working directory)
        "#]]
        .assert_eq(&told("./no-such-program", false));
        expect![[r#"
            no such program: no-such-program (one of your own is named by its path, ./no-such-program)
        "#]].assert_eq(&told("no-such-program", false));
        expect![[r#"
            no such program: no-such-program (looked for in /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; one of your own is named by its path, ./no-such-program)
        "#]].assert_eq(&told("no-such-program", true));
        expect![[r#"
            not executable: /etc/passwd (chmod +x /etc/passwd)
        "#]]
        .assert_eq(&told("/etc/passwd", true));
        expect![[r#"
            not a program: /etc/ (name a file)
        "#]]
        .assert_eq(&told("/etc/", true));
    }

    #[test]
    fn libraries_of_a_minimal_system_stay_behind() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibfoo.so.1 => /opt/lib/libfoo.so.1 (0x00007f)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries(said).unwrap(),
            [Path::new("/opt/lib/libfoo.so.1")]
        );
        expect!["library not found: libbar.so.2 (install it, or set LD_LIBRARY_PATH)"].assert_eq(
            &libraries("\tlibbar.so.2 => not found\n")
                .unwrap_err()
                .to_string(),
        );
    }

    #[test]
    fn scripts_are_told_from_binaries_and_these_by_their_loader() {
        assert_eq!(
            Kind::of_head(b"#!/usr/bin/env -S LANG=C python3 -u\n"),
            Kind::Script(Interpreter::OnPath("python3".into()))
        );
        assert_eq!(
            Kind::of_head(b"#! /opt/own/env sh\n"),
            Kind::Script(Interpreter::At("/opt/own/env".into()))
        );
        assert_eq!(
            Kind::of_head(b"\x7fELF....../lib64/ld-linux-x86-64.so.2"),
            Kind::Dynamic
        );
        assert_eq!(Kind::of_head(b"\x7fELF......"), Kind::Other);
    }
}
