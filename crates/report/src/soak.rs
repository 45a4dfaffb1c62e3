//! What long trials say, in all three forms.

use maud::{Markup, html};
use record::verdict::Judgement;
use record::verdict::soak::Soak;

use crate::{markdown, terminal, words};

/// What it is called.
pub(crate) const TITLE: &str = "Over time";

/// Most parts of a window that a mail or a terminal shows.
const MOST_ROWS: usize = 31;

/// That of a workload.
pub(crate) fn of<'j>(judgement: &'j Judgement, workload: &str) -> Option<&'j Soak> {
    judgement.soaks.iter().find(|one| one.workload == workload)
}

/// The page's part.
pub(crate) fn section(judgement: &Judgement, workload: &str, baseline: &str) -> Markup {
    let Some(soak) = of(judgement, workload) else {
        return Markup::default();
    };
    html! {
        h3 { (TITLE) }
        ul { @for said in words::soak::sentences(soak, baseline) { li { (said) "." } } }
        (table(&words::soak::rows(soak)))
        @for (title, rows) in parts(soak) {
            details {
                summary { (title) }
                div.scroll.tall { (table(&rows)) }
            }
        }
    }
}

fn table(rows: &[Vec<String>]) -> Markup {
    let Some((head, rows)) = rows.split_first() else {
        return Markup::default();
    };
    html! {
        div.scroll { table {
            thead { tr { @for cell in head { th.n { (cell) } } } }
            tbody { @for row in rows { tr {
                th scope="row" { (row[0]) }
                @for cell in &row[1..] { td.n { (cell) } }
            } } }
        } }
    }
}

/// The window by days and by hours, as far as there are any.
fn parts(soak: &Soak) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let days = words::soak::part_rows(soak, |arm| &arm.by_day, "day");
    let hours = words::soak::part_rows(soak, |arm| &arm.by_hour, "hour");
    let all = [("Day by day", days), ("Hour by hour", hours)];
    all.into_iter().filter(|(_, rows)| rows.len() > 1).collect()
}

/// The shortest of these that tells, for a mail or a terminal.
fn short(soak: &Soak) -> Option<(&'static str, Vec<Vec<String>>)> {
    let mut all = parts(soak);
    all.truncate(1);
    let (title, mut rows) = all.pop()?;
    rows.truncate(MOST_ROWS + 1);
    Some((title, rows))
}

/// For a mail or a pull request.
pub(crate) fn markdown_parts(judgement: &Judgement, workload: &str, baseline: &str) -> Vec<String> {
    let Some(soak) = of(judgement, workload) else {
        return Vec::new();
    };
    let sentences = words::soak::sentences(soak, baseline);
    let items = sentences
        .iter()
        .map(|said| format!("- {}\n", markdown::text(said)));
    let mut all = vec![format!("{TITLE}:\n\n{}", items.collect::<String>())];
    all.extend(markdown::table(&words::soak::rows(soak)));
    if let Some((title, rows)) = short(soak) {
        let rows = markdown::table(&rows).unwrap_or_default();
        all.push(format!("{title}:\n\n{rows}"));
    }
    all
}

/// For a terminal.
pub(crate) fn terminal_lines(
    judgement: &Judgement,
    workload: &str,
    baseline: &str,
    width: usize,
) -> Vec<String> {
    let Some(soak) = of(judgement, workload) else {
        return Vec::new();
    };
    let mut lines = vec![String::new(), format!("{workload}, over time:")];
    let sentences = words::soak::sentences(soak, baseline);
    lines.extend(
        sentences
            .iter()
            .flat_map(|said| terminal::wrap(said, "- ", width)),
    );
    lines.push(String::new());
    lines.extend(terminal::table(&words::soak::rows(soak), 1, width));
    lines
}
