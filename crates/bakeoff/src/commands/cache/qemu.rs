//! `cache qemu list` and `cache qemu fetch`.

use anyhow::Result;
use base::arch::Arch;
use machine::emulator::Program;
use machine::emulator_choice;
use machine::fetched;
use serde_json::json;

use crate::cli::{EmulatorArgs, QemuCommand};
use crate::commands::{End, print_json, with_progress};
use crate::out;

/// Lists or fetches QEMUs.
pub(super) fn run(command: &QemuCommand, json: bool) -> Result<End> {
    match command {
        QemuCommand::List { emulator, arch } => list(emulator, arch.arch(), json),
        QemuCommand::Fetch { arch, refresh } => fetch(*refresh, arch.arch(), json),
    }
}

/// Lists each QEMU binary once; the first one is used for emulation.
fn list(args: &EmulatorArgs, arch: Arch, json: bool) -> Result<End> {
    let named = args.named();
    let programs = with_progress(json, |cache, task| {
        let cache = &cache.of_arch(arch);
        let mut programs = vec![emulator_choice::find(named.as_deref(), cache, task)?];
        let others = emulator_choice::of_host(arch, task).ok().into_iter();
        for other in others.chain(fetched::known(cache, task)?) {
            if programs.iter().all(|program| !is_same(program, &other)) {
                programs.push(other);
            }
        }
        Ok(programs)
    })?;
    if json {
        return print_json(&programs.iter().map(program_json).collect::<Vec<_>>())
            .map(|()| End::Done);
    }
    for (index, program) in programs.iter().enumerate() {
        let word = if index == 0 { "used" } else { "" };
        out::line(&format!("{word:5} {}", program_line(program)));
    }
    Ok(End::Done)
}

/// Whether two paths lead to the same binary: on Debian, /bin is a link to /usr/bin.
fn is_same(program: &Program, other: &Program) -> bool {
    let real_path = |program: &Program| {
        let path = program.path.canonicalize();
        path.unwrap_or_else(|_| program.path.clone())
    };
    real_path(program) == real_path(other)
}

fn fetch(refresh: bool, arch: Arch, json: bool) -> Result<End> {
    let program = with_progress(json, |cache, task| {
        fetched::fetch(&cache.of_arch(arch), refresh, task)
    })?;
    if json {
        print_json(&program_json(&program))?;
    } else {
        out::line(&program_line(&program));
    }
    Ok(End::Done)
}

fn program_json(program: &Program) -> serde_json::Value {
    json!({ "version": program.version, "path": program.path, "fault": program.fault() })
}

fn program_line(program: &Program) -> String {
    let fault = program.fault().map(|fault| format!("\n      {fault}"));
    format!(
        "{}\n      {}{}",
        program.version,
        program.path.display(),
        fault.unwrap_or_default()
    )
}
