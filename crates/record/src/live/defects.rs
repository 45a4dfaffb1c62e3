//! What an attempt has told of defects so far: lines of `defects.jsonl`, each a defect that is new or has changed.

use base::input::text;
use serde_json::Value;

/// Most defects of one attempt.
const MOST: usize = 2000;

/// Most bytes of a text that is shown.
const TEXT_BYTES: usize = 240;

/// A defect, however often it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// What happened: `hung-task`.
    pub kind: String,
    /// `defect` or `notice`; empty where it is not told.
    pub severity: String,
    /// Where: a function, a device, a program; empty where the kind says it all.
    pub top: String,
    /// How often.
    pub count: u64,
    /// Who told: `kernel`, `console`, `service`; empty where it is not told.
    pub source: String,
    /// When it was told first, in seconds since the window opened; `None` before that.
    pub first_s: Option<f64>,
    /// The same in seconds since the kernel started, where that is known.
    pub since_boot_s: Option<f64>,
    /// The first line that is more than blank.
    pub line: String,
}

impl Seen {
    /// Whether it is worth no more than a note.
    pub fn is_notice(&self) -> bool {
        self.severity == "notice"
    }
}

/// Takes a line; `false` where it tells of no defect.
pub(crate) fn take(seen: &mut Vec<Seen>, line: &[u8]) -> bool {
    let Some(mut one) = serde_json::from_slice(line).ok().as_ref().and_then(read) else {
        return false;
    };
    let same = |known: &Seen| {
        (&known.source, &known.kind, &known.top) == (&one.source, &one.kind, &one.top)
    };
    match seen.iter().position(same) {
        Some(place) => {
            // Lines come with the first word alone.
            if one.line.is_empty() {
                one.line = std::mem::take(&mut seen[place].line);
            }
            seen[place] = one;
        }
        None if seen.len() < MOST => seen.push(one),
        None => {}
    }
    true
}

fn read(value: &Value) -> Option<Seen> {
    let text = |name: &str| shown(value[name].as_str().unwrap_or_default());
    let kind = Some(text("kind")).filter(|kind| !kind.is_empty())?;
    let seconds = |name: &str| Some(value["first"][name].as_u64()? as f64 / 1e3);
    let lines = value["lines"].as_array();
    let first_line = lines.and_then(|lines| {
        lines
            .iter()
            .filter_map(Value::as_str)
            .find(|line| !line.trim().is_empty())
    });
    Some(Seen {
        kind,
        severity: text("severity"),
        top: text("top"),
        count: value["count"].as_u64().unwrap_or(1),
        source: text("source"),
        first_s: seconds("window_ms"),
        since_boot_s: seconds("since_boot_ms"),
        line: shown(first_line.unwrap_or_default()),
    })
}

fn shown(told: &str) -> String {
    text::clean_line(text::cut(told, TEXT_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_that_comes_again_is_one_with_its_count() {
        let mut seen = Vec::new();
        let first = br#"{"kind":"hung-task","severity":"defect","top":"fsync","count":1,"first":{"window_ms":2500},"lines":["","INFO: task"]}"#;
        let again = br#"{"kind":"hung-task","severity":"defect","top":"fsync","count":3,"first":{"window_ms":2500,"since_boot_ms":9000}}"#;
        assert!(take(&mut seen, first) && take(&mut seen, again));
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].count, seen[0].first_s), (3, Some(2.5)));
        assert_eq!(seen[0].line, "INFO: task");
    }

    #[test]
    fn what_is_no_defect_is_passed_over() {
        let mut seen = Vec::new();
        for line in [&b"{}"[..], b"[1]", b"half", b"{\"kind\":\"\"}"] {
            assert!(!take(&mut seen, line));
        }
        assert!(take(&mut seen, b"{\"kind\":\"oops\\u001b[31m\"}"));
        assert_eq!(
            seen[0].kind.chars().filter(|one| one.is_control()).count(),
            0
        );
    }
}
