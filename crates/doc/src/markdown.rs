//! GitHub's Markdown, readable before it is rendered.

use base::input::text::escaped;

use crate::{Block, Headline, RemarkKind};

/// A report.
pub fn render(blocks: &[Block]) -> String {
    escaped(&parts(blocks).join("\n"))
}

fn parts(blocks: &[Block]) -> Vec<String> {
    blocks.iter().filter_map(part).collect()
}

/// A block with a line break at its end.
fn part(block: &Block) -> Option<String> {
    Some(match block {
        Block::Text(said) | Block::Sub(said) => text(said) + "\n",
        Block::Lead(said) => format!("**{}**\n", text(said)),
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
    let scope = headline.scope.as_ref();
    let scope = scope.map_or(String::new(), |scope| format!("{scope}: "));
    let has_findings = !headline.findings.is_empty();
    // An open question needs its reason more than a decided one; a withheld verdict has a list of reasons.
    let reason = if headline.is_open && !has_findings {
        format!(": {}", headline.reason)
    } else {
        String::new()
    };
    let said = format!("{scope}{}{reason}", headline.text);
    let mut parts = vec![format!("**{}** - {}\n", headline.badge, text(&said))];
    if has_findings {
        parts.extend([listed(&headline.findings), text(&headline.reason) + "\n"]);
    }
    for remark in &headline.remarks {
        let said = text(&remark.text) + "\n";
        parts.push(match remark.kind {
            RemarkKind::Defects => format!("**defects** - {said}"),
            RemarkKind::Accepted => format!("**accepted** - {said}"),
            RemarkKind::Cause => format!("**why** - {said}"),
            RemarkKind::Limit => said,
            RemarkKind::Robustness => continue,
        });
    }
    parts
}

/// A table, the first row its head.
pub fn table(rows: &[Vec<String>]) -> String {
    let line = |cells: &Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| text(cell.trim())).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let (head, rest) = rows.split_first().expect("a table has its head");
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    let rest: String = rest.iter().map(line).collect();
    format!("{}{rule}{rest}", line(head))
}

/// Text that Markdown leaves alone: no markup, no HTML, one line. A bracket is harmless until
/// something follows it that makes it a link, so that intervals stay readable.
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
    fn text_stays_text() {
        let got = text("<b>*x*</b> | [a](b)\n`c` @team");
        expect![[r#"&lt;b&gt;\*x\*&lt;/b&gt; \| [a]\(b) \`c\` @team"#]].assert_eq(&got);
    }
}
