//! The overview of a plan with several workloads: a table of workloads by arms.

pub(crate) mod footing;

use base::input::units::significant;
use record::rundir::Run;
use record::verdict::{Comparison, Judgement};

use crate::topics::headline::tell::against as against_headline;
use crate::topics::loads::tell::Unit;
use crate::topics::metrics::document::tables_of;
use crate::words;
use crate::words::levels::Levels;

/// One workload's primary figure under each arm.
pub(crate) struct Row<'j> {
    pub(crate) workload: &'j str,
    /// The figure with its arrow.
    pub(crate) metric: String,
    pub(crate) unit: String,
    /// The baseline's mean.
    pub(crate) baseline: String,
    /// The other arms: mean, and result.
    pub(crate) others: Vec<(String, Option<Cell<'j>>)>,
}

/// One arm on one workload.
pub(crate) struct Cell<'j> {
    pub(crate) word: &'static str,
    /// Its comparison on the primary metric; `None` if the arm failed in all trials.
    pub(crate) primary: Option<&'j Comparison>,
    /// Secondary metrics that contradict the headline, with their changes: `latency-p99 +259 %`.
    pub(crate) against: Vec<String>,
}

impl<'j> Cell<'j> {
    /// The comparison, unless the arm failed.
    fn shown(&self) -> Option<&'j Comparison> {
        self.primary.filter(|_| self.word != "failed")
    }

    /// The change; empty if the arm failed.
    pub(crate) fn change(&self) -> String {
        self.shown().map_or(String::new(), words::change_of)
    }

    /// Its interval; empty if there is none.
    pub(crate) fn interval(&self, levels: &Levels) -> String {
        let Some(comparison) = self.shown() else {
            return String::new();
        };
        let interval = words::interval(comparison);
        if interval == words::NONE {
            return String::new();
        }
        levels.cell(&interval, comparison.confidence)
    }
}

/// A row for each workload; empty for a plan with one workload.
pub(crate) fn rows<'j>(run: &'j Run, judgement: &'j Judgement) -> Vec<Row<'j>> {
    if run.plan.workloads.len() == 1 {
        return Vec::new();
    }
    let workloads = run.plan.workloads.iter();
    workloads
        .map(|workload| row(run, judgement, &workload.id))
        .collect()
}

fn row<'j>(run: &'j Run, judgement: &'j Judgement, workload: &'j str) -> Row<'j> {
    let tables = tables_of(judgement, workload);
    let primary: Vec<&Comparison> = judgement
        .primaries()
        .filter(|comparison| comparison.workload == workload)
        .collect();
    let spec = primary.first().map(|comparison| &comparison.spec);
    let mean = |arm: &str| {
        let table = tables.iter().find(|table| table.arm == arm)?;
        let mut figures = table.figures.iter();
        let figure = figures.find(|(other, _)| Some(other) == spec)?;
        Some(figure.1)
    };
    let arms = || run.plan.arms.iter().map(|arm| arm.name.as_str());
    let largest = arms().filter_map(mean).fold(0.0, f64::max);
    let unit = Unit::fit(spec.map_or("", |spec| &spec.unit), largest);
    let figure = |arm: &str| {
        mean(arm).map_or(words::NONE.into(), |value| {
            words::figure(value * unit.factor)
        })
    };
    let cell = |arm: &str| {
        let mut headlines = judgement.headlines.iter();
        let headline =
            headlines.find(|headline| headline.workload == workload && headline.arm == arm)?;
        let mut primaries = primary.iter().copied();
        let against = against_headline(judgement, headline).into_iter();
        Some(Cell {
            word: headline.conclusion.word(),
            primary: primaries.find(|comparison| comparison.arm == arm),
            against: against
                .map(|metric| format!("{} {}", metric.spec.name, words::change_of(metric)))
                .collect(),
        })
    };
    let others = arms().filter(|arm| *arm != run.plan.baseline);
    Row {
        workload,
        metric: spec.map_or(words::NONE.into(), words::directed),
        baseline: figure(&run.plan.baseline),
        others: others.map(|arm| (figure(arm), cell(arm))).collect(),
        unit: unit.name,
    }
}

/// The confidence levels of all intervals.
pub(crate) fn levels(rows: &[Row<'_>]) -> Levels {
    let cells = rows.iter().flat_map(|row| &row.others);
    Levels::of(cells.map(|(_, cell)| cell.as_ref()?.shown()?.confidence))
}

/// The head of columns with comparisons: `against 6.1, 97.5 % interval`.
pub(crate) fn against(baseline: &str, levels: &Levels) -> String {
    format!("against {baseline}, {}", levels.head())
}

/// The table as text with its head; empty for a plan with one workload.
pub(crate) fn table(run: &Run, judgement: &Judgement) -> Vec<Vec<String>> {
    let rows = rows(run, judgement);
    if rows.is_empty() {
        return Vec::new();
    }
    let levels = levels(&rows);
    let mut head = vec![
        "workload".to_string(),
        "figure".into(),
        "unit".into(),
        run.plan.baseline.clone(),
    ];
    for arm in &run.plan.arms {
        if arm.name != run.plan.baseline {
            head.extend([arm.name.clone(), against(&run.plan.baseline, &levels)]);
        }
    }
    let mut table = vec![head];
    for row in rows {
        let mut cells = vec![row.workload.to_string(), row.metric, row.unit, row.baseline];
        for (figure, cell) in row.others {
            let result = cell.map_or(words::NONE.into(), |cell| result(&cell, &levels));
            cells.extend([figure, result]);
        }
        table.push(cells);
    }
    table
}

/// `+7.36 % [+7.17 %, +7.68 %] better`; `+15.2 % [+14.8 %, +15.8 %] trade-off: latency-p99 +259 %`; `failed`.
fn result(cell: &Cell<'_>, levels: &Levels) -> String {
    let interval = cell.interval(levels);
    let against = match cell.against.len() {
        0 => String::new(),
        _ => format!(": {}", cell.against.join(", ")),
    };
    let parts = [cell.change(), interval, format!("{}{against}", cell.word)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// The error rate of several verdicts together; `None` if there is only one.
pub(crate) fn multiplicity(run: &Run, judgement: &Judgement) -> Option<String> {
    let (workloads, others) = (run.plan.workloads.len(), run.plan.arms.len() - 1);
    let percent = |share: f64| format!("{} %", significant(share * 100.0, 2));
    (workloads * others > 1).then(|| {
        format!(
            "Each workload and arm has an error rate of its own, {}. With {} and {} against the \
             baseline, the chance that at least one of {} calls better or worse what is equal is \
             up to {}.",
            percent(run.error_rate()),
            words::counted(workloads as u32, "workload"),
            words::counted(others as u32, "arm"),
            words::counted((workloads * others) as u32, "verdict"),
            percent(judgement.any_false)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::judged;
    use record::fixtures::web;

    #[test]
    fn one_workload_needs_no_overview_and_one_verdict_no_warning() {
        let (run, judgement) = judged(web::two_kernels());
        assert!(table(&run, &judgement).is_empty());
        assert_eq!(multiplicity(&run, &judgement), None);
    }

    #[test]
    fn two_workloads_and_two_arms_are_four_chances_to_be_wrong() {
        let (run, judgement) = judged(web::two_workloads());
        let note = multiplicity(&run, &judgement).unwrap();
        assert!(note.ends_with(
            "at least one of 4 verdicts calls better or worse what is equal is up to 20 %."
        ));
        let table = table(&run, &judgement);
        assert_eq!((table.len(), table[0].len()), (3, 8));
        assert_eq!(
            table[2][..4],
            ["web-nginx", "throughput ↑", "requests/s", "2\u{a0}285.3"]
        );
        assert!(table[2][5].ends_with("better"), "{:?}", table[2]);
    }

    #[test]
    fn a_workload_that_was_not_reached_has_its_row() {
        let (run, _) = judged(web::two_workloads());
        let (empty, _) = judged(web::just_begun());
        let run = Run {
            attempts: empty.attempts,
            facts: empty.facts,
            ..run
        };
        let table = table(&run, &crate::judge(&run));
        assert_eq!(table[1], ["web-static", "-", "", "-", "-", "-", "-", "-"]);
    }
}
