//! `check`: is the plan right, and what would it take?

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use record::plan::{Arm, Clock, MachineKind, Plan};
use record::problem::{Problem, Problems};
use record::units::{show_duration, significant};
use serde_json::json;

use crate::cli::EmulatorArgs;

use super::forecast::{self, Forecast};
use super::{End, print_json, read_plan};
use crate::out;

/// Checks a plan without booting anything; all mistakes are told at once.
pub(super) fn check(
    path: &Path,
    from: Option<&Path>,
    emulator: &EmulatorArgs,
    as_json: bool,
) -> Result<End> {
    match read_plan(path, emulator.named().as_deref()) {
        Ok((_, plan)) => {
            let past = from.map(|dir| forecast::past(dir, &plan)).transpose()?;
            let past = past.unwrap_or_default();
            let forecasts = forecast::of(&plan, &past.known);
            let mut warned = warnings(&plan, &forecasts);
            warned.extend(past.warning);
            warned.extend(crowded(&plan, machine::host::cpus()?.len()));
            if as_json {
                print_json(&summary(&plan, &forecasts, &warned))?;
            } else {
                out::text(&(lines(&plan) + &outlook(&plan, &forecasts, &warned)));
            }
        }
        Err(why) => match why.downcast::<Problems>() {
            Ok(problems) if as_json => {
                print_json(&json!({ "problems": told(&problems) }))?;
                return Ok(End::Refused);
            }
            Ok(problems) => return Err(problems.into()),
            Err(why) => return Err(why),
        },
    }
    Ok(End::Done)
}

/// Problems for machines.
pub(super) fn told(problems: &Problems) -> Vec<serde_json::Value> {
    let told = |problem: &Problem| {
        let Problem {
            file,
            line,
            what,
            remedy,
        } = problem;
        json!({ "file": file, "line": line, "what": what, "remedy": remedy })
    };
    problems.0.iter().map(told).collect()
}

fn summary(plan: &Plan, forecasts: &[Forecast], warned: &[String]) -> serde_json::Value {
    let arms: Vec<_> = plan
        .arms
        .iter()
        .map(|arm| {
            json!({
                "name": arm.name, "kernel": arm.kernel.to_string(),
                "cmdline": arm.cmdline, "sysctl": arm.sysctl, "cpus": plan.cpus(arm),
            })
        })
        .collect();
    let workloads: Vec<_> = plan
        .workloads
        .iter()
        .map(|workload| {
            json!({
                "id": workload.id, "kind": workload.kind, "options": workload.options,
                "length_s": workload.length.as_secs_f64(),
            })
        })
        .collect();
    json!({
        "title": plan.title, "baseline": plan.baseline, "arms": arms, "workloads": workloads,
        "trials_at_least": trials(plan, plan.design.min_blocks),
        "trials_at_most": trials(plan, plan.design.max_blocks),
        "warnings": warned, "forecasts": forecasts,
        "problems": [],
    })
}

fn lines(plan: &Plan) -> String {
    let arms: Vec<_> = plan
        .arms
        .iter()
        .map(|arm| format!("{} ({})", arm.name, arm.kernel))
        .collect();
    let workloads: Vec<_> = plan
        .workloads
        .iter()
        .map(|workload| workload.id.as_str())
        .collect();
    let least = trials(plan, plan.design.min_blocks);
    let most = trials(plan, plan.design.max_blocks);
    let longest: Duration = plan.workloads.iter().map(|workload| workload.length).sum();
    format!(
        "{}\n  arms       {} (baseline first)\n  workloads  {}\n  trials     {least} to {most}, \
         {} of load for each arm and block, boots not counted\n",
        plan.title,
        arms.join(", "),
        workloads.join(", "),
        show_duration(longest),
    )
}

/// What it will take, and what will not come of it.
fn outlook(plan: &Plan, forecasts: &[Forecast], warned: &[String]) -> String {
    let margin = (plan.design.margin * 1e4).round() / 1e2;
    let told = |forecast: &Forecast| {
        let Forecast {
            known,
            blocks,
            hours,
        } = forecast;
        format!(
            "  forecast   {}: {blocks} blocks show a difference of {margin} % in 95 of 100 runs, {} h \
             (noise {} %, {} s for a trial)\n",
            known.workload,
            significant(*hours, 2),
            significant(known.noise * 100.0, 2),
            significant(known.trial_s, 2),
        )
    };
    let line = |warning: &String| format!("  warning    {warning}\n");
    let told = forecasts.iter().map(told);
    told.chain(warned.iter().map(line)).collect()
}

/// What will not come of it.
pub(super) fn warnings(plan: &Plan, forecasts: &[Forecast]) -> Vec<String> {
    let design = &plan.design;
    let mut warnings = Vec::new();
    if forecast::smallest(design).is_none() {
        let enough = forecast::enough(design);
        warnings.push(format!(
            "no difference can be told at an error rate of {} in so few blocks, whatever is measured: {} \
             (write max_blocks = {enough} or more)",
            design.error_rate, design.max_blocks,
        ));
    }
    let never = verdict::plan::never_swapped(plan);
    warnings.extend(never.iter().map(|(workload, arm)| {
        format!(
            "with this seed {arm} and {} run in one order in all {} blocks of {workload}, so that nothing can be decided: {} \
             (write another seed)",
            plan.baseline, design.max_blocks, design.seed
        )
    }));
    let short = forecasts
        .iter()
        .filter(|forecast| forecast.blocks > design.max_blocks);
    warnings.extend(short.map(|forecast| {
        format!(
            "{} will often end undecided: the plan ends at block {} (raise max_blocks to {}, or make \
             the window longer)",
            forecast.known.workload, design.max_blocks, forecast.blocks
        )
    }));
    warnings
}

/// Arms that ask for more CPUs than this host lends to bakeoff.
fn crowded(plan: &Plan, host: usize) -> Vec<String> {
    if plan.machine.clock == Clock::Instructions {
        return Vec::new();
    }
    let told = |arm: &Arm| {
        let (cpus, name) = (plan.cpus(arm)?, &arm.name);
        let said = match plan.machine.kind {
            MachineKind::Qemu => format!(
                "{cpus} virtual CPUs on {host} host CPUs: arm {name} (they take turns, so no speed-up beyond {host} \
                 can show; lower cpus, or run on a larger host)"
            ),
            MachineKind::Local => format!(
                "{cpus} CPUs on a host of {host}: arm {name} (`run` will refuse it here: lower cpus, or run on a \
                 larger host)"
            ),
        };
        (cpus as usize > host).then_some(said)
    };
    plan.arms.iter().filter_map(told).collect()
}

fn trials(plan: &Plan, blocks: u32) -> usize {
    blocks as usize * plan.arms.len() * plan.workloads.len()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect;
    use record::plan::{self, Checks};

    use super::*;

    fn plan(machine: &str) -> Plan {
        let (image, kernel) = match machine {
            "local" => ("", ""),
            _ => (
                "[image]\nrecipe = \"web\"\n",
                "kernel = \"debian:bookworm/6.1\"",
            ),
        };
        let text = format!(
            "title = \"t\"\nbaseline = \"one\"\n[machine]\nkind = \"{machine}\"\n{image}\
             [arm.one]\n{kernel}\ncpus = 1\n[arm.four]\n{kernel}\ncpus = 4\n\
             [[workload]]\nkind = \"web-static\"\nserver = \"nginx\"\nconnections = 4\nwindow = \"1s\"\n"
        );
        let checks = Checks::of_the_past(&workload::check);
        plan::read("plan.toml", &text, Path::new(""), checks).unwrap()
    }

    #[test]
    fn more_cpus_than_the_host_has_are_warned_of() {
        assert!(crowded(&plan("qemu"), 4).is_empty());
        let said = [crowded(&plan("qemu"), 2), crowded(&plan("local"), 2)].concat();
        expect![[r#"
            4 virtual CPUs on 2 host CPUs: arm four (they take turns, so no speed-up beyond 2 can show; lower cpus, or run on a larger host)
            4 CPUs on a host of 2: arm four (`run` will refuse it here: lower cpus, or run on a larger host)"#]].assert_eq(&said.join("\n"));
    }
}
