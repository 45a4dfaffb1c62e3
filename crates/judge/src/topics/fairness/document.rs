//! Results of the fairness checks for the terminal, and the list of all checks for the documentation.

use std::fmt::Write as _;

use crate::topics::fairness::{ALL, Check, Group};
use doc::Block;
use record::rundir::Run;
use record::verdict::Judgement;
use serde_json::{Value, json};

use crate::topics::fairness::tell::{explained, passed, summary, unused_acceptances};

/// Failed, accepted and unknown checks with explanations, and the names of passed ones.
pub fn terminal(run: &Run, judgement: &Judgement, width: usize) -> String {
    let results = &judgement.fairness;
    let mut blocks = differing(judgement);
    for check in explained(results) {
        blocks.push(Block::Text(format!("{}: {}", check.id, check.outcome)));
        let mut below = vec![Block::Text(check.must_hold)];
        below.extend(Block::list(check.details));
        let why = check.why.map(|why| format!("why it matters: {why}"));
        let mend = check.mend.map(|mend| format!("to mend it: {mend}"));
        below.extend(why.into_iter().chain(mend).map(Block::Text));
        blocks.extend([Block::Indented(below), Block::Gap]);
    }
    for (group, ids) in passed(results) {
        blocks.push(Block::Text(format!("passed: {group}: {}", ids.join(", "))));
    }
    let closing = summary(judgement)
        .into_iter()
        .chain(unused_acceptances(run, judgement));
    blocks.extend(closing.map(Block::Text));
    doc::terminal::render(&blocks, width)
}

/// The differences between arms, by their possible effect.
fn differing(judgement: &Judgement) -> Vec<Block> {
    let lines = crate::topics::differences::tell::line(judgement).into_iter();
    let lines = lines.chain(crate::topics::differences::tell::counts(judgement));
    let mut blocks: Vec<Block> = lines.map(Block::Text).collect();
    blocks.extend(Block::list(crate::topics::differences::tell::lines(
        judgement,
    )));
    if !blocks.is_empty() {
        blocks.push(Block::Gap);
    }
    blocks
}

/// Version of the list; docs/reference/json.md is its schema.
const LIST_VERSION: u32 = 1;

/// All checks, for machines.
pub fn list() -> Value {
    let check = |check: &&Check| {
        json!({
            "id": check.id, "group": check.group.title(), "must_hold": check.must_hold(), "why": check.why,
            "mend": check.mend, "reads": check.reads, "needs_boot": !check.is_of_plan(),
        })
    };
    json!({ "version": LIST_VERSION, "checks": ALL.iter().map(check).collect::<Vec<_>>() })
}

/// docs/reference/fairness.md.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    for group in Group::ALL {
        let _ = write!(page, "\n## {}\n", group.title());
        let of_group = ALL.iter().filter(|check| check.group == group);
        of_group.for_each(|check| page.push_str(&section(check)));
    }
    page
}

fn section(check: &Check) -> String {
    format!(
        "\n### {}\n{}\n\n- Why: {}\n- To mend it: {}\n- Reads: {}.\n",
        check.id,
        check.must_hold(),
        check.why,
        check.mend,
        check.reads
    )
}

const HEAD: &str = "# Fairness

Each check below names a condition of a fair comparison. The first line of an entry says what must hold.
`bakeoff show --checks` prints this page, and `bakeoff show RUN --fairness` prints the results of a run.

| status | meaning |
|---|---|
| passed | the condition holds |
| failed | the condition does not hold: the headline is withheld, figures and intervals are still printed |
| accepted | the arms differ, and the plan, the kernels, the kind of machine or the user accept it |
| unknown | a fact is missing, if only in one arm |
| not applicable | the condition needs something that the run does not have, such as a server or clients |

**Mend or accept.** `bakeoff check` runs the checks that need no boot. It also predicts other failures that the plan causes.
`bakeoff run` reports failed checks before the first boot, after block 1, and when new ones appear.
Until the first interim analysis, later trials may still change the result. The run does not stop.
Stop it and correct the plan, or accept a difference with `bakeoff show RUN --accept ID=REASON`.
The report prints the reason below the headline, and `accepted.json` in the run directory keeps it.

**Kernel defaults.** Options and sysctls that come with different kernels are accepted.
With `mode = \"controlled\"`, they fail if a setting can make them equal; `bakeoff show RUN --pin` prints those settings
([plan.md](plan.md#mode-and-pinned)).

**What counts as a difference.** A check fails if a fact differs between trials of the same arm.
Counters, times and random ids are not compared. Sizes that kernels derive from memory may differ by less than 3 %.
If an arm reports no list of sysctls or options, the check is unknown. If one list lacks an entry, the arms differ.

**Gates.** `--fail-on unfair` exits with status 1 if a check failed. With `--fail-on regression` or `worse`, a failed
check exits with status 3, because the comparison has no answer. Other gates ignore the checks.
";
