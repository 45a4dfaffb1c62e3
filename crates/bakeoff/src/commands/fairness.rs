//! `fairness`: what would make a run's comparison wrong.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use record::rundir::{self, ACCEPTED, RunDir};
use serde_json::json;

use super::{End, gate, print_json, report::width};
use crate::cli::FairnessArgs;
use crate::out;

/// Prints what all checks found, or all checks, or what would make arms alike.
pub(super) fn fairness(args: &FairnessArgs, json: bool) -> Result<End> {
    let Some(path) = &args.dir else {
        out::text(&::report::fairness_page());
        return Ok(End::Done);
    };
    let accepted = read(&args.accept)?;
    if !accepted.is_empty() {
        let run = rundir::load(path, &workload::check)?;
        accept(&RunDir::open(path, &run.plan_text)?, accepted)?;
    }
    let run = rundir::load(path, &workload::check)?;
    let judgement = verdict::look(&run);
    if args.pin {
        let table = ::report::pinned(&run.plan, &judgement);
        if json {
            print_json(&json!({ "pinned": table }))?;
        } else {
            out::text(&table);
        }
        return Ok(End::Done);
    }
    if json {
        print_json(&json!({ "fairness": judgement.fairness, "weighed": judgement.weighed }))?;
    } else {
        out::text(&::report::fairness_terminal(&judgement, width()));
    }
    gate::gate(&run, &judgement, args.fail_on)
}

/// Keeps in a run's directory what the user takes for declared.
pub(super) fn accept(dir: &RunDir, accepted: BTreeMap<String, String>) -> Result<()> {
    if accepted.is_empty() {
        return Ok(());
    }
    let mut all = rundir::load_accepted(dir.path())?;
    all.extend(accepted);
    dir.write(ACCEPTED, &serde_json::to_vec_pretty(&all)?)
}

/// `ID=REASON` of each.
pub(super) fn read(accepted: &[String]) -> Result<BTreeMap<String, String>> {
    let mut read = BTreeMap::new();
    for text in accepted {
        let (id, reason) = text.split_once('=').unwrap_or((text, ""));
        if ::fairness::find(id).is_none() {
            bail!("--accept {text}: no such check: {id:?} (bakeoff fairness --list names all)");
        }
        if reason.trim().is_empty() {
            bail!("--accept {text}: no reason (write --accept {id}='why it is fair all the same')");
        }
        read.insert(id.to_string(), reason.trim().to_string());
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_and_a_reason_are_needed() {
        let said = |text: &str| read(&[text.into()]).map_err(|why| why.to_string());
        assert_eq!(
            said("memory=it is the question").unwrap()["memory"],
            "it is the question"
        );
        assert!(
            said("memery=x")
                .unwrap_err()
                .contains("no such check: \"memery\"")
        );
        assert!(said("memory").unwrap_err().contains("no reason"));
        assert!(said("memory= ").unwrap_err().contains("no reason"));
    }
}
