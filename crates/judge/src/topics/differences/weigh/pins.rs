//! Pins, which give all arms one value of a setting: a word on their command lines, or a sysctl.

use record::rundir::Run;
use record::verdict::Difference;
use record::verdict::weighed::Pin;

/// Directory where a kernel reports its mitigations.
pub(crate) const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities/";

/// A kernel parameter, and how the common value of all arms is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// The baseline's value, `on` or `off`, as 1 or 0.
    Digit(&'static str),
    /// The baseline's value, unchanged.
    Word(&'static str),
    /// `full`, which all kernels with a choice have: later ones lack `none` and `voluntary`, earlier ones `lazy`.
    Preempt,
    /// The baseline's value, or `off` if kernels mitigate in different ways.
    Mitigations,
    /// The modules that all arms have.
    SecurityModules,
}

impl Parameter {
    /// Its name, with underscores instead of hyphens.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Digit(name) | Self::Word(name) => name,
            Self::Preempt => "preempt",
            Self::Mitigations => "mitigations",
            Self::SecurityModules => "lsm",
        }
    }

    /// The word for all command lines, such as `psi=1`, from the arms' values, the baseline's first. `None` if some arm lacks the setting.
    pub(crate) fn word(self, values: &[&str], mitigations_differ: bool) -> Option<String> {
        let baseline = *values.first()?;
        let value = match self {
            _ if values.contains(&"absent") => return None,
            Self::Digit(_) => String::from(if baseline == "on" { "1" } else { "0" }),
            Self::Preempt => "full".into(),
            Self::Mitigations if mitigations_differ => "off".into(),
            Self::Word(_) | Self::Mitigations => baseline.into(),
            Self::SecurityModules => common(values)?,
        };
        Some(format!("{}={value}", self.name()))
    }
}

/// Security modules that `lsm=` cannot disable (`LSM_ORDER_FIRST` and `LSM_ORDER_LAST` of security/security.c). Measured with
/// `lsm=lockdown,landlock,yama,apparmor,tomoyo,bpf` on both command lines: the list of Debian's 7.2 ends in `bpf,ima,evm`. That of
/// 6.1 ends in `bpf`, because `ima` and `evm` are not security modules there.
const ALWAYS_ON: [&str; 4] = ["capability", "integrity", "ima", "evm"];

/// The modules that all lists have, in the order of the first list. `None` if lists differ in modules that are always on.
fn common(lists: &[&str]) -> Option<String> {
    let (first, others) = lists.split_first()?;
    let has = |list: &str, name: &str| list.split(',').any(|module| module == name);
    let always_on = |list: &&str| ALWAYS_ON.map(|name| has(list, name));
    if others
        .iter()
        .any(|other| always_on(other) != always_on(first))
    {
        return None;
    }
    let names = first.split(',').filter(|name| !ALWAYS_ON.contains(name));
    let names: Vec<&str> = names
        .filter(|name| others.iter().all(|other| has(other, name)))
        .collect();
    Some(names.join(","))
}

/// Whether all arms report on some vulnerability and their reports differ.
pub(crate) fn mitigations_differ(differences: &[Difference]) -> bool {
    differences.iter().any(|difference| {
        difference.fact.starts_with(VULNERABILITIES)
            && difference.values.values().all(Option::is_some)
    })
}

/// Prefixes of sysctls that cannot be set, or whose value the kernel sets itself.
const READ_ONLY: [&str; 5] = [
    "crypto.",
    "kernel.osrelease",
    "kernel.ostype",
    "kernel.version",
    "kernel.bootloader_",
];

/// The pin of a sysctl to the baseline's value. `None` if an arm lacks it, or the plan sets it already.
pub(crate) fn of_sysctl(run: &Run, difference: &Difference) -> Option<Pin> {
    let name = difference.fact.strip_prefix("sysctl ")?;
    let is_fixed =
        READ_ONLY.iter().any(|begin| name.starts_with(begin)) || name.contains("available");
    let path = plan::sysctl_path(name);
    let is_set = run
        .plan
        .arms
        .iter()
        .any(|arm| arm.sysctl.keys().any(|set| plan::sysctl_path(set) == path));
    // Some kernels show an empty value for a setting without effect, and refuse any other.
    let is_settable = |value: &Option<String>| {
        value
            .as_ref()
            .is_some_and(|value| !value.is_empty() && !value.contains('\n'))
    };
    if is_fixed || is_set || !difference.values.values().all(is_settable) {
        return None;
    }
    let value = difference.values.get(&run.plan.baseline)?.as_ref()?;
    Some(Pin::Sysctl {
        name: name.into(),
        value: value.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::fixtures::builder::RunBuilder;

    use super::*;

    #[test]
    fn a_parameter_gets_the_baselines_value_if_all_arms_can_have_it() {
        let word = |parameter: Parameter, values: [&str; 2]| parameter.word(&values, false);
        let digit = Parameter::Digit("init_on_alloc");
        assert_eq!(word(digit, ["on", "off"]).unwrap(), "init_on_alloc=1");
        assert_eq!(word(digit, ["off", "on"]).unwrap(), "init_on_alloc=0");
        assert_eq!(
            word(Parameter::Preempt, ["voluntary", "lazy"]).unwrap(),
            "preempt=full"
        );
        assert_eq!(word(Parameter::Word("x"), ["on", "absent"]), None);
        let lists = [
            "lockdown,capability,yama,apparmor",
            "lockdown,capability,apparmor,ipe",
        ];
        assert_eq!(
            word(Parameter::SecurityModules, lists).unwrap(),
            "lsm=lockdown,apparmor"
        );
        // Modules that only one kernel has always on differ with any `lsm=`.
        let lists = [
            "lockdown,capability,yama",
            "lockdown,capability,yama,ipe,ima,evm",
        ];
        assert_eq!(word(Parameter::SecurityModules, lists), None);
        let lists = [lists[1], "lockdown,capability,yama,ima,evm"];
        assert_eq!(
            word(Parameter::SecurityModules, lists).unwrap(),
            "lsm=lockdown,yama"
        );
    }

    #[test]
    fn a_sysctl_is_pinned_if_all_arms_have_it_and_can_set_it() {
        let pin = |fact: &str, values: [Option<&str>; 2], change: fn(&mut Run)| {
            let arms = ["6.1", "7.2"].map(String::from).into_iter();
            let difference = Difference {
                fact: fact.into(),
                values: arms
                    .zip(values.map(|value| value.map(String::from)))
                    .collect(),
                varying: BTreeMap::new(),
                declared: false,
                class: record::verdict::weighed::Class::Unclassified,
                formerly: None,
                pin: None,
            };
            of_sysctl(&RunBuilder::new().with(change).run(), &difference)
        };
        let both = [Some("4096\t131072\t6291456"), Some("4096\t131072\t7132608")];
        let pinned = pin("sysctl net.ipv4.tcp_rmem", both, |_| {}).unwrap();
        let Pin::Sysctl { name, value } = pinned else {
            panic!("not a sysctl")
        };
        assert_eq!(
            (&*name, &*value),
            ("net.ipv4.tcp_rmem", "4096 131072 6291456")
        );
        assert_eq!(pin("sysctl vm.new", [None, Some("1")], |_| {}), None);
        assert_eq!(
            pin(
                "sysctl kernel.sched_energy_aware",
                [Some("1"), Some("")],
                |_| {}
            ),
            None
        );
        assert_eq!(
            pin("sysctl kernel.osrelease", [Some("6"), Some("7")], |_| {}),
            None
        );
        assert_eq!(pin("CONFIG_HZ", [Some("6"), Some("7")], |_| {}), None);
        let set = |run: &mut Run| {
            run.plan.arms[1]
                .sysctl
                .insert("vm/swappiness".into(), "10".into());
        };
        assert_eq!(
            pin("sysctl vm.swappiness", [Some("60"), Some("10")], set),
            None
        );
    }
}
