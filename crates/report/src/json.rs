//! What was judged, for machines: a small summary whose keys are promised, and the whole judgement behind it.

use record::metric::MetricSpec;
use record::rundir::Run;
use record::verdict::fairness::{Outcome, accepted};
use record::verdict::{ArmSummary, Comparison, Headline, Judgement};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::words::{self, defect, disclosure, fairness, reason, run_state, warning};

/// Version of the summary; docs/json.md describes it.
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
        "headlines": headlines.map(|one| headline(run, judgement, one)).collect::<Vec<_>>(),
        "comparisons": judgement.comparisons.iter().map(comparison).collect::<Vec<_>>(),
        "findings": findings(run, judgement),
        "arms": arms.map(arm).collect::<Vec<_>>(),
        "disclosure": disclosed(run, judgement),
        "details": judgement,
    })
}

fn headline(run: &Run, judgement: &Judgement, headline: &Headline) -> Value {
    let (workload, arm) = (&*headline.workload, &*headline.arm);
    let words = words::headlines(run, judgement, &[]);
    let words = words.into_iter().find(|words| {
        let is_of_arm = words.arm == arm;
        is_of_arm && words.workload == workload
    });
    let (text, reason) = words.map_or_else(Default::default, |words| {
        (words.block.text, words.block.reason)
    });
    let pair = (workload, arm, &*run.plan.baseline);
    let accepted = accepted(&judgement.fairness, pair);
    let accepted = accepted.map(|(check, reason)| json!({ "id": check.id, "reason": reason }));
    json!({
        "workload": workload, "arm": arm, "verdict": headline.conclusion.word(),
        "against": headline.conclusion.against(), "text": text, "reason": reason,
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

/// How much a finding weighs.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Severity {
    /// The arm fails.
    Gate,
    /// The comparison is not fair.
    Violation,
    /// A reader must know it beside the figures.
    Warning,
    /// A difference that the plan or the user names.
    Declared,
    /// A check without an answer.
    NotKnown,
}

/// Everything beside the figures, the gravest first.
fn findings(run: &Run, judgement: &Judgement) -> Vec<Value> {
    let mut all = Vec::new();
    for gate in &judgement.gates {
        let text = warning::gate(gate);
        all.push(finding(Severity::Gate, &json!(gate.failure), gate, &text));
    }
    for check in &judgement.fairness {
        let severity = match check.outcome {
            Outcome::Violation { .. } => Severity::Violation,
            Outcome::Declared { .. } => Severity::Declared,
            Outcome::NotKnown { .. } => Severity::NotKnown,
            Outcome::Pass | Outcome::NotApplicable => continue,
        };
        let told = fairness::told(std::slice::from_ref(check)).into_iter();
        let texts = told.flat_map(|check| [vec![check.outcome], check.details].concat());
        let text = texts.collect::<Vec<_>>().join("; ");
        let kind = json!({ "kind": check.id });
        all.push(finding(severity, &kind, check, &text));
    }
    for setback in &judgement.setbacks {
        let text = warning::setback(setback);
        all.push(finding(Severity::Warning, &json!(setback), setback, &text));
    }
    let texts = warning::warnings(judgement);
    for (warning, text) in judgement.warnings.iter().zip(texts) {
        all.push(finding(Severity::Warning, &json!(warning), warning, &text));
    }
    for found in &judgement.defects.found {
        let text = defect::of_arm(run, found);
        all.push(finding(Severity::Warning, &json!(found), found, &text));
    }
    all
}

fn finding(severity: Severity, kind: &Value, data: &impl Serialize, text: &str) -> Value {
    let data = json!(data);
    json!({
        "id": kind["kind"], "severity": severity, "workload": data["workload"], "arm": data["arm"],
        "text": text,
    })
}

/// Groups of labels with their lines.
fn disclosed(run: &Run, judgement: &Judgement) -> Value {
    let groups = disclosure::groups(run, judgement).into_iter();
    let groups = groups.map(|group| {
        let rows = group.rows.into_iter();
        let rows = rows.map(|row| (row.label, json!(row.lines)));
        (
            group.title.to_string(),
            rows.collect::<Map<String, Value>>().into(),
        )
    });
    groups.collect::<Map<String, Value>>().into()
}
