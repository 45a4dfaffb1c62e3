//! Parts of a page. The template escapes all text; a page stands alone and loads nothing.

use base::input::text::escaped;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{Block, Headline, Notice, RemarkKind, Table};

/// A page: its title, what it may load, its style, who made it, its body.
pub struct Page<'p> {
    /// As the window shows it.
    pub title: &'p str,
    /// The content security policy.
    pub policy: &'p str,
    /// Style sheets.
    pub style: &'p str,
    /// The program that made it, with its version.
    pub generator: &'p str,
    /// What it shows.
    pub body: Markup,
}

impl Page<'_> {
    /// The page as text. What would turn the direction of writing, or be obeyed otherwise, is written out as on a terminal.
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

/// Blocks one below the other.
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

/// A box of sentences.
pub fn boxed(notice: &Notice) -> Markup {
    html! {
        section.boxed.(notice.class) aria-label=(notice.title) {
            h2 { (notice.title) }
            ul { @for item in &notice.items { li { (item) } } }
        }
    }
}

/// A table that scrolls sideways where it must.
pub fn table(table: &Table) -> Markup {
    let (head, rows) = table.rows.split_first().expect("a table has its head");
    let kind = |place: usize| (place >= table.names).then_some("n");
    let name_kind = |name: &str| {
        if name.starts_with(' ') {
            Some("in")
        } else {
            kind(0)
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
            thead { tr { @for (place, cell) in head.iter().enumerate() { th class=[kind(place)] scope="col" { (cell) } } } }
            tbody { @for row in rows { tr {
                th class=[name_kind(&row[0])] scope="row" { (row[0].trim()) }
                @for (place, cell) in row.iter().enumerate().skip(1) {
                    td class=[kind(place)] data-name=[has_cards.then_some(&head[place])] { (figure(cell)) }
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

/// A sentence with its full stop.
pub fn sentence(text: &str) -> String {
    let stop = if text.ends_with(['.', ')', '?']) {
        ""
    } else {
        "."
    };
    format!("{}{stop}", unbroken(text))
}

/// A text that begins with a capital letter.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// A number stays with its percent sign.
pub fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

/// A part of a page with its title.
pub fn section(id: &str, title: &str, blocks: &[Block]) -> Markup {
    html! { section id=(id) { h2 { (title) } (render(blocks)) } }
}

/// A verdict, or what several come to, as a badge.
pub fn pill(word: &str) -> Markup {
    html! { span class={ "pill " (word) } { (word) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_markup_and_figures_say_what_they_are() {
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
