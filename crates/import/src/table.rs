//! CSV with named columns; tabs and semicolons are accepted as delimiters too.

use crate::observation::FileFigures;
use crate::rows::{self, Row};

/// The delimiter: the most frequent of comma, tab and semicolon in the first line.
pub(crate) fn delimiter(first: &str) -> Option<u8> {
    let count = |byte: u8| first.bytes().filter(|other| *other == byte).count();
    let most = [b',', b'\t', b';']
        .into_iter()
        .max_by_key(|byte| (count(*byte), *byte == b','));
    most.filter(|byte| count(*byte) > 0)
}

/// Reads all rows below the header.
pub(crate) fn read(text: &str, file: &mut FileFigures) {
    let first = text
        .lines()
        .find(|line| is_content(line))
        .unwrap_or_default();
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter(first).unwrap_or(b','))
        .comment(Some(b'#'))
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut records = Vec::new();
    for record in reader.records() {
        match record {
            Ok(record) => records.push(record),
            Err(why) => {
                let line = why.position().map_or(0, |at| at.line() as usize);
                file.wrong(
                    line,
                    format!("not CSV: {why}"),
                    "save the file as UTF-8 text",
                );
            }
        }
    }
    let Some((header, records)) = records.split_first() else {
        return;
    };
    let names: Vec<&str> = header.iter().map(str::trim).collect();
    let line = |record: &csv::StringRecord| record.position().map_or(0, |at| at.line() as usize);
    let mut parsed = Vec::new();
    for record in records {
        if record.len() == names.len() {
            let cells = names.iter().copied().zip(record.iter()).collect();
            parsed.push(Row {
                line: line(record),
                cells,
            });
        } else {
            let what = format!("{} columns under a head of {}", record.len(), names.len());
            let remedy =
                "write a decimal point, not a comma, and an empty text for what is unknown";
            file.wrong(line(record), what, remedy);
        }
    }
    rows::read(&names, &parsed, line(header), file);
}

/// Whether a line is neither blank nor a comment.
pub(crate) fn is_content(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with('#')
}
