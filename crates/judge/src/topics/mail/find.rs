//! Subject of a mail: the gravest headline of a run, what its figures are, and the kernels between which something became worse.

use record::bisect::{Bisection, Conclusion as BisectConclusion};
use record::machine::{Acceleration, MachineDescription};
use record::metric::Role;
use record::models::Standing;
use record::rundir::Run;
use record::trial::Outcome;
use record::verdict::{Comparison, Conclusion, Headline, Judgement, Verdict};

use crate::topics::headline::find::may_speak;

/// What a mail is about.
pub(crate) struct Subject<'j> {
    /// The headline.
    pub(crate) headline: &'j Headline,
    /// What is worse in its arm.
    pub(crate) change: Change<'j>,
    /// What the figures are.
    pub(crate) basis: Basis,
    /// Whether the verdict is another one, or open, for another CPU model or at another price of string instructions.
    pub(crate) is_model_dependent: bool,
    /// The two kernels; `None` if the arms differ in more than their kernels, or if the newer one is the baseline.
    pub(crate) range: Option<Range>,
}

/// What is worse.
#[derive(Clone, Copy)]
pub(crate) enum Change<'j> {
    /// A metric.
    Worse(&'j Comparison),
    /// The arm gave no figure.
    Failed,
    /// Nothing.
    Nothing,
}

/// What figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Measurements of a real CPU.
    Measured,
    /// Counts of instructions.
    Counted,
    /// Times of an emulator.
    Emulated,
    /// Results of a simulated machine.
    Simulated,
}

/// Kernels of the baseline and of the arm as regzbot names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Last version known to be good: `v6.1.176`.
    pub(crate) good: String,
    /// First version known to be bad.
    pub(crate) bad: String,
    /// Whether both are of one stable series.
    pub(crate) is_stable: bool,
}

/// Result of a bisection.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    /// The commit, or the versions around the step.
    pub step: Step,
    /// Probability of the step.
    pub probability: f64,
}

/// Where a bisection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// One commit.
    Commit {
        /// Its full hash.
        hash: String,
        /// Its subject.
        subject: String,
    },
    /// Two versions.
    Versions {
        /// The last good one.
        before: String,
        /// The first bad one.
        after: String,
    },
}

impl Culprit {
    /// The step that a bisection found; `None` if it found none.
    pub fn of(bisection: &Bisection) -> Option<Self> {
        let BisectConclusion::Found {
            before,
            after,
            probability,
            ..
        } = bisection.conclusion
        else {
            return None;
        };
        let [last_good, first_bad] = [
            bisection.versions.get(before)?,
            bisection.versions.get(after)?,
        ];
        let is_commit =
            first_bad.source.len() == 40 && first_bad.source.chars().all(|c| c.is_ascii_hexdigit());
        let step = if is_commit && after == before + 1 {
            Step::Commit {
                hash: first_bad.source.clone(),
                subject: first_bad.about.clone(),
            }
        } else {
            Step::Versions {
                before: last_good.name.clone(),
                after: first_bad.name.clone(),
            }
        };
        Some(Self { step, probability })
    }
}

impl Subject<'_> {
    /// Whether something is worse.
    pub(crate) fn is_regression(&self) -> bool {
        !matches!(self.change, Change::Nothing)
    }

    /// Whether it is a regression for the kernel's regression tracker, which wants none that real use may not show.
    pub(crate) fn is_for_tracker(&self) -> bool {
        self.is_regression() && self.basis == Basis::Measured && !self.is_model_dependent
    }
}

/// The subject: the first headline with something worse, otherwise the first one. `None` without headlines.
pub(crate) fn subject<'j>(run: &Run, judgement: &'j Judgement) -> Option<Subject<'j>> {
    let headlines = judgement.headlines.iter();
    let mut all = headlines.map(|headline| (headline, change(run, judgement, headline)));
    let first = all.next()?;
    let is_worse = |(_, change): &(&Headline, Change<'_>)| !matches!(change, Change::Nothing);
    let (headline, change) = if is_worse(&first) {
        first
    } else {
        all.find(is_worse).unwrap_or(first)
    };
    Some(Subject {
        headline,
        change,
        basis: basis(run),
        is_model_dependent: is_model_dependent(run, headline),
        range: range(run, &headline.arm),
    })
}

fn change<'j>(run: &Run, judgement: &'j Judgement, headline: &Headline) -> Change<'j> {
    match &headline.conclusion {
        Conclusion::Failed(_) if headline.arm != run.plan.baseline => Change::Failed,
        Conclusion::Worse
        | Conclusion::TradeOff { .. }
        | Conclusion::ModelDependent { .. }
        | Conclusion::Undecided { .. } => {
            let margin = run.plan.design.margin;
            worst(judgement, headline, margin).map_or(Change::Nothing, Change::Worse)
        }
        Conclusion::Better
        | Conclusion::Equivalent
        | Conclusion::Failed(_)
        | Conclusion::Withheld { .. } => Change::Nothing,
    }
}

/// The metric that is worse by the largest factor, beyond the margin unless it is the primary one.
fn worst<'j>(judgement: &'j Judgement, headline: &Headline, margin: f64) -> Option<&'j Comparison> {
    // What was zero and is not any more has no ratio: no change is larger.
    let change = |comparison: &Comparison| {
        comparison
            .ratio
            .map_or(f64::INFINITY, |ratio| ratio.ln().abs())
    };
    let all = judgement.comparisons.iter();
    let worse = all.filter(|comparison| {
        comparison.workload == headline.workload
            && comparison.arm == headline.arm
            && comparison.verdict == Verdict::Worse
            && may_speak(&comparison.spec)
            && (comparison.spec.role == Role::Primary || margin.ln_1p() < change(comparison))
    });
    // Of equal changes the first one, which is the primary metric if that is among them.
    worse.reduce(|worst, comparison| {
        if change(worst) < change(comparison) {
            comparison
        } else {
            worst
        }
    })
}

fn basis(run: &Run) -> Basis {
    if run.opening.ns_per_instruction.is_some() {
        return Basis::Counted;
    }
    match &run.opening.machine {
        MachineDescription::Qemu(guests) => match guests.acceleration {
            Acceleration::Kvm => Basis::Measured,
            Acceleration::Tcg => Basis::Emulated,
        },
        MachineDescription::Fake => Basis::Simulated,
        MachineDescription::Local { .. }
        | MachineDescription::Ssh { .. }
        | MachineDescription::Url { .. } => Basis::Measured,
    }
}

fn is_model_dependent(run: &Run, headline: &Headline) -> bool {
    let by_price = headline.by_price.as_ref();
    let models = run.models.as_ref().map_or(&[][..], |models| &models.rows);
    matches!(headline.conclusion, Conclusion::ModelDependent { .. })
        || by_price.is_some_and(|by_price| by_price.standing != Standing::Holds)
        || models.iter().any(|row| {
            row.workload == headline.workload
                && row.arm == headline.arm
                && row.standing == Standing::ModelDependent
        })
}

/// Version string of an arm's kernel in its first measured trial.
pub(crate) fn kernel<'r>(run: &'r Run, arm: &str) -> Option<&'r str> {
    run.attempts.iter().find_map(|record| {
        let is_of_arm = record.trial.arm == arm;
        match &record.outcome {
            Outcome::Measured(measurement) if is_of_arm => Some(measurement.kernel.as_str()),
            Outcome::Measured(_) | Outcome::Void(_) | Outcome::Skipped(_) => None,
        }
    })
}

fn range(run: &Run, arm: &str) -> Option<Range> {
    let plan = &run.plan;
    let settings = |name: &str| {
        let mut arms = plan.arms.iter();
        arms.find(|arm| arm.name == name).map(plan::Arm::settings)
    };
    if settings(&plan.baseline)? != settings(arm)? {
        return None;
    }
    let good = Release::of(kernel(run, &plan.baseline)?)?;
    let bad = Release::of(kernel(run, arm)?)?;
    (good.order < bad.order).then(|| Range {
        is_stable: good.order[..2] == bad.order[..2] && bad.order[2] > 0,
        good: good.name,
        bad: bad.name,
    })
}

/// An upstream release.
struct Release {
    /// `v6.1.176`, or the commit of a build between releases.
    name: String,
    /// Version, patch level, sublevel, release candidate, and commits after it.
    order: [u32; 5],
}

impl Release {
    /// The release of `6.1.0-50-cloud-amd64 #1 SMP Debian 6.1.176-1 (2026-07-02)`: 6.1.176, because Debian's name of the kernel has no
    /// sublevel.
    fn of(kernel: &str) -> Option<Self> {
        let version = match kernel.split_once(" Debian ") {
            Some((_, package)) => package.split(['-', ' ']).next()?,
            None => kernel.split(' ').next()?,
        };
        let (numbers, rest) = match version.find(['-', '+', '~']) {
            Some(end) => version.split_at(end),
            None => (version, ""),
        };
        let numbers: Option<Vec<u32>> = numbers.split('.').map(|part| part.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| (2..=3).contains(&numbers.len()))?;
        let sublevel = numbers.get(2).copied().unwrap_or(0);
        let suffixes = || rest.split('-');
        let candidate = suffixes().find_map(|part| part.strip_prefix("rc")?.parse::<u32>().ok());
        let is_hash = |text: &&str| text.len() >= 7 && text.chars().all(|c| c.is_ascii_hexdigit());
        let commit = suffixes().find_map(|part| part.strip_prefix('g').filter(is_hash));
        let commits = suffixes().find_map(|part| part.parse().ok()).unwrap_or(0);
        let mut parts = vec![format!("v{}.{}", numbers[0], numbers[1])];
        parts.extend((sublevel > 0).then(|| format!(".{sublevel}")));
        parts.extend(candidate.map(|candidate| format!("-rc{candidate}")));
        let name = parts.concat();
        Some(Self {
            name: commit.map_or(name, String::from),
            order: [
                numbers[0],
                numbers[1],
                sublevel,
                candidate.unwrap_or(u32::MAX),
                if commit.is_some() { commits } else { 0 },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use record::bisect::Version;
    use record::fixtures::web;

    use super::*;
    use crate::report::judged;

    #[test]
    fn releases_are_named_as_upstream_tags() {
        let names = [
            "6.1.0-50-cloud-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-07-02)",
            "7.2.12+deb13-cloud-amd64 #1 SMP Debian 7.2.12-1~bpo13+1 (2026-11-04)",
            "6.1.0-40-cloud-amd64",
            "7.2.3-cloud-amd64",
            "6.12.0-rc3",
            "6.12.0-rc3-00123-g1f2e3d4c5d",
            "not known",
        ];
        let names = names.map(|kernel| {
            Release::of(kernel).map_or("-".into(), |release| {
                format!("{} {:?}", release.name, release.order)
            })
        });
        expect![[r#"
            v6.1.176 [6, 1, 176, 4294967295, 0]
            v7.2.12 [7, 2, 12, 4294967295, 0]
            v6.1 [6, 1, 0, 4294967295, 0]
            v7.2.3 [7, 2, 3, 4294967295, 0]
            v6.12-rc3 [6, 12, 0, 3, 0]
            1f2e3d4c5d [6, 12, 0, 3, 123]
            -"#]]
        .assert_eq(&names.join("\n"));
    }

    #[test]
    fn a_range_needs_equal_settings_and_the_newer_kernel_in_the_arm() {
        let (mut run, _) = judged(web::two_kernels());
        let want = Range {
            good: "v6.1".into(),
            bad: "v7.2.3".into(),
            is_stable: false,
        };
        assert_eq!(range(&run, "7.2"), Some(want));
        run.plan.arms[1].cmdline = "preempt=full".into();
        assert_eq!(range(&run, "7.2"), None);
        run.plan.arms[1].cmdline.clear();
        run.plan.baseline = "7.2".into();
        assert_eq!(range(&run, "6.1"), None);
    }

    #[test]
    fn a_bisection_names_a_commit_or_the_versions_around_a_step() {
        let version = |name: &str, source: &str| Version {
            name: name.into(),
            about: "sched: subject".into(),
            source: source.into(),
            files: Vec::new(),
        };
        let hash = "1f2e3d4c5d".repeat(4);
        let mut bisection = Bisection {
            version: record::bisect::VERSION,
            title: String::new(),
            metric: None,
            versions: vec![
                version("a", &"0".repeat(40)),
                version("b", &hash),
                version("c", "debian:sid/7"),
            ],
            evidence: Vec::new(),
            steps: Vec::new(),
            no_difference: 0.0,
            ratio: None,
            blocks: 0,
            max_blocks: 0,
            error_rate: 0.1,
            conclusion: BisectConclusion::Undecided,
        };
        assert_eq!(Culprit::of(&bisection), None);
        let mut found = |before, after| {
            bisection.conclusion = BisectConclusion::Found {
                before,
                after,
                probability: 0.97,
                share: None,
            };
            Culprit::of(&bisection).unwrap().step
        };
        let commit = Step::Commit {
            hash,
            subject: "sched: subject".into(),
        };
        assert_eq!(found(0, 1), commit);
        let versions = Step::Versions {
            before: "b".into(),
            after: "c".into(),
        };
        assert_eq!(found(1, 2), versions);
    }
}
