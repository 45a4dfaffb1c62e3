//! What gives all arms one value of a setting: a word on their command lines, or a sysctl.

use record::rundir::Run;
use record::verdict::Difference;
use record::verdict::weighed::Pin;

/// Where a kernel tells of mitigations.
pub(crate) const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities/";

/// A parameter of kernels, and the value that all arms are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// The baseline's value as 1 or 0.
    Digit(&'static str),
    /// The baseline's value as it is called.
    Word(&'static str),
    /// The one model that all kernels with a choice have: later ones lack `none` and `voluntary`, earlier ones `lazy`.
    Preempt,
    /// The baseline's, or none at all where kernels mitigate in different ways.
    Mitigations,
    /// The modules that all arms have.
    SecurityModules,
}

impl Parameter {
    /// Its name, with underscores.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Digit(name) | Self::Word(name) => name,
            Self::Preempt => "preempt",
            Self::Mitigations => "mitigations",
            Self::SecurityModules => "lsm",
        }
    }

    /// The word for all command lines, from the arms' values, the baseline's first; `None` where it cannot be given.
    pub(crate) fn word(self, values: &[&str], is_ways: bool) -> Option<String> {
        let baseline = *values.first()?;
        let value = match self {
            _ if values.contains(&"absent") => return None,
            Self::Digit(_) => String::from(if baseline == "on" { "1" } else { "0" }),
            Self::Preempt => "full".into(),
            Self::Mitigations if is_ways => "off".into(),
            Self::Word(_) | Self::Mitigations => baseline.into(),
            Self::SecurityModules => common(values)?,
        };
        Some(format!("{}={value}", self.name()))
    }
}

/// Security modules that no `lsm=` takes away (`LSM_ORDER_FIRST` and `LSM_ORDER_LAST` of security/security.c). Measured: with
/// `lsm=lockdown,landlock,yama,apparmor,tomoyo,bpf` on both command lines Debian's 7.2 ends its list in `bpf,ima,evm`, and 6.1, where those two are
/// no modules yet, in `bpf`.
const ALWAYS_ON: [&str; 4] = ["capability", "integrity", "ima", "evm"];

/// The modules that all lists have, in the order of the first; `None` where lists differ in those that are always on.
fn common(lists: &[&str]) -> Option<String> {
    let (first, others) = lists.split_first()?;
    let has = |list: &str, name: &str| list.split(',').any(|own| own == name);
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

/// Whether arms that both tell of a vulnerability tell different things.
pub(crate) fn mitigations_differ(differences: &[Difference]) -> bool {
    let tells = |one: &&Difference| one.values.values().all(Option::is_some);
    let mut of_cpu = differences
        .iter()
        .filter(|one| one.fact.starts_with(VULNERABILITIES));
    of_cpu.any(|one| tells(&one))
}

/// Sysctls that nobody can set, or whose value a kernel gives itself.
const READ_ONLY: [&str; 5] = [
    "crypto.",
    "kernel.osrelease",
    "kernel.ostype",
    "kernel.version",
    "kernel.bootloader_",
];

/// The baseline's value of a sysctl that all arms have, and that the plan does not set already.
pub(crate) fn of_sysctl(run: &Run, one: &Difference) -> Option<Pin> {
    let name = one.fact.strip_prefix("sysctl ")?;
    let is_fixed =
        READ_ONLY.iter().any(|begin| name.starts_with(begin)) || name.contains("available");
    let path = plan::sysctl_path(name);
    let is_set = run
        .plan
        .arms
        .iter()
        .any(|arm| arm.sysctl.keys().any(|set| plan::sysctl_path(set) == path));
    // Some kernels show nothing where a setting has no effect, and refuse to be given one.
    let is_settable = |value: &Option<String>| {
        value
            .as_ref()
            .is_some_and(|value| !value.is_empty() && !value.contains('\n'))
    };
    if is_fixed || is_set || !one.values.values().all(is_settable) {
        return None;
    }
    let value = one.values.get(&run.plan.baseline)?.as_ref()?;
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
    fn a_parameter_has_the_baselines_value_where_all_can_have_it() {
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
        // What is always on in one kernel alone stays a difference, whatever is written.
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
    fn a_sysctl_is_pinned_where_all_arms_have_a_value_of_their_own() {
        let pin = |fact: &str, values: [Option<&str>; 2], change: fn(&mut Run)| {
            let arms = ["6.1", "7.2"].map(String::from).into_iter();
            let one = Difference {
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
            of_sysctl(&RunBuilder::new().with(change).run(), &one)
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
