//! Plain numbers, one per line; `#` begins a comment. One file per arm, one number per run.

use crate::observation::FileFigures;

/// Name of the metric, because the file names none.
pub(crate) const METRIC: &str = "value";

/// Reads the numbers of one arm.
pub(crate) fn read(text: &str, file: &mut FileFigures) {
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        for (column, word) in line.split_whitespace().enumerate() {
            let at = if column == 0 {
                String::new()
            } else {
                format!(" in column {}", column + 1)
            };
            if let Some(value) = file.number(word, index + 1, &at) {
                let observation = file.observation(METRIC, "", value, index + 1);
                file.add(observation);
            }
        }
    }
    if !file.observations.is_empty() {
        file.remarks
            .insert("each plain number is taken as the figure of a run of its own".into());
    }
}
