//! The judgement as JSON: its data with the run's disclosure, and beside what `words` has a sentence for, that sentence as `text`.

use record::rundir::Run;
use record::verdict::Judgement;
use record::verdict::fairness::accepted;
use serde_json::{Value, json};

use crate::disclosure;
use crate::words::{defect, fairness, limit, reason, robustness, soak, warning, weighed};

/// The judgement with its sentences.
pub fn json(run: &Run, judgement: &Judgement) -> Value {
    let mut value = serde_json::to_value(judgement).expect("a judgement has string keys only");
    let comparisons = value["comparisons"].as_array_mut().into_iter().flatten();
    for (value, comparison) in comparisons.zip(&judgement.comparisons) {
        value["text"] = reason::reason(comparison).into();
    }
    let gates = judgement.gates.iter().map(warning::gate);
    add_texts(&mut value["gates"], gates);
    let defects = judgement.defects.found.iter();
    let defects = defects.map(|one| defect::of_arm(run, one));
    add_texts(&mut value["defects"]["found"], defects);
    value["defects"]["text"] = defect::summary(run, judgement).into();
    let setbacks = judgement.setbacks.iter().map(warning::setback);
    add_texts(&mut value["setbacks"], setbacks);
    add_texts(&mut value["warnings"], warning::warnings(judgement));
    let classes = judgement.weighed.classes.iter();
    let can = classes.map(|one| weighed::can(one.class).to_string());
    add_texts(&mut value["weighed"]["classes"], can);
    value["weighed"]["text"] = weighed::line(judgement).into();
    let summaries = value["arm_summaries"].as_array_mut().into_iter().flatten();
    for (value, summary) in summaries.zip(&judgement.arm_summaries) {
        if let Some(own) = &summary.limit {
            value["limit"]["text"] = limit::limit(own).into();
        }
    }
    let headlines = value["headlines"].as_array_mut().into_iter().flatten();
    for (value, headline) in headlines.zip(&judgement.headlines) {
        let of_whom = (&*headline.workload, &*headline.arm, &*run.plan.baseline);
        let accepted = accepted(&judgement.fairness, of_whom);
        let accepted = accepted.map(|(one, reason)| json!({ "id": one.id, "reason": reason }));
        let accepted: Vec<Value> = accepted.collect();
        if !accepted.is_empty() {
            value["accepted"] = accepted.into();
        }
    }
    let in_vain = ::fairness::in_vain(&run.accepted, &judgement.fairness);
    let in_vain = in_vain.iter();
    let in_vain = in_vain.map(|one| json!({ "id": one.id(), "text": fairness::vain(one) }));
    let in_vain: Vec<Value> = in_vain.collect();
    if !in_vain.is_empty() {
        value["accepted_in_vain"] = in_vain.into();
    }
    value["disclosure"] = disclosure::json(run, judgement);
    let hangs_on = judgement.robustness.iter();
    let hangs_on = hangs_on.map(|one| robustness::line(one).unwrap_or_default());
    add_texts(&mut value["robustness"], hangs_on);
    let soaks = value.get_mut("soaks").and_then(Value::as_array_mut);
    let soaks = soaks.into_iter().flatten();
    for (value, one) in soaks.zip(&judgement.soaks) {
        let said = soak::sentences(one, &run.plan.baseline);
        value["text"] = said.into();
    }
    value["a_a"]["text"] = robustness::history(judgement).into();
    value
}

fn add_texts(list: &mut Value, texts: impl IntoIterator<Item = String>) {
    for (value, text) in list.as_array_mut().into_iter().flatten().zip(texts) {
        value["text"] = text.into();
    }
}
