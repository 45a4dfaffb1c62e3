//! `cache kernel list`, `cache kernel fetch` and `cache kernel build`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use base::arch::Arch;
use base::input::units::show_bytes;
use machine::cache::about::About;
use machine::flavour::Flavour;
use machine::git;
use machine::kernel;
use machine::kernel::{Kernel, Offer};
use machine::kernel_build;
use machine::kernel_build::BuildOptions;
use plan::kernel::{FORMS, KernelRef, read};
use serde_json::json;

use crate::cli::KernelCommand;
use crate::commands::{End, print_json, with_progress};
use crate::out;

/// Lists, fetches or builds kernels.
pub(super) fn run(command: &KernelCommand, json: bool) -> Result<End> {
    match command {
        KernelCommand::List {
            suite: Some(suite),
            arch,
            refresh,
        } => list(suite, arch.arch(), *refresh, json),
        KernelCommand::List { suite: None, .. } => list_cached(json),
        KernelCommand::Fetch {
            kernel,
            modules,
            arch,
            refresh,
        } => fetch(kernel, modules.as_deref(), arch.arch(), *refresh, json),
        KernelCommand::Build {
            tree,
            commit,
            config,
            make_jobs,
        } => {
            let options = BuildOptions {
                config: config.clone(),
                jobs: *make_jobs,
            };
            build(tree, commit.as_deref(), &options, json)
        }
    }
}

/// Lists the kernels in the cache and what they were made from.
fn list_cached(json: bool) -> Result<End> {
    let kernels = with_progress(json, |cache, _| {
        cache.refuse_unreadable()?;
        Ok(kernel::cached(cache))
    })?;
    if json {
        let kernel_json = |(kernel, about): &(Kernel, Option<About>)| {
            json!({
                "release": kernel.release, "package": kernel.package, "vmlinuz": kernel.vmlinuz,
                "sha256": kernel.sha256, "about": about,
            })
        };
        print_json(&kernels.iter().map(kernel_json).collect::<Vec<_>>())?;
        return Ok(End::Done);
    }
    if kernels.is_empty() {
        out::line("no kernels in the cache (bakeoff cache kernel fetch KERNEL brings one)");
    }
    for (kernel, about) in &kernels {
        out::line(&format!(
            "{} {:.12} ({})",
            kernel.release, kernel.sha256, kernel.package
        ));
        if let Some(about) = about {
            out::line(&format!("  from {}", about.line()));
        }
    }
    Ok(End::Done)
}

fn list(suite: &str, arch: Arch, refresh: bool, json: bool) -> Result<End> {
    let name = suite
        .strip_prefix("debian:")
        .context("write debian:SUITE, like debian:bookworm")?;
    let offers = with_progress(json, |cache, task| {
        kernel::list(&cache.of_arch(arch), name, refresh, task)
    })?;
    if json {
        let offer_json = |offer: &Offer| json!({ "release": offer.release, "version": offer.version, "bytes": offer.bytes });
        print_json(&offers.iter().map(offer_json).collect::<Vec<_>>())?;
    } else {
        if offers.is_empty() {
            out::line(&format!("no kernels in {suite}"));
        }
        for Offer {
            release,
            version,
            bytes,
        } in &offers
        {
            out::line(&format!(
                "{release:36} {version:28} {:>9}",
                show_bytes(*bytes)
            ));
        }
    }
    Ok(End::Done)
}

fn fetch(name: &str, modules: Option<&Path>, arch: Arch, refresh: bool, json: bool) -> Result<End> {
    let wanted = match read(name, modules.map(Path::to_path_buf)) {
        Ok(KernelRef::Running) => bail!("nothing to fetch: kernel \"running\" ({FORMS})"),
        Ok(wanted) => wanted,
        Err(why) => bail!("{why} ({FORMS})"),
    };
    let kernel = with_progress(json, |cache, task| {
        kernel::fetch(&cache.of_arch(arch), &wanted, Flavour::Cloud, refresh, task)
    })?;
    print_kernel(&kernel, json)
}

fn build(tree: &Path, commit: Option<&str>, options: &BuildOptions, json: bool) -> Result<End> {
    let kernel = with_progress(json, |cache, task| {
        if !git::is_repository(tree, task)? {
            if let Some(commit) = commit {
                bail!(
                    "--commit {commit} of a tree that is no git repository: {} (leave it out)",
                    tree.display()
                );
            }
            return kernel_build::build_tree(cache, tree, options, task);
        }
        let changed = git::changed_files(tree, task)?;
        if let (None, Some(file)) = (commit, changed.first()) {
            bail!(
                "files were changed since the last commit: {file}{} (commit or stash them, or name what to build: --commit HEAD)",
                and_more(changed.len() - 1)
            );
        }
        let commit = git::commit(tree, commit.unwrap_or("HEAD"), task)?;
        kernel_build::build_commit(cache, tree, &commit.hash, options, task)
    })?;
    print_kernel(&kernel, json)?;
    if !json {
        let modules = kernel.modules.as_ref();
        let modules = modules.map(|dir| format!(", modules = \"{}\"", dir.display()));
        out::line(&format!(
            "  in a plan: kernel = \"{}\"{}",
            kernel.vmlinuz.display(),
            modules.unwrap_or_default()
        ));
    }
    Ok(End::Done)
}

fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        others => format!(" and {others} more"),
    }
}

fn print_kernel(kernel: &Kernel, json: bool) -> Result<End> {
    let Kernel {
        release,
        package,
        vmlinuz,
        modules,
        sha256,
        ..
    } = kernel;
    if json {
        print_json(&json!({
            "release": release, "package": package, "vmlinuz": vmlinuz,
            "modules": modules, "sha256": sha256,
        }))?;
    } else {
        out::line(&format!(
            "{release} ({package})\n  {}\n  sha256 {sha256}",
            vmlinuz.display()
        ));
    }
    Ok(End::Done)
}
