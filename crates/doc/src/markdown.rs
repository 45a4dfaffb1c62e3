//! GitHub's Markdown, readable as plain text too.

use base::input::text::escaped;

use crate::{Block, Headline, RemarkKind};

/// Renders a report.
pub fn render(blocks: &[Block]) -> String {
    escaped(&parts(blocks).join("\n"))
}

fn parts(blocks: &[Block]) -> Vec<String> {
    blocks.iter().filter_map(part).collect()
}

/// Renders a block, with a line break at its end.
fn part(block: &Block) -> Option<String> {
    Some(match block {
        Block::Text(sentence) | Block::Sub(sentence) => text(sentence) + "\n",
        Block::Lead(sentence) => format!("**{}**\n", text(sentence)),
        Block::Title(title) => format!("## {}\n", text(title)),
        Block::Section(title) => format!("### {}\n", text(title)),
        Block::Indented(blocks) => parts(blocks).join("\n"),
        Block::Heading(title) => format!("{}:\n", text(title)),
        Block::List(items) => listed(items),
        Block::Notice(notice) => format!("**{}**\n\n{}", notice.title, listed(&notice.items)),
        Block::Table(shown) => table(&shown.rows),
        Block::Headline(headline) => headline_parts(headline).join("\n"),
        Block::Gap | Block::Folded(..) | Block::Drawing(_) => return None,
    })
}

fn listed(items: &[String]) -> String {
    let lines: Vec<String> = items
        .iter()
        .map(|item| format!("- {}\n", text(item)))
        .collect();
    lines.concat()
}

fn headline_parts(headline: &Headline) -> Vec<String> {
    vec![verdict(headline), details(headline)]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect()
}

/// Renders a headline's sentence alone.
pub fn verdict(headline: &Headline) -> String {
    let scope = headline.scope.as_ref();
    let scope = scope.map_or(String::new(), |scope| format!("{scope}: "));
    // An open question needs its reason in the sentence; a withheld verdict has a list of reasons instead.
    let reason = if headline.is_open && headline.findings.is_empty() {
        format!(": {}", headline.reason)
    } else {
        String::new()
    };
    let sentence = format!("{scope}{}{reason}", headline.text);
    format!("**{}** - {}\n", headline.badge, text(&sentence))
}

/// Renders what belongs below a headline's sentence: findings and remarks; empty without any.
pub fn details(headline: &Headline) -> String {
    let mut parts = Vec::new();
    if !headline.findings.is_empty() {
        parts.extend([listed(&headline.findings), text(&headline.reason) + "\n"]);
    }
    for remark in &headline.remarks {
        let sentence = text(&remark.text) + "\n";
        parts.push(match remark.kind {
            RemarkKind::Defects => format!("**defects** - {sentence}"),
            RemarkKind::Accepted => format!("**accepted** - {sentence}"),
            RemarkKind::Cause => format!("**why** - {sentence}"),
            RemarkKind::Limit => sentence,
            RemarkKind::Robustness => continue,
        });
    }
    parts.join("\n")
}

/// Renders blocks that a reader unfolds; empty without blocks.
pub fn folded(title: &str, blocks: &[Block]) -> String {
    let rendered = render(blocks);
    if rendered.is_empty() {
        return rendered;
    }
    let title = escaped(&text(title));
    format!("<details><summary>{title}</summary>\n\n{rendered}\n</details>\n")
}

/// Renders a table; the first row is its header.
pub fn table(rows: &[Vec<String>]) -> String {
    let line = |cells: &Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| text(cell.trim())).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let (header, rest) = rows.split_first().expect("a table has a header");
    let rule = format!("|{}\n", "---|".repeat(header.len()));
    let rest: String = rest.iter().map(line).collect();
    format!("{}{rule}{rest}", line(header))
}

/// Escapes text so that Markdown changes nothing: no markup, no HTML, one line. A bracket is only escaped if the next
/// character would make it a link, so that intervals stay readable.
pub fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '(' | ':' | '[' if escaped.ends_with(']') => escaped.extend(['\\', letter]),
            '\\' | '`' | '*' | '_' | '|' | '#' | '~' => escaped.extend(['\\', letter]),
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn text_is_escaped() {
        let got = text("<b>*x*</b> | [a](b)\n`c` @team");
        expect![[r#"&lt;b&gt;\*x\*&lt;/b&gt; \| [a]\(b) \`c\` @team"#]].assert_eq(&got);
    }
}
