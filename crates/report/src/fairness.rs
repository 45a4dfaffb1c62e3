//! The fairness gate: what the checks found, on the terminal; all checks, as a page of the documentation.

use std::fmt::Write as _;

use ::fairness::{ALL, Check, Group};
use record::rundir::Run;
use record::verdict::Judgement;
use serde_json::{Value, json};

use crate::terminal::wrap;
use crate::words;
use crate::words::fairness::{in_vain, passed, summary, told};

/// What is amiss at length, and the names of what is not.
pub(crate) fn terminal(run: &Run, judgement: &Judgement, width: usize) -> String {
    let findings = &judgement.fairness;
    let mut lines = differing(judgement, width);
    for one in told(findings) {
        lines.extend(wrap(&format!("{}: {}", one.id, one.outcome), "", width));
        lines.extend(wrap(one.question, "    ", width));
        for detail in &one.details {
            lines.extend(wrap(detail, "    - ", width));
        }
        let why = one.why.map(|why| format!("why it matters: {why}"));
        let mend = one.mend.map(|mend| format!("to mend it: {mend}"));
        for said in why.into_iter().chain(mend) {
            lines.extend(wrap(&said, "    ", width));
        }
        lines.push(String::new());
    }
    for (group, ids) in passed(findings) {
        lines.extend(wrap(
            &format!("passed: {group}: {}", ids.join(", ")),
            "",
            width,
        ));
    }
    lines.extend(
        summary(judgement)
            .into_iter()
            .chain(in_vain(run, judgement))
            .flat_map(|said| wrap(&said, "", width)),
    );
    lines.join("\n") + "\n"
}

/// What differs, weighed.
fn differing(judgement: &Judgement, width: usize) -> Vec<String> {
    let said = words::weighed::line(judgement).into_iter();
    let said = said.chain(words::weighed::counts(judgement));
    let mut lines: Vec<String> = said.flat_map(|line| wrap(&line, "", width)).collect();
    let classes = words::weighed::lines(judgement);
    lines.extend(classes.iter().flat_map(|line| wrap(line, "- ", width)));
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// Version of the list; docs/json.md is its schema.
const LIST_VERSION: u32 = 1;

/// All checks, for machines.
pub(crate) fn list() -> Value {
    let check = |check: &&Check| {
        json!({
            "id": check.id, "group": check.group.title(), "question": check.question, "reads": check.reads,
            "passes": check.passes, "why": check.why, "mend": check.mend, "needs_boot": !check.is_of_plan(),
        })
    };
    json!({ "version": LIST_VERSION, "checks": ALL.iter().map(check).collect::<Vec<_>>() })
}

/// docs/fairness.md.
pub(crate) fn page() -> String {
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
This page is printed by `bakeoff fairness --list`.

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

What comes with different kernels (options, defaults of sysctls) is declared, unless the plan says `mode = \"controlled\"`: then what can be set alike in all arms must be, and `bakeoff fairness RUN --pin` prints what that is
([plan.md](plan.md#mode-and-pinned)). What differs is classified by what it can do to figures, and the settings in effect stand above it.

`bakeoff check` answers the checks that need no boot, and tells what others will find as far as the plan decides it: memory and CPUs that parameters take away, parameters, sysctls and limits that one arm alone has, fewer open files
or places in the listen queue than the load has connections. `bakeoff run` tells these violations before the first boot. After block 1 it tells all violations that were found, one line each with what would mend it, and after a later block
those that are new. Before the first test, after `min_blocks`, later trials can still set right what trials show: that is told as \"so far\", and at the first test again if it is still there. A run that goes on after an interruption tells again what was found before. Nothing stops by itself: interrupt it, mend the plan and begin again with another `--out`, or let it go on. At its end all checks are answered
from the whole run, and `bakeoff fairness RUN` prints what they find, also of a run that is still at work.

`--fail-on violation` (of `run`, `judge` and `fairness`) ends with status 1 where a check is violated; with a gate of the verdict (`worse`, `any-worse`, `undecided`) an unfair comparison has no answer, and the status is 2; the other gates do not ask. `--accept` is kept in `accepted.json` of the run
directory and stands with its reason beside the headline. What is accepted without need (the check passes) is kept and told; a name that is no check's is refused by `--accept` and told where `accepted.json` has it.
";
