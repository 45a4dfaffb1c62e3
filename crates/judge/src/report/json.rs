//! What was judged, for machines: a small summary whose keys are promised, and the whole judgement behind it.

use std::collections::BTreeMap;

use record::metric::MetricSpec;
use record::rundir::Run;
use record::verdict::fairness::accepted_by_user;
use record::verdict::finding::Severity;
use record::verdict::{ArmSummary, Comparison, Headline, Judgement};
use serde_json::{Map, Value, json};

use crate::topics::defects::tell as defect;
use crate::topics::disclosure::tell as disclosure;
use crate::topics::fairness::tell as fairness;
use crate::topics::findings::tell as finding;
use crate::topics::metrics::tell as reason;
use crate::topics::run_state::tell as run_state;

/// Version of the summary; docs/reference/json.md describes it.
pub const VERSION: u32 = 1;

/// The summary. `details` is the judgement as this version has it.
pub fn json(run: &Run, judgement: &Judgement) -> Value {
    let design = &run.plan.design;
    let headlines = judgement.headlines.iter();
    let arms = judgement.arm_summaries.iter();
    json!({
        "version": VERSION, "bakeoff": record::VERSION, "title": run.plan.title,
        "state": run_state::state(run, judgement), "baseline": run.plan.baseline,
        "margin": design.margin, "error_rate": run.error_rate(), "seed": design.seed,
        "headlines": headlines.map(|each| headline(run, judgement, each)).collect::<Vec<_>>(),
        "comparisons": judgement.comparisons.iter().map(comparison).collect::<Vec<_>>(),
        "findings": findings(run, judgement),
        "arms": arms.map(arm).collect::<Vec<_>>(),
        "disclosure": disclosed(run, judgement),
        "details": judgement,
    })
}

fn headline(run: &Run, judgement: &Judgement, conclude: &Headline) -> Value {
    let words = crate::topics::headline::tell::headline(run, judgement, &[], conclude);
    let (text, reason) = words.map_or_else(Default::default, |words| (words.text, words.reason));
    let (workload, arm) = (&*conclude.workload, &*conclude.arm);
    let accepted =
        accepted_by_user(&judgement.fairness, workload, arm, &run.plan.baseline).into_iter();
    let accepted = accepted.map(|(check, reason)| json!({ "id": check.id, "reason": reason }));
    json!({
        "workload": workload, "arm": arm, "verdict": conclude.conclusion.word(),
        "against": conclude.conclusion.against(), "text": text, "reason": reason,
        "accepted": accepted.collect::<Vec<_>>(),
    })
}

fn comparison(comparison: &Comparison) -> Value {
    let MetricSpec {
        name,
        unit,
        direction,
        role,
    } = &comparison.spec;
    json!({
        "workload": comparison.workload, "arm": comparison.arm, "metric": name, "unit": unit,
        "direction": direction, "role": role, "verdict": comparison.verdict,
        "ratio": comparison.ratio, "difference": comparison.difference,
        "low": comparison.low, "high": comparison.high, "confidence": comparison.confidence,
        "blocks": comparison.blocks, "text": reason::reason(comparison),
    })
}

/// What each arm did on a workload: means of its figures over measured trials.
fn arm(arm: &ArmSummary) -> Value {
    let figures = arm.figures.iter();
    let figures = figures.map(|(spec, mean)| (spec.name.clone(), json!(mean)));
    json!({
        "workload": arm.workload, "arm": arm.arm, "kernel": arm.kernel, "server": arm.server,
        "measured": arm.measured, "failed": arm.voids.values().sum::<u32>(),
        "figures": figures.collect::<Map<String, Value>>(),
    })
}

/// Everything beside the figures, the gravest first.
fn findings(run: &Run, judgement: &Judgement) -> Vec<Value> {
    let mut all = Vec::new();
    let mut add = |severity: Severity, id: &str, workload: &str, arm: &str, text: String| {
        let named = |name: &str| (!name.is_empty()).then(|| name.to_string());
        let value = json!({
            "id": id, "severity": severity, "workload": named(workload), "arm": named(arm),
            "text": text,
        });
        all.push((severity, value));
    };
    for found in &judgement.findings {
        let text = finding::line(judgement, found);
        add(
            found.severity(),
            found.id(),
            &found.workload,
            &found.arm,
            text,
        );
    }
    for check in &judgement.fairness {
        if let Some(severity) = check.outcome.severity() {
            let explained = fairness::explained(std::slice::from_ref(check)).into_iter();
            let texts = explained.flat_map(|check| [vec![check.outcome], check.details].concat());
            let text = texts.collect::<Vec<_>>().join("; ");
            add(severity, &check.id, "", "", text);
        }
    }
    for found in &judgement.defects.found {
        let data = json!(found);
        let [id, workload, arm] =
            ["kind", "workload", "arm"].map(|key| data[key].as_str().unwrap_or_default());
        add(
            Severity::Warning,
            id,
            workload,
            arm,
            defect::of_arm(run, found),
        );
    }
    all.sort_by_key(|(severity, _)| *severity);
    all.into_iter().map(|(_, value)| value).collect()
}

/// By group and label, all lines.
fn disclosed(run: &Run, judgement: &Judgement) -> Value {
    let groups = disclosure::groups(run, judgement).into_iter();
    let groups = groups.map(|group| {
        // Several rows may have one label: a failed arm each, for example.
        let mut rows = BTreeMap::<String, Vec<String>>::new();
        for row in group.rows {
            rows.entry(row.label).or_default().extend(row.lines);
        }
        (group.title, rows)
    });
    json!(groups.collect::<BTreeMap<_, _>>())
}

#[cfg(test)]
mod tests {
    use record::fixtures::web;

    use super::*;
    use crate::report::judged;

    #[test]
    fn rows_of_the_disclosure_that_have_one_label_keep_all_their_lines() {
        let (run, judgement) = judged(web::trade_off_and_failure());
        let json = json(&run, &judgement);
        let groups = disclosure::groups(&run, &judgement);
        for group in &groups {
            let lines = group.rows.iter().map(|row| row.lines.len()).sum::<usize>();
            let kept = json["disclosure"][group.title].as_object().unwrap();
            let kept = kept.values().map(|lines| lines.as_array().unwrap().len());
            assert_eq!(kept.sum::<usize>(), lines, "{}", group.title);
        }
        let failed = json["disclosure"]["Deviations"]["failed trials"].as_array();
        assert_eq!(failed.unwrap().len(), 4, "{json}");
    }
}
