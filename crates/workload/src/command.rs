//! `command`: any program of the image as a workload. Metrics are extracted from its output.
//!
//! ```toml
//! [[workload]]
//! kind = "command"
//! command = ["fio", "--name=read", "--rw=randread", "--size=64m", "--directory={dir}", "--output-format=json"]
//! adapter = "fio"                    # predefined metrics; or define metrics:
//! [[workload.metric]]
//! name = "read-rate"
//! unit = "IO/s"
//! better = "higher"
//! json = "/jobs/0/read/iops"         # JSON pointer (RFC 6901); or: pattern = "rate: ([0-9.]+)"
//! ```
//! The first metric is the primary one. If the program fails or a metric is missing, the trial is
//! void, and the reason has the last lines of output. `before` lists set-up commands, which are not
//! measured. `service` is a server that runs beside the program. `files` are host files that are
//! copied to the working directory. `modules` are loaded if the arm's kernel has them. `disk` is a
//! separate disk with the arm's file system. Commands may contain `{dir}`, `{disk}`, `{server}`,
//! `{client}`, `{cpus}` and `{seed}`. Their environment includes the arm's `env`.

pub mod adapter;
mod metric;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use base::input::problem::remedy_among;
use base::input::units;
use plan::Traits;
use plan::fields::Fields;
use record::metric::{Direction, Role};
use serde::{Deserialize, Serialize};

use crate::command::adapter::Adapter;
use crate::command::metric::Metric;
use crate::context::{FILES, WorkloadContext};
use crate::disk;
use crate::figures::secondary;
use crate::options;
use crate::overview::{Key, Overview};
use crate::probe::Probe;
use crate::service::{PATIENCE, Service};
use crate::ticker::Ticker;
use crate::tool::{self, Tool};
use crate::{Control, Driven, FromPlan, Kind, Programs, Timing, Workload, Wrong};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "command",
    |_| Traits {
        runs_program: true,
        ..Traits::default()
    },
    Overview {
        summary: "any program: its figures by a ready adapter or a pattern, else its time",
        primary: "total-time",
        machine: &[],
        keys: &[
            Key::new(
                "command",
                &["[\"hackbench\", \"-g\", \"8\", \"-l\", \"100\", \"-p\"]"],
                "program and arguments",
            ),
            Key::new(
                "adapter",
                &["\"hackbench\""],
                "finds the figures; or fio, pgbench, stress-ng, sysbench, wrk",
            ),
            Key::shown(
                "files",
                &["[\"./my-benchmark\"]"],
                "the user's own, put into {dir}; then command = [\"{dir}/my-benchmark\"]",
            ),
            Key::shown("limit", &["\"10m\""], "time that it may take"),
            Key::shown(
                "expect",
                &["\"10s\""],
                "time that it will take, for forecasts",
            ),
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Options {
    command: Vec<String>,
    metrics: Vec<Metric>,
    packages: Vec<String>,
    /// Paths on the host.
    files: Vec<String>,
    /// Kernel modules.
    modules: Vec<String>,
    /// Set-up commands.
    before: Vec<Vec<String>>,
    service: Option<Server>,
    /// Bytes that the program may write to its disk; 0 for no disk.
    disk_bytes: u64,
    limit_ns: u64,
}

/// A server that runs beside the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Server {
    command: Vec<String>,
    /// A program that exits with status 0 if the server works.
    ready: Vec<String>,
}

/// Name of the service.
const SERVICE: &str = "service";

/// Search path of programs, as in `context::command`.
const SEARCH_PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        if !fields.has("command") {
            fields.missing("command", "[\"fio\", \"job.fio\"]");
        }
        let has_disk = fields.takes("disk");
        let command = read_command(fields, "command", has_disk);
        let adapter = adapter::read(fields);
        let ready = adapter.as_ref().ok().and_then(Option::as_ref);
        let metrics = metric::read(fields, ready.map(Adapter::metrics).unwrap_or_default());
        let mut packages: Vec<_> = fields.texts("packages").unwrap_or_default();
        if let Ok(Some(adapter)) = &adapter {
            packages.push(adapter.package);
        }
        let files = read_files(fields);
        let modules = read_modules(fields);
        let before = read_before(fields, has_disk);
        let service = read_service(fields, has_disk);
        let disk_bytes = options::bytes(fields, "disk", DISK_BYTES, 0);
        let timing = options::limit(fields, Duration::from_secs(600));
        let disk_bytes = disk_bytes?;
        if 0 < disk_bytes {
            packages.extend(disk::PACKAGES);
        }
        let options = Self {
            command: command?,
            metrics: metrics?,
            packages: packages.iter().map(ToString::to_string).collect(),
            files: files?,
            modules: modules?,
            before: before?,
            service: service.ok()?,
            disk_bytes,
            limit_ns: timing?.window.as_nanos() as u64,
        };
        adapter.ok()?;
        Some(options)
    }

    /// Used for forecasts only.
    fn expected(fields: &Fields<'_>) -> Option<Duration> {
        let expected = fields.read("expect", units::duration)?;
        if expected.is_zero() {
            fields.wrong("expect", "expect of zero", "write expect = \"10s\"");
        }
        Some(expected)
    }
}

/// Range of `disk`.
const DISK_BYTES: std::ops::RangeInclusive<u64> = (8 << 20)..=(1 << 40);

fn read_command(fields: &Fields<'_>, key: &str, has_disk: bool) -> Option<Vec<String>> {
    let words = fields.texts(key)?;
    if words.first().is_none_or(|program| program.is_empty()) {
        let what = format!("{key} without a program");
        fields.wrong(key, what, format!("write {key} = [\"/usr/bin/fio\", ...]"));
        return None;
    }
    for word in &words {
        if word.contains(DISK) && !has_disk {
            let what = format!("{DISK} in {key} of a workload without a disk: {word:?}");
            let remedy = "add disk = \"64MiB\", what is written to it, to [[workload]]";
            fields.wrong(key, what, remedy);
        }
        if let Some((name, known)) = misspelt(word) {
            let what = format!("unknown placeholder in {key}: {name}");
            fields.wrong(key, what, format!("did you mean {known}?"));
        }
    }
    Some(words.into_iter().map(String::from).collect())
}

/// Placeholder for the mount point of the disk.
const DISK: &str = "{disk}";

/// Names of all placeholders.
const PLACEHOLDERS: [&str; 6] = ["dir", "disk", "server", "client", "cpus", "seed"];

/// A misspelt placeholder and the correct one. Other braces belong to the program, such as awk or
/// JSON.
fn misspelt(word: &str) -> Option<(String, String)> {
    let inside = word
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'));
    for (name, _) in inside {
        let is_plain = name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_lowercase());
        if is_plain && !PLACEHOLDERS.contains(&name) {
            let remedy = remedy_among(name, &PLACEHOLDERS);
            if let Some(known) = remedy.strip_prefix("did you mean \"") {
                let known = known.trim_end_matches("\"?");
                return Some((format!("{{{name}}}"), format!("{{{known}}}")));
            }
        }
    }
    None
}

/// `files`: paths relative to the plan file. In the guest only their names are used.
fn read_files(fields: &Fields<'_>) -> Option<Vec<String>> {
    if !fields.takes("files") {
        return Some(Vec::new());
    }
    let files = fields.texts("files")?;
    let mut names = BTreeSet::new();
    for file in &files {
        let name = Path::new(file).file_name();
        if name.is_none() {
            let what = format!("not the path of a file: {file:?}");
            fields.wrong("files", what, "write files = [\"./my-benchmark\"]");
        } else if !names.insert(name) {
            let what = format!("two files of one name: {file:?}");
            fields.wrong("files", what, "rename one of them");
        }
    }
    Some(files.into_iter().map(String::from).collect())
}

/// `modules`: by name. A kernel may lack some, because they are built in.
fn read_modules(fields: &Fields<'_>) -> Option<Vec<String>> {
    if !fields.takes("modules") {
        return Some(Vec::new());
    }
    let modules = fields.texts("modules")?;
    let is_name = |name: &str| {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        !name.is_empty() && name.bytes().all(is_valid)
    };
    for name in modules.iter().filter(|name| !is_name(name)) {
        let what = format!("not the name of a kernel module: {name:?}");
        fields.wrong("modules", what, "write modules = [\"null_blk\"]");
    }
    Some(modules.into_iter().map(String::from).collect())
}

/// `[[workload.before]]`: tables with a command each.
fn read_before(fields: &Fields<'_>, has_disk: bool) -> Option<Vec<Vec<String>>> {
    let read = |step: &Fields<'_>| {
        if !step.has("command") {
            step.missing("command", "[\"mkdir\", \"{dir}/data\"]");
        }
        let command = read_command(step, "command", has_disk);
        step.finish();
        command
    };
    let steps = fields.tables("before");
    let commands: Vec<_> = steps.iter().map(read).collect();
    commands.into_iter().collect()
}

fn read_service(fields: &Fields<'_>, has_disk: bool) -> Result<Option<Server>, ()> {
    if !fields.takes("service") {
        return Ok(None);
    }
    let table = fields.table("service").ok_or(())?;
    for (key, example) in [
        ("command", "[\"/usr/sbin/nginx\", ...]"),
        ("ready", "[\"curl\", ...]"),
    ] {
        if !table.has(key) {
            table.missing(key, example);
        }
    }
    let (command, ready) = (
        read_command(&table, "command", has_disk),
        read_command(&table, "ready", has_disk),
    );
    table.finish();
    match (command, ready) {
        (Some(command), Some(ready)) => Ok(Some(Server { command, ready })),
        _ => Err(()),
    }
}

/// Time from start to exit of the program.
const TOTAL_TIME: &str = "total-time";

impl Workload for Options {
    fn packages(&self) -> Vec<&str> {
        self.packages.iter().map(String::as_str).collect()
    }

    fn programs(&self) -> Programs {
        Programs::All
    }

    fn files(&self) -> Vec<&str> {
        self.files.iter().map(String::as_str).collect()
    }

    fn services(&self) -> Vec<&'static str> {
        self.service.iter().map(|_| SERVICE).collect()
    }

    fn modules(&self) -> Vec<&str> {
        self.modules.iter().map(String::as_str).collect()
    }

    fn disk_bytes(&self) -> u64 {
        match self.disk_bytes {
            0 => 0,
            written => written + disk::SPARE_BYTES,
        }
    }

    fn timing(&self) -> Timing {
        Timing::from_ns(0, self.limit_ns)
    }

    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        let work = context.make_dir("work")?;
        for file in &self.files {
            let name = Path::new(file).file_name().unwrap_or_default();
            let from = context.dir.join(FILES).join(name);
            fs::copy(&from, work.join(name))
                .with_context(|| format!("bring {} beside the program", from.display()))?;
        }
        if 0 < self.disk_bytes {
            disk::mount(context, 0)?;
        }
        for command in &self.before {
            self.tool(command, context).set_up()?;
        }
        let service = self.service.iter().map(|service| Service {
            name: SERVICE.into(),
            command: located(fill(&service.command, context)),
            logs: Vec::new(),
            configuration: Vec::new(),
            probe: Probe::Program {
                command: located(fill(&service.ready, context)),
            },
            patience: PATIENCE,
            version: Vec::new(),
            start_failure: None,
            java: None,
        });
        Ok(service.collect())
    }

    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        if 0 < self.disk_bytes {
            disk::forget_cached()?;
        }
        let mut ticker = Ticker::begin(control.watcher, Duration::ZERO);
        let output = self
            .tool(&self.command, context)
            .run_successfully(control.stop, &mut || ticker.tick(0))?;
        let last_lines = || tool::last_lines(&output.stdout, &output.stderr);
        let mut figures = Vec::new();
        for metric in &self.metrics {
            let figure = metric.find(&output.stdout, &output.stderr);
            let figure = figure
                .map_err(|why| Wrong(format!("metric {}: {why}{}", metric.name, last_lines())))?;
            figures.extend(figure);
        }
        if figures.is_empty() && !self.metrics.is_empty() {
            let what = format!("none of its metrics is in its output{}", last_lines());
            return Err(Wrong(what).into());
        }
        // The time is always a figure, unless the program reports it more precisely.
        if figures.iter().all(|figure| figure.spec.name != TOTAL_TIME) {
            let took = output.took.as_secs_f64();
            figures.push(secondary(TOTAL_TIME, "s", Direction::Lower, took));
        }
        figures[0].spec.role = Role::Primary;
        Ok(Driven {
            figures,
            ..Driven::default()
        })
    }
}

impl Options {
    fn tool(&self, command: &[String], context: &WorkloadContext) -> Tool {
        Tool {
            command: fill(command, context),
            env: context.env.clone().into_iter().collect(),
            dir: Some(context.dir.join("work")),
            limit: Duration::from_nanos(self.limit_ns),
        }
    }
}

/// Replaces placeholders with the values of the context.
fn fill(command: &[String], context: &WorkloadContext) -> Vec<String> {
    let values = [
        ("{dir}", context.dir.join("work").display().to_string()),
        (DISK, disk::place(context).display().to_string()),
        ("{server}", context.server.to_string()),
        ("{client}", context.client.to_string()),
        ("{cpus}", context.cpus.to_string()),
        ("{seed}", context.seed.to_string()),
    ];
    let fill = |word: &String| {
        values.iter().fold(word.clone(), |word, (name, value)| {
            word.replace(name, value)
        })
    };
    command.iter().map(fill).collect()
}

/// Replaces the program with its absolute path.
fn located(mut command: Vec<String>) -> Vec<String> {
    if let Some(program) = command.first_mut().filter(|program| !program.contains('/')) {
        let mut paths = SEARCH_PATH.iter().map(|dir| format!("{dir}/{program}"));
        if let Some(path) = paths.find(|path| Path::new(path).exists()) {
            *program = path;
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::testing::{self, check_mistakes, options, read};
    use expect_test::expect;
    use record::metric::Figure;

    /// Figures of a plan's workload on this host, or why there are none.
    fn drive(text: &str) -> Result<String, String> {
        let options: Options = options(text)?;
        let dir = tempfile::tempdir().unwrap();
        let context = WorkloadContext {
            dir: dir.path().into(),
            ..WorkloadContext::example()
        };
        for file in options.files() {
            let name = Path::new(file).file_name().unwrap();
            fs::create_dir_all(context.dir.join(FILES)).unwrap();
            fs::copy(file, context.dir.join(FILES).join(name)).unwrap();
        }
        options
            .prepare(&context)
            .map_err(|why| format!("{why:#}"))?;
        let driven = testing::drive(&options, &context);
        let driven = driven.map_err(|why| format!("{why:#}"))?;
        let mut text = String::new();
        for Figure { spec, value, .. } in &driven.figures {
            if spec.name != TOTAL_TIME || spec.role == Role::Primary {
                writeln!(text, "{} {value} {} {:?}", spec.name, spec.unit, spec.role).unwrap();
            }
        }
        Ok(text)
    }

    #[test]
    fn the_time_that_a_program_reports_is_used() {
        let text = r#"
            kind = "command"
            adapter = "hackbench"
            command = ["echo", "Time: 0.125"]
        "#;
        expect![[r"
            total-time 0.125 s Primary
        "]]
        .assert_eq(&drive(text).unwrap());
    }

    #[test]
    fn host_files_are_in_the_working_directory() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("mine");
        fs::write(&program, "#!/bin/sh\ncat data\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.path().join("data"), "Time: 0.5\n").unwrap();
        let text = format!(
            "kind = \"command\"\nadapter = \"hackbench\"\ncommand = [\"{{dir}}/mine\"]\nfiles = [\"{0}/mine\", \"{0}/data\"]",
            dir.path().display()
        );
        expect![[r"
            total-time 0.5 s Primary
        "]]
        .assert_eq(&drive(&text).unwrap());
        check_mistakes(
            "kind = \"command\"\ncommand = [\"{dir}/a\"]\nfiles = [\"a\", \"b/a\", \"..\"]",
            &expect![[r#"
                plan.toml:3: two files of one name: "b/a" (rename one of them)
                plan.toml:3: not the path of a file: ".." (write files = ["./my-benchmark"])"#]],
        );
    }

    #[test]
    fn a_disk_has_room_and_tools_for_its_file_system() {
        let options =
            |text: &str| -> Options { options(&format!("kind = \"command\"\n{text}")).unwrap() };
        let with = options("command = [\"ls\", \"{disk}\"]\ndisk = \"64MiB\"");
        assert_eq!(with.disk_bytes(), (64 << 20) + disk::SPARE_BYTES);
        assert_eq!(with.packages(), disk::PACKAGES);
        let without = options("command = [\"ls\"]");
        assert_eq!((without.disk_bytes(), without.packages().len()), (0, 0));
        let context = WorkloadContext::example();
        assert_eq!(fill(&with.command, &context), ["ls", "/stage/disk"]);
    }

    #[test]
    fn the_disk_placeholder_is_refused_without_a_disk() {
        check_mistakes(
            "kind = \"command\"\ncommand = [\"ls\", \"{disk}/a\"]\n[[before]]\ncommand = [\"mkdir\", \"{disk}/a\"]\n\
             [service]\ncommand = [\"serve\", \"--dir={disk}\"]\nready = [\"test\", \"-e\", \"{dir}/ready\"]",
            &expect![[r#"
                plan.toml:2: {disk} in command of a workload without a disk: "{disk}/a" (add disk = "64MiB", what is written to it, to [[workload]])
                plan.toml:4: {disk} in command of a workload without a disk: "{disk}/a" (add disk = "64MiB", what is written to it, to [[workload]])
                plan.toml:6: {disk} in command of a workload without a disk: "--dir={disk}" (add disk = "64MiB", what is written to it, to [[workload]])"#]],
        );
    }

    #[test]
    fn the_arms_environment_reaches_the_program() {
        let options: Options = options("kind = \"command\"\ncommand = [\"true\"]").unwrap();
        let context = WorkloadContext {
            env: [("ENGINE".to_string(), "libaio".to_string())].into(),
            ..WorkloadContext::example()
        };
        let tool = options.tool(&options.command, &context);
        assert_eq!(tool.env, [("ENGINE".to_string(), "libaio".to_string())]);
    }

    #[test]
    fn a_plan_knows_the_service_of_a_command() {
        let alone = read("kind = \"command\"\ncommand = [\"true\"]").unwrap();
        assert!(crate::services(&alone).is_empty());
        let served = read(
            "kind = \"command\"\ncommand = [\"true\"]\n[service]\ncommand = [\"serve\"]\nready = [\"true\"]",
        );
        assert_eq!(crate::services(&served.unwrap()), ["service"]);
    }

    #[test]
    fn modules_are_names_and_not_paths() {
        let text = "kind = \"command\"\ncommand = [\"a\"]\nmodules = [\"null_blk\", \"kvm-amd\"]";
        let options: Options = options(text).unwrap();
        assert_eq!(Workload::modules(&options), ["null_blk", "kvm-amd"]);
        check_mistakes(
            "kind = \"command\"\ncommand = [\"a\"]\nmodules = [\"./null_blk.ko\", \"\"]",
            &expect![[r#"
                plan.toml:3: not the name of a kernel module: "./null_blk.ko" (write modules = ["null_blk"])
                plan.toml:3: not the name of a kernel module: "" (write modules = ["null_blk"])"#]],
        );
    }

    #[test]
    fn misspelt_placeholders_are_refused_and_other_braces_are_not() {
        check_mistakes(
            "kind = \"command\"\ncommand = [\"cat\", \"{dri}/said\", \"{clients}\"]",
            &expect![[r"
                plan.toml:2: unknown placeholder in command: {dri} (did you mean {dir}?)
                plan.toml:2: unknown placeholder in command: {clients} (did you mean {client}?)"]],
        );
        read("kind = \"command\"\ncommand = [\"awk\", \"{print} {a,b} {} {x}\", \"{dir}\"]")
            .unwrap();
    }

    #[test]
    fn the_expected_duration_is_not_the_limit() {
        let plan = read("kind = \"command\"\ncommand = [\"true\"]\nexpect = \"10s\"").unwrap();
        assert_eq!(plan.expected, Some(Duration::from_secs(10)));
        assert_eq!(plan.length, Duration::from_secs(600));
    }

    #[test]
    fn metrics_are_found_by_pattern_and_by_pointer() {
        let text = r#"
            kind = "command"
            command = ["sh", "-c", "cat {dir}/said"]
            [[before]]
            command = ["sh", "-c", "echo '{\"jobs\": [{\"rate\": 12.5, \"text\": \"7e3\"}]}' > {dir}/said"]
            [[metric]]
            name = "rate"
            unit = "IO/s"
            better = "higher"
            json = "/jobs/0/rate"
            [[metric]]
            name = "text"
            unit = "us"
            better = "lower"
            pattern = 'text": "([0-9e]+)"'
        "#;
        expect![[r"
            rate 12.5 IO/s Primary
            text 7000 us Secondary
        "]]
        .assert_eq(&drive(text).unwrap());
    }

    #[test]
    fn failures_and_missing_metrics_give_no_figure() {
        let metric = "[[metric]]\nname = \"n\"\nunit = \"1\"\nbetter = \"higher\"\n";
        let text = format!(
            "kind = \"command\"\ncommand = [\"sh\", \"-c\", \"echo no disk >&2; exit 3\"]\n{metric}pattern = \"n=(.*)\""
        );
        expect![[r"
            sh ended with exit status: 3
              no disk"]]
        .assert_eq(&drive(&text).unwrap_err());
        let text =
            format!("kind = \"command\"\ncommand = [\"true\"]\n{metric}pattern = \"n=(.*)\"");
        expect!["metric n: nothing in the output matches n=(.*)"]
            .assert_eq(&drive(&text).unwrap_err());
        let text = format!(
            "kind = \"command\"\ncommand = [\"echo\", \"n=many\"]\n{metric}pattern = \"n=(.*)\""
        );
        expect![[r#"
            metric n: not a number: "many"
              n=many"#]]
        .assert_eq(&drive(&text).unwrap_err());
        let text =
            format!("kind = \"command\"\ncommand = [\"echo\", \"{{}}\"]\n{metric}json = \"/a/b\"");
        expect![[r#"
            metric n: nothing at /a/b
              {}"#]]
        .assert_eq(&drive(&text).unwrap_err());
    }

    #[test]
    fn all_mistakes_are_reported() {
        check_mistakes(
            "kind = \"command\"\ncommand = []\nadapter = \"fioo\"\n[[metric]]\nname = \"a b\"\njson = \"x\"\npattern = \"(\"\n[service]\ncommand = [\"x\"]",
            &expect![[r#"
                plan.toml:2: command without a program (write command = ["/usr/bin/fio", ...])
                plan.toml:3: unknown adapter: "fioo" (did you mean "fio"?)
                plan.toml:4: missing key in [[metric]]: unit (add unit = "MB/s")
                plan.toml:4: missing key in [[metric]]: better (add better = "higher")
                plan.toml:5: name: not of letters and digits and . _ -: "a b" (rename it)
                plan.toml:7: both json and pattern (remove one of them)
                plan.toml:8: missing key in [service]: ready (add ready = ["curl", ...])"#]],
        );
        check_mistakes(
            "kind = \"command\"",
            &expect![[
                r#"plan.toml:1: missing key in the file: command (add command = ["fio", "job.fio"])"#
            ]],
        );
    }
}
