//! A nightly run of several plans in words, for HTML, Markdown and the terminal.

use base::input::units::significant;
use record::metric::Role;
use record::night::{
    Along, Beside, Compared, Index, NightStanding, PlanSummary, State, Trend, TrendChange,
};

use crate::words::levels::{Levels, in_words};
use crate::words::{NONE, change, counted, directed, interval_of, percent};

/// A primary metric of a nightly run.
pub(crate) struct Line<'i> {
    pub(crate) plan: &'i PlanSummary,
    pub(crate) compared: &'i Compared,
    pub(crate) standing: NightStanding,
}

impl Line<'_> {
    /// The run's headline or verdict in a word.
    pub(crate) fn word(&self) -> &str {
        let headline = self.compared.headline.as_deref();
        headline.unwrap_or(self.compared.verdict.word())
    }

    /// The result after adjusting for all comparisons of the nightly run.
    pub(crate) fn standing(&self) -> &'static str {
        let standing = self.standing;
        if standing.trips_gate {
            "regression, trips the gate"
        } else if standing.is_regression {
            "regression"
        } else if standing.is_improvement {
            "improvement"
        } else if standing.p_worse < 1.0 || standing.p_better < 1.0 {
            "not significant across plans"
        } else {
            ""
        }
    }

    /// The p-value in the direction of the verdict, and in brackets the one adjusted for the list.
    pub(crate) fn p_value(&self) -> String {
        let standing = self.standing;
        let (p_value, adjusted) = if standing.p_worse < 1.0 {
            (standing.p_worse, standing.fdr_worse)
        } else {
            (standing.p_better, standing.fdr_better)
        };
        if p_value < 1.0 {
            format!("{} ({})", short(p_value), short(adjusted))
        } else {
            NONE.into()
        }
    }

    pub(crate) fn change(&self) -> String {
        change(self.compared.ratio)
    }

    pub(crate) fn interval(&self) -> String {
        interval_of(self.compared.low, self.compared.high)
    }

    pub(crate) fn arm(&self) -> String {
        with_kernel(&self.compared.arm, self.compared.kernel.as_deref())
    }
}

/// An arm with its kernel, unless the kernel's name contains that of the arm.
fn with_kernel(arm: &str, kernel: Option<&str>) -> String {
    match kernel {
        Some(kernel) if !kernel.contains(arm) => format!("{arm} ({kernel})"),
        Some(_) | None => arm.into(),
    }
}

fn short(p_value: f64) -> String {
    significant(p_value, 2)
}

/// The primary metrics of all plans, in their order.
fn lines(index: &Index) -> Vec<Line<'_>> {
    index.plans.iter().flat_map(lines_of).collect()
}

/// The primary metrics of one plan.
pub(crate) fn lines_of(plan: &PlanSummary) -> Vec<Line<'_>> {
    let run = plan.run.as_ref();
    let comparisons = run.into_iter().flat_map(|run| &run.comparisons);
    let lines = comparisons.filter_map(|compared| {
        Some(Line {
            plan,
            compared,
            standing: compared.night?,
        })
    });
    lines.collect()
}

/// A sentence for each wanted line, the most significant first.
pub(crate) fn listed(index: &Index, is_wanted: fn(&NightStanding) -> bool) -> Vec<String> {
    let mut wanted = lines(index);
    wanted.retain(|line| is_wanted(&line.standing));
    let least = |line: &Line<'_>| line.standing.p_worse.min(line.standing.p_better);
    wanted.sort_by(|a, b| least(a).total_cmp(&least(b)));
    let sentence = |line: &Line<'_>| {
        let gate = if line.standing.trips_gate {
            "; trips the gate"
        } else {
            ""
        };
        // The headline may differ from the verdict of the primary metric, as in a trade-off.
        let headline = match line.word() {
            word if word == line.compared.verdict.word() => String::new(),
            word => format!("; the run's headline: {word}"),
        };
        format!(
            "{}: {} of {} on {}: {} {}, p = {}{headline}{gate}",
            line.plan.name,
            line.compared.spec.name,
            line.arm(),
            line.compared.workload,
            line.change(),
            in_words(&line.interval(), line.compared.confidence),
            line.p_value(),
        )
    };
    wanted.iter().map(sentence).collect()
}

/// Plans that did not complete, with the reason, and failures of runs.
pub(crate) fn trouble(index: &Index) -> Vec<String> {
    let mut sentences = Vec::new();
    for plan in &index.plans {
        if let Some(why) = &plan.why {
            sentences.push(format!("{}: {}: {why}", plan.name, plan.state.word()));
        }
        for failure in plan.run.iter().flat_map(|run| &run.failures) {
            sentences.push(format!("{}: {failure}", plan.name));
        }
    }
    sentences
}

/// `9 plans, 12 comparisons: 2 regressions, 1 improvement; the gate trips`.
pub(crate) fn summary(index: &Index) -> String {
    let lines = lines(index);
    let count = |test: fn(&NightStanding) -> bool| {
        lines.iter().filter(|line| test(&line.standing)).count() as u32
    };
    let plans = &index.plans;
    let gate = if plans.iter().all(|plan| plan.failures().is_empty()) {
        "the gate does not trip"
    } else {
        "the gate trips"
    };
    let is_open = |plan: &&PlanSummary| !plan.unanswered().is_empty();
    let unanswered = match plans.iter().filter(is_open).count() {
        0 => String::new(),
        1 => ", and 1 plan has no answer".into(),
        many => format!(", and {many} plans have no answer"),
    };
    format!(
        "{}, {}: {}, {}; {gate}{unanswered}",
        counted(index.plans.len() as u32, "plan"),
        counted(index.family, "comparison"),
        counted(count(|standing| standing.is_regression), "regression"),
        counted(count(|standing| standing.is_improvement), "improvement"),
    )
}

/// The error rates of the whole nightly run.
pub(crate) fn rates(index: &Index) -> String {
    format!(
        "Across all {}: on average, at most {} of the listed regressions are false, and at most as large a share of the improvements \
         (Benjamini-Hochberg). The probability that the gate trips without a worse arm is at most {} (Holm). P-values are one-sided \
         and hold whenever a run stops; those in brackets are adjusted for the list.",
        counted(index.family, "comparison"),
        percent(index.fdr),
        percent(index.error_rate),
    )
}

/// The levels of the intervals of all plans.
pub(crate) fn levels(index: &Index) -> Levels {
    Levels::of(lines(index).iter().map(|line| line.compared.confidence))
}

/// The table of all comparisons with its head.
pub(crate) fn rows(index: &Index) -> Vec<Vec<String>> {
    let levels = levels(index);
    let interval = levels.head();
    let head = [
        "plan",
        "workload",
        "arm",
        "against",
        "metric",
        "verdict",
        "change",
        &interval,
        "p",
        "across plans",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for plan in &index.plans {
        let lines = lines_of(plan);
        if lines.is_empty() {
            let mut row = vec![plan.name.clone()];
            row.extend((0..4).map(|_| NONE.to_string()));
            row.push(plan.state.word().into());
            row.resize(head.len(), NONE.into());
            rows.push(row);
        }
        for line in lines {
            rows.push(vec![
                plan.name.clone(),
                line.compared.workload.clone(),
                line.arm(),
                baseline(plan),
                directed(&line.compared.spec),
                word_with_state(&line),
                line.change(),
                levels.cell(&line.interval(), line.compared.confidence),
                line.p_value(),
                line.standing().into(),
            ]);
        }
    }
    rows
}

/// The headline, with the state of an unfinished run.
fn word_with_state(line: &Line<'_>) -> String {
    match open_state(line.plan) {
        Some(state) => format!("{} ({state})", line.word()),
        None => line.word().into(),
    }
}

/// The state of an unfinished run.
pub(crate) fn open_state(plan: &PlanSummary) -> Option<&'static str> {
    match plan.state {
        State::Complete | State::Undecided => None,
        State::Running | State::Interrupted | State::NotBegun | State::Damaged | State::Failed => {
            Some(plan.state.word())
        }
    }
}

/// The baseline with its kernel, unless the kernel's name contains that of the arm.
pub(crate) fn baseline(plan: &PlanSummary) -> String {
    let Some(run) = &plan.run else {
        return NONE.into();
    };
    with_kernel(&run.baseline, run.baseline_kernel.as_deref())
}

/// `web-static: throughput ↑ of 7.2`.
pub(crate) fn trend_title(trend: &Trend) -> String {
    let arm = trend
        .arm
        .as_ref()
        .map_or(String::new(), |arm| format!(" of {arm}"));
    let workload = if trend.workload == trend.plan {
        String::new()
    } else {
        format!(", {}", trend.workload)
    };
    format!("{}{workload}: {}{arm}", trend.plan, directed(&trend.spec))
}

/// What a trend's points are, and the reference of each.
pub(crate) fn trend_along(trend: &Trend) -> &'static str {
    match trend.along {
        Along::Versions => "kernel version; each against the first, in one run",
        Along::VersionsOfNights => {
            "kernel version; each against the baseline of the same nightly run"
        }
        Along::Nights => "nightly run; each against its baseline",
    }
}

/// `worse by 5.00 % from 2026-11-06 to 2026-11-07 (p = 0.0021); the machine changed at the same time`.
pub(crate) fn trend_change(trend: &Trend, step: &TrendChange) -> String {
    let label = |index: u32| &trend.points[index as usize].label;
    let p_value = step.p_value.map_or(String::new(), |p_value| {
        format!(" (p = {})", short(p_value))
    });
    let direction = if step.is_worse { "worse" } else { "better" };
    let size = if step.is_beyond_margin {
        ""
    } else {
        ", within the margin"
    };
    format!(
        "{direction} by {} from {} to {}{p_value}{size}{}",
        change(Some(step.ratio)).trim_start_matches(['+', '-']),
        label(step.before),
        label(step.after),
        beside(&step.beside),
    )
}

fn beside(changed: &[Beside]) -> String {
    if changed.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = changed
        .iter()
        .map(|beside| match beside {
            Beside::Baseline => "the baseline's kernel",
            Beside::Machine => "the machine",
            Beside::Plan => "the plan",
        })
        .collect();
    format!("; {} changed at the same time", names.join(" and "))
}

/// The sentence on a trend without a change.
pub(crate) fn no_change(trend: &Trend) -> String {
    if (trend.points.len() as u32) < trend.least_points {
        format!(
            "{}; a change needs at least {}",
            counted(trend.points.len() as u32, "point"),
            trend.least_points
        )
    } else {
        "no significant change".into()
    }
}

/// Trends of primary metrics; each has a chart.
pub(crate) fn primary_trends(index: &Index) -> Vec<&Trend> {
    let trends = index.trends.iter();
    trends
        .filter(|trend| trend.spec.role == Role::Primary)
        .collect()
}

/// The table of all trends' changes with its head.
pub(crate) fn change_rows(index: &Index) -> Vec<Vec<String>> {
    let mut rows = vec![["metric", "change"].map(String::from).to_vec()];
    for trend in &index.trends {
        for change in &trend.changes {
            rows.push(vec![trend_title(trend), trend_change(trend, change)]);
        }
    }
    rows
}

/// The error rate of changes over nightly runs; `None` without such trends.
pub(crate) fn trend_rates(index: &Index) -> Option<String> {
    let nights = index
        .trends
        .iter()
        .filter(|trend| trend.along != Along::Versions);
    let count = nights.clone().count() as u32;
    let least = nights.map(|trend| trend.least_points).max()?;
    Some(format!(
        "{} over nightly runs: the probability that any primary metric shows a change where there is none is at most {}. The same \
         holds for all other metrics. A change needs up to {least} nightly runs to show.",
        counted(count, "trend"),
        percent(index.error_rate),
    ))
}
