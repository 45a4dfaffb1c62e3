//! Settings in effect: what a kernel did, wherever it was told to: its own log, the command line, its configuration.

use std::collections::BTreeMap;

use plan::MachineKind;
use record::evidence::Facts;
use record::fact;
use record::rundir::Run;
use record::verdict::Difference;
use record::verdict::weighed::{Effective, Pin, Seen, Setting};

use super::pins::{self, Parameter};
use crate::topics::differences::find::AUTOGROUP;

/// A setting that is known.
struct Known {
    setting: Setting,
    /// Its value in a kernel, in the kernel's own word; `None` where no fact tells it.
    read: fn(&Kernel<'_>) -> Option<String>,
    /// The parameter that pins it, where there is one.
    parameter: Option<Parameter>,
}

/// A kernel by the facts of a trial.
struct Kernel<'f>(&'f Facts);

/// Written from Documentation/admin-guide/kernel-parameters.txt of Linux 6.1 and 7.2.
const KNOWN: [Known; 16] = [
    known(
        Setting::Hz,
        |kernel| kernel.option("HZ").map(String::from),
        None,
    ),
    known(Setting::Preemption, preemption, Some(Parameter::Preempt)),
    // Debian's kernels have it off to 6.1 at least and on in 7.2. As a sysctl it is pinned where it differs.
    known(Setting::Autogroup, autogroup, None),
    known(
        Setting::InitOnAlloc,
        |kernel| kernel.zeroing("heap alloc:", "init_on_alloc", "INIT_ON_ALLOC_DEFAULT_ON"),
        Some(Parameter::Digit("init_on_alloc")),
    ),
    known(
        Setting::Mitigations,
        mitigations,
        Some(Parameter::Mitigations),
    ),
    known(
        Setting::HugePages,
        huge_pages,
        Some(Parameter::Word("transparent_hugepage")),
    ),
    known(Setting::Lto, lto, None),
    known(Setting::Compiler, compiler, None),
    known(
        Setting::InitOnFree,
        |kernel| kernel.zeroing("heap free:", "init_on_free", "INIT_ON_FREE_DEFAULT_ON"),
        Some(Parameter::Digit("init_on_free")),
    ),
    known(
        Setting::HardenedUsercopy,
        usercopy,
        Some(Parameter::Word("hardened_usercopy")),
    ),
    known(
        Setting::StackOffset,
        |kernel| kernel.switch("randomize_kstack_offset", "RANDOMIZE_KSTACK_OFFSET_DEFAULT"),
        Some(Parameter::Word("randomize_kstack_offset")),
    ),
    known(Setting::Psi, psi, Some(Parameter::Digit("psi"))),
    known(
        Setting::DynamicTick,
        |kernel| kernel.switch("nohz", "NO_HZ_COMMON"),
        Some(Parameter::Word("nohz")),
    ),
    known(Setting::LruGen, lru_gen, None),
    known(
        Setting::SecurityModules,
        |kernel| Some(kernel.0.values.get(fact::SECURITY_MODULES)?.clone()),
        Some(Parameter::SecurityModules),
    ),
    known(Setting::Debugging, debugging, None),
];

const fn known(
    setting: Setting,
    read: fn(&Kernel<'_>) -> Option<String>,
    parameter: Option<Parameter>,
) -> Known {
    Known {
        setting,
        read,
        parameter,
    }
}

/// Facts of each arm's trials, each with the trial's number.
type Arms<'f> = BTreeMap<&'f str, Vec<(u32, &'f Facts)>>;

/// Settings that are always told, and others that differ, as far as any arm's facts tell them.
pub(crate) fn of(run: &Run, arms: &Arms<'_>, differences: &[Difference]) -> Vec<Effective> {
    let each = KNOWN.iter().filter_map(|known| {
        let mut effective = Effective {
            setting: known.setting,
            values: BTreeMap::new(),
            varying: BTreeMap::new(),
            pin: None,
        };
        for arm in &run.plan.arms {
            let seen = seen(known, arms.get(arm.name.as_str()));
            let most = seen.first().and_then(|one| one.value.clone());
            effective.values.insert(arm.name.clone(), most);
            if seen.len() > 1 {
                effective.varying.insert(arm.name.clone(), seen);
            }
        }
        effective.pin = pin(known, &effective, run, arms, differences);
        let is_told = known.setting.is_always_told() || effective.differs();
        let is_known = effective.values.values().any(Option::is_some);
        (is_known && is_told || effective.pin.is_some()).then_some(effective)
    });
    each.collect()
}

/// A setting's values in the trials that tell it.
fn seen(known: &Known, trials: Option<&Vec<(u32, &Facts)>>) -> Vec<Seen> {
    let told = trials.into_iter().flatten().filter_map(|(trial, facts)| {
        let value = (known.read)(&Kernel(facts))?;
        Some((*trial, Some(value)))
    });
    Seen::of(told)
}

/// The word of the command line that gives all arms one value; none where the plan has arms differ in it, or where it is there
/// already and kernels differ all the same.
fn pin(
    known: &Known,
    effective: &Effective,
    run: &Run,
    arms: &Arms<'_>,
    differences: &[Difference],
) -> Option<Pin> {
    let parameter = known.parameter?;
    let has_command_line = matches!(run.plan.machine.kind, MachineKind::Qemu | MachineKind::Ssh);
    let is_set = |facts: &&Facts| Kernel(facts).parameter(parameter.name()).is_some();
    let mut all = arms.values().flatten().map(|(_, facts)| *facts);
    if !has_command_line || all.clone().any(|facts| is_set(&facts)) {
        return None;
    }
    // The baseline is the plan's first arm.
    let values = run
        .plan
        .arms
        .iter()
        .map(|arm| effective.values.get(&arm.name)?.as_deref());
    let values: Option<Vec<&str>> = values.collect();
    let is_texts = known.setting == Setting::Mitigations && pins::mitigations_differ(differences);
    if !effective.differs() && !is_texts {
        return None;
    }
    let can_choose = |facts: &&Facts| Kernel(facts).option("PREEMPT_DYNAMIC") == Some("y");
    if parameter == Parameter::Preempt && !all.all(|facts| can_choose(&facts)) {
        return None;
    }
    let word = parameter.word(&values?, is_texts)?;
    Some(Pin::Cmdline { word })
}

impl<'f> Kernel<'f> {
    /// The value of an option, without `CONFIG_`.
    fn option(&self, name: &str) -> Option<&'f str> {
        let value = self.0.kernel_config.get(&format!("CONFIG_{name}"))?;
        Some(value.as_str())
    }

    fn is_on(&self, name: &str) -> bool {
        self.option(name) == Some("y")
    }

    /// The last value of a parameter on the command line; a kernel takes that.
    fn parameter(&self, name: &str) -> Option<&'f str> {
        let words = self.0.values.get(fact::CMDLINE)?.split_whitespace();
        let mut pairs = words.rev().filter_map(|word| word.split_once('='));
        let last = pairs.find(|(own, _)| own.replace('-', "_") == name);
        last.map(|(_, value)| value)
    }

    /// Whether it tells its command line, so that a parameter that is not there was not given.
    fn tells_parameters(&self) -> bool {
        self.0.values.contains_key(fact::CMDLINE)
    }

    /// What follows a text in the last line of the boot log that has it, to the next comma.
    fn logged(&self, text: &str) -> Option<&'f str> {
        let mut lines = self.0.boot_log.iter().rev();
        let rest = lines.find_map(|line| Some(line.split_once(text)?.1))?;
        rest.split(',').next().map(str::trim)
    }

    /// Whether memory is zeroed: as the kernel says at boot, else as it is told, else as it is built.
    fn zeroing(&self, logged: &str, parameter: &str, option: &str) -> Option<String> {
        let line = self.logged(logged).map(String::from);
        line.or_else(|| self.switch(parameter, option))
    }

    /// `on` or `off`, by a parameter or an option that is its default.
    fn switch(&self, parameter: &str, option: &str) -> Option<String> {
        let told = match self.parameter(parameter) {
            Some("1" | "on" | "y" | "yes") => Some(true),
            Some("0" | "off" | "n" | "no") => Some(false),
            Some(_) | None => None,
        };
        let built = || Some(self.option(option)? == "y");
        if told.is_none() && !self.tells_parameters() {
            return None;
        }
        Some(on_or_off(told.or_else(built)?))
    }
}

/// Options that make each memory access, lock or allocation cost more, by tens of percents or by factors.
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

/// Parameters that turn the like on in a kernel that has it built in.
const DEBUG_PARAMETERS: [&str; 4] = ["debug_pagealloc", "kmemleak", "page_poison", "slub_debug"];

fn debugging(kernel: &Kernel<'_>) -> Option<String> {
    if kernel.0.kernel_config.is_empty() || !kernel.tells_parameters() {
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
    let dynamic = kernel.parameter("preempt");
    let dynamic = dynamic.filter(|_| kernel.is_on("PREEMPT_DYNAMIC"));
    let said = kernel.logged("Dynamic Preempt: ").or(dynamic);
    if said.is_none() && kernel.is_on("PREEMPT_DYNAMIC") && !kernel.tells_parameters() {
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
    said.or(built.map(|(_, word)| word)).map(String::from)
}

fn mitigations(kernel: &Kernel<'_>) -> Option<String> {
    if let Some(told) = kernel.parameter("mitigations") {
        return Some(told.into());
    }
    if !kernel.tells_parameters() {
        return None;
    }
    let options = ["CPU_MITIGATIONS", "SPECULATION_MITIGATIONS"];
    if options
        .iter()
        .any(|option| kernel.option(option) == Some("n"))
    {
        return Some("off".into());
    }
    let is_told = kernel
        .0
        .values
        .keys()
        .any(|fact| fact.starts_with(pins::VULNERABILITIES));
    is_told.then(|| "auto".into())
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
    // Before 5.12 there was none.
    kernel.option("HZ").map(|_| "none".into())
}

/// `gcc 12.2` of 120200.
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
    if !kernel.tells_parameters() {
        return None;
    }
    // What it is by default can be chosen since 6.18 only.
    let by_default = kernel.switch("hardened_usercopy", "HARDENED_USERCOPY_DEFAULT_ON");
    Some(by_default.unwrap_or_else(|| "on".into()))
}

fn psi(kernel: &Kernel<'_>) -> Option<String> {
    if kernel.option("PSI")? != "y" {
        return Some("absent".into());
    }
    if let Some(told) = kernel.parameter("psi") {
        return Some(on_or_off(matches!(told, "1" | "y" | "on")));
    }
    if !kernel.tells_parameters() {
        return None;
    }
    Some(on_or_off(!kernel.is_on("PSI_DEFAULT_DISABLED")))
}

/// A kernel that is built without it has no such sysctl.
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

    /// Facts of lines: `CONFIG_HZ=250`, `log: ...`, `/proc/cmdline=...`, `sysctl vm.swappiness=60`.
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
        let other = |run: &mut Run| run.plan.arms[1].kernel = KernelRef::Tree("new".into());
        let run = RunBuilder::new()
            .with(other)
            .observed_pair(1, [facts(old), facts(new)]);
        let judgement = crate::judge(&run.run());
        let line = |one: &Effective| {
            let values = one.values.values();
            let values: Vec<&str> = values
                .map(|value| value.as_deref().unwrap_or("?"))
                .collect();
            let pin = match &one.pin {
                Some(Pin::Cmdline { word }) => format!("; pin {word}"),
                Some(Pin::Sysctl { name, .. }) => format!("; pin {name}"),
                None => String::new(),
            };
            format!("{:?}: {}{pin}", one.setting, values.join(" -> "))
        };
        let lines: Vec<String> = judgement.weighed.settings.iter().map(line).collect();
        want.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn what_the_kernel_says_goes_before_what_it_is_built_with() {
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
    fn the_command_line_goes_before_the_default_and_what_the_plan_sets_is_not_pinned() {
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
    fn preemption_is_pinned_where_all_kernels_have_a_choice() {
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
    fn the_same_state_told_in_other_words_is_left_alone_and_other_mitigations_are_not() {
        let spectre = "/sys/devices/system/cpu/vulnerabilities/spectre_v2=Mitigation: ";
        let [plain, more] =
            ["Retpolines", "Retpolines; BHI: SW loop"].map(|said| format!("{spectre}{said}"));
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
    fn autogroup_is_told_where_it_differs_and_a_kernel_without_it_has_it_off() {
        let [off, on] =
            ["0", "1"].map(|value| format!("sysctl kernel.sched_autogroup_enabled={value}"));
        check(&[&off], &[&on], &expect!["Autogroup: off -> on"]);
        check(
            &["sysctl vm.swappiness=60"],
            &[&on],
            &expect!["Autogroup: off -> on"],
        );
        check(&[&on], &[&on], &expect![""]);
        let silent = "/sys/kernel/security/lsm=yama";
        check(&[silent], &[silent], &expect![""]);
    }

    fn settings_of(trials: [(&str, Facts); 3]) -> Vec<Effective> {
        let mut builder = RunBuilder::new();
        for (arm, facts) in trials {
            builder = builder.observed(1, arm, facts);
        }
        crate::judge(&builder.run()).weighed.settings
    }

    #[test]
    fn a_setting_that_varies_among_an_arms_trials_is_found() {
        let hz = |hz: &str| facts(&[&format!("CONFIG_HZ={hz}")]);
        let settings = settings_of([("6.1", hz("250")), ("7.2", hz("250")), ("7.2", hz("1000"))]);
        let found = settings
            .iter()
            .find(|one| one.setting == Setting::Hz)
            .unwrap();
        assert!(found.differs() && found.varying["7.2"].len() == 2);
        assert_eq!(found.varying["7.2"][1].trials, [3]);
        assert!(!found.varying.contains_key("6.1"));
    }

    #[test]
    fn a_setting_is_not_known_of_an_arm_that_does_not_tell_all_it_hangs_on() {
        let config = [
            "CONFIG_HZ=250",
            "CONFIG_PSI=y",
            "CONFIG_PREEMPT_DYNAMIC=y",
            "CONFIG_PREEMPT=y",
        ];
        let whole = || facts(&config);
        let mut silent = whole();
        silent.values.clear();
        let settings = settings_of([("6.1", silent), ("7.2", whole()), ("7.2", whole())]);
        let of = |setting: Setting| settings.iter().find(|one| one.setting == setting).unwrap();
        assert!(
            !of(Setting::Preemption).is_known() && of(Setting::Preemption).values["6.1"].is_none()
        );
        assert!(of(Setting::Hz).is_known() && of(Setting::Preemption).pin.is_none());
    }
}
