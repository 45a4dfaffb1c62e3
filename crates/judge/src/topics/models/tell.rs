//! Verdicts on other emulated CPUs, in words and tables.

pub(crate) mod mitigations;

use base::input::units::significant;
use record::models::{ModelRow, Standing};
use record::rundir::Run;

use crate::words::levels::Levels;
use crate::words::{NONE, change, interval_of};

/// Title of the table.
pub(crate) const TITLE: &str = "other CPU models";

/// Rows of other models; empty if the run has none.
fn model_rows(run: &Run) -> &[ModelRow] {
    run.models.as_ref().map_or(&[], |models| &models.rows)
}

/// The table with its head; empty if the run has no other models.
pub(crate) fn rows(run: &Run) -> Vec<Vec<String>> {
    let models = model_rows(run);
    let levels = Levels::of(models.iter().map(|row| row.other.confidence));
    let interval = levels.head();
    let head = [
        "model", "workload", "arm", "verdict", "change", &interval, "moved", "standing",
    ];
    let mut rows: Vec<Vec<String>> = models.iter().map(|model| row(model, &levels)).collect();
    if !rows.is_empty() {
        rows.insert(0, head.map(String::from).to_vec());
    }
    rows
}

fn row(row: &ModelRow, levels: &Levels) -> Vec<String> {
    let interval = interval_of(row.other.low, row.other.high);
    vec![
        row.model.clone(),
        format!("{} {}", row.workload, row.metric),
        row.arm.clone(),
        row.other.verdict.word().into(),
        change(row.other.ratio),
        levels.cell(&interval, row.other.confidence),
        row.moved.map_or(NONE.into(), share),
        row.standing.word().into(),
    ]
}

fn share(share: f64) -> String {
    format!("{} %", significant(share * 100.0, 2))
}

/// A sentence under the headline for each verdict that depends on the model.
pub(crate) fn sentences(run: &Run) -> Vec<String> {
    let dependent = model_rows(run)
        .iter()
        .filter(|row| row.standing == Standing::ModelDependent);
    let sentence = |row: &ModelRow| {
        format!(
            "model-dependent: {} on {}: {} {} with {}, {} {} without it",
            row.arm,
            row.workload,
            row.other.verdict.word(),
            change(row.other.ratio),
            row.model,
            row.own.verdict.word(),
            change(row.own.ratio)
        )
    };
    dependent.map(sentence).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use record::models::{ModelVerdict, Models, VERSION};
    use record::verdict::Verdict;

    use super::*;
    use crate::report::judged;
    use record::fixtures::web;

    pub(crate) fn asked(standing: Standing, verdict: Verdict, ratio: f64) -> Run {
        let finding = |verdict, ratio| ModelVerdict {
            verdict,
            ratio: Some(ratio),
            low: Some(ratio - 0.01),
            high: Some(ratio + 0.01),
            confidence: Some(0.95),
            blocks: 6,
        };
        let row = ModelRow {
            model: "EPYC-Milan".into(),
            dir: "EPYC-Milan".into(),
            workload: "web-static".into(),
            metric: "throughput".into(),
            arm: "7.2".into(),
            own: finding(Verdict::Better, 1.17),
            other: finding(verdict, ratio),
            moved: Some(0.35),
            standing,
        };
        let (mut run, _) = judged(web::two_kernels());
        run.models = Some(Models {
            version: VERSION,
            rows: vec![row],
        });
        run
    }

    #[test]
    fn a_verdict_that_holds_has_a_row_and_no_sentence() {
        let run = asked(Standing::Holds, Verdict::Better, 1.23);
        let rows = rows(&run);
        assert_eq!(rows.len(), 2);
        let cells: Vec<&str> = rows[1].iter().map(String::as_str).collect();
        assert_eq!(cells[0], "EPYC-Milan");
        assert_eq!(cells[3..5], ["better", "+23.00 %"]);
        assert_eq!(cells[6..], ["35 %", "holds"]);
        assert!(sentences(&run).is_empty());
    }

    #[test]
    fn all_reports_have_a_verdict_that_depends_on_the_model() {
        let run = asked(Standing::ModelDependent, Verdict::Worse, 0.95);
        let judgement = crate::judge(&run);
        let sentence = "model-dependent: 7.2 on web-static: worse -5.00 % with EPYC-Milan, better +17.00 % without it";
        assert_eq!(sentences(&run), [sentence]);
        let terminal = crate::report::terminal(&run, &judgement, &[], 200);
        assert!(terminal.contains(sentence), "{terminal}");
        for text in [
            crate::report::markdown(&run, &judgement, &[]),
            crate::report::html(&run, &judgement, &[]),
        ] {
            assert!(text.contains("model-dependent"));
            assert!(text.contains("EPYC-Milan"));
        }
    }

    #[test]
    fn a_run_without_other_models_has_no_table() {
        let (run, judgement) = judged(web::two_kernels());
        assert!(rows(&run).is_empty());
        assert!(!crate::report::terminal(&run, &judgement, &[], 100).contains(TITLE));
    }
}
