//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use record::live::{Attempt, Snapshot};

/// What the user has chosen to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// The attempt that is looked at, counted from the newest one; `None` for the newest of each arm.
    pub(super) back: Option<usize>,
    /// Attempts when it was chosen: those that begin later do not move it.
    of: usize,
    /// Whether the keys are told.
    pub(super) is_help: bool,
}

/// What comes after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    Leave,
}

/// Keys and what they do.
pub(super) const KEYS: [(&str, &str); 5] = [
    ("q, Esc, Ctrl-C", "end; the run goes on"),
    ("left, right", "the trial before, the trial after"),
    ("Home", "the first trial"),
    ("End", "the newest trial of each arm"),
    ("?", "these keys"),
];

impl Choice {
    /// The place of the chosen attempt among all.
    pub(super) fn index(&self, now: &Snapshot) -> Option<usize> {
        let place = self.of.checked_sub(self.back? + 1)?;
        (place < now.attempts.len()).then_some(place)
    }

    /// The chosen attempt.
    pub(super) fn attempt(&self, now: &Snapshot) -> Option<Attempt> {
        now.attempts.get(self.index(now)?).cloned()
    }

    /// Does what a key asks for.
    pub(super) fn take(&mut self, now: &Snapshot, key: KeyEvent) -> Step {
        let all = now.attempts.len();
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Step::Leave;
            }
            KeyCode::Esc if self.is_help => self.is_help = false,
            KeyCode::Char('q') | KeyCode::Esc => return Step::Leave,
            KeyCode::Char('?' | 'h') => self.is_help = !self.is_help,
            KeyCode::Left | KeyCode::Up => match self.index(now) {
                Some(0) => {}
                Some(place) => self.choose(place - 1, all),
                None => self.choose(all.saturating_sub(1), all),
            },
            KeyCode::Right | KeyCode::Down => match self.index(now) {
                Some(place) if place + 1 < all => self.choose(place + 1, all),
                _ => self.back = None,
            },
            KeyCode::Home => self.choose(0, all),
            KeyCode::End => self.back = None,
            _ => {}
        }
        Step::Stay
    }

    fn choose(&mut self, place: usize, all: usize) {
        if all > 0 {
            (self.back, self.of) = (Some(all - 1 - place), all);
        }
    }
}
