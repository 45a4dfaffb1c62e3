//! The differences that most likely explain a difference of figures.

use record::verdict::weighed::{Class, Effective, EffectiveSetting, Weight};
use record::verdict::{Difference, Judgement};

/// Number of causes.
const MOST: usize = 10;

/// A difference that may explain a difference of figures.
#[derive(Clone, Copy)]
pub(crate) enum Cause<'j> {
    /// A setting as it is in effect.
    Setting(&'j Effective),
    /// A fact that can change any figure.
    Fact(&'j Difference),
}

/// The likeliest causes: settings in effect that differ, then sysctls and states of the running kernel, then options of its build.
///
/// Facts that only show a setting are left out. Within each kind the order is that of classes, those that can do most first.
pub(crate) fn likeliest(judgement: &Judgement) -> Vec<Cause<'_>> {
    let settings = &judgement.weighed.settings;
    let shown: Vec<&str> = settings
        .iter()
        .flat_map(|setting| {
            [setting.setting.fact()]
                .into_iter()
                .chain(setting.setting.defaults().iter().copied())
        })
        .collect();
    let mut facts: Vec<&Difference> = judgement
        .differences
        .iter()
        .filter(|difference| difference.counts() && difference.class.weight() == Weight::Any)
        .filter(|difference| {
            !shown.contains(&difference.fact.as_str()) && can_be_a_cause(difference)
        })
        .collect();
    facts.sort_by_key(|difference| (difference.fact.starts_with("CONFIG_"), difference.class));
    let settings = settings.iter().filter(|setting| setting.differs());
    let causes = settings
        .map(Cause::Setting)
        .chain(facts.into_iter().map(Cause::Fact));
    causes.take(MOST).collect()
}

/// Whether a fact says that the kernels behave differently. Options are often absent in one kernel, but a file or sysctl that only one
/// kernel has shows nothing by itself, and neither does what kernels print at boot.
fn can_be_a_cause(difference: &Difference) -> bool {
    // Settings show what follows from these.
    const SHOWN: [&str; 2] = ["/proc/cpuinfo:bugs", "/sys/kernel/mm/lru_gen/enabled"];
    let is_option = difference.fact.starts_with("CONFIG_");
    let mut values = difference.values.values();
    let is_everywhere =
        values.all(|value| value.as_ref().is_some_and(|value| !value.trim().is_empty()));
    difference.class != Class::BootLog
        && !SHOWN.contains(&difference.fact.as_str())
        && (is_option || (is_everywhere && difference.varying.is_empty()))
}

/// The class of a setting.
pub(crate) fn class_of(setting: EffectiveSetting) -> Class {
    match setting {
        EffectiveSetting::Hz | EffectiveSetting::DynamicTick => Class::Tick,
        EffectiveSetting::Preemption => Class::Preemption,
        EffectiveSetting::InitOnAlloc
        | EffectiveSetting::InitOnFree
        | EffectiveSetting::HardenedUsercopy
        | EffectiveSetting::StackOffset => Class::Hardening,
        EffectiveSetting::Mitigations => Class::Mitigations,
        EffectiveSetting::HugePages | EffectiveSetting::LruGen => Class::Memory,
        EffectiveSetting::Lto | EffectiveSetting::Compiler => Class::Compiler,
        EffectiveSetting::Autogroup | EffectiveSetting::Psi => Class::Scheduler,
        EffectiveSetting::SecurityModules => Class::Security,
        EffectiveSetting::Debugging => Class::Debugging,
    }
}
