//! `show`: the result of a run, judged again from its records; its fairness checks; or the index of several runs.

pub(super) mod fairness;
pub(super) mod index;

use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};
use base::input::file;
use base::input::tree::Tree;
use judge::report::{Bundle, Culprit, MailOptions};
use machine::cache::hash_file;
use record::live::Watched;
use record::rundir;
use record::rundir::RunDir;

use super::bundle::OpenBundle;
use super::report::Report;
use super::{End, gate, print_json, watch};
use crate::cli::show::ShowArgs;
use crate::load_cli::output_files::Output;
use crate::out;

/// Limit on the size of a bisection's state.
const MOST_BISECTION_BYTES: u64 = 64 << 20;

/// The default directory of runs.
pub(super) const RUNS: &str = "runs";

/// Shows a run, or several.
pub(super) fn show(args: &ShowArgs, json: bool) -> Result<End> {
    if args.checks {
        return fairness::list(json);
    }
    if let Some(missing) = args.dirs.iter().find(|dir| !dir.exists()) {
        bail!("no such file or directory: {}", missing.display());
    }
    match &args.dirs[..] {
        [] if args.index.is_none() => show_run(&newest_run(Path::new(RUNS))?, args, json),
        [dir] if args.index.is_none() && rundir::is_run(dir) => show_run(dir, args, json),
        [file] if args.index.is_none() && file.is_file() => show_bundle(file, args, json),
        dirs => {
            refuse_options_of_a_run(args)?;
            index::index(dirs, args, json)
        }
    }
}

fn show_run(dir: &Path, args: &ShowArgs, json: bool) -> Result<End> {
    refuse_options_of_an_index(args)?;
    if args.signers.is_some() {
        bail!("--signers is for a bundle (leave it out)");
    }
    if args.fairness || args.pin || !args.accept.is_empty() {
        return fairness::show(dir, args, json);
    }
    let report = Report::read(dir)?;
    if args.report {
        report.write(&RunDir::open(dir, &report.run.plan_text)?)?;
    }
    match form(&report, args)? {
        _ if json => print_json(&judge::report::json(&report.run, &report.judgement))?,
        Some(text) => out::text(&text),
        None => report.print(),
    }
    Ok(gate::gate(&report.run, &report.judgement, args.fail_on))
}

/// Verifies a bundle, judges its run again, and shows it. Nothing is written beside a card.
fn show_bundle(path: &Path, args: &ShowArgs, json: bool) -> Result<End> {
    refuse_options_of_an_index(args)?;
    let typed = [
        (args.report, "--report"),
        (!args.accept.is_empty(), "--accept"),
    ];
    refuse(&typed, "is for a run directory (a bundle is not changed)")?;
    let bundle = OpenBundle::open(path, args.signers.as_deref())?;
    let report = bundle.judge()?;
    if args.fairness || args.pin {
        return fairness::show(&bundle.dir(), args, json);
    }
    match form(&report, args)? {
        _ if json => {
            let mut value = judge::report::json(&report.run, &report.judgement);
            value["bundle"] = bundle.json()?;
            print_json(&value)?;
        }
        Some(text) => {
            out::text(&text);
            bundle.lines().iter().for_each(|line| out::error_line(line));
        }
        None => {
            report.print_without_page();
            bundle.lines().iter().for_each(|line| out::line(line));
        }
    }
    Ok(gate::gate(&report.run, &report.judgement, args.fail_on))
}

/// The report in another form than the terminal's, if one was asked for; writes the card.
fn form(report: &Report, args: &ShowArgs) -> Result<Option<String>> {
    if let Some(file) = &args.card {
        let card = judge::report::card(&report.run, &report.judgement);
        Output::open(file).map_err(Error::msg)?.write(&card)?;
    }
    Ok(if args.markdown {
        Some(report.markdown())
    } else if args.mail {
        Some(report.mail(&mail_options(args)?))
    } else {
        None
    })
}

fn mail_options(args: &ShowArgs) -> Result<MailOptions> {
    let culprit = args.bisection.as_deref().map(culprit).transpose()?;
    let bundle = args.bundle.as_deref().map(bundle).transpose()?;
    Ok(MailOptions {
        reporter: args.reporter.clone(),
        url: args.url.clone(),
        culprit,
        bundle,
    })
}

/// The step that a bisection found.
fn culprit(dir: &Path) -> Result<Culprit> {
    let text = Tree::at(dir).read_to_string("bisect.json", MOST_BISECTION_BYTES);
    let text = text.with_context(|| format!("cannot read bisection: {}", dir.display()))?;
    let bisection = serde_json::from_str(&text)
        .with_context(|| format!("damaged bisection: {}", dir.display()))?;
    Culprit::of(&bisection).with_context(|| {
        format!(
            "no version or commit found by the bisection in {} (go on with it, or leave out --bisection)",
            dir.display()
        )
    })
}

fn bundle(path: &Path) -> Result<Bundle> {
    // A pipe would be read without end.
    file::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Bundle {
        name: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into(),
        sha256: hash_file(path)?,
    })
}

/// The newest running run, else the newest run.
pub(super) fn newest_run(dir: &Path) -> Result<PathBuf> {
    let runs =
        record::live::directories(dir).map_err(|why| anyhow!("{why} (name a run directory)"))?;
    let mut known: Vec<(bool, String, PathBuf)> = runs
        .into_values()
        .map(|dir| {
            let now = Watched::new(&dir, watch::callbacks()).refresh(false);
            let begun = now
                .entries
                .first()
                .map_or(String::new(), |entry| entry.at.clone());
            (rundir::is_running(&dir), begun, dir.path())
        })
        .collect();
    known.sort();
    let Some((_, _, dir)) = known.pop() else {
        bail!("no runs in {} (name a run directory)", dir.display());
    };
    Ok(dir)
}

fn refuse_options_of_a_run(args: &ShowArgs) -> Result<()> {
    let typed = [
        (args.report, "--report"),
        (args.markdown, "--markdown"),
        (args.mail, "--mail"),
        (args.card.is_some(), "--card"),
        (args.fairness, "--fairness"),
        (!args.accept.is_empty(), "--accept"),
        (args.pin, "--pin"),
        (args.signers.is_some(), "--signers"),
    ];
    refuse(&typed, "is for one run (name its directory)")
}

fn refuse_options_of_an_index(args: &ShowArgs) -> Result<()> {
    let typed = [
        (args.rates.error_rate.is_some(), "--error-rate"),
        (args.rates.fdr.is_some(), "--fdr"),
    ];
    refuse(
        &typed,
        "is for several runs: the plan of a run fixes its error rate, because choosing it after seeing results invalidates it (leave it out)",
    )
}

fn refuse(typed: &[(bool, &str)], why: &str) -> Result<()> {
    match typed.iter().find(|(is_typed, _)| *is_typed) {
        Some((_, name)) => bail!("{name} {why}"),
        None => Ok(()),
    }
}
