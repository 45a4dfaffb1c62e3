//! `check`: checks a plan, and forecasts what its run would take.

mod kvm_host;
mod power;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use base::input::problem::{Problem, Problems};
use base::input::units::{show_bytes, show_duration, show_durations, significant};
use machine::kernel;
use machine::kernel::{Found, given};
use machine::{counting, emulator_choice, profiling};
use plan::kernel::KernelRef;
use plan::{Arm, Clock, MachineKind, Plan};
use record::verdict::fairness::CheckResult;
use serde_json::json;

use crate::cli::check::CheckArgs;

use super::forecast::resources::{Resources, resources};
use super::forecast::{self, Forecast, Length};
use super::run::jobs;
use super::show::RUNS;
use super::{End, print_json, read_plan};
use crate::out;
use crate::prepare::{check_plan_fits_machine, lacks_ublk};

/// Checks a plan without booting anything; reports all mistakes at once.
pub(super) fn check(args: &CheckArgs, as_json: bool) -> Result<End> {
    if args.power {
        return power::simulate(args, as_json);
    }
    let path = &args.plan;
    let qemu = args.emulator.named();
    match read_plan(path, qemu.as_deref()) {
        Ok((_, plan)) => {
            super::check_emulator(&args.emulator, &plan)?;
            check_plan_fits_machine(&plan, path)?;
            let unchecked = check_kernels_exist(&plan, path)?;
            if plan.machine.kind == MachineKind::Qemu {
                check_cached_kernels(&plan, path)?;
            }
            let earlier = args.earlier.as_deref();
            let past = earlier.map(|dir| forecast::past(dir, &plan)).transpose()?;
            let past = past.unwrap_or_default();
            let counted = forecast::counts_instructions(&plan, qemu.as_deref())?;
            let jobs = jobs::for_plan(args.jobs, &plan, counted)?;
            let forecasts = forecast::forecasts(&plan, &past.known, jobs);
            let lengths = forecast::lengths(&plan, path);
            let runs = args.earlier.as_deref().unwrap_or(Path::new(RUNS));
            let resources = resources(runs, &plan, &lengths, jobs);
            let mut warnings = all_warnings(&plan, &forecasts)?;
            warnings.extend(past.warning);
            warnings.extend(emulator_warnings(&plan, qemu.as_deref(), counted)?);
            let findings = judge::topics::fairness::of_plan(&plan);
            let lacks = kvm_host::lacks(&plan, qemu.as_deref())?;
            if as_json {
                warnings.extend(judge::report::failed_checks(&findings));
                let mut summary = summary(&plan, &forecasts, &warnings, &lacks);
                summary["fairness"] = json!(findings);
                summary["resources"] = json!(resources);
                summary["not_checked"] = json!(unchecked);
                print_json(&summary)?;
            } else {
                out::text(&plan_lines(&plan, &lengths));
                out::text(&resource_lines(resources.as_ref()));
                out::text(&forecast_lines(&plan, &forecasts));
                out::text(&labelled_lines("warning", &warnings));
                out::text(&fairness_lines(&findings));
                out::text(&labelled_lines("host", &lacks));
                out::text(&labelled_lines("unchecked", &unchecked));
            }
        }
        Err(why) => match why.downcast::<Problems>() {
            Ok(problems) if as_json => {
                print_json(&json!({ "problems": problems_json(&problems) }))?;
                return Ok(End::Refused);
            }
            Ok(problems) => return Err(problems.into()),
            Err(why) => return Err(why),
        },
    }
    Ok(End::Done)
}

/// All warnings about a plan on this host, except failed fairness checks.
pub(super) fn all_warnings(plan: &Plan, forecasts: &[Forecast]) -> Result<Vec<String>> {
    let mut warnings = design_warnings(plan, forecasts);
    warnings.extend(too_many_cpus(plan, machine::host::cpus()?.len()));
    warnings.extend(identical_arms(plan));
    warnings.extend(hidden_file_warnings(plan));
    warnings.extend(module_warnings(plan));
    Ok(warnings)
}

/// Problems as JSON.
pub(super) fn problems_json(problems: &Problems) -> Vec<serde_json::Value> {
    let problem_json = |problem: &Problem| {
        let Problem {
            file,
            line,
            what,
            remedy,
        } = problem;
        json!({ "file": file, "line": line, "what": what, "remedy": remedy })
    };
    problems.0.iter().map(problem_json).collect()
}

fn summary(
    plan: &Plan,
    forecasts: &[Forecast],
    warnings: &[String],
    lacks: &[String],
) -> serde_json::Value {
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
                "expected_s": workload.expected.map(|expected| expected.as_secs_f64()),
            })
        })
        .collect();
    json!({
        "title": plan.title, "baseline": plan.baseline, "arms": arms, "workloads": workloads,
        "trials_at_least": trials(plan, plan.design.min_blocks),
        "trials_at_most": trials(plan, plan.design.max_blocks),
        "warnings": warnings, "host_lacks": lacks, "forecasts": forecasts,
        "problems": [],
    })
}

fn plan_lines(plan: &Plan, lengths: &[Length]) -> String {
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
    format!(
        "{}\n  arms       {} (baseline first)\n  workloads  {}\n  trials     {}, {}\n{}",
        plan.title,
        arms.join(", "),
        workloads.join(", "),
        if least == most {
            most.to_string()
        } else {
            format!("{least} to {most}")
        },
        load_text(lengths, uncounted_time(plan), expect_hint(plan, lengths)),
        profiled_line(plan),
    )
}

/// The lines about the time and disk space of the whole run.
fn resource_lines(resources: Option<&Resources>) -> String {
    let Some(resources) = resources else {
        return format!(
            "  time       not known with boots: no similar run in {RUNS}/ shows what a trial takes on this host\n"
        );
    };
    let [least, most] = resources.run_s.map(rounded);
    let time = show_durations(least, most);
    let trials = resources
        .trial_s
        .iter()
        .map(|trial_s| significant(*trial_s, 2));
    let trials: Vec<String> = trials.collect();
    let [least, most] = resources.disk_bytes.map(show_bytes);
    let disk = if least == most {
        most
    } else {
        format!("{least} to {most}")
    };
    let from = resources.from.display();
    format!(
        "  time       about {time}: trials of {} s, boots included, as in {from}; {} at a time\n  \
         disk       about {disk} for the run directory, as in {from}; the cache keeps kernels and images\n",
        trials.join(", "),
        resources.jobs,
    )
}

/// Whole minutes, or seconds below two minutes.
fn rounded(seconds: f64) -> Duration {
    let unit = if seconds < 120.0 { 1.0 } else { 60.0 };
    Duration::from_secs_f64((seconds / unit).ceil() * unit)
}

/// The line about trials that run only for their profile.
fn profiled_line(plan: &Plan) -> String {
    let when = match (plan.machine.kind, plan.machine.clock) {
        _ if !plan.why => return String::new(),
        (MachineKind::Qemu, Clock::Instructions) => return String::new(),
        (MachineKind::Qemu, Clock::Auto) => "where KVM works, ",
        (MachineKind::Local | MachineKind::Ssh | MachineKind::Url, _)
        | (MachineKind::Qemu, Clock::Wall) => "",
    };
    let least = trials(plan, judge::topics::why::find::least_blocks(&plan.design));
    format!(
        "  profiles   {when}as many trials again after the last block, at least {least}: they are sampled and not judged\n"
    )
}

/// A hint for workloads of which only a limit is known. Only the user's own programs accept `expect`.
fn expect_hint(plan: &Plan, lengths: &[Length]) -> &'static str {
    let mut workloads = plan.workloads.iter().zip(lengths);
    let is_open = workloads.any(|(workload, length)| {
        workload.traits.runs_program && matches!(length, Length::AtMost(_))
    });
    if is_open {
        ": write expect = \"10s\""
    } else {
        ""
    }
}

/// The time that the load does not include.
fn uncounted_time(plan: &Plan) -> &'static str {
    let has_commands = plan.arms.iter().any(|arm| match &arm.kernel {
        KernelRef::Remote(target) => !target.before.is_empty(),
        _ => false,
    });
    let has_commands = has_commands || !plan.machine.swap.is_empty();
    match plan.machine.kind {
        MachineKind::Qemu => ", boots not counted",
        MachineKind::Ssh => ", boots there and back not counted",
        MachineKind::Local => ", starts of servers not counted",
        MachineKind::Url if has_commands => ", commands not counted",
        MachineKind::Url => "",
    }
}

/// The load time of one arm and block, and how it is known.
fn load_text(lengths: &[Length], uncounted: &str, remedy: &str) -> String {
    let sum: Duration = lengths.iter().map(Length::time).sum();
    let sum = show_duration(Duration::from_secs_f64(
        (sum.as_secs_f64() * 10.0).round() / 10.0,
    ));
    let is_limit = |length: &Length| matches!(length, Length::AtMost(_));
    let is_measured = |length: &Length| matches!(length, Length::Measured(_));
    if lengths.iter().any(is_limit) {
        format!(
            "at most {sum} of load for each arm and block{uncounted} (what runs to its end has only its limit{remedy})"
        )
    } else if lengths.iter().any(is_measured) {
        format!("{sum} for each arm and block, boots included, as trials of this plan took so far")
    } else {
        format!("{sum} of load for each arm and block{uncounted}")
    }
}

/// Warnings about arms that do not differ.
fn identical_arms(plan: &Plan) -> Vec<String> {
    let mut warnings = Vec::new();
    for (number, arm) in plan.arms.iter().enumerate() {
        let is_same = |other: &&Arm| {
            let other = Arm {
                name: arm.name.clone(),
                line: arm.line,
                tuned: arm.tuned.clone(),
                ..(*other).clone()
            };
            other == *arm
        };
        if let Some(twin) = plan.arms[..number].iter().find(is_same) {
            warnings.push(format!(
                "two arms are the same: {} and {} (to see what this machine can show, take bakeoff run --a-a)",
                twin.name, arm.name
            ));
        }
    }
    warnings
}

/// Warnings about what the installed QEMU lacks for counted instructions. If there is no QEMU yet, the run reports it.
fn emulator_warnings(plan: &Plan, qemu: Option<&Path>, counted: bool) -> Result<Vec<String>> {
    if plan.machine.kind != MachineKind::Qemu || !counted {
        return Ok(Vec::new());
    }
    super::with_progress(true, |cache, task| {
        let mut warnings = Vec::new();
        let Ok(program) = emulator_choice::find(qemu, &cache.of_arch(plan.machine.arch), task)
        else {
            return Ok(warnings);
        };
        // If the host's QEMU cannot count instructions, the run fetches another one.
        if qemu.is_some() {
            let refusal = counting::refusal(&program, task)?;
            warnings.extend(refusal.map(|why| format!("no instructions can be counted: {why}")));
        }
        if plan.why {
            let refusal = profiling::refusal(&program, task)?;
            warnings.extend(refusal.map(|why| format!("no profiles: {why}")));
        }
        Ok(warnings)
    })
}

/// Warnings about files of the user's programs that trials on this host cannot see.
fn hidden_file_warnings(plan: &Plan) -> Vec<String> {
    if plan.machine.kind != MachineKind::Local {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for workload in &plan.workloads {
        let words = workload.options["command"].as_array().into_iter().flatten();
        let words = words.filter_map(|word| word.as_str());
        let hidden = words.filter(|word| word.starts_with("/tmp/") || word.starts_with("/run/"));
        warnings.extend(hidden.map(|word| {
            format!(
                "in {} {word} will not be found: /tmp and /run are empty in a trial on this host (keep it elsewhere)",
                workload.id
            )
        }));
    }
    warnings
}

/// Refuses kernels that the cached package lists lack. Returns a line for each kernel that could not be checked without
/// the network.
pub(super) fn check_kernels_exist(plan: &Plan, path: &Path) -> Result<Vec<String>> {
    let lookups = super::with_progress(true, |cache, task| {
        let cache = cache.of_arch(plan.machine.arch);
        let look_up = |arm: &Arm| kernel::look_up(&cache, &arm.kernel, task);
        Ok(plan.arms.iter().map(look_up).collect::<Vec<Found>>())
    })?;
    let (mut problems, mut unchecked) = (Vec::new(), Vec::new());
    for (arm, lookup) in plan.arms.iter().zip(lookups) {
        match lookup {
            Found::Yes => {}
            Found::NotChecked(why) => unchecked.push(format!("arm {}: {why}", arm.name)),
            Found::No(what, remedy) => problems.push(Problem {
                file: path.display().to_string(),
                line: arm.line,
                what: format!("arm {}: {what}", arm.name),
                remedy,
            }),
        }
    }
    if problems.is_empty() {
        return Ok(unchecked);
    }
    Err(Problems(problems).into())
}

/// Warnings about kernel images for which the plan names no modules.
fn module_warnings(plan: &Plan) -> Vec<String> {
    if !matches!(plan.machine.kind, MachineKind::Qemu | MachineKind::Ssh) {
        return Vec::new();
    }
    let warning = |arm: &Arm| {
        let why = given::lacks_modules(&arm.kernel)?;
        Some(format!("arm {}: {why}", arm.name))
    };
    plan.arms.iter().filter_map(warning).collect()
}

/// Refuses cached kernels that lack what the plan's machine needs. `run` checks others once it has fetched them.
fn check_cached_kernels(plan: &Plan, path: &Path) -> Result<()> {
    if plan.machine.seek_disk.is_none() {
        return Ok(());
    }
    let mut problems = Vec::new();
    super::with_progress(true, |cache, _| {
        let cache = &cache.of_arch(plan.machine.arch);
        for arm in &plan.arms {
            let Some(kernel) = machine::kernel::cached_as(cache, &arm.kernel) else {
                continue;
            };
            if let Some((what, remedy)) = lacks_ublk(plan, arm, &kernel)? {
                problems.push(Problem {
                    file: path.display().to_string(),
                    line: arm.line,
                    what,
                    remedy: remedy.into(),
                });
            }
        }
        Ok(())
    })?;
    if problems.is_empty() {
        return Ok(());
    }
    Err(Problems(problems).into())
}

/// The forecasts, one line each.
fn forecast_lines(plan: &Plan, forecasts: &[Forecast]) -> String {
    let margin = (plan.design.margin * 1e4).round() / 1e2;
    let line = |forecast: &Forecast| {
        let Forecast {
            known,
            blocks,
            hours,
            jobs,
        } = forecast;
        format!(
            "  forecast   {}: {blocks} blocks show a difference of {margin} % in 95 of 100 runs, {} h {} \
             (noise {} %, {} s for a trial)\n",
            known.workload,
            significant(*hours, 2),
            at_a_time(*jobs),
            significant(known.noise * 100.0, 2),
            significant(known.trial_s, 2),
        )
    };
    forecasts.iter().map(line).collect()
}

/// Fairness checks that the plan fails, and the differences that it accepts.
fn fairness_lines(findings: &[CheckResult]) -> String {
    labelled_lines("failed", &judge::report::failed_checks(findings))
        + &labelled_lines("accepted", &judge::report::accepted_differences(findings))
}

fn labelled_lines(label: &str, texts: &[String]) -> String {
    let line = |text: &String| format!("  {label:10} {text}\n");
    texts.iter().map(line).collect()
}

/// The number of trials at a time to which a forecast of host time applies.
pub(super) fn at_a_time(jobs: usize) -> String {
    match jobs {
        1 => "one trial at a time".into(),
        jobs => format!("{jobs} trials at a time"),
    }
}

/// Warnings about verdicts that the plan's design cannot give.
pub(super) fn design_warnings(plan: &Plan, forecasts: &[Forecast]) -> Vec<String> {
    let design = &plan.design;
    let mut warnings = Vec::new();
    let enough = forecast::blocks_needed(design);
    if design.max_blocks == 1 {
        // A soak test. A warning about the order of its two trials would add nothing.
        return vec![format!(
            "one block gives no verdict on speed, only on failures, defects and growth: 1 (write max_blocks = {enough} or more for one)"
        )];
    }
    if forecast::smallest_decisive(design).is_none() {
        warnings.push(format!(
            "no difference can be told at an error rate of {} in so few blocks, whatever is measured: {} \
             (write max_blocks = {enough} or more)",
            design.error_rate, design.max_blocks,
        ));
    }
    let never = stats::interim::never_swapped(plan);
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
        let id = &forecast.known.workload;
        let mut workloads = plan.workloads.iter();
        let has_window =
            workloads.any(|workload| workload.id == *id && workload::has_window(workload));
        let or = if has_window {
            ", or make the window longer"
        } else {
            ""
        };
        format!(
            "{id} will often end undecided: the plan ends at block {} (raise max_blocks to {}{or})",
            design.max_blocks, forecast.blocks
        )
    }));
    warnings
}

/// Warnings about arms that need more CPUs than bakeoff may use on this host.
fn too_many_cpus(plan: &Plan, host: usize) -> Vec<String> {
    if plan.machine.clock == Clock::Instructions {
        return Vec::new();
    }
    let warning = |arm: &Arm| {
        let (cpus, name) = (plan.cpus(arm)?, &arm.name);
        let warning = match plan.machine.kind {
            MachineKind::Qemu => format!(
                "{cpus} virtual CPUs on {host} host CPUs: arm {name} (they take turns, so no speed-up beyond {host} \
                 can show; lower cpus, or run on a larger host)"
            ),
            MachineKind::Local => format!(
                "{cpus} CPUs on a host of {host}: arm {name} (`run` will refuse it here: lower cpus, or run on a \
                 larger host)"
            ),
            // These arms do not run on this host.
            MachineKind::Ssh | MachineKind::Url => return None,
        };
        (cpus as usize > host).then_some(warning)
    };
    plan.arms.iter().filter_map(warning).collect()
}

fn trials(plan: &Plan, blocks: u32) -> usize {
    blocks as usize * plan.arms.len() * plan.workloads.len()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect;
    use plan::Checks;

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
    fn identical_arms_are_named() {
        let mut twins = plan("qemu");
        assert_eq!(identical_arms(&twins), Vec::<String>::new());
        twins.arms[1].cpus = twins.arms[0].cpus;
        expect!["two arms are the same: one and four (to see what this machine can show, take bakeoff run --a-a)"]
            .assert_eq(&identical_arms(&twins).join("\n"));
    }

    #[test]
    fn programs_that_a_trial_on_this_host_will_not_find_are_named() {
        let mut plan = plan("local");
        plan.workloads[0].id = "own".into();
        plan.workloads[0].options = json!({ "command": ["perl", "/tmp/bench.pl", "/opt/data"] });
        expect!["in own /tmp/bench.pl will not be found: /tmp and /run are empty in a trial on this host (keep it elsewhere)"]
            .assert_eq(&hidden_file_warnings(&plan).join("\n"));
        plan.machine.kind = MachineKind::Qemu;
        assert_eq!(hidden_file_warnings(&plan), Vec::<String>::new());
    }

    #[test]
    fn a_plan_of_one_block_is_warned_that_it_has_no_verdict_on_speed() {
        let mut soak = plan("qemu");
        (soak.design.min_blocks, soak.design.max_blocks) = (1, 1);
        expect!["one block gives no verdict on speed, only on failures, defects and growth: 1 (write max_blocks = 7 or more for one)"]
            .assert_eq(&design_warnings(&soak, &[]).join("\n"));
    }

    #[test]
    fn a_limit_is_not_taken_for_a_length() {
        let (ten, minutes) = (Duration::from_secs(10), Duration::from_secs(600));
        assert_eq!(
            load_text(&[Length::Known(ten)], ", boots not counted", ""),
            "10s of load for each arm and block, boots not counted"
        );
        assert!(
            load_text(&[Length::Known(ten), Length::AtMost(minutes)], "", "")
                .starts_with("at most 10m 10s")
        );
        let measured = load_text(&[Length::Measured(Duration::from_millis(2345))], "", "");
        assert!(measured.starts_with("2s 300ms for each arm"), "{measured}");
    }

    #[test]
    fn more_cpus_than_the_host_has_are_warned_of() {
        assert!(too_many_cpus(&plan("qemu"), 4).is_empty());
        let warnings = [
            too_many_cpus(&plan("qemu"), 2),
            too_many_cpus(&plan("local"), 2),
        ]
        .concat();
        expect![[r#"
            4 virtual CPUs on 2 host CPUs: arm four (they take turns, so no speed-up beyond 2 can show; lower cpus, or run on a larger host)
            4 CPUs on a host of 2: arm four (`run` will refuse it here: lower cpus, or run on a larger host)"#]].assert_eq(&warnings.join("\n"));
    }
}
