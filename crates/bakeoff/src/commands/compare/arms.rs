//! The arms of `compare`: kernels, values of a sysctl, or kernel command lines.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf, absolute};
use std::slice;

use anyhow::{Context, Result, bail};
use base::arch::Arch;
use base::input::problem::remedy_among;
use machine::kernel::given;
use plan::kernel::{self, FORMS, KernelRef};
use plan::{sysctl_name, sysctl_path};

use crate::cli::compare::CompareArgs;
use crate::commands::with_progress;
use crate::plan_text::{ArmText, Line};

/// The arms to compare.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contrast {
    /// The arms, baseline first.
    pub(super) arms: Vec<ArmText>,
    /// The question, for the plan's title.
    pub(super) question: String,
    /// A label for file names.
    pub(super) label: String,
    /// Notes for the user about what was found.
    pub(super) notes: Vec<String>,
}

/// A kernel as a plan names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kernel {
    name: String,
    /// The suite or the directory, which distinguishes kernels of the same name.
    origin: String,
    text: String,
    /// The directory of the modules, if they were found beside the image.
    modules: Option<PathBuf>,
    /// Whether the user chose the name.
    is_named: bool,
    note: Option<String>,
}

impl Kernel {
    /// The kernel's lines in the plan.
    fn lines(&self) -> Vec<Line> {
        let mut lines = vec![Line::new("kernel", self.text.as_str(), "")];
        let modules = self.modules.as_deref();
        lines.extend(modules.map(|dir| Line::new("modules", dir.to_string_lossy().as_ref(), "")));
        lines
    }
}

/// Reads the arms from the options. Versions are looked up in Debian's suites.
pub(super) fn read(args: &CompareArgs, json: bool) -> Result<Contrast> {
    let arch = args.arch.arch();
    let locate = |version: &str| {
        let refresh = args.run.refresh;
        with_progress(json, |cache, task| {
            machine::kernel::locate(&cache.of_arch(arch), version, refresh, task)
        })
        .map(|found| (found.suite.to_string(), found.release))
    };
    if !args.sysctl.is_empty() {
        let kernel = args.kernel.as_deref();
        let kernel = kernel
            .map(|word| read_kernel(word, arch, &locate))
            .transpose()?;
        return compare_sysctls(&args.sysctl, kernel.as_ref());
    }
    if !args.cmdline.is_empty() {
        let word = args.kernel.as_deref().unwrap_or_default();
        return compare_cmdlines(&args.cmdline, &read_kernel(word, arch, &locate)?);
    }
    if let Some(kernel) = &args.kernel {
        bail!(
            "--kernel without what is compared on it: {kernel} (add --sysctl NAME=VALUE,VALUE or --cmdline '' TEXT)"
        );
    }
    let kernels = args.kernels.iter();
    let kernels = kernels.map(|word| read_kernel(word, arch, &locate));
    compare_kernels(kernels.collect::<Result<_>>()?, args.run.a_a)
}

fn compare_kernels(mut kernels: Vec<Kernel>, a_a: bool) -> Result<Contrast> {
    if kernels.is_empty() {
        bail!(
            "nothing to compare (name two kernels: bakeoff compare 6.1 7.2; or values of a sysctl of this host: --sysctl \
             net.core.somaxconn=128,4096)"
        );
    }
    let mut seen = BTreeSet::new();
    let twin = kernels.iter().find(|kernel| !seen.insert(&kernel.text));
    match twin {
        Some(twin) if !a_a => bail!(
            "two equal kernels: {} (name another; to see what this machine can show, add --a-a)",
            twin.text
        ),
        Some(_) => {
            let mut seen = BTreeSet::new();
            kernels.retain(|kernel| seen.insert(kernel.text.clone()));
        }
        None => {}
    }
    if kernels.len() == 1 && !a_a {
        bail!(
            "one kernel only: {} (name a second one; to see what this machine can show, add --a-a)",
            kernels[0].text
        );
    }
    let mut seen = BTreeSet::new();
    let mut user_named = kernels.iter().filter(|kernel| kernel.is_named);
    if let Some(twin) = user_named.find(|kernel| !seen.insert(&kernel.name)) {
        bail!(
            "two kernels of one name: {} (give {} another: NAME={})",
            twin.name,
            twin.text,
            twin.text
        );
    }
    make_names_unique(&mut kernels);
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.name.clone()).collect();
    if kernels.len() == 1 {
        // `run --a-a` replaces all other arms by copies of the baseline.
        kernels.push(Kernel {
            name: format!("{}-again", names[0]),
            note: None,
            ..kernels[0].clone()
        });
    }
    let arm = |kernel: &Kernel| ArmText {
        name: kernel.name.clone(),
        lines: kernel.lines(),
    };
    Ok(Contrast {
        arms: kernels.iter().map(arm).collect(),
        question: against(&names),
        label: label(&names),
        notes: kernels
            .iter()
            .filter_map(|kernel| kernel.note.clone())
            .collect(),
    })
}

/// `7.2 against 6.1`.
fn against(names: &[String]) -> String {
    match names {
        [only] => format!("{only} against itself"),
        [baseline, others @ ..] => format!("{} against {baseline}", others.join(", ")),
        [] => String::new(),
    }
}

/// The names of arms, joined for a file name.
fn label(names: &[String]) -> String {
    let mut label = names.join("-");
    label.truncate(80);
    label
}

/// Prefixes names that occur more than once with the kernel's origin, and then numbers those that still do.
fn make_names_unique(kernels: &mut [Kernel]) {
    for rename in [
        |kernel: &Kernel, _: usize| arm_name(&format!("{}-{}", kernel.origin, kernel.name)),
        |kernel: &Kernel, number: usize| arm_name(&format!("{}-{number}", kernel.name)),
    ] {
        let names: Vec<String> = kernels.iter().map(|kernel| kernel.name.clone()).collect();
        for (index, kernel) in kernels.iter_mut().enumerate() {
            if names.iter().filter(|name| **name == kernel.name).count() > 1 {
                kernel.name = rename(kernel, index + 1);
            }
        }
    }
}

/// Why the kernel of this host cannot be an arm.
const RUNNING: &str = "kernel \"running\" cannot be booted in a guest (name another; on this host compare values of a sysctl, \
    --sysctl NAME=VALUE,VALUE)";

/// Looks up the suite and release of a version.
type Locate<'l> = &'l dyn Fn(&str) -> Result<(String, String)>;

fn read_kernel(word: &str, arch: Arch, locate: Locate<'_>) -> Result<Kernel> {
    let (name, rest) = match word.split_once('=') {
        Some((name, rest)) if !name.is_empty() && name.chars().all(is_allowed) => {
            (Some(name), rest)
        }
        _ => (None, word),
    };
    let mut kernel = read_unnamed(rest, arch, locate)?;
    if let Some(name) = name {
        kernel.name = name.into();
        kernel.is_named = true;
        kernel.note = kernel.note.map(|note| note.replacen(rest, word, 1));
    }
    kernel.name.truncate(40);
    Ok(kernel)
}

fn read_unnamed(word: &str, arch: Arch, locate: Locate<'_>) -> Result<Kernel> {
    let kernel = kernel::read(word, None);
    let kernel = kernel.map_err(|why| anyhow::anyhow!("{why} ({FORMS})"))?;
    let to_absolute = |path: &Path| absolute(path).with_context(|| format!("no path: {word:?}"));
    let mut note = None;
    let (name, origin, kernel) = match kernel {
        KernelRef::Version(version) => {
            let (suite, release) = locate(&version)?;
            let kernel = KernelRef::Debian {
                suite: suite.clone(),
                version: version.clone(),
            };
            note = Some(format!("{word}: {kernel} ({release})"));
            (version, suite, kernel)
        }
        KernelRef::Debian {
            ref version,
            ref suite,
        } => (version.clone(), suite.clone(), kernel),
        KernelRef::Packages(files) => {
            let files = files.iter().map(|file| to_absolute(file));
            let files: Vec<PathBuf> = files.collect::<Result<_>>()?;
            let first = files.first().map_or(Path::new(""), PathBuf::as_path);
            (
                file_stem(first),
                parent_name(first),
                KernelRef::Packages(files),
            )
        }
        KernelRef::Path { path, .. } => {
            // Paths in a plan are relative to the plan's directory.
            let path = to_absolute(&path)?;
            let modules = if path.is_dir() {
                None
            } else {
                given::modules_beside(&path)
            };
            let dir = modules.as_ref();
            note = dir.map(|dir| format!("{word}: takes the modules in {} along", dir.display()));
            (
                file_name(&path),
                parent_name(&path),
                KernelRef::Path { path, modules },
            )
        }
        KernelRef::Running | KernelRef::Remote(_) => bail!("{RUNNING}"),
    };
    machine::kernel::check(&kernel, arch).with_context(|| format!("kernel {word}"))?;
    let text = kernel.to_string();
    let modules = match kernel {
        KernelRef::Path { modules, .. } => modules,
        KernelRef::Version(_)
        | KernelRef::Debian { .. }
        | KernelRef::Packages(_)
        | KernelRef::Running
        | KernelRef::Remote(_) => None,
    };
    Ok(Kernel {
        name: arm_name(&name),
        origin,
        text,
        modules,
        is_named: false,
        note,
    })
}

fn file_stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn parent_name(path: &Path) -> String {
    path.parent().map(file_name).unwrap_or_default()
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._+-".contains(c)
}

/// A text as the name of an arm: up to 40 characters that plans allow.
pub(super) fn arm_name(text: &str) -> String {
    let mut name = replace_special(text).trim_matches('-').to_string();
    name.truncate(40);
    if name.is_empty() { "none".into() } else { name }
}

/// One sysctl and its values.
struct Sysctl {
    name: String,
    values: Vec<String>,
}

fn compare_sysctls(typed: &[String], kernel: Option<&Kernel>) -> Result<Contrast> {
    let sysctls: Vec<Sysctl> = typed
        .iter()
        .map(|word| read_sysctl(word))
        .collect::<Result<_>>()?;
    let count = sysctls[0].values.len();
    if let Some(other) = sysctls.iter().find(|sysctl| sysctl.values.len() != count) {
        bail!(
            "sysctls with different numbers of values: {} has {count}, {} has {} (each arm takes one value of each)",
            sysctls[0].name,
            other.name,
            other.values.len()
        );
    }
    if kernel.is_none() {
        for sysctl in &sysctls {
            check_sysctl_exists(&sysctl.name)?;
        }
    }
    let mut arms = Vec::new();
    for index in 0..count {
        let words = sysctls
            .iter()
            .map(|sysctl| format!("{}-{}", short_name(&sysctl.name), sysctl.values[index]));
        let words: Vec<String> = words.collect();
        let values = sysctls
            .iter()
            .map(|sysctl| (sysctl.name.clone(), sysctl.values[index].clone().into()));
        let sysctl = Line::new("sysctl", values.collect::<toml::Table>(), "");
        let kernel = kernel.map(Kernel::lines).unwrap_or_default();
        arms.push(ArmText {
            name: arm_name(&words.join("-")),
            lines: kernel.into_iter().chain([sysctl]).collect(),
        });
    }
    check_names_differ(&arms)?;
    let questions = sysctls
        .iter()
        .map(|sysctl| format!("{} {}", sysctl.name, against(&sysctl.values)));
    let mut names: Vec<String> = kernel.iter().map(|kernel| kernel.name.clone()).collect();
    names.extend(
        sysctls
            .iter()
            .map(|sysctl| format!("{}-{}", short_name(&sysctl.name), sysctl.values.join("-"))),
    );
    Ok(Contrast {
        arms,
        question: questions.collect::<Vec<_>>().join(", "),
        label: label(&[replace_special(&names.join("-"))]),
        notes: kernel
            .and_then(|kernel| kernel.note.clone())
            .into_iter()
            .collect(),
    })
}

fn replace_special(text: &str) -> String {
    text.chars()
        .map(|c| if is_allowed(c) { c } else { '-' })
        .collect()
}

/// `somaxconn` of `net.core.somaxconn`.
fn short_name(name: &str) -> &str {
    name.rsplit(['.', '/']).next().unwrap_or(name)
}

fn read_sysctl(word: &str) -> Result<Sysctl> {
    const EXAMPLE: &str = "write --sysctl net.core.somaxconn=128,4096";
    let Some((name, values)) = word.split_once('=') else {
        bail!("sysctl without values: {word} ({EXAMPLE})");
    };
    if name.trim().is_empty() {
        bail!("sysctl without a name: {word} ({EXAMPLE})");
    }
    let values: Vec<String> = values
        .split(',')
        .map(|value| value.trim().to_string())
        .collect();
    if values.iter().any(String::is_empty) {
        bail!("sysctl with an empty value: {word} ({EXAMPLE})");
    }
    if let [value] = values.as_slice() {
        bail!(
            "sysctl with one value only: {name} = {value} (name another to compare it with: --sysctl {name}={value},OTHER)"
        );
    }
    Ok(Sysctl {
        name: name.trim().into(),
        values,
    })
}

/// Refuses a sysctl that this host does not have, and proposes a similar one.
fn check_sysctl_exists(name: &str) -> Result<()> {
    let path = sysctl_path(name);
    if path.is_file() {
        return Ok(());
    }
    let entries = path.parent().and_then(|dir| fs::read_dir(dir).ok());
    let neighbours: Vec<String> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(sysctl_name(&entry.ok()?.path())))
        .collect();
    let neighbours: Vec<&str> = neighbours.iter().map(String::as_str).collect();
    let remedy = remedy_among(name, &neighbours);
    let remedy = if remedy.starts_with("did you mean") {
        remedy
    } else {
        "sysctl -a lists them; or load its module".into()
    };
    bail!("this host has no such sysctl: {name} ({remedy})")
}

fn compare_cmdlines(typed: &[String], kernel: &Kernel) -> Result<Contrast> {
    if let [only] = typed {
        bail!(
            "one command line only: {only:?} (name another to compare it with: --cmdline '' {only:?})"
        );
    }
    let arm = |text: &String| ArmText {
        name: if text.trim().is_empty() {
            "default".into()
        } else {
            arm_name(text)
        },
        lines: [
            kernel.lines(),
            vec![Line::new(
                "cmdline",
                text.trim(),
                "added to the kernel's command line",
            )],
        ]
        .concat(),
    };
    let arms: Vec<ArmText> = typed.iter().map(arm).collect();
    check_names_differ(&arms)?;
    let names: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
    let label_names = [slice::from_ref(&kernel.name), &names].concat();
    Ok(Contrast {
        arms,
        question: format!("{} on {}", against(&names), kernel.name),
        label: label(&label_names),
        notes: kernel.note.clone().into_iter().collect(),
    })
}

fn check_names_differ(arms: &[ArmText]) -> Result<()> {
    let mut seen = BTreeSet::new();
    match arms.iter().find(|arm| !seen.insert(&arm.name)) {
        Some(twin) => bail!("two equal arms: {} (name another value)", twin.name),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "the real one may fail")]
    fn locate(version: &str) -> Result<(String, String)> {
        let suite = if version.starts_with('7') {
            "trixie-backports"
        } else {
            "bookworm"
        };
        Ok((suite.into(), format!("{version}.9-cloud-amd64")))
    }

    fn text(arms: Result<Contrast>) -> String {
        let arms = match arms {
            Ok(arms) => arms,
            Err(why) => return format!("{why:#}"),
        };
        let lines = arms
            .arms
            .iter()
            .map(|arm| format!("{}: {:?}\n", arm.name, arm.lines));
        format!(
            "{} | {} | {:?}\n{}",
            arms.question,
            arms.label,
            arms.notes,
            lines.collect::<String>()
        )
    }

    fn check(words: &[&str], a_a: bool, want: &Expect) {
        let kernels = words
            .iter()
            .map(|word| read_kernel(word, Arch::X86_64, &locate));
        let arms = kernels.collect::<Result<Vec<_>>>();
        want.assert_eq(&text(
            arms.and_then(|kernels| compare_kernels(kernels, a_a)),
        ));
    }

    #[test]
    fn a_version_is_looked_up_and_the_suite_is_reported() {
        check(
            &["6.1", "new=7.2"],
            false,
            &expect![[r#"
            new against 6.1 | 6.1-new | ["6.1: debian:bookworm/6.1 (6.1.9-cloud-amd64)", "new=7.2: debian:trixie-backports/7.2 (7.2.9-cloud-amd64)"]
            6.1: [Line { key: "kernel", value: "\"debian:bookworm/6.1\"", note: "", given: Written }]
            new: [Line { key: "kernel", value: "\"debian:trixie-backports/7.2\"", note: "", given: Written }]
        "#]],
        );
    }

    #[test]
    fn kernels_of_one_name_get_different_names() {
        check(
            &[
                "debian:trixie/6.12",
                "debian:bookworm-backports/6.12",
                "debian:sid/6.1*",
            ],
            false,
            &expect![[r#"
                bookworm-backports-6.12, 6.1 against trixie-6.12 | trixie-6.12-bookworm-backports-6.12-6.1 | []
                trixie-6.12: [Line { key: "kernel", value: "\"debian:trixie/6.12\"", note: "", given: Written }]
                bookworm-backports-6.12: [Line { key: "kernel", value: "\"debian:bookworm-backports/6.12\"", note: "", given: Written }]
                6.1: [Line { key: "kernel", value: "\"debian:sid/6.1*\"", note: "", given: Written }]
            "#]],
        );
    }

    #[test]
    fn one_kernel_or_two_equal_ones_are_refused_except_for_an_a_a_run() {
        check(
            &["6.1"],
            false,
            &expect![
                "one kernel only: debian:bookworm/6.1 (name a second one; to see what this machine can show, add --a-a)"
            ],
        );
        check(
            &["6.1", "debian:bookworm/6.1"],
            false,
            &expect![
                "two equal kernels: debian:bookworm/6.1 (name another; to see what this machine can show, add --a-a)"
            ],
        );
        check(
            &["a=6.1", "a=7.2"],
            false,
            &expect![
                "two kernels of one name: a (give debian:trixie-backports/7.2 another: NAME=debian:trixie-backports/7.2)"
            ],
        );
        check(
            &["6.1", "6.1"],
            true,
            &expect![[r#"
            6.1 against itself | 6.1 | ["6.1: debian:bookworm/6.1 (6.1.9-cloud-amd64)"]
            6.1: [Line { key: "kernel", value: "\"debian:bookworm/6.1\"", note: "", given: Written }]
            6.1-again: [Line { key: "kernel", value: "\"debian:bookworm/6.1\"", note: "", given: Written }]
        "#]],
        );
        check(
            &[],
            false,
            &expect![
                "nothing to compare (name two kernels: bakeoff compare 6.1 7.2; or values of a sysctl of this host: --sysctl net.core.somaxconn=128,4096)"
            ],
        );
    }

    #[test]
    fn a_word_that_is_not_a_kernel_is_named() {
        check(
            &["running"],
            false,
            &expect![[
                r#"kernel "running" cannot be booted in a guest (name another; on this host compare values of a sysctl, --sysctl NAME=VALUE,VALUE)"#
            ]],
        );
        check(
            &["bzImage"],
            false,
            &expect![[
                r#"neither a version nor a path: "bzImage" (write 6.1, debian:SUITE/VERSION, ./bzImage, the directory of a built tree, or ./FILE.deb)"#
            ]],
        );
        check(
            &["debian:bookwurm/6.1"],
            false,
            &expect![[
                r#"kernel debian:bookwurm/6.1: unknown Debian suite: "bookwurm" (did you mean "bookworm"?)"#
            ]],
        );
        check(
            &["/etc/passwd"],
            false,
            &expect![
                "kernel /etc/passwd: not a bootable x86_64 kernel: /etc/passwd (name a bzImage or vmlinuz)"
            ],
        );
        check(
            &["/etc"],
            false,
            &expect![
                "kernel /etc: no built kernel: /etc/arch/x86/boot/bzImage (run make bzImage modules in it)"
            ],
        );
    }

    #[test]
    fn each_arm_takes_a_value_of_each_sysctl() {
        let check = |words: &[&str], want: &Expect| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            want.assert_eq(&text(compare_sysctls(&words, None)));
        };
        check(
            &["net.core.somaxconn=128,4096", "vm.swappiness=1,60"],
            &expect![[r#"
                net.core.somaxconn 4096 against 128, vm.swappiness 60 against 1 | somaxconn-128-4096-swappiness-1-60 | []
                somaxconn-128-swappiness-1: [Line { key: "sysctl", value: "{ \"net.core.somaxconn\" = \"128\", \"vm.swappiness\" = \"1\" }", note: "", given: Written }]
                somaxconn-4096-swappiness-60: [Line { key: "sysctl", value: "{ \"net.core.somaxconn\" = \"4096\", \"vm.swappiness\" = \"60\" }", note: "", given: Written }]
            "#]],
        );
        check(
            &["net.core.somaxconn=128,4096", "vm.swappiness=1,60,7"],
            &expect![
                "sysctls with different numbers of values: net.core.somaxconn has 2, vm.swappiness has 3 (each arm takes one value of each)"
            ],
        );
        check(
            &["vm.swappiness=1"],
            &expect![
                "sysctl with one value only: vm.swappiness = 1 (name another to compare it with: --sysctl vm.swappiness=1,OTHER)"
            ],
        );
        check(
            &["vm.swappiness"],
            &expect![
                "sysctl without values: vm.swappiness (write --sysctl net.core.somaxconn=128,4096)"
            ],
        );
        check(
            &["=1,2"],
            &expect!["sysctl without a name: =1,2 (write --sysctl net.core.somaxconn=128,4096)"],
        );
        check(
            &["vm.swappiness=1,,2"],
            &expect![
                "sysctl with an empty value: vm.swappiness=1,,2 (write --sysctl net.core.somaxconn=128,4096)"
            ],
        );
        check(
            &["vm.swappiness=1,1"],
            &expect!["two equal arms: swappiness-1 (name another value)"],
        );
        check(
            &["vm.swapiness=1,2"],
            &expect![[
                r#"this host has no such sysctl: vm.swapiness (did you mean "vm.swappiness"?)"#
            ]],
        );
    }

    #[test]
    fn command_lines_are_arms_of_one_kernel() {
        let kernel = read_kernel("6.1", Arch::X86_64, &locate).unwrap();
        let check = |words: &[&str], want: &Expect| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            want.assert_eq(&text(compare_cmdlines(&words, &kernel)));
        };
        check(
            &["", "mitigations=off"],
            &expect![[r#"
            mitigations-off against default on 6.1 | 6.1-default-mitigations-off | ["6.1: debian:bookworm/6.1 (6.1.9-cloud-amd64)"]
            default: [Line { key: "kernel", value: "\"debian:bookworm/6.1\"", note: "", given: Written }, Line { key: "cmdline", value: "\"\"", note: "added to the kernel's command line", given: Written }]
            mitigations-off: [Line { key: "kernel", value: "\"debian:bookworm/6.1\"", note: "", given: Written }, Line { key: "cmdline", value: "\"mitigations=off\"", note: "added to the kernel's command line", given: Written }]
        "#]],
        );
        check(
            &["mitigations=off"],
            &expect![[
                r#"one command line only: "mitigations=off" (name another to compare it with: --cmdline '' "mitigations=off")"#
            ]],
        );
        check(
            &["", " "],
            &expect!["two equal arms: default (name another value)"],
        );
    }
}
