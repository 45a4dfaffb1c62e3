//! The page of all commands and options in the docs is made from the command line.

use std::fmt::Write as _;
use std::path::Path;

use bakeoff::cli::Cli;
use clap::builder::Str;
use clap::{Arg, Command, CommandFactory as _};
use expect_test::expect_file;

const HEAD: &str = "# Commands and options

This page lists every command with its options, for a user who knows what to do and looks for the flag. `bakeoff COMMAND --help` prints the \
same, with examples. Exit statuses: 0 answered or done, 1 the gate of `--fail-on` tripped, 2 wrong usage or environment, 3 the gate has no answer.

Every command takes these options:

| option | meaning |
|---|---|
";

/// Options of every command, and those that need no words.
fn is_listed(arg: &Arg) -> bool {
    let is_common = ["help", "version", "json", "quiet"].contains(&arg.get_id().as_str());
    !is_common && !arg.is_hide_set()
}

fn page() -> String {
    let mut cli = Cli::command();
    cli.build();
    let mut page = String::from(HEAD);
    for arg in cli.get_arguments().filter(|arg| !is_listed(arg)) {
        row(&mut page, arg);
    }
    for command in cli.get_subcommands() {
        section(&mut page, command, 2);
    }
    page
}

fn section(page: &mut String, command: &Command, level: usize) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command.get_about().map(ToString::to_string);
    let marks = "#".repeat(level);
    write!(page, "\n{marks} {name}\n{}.\n", about.unwrap_or_default()).unwrap();
    let (shared, arguments): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(|arg| is_listed(arg))
        .partition(|arg| name == "bakeoff compare" && is_of_run(arg));
    if !arguments.is_empty() {
        page.push_str("\n| option | meaning |\n|---|---|\n");
        for arg in arguments {
            row(page, arg);
        }
    }
    let shared: Vec<String> = shared
        .iter()
        .map(|arg| format!("`{}`", option(arg)))
        .collect();
    if !shared.is_empty() {
        let shared = shared.join(", ");
        write!(
            page,
            "\nThese options are as for `bakeoff run`: {shared}.\n"
        )
        .unwrap();
    }
    for command in command.get_subcommands() {
        section(page, command, level + 1);
    }
}

/// Whether `bakeoff run` has the same option.
fn is_of_run(arg: &Arg) -> bool {
    let cli = Cli::command();
    let run = cli.find_subcommand("run").unwrap();
    let text = |arg: &Arg| arg.get_help().map(ToString::to_string);
    run.get_arguments()
        .any(|other| other.get_id() == arg.get_id() && text(other) == text(arg))
}

/// `-o, --out DIR`.
fn option(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default().iter();
    let values: Vec<&str> = names.map(Str::as_str).collect();
    let mut option = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, None) => String::new(),
    };
    if arg.get_action().takes_values() {
        option = format!("{option} {}", values.join(" "));
    }
    option.trim().replace('|', "\\|")
}

fn row(page: &mut String, arg: &Arg) {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults: Vec<_> = arg.get_default_values().iter().collect();
    let default = match defaults.first() {
        Some(value) if arg.get_action().takes_values() => {
            format!(" [default: {}]", value.to_string_lossy())
        }
        Some(_) | None => String::new(),
    };
    let words: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|word| arg.get_action().takes_values() && !word.is_hide_set())
        .map(|word| format!("`{}`", word.get_name()))
        .collect();
    let words = if words.is_empty() {
        String::new()
    } else {
        format!(": {}", words.join(", "))
    };
    let text = format!("{help}{words}{default}")
        .replace('|', "\\|")
        .replace('\n', " ");
    writeln!(page, "| `{}` | {text} |", option(arg)).unwrap();
}

#[test]
fn the_page_in_the_docs_is_made_from_the_command_line() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    expect_file![file].assert_eq(&page());
}
