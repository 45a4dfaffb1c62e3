//! What a headline hangs on, and at which loads an arm is better: what is shown of them in which form.

use record::verdict::robustness::{ByLoad, Robustness};
use record::verdict::{Conclusion, Judgement};

use crate::topics::robustness::tell as said;

/// Title of the table.
pub(crate) const TITLE: &str = "What the headline hangs on";

/// Whether a headline says anything that could hang on something.
fn is_said(judgement: &Judgement, one: &Robustness) -> bool {
    let mut headlines = judgement.headlines.iter();
    headlines.any(|headline| {
        let is_its = headline.workload == one.workload && headline.arm == one.arm;
        is_its && !matches!(headline.conclusion, Conclusion::Withheld { .. })
    })
}

/// The sensitivity of one arm's headline in a line.
pub(crate) fn line(judgement: &Judgement, of: (&str, &str)) -> Option<String> {
    said::line(find(judgement, of)?)
}

fn find<'j>(judgement: &'j Judgement, (workload, arm): (&str, &str)) -> Option<&'j Robustness> {
    let mut found = judgement.robustness.iter();
    let found = found.find(|one| one.workload == workload && one.arm == arm)?;
    is_said(judgement, found).then_some(found)
}

/// A workload's tables, their heads first: arms beside each other; empty where nothing is decided.
pub(crate) fn table(judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let arms = judgement.robustness.iter();
    let arms = arms.filter(|one| one.workload == workload && said::line(one).is_some());
    let found: Vec<(&str, Vec<[String; 2]>)> = arms
        .filter_map(|one| {
            let one = find(judgement, (workload, &one.arm))?;
            Some((&*one.arm, said::rows(one)))
        })
        .collect();
    let Some((_, first)) = found.first() else {
        return Vec::new();
    };
    let mut rows = vec![vec!["changed".to_string()]];
    rows[0].extend(found.iter().map(|(arm, _)| (*arm).to_string()));
    for (place, [name, _]) in first.iter().enumerate() {
        let mut row = vec![name.clone()];
        row.extend(found.iter().map(|(_, rows)| rows[place][1].clone()));
        rows.push(row);
    }
    rows
}

/// A workload's loads, of curves that are shown: title, table with its head, sentence.
pub(crate) fn loads(
    judgement: &Judgement,
    baseline: &str,
    workload: &str,
) -> Vec<(String, Vec<Vec<String>>, String)> {
    let its = judgement.by_load.iter();
    its.filter(|one| one.workload == workload && !is_empty(one))
        .map(|one| {
            (
                said::load_title(one, baseline),
                said::load_rows(one),
                said::load_sentence(one, baseline),
            )
        })
        .collect()
}

/// Whether a curve was zero all along, as one of failed requests is.
fn is_empty(one: &ByLoad) -> bool {
    one.loads.iter().all(|load| load.ratio.is_none())
}
