//! Whose format a file has. Told from its content, never from its name.

use std::collections::BTreeMap;

use super::{
    criterion, go_bench, google_benchmark, hyperfine, json_rows, k6, oha, phoronix, plain, rows,
    table,
};
use crate::json::Raw;
use crate::observation::{FEWER, FileFigures, without_commas};
use crate::source::Source;
use base::input::units::show_bytes;

/// Files above this are no results, in bytes.
const LARGEST_BYTES: u64 = 32 << 20;

/// Most values in a file: what separates one from the next is counted, in all formats.
const MOST_VALUES: usize = 1_000_000;

/// What is accepted, for those who brought something else.
const ACCEPTED: &str = "accepted: CSV or JSON lines with arm, block, metric, value; hyperfine JSON; \
                        go test -bench; google-benchmark JSON; target/criterion; Phoronix composite.xml; \
                        k6 and oha JSON; plain numbers";

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    JsonRows,
    Hyperfine,
    GoBench,
    GoogleBenchmark,
    Criterion,
    Phoronix,
    K6,
    Oha,
    Plain,
}

impl Format {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::JsonRows => "JSON lines",
            Self::Hyperfine => "hyperfine JSON",
            Self::GoBench => "Go benchmark output",
            Self::GoogleBenchmark => "google-benchmark JSON",
            Self::Criterion => "criterion samples",
            Self::Phoronix => "Phoronix result",
            Self::K6 => "k6 summary",
            Self::Oha => "oha JSON",
            Self::Plain => "plain numbers",
        }
    }
}

/// Reads one file in its own format.
pub(crate) fn read(source: &Source) -> FileFigures {
    let mut found = FileFigures::new(&source.path.display().to_string());
    let Some(text) = content(source, &mut found) else {
        return found;
    };
    let format = match &formats(source, &text)[..] {
        [] => {
            let what = format!("no known format, beginning with {:?}", beginning(&text));
            found.wrong(0, what, ACCEPTED);
            return found;
        }
        [format] => *format,
        several => {
            let names: Vec<&str> = several.iter().map(|format| format.name()).collect();
            let what = format!("several formats in one file: {}", names.join(" and "));
            found.wrong(0, what, "keep each in a file of its own");
            return found;
        }
    };
    found.format = format.name();
    read_as(format, source, &text, &mut found);
    if found.observations.is_empty() && found.problems.is_empty() && found.left_out.is_empty() {
        let what = format!("{} without a figure", found.format);
        found.wrong(0, what, "was the benchmark run to its end?");
    }
    found
}

fn content(source: &Source, found: &mut FileFigures) -> Option<String> {
    let size = source.path.metadata().map_or(0, |meta| meta.len());
    if size > LARGEST_BYTES {
        let what = format!("larger than {}: {size} bytes", show_bytes(LARGEST_BYTES));
        found.wrong(0, what, FEWER);
        return None;
    }
    match base::input::file::read(&source.path, LARGEST_BYTES).map(String::from_utf8) {
        Ok(Ok(mut text)) => {
            let marks = text.len() - text.trim_start_matches('\u{feff}').len();
            text.drain(..marks);
            if values(&text) > MOST_VALUES {
                found.wrong(0, format!("more than {MOST_VALUES} values"), FEWER);
                return None;
            }
            if !text.trim().is_empty() {
                return Some(text);
            }
            found.wrong(0, "the file is empty", ACCEPTED);
        }
        Ok(Err(_)) => found.wrong(0, "not text in UTF-8", ACCEPTED),
        Err(why) => found.wrong(0, format!("cannot be read: {why}"), "give a readable file"),
    }
    None
}

/// How many values a text has at the most, whatever its format.
fn values(text: &str) -> usize {
    let separates = |byte: &u8| b",;\t\n{[<=".contains(byte);
    text.as_bytes()
        .iter()
        .filter(|byte| separates(byte))
        .count()
}

fn read_as(format: Format, source: &Source, text: &str, found: &mut FileFigures) {
    match format {
        Format::Csv => table::read(text, found),
        Format::JsonRows => json_rows::read(text, found),
        Format::Hyperfine => hyperfine::read(text, found, source.of > 1),
        Format::GoBench => go_bench::read(text, found),
        Format::GoogleBenchmark => google_benchmark::read(text, found),
        Format::Criterion => {
            let (arm, benchmark) = source.criterion.clone().unwrap_or_default();
            let is_csv = source.path.extension().is_some_and(|end| end == "csv");
            let read = if is_csv {
                criterion::read_csv
            } else {
                criterion::read
            };
            read(text, (&arm, &benchmark), found);
        }
        Format::Phoronix => phoronix::read(text, found),
        Format::K6 => k6::read(text, found),
        Format::Oha => oha::read(text, found),
        Format::Plain => plain::read(text, found),
    }
}

/// All formats that a text could have; more than one is one too many.
fn formats(source: &Source, text: &str) -> Vec<Format> {
    if source.criterion.is_some() {
        return vec![Format::Criterion];
    }
    match text.trim_start().as_bytes()[0] {
        b'<' if text.contains("<PhoronixTestSuite") => vec![Format::Phoronix],
        b'<' => Vec::new(),
        b'{' | b'[' => of_json(text),
        _ => of_lines(text),
    }
}

fn of_json(text: &str) -> Vec<Format> {
    let Ok(object) = serde_json::from_str::<BTreeMap<String, Raw<'_>>>(text) else {
        let first = text
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default();
        let is_line = serde_json::from_str::<BTreeMap<String, Raw<'_>>>(first).is_ok();
        // A broken export is told apart by the keys in it, so that its mistake is shown.
        let formats = by_keys(|key| text.contains(&format!("\"{key}\"")).then_some(text));
        let looks_like_rows = formats.is_empty() && first.trim_end().ends_with('}');
        return if text.trim_start().starts_with('[') || is_line || looks_like_rows {
            vec![Format::JsonRows]
        } else {
            formats
        };
    };
    let formats = by_keys(|key| object.get(key).map(|raw| raw.get()));
    if formats.is_empty() && object.contains_key("arm") {
        vec![Format::JsonRows]
    } else {
        formats
    }
}

/// The formats by a key and what must stand below it: one key alone has too many owners.
fn by_keys<'t>(value: impl Fn(&str) -> Option<&'t str>) -> Vec<Format> {
    let below = |key: &str, keys: &[&str]| {
        let holds = |text: &str| keys.iter().any(|key| text.contains(&format!("\"{key}\"")));
        let has = |text: &str| text == "[]" || holds(text);
        value(key).is_some_and(has)
    };
    let is_oha = value("summary").is_some() && value("latencyPercentiles").is_some();
    let is_k6_list = value("version").is_some() && below("results", &["metrics"]);
    let is_k6 = below("metrics", &["values", "rate", "value", "count", "med"]);
    let mut formats = Vec::new();
    let mut add = |is: bool, format| formats.extend(is.then_some(format));
    add(
        below("results", &["command"]) && !is_k6_list,
        Format::Hyperfine,
    );
    let of_google = [
        "real_time",
        "run_type",
        "run_name",
        "error_occurred",
        "skipped",
    ];
    add(below("benchmarks", &of_google), Format::GoogleBenchmark);
    add(is_oha, Format::Oha);
    // oha has an object `metrics` too.
    add((is_k6 || is_k6_list) && !is_oha, Format::K6);
    formats
}

fn of_lines(text: &str) -> Vec<Format> {
    let mut formats = Vec::new();
    let content = || text.lines().filter(|line| table::is_content(line));
    if content().any(|line| go_bench::is_result(line) || go_bench::is_failed_benchmark(line)) {
        formats.push(Format::GoBench);
    }
    if content().any(is_head) {
        formats.push(Format::Csv);
    }
    let first = |line: &str| {
        line.split(['#', ' ', '\t'])
            .next()
            .unwrap_or_default()
            .to_string()
    };
    let is_number = |line: &str| first(line).parse::<f64>().is_ok();
    let is_decimal = |line: &str| is_number(line) || without_commas(&first(line)).is_some();
    // With a head of its own a file of one column is CSV; a stray word among numbers is a mistake.
    if formats.is_empty() {
        let numbers = content().filter(|line| is_number(line)).count();
        if 2 * numbers > content().count() || content().all(is_decimal) {
            formats.push(Format::Plain);
        } else if is_even_table(content()) {
            formats.push(Format::Csv);
        }
    } else if formats == [Format::GoBench]
        && content().any(|line| line.trim().parse::<f64>().is_ok())
    {
        formats.push(Format::Plain);
    }
    formats
}

/// Whether all lines have as many delimiters as the first: a table, though not with columns known here.
fn is_even_table<'t>(mut lines: impl Iterator<Item = &'t str>) -> bool {
    let Some(first) = lines.next() else {
        return false;
    };
    let Some(delimiter) = table::delimiter(first) else {
        return false;
    };
    let columns = |line: &str| line.bytes().filter(|byte| *byte == delimiter).count();
    let mut others = lines.peekable();
    others.peek().is_some() && others.all(|line| columns(line) == columns(first))
}

fn is_head(line: &str) -> bool {
    let Some(delimiter) = table::delimiter(line) else {
        return false;
    };
    let names: Vec<&str> = line
        .split(char::from(delimiter))
        .map(|name| name.trim_matches('"'))
        .collect();
    rows::are_columns(&names)
}

fn beginning(text: &str) -> String {
    text.trim_start()
        .chars()
        .take_while(|letter| *letter != '\n')
        .take(40)
        .collect()
}
