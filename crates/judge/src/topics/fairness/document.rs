//! The fairness gate: what the checks found, on the terminal; all checks, as a page of the documentation.

use std::fmt::Write as _;

use crate::topics::fairness::{ALL, Check, Group};
use doc::Block;
use record::rundir::Run;
use record::verdict::Judgement;
use serde_json::{Value, json};

use crate::topics::fairness::tell::{in_vain, passed, summary, told};

/// What is amiss at length, and the names of what is not.
pub fn terminal(run: &Run, judgement: &Judgement, width: usize) -> String {
    let findings = &judgement.fairness;
    let mut blocks = differing(judgement);
    for check in told(findings) {
        blocks.push(Block::Text(format!("{}: {}", check.id, check.outcome)));
        let mut below = vec![Block::Text(check.question.into())];
        below.extend(Block::list(check.details));
        let why = check.why.map(|why| format!("why it matters: {why}"));
        let mend = check.mend.map(|mend| format!("to mend it: {mend}"));
        below.extend(why.into_iter().chain(mend).map(Block::Text));
        blocks.extend([Block::Indented(below), Block::Gap]);
    }
    let passed = passed(findings).into_iter();
    let passed = passed.map(|(group, ids)| format!("passed: {group}: {}", ids.join(", ")));
    let closing = summary(judgement)
        .into_iter()
        .chain(in_vain(run, judgement));
    blocks.extend(passed.chain(closing).map(Block::Text));
    doc::terminal::render(&blocks, width)
}

/// What differs, weighed.
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
            "id": check.id, "group": check.group.title(), "question": check.question, "reads": check.reads,
            "passes": check.passes, "why": check.why, "mend": check.mend, "needs_boot": !check.is_of_plan(),
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
        "\n### {}\n{}\n\n- Reads: {}.\n- Passes: {}.\n- Why it matters: {}\n- To mend it: {}.\n",
        check.id, check.question, check.reads, check.passes, check.why, check.mend
    )
}

const HEAD: &str = "# Fairness

What would make this comparison wrong? Each check below asks one question of that kind, from the plan or from the facts that every trial records, so that runs of earlier versions can be checked too.
This page is printed by `bakeoff show --checks`.

| outcome | what follows |
|---|---|
| pass | nothing |
| declared | the difference is named: by the plan (it is the question), by the kernels (they come so), by the kind of machine (all arms alike), or by `--accept ID=REASON` |
| violation | the headline is withheld; figures and intervals are printed all the same |
| not known | facts are missing, if only of one arm: it is said, and never passes |
| not applicable | the question does not arise: no server, no clients |

A list that an arm does not tell (its sysctls, its kernel's options) says nothing of that arm; what a list that is there lacks, the kernel lacks. A fact that is not the same in all trials of one arm is a violation of the check that reads it, with
the trials and their values, whatever the plan names. Not compared is what varies by itself: counters, times, random ids; lines of the boot log, the numbers of devices and of servers' workers where trials of one arm differ in them; sizes that a kernel works out
from the memory that it finds (`vm.min_free_kbytes`, `fs.file-max`, `user.max_*`) where they are less than 3 % apart.

What comes with different kernels (options, defaults of sysctls) is declared, unless the plan says `mode = \"controlled\"`: then what can be set alike in all arms must be, and `bakeoff show RUN --pin` prints what that is
([plan.md](plan.md#mode-and-pinned)). What differs is classified by what it can do to figures, and the settings in effect stand above it.

`bakeoff check` answers the checks that need no boot, and tells what others will find as far as the plan decides it: memory and CPUs that parameters take away, parameters, sysctls and limits that one arm alone has, fewer open files
or places in the listen queue than the load has connections. `bakeoff run` tells these violations before the first boot. After block 1 it tells all violations that were found, one line each with what would mend it, and after a later block
those that are new. Before the first test, after `min_blocks`, later trials can still set right what trials show: that is told as \"so far\", and at the first test again if it is still there. A run that goes on after an interruption tells again what was found before. Nothing stops by itself: interrupt it, mend the plan and begin again with another `--out`, or let it go on. At its end all checks are answered
from the whole run, and `bakeoff show RUN --fairness` prints what they find, also of a run that is still at work.

`--fail-on violation` (of `run`, `judge` and `fairness`) ends with status 1 where a check is violated; with `--fail-on regression` or `worse` an unfair comparison has no answer (status 3); the other gates do not ask. `--accept` is kept in `accepted.json` of the run
directory and stands with its reason beside the headline. What is accepted without need (the check passes) is kept and told; a name that is no check's is refused by `--accept` and told where `accepted.json` has it.
";
