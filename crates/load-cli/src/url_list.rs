//! A list of URLs: what a mix of requests is drawn from.
//!
//! ```text
//! # weight, then a path, or a URL of the same server
//! 8 /index.html
//! 2 http://127.0.0.1:8080/search?q=x
//! ```
//! Without any weight, connections go round the list. With some, requests are drawn at random; a
//! line without one weighs 1.

use input::problem::{Problem, Problems};
use load::url::encode;

use load::url::Url;

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) weight: Option<u32>,
    pub(crate) path: String,
}

/// Reads a list, known to the user as `file`, for the server of `site`; all mistakes at once.
pub(crate) fn read(file: &str, text: &str, site: &Url) -> Result<Vec<Entry>, Problems> {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    let problem = |line, what: String, remedy: &str| Problem {
        file: file.into(),
        line,
        what,
        remedy: remedy.into(),
    };
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
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
    let words: Vec<&str> = line.split_whitespace().collect();
    let (weight, place) = match words[..] {
        [place] => (None, place),
        [weight, place] => match weight.parse() {
            Ok(weight) => (Some(weight), place),
            Err(_) => return Err((format!("not a weight: {weight}"), "write it like 3")),
        },
        _ => {
            return Err((
                format!("too many words: {line}"),
                "write WEIGHT /PATH; a blank is %20",
            ));
        }
    };
    if place.starts_with('/') {
        let path = encode(place).map_err(|why| (why, ""))?;
        return Ok(Entry { weight, path });
    }
    if !place.contains("://") {
        return Err((
            format!("not a path: {place}"),
            "begin it with /, or write the whole URL",
        ));
    }
    let url = Url::read(place).map_err(|why| (why, ""))?;
    let same = (url.scheme, &url.host, url.port) == (site.scheme, &site.host, site.port);
    if !same {
        return Err((
            format!("another server: {place}"),
            "one load asks one server",
        ));
    }
    Ok(Entry {
        weight,
        path: url.path,
    })
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
        let seen: Vec<_> = entries.iter().map(|one| (one.weight, &*one.path)).collect();
        assert_eq!(
            seen,
            [(None, "/%C3%A4"), (Some(3), "/b?c"), (Some(2), "/d")]
        );
    }

    #[test]
    fn all_mistakes_of_a_list_are_told_with_their_lines() {
        let wrong = list("many /a\n1 2 /b\nc\nhttp://b.org/\n").unwrap_err();
        expect![[r#"
            urls:1: not a weight: many (write it like 3)
            urls:2: too many words: 1 2 /b (write WEIGHT /PATH; a blank is %20)
            urls:3: not a path: c (begin it with /, or write the whole URL)
            urls:4: another server: http://b.org/ (one load asks one server)"#]]
        .assert_eq(&wrong.to_string());
        assert_eq!(
            list("0 /a\n").unwrap_err().to_string(),
            "urls: all weights are 0 (give one path a weight of 1)"
        );
    }
}
