//! Numbers in JSON keep their place in the text, so that a mistake has a line.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::observation::FileFigures;

/// A value as it is written, where a number belongs.
pub(crate) type Raw<'t> = &'t RawValue;

/// Line of a part of the text, counted from 1.
pub(crate) fn line_of(text: &str, part: &str) -> usize {
    // Raw values are slices of the text that they were read from.
    let offset = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.split(|byte| *byte == b'\n').count()
}

/// The number at a place of the text, or a note that there is none.
pub(crate) fn number(found: &mut FileFigures, text: &str, raw: Raw<'_>, at: &str) -> Option<f64> {
    let line = line_of(text, raw.get());
    found.number(raw.get(), line, at)
}

/// The whole text in a form, or a note of what does not fit, with its line and column.
pub(crate) fn whole<'t, T: Deserialize<'t>>(found: &mut FileFigures, text: &'t str) -> Option<T> {
    match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(why) => {
            let said = why.to_string();
            let said = said.split(" at line ").next().unwrap_or_default();
            let what = format!("not {} at column {}: {said}", found.format, why.column());
            found.wrong(why.line(), what, "export the file again");
            None
        }
    }
}
