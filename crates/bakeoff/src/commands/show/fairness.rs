//! Whether a run's comparison is fair.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use record::rundir;
use record::rundir::{ACCEPTED, RunDir};
use serde_json::json;

use crate::cli::show::ShowArgs;
use crate::commands::report::width;
use crate::commands::{End, gate, print_json};
use crate::out;

/// Prints the list of checks.
pub(super) fn list(json: bool) -> Result<End> {
    if json {
        print_json(&judge::report::fairness_list())?;
    } else {
        out::text(&judge::report::fairness_page());
    }
    Ok(End::Done)
}

/// Prints the findings of all checks, or the table that would make the arms equal.
pub(super) fn show(path: &Path, args: &ShowArgs, json: bool) -> Result<End> {
    let accepted = read(&args.accept)?;
    if !accepted.is_empty() {
        let run = rundir::load(path, &workload::check)?;
        accept(&RunDir::open(path, &run.plan_text)?, accepted.clone())?;
    }
    let run = rundir::load(path, &workload::check)?;
    let judgement = judge::interim(&run);
    for unused in judge::topics::fairness::unused_acceptances(&accepted, &judgement.fairness) {
        out::error_line(&format!(
            "--accept {}: {}",
            unused.id(),
            judge::report::unused_acceptance(&unused)
        ));
    }
    if args.pin {
        let table = judge::report::pinned(&run.plan, &judgement);
        if json {
            print_json(&json!({ "pinned": table }))?;
        } else {
            out::text(&table);
        }
        return Ok(End::Done);
    }
    if json {
        let unused =
            judge::topics::fairness::unused_acceptances(&run.accepted, &judgement.fairness);
        let unused = unused.iter().map(
            |unused| json!({ "id": unused.id(), "text": judge::report::unused_acceptance(unused) }),
        );
        print_json(&json!({
            "fairness": judgement.fairness, "weighed": judgement.weighed,
            "unused_acceptances": unused.collect::<Vec<_>>(),
        }))?;
    } else {
        out::text(&judge::report::fairness_terminal(&run, &judgement, width()));
    }
    Ok(gate::gate(&run, &judgement, args.fail_on))
}

/// Adds accepted differences to a run's directory.
pub(in crate::commands) fn accept(dir: &RunDir, accepted: BTreeMap<String, String>) -> Result<()> {
    if accepted.is_empty() {
        return Ok(());
    }
    let mut all = rundir::load_accepted(dir.path())?;
    all.extend(accepted);
    dir.write(ACCEPTED, &serde_json::to_vec_pretty(&all)?)
}

/// Reads `ID=REASON` options: the reason by the id of the check.
pub(in crate::commands) fn read(accepted: &[String]) -> Result<BTreeMap<String, String>> {
    let mut read = BTreeMap::new();
    for text in accepted {
        let (id, reason) = text.split_once('=').unwrap_or((text, ""));
        if judge::topics::fairness::find(id).is_none() {
            bail!(
                "--accept {text}: no such check: {id:?} (the nearest is {:?}; bakeoff show --checks lists all)",
                judge::report::nearest_check(id)
            );
        }
        if reason.trim().is_empty() {
            bail!("--accept {text}: no reason (write --accept {id}='why it is fair all the same')");
        }
        if read
            .insert(id.to_string(), reason.trim().to_string())
            .is_some()
        {
            bail!("--accept {text}: {id} is accepted twice (leave one reason)");
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_and_a_reason_are_needed() {
        let result = |text: &str| read(&[text.into()]).map_err(|why| why.to_string());
        assert_eq!(
            result("memory=it is the question").unwrap()["memory"],
            "it is the question"
        );
        assert!(
            result("memery=x")
                .unwrap_err()
                .contains("no such check: \"memery\"")
        );
        assert!(
            result("memery=x")
                .unwrap_err()
                .contains("the nearest is \"memory\"")
        );
        let twice = read(&["memory=a".into(), "memory=b".into()]).map_err(|why| why.to_string());
        assert_eq!(
            twice.unwrap_err(),
            "--accept memory=b: memory is accepted twice (leave one reason)"
        );
        assert!(result("memory").unwrap_err().contains("no reason"));
        assert!(result("memory= ").unwrap_err().contains("no reason"));
    }
}
