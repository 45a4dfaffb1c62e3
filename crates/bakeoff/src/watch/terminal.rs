//! One run in a terminal: looked at, drawn, and left when the user has seen enough. Without a terminal, a line when something changed.
//!
//! ```text
//! screen  what is drawn, from a snapshot and a choice: no terminal is needed for that
//! keys    what keys do
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
use record::live::{Eyes, PACE, Snapshot, State, Watched};

use keys::{Choice, Step};
use screen::{Palette, View};

/// How long a key or a signal may wait.
const TICK: Duration = Duration::from_millis(200);

/// Watches a run until the user has seen enough, or `stop` is set. Without a terminal `line` gets a line when something has changed,
/// until the run is over.
///
/// # Errors
/// Where there is no such run, and where the terminal cannot be used.
pub fn watch(dir: &Path, eyes: Eyes, stop: &AtomicBool, line: &dyn Fn(&str)) -> Result<()> {
    let mut watched = Watched::new(dir, eyes);
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return print(&mut watched, stop, line);
    }
    let first = first(&mut watched)?;
    // It puts the terminal back on a panic too.
    let mut terminal = ratatui::try_init()
        .context("cannot use this terminal (without one, lines are printed: add | cat)")?;
    let shown = show(&mut terminal, &mut watched, first, stop);
    ratatui::restore();
    shown
}

/// The run as it is, where there is one.
fn first(watched: &mut Watched) -> Result<Snapshot> {
    let now = watched.look(false);
    if now.state == State::NotThere {
        let dir = watched.dir().path();
        bail!(
            "no run here: {} (bakeoff list tells which there are)",
            dir.display()
        );
    }
    Ok(now)
}

fn show(
    terminal: &mut DefaultTerminal,
    watched: &mut Watched,
    mut now: Snapshot,
    stop: &AtomicBool,
) -> Result<()> {
    let palette = Palette::of(std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()));
    let mut choice = Choice::default();
    let mut looked: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        // First of all a screen, even where judging takes its time.
        let is_due = looked.is_some_and(|at| at.elapsed() >= Watched::pace(&now));
        if is_due {
            now = watched.look(true);
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
        if !event::poll(TICK).context("cannot read keys")? {
            continue;
        }
        match event::read().context("cannot read keys")? {
            Event::Key(key) if key.kind != KeyEventKind::Release => match choice.take(&now, key) {
                Step::Stay => {}
                Step::Leave => return Ok(()),
            },
            _ => {}
        }
    }
    Ok(())
}

/// A line when something has changed, at most one at each look.
fn print(watched: &mut Watched, stop: &AtomicBool, line: &dyn Fn(&str)) -> Result<()> {
    let mut now = first(watched)?;
    let mut before = String::new();
    loop {
        now = if now.attempts.is_empty() && !now.entries.is_empty() && before.is_empty() {
            now
        } else {
            watched.look(true)
        };
        let told = judge::topics::live::document::line(&now);
        // The time of day alone is no news.
        let news = told.split_once(' ').map_or("", |(_, news)| news).to_owned();
        if news != before {
            line(&told);
            before = news;
        }
        if now.state != State::Running || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let next = Instant::now() + Watched::pace(&now);
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            thread::sleep(TICK);
        }
    }
}
