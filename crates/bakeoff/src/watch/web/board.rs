//! The runs, each looked at once for all who watch it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::input::tree::Tree;
use judge::topics::live::document::{NightNow, Part, Row};
use record::live::{Eyes, PACE, Problem, Snapshot, State, Watched};

use super::http;

/// Runs that nobody looked at are judged for the list for so long in each second.
const LIST_JUDGING: Duration = Duration::from_millis(300);

/// A page that nobody opened for so long is not kept in memory.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// The report of a run, and the index of a night.
const REPORT: &str = "report.html";
const INDEX: &str = "index.html";

/// Longest report that is served, in bytes.
const REPORT_BYTES: u64 = 64 << 20;

/// A look is fresh for this share of the pace: those who watch a run share its looks.
const FRESH: f64 = 0.5;

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum View {
    /// All runs.
    All,
    /// The run of this name.
    One(String),
}

/// The parts of a page as they are now.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) parts: Arc<Vec<Part>>,
    /// Seconds of load that the curves show.
    pub(super) window_s: f64,
    /// How long to wait before the next look.
    pub(super) pace: Duration,
}

/// All of them.
pub(super) struct Board {
    dir: Tree,
    eyes: Eyes,
    cards: Mutex<BTreeMap<String, Arc<Mutex<Card>>>>,
    list: Mutex<Option<(Instant, Seen)>>,
}

/// A run as it was seen last.
struct Card {
    watched: Watched,
    /// When, and whether it was for its own page.
    looked: Option<Instant>,
    viewed: Option<Instant>,
    now: Option<Snapshot>,
    /// What was said of it when it was judged.
    verdicts: Vec<(&'static str, String)>,
    seen: Option<Seen>,
}

impl Board {
    /// The runs below a directory, which can be listed.
    pub(super) fn new(dir: &Path, eyes: Eyes) -> Result<Self, Problem> {
        let board = Self {
            dir: dir.into(),
            eyes,
            cards: Mutex::default(),
            list: Mutex::default(),
        };
        board.discover()?;
        Ok(board)
    }

    /// Whether there is such a page.
    pub(super) fn has(&self, view: &View) -> bool {
        match view {
            View::All => true,
            View::One(name) => self.card(name).is_some(),
        }
    }

    /// The whole page.
    pub(super) fn page(&self, view: &View) -> String {
        match view {
            View::All => {
                let seen = self.parts(view);
                judge::topics::live::document::runs_page(
                    &self.dir.path().display().to_string(),
                    &seen.parts,
                    "/events",
                )
            }
            View::One(name) => match self.card(name) {
                Some(card) => {
                    let mut card = held(&card);
                    let seen = card.view();
                    let title = card
                        .now
                        .as_ref()
                        .map_or(name.clone(), judge::topics::live::document::title);
                    judge::topics::live::document::run_page(&title, &seen.parts, "../../", "events")
                }
                None => {
                    judge::topics::live::document::run_page(name, &gone(name), "../../", "events")
                }
            },
        }
    }

    /// The parts of a page as they are now.
    pub(super) fn parts(&self, view: &View) -> Seen {
        match view {
            View::All => self.list(),
            View::One(name) => match self.card(name) {
                Some(card) => held(&card).view(),
                None => Seen {
                    parts: Arc::new(gone(name)),
                    window_s: 0.0,
                    pace: PACE,
                },
            },
        }
    }

    /// The report of a run, where it has one: a regular file, not a link to another.
    pub(super) fn report(&self, name: &str) -> Option<Vec<u8>> {
        let card = self.card(name)?;
        let dir = held(&card).watched.dir().clone();
        page(&dir, REPORT)
    }

    /// The index of the night, where the runs are a night's: likewise.
    pub(super) fn index(&self) -> Option<Vec<u8>> {
        record::live::night(&self.dir).ok()??;
        page(&self.dir, INDEX)
    }

    fn card(&self, name: &str) -> Option<Arc<Mutex<Card>>> {
        let known = held(&self.cards).get(name).cloned();
        known.or_else(|| {
            self.discover().ok()?;
            held(&self.cards).get(name).cloned()
        })
    }

    /// Notes runs that have come.
    fn discover(&self) -> Result<(), Problem> {
        let found = record::live::directories(&self.dir)?;
        let mut cards = held(&self.cards);
        for (name, dir) in found {
            let card = || Arc::new(Mutex::new(Card::new(&dir, self.eyes)));
            cards.entry(name).or_insert_with(card);
        }
        Ok(())
    }

    fn list(&self) -> Seen {
        let mut list = held(&self.list);
        if let Some((at, seen)) = &*list
            && at.elapsed() < seen.pace.mul_f64(FRESH)
        {
            return seen.clone();
        }
        let problem = self.discover().err();
        let seen = self.look_at_all(problem.as_deref());
        *list = Some((Instant::now(), seen.clone()));
        seen
    }

    fn look_at_all(&self, problem: Option<&str>) -> Seen {
        let cards: Vec<(String, Arc<Mutex<Card>>)> = held(&self.cards)
            .iter()
            .map(|(name, card)| (name.clone(), Arc::clone(card)))
            .collect();
        let began = Instant::now();
        let (mut rows, mut pace) = (Vec::new(), PACE);
        for (name, card) in cards {
            let row = held(&card).list(began.elapsed() < LIST_JUDGING, &name);
            if row.now.state == State::Gone {
                held(&self.cards).remove(&name);
                continue;
            }
            pace = pace.max(Watched::pace(&row.now));
            rows.push(row);
        }
        // The newest first: who looks at a list wants the one that goes on.
        rows.sort_by_cached_key(|row| {
            std::cmp::Reverse((row.now.state == State::Running, begun(&row.now)))
        });
        let (night, damage) = match record::live::night(&self.dir) {
            Ok(plans) => (plans.unwrap_or_default(), None),
            Err(damage) => (Vec::new(), Some(damage)),
        };
        let night = NightNow {
            plans: night,
            has_index: has_page(&self.dir, INDEX),
        };
        let problem = problem.or(damage.as_deref());
        Seen {
            parts: Arc::new(judge::topics::live::document::runs_parts(
                &rows, &night, problem,
            )),
            window_s: 0.0,
            pace,
        }
    }
}

impl Card {
    fn new(dir: &Tree, eyes: Eyes) -> Self {
        Self {
            watched: Watched::new(dir, eyes),
            looked: None,
            viewed: None,
            now: None,
            verdicts: Vec::new(),
            seen: None,
        }
    }

    /// For its own page.
    fn view(&mut self) -> Seen {
        let is_first = self.viewed.is_none();
        self.viewed = Some(Instant::now());
        if let (Some(seen), Some(at), false) = (&self.seen, self.looked, is_first)
            && at.elapsed() < seen.pace.mul_f64(FRESH)
        {
            return seen.clone();
        }
        if is_first {
            self.watched.wake();
        }
        let now = self.look(true);
        let has_report = has_page(self.watched.dir(), REPORT);
        let seconds = now.arms.iter().map(|arm| arm.curve.seen_s());
        let seen = Seen {
            parts: Arc::new(judge::topics::live::document::run_parts(&now, has_report)),
            window_s: seconds.fold(0.0, f64::max),
            pace: Watched::pace(&now),
        };
        self.seen = Some(seen.clone());
        seen
    }

    /// For the list.
    fn list(&mut self, may_judge: bool, name: &str) -> Row {
        if self.viewed.is_some_and(|at| at.elapsed() > FORGOTTEN) {
            self.viewed = None;
        }
        let is_fresh = |pace: Duration| {
            self.looked
                .is_some_and(|at| at.elapsed() < pace.mul_f64(FRESH))
        };
        let now = match &self.now {
            Some(now) if is_fresh(Watched::pace(now)) => now.clone(),
            _ => self.look(may_judge),
        };
        if self.viewed.is_none() {
            // What is said of it stays; the rest takes memory that nobody needs.
            self.watched.rest();
            self.seen = None;
            self.now = self.now.take().map(|now| Snapshot {
                judged: None,
                ..now
            });
        }
        Row {
            verdicts: self.verdicts.clone(),
            address: format!("run/{}/", http::encoded(name)),
            now: Snapshot {
                judged: None,
                ..now
            },
        }
    }

    fn look(&mut self, may_judge: bool) -> Snapshot {
        let now = self.watched.look(may_judge);
        if now.judged.is_some() {
            self.verdicts = judge::topics::live::document::verdicts_so_far(&now);
        }
        self.looked = Some(Instant::now());
        self.now = Some(now.clone());
        now
    }
}

/// A run that is not there any more.
fn gone(name: &str) -> Vec<Part> {
    judge::topics::live::document::gone_parts(name)
}

fn begun(now: &Snapshot) -> String {
    now.entries
        .first()
        .map_or(String::new(), |entry| entry.at.clone())
}

fn has_page(dir: &Tree, name: &str) -> bool {
    let about = dir.metadata(name);
    about.is_ok_and(|about| about.len() <= REPORT_BYTES)
}

fn page(dir: &Tree, name: &str) -> Option<Vec<u8>> {
    let text = dir.read_to_string_within(name, REPORT_BYTES).ok()?;
    Some(text.into_bytes())
}

/// A lock whose holder panicked guards what the next look reads anew.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
