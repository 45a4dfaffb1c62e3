//! Metrics of other programs: where their numbers are in the output, and what they mean.

use plan::fields::Fields;
use record::metric::{Direction, Figure, Role};
use regex_lite::Regex;
use serde::{Deserialize, Serialize};

/// A named number in a program's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Metric {
    pub(crate) name: String,
    unit: String,
    better: Direction,
    place: Place,
    /// Factor that converts the number to `unit`.
    factor: f64,
    /// Whether the number may be missing or zero, because the program did no such work.
    is_optional: bool,
}

/// Position of the number in the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Place {
    /// JSON pointer into standard output.
    Json(String),
    /// First group of a regular expression's last match in standard output, or else in standard
    /// error.
    Pattern(String),
}

impl Metric {
    pub(crate) fn new(name: &str, unit: &str, better: Direction, place: Place) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            better,
            place,
            factor: 1.0,
            is_optional: false,
        }
    }

    /// Makes it a metric of an adapter: scaled by `factor`, and optional.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self {
            factor,
            is_optional: true,
            ..self
        }
    }

    /// Extracts the number from a program's output; `None` if it is optional and missing.
    pub(crate) fn find(&self, out: &str, err: &str) -> Result<Option<Figure>, String> {
        let value = match &self.place {
            Place::Json(pointer) => in_json(out, pointer),
            Place::Pattern(pattern) => by_pattern(pattern, out, err),
        };
        let value = match value {
            Err(_) | Ok(0.0) if self.is_optional => return Ok(None),
            value => value?,
        };
        if !value.is_finite() {
            return Err(format!("not a finite number: {value}"));
        }
        let value = value * self.factor;
        Ok(Some(Figure::new(
            &self.name,
            &self.unit,
            self.better,
            Role::Secondary,
            value,
        )))
    }
}

/// Some programs print other lines before their JSON, which starts with a bracket.
fn in_json(out: &str, pointer: &str) -> Result<f64, String> {
    let is_json = |line: &&str| line.trim_start().starts_with(['{', '[']);
    let other_lines = out.split_inclusive('\n').take_while(|line| !is_json(line));
    let start: usize = other_lines.map(str::len).sum();
    let mut values = serde_json::Deserializer::from_str(&out[start..]).into_iter();
    let json: serde_json::Value = values
        .next()
        .ok_or("no JSON in its output")?
        .map_err(|why| format!("not JSON: {why}"))?;
    let value = json
        .pointer(pointer)
        .ok_or_else(|| format!("nothing at {pointer}"))?;
    match value {
        serde_json::Value::Number(number) => number
            .as_f64()
            .ok_or_else(|| format!("not a number: {number}")),
        serde_json::Value::String(text) => number(text),
        other => Err(format!("not a number at {pointer}: {other}")),
    }
}

fn by_pattern(pattern: &str, out: &str, err: &str) -> Result<f64, String> {
    let pattern = compile(pattern)?;
    let last = |text| pattern.captures_iter(text).last();
    let captures = last(out).or_else(|| last(err));
    match captures.and_then(|captures| captures.get(1)) {
        Some(group) => number(group.as_str()),
        None => Err(format!("nothing in the output matches {pattern}")),
    }
}

fn number(text: &str) -> Result<f64, String> {
    // Some programs separate thousands with commas.
    let plain = text.trim().replace(',', "");
    plain.parse().map_err(|_| format!("not a number: {text:?}"))
}

/// Compiles a pattern, which must have a group. `^` and `$` match at each line.
fn compile(pattern: &str) -> Result<Regex, String> {
    let built = regex_lite::RegexBuilder::new(pattern)
        .multi_line(true)
        .build();
    let regex = built.map_err(|why| format!("not a pattern: {pattern:?}: {why}"))?;
    if regex.captures_len() < 2 {
        return Err(format!("pattern without a group: {pattern:?}"));
    }
    Ok(regex)
}

/// Reads the `[[workload.metric]]` tables, and appends them to the adapter's `metrics`.
pub(crate) fn read(fields: &Fields<'_>, mut metrics: Vec<Metric>) -> Option<Vec<Metric>> {
    let tables = fields.tables("metric");
    let read: Vec<_> = tables.iter().map(read_table).collect();
    metrics.extend(read.into_iter().collect::<Option<Vec<_>>>()?);
    let mut names: Vec<_> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find_map(|pair| match pair {
        [one, next] if one == next => Some(*one),
        _ => None,
    });
    if let Some(twice) = twice {
        let what = format!("metric named twice: {twice}");
        fields.wrong("metric", what, "give one of them another name");
        return None;
    }
    Some(metrics)
}

fn read_table(fields: &Fields<'_>) -> Option<Metric> {
    for (key, example) in [
        ("name", "\"throughput\""),
        ("unit", "\"MB/s\""),
        ("better", "\"higher\""),
    ] {
        if !fields.has(key) {
            fields.missing(key, example);
        }
    }
    let name = fields.read("name", |text| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !text.is_empty() && text.chars().all(plain) {
            Ok(text.to_string())
        } else {
            Err(format!(
                "not of letters and digits and . _ -: {text:?}, rename it"
            ))
        }
    });
    let unit = fields.text("unit");
    let directions = [("higher", Direction::Higher), ("lower", Direction::Lower)];
    let better = fields.choice("better", &directions);
    let place = read_place(fields);
    fields.finish();
    Some(Metric::new(&name?, unit?, better?, place?))
}

fn read_place(fields: &Fields<'_>) -> Option<Place> {
    match (fields.has("json"), fields.has("pattern")) {
        (true, false) => fields.read("json", |text| {
            if text.starts_with('/') {
                Ok(Place::Json(text.into()))
            } else {
                Err(format!(
                    "not a JSON pointer: {text:?} , write it like \"/jobs/0/read/iops\""
                ))
            }
        }),
        (false, true) => fields.read("pattern", |text| {
            compile(text)
                .map(|_| Place::Pattern(text.into()))
                .map_err(|why| format!("{why}, write it like \"tps = ([0-9.]+)\""))
        }),
        (false, false) => {
            fields.missing(
                "json",
                "\"/jobs/0/read/iops\", or pattern = \"tps = ([0-9.]+)\"",
            );
            None
        }
        (true, true) => {
            let _ = (fields.text("json"), fields.text("pattern"));
            fields.wrong("pattern", "both json and pattern", "remove one of them");
            None
        }
    }
}
