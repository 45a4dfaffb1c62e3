//! Plain text with lines of a given width; only longer words exceed it.

use anstyle::{AnsiColor, Style};
use base::input::text::escaped;
use textwrap::{WordSeparator, WordSplitter};

use crate::{Block, Headline, RemarkKind};

/// Space between columns.
const GAP: &str = "  ";

/// Indentation of text that belongs to a sentence.
const INDENT: &str = "    ";

/// The form of the text. A number is the width of plain text, in columns.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Columns.
    pub width: usize,
    /// Whether headlines are bold, in the colour of their verdict.
    pub has_colour: bool,
}

impl From<usize> for Form {
    fn from(width: usize) -> Self {
        Self {
            width,
            has_colour: false,
        }
    }
}

/// Renders a report, with a line break at its end.
pub fn render(blocks: &[Block], form: impl Into<Form>) -> String {
    lines(blocks, form.into()).join("\n") + "\n"
}

fn lines(blocks: &[Block], form: Form) -> Vec<String> {
    blocks
        .iter()
        .flat_map(|block| block_lines(block, form))
        .collect()
}

fn block_lines(block: &Block, form: Form) -> Vec<String> {
    let width = form.width;
    match block {
        Block::Text(text) | Block::Sub(text) | Block::Lead(text) | Block::Title(text) => {
            wrap(text, "", width)
        }
        Block::Heading(title) => wrap(&format!("{title}:"), "", width),
        Block::List(items) => listed(items, "- ", width),
        Block::Notice(notice) => {
            let mut lines = vec![String::new(), format!("{}:", uncapitalized(notice.title))];
            lines.extend(listed(&notice.items, "- ", width));
            lines
        }
        Block::Table(shown) => table(&shown.rows, shown.names, width),
        Block::Headline(headline) => headline_lines(headline, form),
        Block::Indented(blocks) => {
            let width = width.saturating_sub(INDENT.len());
            let inner = lines(blocks, Form { width, ..form }).into_iter();
            inner.map(|line| format!("{INDENT}{line}")).collect()
        }
        Block::Gap => vec![String::new()],
        Block::Section(_) | Block::Folded(..) | Block::Drawing(_) => Vec::new(),
    }
}

fn listed(items: &[String], bullet: &str, width: usize) -> Vec<String> {
    items
        .iter()
        .flat_map(|item| wrap(item, bullet, width))
        .collect()
}

/// The colour of a verdict; none if it favours neither arm.
fn style(badge: &str) -> Style {
    let colour = match badge {
        "better" => Some(AnsiColor::Green),
        "worse" | "failed" => Some(AnsiColor::Red),
        "trade-off" | "model-dependent" | "withheld" => Some(AnsiColor::Yellow),
        _ => None,
    };
    Style::new().bold().fg_color(colour.map(Into::into))
}

fn headline_lines(headline: &Headline, form: Form) -> Vec<String> {
    let width = form.width;
    let scope = headline.scope.as_ref();
    let scope = scope.map_or(String::new(), |scope| format!("{scope}: "));
    // "7.2 failed" needs no "failed" before it.
    let badge = match headline.badge {
        "failed" => String::new(),
        badge => format!("{badge}: "),
    };
    let mut lines = wrap(&format!("{scope}{badge}{}", headline.text), "", width);
    if form.has_colour {
        let style = style(headline.badge);
        lines = lines
            .iter()
            .map(|line| format!("{style}{line}{style:#}"))
            .collect();
    }
    let findings = headline.findings.iter();
    lines.extend(findings.flat_map(|text| wrap(text, "    - ", width)));
    lines.extend(wrap(&headline.reason, INDENT, width));
    for remark in &headline.remarks {
        let text = match remark.kind {
            RemarkKind::Cause => format!("why: {}", remark.text),
            _ => remark.text.clone(),
        };
        lines.extend(wrap(&text, INDENT, width));
    }
    lines
}

fn uncapitalized(title: &str) -> String {
    let mut letters = title.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// Renders a table whose first `left` columns are left-aligned. If it is too wide, every row becomes lines of `name value`.
pub fn table(rows: &[Vec<String>], left: usize, width: usize) -> Vec<String> {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| plain(cell)).collect())
        .collect();
    let columns = rows[0].len();
    let widest = |column: usize| {
        rows.iter()
            .map(|row| length(&row[column]))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    if widths.iter().sum::<usize>() + GAP.len() * (columns - 1) > width {
        return stacked(&rows);
    }
    let mut lines: Vec<String> = rows.iter().map(|row| aligned(row, &widths, left)).collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    lines.insert(1, rule.join(GAP));
    lines
}

fn aligned(row: &[String], widths: &[usize], left: usize) -> String {
    let pad = |(column, cell): (usize, &String)| {
        let space = " ".repeat(widths[column] - length(cell));
        if column < left {
            format!("{cell}{space}")
        } else {
            format!("{space}{cell}")
        }
    };
    let cells: Vec<String> = row.iter().enumerate().map(pad).collect();
    cells.join(GAP).trim_end().to_string()
}

fn stacked(rows: &[Vec<String>]) -> Vec<String> {
    let (header, rows) = rows.split_first().expect("a table has a header");
    let names = header.iter().skip(1);
    let max_width = names.map(|name| length(name)).max().unwrap_or(0);
    let mut lines = Vec::new();
    for row in rows {
        lines.push(row[0].clone());
        for (name, cell) in header.iter().zip(row).skip(1) {
            let space = " ".repeat(max_width - length(name));
            lines.push(format!("  {name}{space}  {cell}"));
        }
    }
    lines
}

/// Wraps a text at `width` columns. The first line starts with `lead`; the others are indented by its width.
pub fn wrap(text: &str, lead: &str, width: usize) -> Vec<String> {
    let indent = " ".repeat(length(lead));
    let options = textwrap::Options::new(width)
        .initial_indent(lead)
        .subsequent_indent(&indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .break_words(false);
    let text = plain(text);
    let lines = textwrap::wrap(&text, options).into_iter();
    lines.map(std::borrow::Cow::into_owned).collect()
}

/// Text without control characters and unseen ones, so that no title controls the terminal. Only colours are added to it.
fn plain(text: &str) -> String {
    let on_one_line = text.replace(char::is_control, " ");
    escaped(&on_one_line)
}

/// Width of a text on a terminal, in columns.
fn length(text: &str) -> usize {
    textwrap::core::display_width(text)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::{Remark, Table};

    #[test]
    fn long_text_is_wrapped_between_words() {
        assert_eq!(wrap("one two three", "- ", 9), ["- one two", "  three"]);
        assert_eq!(wrap("unbreakable", "- ", 4), ["- unbreakable"]);
    }

    #[test]
    fn each_kind_of_block_has_its_lines() {
        let rows = [["arm", "rate"], ["6.1", "2 285"]].map(|row| row.map(String::from).to_vec());
        let table = Table::new(rows.to_vec(), 1);
        let headline = Headline {
            scope: Some("web".into()),
            badge: "better",
            text: "7.2 serves more".into(),
            is_open: false,
            findings: Vec::new(),
            reason: "significant".into(),
            remarks: vec![Remark {
                kind: RemarkKind::Cause,
                text: "copying".into(),
            }],
        };
        let mut blocks = vec![Block::Title("A red \u{1b}[31m title".into())];
        blocks.extend(Block::notice("warnings", "Warnings", vec!["mind".into()]));
        blocks.extend(Block::titled_table("rates", table.clone()));
        blocks.push(Block::Folded("more".into(), vec![Block::Table(table)]));
        blocks.extend([Block::Gap, Block::Headline(headline)]);
        blocks.push(Block::Indented(vec![Block::Sub("below".into())]));
        expect![[r#"
            A red  [31m title

            warnings:
            - mind

            rates:
            arm   rate
            ---  -----
            6.1  2 285

            web: better: 7.2 serves more
                significant
                why: copying
                below
        "#]]
        .assert_eq(&render(&blocks, 40));
        let form = Form {
            width: 40,
            has_colour: true,
        };
        let coloured = render(&blocks, form);
        let headline =
            "\u{1b}[1m\u{1b}[32mweb: better: 7.2 serves more\u{1b}[0m\n    significant\n";
        assert!(coloured.contains(headline), "{coloured:?}");
        assert!(coloured.contains("A red  [31m title"), "{coloured:?}");
        let title = Block::Title("a \u{202e}reversed title".into());
        assert_eq!(render(&[title], form), "a \\u{202e}reversed title\n");
    }
}
