//! Detects the format of a file from its content, never from its name.

use std::collections::BTreeMap;

use super::{
    criterion, go_bench, google_benchmark, hyperfine, json_rows, k6, oha, phoronix, plain, rows,
    table,
};
use crate::json::Raw;
use crate::observation::{FEWER, FileFigures, without_commas};
use crate::source::Source;
use base::input::units::show_bytes;

/// Largest result file, in bytes.
const MAX_BYTES: u64 = 32 << 20;

/// Most values in a file, counted by their separators in all formats.
const MAX_VALUES: usize = 1_000_000;

/// Remedy that lists the accepted formats.
const ACCEPTED: &str = "accepted: CSV or JSON lines with arm, block, metric, value; hyperfine JSON; \
                        go test -bench; google-benchmark JSON; target/criterion; Phoronix composite.xml; \
                        k6 and oha JSON; plain numbers";

/// Format of a result file.
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

/// Reads one file in the format that its content shows.
pub(crate) fn read(source: &Source) -> FileFigures {
    let mut file = FileFigures::new(&source.path.display().to_string());
    let Some(text) = content(source, &mut file) else {
        return file;
    };
    let format = match &formats(source, &text)[..] {
        [] => {
            let what = format!("no known format, beginning with {:?}", beginning(&text));
            file.wrong(0, what, ACCEPTED);
            return file;
        }
        [format] => *format,
        several => {
            let names: Vec<&str> = several.iter().map(|format| format.name()).collect();
            let what = format!("several formats in one file: {}", names.join(" and "));
            file.wrong(0, what, "keep each in a file of its own");
            return file;
        }
    };
    file.format = format.name();
    read_as(format, source, &text, &mut file);
    if file.observations.is_empty() && file.problems.is_empty() && file.left_out.is_empty() {
        let what = format!("{} without a figure", file.format);
        file.wrong(0, what, "was the benchmark run to its end?");
    }
    file
}

fn content(source: &Source, file: &mut FileFigures) -> Option<String> {
    let size = source.path.metadata().map_or(0, |meta| meta.len());
    if size > MAX_BYTES {
        let what = format!("larger than {}: {size} bytes", show_bytes(MAX_BYTES));
        file.wrong(0, what, FEWER);
        return None;
    }
    match base::input::file::read(&source.path, MAX_BYTES).map(String::from_utf8) {
        Ok(Ok(mut text)) => {
            let marks = text.len() - text.trim_start_matches('\u{feff}').len();
            text.drain(..marks);
            if values(&text) > MAX_VALUES {
                file.wrong(0, format!("more than {MAX_VALUES} values"), FEWER);
                return None;
            }
            if !text.trim().is_empty() {
                return Some(text);
            }
            file.wrong(0, "the file is empty", ACCEPTED);
        }
        Ok(Err(_)) => file.wrong(0, "not text in UTF-8", ACCEPTED),
        Err(why) => file.wrong(0, format!("cannot be read: {why}"), "give a readable file"),
    }
    None
}

/// Upper bound of the number of values in a text, in any format.
fn values(text: &str) -> usize {
    let separates = |byte: &u8| b",;\t\n{[<=".contains(byte);
    text.as_bytes()
        .iter()
        .filter(|byte| separates(byte))
        .count()
}

fn read_as(format: Format, source: &Source, text: &str, file: &mut FileFigures) {
    match format {
        Format::Csv => table::read(text, file),
        Format::JsonRows => json_rows::read(text, file),
        Format::Hyperfine => hyperfine::read(text, file, source.file_count > 1),
        Format::GoBench => go_bench::read(text, file),
        Format::GoogleBenchmark => google_benchmark::read(text, file),
        Format::Criterion => {
            let (arm, benchmark) = source.criterion.clone().unwrap_or_default();
            let is_csv = source.path.extension().is_some_and(|end| end == "csv");
            let read = if is_csv {
                criterion::read_csv
            } else {
                criterion::read
            };
            read(text, &arm, &benchmark, file);
        }
        Format::Phoronix => phoronix::read(text, file),
        Format::K6 => k6::read(text, file),
        Format::Oha => oha::read(text, file),
        Format::Plain => plain::read(text, file),
    }
}

/// All formats that match a text; more than one is ambiguous.
fn formats(source: &Source, text: &str) -> Vec<Format> {
    if source.criterion.is_some() {
        return vec![Format::Criterion];
    }
    match text.trim_start().as_bytes()[0] {
        b'<' if text.contains("<PhoronixTestSuite") => vec![Format::Phoronix],
        b'<' => Vec::new(),
        b'{' | b'[' => json_formats(text),
        _ => line_formats(text),
    }
}

fn json_formats(text: &str) -> Vec<Format> {
    let Ok(object) = serde_json::from_str::<BTreeMap<String, Raw<'_>>>(text) else {
        let first = text
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default();
        let is_line = serde_json::from_str::<BTreeMap<String, Raw<'_>>>(first).is_ok();
        // A broken export is recognized by its keys, so that its reader reports the mistake.
        let formats = formats_by_keys(|key| text.contains(&format!("\"{key}\"")).then_some(text));
        let looks_like_rows = formats.is_empty() && first.trim_end().ends_with('}');
        return if text.trim_start().starts_with('[') || is_line || looks_like_rows {
            vec![Format::JsonRows]
        } else {
            formats
        };
    };
    let formats = formats_by_keys(|key| object.get(key).map(|raw| raw.get()));
    if formats.is_empty() && object.contains_key("arm") {
        vec![Format::JsonRows]
    } else {
        formats
    }
}

/// Formats recognized by a key and the keys below it, because many formats share a single key.
fn formats_by_keys<'t>(value: impl Fn(&str) -> Option<&'t str>) -> Vec<Format> {
    let has_below = |key: &str, keys: &[&str]| {
        let holds = |text: &str| keys.iter().any(|key| text.contains(&format!("\"{key}\"")));
        let has = |text: &str| text == "[]" || holds(text);
        value(key).is_some_and(has)
    };
    let is_oha = value("summary").is_some() && value("latencyPercentiles").is_some();
    let is_k6_list = value("version").is_some() && has_below("results", &["metrics"]);
    let is_k6 = has_below("metrics", &["values", "rate", "value", "count", "med"]);
    let mut formats = Vec::new();
    let mut add = |is: bool, format| formats.extend(is.then_some(format));
    add(
        has_below("results", &["command"]) && !is_k6_list,
        Format::Hyperfine,
    );
    let google_keys = [
        "real_time",
        "run_type",
        "run_name",
        "error_occurred",
        "skipped",
    ];
    add(
        has_below("benchmarks", &google_keys),
        Format::GoogleBenchmark,
    );
    add(is_oha, Format::Oha);
    // oha has an object `metrics` too.
    add((is_k6 || is_k6_list) && !is_oha, Format::K6);
    formats
}

fn line_formats(text: &str) -> Vec<Format> {
    let mut formats = Vec::new();
    let content = || text.lines().filter(|line| table::is_content(line));
    if content().any(|line| go_bench::is_result(line) || go_bench::is_failed_benchmark(line)) {
        formats.push(Format::GoBench);
    }
    if content().any(is_header) {
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
    // A file of one column is CSV only with a header; a stray word among numbers is a mistake.
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

/// Whether all lines have as many delimiters as the first: a table, possibly with unknown columns.
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

fn is_header(line: &str) -> bool {
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
