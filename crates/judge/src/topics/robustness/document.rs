//! Lines and tables of what a headline depends on, and of the loads at which an arm is better.

use record::verdict::robustness::{ByLoad, Robustness};
use record::verdict::{Conclusion, Judgement};

use crate::topics::robustness::tell;

/// Title of the table.
pub(crate) const TITLE: &str = "How robust the headline is";

/// The sensitivity of one arm's headline in a line.
pub(crate) fn line(judgement: &Judgement, workload: &str, arm: &str) -> Option<String> {
    let mut all = judgement.robustness.iter();
    let robustness = all.find(|entry| entry.workload == workload && entry.arm == arm)?;
    if is_withheld(judgement, robustness) {
        return None;
    }
    tell::line(robustness)
}

fn is_withheld(judgement: &Judgement, robustness: &Robustness) -> bool {
    let mut headlines = judgement.headlines.iter();
    !headlines.any(|headline| {
        headline.workload == robustness.workload
            && headline.arm == robustness.arm
            && !matches!(headline.conclusion, Conclusion::Withheld { .. })
    })
}

/// A workload's table with its head, a column per arm; empty if nothing is decided.
pub(crate) fn table(judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let mut head = vec!["changed".to_string()];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for robustness in &judgement.robustness {
        if robustness.workload != workload
            || tell::line(robustness).is_none()
            || is_withheld(judgement, robustness)
        {
            continue;
        }
        head.push(robustness.arm.clone());
        for (index, [name, cell]) in tell::rows(robustness).into_iter().enumerate() {
            if rows.len() == index {
                rows.push(vec![name]);
            }
            rows[index].push(cell);
        }
    }
    if !rows.is_empty() {
        rows.insert(0, head);
    }
    rows
}

/// A workload's curves that are not zero throughout: title, table with its head, sentence.
pub(crate) fn loads(
    judgement: &Judgement,
    baseline: &str,
    workload: &str,
) -> Vec<(String, Vec<Vec<String>>, String)> {
    let is_shown = |curve: &&ByLoad| {
        curve.workload == workload && curve.loads.iter().any(|load| load.ratio.is_some())
    };
    let curves = judgement.by_load.iter().filter(is_shown);
    curves
        .map(|curve| {
            (
                tell::load_title(curve, baseline),
                tell::load_rows(curve),
                tell::load_sentence(curve, baseline),
            )
        })
        .collect()
}
