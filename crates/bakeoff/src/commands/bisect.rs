//! `bisect`: which version, or which commit, a metric changed with.
//!
//! ```text
//! what was typed -> line of versions (Debian's, or commits that are built)
//!   --walk: one run of all of them, side by side            -> steps with their shares
//!   else:   blocks of {first, candidate, last}, each a run  -> the one step (`crate::bisect`)
//!   --why:  then a profiled run of the two versions found   -> mechanisms
//! ```

mod dry_run;
mod line;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base::input::text::shell_word;
use base::input::tree::Tree;
use judge::topics::bisect::find::{MAX_BLOCKS, OfRun, of_run, walk};
use machine::cache::Cache;
use machine::kernel_build;
use machine::task::{Progress, Task};
use plan::{Design, KernelArm, MachineKind, OfKernels, Plan, of_kernels};
use record::bisect::{Bisection, Conclusion, KernelConfig, Opened, VERSION, WalkStep};
use record::hash::sha256;
use record::rundir;
use record::rundir::Run;
use record::trial::Outcome;
use record::verdict::Verdict;
use workload::metric_names;

use super::report::width;
use super::run::{Looks, Setting, run_made};
use super::{End, explained, print_json, read_plan};
use crate::bisect;
use crate::bisect::{Bisect, Measured};
use crate::cli::bisect::{BisectArgs, ERROR_RATE};
use crate::lab::Finish;
use crate::out;
use crate::prepare;
use crate::prepare::Sources;
use crate::reporter::Reporter;
use line::Line;

/// What a version costs that was never measured, in blocks: its kernel is fetched and packed.
const FIRST_COST: f64 = 1.2;

/// The same of a commit, which is built.
const FIRST_COST_OF_COMMIT: f64 = 3.0;

/// Bisects, or goes on with it.
pub(super) fn bisect(args: &BisectArgs, json: bool) -> Result<End> {
    if args.dry_run && args.plan.is_dir() {
        bail!(
            "--dry-run does not apply to a run that is there: {} (leave it out)",
            args.plan.display()
        );
    }
    if args.walk && args.plan.is_dir() {
        return walk_of_run(args, json);
    }
    let qemu = args.emulator.named();
    let (text, plan) = read_plan(&args.plan, qemu.as_deref())?;
    refuse(args, &plan)?;
    refuse_metric(args, &plan)?;
    super::refuse_emulator(&args.emulator, &plan)?;
    prepare::refuse_unfit((&plan, &args.plan))?;
    let config = match args.tree {
        Some(_) => {
            kernel_build::refuse_lacks()?;
            Some(kernel_build::configuration(&how(args))?)
        }
        None => None,
    };
    let line = line::read(args, json)?;
    for remark in &line.remarks {
        out::error_line(&format!("note: {remark}"));
    }
    if args.dry_run {
        return dry_run::tell(args, &plan, &line, json);
    }
    let out = args.out.clone().unwrap_or_else(|| place(args, &line));
    let asked = Asked {
        args,
        json,
        text,
        plan,
        line,
        config,
        out,
        setting: Setting {
            file: &args.plan,
            sources: Sources {
                refresh: false,
                qemu,
                second_model: None,
            },
            interrupted: super::watch_signals()?,
            jobs: args.jobs,
            json: false,
            seat: None,
            looks: Looks::Elsewhere,
        },
    };
    if args.walk {
        asked.walk()
    } else {
        asked.bisect()
    }
}

/// The steps of a run that is there already, its baseline being the first version and its other arms the line in their order.
fn walk_of_run(args: &BisectArgs, json: bool) -> Result<End> {
    let is_typed = args.from.is_some() || args.tree.is_some() || args.max_blocks.is_some();
    if is_typed || args.why || args.out.is_some() || args.error_rate.is_some() {
        bail!(
            "a run is walked as it is: {} (leave all but --walk out, or name a plan file)",
            args.plan.display()
        );
    }
    let run = rundir::load(&args.plan, &workload::check)?;
    let baseline = run.plan.baseline.clone();
    let others = run.plan.arms.iter().map(|arm| arm.name.clone());
    let others = others.filter(|name| *name != baseline);
    let line: Vec<String> = std::iter::once(baseline.clone()).chain(others).collect();
    let found = walk::walk(&run, &line);
    if json {
        print_json(&found)?;
    } else {
        out::text(&judge::report::walk_terminal(&found, width()));
    }
    Ok(End::Done)
}

/// Refuses plans that have no line of kernels.
fn refuse(args: &BisectArgs, plan: &Plan) -> Result<()> {
    match plan.machine.kind {
        MachineKind::Qemu | MachineKind::Ssh => {}
        MachineKind::Local | MachineKind::Url => bail!(
            "bisect boots kernels, which a machine of kind \"{}\" does not: {} (write kind = \"qemu\" or \"ssh\")",
            plan.machine.kind.word(),
            args.plan.display()
        ),
    }
    if plan.workloads.len() > 1 && !args.walk {
        let names: Vec<&str> = plan.workloads.iter().map(|one| one.id.as_str()).collect();
        bail!(
            "bisect follows one workload, the plan has {}: {} (leave the others out, or take --walk)",
            names.len(),
            names.join(", ")
        );
    }
    Ok(())
}

/// Refuses a metric that the workload cannot have, before anything is looked up.
fn refuse_metric(args: &BisectArgs, plan: &Plan) -> Result<()> {
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
fn place(args: &BisectArgs, line: &Line) -> PathBuf {
    let plan = args.plan.file_stem().unwrap_or_default().to_string_lossy();
    let [first, last] = line.ends();
    let kind = if args.walk { "walk" } else { "bisect" };
    Path::new("runs").join(format!("{kind}-{plan}-{first}-{last}"))
}

/// All that was asked for.
struct Asked<'a> {
    args: &'a BisectArgs,
    json: bool,
    text: String,
    plan: Plan,
    line: Line,
    /// Of the kernels, where they are built.
    config: Option<KernelConfig>,
    out: PathBuf,
    setting: Setting<'a>,
}

impl Asked<'_> {
    fn bisect(&self) -> Result<End> {
        if self.line.versions.len() < 3 {
            let [first, last] = self.line.ends();
            bail!(
                "nothing lies between {first} and {last} (take other ends, or compare these two: bakeoff compare)"
            );
        }
        let design = design(self.args, &self.plan);
        let last = RefCell::new(String::new());
        let [from, to] = self.line.ends();
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
                line: self.line.versions.clone(),
            },
            design: &design,
            first_cost: match self.line.tree {
                Some(_) => FIRST_COST_OF_COMMIT,
                None => FIRST_COST,
            },
            measure: &|number, candidate| self.measure(number, candidate),
            show: &|now| {
                let line = judge::report::bisection_line(now);
                if *last.borrow() != line {
                    out::error_line(&line);
                }
                *last.borrow_mut() = line;
            },
        };
        let (found, finish) = bisect::run(&bisect)?;
        self.write("bisect.json", &serde_json::to_vec_pretty(&found)?)?;
        if finish == Finish::Interrupted {
            bail!(
                "interrupted; what has ended is kept: go on with {}",
                self.again()
            );
        }
        let page = self.write(
            "bisect.html",
            judge::report::bisection_html(&found).as_bytes(),
        )?;
        self.tell(
            &judge::report::bisection_terminal(&found, width()),
            &found,
            &page,
        )?;
        if let (true, Conclusion::Found { before, after, .. }) = (self.args.why, &found.conclusion)
        {
            self.why(*before, *after)?;
        }
        Ok(end(&found))
    }

    /// One block: both ends and a candidate.
    fn measure(&self, number: u32, candidate: usize) -> Result<Measured> {
        let last = self.line.versions.len() - 1;
        let mut arms = Vec::new();
        for place in [0, candidate, last] {
            match self.arm(place) {
                Ok(arm) => arms.push(arm),
                Err(_) if self.is_interrupted() => return Ok(Measured::Interrupted),
                // A commit that does not build is left out. What Debian has is always whole: that cannot be fetched is another thing.
                Err(why) if place == candidate && self.line.tree.is_some() => {
                    return Ok(Measured::NoCandidate(format!("{why:#}")));
                }
                Err(why) => return Err(why),
            }
        }
        let asked = OfKernels {
            arms: &arms,
            blocks: 1,
            seed: i64::from(number),
            error_rate: None,
            why: false,
        };
        let dir = self.out.join(format!("blocks/{number:03}"));
        let text = of_kernels(&self.text, asked)?;
        if run_made(&self.setting, text, &dir)? == Finish::Interrupted {
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
            OfRun::Lacks(lacks) => Ok(lacking(&run, &lacks, &arms[1].name)),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.setting
            .interrupted
            .load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The arm of a version; its kernel is built where it is a commit.
    fn arm(&self, place: usize) -> Result<KernelArm> {
        let version = &self.line.versions[place];
        let Some(tree) = &self.line.tree else {
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
            stop: &self.setting.interrupted,
        };
        let how = how(self.args);
        let cache = Cache::of_user()?;
        let built = kernel_build::build_commit(&cache, (tree, &version.source), &how, task);
        reporter.close();
        let kernel =
            built.with_context(|| format!("commit {} ({})", version.name, version.about))?;
        let path = |path: &Path| path.display().to_string();
        Ok(KernelArm {
            name: version.name.clone(),
            kernel: format!("file:{}", path(&kernel.vmlinuz)),
            modules: kernel.modules.as_deref().map(path),
        })
    }

    fn walk(&self) -> Result<End> {
        let steps = self.line.versions.len() - 1;
        let error_rate = self.args.error_rate.unwrap_or(self.plan.design.error_rate);
        let fewest = walk::fewest_blocks(steps, error_rate);
        let blocks = self.args.max_blocks.unwrap_or(fewest);
        if blocks < fewest {
            bail!(
                "too few blocks to call one of {steps} steps significant: --max-blocks {blocks} (take {fewest}, fewer versions, or a higher --error-rate)"
            );
        }
        let arms = (0..=steps).map(|place| self.arm(place));
        let arms = arms.collect::<Result<Vec<_>>>()?;
        let asked = OfKernels {
            arms: &arms,
            blocks,
            seed: 0,
            error_rate: Some(error_rate),
            why: false,
        };
        let text = of_kernels(&self.text, asked)?;
        if run_made(&self.setting, text, &self.out)? == Finish::Interrupted {
            bail!(
                "interrupted; what has ended is kept: go on with {}",
                self.again()
            );
        }
        let run = rundir::load(&self.out, &workload::check)?;
        let names: Vec<String> = arms.into_iter().map(|arm| arm.name).collect();
        let found = walk::walk(&run, &names);
        self.write("walk.json", &serde_json::to_vec_pretty(&found)?)?;
        let page = self.write("walk.html", judge::report::walk_html(&found).as_bytes())?;
        self.tell(
            &judge::report::walk_terminal(&found, width()),
            &found,
            &page,
        )?;
        if self.args.why {
            let primary = found.metrics.first().map(|metric| metric.steps.as_slice());
            match primary.and_then(largest) {
                Some(step) => self.why(step.before, step.after)?,
                None => {
                    out::error_line("note: no step is significant, so there is none to explain");
                }
            }
        }
        Ok(End::Done)
    }

    /// A profiled run of two versions, and what their difference is made of.
    fn why(&self, before: usize, after: usize) -> Result<()> {
        let arms = [self.arm(before)?, self.arm(after)?];
        let asked = OfKernels {
            arms: &arms,
            blocks: self.plan.design.max_blocks,
            seed: 0,
            error_rate: None,
            why: true,
        };
        let text = of_kernels(&self.text, asked)?;
        let dir = self
            .out
            .join(format!("why-{}-{}", arms[0].name, arms[1].name));
        if run_made(&self.setting, text, &dir)? == Finish::Interrupted {
            bail!(
                "interrupted; what has ended is kept: go on with {}",
                self.again()
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

    fn tell<T: serde::Serialize>(&self, text: &str, value: &T, page: &Path) -> Result<()> {
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

    /// The command that goes on with it, for a shell.
    fn again(&self) -> String {
        let args = self.args;
        let word = |path: &Path| shell_word(&path.to_string_lossy());
        let mut words = vec!["bakeoff bisect".into(), word(&args.plan)];
        let mut add = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                words.extend([name.into(), shell_word(value)]);
            }
        };
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        add("--from", args.from.as_deref());
        add("--to", args.to.as_deref());
        add("--tree", path(&args.tree).as_deref());
        add("--commits", args.commits.as_deref());
        add("--config", path(&args.config).as_deref());
        add("--metric", args.metric.as_deref());
        add(
            "--error-rate",
            args.error_rate.map(|rate| rate.to_string()).as_deref(),
        );
        add(
            "--max-blocks",
            args.max_blocks.map(|most| most.to_string()).as_deref(),
        );
        add("--out", path(&args.out).as_deref());
        add("--jobs", args.jobs.map(|jobs| jobs.to_string()).as_deref());
        add("--qemu", path(&args.emulator.named()).as_deref());
        let switches = [
            (args.all_versions, "--all-versions"),
            (args.walk, "--walk"),
            (args.why, "--why"),
        ];
        let typed = switches.iter().filter(|(is_typed, _)| *is_typed);
        words.extend(typed.map(|(_, name)| (*name).into()));
        words.join(" ")
    }
}

/// Margin, error rate, blocks and seed of a bisection.
fn design(args: &BisectArgs, plan: &Plan) -> Design {
    Design {
        error_rate: args.error_rate.unwrap_or(ERROR_RATE),
        max_blocks: args.max_blocks.unwrap_or(MAX_BLOCKS),
        min_blocks: plan.design.min_blocks.min(4),
        more_blocks: 0,
        ..plan.design.clone()
    }
}

/// How kernels of commits are built.
fn how(args: &BisectArgs) -> kernel_build::How {
    kernel_build::How {
        config: args.config.clone(),
        jobs: None,
    }
}

/// The significant step with the largest change.
fn largest(steps: &[WalkStep]) -> Option<&WalkStep> {
    let is_significant =
        |step: &&WalkStep| matches!(step.verdict, Verdict::Better | Verdict::Worse);
    let size = |step: &WalkStep| step.ratio.ln().abs();
    let significant = steps.iter().filter(is_significant);
    significant.max_by(|one, other| size(one).total_cmp(&size(other)))
}

/// Why a block has no figures: of an end if one lacks them, else of the candidate.
fn lacking(run: &Run, lacks: &[String], candidate: &str) -> Measured {
    let is_end = |arm: &&String| *arm != candidate;
    let arm = lacks.iter().find(is_end);
    let of_whom = arm.map_or(candidate, String::as_str);
    let mut own = run.attempts.iter().filter(|one| one.trial.arm == of_whom);
    let why = own
        .next_back()
        .map_or("it never ran".into(), |last| match &last.outcome {
            Outcome::Void(void) => void.to_string(),
            Outcome::Skipped(why) => why.clone(),
            Outcome::Measured(_) => "the metric is not among its figures".into(),
        });
    match arm {
        Some(arm) => Measured::NoEnd(format!("{arm}: {why}")),
        None => Measured::NoCandidate(why),
    }
}

/// Without an answer it is not done; that there is none to be had is one.
fn end(found: &Bisection) -> End {
    match found.conclusion {
        Conclusion::Found { .. } | Conclusion::Equivalent => End::Done,
        Conclusion::Open { .. } | Conclusion::Undecided => {
            out::error_line(
                "bakeoff: no step was found within the blocks that were given (--max-blocks)",
            );
            End::Refused
        }
    }
}
