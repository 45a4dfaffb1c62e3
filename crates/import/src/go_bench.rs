//! `go test -bench`: one file per arm, as for benchstat.
//!
//! Each line is a sample, and all samples between two heads (`pkg:`) come from one process. What the
//! file tells apart stays apart: packages, systems, and the number of processors behind a name.
//! Sources: the Go benchmark data format, golang.org/design/14313-benchmark-format, and the `Unit`
//! lines of golang.org/x/perf/benchfmt.

use std::collections::{BTreeMap, BTreeSet};

use record::metric::Direction;

use crate::observation::{FileFigures, Labels, Observation, Run};

/// Lines before the results that say where they were taken.
const HEADS: [&str; 4] = ["pkg", "goos", "goarch", "cpu"];

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

/// Whether a line names a benchmark that failed.
pub(crate) fn is_failed_benchmark(line: &str) -> bool {
    line.contains("--- FAIL: Benchmark")
}

/// Whether this says that something failed: a test, a build, or the process itself.
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

/// Reads the samples of one arm. A run that failed has no figures and is left out with its reason. Where a process failed and
/// names no benchmark, nobody knows which of its figures are sound: all of them are left out.
pub(crate) fn read(text: &str, found: &mut FileFigures) {
    let units = Units::read(text, found);
    let (mut labels, mut processes) = (Labels::new(), BTreeMap::<String, u32>::new());
    let (mut process, mut failures) = (Process::default(), Failures::default());
    let mut results = 0;
    for (index, line) in text.lines().enumerate() {
        let (line, number) = (line.trim_end(), index + 1);
        if let Some((key, value)) = head(line) {
            if key == "pkg" {
                process.end(found);
                process.first = Some(found.observations.len());
                *processes.entry(value.into()).or_default() += 1;
            }
            labels.insert(key, value.into());
        } else if is_result(line) {
            results += 1;
            process.first.get_or_insert(found.observations.len());
            process.running = None;
            let package = labels.get("pkg").cloned().unwrap_or_default();
            let count = processes.get(&package).copied().unwrap_or_default();
            let run = Run::Within(format!("process {count}"));
            sample(line, number, (&labels, &units, &run), found);
        } else if line.starts_with("ok ") || line.starts_with("ok\t") {
            process.end(found);
        } else {
            let begun = line
                .starts_with("Benchmark")
                .then(|| line.split_whitespace().next());
            let name = begun.flatten();
            let said = line[name.map_or(0, str::len)..].trim();
            if let Some(name) = name {
                process.running = Some(name.into());
            }
            if is_failure(said) {
                let package = labels.get("pkg").map(String::as_str);
                process.fail((said, number), package, &mut failures, found);
            }
        }
    }
    process.end(found);
    units.check_exact(found);
    failures.report(results, found);
}

/// The process whose lines are read.
#[derive(Default)]
struct Process {
    /// Place of its first observation; `None` before a process, and after its last line.
    first: Option<usize>,
    /// Benchmarks that failed by name, and how many observations there were then.
    failed: BTreeMap<String, usize>,
    /// The benchmark that has begun and has no result yet.
    running: Option<String>,
    /// Whether something that failed in it is known by its name.
    is_named: bool,
    /// Whether it failed as a whole.
    has_failed: bool,
    /// The line that says so, with its number, where no benchmark was running.
    unnamed: Option<(String, usize)>,
}

impl Process {
    /// Takes note of a line that says that something failed.
    fn fail(
        &mut self,
        (said, line): (&str, usize),
        package: Option<&str>,
        failures: &mut Failures,
        found: &mut FileFigures,
    ) {
        let word_after = |start: &str| {
            let rest = said.strip_prefix(start);
            rest.and_then(|rest| rest.split_whitespace().next())
        };
        let is_open = self.first.is_some() || self.running.is_some();
        let ended = word_after("FAIL");
        if let Some(name) = word_after("--- FAIL: ") {
            self.is_named = true;
            self.running = None;
            failures.add(name, said, line);
            self.failed.insert(bare(name), found.observations.len());
        } else if let Some(ended) = ended
            && (!is_open || package.is_some_and(|package| package != ended))
        {
            // A package that has no line but this.
            failures.add(ended, said, line);
        } else if is_open {
            let sums_up = said.starts_with("FAIL") || said.starts_with("exit status");
            let is_known = self.has_failed || (sums_up && self.is_named);
            if !is_known {
                self.has_failed = true;
                match self.running.take() {
                    Some(name) => failures.add(&name, said, line),
                    None => self.unnamed = Some((said.into(), line)),
                }
            }
            if ended.is_some() {
                self.end(found);
            }
        }
    }

    /// Its last line was read.
    fn end(&mut self, found: &mut FileFigures) {
        let process = std::mem::take(self);
        process.leave_out_failed(found);
        if let (Some(first), Some((said, line))) = (process.first, process.unnamed) {
            let left_out = found.observations.split_off(first).len();
            found.remarks.insert(format!(
                "{}:{line}: a process failed and names no benchmark, so its {left_out} figures are left out: {said:?}",
                found.file
            ));
        }
    }

    /// Leaves out the figures of benchmarks that failed after them.
    fn leave_out_failed(&self, found: &mut FileFigures) {
        let (Some(first), false) = (self.first, self.failed.is_empty()) else {
            return;
        };
        let figures = found.observations.split_off(first);
        let is_sound = |(place, figure): &(usize, Observation)| {
            let name = figure.labels.get("name").map(|name| bare(name));
            let failed = name.and_then(|name| self.failed.get(&name));
            failed.is_none_or(|failed| *failed <= *place)
        };
        let sound = (first..).zip(figures).filter(is_sound);
        found.observations.extend(sound.map(|(_, figure)| figure));
    }
}

/// A benchmark's name without `Benchmark` and the number of CPUs, which not every line has.
fn bare(name: &str) -> String {
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    match name.rsplit_once('-') {
        Some((bare, cpus)) if cpus.parse::<u32>().is_ok() => bare.into(),
        _ => name.into(),
    }
}

/// What failed by its name: how often, and what the first line says with its number.
#[derive(Default)]
struct Failures(BTreeMap<String, (u32, String, usize)>);

impl Failures {
    fn add(&mut self, name: &str, said: &str, line: usize) {
        let first = (0, said.into(), line);
        self.0.entry(name.into()).or_insert(first).0 += 1;
    }

    /// Whether a part of a benchmark failed.
    fn has_part(&self, name: &str) -> bool {
        let start = format!("{name}/");
        let mut from = self.0.range(start.clone()..);
        from.next()
            .is_some_and(|(name, _)| name.starts_with(&start))
    }

    /// Tells of each, and adds the share of benchmarks that failed.
    fn report(&self, results: u32, found: &mut FileFigures) {
        for (name, (count, said, line)) in &self.0 {
            let times = if *count == 1 {
                String::new()
            } else {
                format!(" {count} times")
            };
            let remark = format!(
                "{}:{line}: {name} failed{times} and is left out there: {said:?}",
                found.file
            );
            found.remarks.insert(remark);
        }
        if found.observations.is_empty() {
            let remarks: Vec<String> = found.remarks.iter().cloned().collect();
            let what = format!("nothing is left to judge: {}", remarks.join("; "));
            found.wrong(0, what, "repair what failed, and run it again");
            return;
        }
        let benchmarks = self
            .0
            .iter()
            .filter(|(name, _)| name.starts_with("Benchmark"))
            // One that failed because a part of it did is counted by its parts.
            .filter(|(name, _)| !self.has_part(name));
        let failed: u32 = benchmarks.map(|(_, (count, ..))| count).sum();
        let share = f64::from(failed) / f64::from(failed + results);
        found.failures("benchmarks failed", share, 1);
    }
}

fn head(line: &str) -> Option<(&'static str, &str)> {
    let (key, value) = line.split_once(':')?;
    let key = HEADS.iter().find(|head| **head == key)?;
    Some((key, value.trim()))
}

fn sample(
    line: &str,
    number: usize,
    (labels, units, run): (&Labels, &Units, &Run),
    found: &mut FileFigures,
) {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    let rest: Vec<&str> = words.skip(1).collect();
    for pair in rest.chunks(2) {
        let [figure, unit] = pair else {
            found.wrong(
                number,
                format!("a figure without a unit: {:?}", pair[0]),
                "",
            );
            continue;
        };
        let Some(value) = found.number(figure, number, &format!(" before {unit:?}")) else {
            continue;
        };
        let mut labels = labels.clone();
        labels.insert("name", name.into());
        found.add(Observation {
            quantity: Some((*unit).into()),
            direction: units.directions.get(tidy(unit).as_str()).copied(),
            run: run.clone(),
            labels,
            ..found.observation(&format!("{name} {unit}"), unit, value, number)
        });
    }
}

/// What lines such as `Unit ns/op better=lower assume=exact` say, by the tidied unit.
#[derive(Default)]
struct Units {
    directions: BTreeMap<String, Direction>,
    exact: BTreeSet<String>,
}

impl Units {
    fn read(text: &str, found: &mut FileFigures) -> Self {
        let mut units = Self::default();
        for (index, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            if !line.starts_with("Unit ") || words.next() != Some("Unit") {
                continue;
            }
            let unit = tidy(words.next().unwrap_or_default());
            for word in words {
                units.note(&unit, word, index + 1, found);
            }
        }
        units
    }

    fn note(&mut self, unit: &str, word: &str, line: usize, found: &mut FileFigures) {
        let direction = match word {
            "better=higher" => Direction::Higher,
            "better=lower" => Direction::Lower,
            "assume=exact" => {
                self.exact.insert(unit.into());
                return;
            }
            word if word.starts_with("better=") => {
                let what = format!("no direction of the unit {unit}: {word:?}");
                found.wrong(line, what, "write better=higher or better=lower");
                return;
            }
            // The format leaves room for keys that are not known here.
            _ => return,
        };
        let before = self.directions.insert(unit.into(), direction);
        if before.is_some_and(|before| before != direction) {
            let what = format!("another direction of the unit {unit} than before: {word:?}");
            found.wrong(line, what, "one unit has one direction");
        }
    }

    /// A unit that the file calls exact must not scatter.
    fn check_exact(&self, found: &mut FileFigures) {
        let mut first = BTreeMap::<(&str, &Labels), f64>::new();
        let mut scattering = BTreeSet::new();
        let is_exact = |one: &&Observation| self.exact.contains(&tidy(&one.unit));
        for one in found.observations.iter().filter(is_exact) {
            let known = first.entry((&one.metric, &one.labels)).or_insert(one.value);
            if known.total_cmp(&one.value).is_ne() {
                scattering.insert(one.metric.clone());
            }
        }
        for metric in scattering {
            let remark = format!(
                "{}: {metric} scatters, though its unit says assume=exact",
                found.file
            );
            found.remarks.insert(remark);
        }
    }
}

/// The unit as benchstat calls it: `sec/op` for `ns/op`, `B/s` for `MB/s`.
fn tidy(unit: &str) -> String {
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

/// Names each benchmark by what tells it apart in all files: its package where there are several, the
/// system where one arm has several, and `-8` for the processors where not all have the same.
pub(crate) fn name_metrics(files: &mut [FileFigures]) {
    let all = || {
        files
            .iter()
            .flat_map(|file| &file.observations)
            .filter(|one| is_go(one))
    };
    let packages: BTreeSet<&str> = all().filter_map(|one| label(one, "pkg")).collect();
    let has_packages = packages.len() > 1;
    let mut remarks = BTreeSet::new();
    let mut apart = Vec::new();
    for key in HEADS.into_iter().filter(|key| *key != "pkg") {
        match spread(all().map(|one| (one.arm.as_str(), label(one, key)))) {
            Spread::Same => {}
            Spread::WithinArm => apart.push(key),
            Spread::BetweenArms(values) => {
                remarks.insert(format!("the arms differ in {key} too: {values}"));
            }
        }
    }
    let suffixes = Suffixes::of(files);
    if let Suffixes::Differ(counts) = &suffixes {
        remarks.insert(format!("the arms differ in GOMAXPROCS too: {counts}"));
    }
    for file in files.iter_mut() {
        let suffix = suffixes.to_cut(file);
        for one in file.observations.iter_mut().filter(|one| is_go(one)) {
            let name = label(one, "name").unwrap_or_default();
            let mut metric = match label(one, "pkg") {
                Some(package) if has_packages => format!("{package}."),
                Some(_) | None => String::new(),
            };
            let cut = suffix
                .as_ref()
                .and_then(|suffix| name.strip_suffix(suffix.as_str()));
            metric.push_str(cut.unwrap_or(name));
            for value in apart.iter().filter_map(|key| label(one, key)) {
                metric.extend([" (", value, ")"]);
            }
            one.metric = format!("{metric} {}", one.unit);
        }
    }
    if let Some(file) = files.first_mut() {
        file.remarks.append(&mut remarks);
    }
}

fn is_go(one: &Observation) -> bool {
    one.labels.contains_key("name")
}

fn label<'o>(one: &'o Observation, key: &str) -> Option<&'o str> {
    one.labels.get(key).map(String::as_str)
}

/// Where the values of a label differ.
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

/// What to cut of the names, for all files together.
enum Suffixes {
    /// Nothing: some names would lose what tells them apart.
    Keep,
    /// All names of all files end so.
    Same(String),
    /// Each arm has a GOMAXPROCS of its own, told in words.
    Differ(String),
}

/// What the names of one file say of GOMAXPROCS.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Processors {
    /// All names end so. A name of the top level has no `-` of its own, so with such a name the end
    /// is certainly that of Go; `X/size-10` alone may be a name from a run on one processor.
    All { suffix: String, is_certain: bool },
    /// There are names without an end: one processor.
    One,
    /// Several, or it cannot be told.
    Unclear,
}

impl Processors {
    fn of(names: &BTreeSet<&str>) -> Self {
        let ends: BTreeSet<Option<&str>> = names.iter().map(|name| end(name)).collect();
        let mut top = names.iter().filter(|name| !name.contains('/'));
        match (ends.first(), ends.len()) {
            (Some(Some(suffix)), 1) => Self::All {
                suffix: (*suffix).into(),
                is_certain: top.next().is_some(),
            },
            (Some(None), 1) => Self::One,
            (Some(None), _)
                if top.clone().next().is_some() && top.all(|name| end(name).is_none()) =>
            {
                Self::One
            }
            _ => Self::Unclear,
        }
    }
}

/// `-8` of `Join-8`.
fn end(name: &str) -> Option<&str> {
    let place = name.rfind('-')?;
    let digits = &name[place + 1..];
    digits.parse::<u32>().is_ok().then_some(&name[place..])
}

fn names(file: &FileFigures) -> BTreeSet<&str> {
    let go = file.observations.iter();
    go.filter_map(|one| label(one, "name")).collect()
}

impl Suffixes {
    fn of(files: &[FileFigures]) -> Self {
        let mut by_arm = BTreeMap::<&str, BTreeSet<Processors>>::new();
        for file in files.iter().filter(|file| !names(file).is_empty()) {
            let arm = file.observations.first().map_or("", |one| &one.arm);
            by_arm
                .entry(arm)
                .or_default()
                .insert(Processors::of(&names(file)));
        }
        let all: Vec<&Processors> = by_arm.values().flatten().collect();
        let suffix_of = |one: &Processors| match one {
            Processors::All { suffix, .. } => Some(suffix.clone()),
            Processors::One | Processors::Unclear => None,
        };
        if let Some(suffix) = all.first().and_then(|first| suffix_of(first))
            && all
                .iter()
                .all(|one| suffix_of(one).as_ref() == Some(&suffix))
        {
            return Self::Same(suffix);
        }
        let is_clear = |one: &Processors| match one {
            Processors::All { is_certain, .. } => *is_certain,
            Processors::One => true,
            Processors::Unclear => false,
        };
        let one_each = by_arm.values().all(|processors| processors.len() == 1);
        if !one_each
            || !all.iter().all(|one| is_clear(one))
            || all.iter().all(|one| suffix_of(one).is_none())
        {
            return Self::Keep;
        }
        let told = by_arm.iter().map(|(arm, processors)| {
            let suffix = processors
                .first()
                .and_then(suffix_of)
                .unwrap_or("-1".into());
            format!("{} of {arm}", &suffix[1..])
        });
        Self::Differ(told.collect::<Vec<_>>().join(", "))
    }

    fn to_cut(&self, file: &FileFigures) -> Option<String> {
        match (self, Processors::of(&names(file))) {
            (Self::Same(suffix), _) => Some(suffix.clone()),
            (Self::Differ(_), Processors::All { suffix, .. }) => Some(suffix),
            (Self::Keep | Self::Differ(_), _) => None,
        }
    }
}
