//! Handles keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use record::live::{Attempt, Snapshot};

/// What the user has chosen to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// The chosen attempt, counted back from the newest one; `None` shows the newest of each arm.
    pub(super) steps_back: Option<usize>,
    /// Number of attempts when it was chosen, so that later attempts do not change the choice.
    attempts_when_chosen: usize,
    /// Whether the list of keys is shown.
    pub(super) is_help: bool,
}

/// Whether to go on after a key.
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
    /// The index of the chosen attempt among all attempts.
    pub(super) fn index(&self, now: &Snapshot) -> Option<usize> {
        let index = self
            .attempts_when_chosen
            .checked_sub(self.steps_back? + 1)?;
        (index < now.attempts.len()).then_some(index)
    }

    /// The chosen attempt.
    pub(super) fn attempt(&self, now: &Snapshot) -> Option<Attempt> {
        now.attempts.get(self.index(now)?).cloned()
    }

    /// Handles a key.
    pub(super) fn handle(&mut self, now: &Snapshot, key: KeyEvent) -> Step {
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
                Some(index) => self.choose(index - 1, all),
                None => self.choose(all.saturating_sub(1), all),
            },
            KeyCode::Right | KeyCode::Down => match self.index(now) {
                Some(index) if index + 1 < all => self.choose(index + 1, all),
                _ => self.steps_back = None,
            },
            KeyCode::Home => self.choose(0, all),
            KeyCode::End => self.steps_back = None,
            _ => {}
        }
        Step::Stay
    }

    fn choose(&mut self, index: usize, all: usize) {
        if all > 0 {
            self.steps_back = Some(all - 1 - index);
            self.attempts_when_chosen = all;
        }
    }
}
