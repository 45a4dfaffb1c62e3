//! Settings in effect: the boot log takes precedence over the command line, and that over the kernel's configuration.

use std::collections::BTreeMap;

use plan::MachineKind;
use record::evidence::Facts;
use record::fact;
use record::rundir::Run;
use record::verdict::Difference;
use record::verdict::weighed::{Effective, EffectiveSetting, Pin, Seen};

use super::pins::{self, Parameter};
use crate::topics::differences::find::AUTOGROUP;

/// How a setting is read and pinned.
struct Row {
    setting: EffectiveSetting,
    /// Its value, in the kernel's word; `None` if the facts do not show it.
    read: fn(&Kernel<'_>) -> Option<String>,
    /// The kernel parameter that pins it, if there is one.
    parameter: Option<Parameter>,
}

/// A kernel, seen through the facts of a trial.
struct Kernel<'f>(&'f Facts);

/// All settings, from Documentation/admin-guide/kernel-parameters.txt of Linux 6.1 and 7.2.
const ROWS: [Row; 16] = [
    row(
        EffectiveSetting::Hz,
        |kernel| kernel.option("HZ").map(String::from),
        None,
    ),
    row(
        EffectiveSetting::Preemption,
        preemption,
        Some(Parameter::Preempt),
    ),
    // Debian's kernels have it off in 6.1 and on in 7.2. It has no parameter, because its sysctl is pinned.
    row(EffectiveSetting::Autogroup, autogroup, None),
    row(
        EffectiveSetting::InitOnAlloc,
        |kernel| kernel.zeroing("heap alloc:", "init_on_alloc", "INIT_ON_ALLOC_DEFAULT_ON"),
        Some(Parameter::Digit("init_on_alloc")),
    ),
    row(
        EffectiveSetting::Mitigations,
        mitigations,
        Some(Parameter::Mitigations),
    ),
    row(
        EffectiveSetting::HugePages,
        huge_pages,
        Some(Parameter::Word("transparent_hugepage")),
    ),
    row(EffectiveSetting::Lto, lto, None),
    row(EffectiveSetting::Compiler, compiler, None),
    row(
        EffectiveSetting::InitOnFree,
        |kernel| kernel.zeroing("heap free:", "init_on_free", "INIT_ON_FREE_DEFAULT_ON"),
        Some(Parameter::Digit("init_on_free")),
    ),
    row(
        EffectiveSetting::HardenedUsercopy,
        usercopy,
        Some(Parameter::Word("hardened_usercopy")),
    ),
    row(
        EffectiveSetting::StackOffset,
        |kernel| kernel.switch("randomize_kstack_offset", "RANDOMIZE_KSTACK_OFFSET_DEFAULT"),
        Some(Parameter::Word("randomize_kstack_offset")),
    ),
    row(EffectiveSetting::Psi, psi, Some(Parameter::Digit("psi"))),
    row(
        EffectiveSetting::DynamicTick,
        |kernel| kernel.switch("nohz", "NO_HZ_COMMON"),
        Some(Parameter::Word("nohz")),
    ),
    row(EffectiveSetting::LruGen, lru_gen, None),
    row(
        EffectiveSetting::SecurityModules,
        |kernel| Some(kernel.0.values.get(fact::SECURITY_MODULES)?.clone()),
        Some(Parameter::SecurityModules),
    ),
    row(EffectiveSetting::Debugging, debugging, None),
];

const fn row(
    setting: EffectiveSetting,
    read: fn(&Kernel<'_>) -> Option<String>,
    parameter: Option<Parameter>,
) -> Row {
    Row {
        setting,
        read,
        parameter,
    }
}

/// Facts of each arm's trials, with the trial's number.
type Arms<'f> = BTreeMap<&'f str, Vec<(u32, &'f Facts)>>;

/// Settings in effect: those that are always reported, those that differ, and those that can be pinned.
pub(crate) fn of(run: &Run, arms: &Arms<'_>, differences: &[Difference]) -> Vec<Effective> {
    let mut settings = Vec::new();
    for row in &ROWS {
        let mut effective = Effective {
            setting: row.setting,
            values: BTreeMap::new(),
            varying: BTreeMap::new(),
            pin: None,
        };
        for arm in &run.plan.arms {
            let seen = seen(row, arms.get(arm.name.as_str()));
            let most_frequent = seen.first().and_then(|seen| seen.value.clone());
            effective.values.insert(arm.name.clone(), most_frequent);
            if seen.len() > 1 {
                effective.varying.insert(arm.name.clone(), seen);
            }
        }
        effective.pin = pin(row, &effective, run, arms, differences);
        let is_reported = row.setting.is_always_told() || effective.differs();
        let is_known = effective.values.values().any(Option::is_some);
        if is_known && is_reported || effective.pin.is_some() {
            settings.push(effective);
        }
    }
    settings
}

/// A setting's values in the trials where it is known.
fn seen(row: &Row, trials: Option<&Vec<(u32, &Facts)>>) -> Vec<Seen> {
    let values = trials.into_iter().flatten().filter_map(|(trial, facts)| {
        let value = (row.read)(&Kernel(facts))?;
        Some((*trial, Some(value)))
    });
    Seen::of(values)
}

/// The word on the command line that gives all arms one value. `None` if the setting is equal, cannot be pinned, or some arm's command
/// line sets it already.
fn pin(
    row: &Row,
    effective: &Effective,
    run: &Run,
    arms: &Arms<'_>,
    differences: &[Difference],
) -> Option<Pin> {
    let parameter = row.parameter?;
    let has_command_line = matches!(run.plan.machine.kind, MachineKind::Qemu | MachineKind::Ssh);
    let mut kernels = arms.values().flatten().map(|(_, facts)| Kernel(facts));
    let is_set = |kernel: Kernel<'_>| kernel.parameter(parameter.name()).is_some();
    if !has_command_line || kernels.clone().any(is_set) {
        return None;
    }
    // The baseline is the plan's first arm.
    let values = run
        .plan
        .arms
        .iter()
        .map(|arm| effective.values.get(&arm.name)?.as_deref());
    let values: Option<Vec<&str>> = values.collect();
    let mitigations_differ =
        row.setting == EffectiveSetting::Mitigations && pins::mitigations_differ(differences);
    if !effective.differs() && !mitigations_differ {
        return None;
    }
    if parameter == Parameter::Preempt && !kernels.all(|kernel| kernel.is_on("PREEMPT_DYNAMIC")) {
        return None;
    }
    let word = parameter.word(&values?, mitigations_differ)?;
    Some(Pin::Cmdline { word })
}

impl<'f> Kernel<'f> {
    /// The value of a configuration option, whose name has no `CONFIG_` here.
    fn option(&self, name: &str) -> Option<&'f str> {
        let value = self.0.kernel_config.get(&format!("CONFIG_{name}"))?;
        Some(value.as_str())
    }

    fn is_on(&self, name: &str) -> bool {
        self.option(name) == Some("y")
    }

    /// The value of a parameter on the command line. If it is repeated, the kernel uses the last one.
    fn parameter(&self, name: &str) -> Option<&'f str> {
        let words = self.0.values.get(fact::CMDLINE)?.split_whitespace();
        let mut pairs = words.rev().filter_map(|word| word.split_once('='));
        let (_, value) = pairs.find(|(key, _)| key.replace('-', "_") == name)?;
        Some(value)
    }

    /// Whether the command line is known, so that a parameter that is not on it was not given.
    fn has_command_line(&self) -> bool {
        self.0.values.contains_key(fact::CMDLINE)
    }

    /// The words between a text and the next comma, in the last line of the boot log that has the text.
    fn logged(&self, text: &str) -> Option<&'f str> {
        let mut lines = self.0.boot_log.iter().rev();
        let rest = lines.find_map(|line| Some(line.split_once(text)?.1))?;
        rest.split(',').next().map(str::trim)
    }

    /// `on` or `off`, by the boot log, the parameter or the option that is its default.
    fn zeroing(&self, logged: &str, parameter: &str, option: &str) -> Option<String> {
        let line = self.logged(logged).map(String::from);
        line.or_else(|| self.switch(parameter, option))
    }

    /// `on` or `off`, by the parameter or the option that is its default.
    fn switch(&self, parameter: &str, option: &str) -> Option<String> {
        let is_on = match self.parameter(parameter) {
            Some("1" | "on" | "y" | "yes") => true,
            Some("0" | "off" | "n" | "no") => false,
            Some(_) | None if self.has_command_line() => self.option(option)? == "y",
            Some(_) | None => return None,
        };
        Some(on_or_off(is_on))
    }
}

/// Options that slow down each memory access, lock or allocation, by tens of percents or by factors.
const DEBUG_OPTIONS: [&str; 14] = [
    "DEBUG_ATOMIC_SLEEP",
    "DEBUG_KMEMLEAK",
    "DEBUG_LOCK_ALLOC",
    "DEBUG_OBJECTS",
    "DEBUG_PAGEALLOC_ENABLE_DEFAULT",
    "DEBUG_VM",
    "GCOV_KERNEL",
    "KASAN",
    "KCOV",
    "KCSAN",
    "KMSAN",
    "LOCK_STAT",
    "PROVE_LOCKING",
    "SLUB_DEBUG_ON",
];

/// Parameters that turn on similar checks.
const DEBUG_PARAMETERS: [&str; 4] = ["debug_pagealloc", "kmemleak", "page_poison", "slub_debug"];

fn debugging(kernel: &Kernel<'_>) -> Option<String> {
    if kernel.0.kernel_config.is_empty() || !kernel.has_command_line() {
        return None;
    }
    let options = DEBUG_OPTIONS.iter().filter(|name| kernel.is_on(name));
    let options = options.map(ToString::to_string);
    let parameters = DEBUG_PARAMETERS.iter().filter_map(|name| {
        let value = kernel.parameter(name)?;
        let is_off = matches!(value, "0" | "off" | "n" | "no" | "-");
        (!is_off).then(|| format!("{name}={value}"))
    });
    let all: Vec<String> = options.chain(parameters).collect();
    Some(if all.is_empty() {
        "none".into()
    } else {
        all.join(", ")
    })
}

fn on_or_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.into()
}

fn preemption(kernel: &Kernel<'_>) -> Option<String> {
    let is_dynamic = kernel.is_on("PREEMPT_DYNAMIC");
    let parameter = kernel.parameter("preempt").filter(|_| is_dynamic);
    let chosen = kernel.logged("Dynamic Preempt: ").or(parameter);
    if chosen.is_none() && is_dynamic && !kernel.has_command_line() {
        return None;
    }
    let models = [
        ("PREEMPT_RT", "rt"),
        ("PREEMPT_LAZY", "lazy"),
        ("PREEMPT", "full"),
        ("PREEMPT_VOLUNTARY", "voluntary"),
        ("PREEMPT_NONE", "none"),
    ];
    let built = models.into_iter().find(|(option, _)| kernel.is_on(option));
    chosen.or(built.map(|(_, word)| word)).map(String::from)
}

fn mitigations(kernel: &Kernel<'_>) -> Option<String> {
    if let Some(value) = kernel.parameter("mitigations") {
        return Some(value.into());
    }
    if !kernel.has_command_line() {
        return None;
    }
    let options = ["CPU_MITIGATIONS", "SPECULATION_MITIGATIONS"];
    if options
        .iter()
        .any(|option| kernel.option(option) == Some("n"))
    {
        return Some("off".into());
    }
    let mut facts = kernel.0.values.keys();
    let has_vulnerabilities = facts.any(|fact| fact.starts_with(pins::VULNERABILITIES));
    has_vulnerabilities.then(|| "auto".into())
}

fn huge_pages(kernel: &Kernel<'_>) -> Option<String> {
    let modes = kernel.0.values.get(fact::HUGE_PAGES);
    let chosen = modes.and_then(|modes| modes.split_once('[')?.1.split_once(']'));
    if let Some((chosen, _)) = chosen {
        return Some(chosen.into());
    }
    (kernel.option("TRANSPARENT_HUGEPAGE") == Some("n")).then(|| "absent".into())
}

fn lto(kernel: &Kernel<'_>) -> Option<String> {
    if kernel.is_on("LTO_CLANG_FULL") {
        return Some("full".into());
    }
    if kernel.is_on("LTO_CLANG_THIN") {
        return Some("thin".into());
    }
    // Kernels before 5.12 have no option for it.
    kernel.option("HZ").map(|_| "none".into())
}

/// `gcc 12.2` for `CONFIG_GCC_VERSION=120200`.
fn compiler(kernel: &Kernel<'_>) -> Option<String> {
    let version = |option: &str| {
        let version: u32 = kernel.option(option)?.parse().ok()?;
        (version > 0).then(|| format!("{}.{}", version / 10_000, version / 100 % 100))
    };
    let gcc = || Some(format!("gcc {}", version("GCC_VERSION")?));
    let clang = version("CLANG_VERSION").map(|version| format!("clang {version}"));
    clang.or_else(gcc)
}

fn usercopy(kernel: &Kernel<'_>) -> Option<String> {
    if kernel.option("HARDENED_USERCOPY")? != "y" {
        return Some("absent".into());
    }
    if !kernel.has_command_line() {
        return None;
    }
    // Kernels before 6.18 have no option for the default, which is on.
    let switch = kernel.switch("hardened_usercopy", "HARDENED_USERCOPY_DEFAULT_ON");
    Some(switch.unwrap_or_else(|| "on".into()))
}

fn psi(kernel: &Kernel<'_>) -> Option<String> {
    if kernel.option("PSI")? != "y" {
        return Some("absent".into());
    }
    if let Some(value) = kernel.parameter("psi") {
        return Some(on_or_off(matches!(value, "1" | "y" | "on")));
    }
    if !kernel.has_command_line() {
        return None;
    }
    Some(on_or_off(!kernel.is_on("PSI_DEFAULT_DISABLED")))
}

/// `off` for a kernel that was built without it, and so lacks the sysctl.
fn autogroup(kernel: &Kernel<'_>) -> Option<String> {
    let sysctls = &kernel.0.sysctls;
    let value = sysctls.get(AUTOGROUP);
    let is_on = value.is_some_and(|value| value.trim() != "0");
    (!sysctls.is_empty()).then(|| on_or_off(is_on))
}

fn lru_gen(kernel: &Kernel<'_>) -> Option<String> {
    let bits = kernel.0.values.get("/sys/kernel/mm/lru_gen/enabled")?;
    Some(on_or_off(
        bits.trim_start_matches("0x").contains(|c| c != '0'),
    ))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use plan::kernel::KernelRef;

    use super::*;
    use record::fixtures::builder::RunBuilder;

    /// Facts from lines such as `CONFIG_HZ=250`, `log: ...`, `/proc/cmdline=...` and `sysctl vm.swappiness=60`.
    fn facts(lines: &[&str]) -> Facts {
        let mut facts = Facts::default();
        facts.values.insert("/proc/cmdline".into(), String::new());
        for line in lines {
            if let Some(logged) = line.strip_prefix("log: ") {
                facts.boot_log.push(logged.into());
            } else {
                let (name, value) = line.split_once('=').expect("a name and a value");
                let (name, all) = match name.strip_prefix("sysctl ") {
                    Some(name) => (name, &mut facts.sysctls),
                    None if name.starts_with("CONFIG_") => (name, &mut facts.kernel_config),
                    None => (name, &mut facts.values),
                };
                all.insert(name.into(), value.into());
            }
        }
        facts
    }

    fn check(old: &[&str], new: &[&str], want: &Expect) {
        let other = |run: &mut Run| run.plan.arms[1].kernel = KernelRef::path("new");
        let run = RunBuilder::new()
            .with(other)
            .observed_pair(1, [facts(old), facts(new)]);
        let judgement = crate::judge(&run.run());
        let line = |effective: &Effective| {
            let values = effective.values.values();
            let values: Vec<&str> = values
                .map(|value| value.as_deref().unwrap_or("?"))
                .collect();
            let pin = match &effective.pin {
                Some(Pin::Cmdline { word }) => format!("; pin {word}"),
                Some(Pin::Sysctl { name, .. }) => format!("; pin {name}"),
                None => String::new(),
            };
            format!("{:?}: {}{pin}", effective.setting, values.join(" -> "))
        };
        let lines: Vec<String> = judgement.weighed.settings.iter().map(line).collect();
        want.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn the_boot_log_takes_precedence_over_the_configuration() {
        let auto_init = "log: mem auto-init: stack:all(zero), heap alloc:on, heap free:off";
        check(
            &[
                "CONFIG_HZ=250",
                "CONFIG_PREEMPT_VOLUNTARY=y",
                "CONFIG_PREEMPT_DYNAMIC=y",
                "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=n",
                "CONFIG_GCC_VERSION=120200",
                "CONFIG_CLANG_VERSION=0",
                "/sys/kernel/mm/transparent_hugepage/enabled=always [madvise] never",
                auto_init,
                "log: Dynamic Preempt: voluntary",
            ],
            &[
                "CONFIG_HZ=1000",
                "CONFIG_PREEMPT_LAZY=y",
                "CONFIG_PREEMPT_DYNAMIC=y",
                "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y",
                "CONFIG_CLANG_VERSION=190107",
                "CONFIG_LTO_CLANG_THIN=y",
                "/sys/kernel/mm/transparent_hugepage/enabled=[always] madvise never",
                auto_init,
                "log: Dynamic Preempt: lazy",
            ],
            &expect![[r#"
                Hz: 250 -> 1000
                Preemption: voluntary -> lazy; pin preempt=full
                InitOnAlloc: on -> on
                HugePages: madvise -> always; pin transparent_hugepage=madvise
                Lto: none -> thin
                Compiler: gcc 12.2 -> clang 19.1"#]],
        );
    }

    #[test]
    fn the_command_line_takes_precedence_over_the_default_and_prevents_a_pin() {
        check(
            &[
                "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y",
                "CONFIG_PSI=y",
                "CONFIG_PSI_DEFAULT_DISABLED=n",
                "/proc/cmdline=quiet init_on_alloc=1 init_on_alloc=0 mitigations=off",
            ],
            &[
                "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y",
                "CONFIG_PSI=y",
                "CONFIG_PSI_DEFAULT_DISABLED=y",
                "/proc/cmdline=quiet",
                "/sys/devices/system/cpu/vulnerabilities/meltdown=Not affected",
            ],
            &expect![[r#"
                InitOnAlloc: off -> on
                Mitigations: off -> auto
                Psi: on -> off; pin psi=1"#]],
        );
    }

    #[test]
    fn preemption_is_not_pinned_unless_all_kernels_have_a_choice() {
        check(
            &["CONFIG_PREEMPT_VOLUNTARY=y", "CONFIG_PREEMPT_DYNAMIC=n"],
            &["CONFIG_PREEMPT_LAZY=y", "CONFIG_PREEMPT_DYNAMIC=y"],
            &expect!["Preemption: voluntary -> lazy"],
        );
        check(
            &["CONFIG_PREEMPT_DYNAMIC=y", "/proc/cmdline=preempt=full"],
            &["CONFIG_PREEMPT_DYNAMIC=y", "/proc/cmdline=preempt=full"],
            &expect!["Preemption: full -> full"],
        );
    }

    #[test]
    fn mitigations_are_pinned_if_the_same_vulnerability_is_mitigated_differently() {
        let spectre = "/sys/devices/system/cpu/vulnerabilities/spectre_v2=Mitigation: ";
        let [plain, more] =
            ["Retpolines", "Retpolines; BHI: SW loop"].map(|state| format!("{spectre}{state}"));
        check(
            &[&plain],
            &[&more],
            &expect!["Mitigations: auto -> auto; pin mitigations=off"],
        );
        check(
            &[&plain],
            &[
                &plain,
                "/sys/devices/system/cpu/vulnerabilities/tsa=Not affected",
            ],
            &expect!["Mitigations: auto -> auto"],
        );
    }

    #[test]
    fn autogroup_is_reported_if_it_differs_and_is_off_in_a_kernel_without_it() {
        let [off, on] =
            ["0", "1"].map(|value| format!("sysctl kernel.sched_autogroup_enabled={value}"));
        check(&[&off], &[&on], &expect!["Autogroup: off -> on"]);
        check(
            &["sysctl vm.swappiness=60"],
            &[&on],
            &expect!["Autogroup: off -> on"],
        );
        check(&[&on], &[&on], &expect![""]);
        let no_sysctls = "/sys/kernel/security/lsm=yama";
        check(&[no_sysctls], &[no_sysctls], &expect![""]);
    }

    fn settings(trials: [(&str, Facts); 3]) -> Vec<Effective> {
        let mut builder = RunBuilder::new();
        for (arm, facts) in trials {
            builder = builder.observed(1, arm, facts);
        }
        crate::judge(&builder.run()).weighed.settings
    }

    #[test]
    fn a_setting_that_varies_among_an_arms_trials_is_found() {
        let hz = |hz: &str| facts(&[&format!("CONFIG_HZ={hz}")]);
        let settings = settings([("6.1", hz("250")), ("7.2", hz("250")), ("7.2", hz("1000"))]);
        let mut settings = settings.iter();
        let hz = settings
            .find(|each| each.setting == EffectiveSetting::Hz)
            .unwrap();
        assert!(hz.differs() && hz.varying["7.2"].len() == 2);
        assert_eq!(hz.varying["7.2"][1].trials, [3]);
        assert!(!hz.varying.contains_key("6.1"));
    }

    #[test]
    fn a_setting_is_unknown_if_an_arm_lacks_a_fact_on_which_it_depends() {
        let config = [
            "CONFIG_HZ=250",
            "CONFIG_PSI=y",
            "CONFIG_PREEMPT_DYNAMIC=y",
            "CONFIG_PREEMPT=y",
        ];
        let complete = || facts(&config);
        let mut incomplete = complete();
        incomplete.values.clear();
        let settings = settings([
            ("6.1", incomplete),
            ("7.2", complete()),
            ("7.2", complete()),
        ]);
        let find = |setting: EffectiveSetting| {
            let mut settings = settings.iter();
            settings.find(|each| each.setting == setting).unwrap()
        };
        let preemption = find(EffectiveSetting::Preemption);
        assert!(!preemption.is_known() && preemption.values["6.1"].is_none());
        assert!(find(EffectiveSetting::Hz).is_known() && preemption.pin.is_none());
    }
}
