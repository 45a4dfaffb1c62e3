//! `bisect`: finds the version, or the commit, with which a metric changed.
//!
//! ```text
//! options -> version series (Debian's versions, or commits that are built)
//!   --series: one run of all versions                       -> steps with their shares
//!   else:   blocks of {first, candidate, last}, each a run  -> the step (`crate::bisect`)
//!   --why:  then a profiled run of the two versions found   -> mechanisms
//! ```

mod dry_run;
mod version_series;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base::input::text::shell_word;
use base::input::tree::Tree;
use judge::topics::bisect::find::{MAX_BLOCKS, OfRun, of_run, series};
use machine::cache::Cache;
use machine::kernel_build;
use machine::task::{Progress, Task};
use plan::{Design, KernelArm, KernelComparison, MachineKind, Plan, comparing_kernels};
use record::bisect::{Bisection, Conclusion, KernelConfig, Opened, SeriesStep, VERSION};
use record::hash::sha256;
use record::rundir;
use record::rundir::Run;
use record::trial::Outcome;
use record::verdict::Verdict;
use workload::metric_names;

use super::report::width;
use super::run::{InterimAnalyses, RunSettings, run_derived_plan};
use super::{End, explained, print_json, read_plan};
use crate::bisect;
use crate::bisect::{Bisect, Measured};
use crate::cli::bisect::{BisectArgs, ERROR_RATE};
use crate::lab::Finish;
use crate::out;
use crate::prepare;
use crate::prepare::Sources;
use crate::reporter::Reporter;
use version_series::VersionSeries;

/// Cost of a version's first block, in later blocks: its kernel is fetched and packed.
const FIRST_BLOCK_COST: f64 = 1.2;

/// Cost of a commit's first block, in later blocks: its kernel is built.
const FIRST_COMMIT_COST: f64 = 3.0;

/// Runs or resumes a bisection.
pub(super) fn bisect(args: &BisectArgs, json: bool) -> Result<End> {
    if args.dry_run && args.plan.is_dir() {
        bail!(
            "--dry-run does not apply to a run that is there: {} (leave it out)",
            args.plan.display()
        );
    }
    if args.series && args.plan.is_dir() {
        return evaluate_existing_run(args, json);
    }
    let qemu = args.emulator.named();
    let (text, plan) = read_plan(&args.plan, qemu.as_deref())?;
    check_plan(args, &plan)?;
    check_metric(args, &plan)?;
    super::check_emulator(&args.emulator, &plan)?;
    prepare::check_plan_fits_machine(&plan, &args.plan)?;
    let config = match args.tree {
        Some(_) => {
            kernel_build::refuse_lacks()?;
            Some(kernel_build::configuration(&build_options(args))?)
        }
        None => None,
    };
    let series = version_series::read(args, json)?;
    for note in &series.notes {
        out::error_line(&format!("note: {note}"));
    }
    if args.dry_run {
        return dry_run::print(args, &plan, &series, json);
    }
    let out = match &args.out {
        Some(out) => out.clone(),
        None => default_directory(args, &series),
    };
    let bisecting = Bisecting {
        args,
        json,
        text,
        plan,
        series,
        config,
        out,
        settings: RunSettings {
            file: &args.plan,
            sources: Sources {
                refresh: false,
                qemu,
                second_model: None,
            },
            interrupted: super::watch_signals()?,
            jobs: args.jobs,
            json: false,
            night_slot: None,
            interim_analyses: InterimAnalyses::Hidden,
        },
    };
    if args.series {
        bisecting.measure_series()
    } else {
        bisecting.bisect()
    }
}

/// Prints the steps of an existing run. Its baseline is the first version, and its other arms are the later ones in order.
fn evaluate_existing_run(args: &BisectArgs, json: bool) -> Result<End> {
    let has_series = args.from.is_some() || args.tree.is_some() || args.max_blocks.is_some();
    if has_series || args.why || args.out.is_some() || args.error_rate.is_some() {
        bail!(
            "a run directory is analysed without other options: {} (leave all but --series out, or name a plan file)",
            args.plan.display()
        );
    }
    let run = rundir::load(&args.plan, &workload::check)?;
    let mut names = vec![run.plan.baseline.clone()];
    let others = run.plan.arms.iter().map(|arm| arm.name.clone());
    names.extend(others.filter(|name| *name != run.plan.baseline));
    let steps = series::evaluate(&run, &names);
    if json {
        print_json(&steps)?;
    } else {
        out::text(&judge::report::series_terminal(&steps, width()));
    }
    Ok(End::Done)
}

/// Refuses plans that cannot be bisected.
fn check_plan(args: &BisectArgs, plan: &Plan) -> Result<()> {
    match plan.machine.kind {
        MachineKind::Qemu | MachineKind::Ssh => {}
        MachineKind::Local | MachineKind::Url => bail!(
            "bisect boots kernels, which a machine of kind \"{}\" does not: {} (write kind = \"qemu\" or \"ssh\")",
            plan.machine.kind.word(),
            args.plan.display()
        ),
    }
    if plan.workloads.len() > 1 && !args.series {
        let workloads = plan.workloads.iter();
        let names: Vec<&str> = workloads.map(|workload| workload.id.as_str()).collect();
        bail!(
            "bisect follows one workload, the plan has {}: {} (leave the others out, or take --series)",
            names.len(),
            names.join(", ")
        );
    }
    Ok(())
}

/// Refuses a metric that the workload cannot have.
fn check_metric(args: &BisectArgs, plan: &Plan) -> Result<()> {
    let Some(metric) = &args.metric else {
        return Ok(());
    };
    let workload = &plan.workloads[0];
    if metric_names::has(workload, metric) {
        return Ok(());
    }
    let known = metric_names::known(workload).unwrap_or_default();
    bail!(
        "{}: workload {} has no metric {metric:?} (name one of {})",
        args.plan.display(),
        workload.id,
        known.join(", ")
    )
}

/// `runs/bisect-web-static-6.1.176-7.3.4`.
fn default_directory(args: &BisectArgs, series: &VersionSeries) -> PathBuf {
    let plan = args.plan.file_stem().unwrap_or_default().to_string_lossy();
    let [first, last] = series.ends();
    let kind = if args.series { "series" } else { "bisect" };
    Path::new("runs").join(format!("{kind}-{plan}-{first}-{last}"))
}

/// The inputs of a bisection.
struct Bisecting<'a> {
    args: &'a BisectArgs,
    json: bool,
    text: String,
    plan: Plan,
    series: VersionSeries,
    /// Configuration of the kernels, if they are built.
    config: Option<KernelConfig>,
    out: PathBuf,
    settings: RunSettings<'a>,
}

impl Bisecting<'_> {
    fn bisect(&self) -> Result<End> {
        if self.series.versions.len() < 3 {
            let [first, last] = self.series.ends();
            bail!(
                "nothing lies between {first} and {last} (take other ends, or compare these two: bakeoff compare)"
            );
        }
        let design = design(self.args, &self.plan);
        let last_line = RefCell::new(String::new());
        let [from, to] = self.series.ends();
        let title = format!("{}: {from} to {to}", self.plan.workloads[0].id);
        let bisect = Bisect {
            dir: &self.out,
            title: &title,
            opened: Opened {
                version: VERSION,
                bakeoff: record::VERSION.into(),
                plan: sha256(self.text.as_bytes()),
                metric: self.args.metric.clone(),
                config: self.config.clone(),
                versions: self.series.versions.clone(),
            },
            design: &design,
            first_cost: match self.series.tree {
                Some(_) => FIRST_COMMIT_COST,
                None => FIRST_BLOCK_COST,
            },
            measure: &|number, candidate| self.measure(number, candidate),
            show: &|bisection| {
                let line = judge::report::bisection_line(bisection);
                if *last_line.borrow() != line {
                    out::error_line(&line);
                }
                *last_line.borrow_mut() = line;
            },
        };
        let (bisection, finish) = bisect::run(&bisect)?;
        self.write("bisect.json", &serde_json::to_vec_pretty(&bisection)?)?;
        if finish == Finish::Interrupted {
            bail!(
                "interrupted; what has ended is kept: go on with {}",
                self.resume_command()
            );
        }
        let html = judge::report::bisection_html(&bisection);
        let page = self.write("bisect.html", html.as_bytes())?;
        let text = judge::report::bisection_terminal(&bisection, width());
        self.print(&text, &bisection, &page)?;
        if self.args.why
            && let Conclusion::Found { before, after, .. } = &bisection.conclusion
        {
            self.why(*before, *after)?;
        }
        Ok(end(&bisection))
    }

    /// Measures one block: both ends and a candidate.
    fn measure(&self, number: u32, candidate: usize) -> Result<Measured> {
        let last = self.series.versions.len() - 1;
        let mut arms = Vec::new();
        for index in [0, candidate, last] {
            match self.arm(index) {
                Ok(arm) => arms.push(arm),
                Err(_) if self.is_interrupted() => return Ok(Measured::Interrupted),
                // A commit that does not build is skipped. A Debian kernel that cannot be fetched is an error.
                Err(why) if index == candidate && self.series.tree.is_some() => {
                    return Ok(Measured::NoCandidate(format!("{why:#}")));
                }
                Err(why) => return Err(why),
            }
        }
        let kernels = KernelComparison {
            arms: &arms,
            blocks: 1,
            seed: i64::from(number),
            error_rate: None,
            why: false,
        };
        let dir = self.out.join(format!("blocks/{number:03}"));
        let text = comparing_kernels(&self.text, kernels)?;
        if run_derived_plan(&self.settings, text, &dir)? == Finish::Interrupted {
            return Ok(Measured::Interrupted);
        }
        let run = rundir::load(&dir, &workload::check)?;
        let names = (
            arms[0].name.as_str(),
            (arms[1].name.as_str(), candidate),
            arms[2].name.as_str(),
        );
        match of_run(&run, names, self.args.metric.as_deref()) {
            OfRun::Measured(spec, block) => Ok(Measured::Block(spec, block)),
            OfRun::NoSuchMetric(known) => bail!(
                "no such metric: {} (name one of {})",
                self.args.metric.as_deref().unwrap_or_default(),
                known.join(", ")
            ),
            OfRun::Lacks(lacks) => Ok(missing_figures(&run, &lacks, &arms[1].name)),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.settings
            .interrupted
            .load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The arm of a version. Builds the kernel of a commit.
    fn arm(&self, index: usize) -> Result<KernelArm> {
        let version = &self.series.versions[index];
        let Some(tree) = &self.series.tree else {
            return Ok(KernelArm {
                name: version.name.clone(),
                kernel: version.source.clone(),
                modules: None,
            });
        };
        let reporter = Reporter::new(false);
        let tell = |progress: Progress<'_>| reporter.step(progress.what, progress.share);
        let task = Task {
            tell: &tell,
            stop: &self.settings.interrupted,
        };
        let options = build_options(self.args);
        let cache = Cache::of_user()?;
        let built = kernel_build::build_commit(&cache, tree, &version.source, &options, task);
        reporter.close();
        let kernel =
            built.with_context(|| format!("commit {} ({})", version.name, version.about))?;
        let path = |path: &Path| path.display().to_string();
        Ok(KernelArm {
            name: version.name.clone(),
            kernel: path(&kernel.vmlinuz),
            modules: kernel.modules.as_deref().map(path),
        })
    }

    fn measure_series(&self) -> Result<End> {
        let steps = self.series.versions.len() - 1;
        let error_rate = self.args.error_rate.unwrap_or(self.plan.design.error_rate);
        let fewest = series::fewest_blocks(steps, error_rate);
        let blocks = self.args.max_blocks.unwrap_or(fewest);
        if blocks < fewest {
            bail!(
                "too few blocks to call one of {steps} steps significant: --max-blocks {blocks} (take {fewest}, fewer versions, or a higher --error-rate)"
            );
        }
        let arms = (0..=steps).map(|index| self.arm(index));
        let arms = arms.collect::<Result<Vec<_>>>()?;
        let kernels = KernelComparison {
            arms: &arms,
            blocks,
            seed: 0,
            error_rate: Some(error_rate),
            why: false,
        };
        let text = comparing_kernels(&self.text, kernels)?;
        if run_derived_plan(&self.settings, text, &self.out)? == Finish::Interrupted {
            bail!(
                "interrupted; what has ended is kept: go on with {}",
                self.resume_command()
            );
        }
        let run = rundir::load(&self.out, &workload::check)?;
        let names: Vec<String> = arms.into_iter().map(|arm| arm.name).collect();
        let series = series::evaluate(&run, &names);
        self.write("series.json", &serde_json::to_vec_pretty(&series)?)?;
        let page = self.write(
            "series.html",
            judge::report::series_html(&series).as_bytes(),
        )?;
        self.print(
            &judge::report::series_terminal(&series, width()),
            &series,
            &page,
        )?;
        if self.args.why {
            let primary = series.metrics.first().map(|metric| metric.steps.as_slice());
            match primary.and_then(largest_step) {
                Some(step) => self.why(step.before, step.after)?,
                None => {
                    out::error_line("note: no step is significant, so there is none to explain");
                }
            }
        }
        Ok(End::Done)
    }

    /// Runs two versions with profiles, and explains their difference.
    fn why(&self, before: usize, after: usize) -> Result<()> {
        let arms = [self.arm(before)?, self.arm(after)?];
        let kernels = KernelComparison {
            arms: &arms,
            blocks: self.plan.design.max_blocks,
            seed: 0,
            error_rate: None,
            why: true,
        };
        let text = comparing_kernels(&self.text, kernels)?;
        let dir = self
            .out
            .join(format!("why-{}-{}", arms[0].name, arms[1].name));
        if run_derived_plan(&self.settings, text, &dir)? == Finish::Interrupted {
            bail!(
                "interrupted; what has ended is kept: go on with {}",
                self.resume_command()
            );
        }
        let run = rundir::load(&dir, &workload::check)?;
        let whys = explained::explained(&dir, &run);
        let text = judge::report::terminal(&run, &judge::judge(&run), &whys, width());
        if self.json {
            print_json(&explained::json(&whys))
        } else {
            out::text(&text);
            Ok(())
        }
    }

    fn print<T: serde::Serialize>(&self, text: &str, value: &T, page: &Path) -> Result<()> {
        if self.json {
            return print_json(value);
        }
        out::text(text);
        out::line(&format!("page: {}", page.display()));
        Ok(())
    }

    fn write(&self, name: &str, body: &[u8]) -> Result<PathBuf> {
        let dir = Tree::to_write(&self.out);
        let dir = dir.with_context(|| format!("cannot write {}", self.out.display()))?;
        rundir::replace(&dir, name, body)?;
        Ok(self.out.join(name))
    }

    /// The shell command that resumes the bisection.
    fn resume_command(&self) -> String {
        let args = self.args;
        let plan = shell_word(&args.plan.to_string_lossy());
        let mut words = vec!["bakeoff bisect".into(), plan];
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        for (option, value) in [
            ("--from", args.from.clone()),
            ("--to", args.to.clone()),
            ("--tree", path(&args.tree)),
            ("--commits", args.commits.clone()),
            ("--config", path(&args.config)),
            ("--metric", args.metric.clone()),
            ("--error-rate", args.error_rate.map(|rate| rate.to_string())),
            (
                "--max-blocks",
                args.max_blocks.map(|blocks| blocks.to_string()),
            ),
            ("--out", path(&args.out)),
            ("--jobs", args.jobs.map(|jobs| jobs.to_string())),
            ("--qemu", path(&args.emulator.named())),
        ] {
            if let Some(value) = value {
                words.extend([option.into(), shell_word(&value)]);
            }
        }
        for (is_set, option) in [
            (args.all_versions, "--all-versions"),
            (args.series, "--series"),
            (args.why, "--why"),
        ] {
            if is_set {
                words.push(option.into());
            }
        }
        words.join(" ")
    }
}

/// The design of a bisection, from the plan's design and the options.
fn design(args: &BisectArgs, plan: &Plan) -> Design {
    Design {
        error_rate: args.error_rate.unwrap_or(ERROR_RATE),
        max_blocks: args.max_blocks.unwrap_or(MAX_BLOCKS),
        min_blocks: plan.design.min_blocks.min(4),
        more_blocks: 0,
        ..plan.design.clone()
    }
}

/// The options for building kernels of commits.
fn build_options(args: &BisectArgs) -> kernel_build::BuildOptions {
    kernel_build::BuildOptions {
        config: args.config.clone(),
        jobs: None,
    }
}

/// The significant step with the largest change.
fn largest_step(steps: &[SeriesStep]) -> Option<&SeriesStep> {
    let is_significant =
        |step: &&SeriesStep| matches!(step.verdict, Verdict::Better | Verdict::Worse);
    let size = |step: &SeriesStep| step.ratio.ln().abs();
    let significant = steps.iter().filter(is_significant);
    significant.max_by(|step, other| size(step).total_cmp(&size(other)))
}

/// Why a block has no figures: because of an end if one lacks them, else because of the candidate.
fn missing_figures(run: &Run, lacks: &[String], candidate: &str) -> Measured {
    let end = lacks.iter().find(|arm| *arm != candidate);
    let arm = end.map_or(candidate, String::as_str);
    let mut attempts = run.attempts.iter();
    let last = attempts.rfind(|record| record.trial.arm == arm);
    let why = match last.map(|record| &record.outcome) {
        None => "it never ran".into(),
        Some(Outcome::Void(void)) => void.to_string(),
        Some(Outcome::Skipped(why)) => why.clone(),
        Some(Outcome::Measured(_)) => "the metric is not among its figures".into(),
    };
    match end {
        Some(end) => Measured::NoEnd(format!("{end}: {why}")),
        None => Measured::NoCandidate(why),
    }
}

/// The command succeeds if the bisection has a conclusion, also if there is no difference.
fn end(bisection: &Bisection) -> End {
    match bisection.conclusion {
        Conclusion::Found { .. } | Conclusion::Equivalent => End::Done,
        Conclusion::Open { .. } | Conclusion::Undecided => {
            out::error_line(
                "bakeoff: no step was found within the blocks that were given (--max-blocks)",
            );
            End::Refused
        }
    }
}
