//! `simulate`: what would this plan find, how often, after how many blocks, in how many hours?
//!
//! Each line of the table is one truth, played many times on a simulated machine by the rule that judges real runs.
//! Nothing boots.

mod play;

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use base::input::units::{show_change, show_duration, significant};
use machine::emulator_choice;
use plan::Plan;
use record::verdict::Verdict;
use serde_json::json;
use stats::noise_models;
use stats::noise_models::Noise;
use stats::power::Terms;

use self::play::Tally;
use super::forecast::{self, Known, Past};
use super::run::jobs;
use super::{End, check, print_json, read_plan, watch_signals};
use crate::cli::simulate::SimulateArgs;
use crate::out;
use crate::reporter::Reporter;

/// Truths, in margins by which every arm is worse than the baseline. Gains are found as often as losses.
const TRUTHS: [f64; 5] = [0.0, 0.5, 1.0, 2.0, 3.0];

/// Workloads that are simulated as one, because nothing but the length of their trials is known apart.
struct Scene {
    workloads: Vec<String>,
    noise: Noise,
    /// Host time of one trial of each workload, in seconds.
    trials_s: f64,
}

/// Plays the plan and prints what came of it.
pub(super) fn simulate(args: &SimulateArgs, as_json: bool) -> Result<End> {
    let qemu = emulator_choice::named(None);
    let (_, plan) = read_plan(&args.plan, qemu.as_deref())?;
    let counted = forecast::counts_instructions(&plan, qemu.as_deref())?;
    let jobs = jobs::of_plan(args.jobs, &plan, counted)?;
    let (scenes, past) = match &args.from {
        Some(dir) => measured(&plan, dir)?,
        None => supposed((&plan, &args.plan), args.noise.unwrap_or(usual(counted))),
    };
    let terms: Vec<Terms> = scenes
        .iter()
        .flat_map(|scene| TRUTHS.map(|margins| terms(&plan, scene, margins)))
        .collect();
    let interrupted = watch_signals()?;
    let reporter = Reporter::new(as_json);
    let tell = |share| reporter.step("simulating", Some(share));
    let tallies = play::all(terms, (plan.design.seed, args.runs), &tell, &interrupted);
    reporter.close();
    let mut warnings = check::warnings(&plan, &forecast::of(&plan, &past.known, jobs));
    warnings.extend(past.warning);
    let boots_counted = args.from.is_some();
    if as_json {
        let scenes: Vec<_> = scenes
            .iter()
            .zip(tallies.chunks(TRUTHS.len()))
            .map(|(scene, tallies)| scene_json(&plan, scene, jobs, tallies))
            .collect();
        print_json(&json!({
            "scenes": scenes, "jobs": jobs, "boots_counted": boots_counted, "warnings": warnings,
        }))?;
    } else {
        out::text(&head(&plan, args));
        for (scene, tallies) in scenes.iter().zip(tallies.chunks(TRUTHS.len())) {
            out::text(&table(&plan, scene, jobs, tallies));
        }
        out::text(&foot(&warnings, boots_counted, jobs));
    }
    let played = tallies.iter().map(|tally| tally.blocks.len()).min();
    if played < Some(args.runs as usize) {
        bail!("interrupted: the table counts what was simulated so far");
    }
    Ok(End::Done)
}

/// The machine of an earlier run, a scene for each workload.
fn measured(plan: &Plan, dir: &Path) -> Result<(Vec<Scene>, Past)> {
    let past = forecast::past(dir, plan)?;
    let known = &past.known;
    let unknown: Vec<&str> = plan
        .workloads
        .iter()
        .map(|workload| workload.id.as_str())
        .filter(|id| known.iter().all(|known| known.workload != *id))
        .collect();
    if !unknown.is_empty() {
        let there: Vec<&str> = known.iter().map(|known| known.workload.as_str()).collect();
        bail!(
            "workloads of which {} has no two whole blocks: {} (it has {}; or leave out --from)",
            dir.display(),
            unknown.join(", "),
            there.join(", ")
        );
    }
    let scene = |known: &Known| Scene {
        workloads: vec![known.workload.clone()],
        noise: Noise::as_measured(known.noise, known.order_effect, known.outliers),
        trials_s: known.trial_s,
    };
    let is_asked = |known: &&Known| plan.workloads.iter().any(|one| one.id == known.workload);
    Ok((known.iter().filter(is_asked).map(scene).collect(), past))
}

/// A machine that has been named, the same for all workloads.
fn supposed((plan, file): (&Plan, &Path), noise: Noise) -> (Vec<Scene>, Past) {
    let scale = noise.scale();
    let lengths = forecast::lengths(plan, file);
    let known = plan.workloads.iter().zip(lengths);
    let known = known.map(|(workload, length)| Known {
        workload: workload.id.clone(),
        noise: scale,
        order_effect: noise.second.exp_m1(),
        outliers: noise.slow,
        trial_s: length.time().as_secs_f64(),
    });
    let known: Vec<Known> = known.collect();
    let scene = Scene {
        workloads: known.iter().map(|known| known.workload.clone()).collect(),
        noise,
        trials_s: known.iter().map(|known| known.trial_s).sum(),
    };
    let past = Past {
        known,
        warning: None,
    };
    (vec![scene], past)
}

/// The noise of the clock that the plan will have here.
fn usual(is_counted: bool) -> Noise {
    if is_counted {
        noise_models::COUNTED
    } else {
        noise_models::REFERENCE
    }
}

fn terms(plan: &Plan, scene: &Scene, margins: f64) -> Terms {
    Terms {
        noise: scene.noise,
        effects: vec![ratio(plan, margins) - 1.0; plan.arms.len() - 1],
        design: plan.design.clone(),
    }
}

/// What an arm does of what the baseline does.
fn ratio(plan: &Plan, margins: f64) -> f64 {
    (1.0 + plan.design.margin).powf(-margins)
}

fn head(plan: &Plan, args: &SimulateArgs) -> String {
    let design = &plan.design;
    format!(
        "{}\n  plan       {} arms, margin {} %, error rate {}, {} to {} blocks, seed {}\n  \
         simulated  {} runs for each line (shares are right within {:.0} points)\n",
        plan.title,
        plan.arms.len(),
        significant(design.margin * 100.0, 2),
        design.error_rate,
        design.min_blocks,
        design.max_blocks,
        design.seed,
        args.runs,
        // Two standard deviations of a share of one half.
        100.0 / f64::from(args.runs).sqrt(),
    )
}

fn table(plan: &Plan, scene: &Scene, jobs: usize, tallies: &[Tally]) -> String {
    let percent = |share: f64| significant(share * 100.0, 2);
    let mut text = format!(
        "\n{}: noise {}, {} % from block to block\n{:14} {:>7} {:>7} {:>11} {:>10} {:>8} {:>12} {:>9}\n",
        scene.workloads.join(", "),
        scene.noise.name,
        percent(scene.noise.scale()),
        "each arm is",
        "better",
        "worse",
        "equivalent",
        "undecided",
        "blocks",
        "90 % end by",
        "time",
    );
    for (tally, margins) in tallies.iter().zip(TRUTHS) {
        let truth = match margins {
            0.0 => "the same".to_owned(),
            margins => show_change(ratio(plan, margins)),
        };
        if tally.blocks.is_empty() {
            writeln!(text, "{truth:14} not simulated").expect("a string takes all text");
            continue;
        }
        let share = |verdict| format!("{:.1} %", tally.share(verdict) * 100.0);
        writeln!(
            text,
            "{truth:14} {:>7} {:>7} {:>11} {:>10} {:>8} {:>12} {:>9}",
            share(Verdict::Better),
            share(Verdict::Worse),
            share(Verdict::Equivalent),
            share(Verdict::Undecided),
            significant(tally.mean(), 2),
            tally.most_of(0.9),
            show_length(tally.mean() * forecast::hours_of_block(plan, scene.trials_s, jobs)),
        )
        .expect("a string takes all text");
    }
    text
}

/// To the second within a minute, else to the minute.
fn show_length(hours: f64) -> String {
    let seconds = (hours * 3600.0).round() as u64;
    let shown = if seconds < 60 {
        seconds
    } else {
        (seconds + 30) / 60 * 60
    };
    show_duration(Duration::from_secs(shown))
}

fn foot(warnings: &[String], boots_counted: bool, jobs: usize) -> String {
    let at_a_time = check::at_a_time(jobs);
    let mut text = if boots_counted {
        format!("\ntimes are of {at_a_time}\n")
    } else {
        format!(
            "\ntimes are of {at_a_time} and of load alone, boots not counted (--from RUN knows them)\n"
        )
    };
    for warning in warnings {
        writeln!(text, "warning: {warning}").expect("a string takes all text");
    }
    text
}

fn scene_json(plan: &Plan, scene: &Scene, jobs: usize, tallies: &[Tally]) -> serde_json::Value {
    let line = |(tally, margins): (&Tally, f64)| {
        json!({
            "ratio": ratio(plan, margins), "runs": tally.blocks.len(),
            "better": tally.share(Verdict::Better), "worse": tally.share(Verdict::Worse),
            "equivalent": tally.share(Verdict::Equivalent),
            "undecided": tally.share(Verdict::Undecided),
            "blocks": tally.mean(), "blocks_of_90_percent": tally.most_of(0.9),
            "hours": tally.mean() * forecast::hours_of_block(plan, scene.trials_s, jobs),
        })
    };
    json!({
        "workloads": scene.workloads, "noise": scene.noise.word, "scale": scene.noise.scale(),
        "lines": tallies.iter().zip(TRUTHS).map(line).collect::<Vec<_>>(),
    })
}
