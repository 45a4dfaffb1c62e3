//! `cache`: lists, prunes and verifies it; kernels, images and QEMU have commands below it.

mod image;
mod kernel;
mod qemu;

use anyhow::Result;
use base::input::units::show_bytes;
use machine::cache::Cache;
use machine::cache::eviction;
use machine::cache::eviction::{Entry, Mode, Named, Pruned};
use machine::cache::verify;
use machine::cache::verify::{Verified, Wrong};
use machine::task::Task;
use serde_json::json;

use crate::out;

use super::{End, print_json, with_progress};
use crate::cli::CacheCommand;

/// Lists, prunes, verifies or fills the cache.
pub(super) fn run(command: &CacheCommand, json: bool) -> Result<End> {
    let limit = || {
        let limit_bytes = eviction::limit()?;
        Cache::of_user()?.refuse_unreadable()?;
        anyhow::Ok(limit_bytes)
    };
    match command {
        CacheCommand::List => {
            let limit_bytes = limit()?;
            with_progress(json, |cache, _| list(cache, limit_bytes, json))
        }
        CacheCommand::Prune { to, named, dry_run } => {
            let limit_bytes = limit()?;
            let named = if *named { Named::MayGo } else { Named::Stay };
            let mode = if *dry_run { Mode::Tell } else { Mode::Remove };
            let prune = |cache: &Cache, _: Task<'_>| {
                eviction::prune(cache, to.unwrap_or(limit_bytes), named, mode)
            };
            print_pruned(&with_progress(json, prune)?, mode, json)
        }
        CacheCommand::Kernel(command) => kernel::run(command, json),
        CacheCommand::Image(command) => image::run(command, json),
        CacheCommand::Qemu(command) => qemu::run(command, json),
        CacheCommand::Verify { remove } => {
            limit()?;
            let wrong = if *remove {
                Wrong::IsRemoved
            } else {
                Wrong::Stays
            };
            let verified = with_progress(json, |cache, task| verify::verify(cache, wrong, task))?;
            print_verified(&verified, wrong, json)
        }
    }
}

fn list(cache: &Cache, limit_bytes: u64, json: bool) -> Result<End> {
    let entries = eviction::list(cache);
    let bytes = cache.size_bytes();
    if json {
        print_json(&json!({
            "root": cache.root(), "bytes": bytes, "limit_bytes": limit_bytes, "entries": entries,
        }))?;
        return Ok(End::Done);
    }
    for entry in &entries {
        out::line(&entry_lines(entry));
    }
    out::line(&format!(
        "{} in {} (limit {})",
        show_bytes(bytes),
        cache.root().display(),
        show_bytes(limit_bytes)
    ));
    Ok(End::Done)
}

/// The lines about an entry: its state, what it was made from, its names, and the runs that name it.
fn entry_lines(entry: &Entry) -> String {
    let state = if entry.is_in_use { ", in use" } else { "" };
    let mut lines = vec![format!(
        "{}, last used {}{state}",
        entry.line(),
        entry.used_at
    )];
    if let Some(about) = &entry.about {
        lines.push(format!("from {}", about.line()));
    }
    if !entry.names.is_empty() {
        lines.push(format!("called {}", entry.names.join(", ")));
    }
    let runs = entry.runs.iter();
    lines.extend(runs.map(|run| format!("named by {}", run.display())));
    lines.join("\n  ")
}

fn print_pruned(pruned: &Pruned, mode: Mode, json: bool) -> Result<End> {
    if json {
        print_json(pruned)?;
        return Ok(End::Done);
    }
    for line in pruned.lines(mode) {
        out::line(&line);
    }
    let verb = match mode {
        Mode::Remove => "is",
        Mode::Tell => "would be",
    };
    out::line(&format!(
        "the cache had {}, and {verb} {} now (limit {})",
        show_bytes(pruned.before_bytes),
        show_bytes(pruned.after_bytes),
        show_bytes(pruned.limit_bytes)
    ));
    Ok(End::Done)
}

/// Prints the damaged entries, one line each. The command fails if any is left.
fn print_verified(verified: &Verified, wrong: Wrong, json: bool) -> Result<End> {
    let any_left = verified.findings.iter().any(|finding| !finding.is_removed);
    let end = if any_left { End::Refused } else { End::Done };
    if json {
        print_json(verified)?;
        return Ok(end);
    }
    for finding in &verified.findings {
        let remedy = match (finding.is_removed, wrong) {
            (true, _) => "removed",
            (false, Wrong::Stays) => "bakeoff cache verify --remove removes it",
            (false, Wrong::IsRemoved) => "a bakeoff uses it: try again when that has ended",
        };
        out::line(&format!(
            "wrong: {}: {} ({remedy})",
            finding.path.display(),
            finding.what
        ));
    }
    if verified.unknown > 0 {
        out::line(&format!(
            "{} kept packages are in no index here, and are not used",
            verified.unknown
        ));
    }
    out::line(&format!(
        "{} of {} are as they should be",
        verified.good,
        verified.good as usize + verified.findings.len()
    ));
    Ok(end)
}
