//! `bisect --dry-run`: what a bisection would try, download, boot and take, before anything boots.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use base::input::units::{show_bytes, show_duration};
use judge::topics::bisect::find::{Question, look, walk};
use plan::Plan;
use record::bisect::{BisectBlock, Conclusion};
use serde_json::json;

use super::{FIRST_COST, FIRST_COST_OF_COMMIT, Line, design};
use crate::cli::bisect::BisectArgs;
use crate::commands::forecast;
use crate::commands::forecast::Length;
use crate::commands::{End, print_json};
use crate::out;

/// Arms of each block of a search: both ends and a candidate.
const ARMS: u32 = 3;

/// Places of the true step that are tried where a line has more.
const TRIED: usize = 9;

/// What it would take.
#[derive(Debug, PartialEq, Eq)]
struct Price {
    /// Blocks, fewest and most.
    blocks: [u32; 2],
    /// Trials of each block, each of them a boot.
    arms: u32,
    /// Load of a block's trials.
    load: Duration,
}

/// Prints it.
pub(super) fn tell(args: &BisectArgs, plan: &Plan, line: &Line, json: bool) -> Result<End> {
    let lengths = forecast::lengths(plan, &args.plan);
    let price = price(args, plan, line, &lengths);
    if json {
        print_json(&as_json(line, &price))?;
    } else {
        out::text(&as_text(args, line, &price, &lengths));
    }
    Ok(End::Done)
}

fn price(args: &BisectArgs, plan: &Plan, line: &Line, lengths: &[Length]) -> Price {
    let versions = line.versions.len();
    let of_trials: Duration = lengths.iter().map(Length::time).sum();
    if args.walk {
        let error_rate = args.error_rate.unwrap_or(plan.design.error_rate);
        let fewest = walk::fewest_blocks(versions - 1, error_rate);
        let blocks = args.max_blocks.unwrap_or(fewest);
        let arms = versions as u32;
        return Price {
            blocks: [blocks; 2],
            arms: arms * lengths.len() as u32,
            load: of_trials * arms,
        };
    }
    let most = design(args, plan).max_blocks;
    Price {
        blocks: [fewest_blocks(args, plan, line).min(most), most],
        arms: ARMS,
        load: of_trials * ARMS,
    }
}

/// Blocks of a search on a machine without noise, by the place of the step: the fewest.
fn fewest_blocks(args: &BisectArgs, plan: &Plan, line: &Line) -> u32 {
    let steps = line.versions.len() - 1;
    let places = TRIED.min(steps);
    let tried = (0..places).map(|one| one * (steps - 1) / (places - 1).max(1));
    let blocks = tried.map(|step| blocks_without_noise(args, plan, line, step));
    blocks.min().unwrap_or(1)
}

/// The same where the step comes after the version at a place.
fn blocks_without_noise(args: &BisectArgs, plan: &Plan, line: &Line, step: usize) -> u32 {
    let question = Question {
        versions: line.versions.len(),
        design: &design(args, plan),
        skipped: &BTreeSet::new(),
        first_cost: match line.tree {
            Some(_) => FIRST_COST_OF_COMMIT,
            None => FIRST_COST,
        },
    };
    let mut blocks: Vec<BisectBlock> = Vec::new();
    while let Conclusion::Open { next } = look(&question, &blocks).conclusion {
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

fn as_text(args: &BisectArgs, line: &Line, price: &Price, lengths: &[Length]) -> String {
    let [from, to] = line.ends();
    let mut lines = vec![format!(
        "{}: {} versions, {from} to {to}",
        args.plan.display(),
        line.versions.len()
    )];
    for (place, version) in line.versions.iter().enumerate() {
        let fetched = match line.bytes.get(place) {
            Some(0) => ", in the cache".into(),
            Some(bytes) => format!(", {} to download", show_bytes(*bytes)),
            None => String::new(),
        };
        lines.push(format!("  {}  {}{fetched}", version.name, version.about));
    }
    lines.push(downloads(args, line));
    let trials = price.blocks.map(|blocks| blocks * price.arms);
    lines.push(format!(
        "  blocks     {} of {} trials each: {} boots",
        range(price.blocks.map(|one| one.to_string())),
        price.arms,
        range(trials.map(|one| one.to_string())),
    ));
    let time = price.blocks.map(|blocks| shown(price.load * blocks));
    let how = if lengths.iter().all(|one| matches!(one, Length::Measured(_))) {
        "boots included, as trials of this plan took so far"
    } else {
        "of load with one trial at a time; boots, and downloads or builds, come on top"
    };
    lines.push(format!("  time       {} {how}", range(time)));
    if price.blocks[0] != price.blocks[1] {
        lines.push(
            "  The lower end is for a machine without noise, the upper one is --max-blocks.".into(),
        );
    }
    lines.join("\n") + "\n"
}

fn downloads(args: &BisectArgs, line: &Line) -> String {
    if line.tree.is_some() {
        return format!(
            "  builds     each commit that is asked, at most {}",
            line.versions.len()
        );
    }
    let [least, most] = download_bytes(args, line).map(show_bytes);
    format!("  downloads  {}", range([least, most]))
}

/// Of a search both ends at the least, and at the most all versions; of a walk all.
fn download_bytes(args: &BisectArgs, line: &Line) -> [u64; 2] {
    let all = line.bytes.iter().sum();
    let ends = [line.bytes.first(), line.bytes.last()];
    let ends = ends.into_iter().flatten().sum();
    if args.walk { [all; 2] } else { [ends, all] }
}

fn range([least, most]: [String; 2]) -> String {
    if least == most {
        least
    } else {
        format!("{least} to {most}")
    }
}

fn shown(time: Duration) -> String {
    show_duration(Duration::from_secs(time.as_secs_f64().ceil() as u64))
}

fn as_json(line: &Line, price: &Price) -> serde_json::Value {
    let versions = line.versions.iter().enumerate().map(|(place, version)| {
        json!({
            "name": version.name, "about": version.about, "source": version.source,
            "download_bytes": line.bytes.get(place),
        })
    });
    let seconds = price
        .blocks
        .map(|blocks| (price.load * blocks).as_secs_f64());
    json!({
        "versions": versions.collect::<Vec<_>>(), "blocks": price.blocks,
        "trials": price.blocks.map(|blocks| blocks * price.arms), "load_s": seconds,
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

    fn args(walk: bool) -> BisectArgs {
        let mut words = vec!["bakeoff", "bisect", "no-such-plan.toml", "--dry-run"];
        words.extend(walk.then_some("--walk"));
        match Cli::try_parse_from(words).unwrap().command {
            Command::Bisect(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn line() -> Line {
        let version = |name: &str| Version {
            name: name.into(),
            about: format!("{name}-cloud-amd64"),
            source: format!("debian:sid/{name}"),
            files: Vec::new(),
        };
        Line {
            versions: ["6.1", "6.5", "6.12", "7.2"].map(version).into(),
            bytes: vec![0, 50 << 20, 51 << 20, 52 << 20],
            tree: None,
            remarks: Vec::new(),
        }
    }

    fn told(walk: bool) -> String {
        let checks = Checks::of_the_past(&workload::check);
        let plan = plan::read("plan.toml", PLAN, Path::new(""), checks).unwrap();
        let (args, line) = (args(walk), line());
        let lengths = forecast::lengths(&plan, &args.plan);
        let price = price(&args, &plan, &line, &lengths);
        as_text(&args, &line, &price, &lengths)
    }

    #[test]
    fn versions_downloads_boots_and_time_are_told_as_ranges() {
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
        .assert_eq(&told(false));
    }

    #[test]
    fn a_walk_boots_all_versions() {
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
        .assert_eq(&told(true));
    }
}
