//! The fairness gate: what the checks found, on the terminal; all checks, as a page of the documentation.

use std::fmt::Write as _;

use ::fairness::{ALL, Check, Group};
use record::verdict::Judgement;

use crate::terminal::wrap;
use crate::words;
use crate::words::fairness::{passed, summary, told};

/// What is amiss at length, and the names of what is not.
pub(crate) fn terminal(judgement: &Judgement, width: usize) -> String {
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
| not known | facts are missing: it is said, and never passes |
| not applicable | the question does not arise |

What comes with different kernels (options, defaults of sysctls) is declared, unless the plan says `mode = \"controlled\"`: then what can be set alike in all arms must be, and `bakeoff fairness RUN --pin` prints what that is
([plan.md](plan.md#mode-and-pinned)). What differs is classified by what it can do to figures, and the settings in effect stand above it.

`bakeoff check` runs the checks that need no boot, `bakeoff run` all of them at its end, and `bakeoff fairness RUN` prints what they find, also of a run that is still at work. `--fail-on violation` (of `run`, `judge` and `fairness`) ends with status 1 where
one fails; with another `--fail-on` an unfair comparison has no answer, and the status is 2. `--accept` is kept in `accepted.json` of the run directory and stands in the report with its reason.
";
