//! Parts of an HTML page. The template escapes all text; a page is self-contained and loads nothing.

use base::input::text::escaped;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{Block, Headline, Notice, RemarkKind, Table};

/// A page.
pub struct Page<'p> {
    /// Title of the window.
    pub title: &'p str,
    /// Content security policy.
    pub policy: &'p str,
    /// Style sheets.
    pub style: &'p str,
    /// Name and version of the generating program.
    pub generator: &'p str,
    /// Content of the body.
    pub body: Markup,
}

impl Page<'_> {
    /// The page as text. Characters that a browser would interpret, such as changes of the writing direction, are written out.
    pub fn finish(self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content=(self.policy);
                    meta name="generator" content=(self.generator);
                    title { (self.title) " - bakeoff" }
                    style { (PreEscaped(self.style)) }
                }
                body { (self.body) }
            }
        };
        escaped(&page.into_string())
    }
}

/// Blocks, one below the other.
pub fn render(blocks: &[Block]) -> Markup {
    html! { @for block in blocks { (markup(block)) } }
}

fn markup(block: &Block) -> Markup {
    match block {
        Block::Title(title) => html! { h1 { (title) } },
        Block::Section(title) => html! { h2 { (title) } },
        Block::Heading(title) => html! { h3 { (capital(title)) } },
        Block::Text(text) | Block::Lead(text) => html! { p { (sentence(text)) } },
        Block::Sub(text) => html! { p.sub { (sentence(text)) } },
        Block::List(items) => html! { ul { @for item in items { li { (sentence(item)) } } } },
        Block::Notice(notice) => boxed(notice),
        Block::Table(shown) => table(shown),
        Block::Headline(headline) => headline_markup(headline),
        Block::Folded(summary, blocks) => html! {
            details { summary { (summary) } (render(blocks)) }
        },
        Block::Drawing(drawing) => drawing.clone(),
        Block::Indented(blocks) => render(blocks),
        Block::Gap => Markup::default(),
    }
}

/// A box with a title and a list.
pub fn boxed(notice: &Notice) -> Markup {
    html! {
        section.boxed.(notice.class) #(notice.class) aria-label=(notice.title) {
            h2 { (notice.title) }
            ul { @for item in &notice.items { li { (item) } } }
        }
    }
}

/// A table that scrolls sideways if necessary.
pub fn table(table: &Table) -> Markup {
    let (header, rows) = table.rows.split_first().expect("a table has a header");
    let figure_class = |column: usize| (column >= table.names).then_some("n");
    let name_class = |name: &str| {
        if name.starts_with(' ') {
            Some("in")
        } else {
            figure_class(0)
        }
    };
    let class = (!table.class.is_empty()).then_some(table.class);
    let has_cards = table.class.split(' ').any(|class| class == "cards");
    let figure = |cell: &str| {
        if has_cards {
            unbroken(cell)
        } else {
            cell.into()
        }
    };
    html! {
        div.scroll.tall[table.is_long] { table class=[class] {
            thead { tr { @for (column, cell) in header.iter().enumerate() { th class=[figure_class(column)] scope="col" { (cell) } } } }
            tbody { @for row in rows { tr {
                th class=[name_class(&row[0])] scope="row" { (row[0].trim()) }
                @for (column, cell) in row.iter().enumerate().skip(1) {
                    td class=[figure_class(column)] data-name=[has_cards.then_some(&header[column])] { (figure(cell)) }
                }
            } } }
        } }
    }
}

fn headline_markup(headline: &Headline) -> Markup {
    html! {
        div class={ "headline " (headline.badge) } {
            p { (pill(headline.badge)) }
            p.said { (sentence(&headline.text)) }
            @if !headline.findings.is_empty() {
                ul { @for finding in &headline.findings { li { (unbroken(finding)) } } }
            }
            p.sub { (headline.reason) }
            @for remark in &headline.remarks { @match remark.kind {
                RemarkKind::Robustness => {}
                RemarkKind::Cause => { p.cause { b { "Why" } " " (sentence(&remark.text)) } }
                _ => { p.limit { (sentence(&remark.text)) } }
            } }
        }
    }
}

/// A sentence with a full stop at its end.
pub fn sentence(text: &str) -> String {
    let stop = if text.ends_with(['.', ')', '?']) {
        ""
    } else {
        "."
    };
    format!("{}{stop}", unbroken(text))
}

/// The text with a capital first letter.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// The text with a non-breaking space before each percent sign.
pub fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

/// A section of a page with a title.
pub fn section(id: &str, title: &str, blocks: &[Block]) -> Markup {
    html! { section id=(id) { h2 { (title) } (render(blocks)) } }
}

/// A verdict or status as a badge.
pub fn pill(word: &str) -> Markup {
    html! { span class={ "pill " (word) } { (word) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_cards_name_their_figures() {
        let rows = [["arm", "rate, %"], ["<b>", "7 %"]].map(|row| row.map(String::from).to_vec());
        let table = Table::new(rows.to_vec(), 1).cards("cards");
        let page = Page {
            title: "a<b",
            policy: "default-src 'none'",
            style: "",
            generator: "bakeoff",
            body: render(&[Block::Table(table), Block::Text("red\u{202e}der".into())]),
        };
        let page = page.finish();
        let row =
            "<th scope=\"row\">&lt;b&gt;</th><td class=\"n\" data-name=\"rate, %\">7\u{a0}%</td>";
        assert!(page.contains(row), "{page}");
        assert!(page.contains(r"<p>red\u{202e}der.</p>"), "{page}");
        assert!(page.contains("<title>a&lt;b - bakeoff</title>"), "{page}");
    }
}
