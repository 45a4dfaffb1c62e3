//! Shows one run in a terminal until the user quits. Without a terminal, prints a line whenever something changed.
//!
//! ```text
//! screen  draws a snapshot and a choice; tests need no terminal for it
//! keys    handles keys
//! ```

mod keys;
mod screen;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use record::live::{Callbacks, PACE, Snapshot, State, Watched};

use keys::{Choice, Step};
use screen::{Palette, View};

/// Longest wait for a key, so that signals are noticed in time.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Shows a run until the user quits or `stop` is set. Without a terminal, calls `print_line` whenever something changed, until
/// the run is over.
///
/// # Errors
/// There is no such run, or the terminal cannot be used.
pub fn watch(
    dir: &Path,
    callbacks: Callbacks,
    stop: &AtomicBool,
    print_line: &dyn Fn(&str),
) -> Result<()> {
    let mut watched = Watched::new(dir, callbacks);
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return print_changes(&mut watched, stop, print_line);
    }
    let first = first_snapshot(&mut watched)?;
    // ratatui restores the terminal on a panic too.
    let mut terminal = ratatui::try_init()
        .context("cannot use this terminal (without one, lines are printed: add | cat)")?;
    let result = show_screen(&mut terminal, &mut watched, first, stop);
    ratatui::restore();
    result
}

/// The current state of the run.
///
/// # Errors
/// There is no such run.
fn first_snapshot(watched: &mut Watched) -> Result<Snapshot> {
    let now = watched.refresh(false);
    if now.state == State::NotThere {
        let dir = watched.dir().path();
        bail!(
            "no run here: {} (bakeoff list tells which there are)",
            dir.display()
        );
    }
    Ok(now)
}

fn show_screen(
    terminal: &mut DefaultTerminal,
    watched: &mut Watched,
    mut now: Snapshot,
    stop: &AtomicBool,
) -> Result<()> {
    let palette = Palette::of(std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()));
    let mut choice = Choice::default();
    let mut looked: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        // The first screen is drawn before the run is judged, which may take time.
        let is_due = looked.is_some_and(|at| at.elapsed() >= Watched::pace(&now));
        if is_due {
            now = watched.refresh(true);
        }
        looked = match looked {
            None => Some(
                Instant::now()
                    .checked_sub(PACE)
                    .unwrap_or_else(Instant::now),
            ),
            Some(_) if is_due => Some(Instant::now()),
            known => known,
        };
        let chosen = choice
            .attempt(&now)
            .and_then(|attempt| watched.curve(&attempt));
        let view = View {
            now: &now,
            choice: &choice,
            chosen: chosen.as_deref(),
            palette,
        };
        terminal.draw(|frame| screen::draw(frame, view))?;
        if !event::poll(POLL_INTERVAL).context("cannot read keys")? {
            continue;
        }
        match event::read().context("cannot read keys")? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                match choice.handle(&now, key) {
                    Step::Stay => {}
                    Step::Leave => return Ok(()),
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Prints a line whenever something changed.
fn print_changes(watched: &mut Watched, stop: &AtomicBool, print: &dyn Fn(&str)) -> Result<()> {
    let mut now = first_snapshot(watched)?;
    let mut printed = String::new();
    loop {
        let is_first_of_new_run =
            now.attempts.is_empty() && !now.entries.is_empty() && printed.is_empty();
        if !is_first_of_new_run {
            now = watched.refresh(true);
        }
        let line = judge::topics::live::document::line(&now);
        // The line begins with the time of day, which does not count as a change.
        let content = line.split_once(' ').map_or("", |(_, content)| content);
        if content != printed {
            print(&line);
            content.clone_into(&mut printed);
        }
        if now.state != State::Running || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let next = Instant::now() + Watched::pace(&now);
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            thread::sleep(POLL_INTERVAL);
        }
    }
}
