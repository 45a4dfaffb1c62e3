//! Defects of an attempt so far, from the lines of `defects.jsonl`: each is a new or changed defect.

use base::input::text;
use serde_json::Value;

/// Most defects of one attempt.
const MOST: usize = 2000;

/// Longest text to show, in bytes.
const TEXT_BYTES: usize = 240;

/// A defect with all of its reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Its kind: `hung-task`.
    pub kind: String,
    /// `defect` or `notice`; empty if unknown.
    pub severity: String,
    /// A function, a device, a program; empty if the kind is enough.
    pub top: String,
    /// Number of reports.
    pub count: u64,
    /// `kernel`, `console` or `service`; empty if unknown.
    pub source: String,
    /// Time of the first report in seconds since the window opened; `None` before that.
    pub first_s: Option<f64>,
    /// Time of the first report in seconds since the kernel started, if known.
    pub since_boot_s: Option<f64>,
    /// Its first line that is not blank.
    pub line: String,
}

impl Seen {
    /// Whether it is a notice only.
    pub fn is_notice(&self) -> bool {
        self.severity == "notice"
    }
}

/// Adds the defect of a line; `false` if the line contains none.
pub(crate) fn take(defects: &mut Vec<Seen>, line: &[u8]) -> bool {
    let Some(mut defect) = serde_json::from_slice(line).ok().as_ref().and_then(read) else {
        return false;
    };
    let is_same = |known: &Seen| {
        (&known.source, &known.kind, &known.top) == (&defect.source, &defect.kind, &defect.top)
    };
    match defects.iter().position(is_same) {
        Some(index) => {
            // Only the first report has lines.
            if defect.line.is_empty() {
                defect.line = std::mem::take(&mut defects[index].line);
            }
            defects[index] = defect;
        }
        None if defects.len() < MOST => defects.push(defect),
        None => {}
    }
    true
}

fn read(value: &Value) -> Option<Seen> {
    let text = |name: &str| clean(value[name].as_str().unwrap_or_default());
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
        line: clean(first_line.unwrap_or_default()),
    })
}

fn clean(text: &str) -> String {
    text::clean_line(text::cut(text, TEXT_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_defect_is_listed_once_with_its_count() {
        let mut seen = Vec::new();
        let first = br#"{"kind":"hung-task","severity":"defect","top":"fsync","count":1,"first":{"window_ms":2500},"lines":["","INFO: task"]}"#;
        let again = br#"{"kind":"hung-task","severity":"defect","top":"fsync","count":3,"first":{"window_ms":2500,"since_boot_ms":9000}}"#;
        assert!(take(&mut seen, first) && take(&mut seen, again));
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].count, seen[0].first_s), (3, Some(2.5)));
        assert_eq!(seen[0].line, "INFO: task");
    }

    #[test]
    fn a_line_without_a_defect_is_ignored() {
        let mut seen = Vec::new();
        for line in [&b"{}"[..], b"[1]", b"half", b"{\"kind\":\"\"}"] {
            assert!(!take(&mut seen, line));
        }
        assert!(take(&mut seen, b"{\"kind\":\"oops\\u001b[31m\"}"));
        assert!(!seen[0].kind.contains(char::is_control));
    }
}
