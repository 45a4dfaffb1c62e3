//! `go test -bench`: one file per arm, as for benchstat.
//!
//! Each line is a sample, and all samples between two headers (`pkg:`) come from one process. Packages,
//! systems and processor counts (the suffix of a name) are kept apart.
//! Sources: the Go benchmark data format, golang.org/design/14313-benchmark-format, and the `Unit`
//! lines of golang.org/x/perf/benchfmt.

use std::collections::{BTreeMap, BTreeSet};

use record::metric::Direction;

use crate::observation::{FileFigures, Labels, Observation, Run};

/// Keys of header lines, which say where the following results were taken.
const HEADERS: [&str; 4] = ["pkg", "goos", "goarch", "cpu"];

/// Whether a line is a result of a benchmark.
pub(crate) fn is_result(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let named = words
        .next()
        .is_some_and(|word| word.starts_with("Benchmark"));
    named
        && words
            .next()
            .is_some_and(|count| count.parse::<u64>().is_ok())
        && words.count() >= 2
}

/// Whether a line reports a failed benchmark.
pub(crate) fn is_failed_benchmark(line: &str) -> bool {
    line.contains("--- FAIL: Benchmark")
}

/// Whether this text reports a failure of a test, a build, or the process itself.
fn is_failure(text: &str) -> bool {
    let is_exit = text.starts_with("exit status ") && text != "exit status 0";
    let starts = [
        "--- FAIL",
        "FAIL\t",
        "FAIL ",
        "panic: ",
        "fatal error: ",
        "signal: ",
        "*** Test killed",
    ];
    text == "FAIL" || is_exit || starts.iter().any(|start| text.starts_with(start))
}

/// Reads the samples of one arm. A failed run has no figures and is left out with its reason. If a process
/// fails without naming a benchmark, any of its figures may be wrong: all of them are left out.
pub(crate) fn read(text: &str, file: &mut FileFigures) {
    let units = Units::read(text, file);
    let (mut labels, mut processes) = (Labels::new(), BTreeMap::<String, u32>::new());
    let (mut process, mut failures) = (Process::default(), Failures::default());
    let mut results = 0;
    for (index, line) in text.lines().enumerate() {
        let (line, number) = (line.trim_end(), index + 1);
        if let Some((key, value)) = header(line) {
            if key == "pkg" {
                process.end(file);
                process.first = Some(file.observations.len());
                *processes.entry(value.into()).or_default() += 1;
            }
            labels.insert(key, value.into());
        } else if is_result(line) {
            results += 1;
            process.first.get_or_insert(file.observations.len());
            process.running = None;
            let package = labels.get("pkg").cloned().unwrap_or_default();
            let count = processes.get(&package).copied().unwrap_or_default();
            let run = Run::Within(format!("process {count}"));
            sample(line, number, &labels, &units, &run, file);
        } else if line.starts_with("ok ") || line.starts_with("ok\t") {
            process.end(file);
        } else {
            let first_word = line.split_whitespace().next();
            let name = first_word.filter(|_| line.starts_with("Benchmark"));
            let text = line[name.map_or(0, str::len)..].trim();
            if let Some(name) = name {
                process.running = Some(name.into());
            }
            if is_failure(text) {
                let package = labels.get("pkg").map(String::as_str);
                process.fail(text, number, package, &mut failures, file);
            }
        }
    }
    process.end(file);
    units.check_exact(file);
    failures.report(results, file);
}

/// State of the process whose lines are being read.
#[derive(Default)]
struct Process {
    /// Index of its first observation; `None` before a process and after its last line.
    first: Option<usize>,
    /// Failed benchmarks by name, and how many observations there were when each failed.
    failed: BTreeMap<String, usize>,
    /// The benchmark that has started and has no result yet.
    running: Option<String>,
    /// Whether a named test or benchmark failed in it.
    is_named: bool,
    /// Whether it failed as a whole.
    has_failed: bool,
    /// The line that reports this, with its number, if no benchmark was running.
    unnamed: Option<(String, usize)>,
}

impl Process {
    /// Records a line that reports a failure.
    fn fail(
        &mut self,
        text: &str,
        line: usize,
        package: Option<&str>,
        failures: &mut Failures,
        file: &mut FileFigures,
    ) {
        let word_after = |start: &str| {
            let rest = text.strip_prefix(start);
            rest.and_then(|rest| rest.split_whitespace().next())
        };
        let is_open = self.first.is_some() || self.running.is_some();
        let ended = word_after("FAIL");
        if let Some(name) = word_after("--- FAIL: ") {
            self.is_named = true;
            self.running = None;
            failures.add(name, text, line);
            self.failed.insert(bare(name), file.observations.len());
        } else if let Some(ended) = ended
            && (!is_open || package.is_some_and(|package| package != ended))
        {
            // A package with no other line.
            failures.add(ended, text, line);
        } else if is_open {
            let sums_up = text.starts_with("FAIL") || text.starts_with("exit status");
            let is_known = self.has_failed || (sums_up && self.is_named);
            if !is_known {
                self.has_failed = true;
                match self.running.take() {
                    Some(name) => failures.add(&name, text, line),
                    None => self.unnamed = Some((text.into(), line)),
                }
            }
            if ended.is_some() {
                self.end(file);
            }
        }
    }

    /// Ends the process after its last line.
    fn end(&mut self, file: &mut FileFigures) {
        let process = std::mem::take(self);
        process.leave_out_failed(file);
        if let (Some(first), Some((text, line))) = (process.first, process.unnamed) {
            let left_out = file.observations.split_off(first).len();
            file.remarks.insert(format!(
                "{}:{line}: a process failed and names no benchmark, so its {left_out} figures are left out: {text:?}",
                file.file
            ));
        }
    }

    /// Leaves out the figures of a benchmark that it gave before it failed.
    fn leave_out_failed(&self, file: &mut FileFigures) {
        let (Some(first), false) = (self.first, self.failed.is_empty()) else {
            return;
        };
        let figures = file.observations.split_off(first);
        let is_sound = |(index, figure): &(usize, Observation)| {
            let name = figure.labels.get("name").map(|name| bare(name));
            let failed = name.and_then(|name| self.failed.get(&name));
            failed.is_none_or(|failed| *failed <= *index)
        };
        let sound = (first..).zip(figures).filter(is_sound);
        file.observations.extend(sound.map(|(_, figure)| figure));
    }
}

/// A benchmark's name without `Benchmark` and the CPU suffix, which some lines lack.
fn bare(name: &str) -> String {
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    match name.rsplit_once('-') {
        Some((bare, cpus)) if cpus.parse::<u32>().is_ok() => bare.into(),
        _ => name.into(),
    }
}

/// Failures by name: how many, the text of the first, and its line number.
#[derive(Default)]
struct Failures(BTreeMap<String, (u32, String, usize)>);

impl Failures {
    fn add(&mut self, name: &str, text: &str, line: usize) {
        let first = (0, text.into(), line);
        self.0.entry(name.into()).or_insert(first).0 += 1;
    }

    /// Whether a part of a benchmark failed.
    fn has_part(&self, name: &str) -> bool {
        let start = format!("{name}/");
        let mut from = self.0.range(start.clone()..);
        from.next()
            .is_some_and(|(name, _)| name.starts_with(&start))
    }

    /// Adds a remark for each failure, and the share of failed benchmarks.
    fn report(&self, results: u32, file: &mut FileFigures) {
        for (name, (count, text, line)) in &self.0 {
            let times = if *count == 1 {
                String::new()
            } else {
                format!(" {count} times")
            };
            let remark = format!(
                "{}:{line}: {name} failed{times} and is left out there: {text:?}",
                file.file
            );
            file.remarks.insert(remark);
        }
        if file.observations.is_empty() {
            let remarks: Vec<String> = file.remarks.iter().cloned().collect();
            let what = format!("nothing is left to judge: {}", remarks.join("; "));
            file.wrong(0, what, "repair what failed, and run it again");
            return;
        }
        let benchmarks = self
            .0
            .iter()
            .filter(|(name, _)| name.starts_with("Benchmark"))
            // If a part of a benchmark failed, only the part is counted.
            .filter(|(name, _)| !self.has_part(name));
        let failed: u32 = benchmarks.map(|(_, (count, ..))| count).sum();
        let share = f64::from(failed) / f64::from(failed + results);
        file.failures("benchmarks failed", share, 1);
    }
}

fn header(line: &str) -> Option<(&'static str, &str)> {
    let (key, value) = line.split_once(':')?;
    let key = HEADERS.iter().find(|header| **header == key)?;
    Some((key, value.trim()))
}

fn sample(
    line: &str,
    number: usize,
    labels: &Labels,
    units: &Units,
    run: &Run,
    file: &mut FileFigures,
) {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    let rest: Vec<&str> = words.skip(1).collect();
    for pair in rest.chunks(2) {
        let [figure, unit] = pair else {
            file.wrong(
                number,
                format!("a figure without a unit: {:?}", pair[0]),
                "",
            );
            continue;
        };
        let Some(value) = file.number(figure, number, &format!(" before {unit:?}")) else {
            continue;
        };
        let mut labels = labels.clone();
        labels.insert("name", name.into());
        file.add(Observation {
            quantity: Some((*unit).into()),
            direction: units.directions.get(normalized(unit).as_str()).copied(),
            run: run.clone(),
            labels,
            ..file.observation(&format!("{name} {unit}"), unit, value, number)
        });
    }
}

/// What lines such as `Unit ns/op better=lower assume=exact` declare, by normalized unit.
#[derive(Default)]
struct Units {
    directions: BTreeMap<String, Direction>,
    exact: BTreeSet<String>,
}

impl Units {
    fn read(text: &str, file: &mut FileFigures) -> Self {
        let mut units = Self::default();
        for (index, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            if !line.starts_with("Unit ") || words.next() != Some("Unit") {
                continue;
            }
            let unit = normalized(words.next().unwrap_or_default());
            for word in words {
                units.note(&unit, word, index + 1, file);
            }
        }
        units
    }

    fn note(&mut self, unit: &str, word: &str, line: usize, file: &mut FileFigures) {
        let direction = match word {
            "better=higher" => Direction::Higher,
            "better=lower" => Direction::Lower,
            "assume=exact" => {
                self.exact.insert(unit.into());
                return;
            }
            word if word.starts_with("better=") => {
                let what = format!("no direction of the unit {unit}: {word:?}");
                file.wrong(line, what, "write better=higher or better=lower");
                return;
            }
            // The format permits further keys.
            _ => return,
        };
        let before = self.directions.insert(unit.into(), direction);
        if before.is_some_and(|before| before != direction) {
            let what = format!("another direction of the unit {unit} than before: {word:?}");
            file.wrong(line, what, "one unit has one direction");
        }
    }

    /// Adds a remark for each metric that varies although its unit is declared exact.
    fn check_exact(&self, file: &mut FileFigures) {
        let mut first_values = BTreeMap::<(&str, &Labels), f64>::new();
        let mut varying = BTreeSet::new();
        let is_exact = |figure: &&Observation| self.exact.contains(&normalized(&figure.unit));
        for figure in file.observations.iter().filter(is_exact) {
            let first_value = first_values
                .entry((&figure.metric, &figure.labels))
                .or_insert(figure.value);
            if first_value.total_cmp(&figure.value).is_ne() {
                varying.insert(figure.metric.clone());
            }
        }
        for metric in varying {
            let remark = format!(
                "{}: {metric} scatters, though its unit says assume=exact",
                file.file
            );
            file.remarks.insert(remark);
        }
    }
}

/// The unit as benchstat writes it: `sec/op` for `ns/op`, `B/s` for `MB/s`.
fn normalized(unit: &str) -> String {
    match unit {
        "MB/s" => "B/s".into(),
        "ns" => "sec".into(),
        _ => match (unit.strip_prefix("ns/"), unit.strip_suffix("-ns/op")) {
            (Some(per), _) => format!("sec/{per}"),
            (_, Some(what)) => format!("{what}-sec/op"),
            (None, None) => unit.into(),
        },
    }
}

// ---- names, once all files are read ----

/// Names each benchmark by what distinguishes it in all files: the package if there are several, the
/// system if one arm has several, and the suffix `-8` if the number of processors differs.
pub(crate) fn name_metrics(files: &mut [FileFigures]) {
    let all = || {
        files
            .iter()
            .flat_map(|file| &file.observations)
            .filter(|figure| is_go_result(figure))
    };
    let packages: BTreeSet<&str> = all().filter_map(|figure| label(figure, "pkg")).collect();
    let has_packages = packages.len() > 1;
    let mut remarks = BTreeSet::new();
    let mut distinguishing = Vec::new();
    for key in HEADERS.into_iter().filter(|key| *key != "pkg") {
        match spread(all().map(|figure| (figure.arm.as_str(), label(figure, key)))) {
            Spread::Same => {}
            Spread::WithinArm => distinguishing.push(key),
            Spread::BetweenArms(values) => {
                remarks.insert(format!("the arms differ in {key} too: {values}"));
            }
        }
    }
    let suffixes = Suffixes::from_files(files);
    if let Suffixes::Differ(counts) = &suffixes {
        remarks.insert(format!("the arms differ in GOMAXPROCS too: {counts}"));
    }
    for file in files.iter_mut() {
        let suffix = suffixes.to_cut(file);
        for figure in file
            .observations
            .iter_mut()
            .filter(|figure| is_go_result(figure))
        {
            let name = label(figure, "name").unwrap_or_default();
            let mut metric = match label(figure, "pkg") {
                Some(package) if has_packages => format!("{package}."),
                Some(_) | None => String::new(),
            };
            let without_suffix = suffix
                .as_ref()
                .and_then(|suffix| name.strip_suffix(suffix.as_str()));
            metric.push_str(without_suffix.unwrap_or(name));
            for value in distinguishing.iter().filter_map(|key| label(figure, key)) {
                metric.extend([" (", value, ")"]);
            }
            figure.metric = format!("{metric} {}", figure.unit);
        }
    }
    if let Some(file) = files.first_mut() {
        file.remarks.append(&mut remarks);
    }
}

fn is_go_result(figure: &Observation) -> bool {
    figure.labels.contains_key("name")
}

fn label<'o>(figure: &'o Observation, key: &str) -> Option<&'o str> {
    figure.labels.get(key).map(String::as_str)
}

/// Whether and where the values of a label differ.
enum Spread {
    Same,
    WithinArm,
    BetweenArms(String),
}

fn spread<'o>(labels: impl Iterator<Item = (&'o str, Option<&'o str>)>) -> Spread {
    let mut by_arm = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (arm, value) in labels {
        by_arm.entry(arm).or_default().extend(value);
    }
    let values: BTreeSet<&str> = by_arm.values().flatten().copied().collect();
    if values.len() < 2 {
        Spread::Same
    } else if by_arm.values().any(|values| values.len() > 1) {
        Spread::WithinArm
    } else {
        let arms = by_arm
            .iter()
            .map(|(arm, values)| format!("{} of {arm}", values.first().unwrap_or(&"unknown")));
        Spread::BetweenArms(arms.collect::<Vec<_>>().join(", "))
    }
}

/// Which suffix to remove from the names, for all files together.
enum Suffixes {
    /// None: without it some names would be ambiguous.
    Keep,
    /// All names of all files have this suffix.
    Same(String),
    /// Each arm has a different GOMAXPROCS, listed in words.
    Differ(String),
}

/// What the names of one file reveal about GOMAXPROCS.
/// What the names of one file say of GOMAXPROCS.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Processors {
    /// All names have this suffix. A top-level name contains no other `-`, so with such a name the suffix
    /// is certainly Go's. `X/size-10` alone may be a name from a run on one processor.
    All { suffix: String, is_certain: bool },
    /// Some names have no suffix: one processor.
    One,
    /// Several values, or not determinable.
    Unclear,
}

impl Processors {
    fn from_names(names: &BTreeSet<&str>) -> Self {
        let suffixes: BTreeSet<Option<&str>> = names.iter().map(|name| cpu_suffix(name)).collect();
        let mut top_level = names.iter().filter(|name| !name.contains('/'));
        match (suffixes.first(), suffixes.len()) {
            (Some(Some(suffix)), 1) => Self::All {
                suffix: (*suffix).into(),
                is_certain: top_level.next().is_some(),
            },
            (Some(None), 1) => Self::One,
            (Some(None), _)
                if top_level.clone().next().is_some()
                    && top_level.all(|name| cpu_suffix(name).is_none()) =>
            {
                Self::One
            }
            _ => Self::Unclear,
        }
    }
}

/// `-8` of `Join-8`.
fn cpu_suffix(name: &str) -> Option<&str> {
    let dash = name.rfind('-')?;
    let digits = &name[dash + 1..];
    digits.parse::<u32>().is_ok().then_some(&name[dash..])
}

fn names(file: &FileFigures) -> BTreeSet<&str> {
    let go = file.observations.iter();
    go.filter_map(|figure| label(figure, "name")).collect()
}

impl Suffixes {
    fn from_files(files: &[FileFigures]) -> Self {
        let mut by_arm = BTreeMap::<&str, BTreeSet<Processors>>::new();
        for file in files.iter().filter(|file| !names(file).is_empty()) {
            let arm = file.observations.first().map_or("", |figure| &figure.arm);
            by_arm
                .entry(arm)
                .or_default()
                .insert(Processors::from_names(&names(file)));
        }
        let all: Vec<&Processors> = by_arm.values().flatten().collect();
        let suffix_of = |processors: &Processors| match processors {
            Processors::All { suffix, .. } => Some(suffix.clone()),
            Processors::One | Processors::Unclear => None,
        };
        if let Some(suffix) = all.first().and_then(|first| suffix_of(first))
            && all
                .iter()
                .all(|processors| suffix_of(processors).as_ref() == Some(&suffix))
        {
            return Self::Same(suffix);
        }
        let is_clear = |processors: &Processors| match processors {
            Processors::All { is_certain, .. } => *is_certain,
            Processors::One => true,
            Processors::Unclear => false,
        };
        let is_one_each = by_arm.values().all(|processors| processors.len() == 1);
        if !is_one_each
            || !all.iter().all(|processors| is_clear(processors))
            || all.iter().all(|processors| suffix_of(processors).is_none())
        {
            return Self::Keep;
        }
        let counts = by_arm.iter().map(|(arm, processors)| {
            let suffix = processors
                .first()
                .and_then(suffix_of)
                .unwrap_or("-1".into());
            format!("{} of {arm}", &suffix[1..])
        });
        Self::Differ(counts.collect::<Vec<_>>().join(", "))
    }

    fn to_cut(&self, file: &FileFigures) -> Option<String> {
        match (self, Processors::from_names(&names(file))) {
            (Self::Same(suffix), _) => Some(suffix.clone()),
            (Self::Differ(_), Processors::All { suffix, .. }) => Some(suffix),
            (Self::Keep | Self::Differ(_), _) => None,
        }
    }
}
