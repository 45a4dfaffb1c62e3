//! Plain numbers, one per line; `#` begins a comment. One file per arm, one number per run.

use super::sheet::Sheet;

/// The metric's name, for want of one in the file.
pub(super) const METRIC: &str = "value";

/// Reads the numbers of one arm.
pub(super) fn read(text: &str, sheet: &mut Sheet) {
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        for (column, word) in line.split_whitespace().enumerate() {
            let at = if column == 0 {
                String::new()
            } else {
                format!(" in column {}", column + 1)
            };
            if let Some(value) = sheet.number(word, index + 1, &at) {
                let reading = sheet.reading(METRIC, "", value, index + 1);
                sheet.readings.push(reading);
            }
        }
    }
    if !sheet.readings.is_empty() {
        sheet
            .remarks
            .insert("each plain number is taken as the figure of a run of its own".into());
    }
}
