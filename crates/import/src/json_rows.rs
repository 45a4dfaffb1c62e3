//! JSON lines, or one JSON list, of objects with the columns that [`rows`] reads.

use std::collections::BTreeSet;

use crate::json::{Lines, Object, Raw};
use crate::observation::{FileFigures, without_commas};
use crate::rows::{self, Row};

/// Reads the objects.
pub(crate) fn read(text: &str, file: &mut FileFigures) {
    let objects = if text.trim_start().starts_with('[') {
        crate::json::whole::<Vec<Object<'_>>>(file, text).unwrap_or_default()
    } else {
        lines(text, file)
    };
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    for name in objects.iter().flat_map(|object| object.keys()) {
        if seen.insert(name.as_str()) {
            names.push(name.as_str());
        }
    }
    let line_offsets = Lines::new(text);
    let rows: Vec<Row<'_>> = objects
        .iter()
        .map(|object| row(&line_offsets, object))
        .collect();
    if let Some(first) = rows.first() {
        rows::read(&names, &rows, first.line, file);
    }
}

fn lines<'t>(text: &'t str, file: &mut FileFigures) -> Vec<Object<'t>> {
    let mut objects = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        match serde_json::from_str::<Object<'t>>(line) {
            Ok(object) => objects.push(object),
            Err(why) => {
                let message = why.to_string();
                let message = message.split(" at line ").next().unwrap_or_default();
                if let Some(figure) = line.split(':').find_map(decimal_comma) {
                    // `number` reports the decimal comma.
                    file.number(figure, index + 1, "");
                    continue;
                }
                let what = format!("no JSON object at column {}: {message}", why.column());
                file.wrong(index + 1, what, "write one object per line");
            }
        }
    }
    objects
}

/// A decimal comma such as `1,5` at the start of a value, which breaks the JSON of its line.
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
        // Escapes in a quoted text stay, because no known column needs them.
        quoted => quoted
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'))
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
