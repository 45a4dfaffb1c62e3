//! A list of URLs, from which a mix of requests is drawn.
//!
//! ```text
//! # weight, then a path, or a URL of the same server
//! 8 /index.html
//! 2 http://127.0.0.1:8080/search?q=x
//! ```
//! Without any weight, connections go through the list in turn. With weights, requests are drawn at
//! random; a line without a weight weighs 1. A path may contain blanks; ` #` begins a comment.

use base::input::problem::{Problem, Problems};
use load::url::{Url, encode, without_comment};

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) weight: Option<u32>,
    pub(crate) path: String,
}

/// Reads a list of paths on the server of `site`; `file` is its name for messages.
///
/// # Errors
/// All mistakes of the list.
pub(crate) fn read(file: &str, text: &str, site: &Url) -> Result<Vec<Entry>, Problems> {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    let problem = |line, what: String, remedy: &str| Problem {
        file: file.into(),
        line,
        what,
        remedy: remedy.into(),
    };
    for (index, line) in text.lines().enumerate() {
        let line = without_comment(line).trim();
        if line.is_empty() {
            continue;
        }
        match entry(line, site) {
            Ok(entry) => entries.push(entry),
            Err((what, remedy)) => problems.push(problem(index + 1, what, remedy)),
        }
    }
    if problems.is_empty() && entries.is_empty() {
        let remedy = "write one per line, like /index.html";
        problems.push(problem(0, "no path in the list".into(), remedy));
    } else if problems.is_empty() && entries.iter().all(|entry| entry.weight == Some(0)) {
        let remedy = "give one path a weight of 1";
        problems.push(problem(0, "all weights are 0".into(), remedy));
    }
    if problems.is_empty() {
        Ok(entries)
    } else {
        Err(Problems(problems))
    }
}

fn entry(line: &str, site: &Url) -> Result<Entry, (String, &'static str)> {
    let (weight, target) = split_weight(line)?;
    if target.starts_with('/') {
        let path = target.split('#').next().unwrap_or_default();
        let path = encode(path).map_err(|why| (why, ""))?;
        return Ok(Entry { weight, path });
    }
    if !target.contains("://") {
        return Err((
            format!("not a path: {target}"),
            "begin it with /, or write the whole URL",
        ));
    }
    let url = Url::read(target).map_err(|why| (why, ""))?;
    if !url.is_same_site(site) {
        return Err((
            format!("another server: {target}"),
            "one load asks one server",
        ));
    }
    Ok(Entry {
        weight,
        path: url.path,
    })
}

/// Splits a line into its weight, if there is one, and the rest. A path may contain blanks.
fn split_weight(line: &str) -> Result<(Option<u32>, &str), (String, &'static str)> {
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if rest.is_empty() || first.starts_with('/') || first.contains("://") {
        return Ok((None, line));
    }
    match first.parse() {
        Ok(weight) => Ok((Some(weight), rest.trim_start())),
        Err(_) => Err((format!("not a weight: {first}"), "write it like 3")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn list(text: &str) -> Result<Vec<Entry>, Problems> {
        read("urls", text, &Url::read("http://a.org/").unwrap())
    }

    #[test]
    fn lines_have_a_path_and_may_have_a_weight() {
        let entries = list("# all\n/ä\n\n 3 /b?c \n2 http://a.org:80/d\n").unwrap();
        let entries = entries.iter().map(|entry| (entry.weight, &*entry.path));
        assert_eq!(
            entries.collect::<Vec<_>>(),
            [(None, "/%C3%A4"), (Some(3), "/b?c"), (Some(2), "/d")]
        );
    }

    #[test]
    fn a_path_may_hold_blanks_and_a_line_may_end_with_a_comment() {
        let text = "  /my page.html  \r\n3\t/a  b?c=d e # often\nhttp://a.org/f g\n7 http://a.org/h i#j\n/k#l\n\t# none\n";
        let entries = list(text).unwrap();
        let entries = entries.iter().map(|entry| (entry.weight, &*entry.path));
        assert_eq!(
            entries.collect::<Vec<_>>(),
            [
                (None, "/my%20page.html"),
                (Some(3), "/a%20%20b?c=d%20e"),
                (None, "/f%20g"),
                (Some(7), "/h%20i"),
                (None, "/k"),
            ]
        );
    }

    #[test]
    fn all_mistakes_of_a_list_are_reported_with_their_lines() {
        let wrong = list("many /a\n1 2 /b\nc\nhttp://b.org/\n").unwrap_err();
        expect![[r#"
            urls:1: not a weight: many (write it like 3)
            urls:2: not a path: 2 /b (begin it with /, or write the whole URL)
            urls:3: not a path: c (begin it with /, or write the whole URL)
            urls:4: another server: http://b.org/ (one load asks one server)"#]]
        .assert_eq(&wrong.to_string());
        assert_eq!(
            list("0 /a\n").unwrap_err().to_string(),
            "urls: all weights are 0 (give one path a weight of 1)"
        );
    }
}
