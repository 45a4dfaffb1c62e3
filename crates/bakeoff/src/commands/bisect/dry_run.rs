//! `bisect --dry-run`: the versions, downloads, boots and time of a bisection, before anything boots.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use base::input::units::{show_bytes, show_duration};
use judge::topics::bisect::find::{Question, evaluate, series};
use plan::{Design, Plan};
use record::bisect::{BisectBlock, Conclusion};
use serde_json::json;

use super::{FIRST_BLOCK_COST, FIRST_COMMIT_COST, VersionSeries, design};
use crate::cli::bisect::BisectArgs;
use crate::commands::forecast;
use crate::commands::forecast::Length;
use crate::commands::{End, print_json};
use crate::out;

/// Arms of each block of a search: both ends and a candidate.
const ARMS: u32 = 3;

/// At most this many places of the step are simulated.
const STEPS_TRIED: usize = 9;

/// The cost of a bisection.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    /// Fewest and most blocks.
    blocks: [u32; 2],
    /// Trials of each block; each is a boot.
    arms: u32,
    /// Load time of a block's trials.
    load: Duration,
}

/// Prints the cost of a bisection.
pub(super) fn print(
    args: &BisectArgs,
    plan: &Plan,
    series: &VersionSeries,
    json: bool,
) -> Result<End> {
    let lengths = forecast::lengths(plan, &args.plan);
    let cost = cost(args, plan, series, &lengths);
    if json {
        print_json(&as_json(series, &cost))?;
    } else {
        out::text(&as_text(args, series, &cost, &lengths));
    }
    Ok(End::Done)
}

fn cost(args: &BisectArgs, plan: &Plan, series: &VersionSeries, lengths: &[Length]) -> Cost {
    let versions = series.versions.len();
    let arm_load: Duration = lengths.iter().map(Length::time).sum();
    if args.series {
        let error_rate = args.error_rate.unwrap_or(plan.design.error_rate);
        let fewest = series::fewest_blocks(versions - 1, error_rate);
        let blocks = args.max_blocks.unwrap_or(fewest);
        let arms = versions as u32;
        return Cost {
            blocks: [blocks; 2],
            arms: arms * lengths.len() as u32,
            load: arm_load * arms,
        };
    }
    let design = design(args, plan);
    let fewest = fewest_blocks(&design, series).min(design.max_blocks);
    Cost {
        blocks: [fewest, design.max_blocks],
        arms: ARMS,
        load: arm_load * ARMS,
    }
}

/// The fewest blocks of a search on a machine without noise, over several places of the step.
fn fewest_blocks(design: &Design, series: &VersionSeries) -> u32 {
    let steps = series.versions.len() - 1;
    let count = STEPS_TRIED.min(steps);
    let tried = (0..count).map(|number| number * (steps - 1) / (count - 1).max(1));
    let blocks = tried.map(|step| blocks_without_noise(design, series, step));
    blocks.min().unwrap_or(1)
}

/// The blocks of a search on a machine without noise, if the metric changes after version number `step`.
fn blocks_without_noise(design: &Design, series: &VersionSeries, step: usize) -> u32 {
    let question = Question {
        versions: series.versions.len(),
        design,
        skipped: &BTreeSet::new(),
        first_cost: match series.tree {
            Some(_) => FIRST_COMMIT_COST,
            None => FIRST_BLOCK_COST,
        },
    };
    let mut blocks: Vec<BisectBlock> = Vec::new();
    while let Conclusion::Open { next } = evaluate(&question, &blocks).conclusion {
        blocks.push(BisectBlock {
            candidate: next,
            from: 1.0,
            value: if next > step { 2.0 } else { 1.0 },
            to: 2.0,
            to_first: blocks.len().is_multiple_of(2),
        });
    }
    blocks.len() as u32
}

fn as_text(args: &BisectArgs, series: &VersionSeries, cost: &Cost, lengths: &[Length]) -> String {
    let [from, to] = series.ends();
    let mut lines = vec![format!(
        "{}: {} versions, {from} to {to}",
        args.plan.display(),
        series.versions.len()
    )];
    for (index, version) in series.versions.iter().enumerate() {
        let fetched = match series.bytes.get(index) {
            Some(0) => ", in the cache".into(),
            Some(bytes) => format!(", {} to download", show_bytes(*bytes)),
            None => String::new(),
        };
        lines.push(format!("  {}  {}{fetched}", version.name, version.about));
    }
    lines.push(downloads(args, series));
    let trials = cost.blocks.map(|blocks| blocks * cost.arms);
    lines.push(format!(
        "  blocks     {} of {} trials each: {} boots",
        range(cost.blocks.map(|blocks| blocks.to_string())),
        cost.arms,
        range(trials.map(|trials| trials.to_string())),
    ));
    let time = cost.blocks.map(|blocks| show_seconds(cost.load * blocks));
    let is_measured = |length: &Length| matches!(length, Length::Measured(_));
    let how = if lengths.iter().all(is_measured) {
        "boots included, as trials of this plan took so far"
    } else {
        "of load with one trial at a time; boots, and downloads or builds, come on top"
    };
    lines.push(format!("  time       {} {how}", range(time)));
    if cost.blocks[0] != cost.blocks[1] {
        lines.push(
            "  The lower end is for a machine without noise, the upper one is --max-blocks.".into(),
        );
    }
    lines.join("\n") + "\n"
}

fn downloads(args: &BisectArgs, series: &VersionSeries) -> String {
    if series.tree.is_some() {
        return format!(
            "  builds     each commit that is asked, at most {}",
            series.versions.len()
        );
    }
    let [least, most] = download_bytes(args, series).map(show_bytes);
    format!("  downloads  {}", range([least, most]))
}

/// Least and most bytes to download. A search needs both ends and at most all versions; `--series` needs all.
fn download_bytes(args: &BisectArgs, series: &VersionSeries) -> [u64; 2] {
    let all = series.bytes.iter().sum();
    let ends = [series.bytes.first(), series.bytes.last()];
    let ends = ends.into_iter().flatten().sum();
    if args.series { [all; 2] } else { [ends, all] }
}

fn range([least, most]: [String; 2]) -> String {
    if least == most {
        least
    } else {
        format!("{least} to {most}")
    }
}

fn show_seconds(time: Duration) -> String {
    show_duration(Duration::from_secs(time.as_secs_f64().ceil() as u64))
}

fn as_json(series: &VersionSeries, cost: &Cost) -> serde_json::Value {
    let versions = series.versions.iter().enumerate().map(|(index, version)| {
        json!({
            "name": version.name, "about": version.about, "source": version.source,
            "download_bytes": series.bytes.get(index),
        })
    });
    let seconds = cost.blocks.map(|blocks| (cost.load * blocks).as_secs_f64());
    json!({
        "versions": versions.collect::<Vec<_>>(), "blocks": cost.blocks,
        "trials": cost.blocks.map(|blocks| blocks * cost.arms), "load_s": seconds,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser as _;
    use expect_test::expect;
    use plan::Checks;
    use record::bisect::Version;

    use super::*;
    use crate::cli::{Cli, Command};

    const PLAN: &str = "title = \"t\"\nbaseline = \"a\"\n[image]\nrecipe = \"web\"\n[arm.a]\nkernel = \"debian:bookworm/6.1\"\n\
        [arm.b]\nkernel = \"debian:sid/7.2\"\n[[workload]]\nkind = \"web-static\"\nserver = \"nginx\"\nconnections = 4\n\
        warmup = \"1s\"\nwindow = \"4s\"\n";

    fn args(is_series: bool) -> BisectArgs {
        let mut words = vec!["bakeoff", "bisect", "no-such-plan.toml", "--dry-run"];
        words.extend(is_series.then_some("--series"));
        match Cli::try_parse_from(words).unwrap().command {
            Command::Bisect(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn series() -> VersionSeries {
        let version = |name: &str| Version {
            name: name.into(),
            about: format!("{name}-cloud-amd64"),
            source: format!("debian:sid/{name}"),
            files: Vec::new(),
        };
        VersionSeries {
            versions: ["6.1", "6.5", "6.12", "7.2"].map(version).into(),
            bytes: vec![0, 50 << 20, 51 << 20, 52 << 20],
            tree: None,
            notes: Vec::new(),
        }
    }

    fn text(is_series: bool) -> String {
        let checks = Checks::of_the_past(&workload::check);
        let plan = plan::read("plan.toml", PLAN, Path::new(""), checks).unwrap();
        let (args, series) = (args(is_series), series());
        let lengths = forecast::lengths(&plan, &args.plan);
        let cost = cost(&args, &plan, &series, &lengths);
        as_text(&args, &series, &cost, &lengths)
    }

    #[test]
    fn versions_downloads_boots_and_time_are_printed_as_ranges() {
        expect![[r#"
            no-such-plan.toml: 4 versions, 6.1 to 7.2
              6.1  6.1-cloud-amd64, in the cache
              6.5  6.5-cloud-amd64, 50.0 MiB to download
              6.12  6.12-cloud-amd64, 51.0 MiB to download
              7.2  7.2-cloud-amd64, 52.0 MiB to download
              downloads  52.0 MiB to 153 MiB
              blocks     8 to 400 of 3 trials each: 24 to 1200 boots
              time       2m to 1h 40m of load with one trial at a time; boots, and downloads or builds, come on top
              The lower end is for a machine without noise, the upper one is --max-blocks.
        "#]]
        .assert_eq(&text(false));
    }

    #[test]
    fn a_series_boots_all_versions() {
        expect![[r#"
            no-such-plan.toml: 4 versions, 6.1 to 7.2
              6.1  6.1-cloud-amd64, in the cache
              6.5  6.5-cloud-amd64, 50.0 MiB to download
              6.12  6.12-cloud-amd64, 51.0 MiB to download
              7.2  7.2-cloud-amd64, 52.0 MiB to download
              downloads  153 MiB
              blocks     7 of 4 trials each: 28 boots
              time       2m 20s of load with one trial at a time; boots, and downloads or builds, come on top
        "#]]
        .assert_eq(&text(true));
    }
}
