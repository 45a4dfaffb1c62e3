//! Writes plans as commented TOML, for `bakeoff new` and `bakeoff compare`.
//!
//! The keys of a workload, their values and comments come from `workload::overview`; this module adds what all plans have.
//! The same request gives the same text, so the text shows whether an existing plan is the same.

use anyhow::Result;
use base::arch::Arch;
use base::input::units;
use toml::Value;
use workload::overview::{self, Given, Key};

/// The content of a plan to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanText {
    /// Comments above all keys, a line each.
    pub head: Vec<String>,
    /// The plan's title.
    pub title: String,
    /// Where arms run.
    pub machine: Place,
    /// The arms, baseline first.
    pub arms: Vec<ArmText>,
    /// The workloads.
    pub workloads: Vec<WorkloadText>,
    /// When a difference counts.
    pub design: DesignText,
}

/// Where arms run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In guests with an image.
    Guests {
        /// Architecture, if not the host's by default.
        arch: Option<Arch>,
        /// Name of the image's recipe.
        recipe: String,
        /// Debian suite of the packages, if not the recipe's default.
        suite: Option<String>,
    },
    /// On this host.
    Host,
    /// Existing systems on the network.
    Network,
}

impl Place {
    /// Default maximum number of blocks. Results of guests vary by tenths of a percent only, and a plan with fewer blocks
    /// can decide earlier. Hosts have more noise, from whatever else runs there.
    pub fn max_blocks(&self) -> u32 {
        match self {
            Self::Guests { .. } => 12,
            Self::Host | Self::Network => 30,
        }
    }
}

/// An arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmText {
    /// The arm's name.
    pub name: String,
    /// The arm's keys.
    pub lines: Vec<Line>,
}

/// A workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadText {
    /// The workload's kind.
    pub kind: &'static str,
    /// A comment beside the kind.
    pub note: String,
    /// The workload's keys.
    pub lines: Vec<Line>,
}

/// When a difference counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DesignText {
    /// Differences below this are called equivalent; a fraction.
    pub margin: f64,
    /// Chance of a wrong verdict that is accepted; a fraction.
    pub error_rate: f64,
    /// Blocks after which the run ends.
    pub max_blocks: u32,
    /// Seed of order, data and schedules.
    pub seed: i64,
}

/// `key = value  # note`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    key: String,
    value: String,
    note: String,
    given: Given,
}

impl Line {
    /// A key, its value, and a comment.
    pub fn new(key: &str, value: impl Into<Value>, note: &str) -> Self {
        Self {
            key: key.into(),
            value: value.into().to_string(),
            note: note.into(),
            given: Given::Written,
        }
    }

    fn from_key(key: &Key, choice: usize) -> Self {
        let value = key.values.get(choice).unwrap_or(&key.values[0]);
        Self {
            key: key.name.into(),
            value: (*value).into(),
            note: key.note.into(),
            given: key.given,
        }
    }

    /// The value as a size in bytes, 0 if it is none.
    fn bytes(&self) -> u64 {
        units::bytes(self.value.trim_matches('"')).unwrap_or(0)
    }

    fn text(&self) -> String {
        let mark = match self.given {
            Given::Written => "",
            Given::Shown => "# ",
        };
        let pair = format!("{mark}{} = {}", self.key, self.value);
        match self.note.as_str() {
            "" => format!("{pair}\n"),
            note => format!("{pair:26}  # {note}\n"),
        }
    }
}

impl WorkloadText {
    /// A workload with proposed values; `choice` selects among the values that a key proposes.
    pub fn of_kind(word: &str, choice: usize) -> Result<Self> {
        let (kind, overview) = overview::find(word).map_err(anyhow::Error::msg)?;
        let keys = overview.keys.iter();
        Ok(Self {
            kind,
            note: overview.summary.into(),
            lines: keys.map(|key| Line::from_key(key, choice)).collect(),
        })
    }

    /// A workload with the given keys.
    pub fn with_lines(word: &str, lines: Vec<Line>) -> Result<Self> {
        let (kind, _) = overview::find(word).map_err(anyhow::Error::msg)?;
        Ok(Self {
            kind,
            note: String::new(),
            lines,
        })
    }

    /// The workload's name if it has one, else its kind.
    pub fn title(&self) -> &str {
        let name = self.lines.iter().find(|line| line.key == "name");
        name.map_or(self.kind, |line| line.value.trim_matches('"'))
    }

    /// The workload as TOML.
    pub fn text(&self) -> String {
        let kind = Line::new("kind", self.kind, &self.note);
        let keys: String = self.lines.iter().map(Line::text).collect();
        format!("[[workload]]\n{}{keys}", kind.text())
    }
}

/// The plan as TOML.
pub fn write(plan: &PlanText) -> String {
    let mut text = String::new();
    for line in &plan.head {
        text.extend(["# ", line, "\n"]);
    }
    let baseline = plan.arms.first().map_or("", |arm| arm.name.as_str());
    text.push_str(&Line::new("title", plan.title.as_str(), "").text());
    let note = "the arm that the others are compared with";
    text.push_str(&Line::new("baseline", baseline, note).text());
    text.push_str("\n[machine]\n");
    text.extend(machine(plan).iter().map(Line::text));
    if let Place::Guests { recipe, suite, .. } = &plan.machine {
        text.push_str("\n[image]\n");
        let note = "user land of all arms alike: bakeoff cache image list";
        text.push_str(&Line::new("recipe", recipe.as_str(), note).text());
        if let Some(suite) = suite {
            let note = "Debian suite of its packages";
            text.push_str(&Line::new("suite", suite.as_str(), note).text());
        }
    }
    for arm in &plan.arms {
        let name = Value::from(arm.name.as_str()).to_string();
        text.extend(["\n[arm.", &name, "]\n"]);
        text.extend(arm.lines.iter().map(Line::text));
    }
    for workload in &plan.workloads {
        text.push('\n');
        text.push_str(&workload.text());
    }
    text.push_str("\n[design]\n");
    text.extend(design(plan.design).iter().map(Line::text));
    text
}

fn machine(plan: &PlanText) -> Vec<Line> {
    let overviews = plan.workloads.iter();
    let overviews = overviews.filter_map(|workload| overview::find(workload.kind).ok());
    let wanted: Vec<&Key> = overviews
        .flat_map(|(_, overview)| overview.machine)
        .collect();
    if plan.machine == Place::Network {
        return wanted
            .into_iter()
            .map(|key| Line::from_key(key, 0))
            .collect();
    }
    if plan.machine == Place::Host {
        let mut lines = vec![Line::new(
            "kind",
            "local",
            "each trial runs on this host, as root",
        )];
        // The other keys apply to guests only.
        for name in ["silence", "trial_limit"] {
            if let Some(key) = wanted.iter().find(|key| key.name == name) {
                lines.push(Line::from_key(key, 0));
            }
        }
        return lines;
    }
    let mut lines = vec![
        Line::new("kind", "qemu", "each trial boots a virtual machine"),
        Line::new("cpus", 1, ""),
        Line::new("memory", "1GiB", ""),
        Line::new(
            "clock",
            "auto",
            "wall where KVM works, instructions under emulation",
        ),
    ];
    if let Place::Guests {
        arch: Some(arch), ..
    } = &plan.machine
    {
        let line = Line::new("arch", arch.facts().name(), "of guests and their kernels");
        lines.insert(1, line);
    }
    for key in &wanted {
        let line = Line::from_key(key, 0);
        match lines.iter_mut().find(|existing| existing.key == key.name) {
            Some(existing) if key.name == "memory" && line.bytes() <= existing.bytes() => {}
            Some(existing) => *existing = line,
            None => lines.push(line),
        }
    }
    lines
}

fn design(design: DesignText) -> Vec<Line> {
    let share = |share: f64| format!("{}%", (share * 1e6).round() / 1e4);
    let min_blocks = design.max_blocks.min(4);
    vec![
        Line::new(
            "margin",
            share(design.margin),
            "differences below this are called equivalent",
        ),
        Line::new(
            "error_rate",
            share(design.error_rate),
            "chance of a wrong verdict that is accepted",
        ),
        Line::new(
            "min_blocks",
            min_blocks,
            "a block is one trial of each arm; the first test comes after these",
        ),
        Line::new(
            "max_blocks",
            design.max_blocks,
            "what is undecided then stays so",
        ),
        Line::new("seed", design.seed, "of order, data and schedules"),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect;
    use plan::{Checks, Plan};

    use super::*;

    fn draft(machine: Place, workloads: &[&str]) -> PlanText {
        let workload = |word: &&str| WorkloadText::of_kind(word, 0).unwrap();
        let arm = |name: &str, line| ArmText {
            name: name.into(),
            lines: vec![line],
        };
        let arms = match machine {
            Place::Host => vec![
                arm("few", Line::new("cpus", 1, "")),
                arm("many", Line::new("cpus", 2, "")),
            ],
            Place::Network => vec![
                arm("old", Line::new("url", "http://192.0.2.10", "")),
                arm("new", Line::new("url", "http://192.0.2.11", "")),
            ],
            Place::Guests { .. } => vec![
                arm("6.1", Line::new("kernel", "debian:bookworm/6.1", "")),
                arm(
                    "7.2",
                    Line::new("kernel", "debian:trixie-backports/7.2", ""),
                ),
            ],
        };
        PlanText {
            head: vec!["What is asked.".into()],
            title: "6.1 against 7.2".into(),
            machine,
            arms,
            workloads: workloads.iter().map(workload).collect(),
            design: DesignText {
                margin: 0.02,
                error_rate: 0.05,
                max_blocks: 30,
                seed: 1,
            },
        }
    }

    fn read(text: &str) -> Plan {
        let checks = Checks::of_the_past(&workload::check);
        plan::read("plan.toml", text, Path::new(""), checks)
            .unwrap_or_else(|why| panic!("{why}\n{text}"))
    }

    fn guests(recipe: &str) -> Place {
        Place::Guests {
            arch: None,
            recipe: recipe.into(),
            suite: None,
        }
    }

    #[test]
    fn a_plan_is_commented_toml() {
        expect![[r##"
            # What is asked.
            title = "6.1 against 7.2"
            baseline = "few"            # the arm that the others are compared with

            [machine]
            kind = "local"              # each trial runs on this host, as root
            silence = "10m"             # data directories are made before there is anything to tell
            trial_limit = "2h"

            [arm."few"]
            cpus = 1

            [arm."many"]
            cpus = 2

            [[workload]]
            kind = "database"           # the eight procedures of sql-bench against MariaDB or PostgreSQL, every answer checked
            server = "mariadb"          # or "postgresql"
            scale = "0.2%"              # share of the sizes of sql-bench
            # procedures = ["insert", "select"]  # left out, all eight
            limit = "30m"               # for all of them

            [design]
            margin = "2%"               # differences below this are called equivalent
            error_rate = "5%"           # chance of a wrong verdict that is accepted
            min_blocks = 4              # a block is one trial of each arm; the first test comes after these
            max_blocks = 30             # what is undecided then stays so
            seed = 1                    # of order, data and schedules
        "##]].assert_eq(&write(&draft(Place::Host, &["database"])));
    }

    #[test]
    fn systems_on_the_network_need_no_machine() {
        expect![[r##"
            # What is asked.
            title = "6.1 against 7.2"
            baseline = "old"            # the arm that the others are compared with

            [machine]
            kind = "url"                # arms are addresses

            [arm."old"]
            url = "http://192.0.2.10"

            [arm."new"]
            url = "http://192.0.2.11"

            [[workload]]
            kind = "http"               # requests to systems on the network, as they are (machine of kind "url")
            paths = ["/"]               # what is asked for, in turn
            connections = 16            # clients, each with one request under way
            # rate = 500                # requests per second, whether the server keeps up or not; left out, as many as it answers
            warmup = "500ms"            # load that is not counted
            window = "10s"              # load that is counted

            [design]
            margin = "2%"               # differences below this are called equivalent
            error_rate = "5%"           # chance of a wrong verdict that is accepted
            min_blocks = 4              # a block is one trial of each arm; the first test comes after these
            max_blocks = 30             # what is undecided then stays so
            seed = 1                    # of order, data and schedules
        "##]].assert_eq(&write(&draft(Place::Network, &["http"])));
    }

    #[test]
    fn every_kind_of_workload_has_a_valid_plan() {
        for (word, overview) in overview::all() {
            let places = if overview.is_of_network() {
                vec![Place::Network]
            } else {
                vec![guests("web"), Place::Host]
            };
            for place in places {
                assert_eq!(read(&write(&draft(place, &[word]))).workloads[0].kind, word);
            }
        }
    }

    #[test]
    fn what_one_workload_needs_of_the_machine_the_others_have_too() {
        let read = read(&write(&draft(
            guests("smb+web"),
            &["smb-ramp", "database", "io-mix"],
        )));
        assert_eq!(read.machine.memory_bytes, 2 << 30);
        assert_eq!(read.machine.clock, plan::Clock::Wall);
        assert_eq!(read.machine.trial_limit.as_secs(), 7200);
    }
}
