//! JSON lines, or one JSON list, of objects with the columns of [`rows`].

use std::collections::BTreeSet;

use crate::json::{Lines, Object, Raw};
use crate::observation::{FileFigures, without_commas};
use crate::rows::{self, Row};

/// Reads the objects.
pub(crate) fn read(text: &str, found: &mut FileFigures) {
    let objects = if text.trim_start().starts_with('[') {
        crate::json::whole::<Vec<Object<'_>>>(found, text).unwrap_or_default()
    } else {
        lines(text, found)
    };
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    for name in objects.iter().flat_map(|object| object.keys()) {
        if seen.insert(name.as_str()) {
            names.push(name.as_str());
        }
    }
    let places = Lines::new(text);
    let rows: Vec<Row<'_>> = objects.iter().map(|object| row(&places, object)).collect();
    if let Some(first) = rows.first() {
        rows::read(&names, &rows, first.line, found);
    }
}

fn lines<'t>(text: &'t str, found: &mut FileFigures) -> Vec<Object<'t>> {
    let mut objects = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        match serde_json::from_str::<Object<'t>>(line) {
            Ok(object) => objects.push(object),
            Err(why) => {
                let said = why.to_string();
                let said = said.split(" at line ").next().unwrap_or_default();
                if let Some(figure) = line.split(':').find_map(decimal_comma) {
                    // Says that it is a decimal comma.
                    found.number(figure, index + 1, "");
                    continue;
                }
                let what = format!("no JSON object at column {}: {said}", why.column());
                found.wrong(index + 1, what, "write one object per line");
            }
        }
    }
    objects
}

/// `1,5` at the beginning of what stands behind a key: it is no JSON, and breaks the line.
fn decimal_comma(value: &str) -> Option<&str> {
    let is_part = |letter: char| letter.is_ascii_digit() || ",.-".contains(letter);
    let value = value.trim_start();
    let end = value.find(|letter| !is_part(letter)).unwrap_or(value.len());
    let figure = value[..end].trim_end_matches(',');
    without_commas(figure).map(|_| figure)
}

fn row<'t>(lines: &Lines<'_>, object: &'t Object<'_>) -> Row<'t> {
    let cell = |raw: &'t Raw<'_>| match raw.get() {
        "null" => "",
        // A text in quotes is its content; one with escapes keeps them, which no known column needs.
        quoted => quoted
            .strip_prefix('"')
            .and_then(|q| q.strip_suffix('"'))
            .unwrap_or(quoted),
    };
    let line = object.values().next().map_or(0, |raw| lines.of(raw.get()));
    Row {
        line,
        cells: object
            .iter()
            .map(|(name, raw)| (name.as_str(), cell(raw)))
            .collect(),
    }
}
