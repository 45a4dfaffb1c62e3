//! `new`: lists workloads, or writes a plan to start from.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail};
use base::input::text::shell_word;
use plan::fields::{Fields, Page};
use serde_json::json;
use workload::overview::{self, Overview};

use super::report::width;
use super::{End, print_json, refuse_json};
use crate::cli::Cli;
use crate::cli::compare::{ERROR_RATE, NewArgs};
use crate::cli::judge::MARGIN;
use crate::out;
use crate::plan_text;
use crate::plan_text::{ArmText, DesignText, Line, Place, PlanText, WorkloadText};

/// The arms of a new plan: Debian's stable kernel of two releases ago, and the newest kernel for today's release.
const KERNELS: [(&str, &str); 2] = [
    ("6.1", "debian:bookworm/6.1"),
    ("7.2", "debian:trixie-backports/7.2"),
];

/// The arms of a new plan for systems on the network: documentation addresses (RFC 5737).
const ADDRESSES: [(&str, &str); 2] = [("old", "http://192.0.2.10"), ("new", "http://192.0.2.11")];

/// Lists workloads, or writes a plan for one.
pub(super) fn new(args: &NewArgs, cli: &Cli) -> Result<End> {
    let Some(word) = &args.workload else {
        return list(cli.json);
    };
    refuse_json(cli)?;
    let text = draft(word)?;
    match &args.file {
        None => out::text(&text),
        Some(file) => {
            create_file(file, &text)?;
            out::line(&format!(
                "plan: {0} (edit it, then bakeoff check {1} and bakeoff run {1})",
                file.display(),
                shell_word(&file.to_string_lossy())
            ));
        }
    }
    Ok(End::Done)
}

fn list(json: bool) -> Result<End> {
    let mut listed = Vec::new();
    for (kind, overview) in overview::all() {
        let recipe = if overview.is_of_network() {
            None
        } else {
            Some(recipe(&[workload(kind)?])?)
        };
        if json {
            let Overview {
                summary, primary, ..
            } = overview;
            listed.push(
                json!({ "kind": kind, "summary": summary, "primary": primary, "recipe": recipe }),
            );
            continue;
        }
        let place = recipe.map_or("machine of kind \"url\"".into(), |recipe| {
            format!("image {recipe}")
        });
        let about = format!("decided by {}, {place}", overview.primary);
        for (text, lead) in [(overview.summary, kind), (about.as_str(), "")] {
            for line in doc::terminal::wrap(text, &format!("{lead:13}"), width()) {
                out::line(&line);
            }
        }
    }
    if json {
        print_json(&listed)?;
    } else {
        out::line("\na plan for one of them: bakeoff new WORKLOAD plan.toml");
    }
    Ok(End::Done)
}

/// The text of a new plan for a workload.
fn draft(word: &str) -> Result<String> {
    let (kind, overview) = overview::find(word).map_err(anyhow::Error::msg)?;
    let workload = workload(word)?;
    let arm = |name: &str, line: Line| ArmText {
        name: name.into(),
        lines: vec![line],
    };
    let (question, title, machine, arms): (_, _, _, Vec<ArmText>) = if overview.is_of_network() {
        let note = "where it answers; exporter = and snmp = name where it tells of itself";
        let arms = ADDRESSES
            .iter()
            .map(|(name, address)| arm(name, Line::new("url", *address, note)));
        (
            "Which of two systems on the network serves better? docs/howto/url.md has the steps."
                .into(),
            "Two systems on the network".into(),
            Place::Network,
            arms.collect(),
        )
    } else {
        let note = "newest match in that suite";
        let arms = KERNELS
            .iter()
            .map(|(name, kernel)| arm(name, Line::new("kernel", *kernel, note)));
        (
            format!("Which kernel is better at {kind}? docs/reference/plan.md has every key."),
            format!("{kind}: Debian 12's kernel against Debian 13 backports'"),
            Place::Guests {
                arch: None,
                recipe: recipe(std::slice::from_ref(&workload))?,
                suite: None,
            },
            arms.collect(),
        )
    };
    Ok(plan_text::write(&PlanText {
        head: vec![
            question,
            "Check it with `bakeoff check FILE`, run it with `bakeoff run FILE`.".into(),
        ],
        title,
        design: DesignText {
            margin: MARGIN,
            error_rate: ERROR_RATE,
            max_blocks: machine.max_blocks(),
            seed: 1,
        },
        machine,
        arms,
        workloads: vec![workload],
    }))
}

/// A workload with the values that its kind proposes.
pub(super) fn workload(word: &str) -> Result<WorkloadText> {
    WorkloadText::of_kind(word, 0)
}

/// The image recipe that has the packages of these workloads.
pub(super) fn recipe(workloads: &[WorkloadText]) -> Result<String> {
    let mut packages = Vec::new();
    for workload in workloads {
        packages.extend(required_packages(workload)?);
    }
    let wanted: Vec<&str> = packages.iter().map(String::as_str).collect();
    machine::image::covering(&wanted).with_context(|| {
        format!(
            "no image recipe of bakeoff's has all of: {} (write one of your own, images/README.md says how, and name it in \
             [image] of a plan)",
            wanted.join(", ")
        )
    })
}

/// Debian packages that a workload needs.
pub(super) fn required_packages(workload: &WorkloadText) -> Result<Vec<String>> {
    let text = workload.text();
    let page = Page::new(workload.kind, &text);
    let table = page.parse();
    let tables = Fields::top(&page, &table).tables("workload");
    let checked = tables.first().and_then(workload::check);
    let checked = page.close(checked)?;
    let workload = workload::from_plan(&checked)?;
    Ok(workload.packages().into_iter().map(String::from).collect())
}

/// Writes a new file, completely or not at all.
pub(super) fn create_file(path: &Path, text: &str) -> Result<()> {
    let created = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match created {
        Ok(file) => file,
        Err(why) if why.kind() == ErrorKind::AlreadyExists => bail!(
            "file exists: {} (remove it, or name another one)",
            path.display()
        ),
        Err(why) => return Err(why).with_context(|| format!("cannot make {}", path.display())),
    };
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_data());
    if written.is_err() {
        // An incomplete plan would be mistaken for another plan. The write error matters more than a failed removal.
        let _ = fs::remove_file(path);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}
