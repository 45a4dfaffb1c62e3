//! `[disclosure]`, and `tuned_by` and `tuning_reason` of arms: statements for the report that do not affect measurements.

use crate::fields::Fields;

/// Most characters of a name, a date or a reason.
const LINE: usize = 300;

/// Most characters of a note.
const NOTE: usize = 1000;

/// Who measured, who paid, and what else a reader should know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disclosure {
    /// Who measured.
    pub tested_by: Option<String>,
    /// Who paid for it, or lent the machines.
    pub sponsor: Option<String>,
    /// Since when the compared systems have been available to others.
    pub availability: Option<String>,
    /// Any other remark.
    pub note: Option<String>,
}

/// Who chose an arm's settings, or kept the defaults, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TuningNote {
    /// The person or company.
    pub by: Option<String>,
    /// The reason.
    pub reason: Option<String>,
}

impl TuningNote {
    /// Whether both are stated.
    pub fn is_stated(&self) -> bool {
        self.by.is_some() && self.reason.is_some()
    }
}

pub(crate) fn read_disclosure(top: &Fields<'_>) -> Disclosure {
    let Some(fields) = top.table("disclosure") else {
        return Disclosure::default();
    };
    let disclosure = Disclosure {
        tested_by: stated(&fields, "tested_by", LINE),
        sponsor: stated(&fields, "sponsor", LINE),
        availability: stated(&fields, "availability", LINE),
        note: stated(&fields, "note", NOTE),
    };
    fields.finish();
    disclosure
}

/// Reads the keys of an arm.
pub(crate) fn read_tuning_note(arm: &Fields<'_>) -> TuningNote {
    TuningNote {
        by: stated(arm, "tuned_by", LINE),
        reason: stated(arm, "tuning_reason", LINE),
    }
}

/// Reads one line of text, if the table has the key.
fn stated(fields: &Fields<'_>, key: &str, most: usize) -> Option<String> {
    let text = fields.text(key)?.trim();
    let length = text.chars().count();
    if text.is_empty() {
        let what = format!("empty {key}");
        fields.wrong(
            key,
            what,
            "leave the key out: the report says \"not stated\"",
        );
    } else if length > most {
        let what = format!("{key} of more than {most} characters: {length}");
        fields.wrong(key, what, "shorten it: the disclosure is one page");
    } else if text.contains(char::is_control) {
        let what = format!("{key} of several lines, or with a control character");
        fields.wrong(key, what, "write one line");
    } else {
        return Some(text.into());
    }
    None
}
