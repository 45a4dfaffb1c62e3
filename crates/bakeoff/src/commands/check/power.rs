//! `check --power`: forecasts what a plan would find, how often, after how many blocks, and in how many hours.
//!
//! Each line of the table assumes one true difference. It is simulated many times on a simulated machine, and judged by the
//! same rule as real runs. Nothing boots.

mod play;

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use base::input::units::{show_change, show_duration, significant};
use plan::Plan;
use record::verdict::Verdict;
use serde_json::{Value, json};
use stats::noise_models;
use stats::noise_models::Noise;
use stats::power::Terms;

use self::play::Tally;
use crate::cli::check::CheckArgs;
use crate::commands::forecast::{self, Known, Past};
use crate::commands::run::jobs;
use crate::commands::{End, check_emulator, print_json, read_plan, watch_signals};
use crate::out;
use crate::reporter::Reporter;

/// True differences, in margins by which every arm is worse than the baseline. Gains are found as often as losses.
const TRUE_EFFECTS: [f64; 5] = [0.0, 0.5, 1.0, 2.0, 3.0];

/// Workloads that are simulated together, because only their trial lengths differ.
struct Scenario {
    workloads: Vec<String>,
    noise: Noise,
    /// Host time of one trial of each workload, in seconds.
    trials_s: f64,
}

/// Simulates the plan and prints the result.
pub(super) fn simulate(args: &CheckArgs, as_json: bool) -> Result<End> {
    let qemu = args.emulator.named();
    let (_, plan) = read_plan(&args.plan, qemu.as_deref())?;
    check_emulator(&args.emulator, &plan)?;
    let counted = forecast::counts_instructions(&plan, qemu.as_deref())?;
    let jobs = jobs::for_plan(args.jobs, &plan, counted)?;
    let noise = args.noise.unwrap_or(usual_noise(counted));
    let (scenarios, past) = match &args.earlier {
        Some(dir) => measured_scenarios(&plan, dir)?,
        None => assumed_scenario(&plan, &args.plan, noise),
    };
    let terms: Vec<Terms> = scenarios
        .iter()
        .flat_map(|scenario| TRUE_EFFECTS.map(|margins| terms(&plan, scenario, margins)))
        .collect();
    let interrupted = watch_signals()?;
    let reporter = Reporter::new(as_json);
    let on_progress = |share| reporter.step("simulating", Some(share));
    let seed = plan.design.seed;
    let tallies = play::simulate_all(terms, seed, args.runs, &on_progress, &interrupted);
    reporter.close();
    let mut warnings =
        super::design_warnings(&plan, &forecast::forecasts(&plan, &past.known, jobs));
    warnings.extend(past.warning);
    let boots_counted = args.earlier.is_some();
    if as_json {
        let scenarios: Vec<_> = scenarios
            .iter()
            .zip(tallies.chunks(TRUE_EFFECTS.len()))
            .map(|(scenario, tallies)| scenario_json(&plan, scenario, jobs, tallies))
            .collect();
        print_json(&json!({
            "scenes": scenarios, "jobs": jobs, "boots_counted": boots_counted, "warnings": warnings,
        }))?;
    } else {
        out::text(&header_text(&plan, args));
        for (scenario, tallies) in scenarios.iter().zip(tallies.chunks(TRUE_EFFECTS.len())) {
            out::text(&table_text(&plan, scenario, jobs, tallies));
        }
        out::text(&footer_text(&warnings, boots_counted, jobs));
    }
    let simulated = tallies.iter().map(|tally| tally.blocks.len()).min();
    if simulated < Some(args.runs as usize) {
        bail!("interrupted: the table counts what was simulated so far");
    }
    Ok(End::Done)
}

/// The noise of an earlier run, as a scenario for each workload.
fn measured_scenarios(plan: &Plan, dir: &Path) -> Result<(Vec<Scenario>, Past)> {
    let past = forecast::past(dir, plan)?;
    let known = &past.known;
    let unknown: Vec<&str> = plan
        .workloads
        .iter()
        .map(|workload| workload.id.as_str())
        .filter(|id| known.iter().all(|known| known.workload != *id))
        .collect();
    if !unknown.is_empty() {
        let known: Vec<&str> = known.iter().map(|known| known.workload.as_str()).collect();
        bail!(
            "workloads of which {} has no two whole blocks: {} (it has {}; or leave out --earlier)",
            dir.display(),
            unknown.join(", "),
            known.join(", ")
        );
    }
    let scenario = |known: &Known| Scenario {
        workloads: vec![known.workload.clone()],
        noise: Noise::as_measured(known.noise, known.order_effect, known.outliers),
        trials_s: known.trial_s,
    };
    let is_in_plan = |known: &&Known| {
        let mut workloads = plan.workloads.iter();
        workloads.any(|workload| workload.id == known.workload)
    };
    let scenarios = known.iter().filter(is_in_plan).map(scenario).collect();
    Ok((scenarios, past))
}

/// A scenario with assumed noise, the same for all workloads.
fn assumed_scenario(plan: &Plan, file: &Path, noise: Noise) -> (Vec<Scenario>, Past) {
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
    let scenario = Scenario {
        workloads: known.iter().map(|known| known.workload.clone()).collect(),
        noise,
        trials_s: known.iter().map(|known| known.trial_s).sum(),
    };
    let past = Past {
        known,
        warning: None,
    };
    (vec![scenario], past)
}

/// The usual noise of the clock that the plan would use here.
fn usual_noise(is_counted: bool) -> Noise {
    if is_counted {
        noise_models::COUNTED
    } else {
        noise_models::REFERENCE
    }
}

fn terms(plan: &Plan, scenario: &Scenario, margins: f64) -> Terms {
    Terms {
        noise: scenario.noise,
        effects: vec![ratio(plan, margins) - 1.0; plan.arms.len() - 1],
        design: plan.design.clone(),
    }
}

/// The true ratio of an arm to the baseline.
fn ratio(plan: &Plan, margins: f64) -> f64 {
    (1.0 + plan.design.margin).powf(-margins)
}

fn header_text(plan: &Plan, args: &CheckArgs) -> String {
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

fn table_text(plan: &Plan, scenario: &Scenario, jobs: usize, tallies: &[Tally]) -> String {
    let percent = |share: f64| significant(share * 100.0, 2);
    let mut text = format!(
        "\n{}: noise {}, {} % from block to block\n{:14} {:>7} {:>7} {:>11} {:>10} {:>8} {:>12} {:>9}\n",
        scenario.workloads.join(", "),
        scenario.noise.name,
        percent(scenario.noise.scale()),
        "each arm is",
        "better",
        "worse",
        "equivalent",
        "undecided",
        "blocks",
        "90 % end by",
        "time",
    );
    for (tally, margins) in tallies.iter().zip(TRUE_EFFECTS) {
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
            tally.blocks_of_share(0.9),
            show_length(tally.mean() * forecast::hours_of_block(plan, scenario.trials_s, jobs)),
        )
        .expect("a string takes all text");
    }
    text
}

/// Rounds to seconds below a minute, else to minutes.
fn show_length(hours: f64) -> String {
    let seconds = (hours * 3600.0).round() as u64;
    let rounded = if seconds < 60 {
        seconds
    } else {
        (seconds + 30) / 60 * 60
    };
    show_duration(Duration::from_secs(rounded))
}

fn footer_text(warnings: &[String], boots_counted: bool, jobs: usize) -> String {
    let at_a_time = super::at_a_time(jobs);
    let mut text = if boots_counted {
        format!("\ntimes are of {at_a_time}\n")
    } else {
        format!(
            "\ntimes are of {at_a_time} and of load alone, boots not counted (--earlier RUN knows them)\n"
        )
    };
    for warning in warnings {
        writeln!(text, "warning: {warning}").expect("a string takes all text");
    }
    text
}

fn scenario_json(plan: &Plan, scenario: &Scenario, jobs: usize, tallies: &[Tally]) -> Value {
    let line = |(tally, margins): (&Tally, f64)| {
        json!({
            "ratio": ratio(plan, margins), "runs": tally.blocks.len(),
            "better": tally.share(Verdict::Better), "worse": tally.share(Verdict::Worse),
            "equivalent": tally.share(Verdict::Equivalent),
            "undecided": tally.share(Verdict::Undecided),
            "blocks": tally.mean(), "blocks_of_90_percent": tally.blocks_of_share(0.9),
            "hours": tally.mean() * forecast::hours_of_block(plan, scenario.trials_s, jobs),
        })
    };
    json!({
        "workloads": scenario.workloads, "noise": scenario.noise.word, "scale": scenario.noise.scale(),
        "lines": tallies.iter().zip(TRUE_EFFECTS).map(line).collect::<Vec<_>>(),
    })
}
