//! The state of the runs. Each run is read once for all connections that watch it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::input::tree::Tree;
use judge::topics::live::document::{NightNow, Part, Row};
use record::live::{Callbacks, PACE, Problem, Snapshot, State, Watched};

use super::answer;

/// Time for judging runs for the list, per update of the list.
const LIST_JUDGING_TIME: Duration = Duration::from_millis(300);

/// After this time without a request for its page, a run's details are dropped from memory.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// The report of a run, and the index of a night.
const REPORT: &str = "report.html";
const INDEX: &str = "index.html";

/// Limit on the size of a served report.
const MAX_REPORT_BYTES: u64 = 64 << 20;

/// A snapshot is shared by all connections for this share of the update interval.
const FRESH_SHARE: f64 = 0.5;

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum View {
    /// All runs.
    All,
    /// The run of this name.
    One(String),
}

/// The current parts of a page.
#[derive(Clone)]
pub(super) struct PageParts {
    pub(super) parts: Arc<Vec<Part>>,
    /// Seconds of load that the curves show.
    pub(super) window_s: f64,
    /// Interval until the next update.
    pub(super) pace: Duration,
}

/// The state of all runs below a directory.
pub(super) struct Board {
    dir: Tree,
    callbacks: Callbacks,
    runs: Mutex<BTreeMap<String, Arc<Mutex<RunState>>>>,
    list: Mutex<Option<(Instant, PageParts)>>,
}

/// The last known state of a run.
struct RunState {
    watched: Watched,
    /// When it was last read.
    looked: Option<Instant>,
    /// When its page was last requested.
    viewed: Option<Instant>,
    now: Option<Snapshot>,
    /// The verdicts when it was last judged.
    verdicts: Vec<(&'static str, String)>,
    page: Option<PageParts>,
}

impl Board {
    /// The runs below a directory.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub(super) fn new(dir: &Path, callbacks: Callbacks) -> Result<Self, Problem> {
        let board = Self {
            dir: dir.into(),
            callbacks,
            runs: Mutex::default(),
            list: Mutex::default(),
        };
        board.discover()?;
        Ok(board)
    }

    /// Whether the page exists.
    pub(super) fn has(&self, view: &View) -> bool {
        match view {
            View::All => true,
            View::One(name) => self.run(name).is_some(),
        }
    }

    /// The whole page.
    pub(super) fn page(&self, view: &View) -> String {
        match view {
            View::All => {
                let page = self.parts(view);
                judge::topics::live::document::runs_page(
                    &self.dir.path().display().to_string(),
                    &page.parts,
                    "/events",
                )
            }
            View::One(name) => match self.run(name) {
                Some(run) => {
                    let mut run = lock(&run);
                    let page = run.view();
                    let title = run
                        .now
                        .as_ref()
                        .map_or(name.clone(), judge::topics::live::document::title);
                    judge::topics::live::document::run_page(&title, &page.parts, "../../", "events")
                }
                None => {
                    judge::topics::live::document::run_page(name, &gone(name), "../../", "events")
                }
            },
        }
    }

    /// The current parts of a page.
    pub(super) fn parts(&self, view: &View) -> PageParts {
        match view {
            View::All => self.list(),
            View::One(name) => match self.run(name) {
                Some(run) => lock(&run).view(),
                None => PageParts {
                    parts: Arc::new(gone(name)),
                    window_s: 0.0,
                    pace: PACE,
                },
            },
        }
    }

    /// The report of a run, if it has one that is a regular file and not a link.
    pub(super) fn report(&self, name: &str) -> Option<Vec<u8>> {
        let run = self.run(name)?;
        let dir = lock(&run).watched.dir().clone();
        page(&dir, REPORT)
    }

    /// The index of the night, if the runs belong to one and the index is a regular file.
    pub(super) fn index(&self) -> Option<Vec<u8>> {
        record::live::night(&self.dir).ok()??;
        page(&self.dir, INDEX)
    }

    fn run(&self, name: &str) -> Option<Arc<Mutex<RunState>>> {
        let known = lock(&self.runs).get(name).cloned();
        known.or_else(|| {
            self.discover().ok()?;
            lock(&self.runs).get(name).cloned()
        })
    }

    /// Adds new runs.
    fn discover(&self) -> Result<(), Problem> {
        let found = record::live::directories(&self.dir)?;
        let mut runs = lock(&self.runs);
        for (name, dir) in found {
            let run = || Arc::new(Mutex::new(RunState::new(&dir, self.callbacks)));
            runs.entry(name).or_insert_with(run);
        }
        Ok(())
    }

    fn list(&self) -> PageParts {
        let mut list = lock(&self.list);
        if let Some((at, page)) = &*list
            && at.elapsed() < page.pace.mul_f64(FRESH_SHARE)
        {
            return page.clone();
        }
        let problem = self.discover().err();
        let page = self.list_all(problem.as_deref());
        *list = Some((Instant::now(), page.clone()));
        page
    }

    fn list_all(&self, problem: Option<&str>) -> PageParts {
        let runs: Vec<(String, Arc<Mutex<RunState>>)> = lock(&self.runs)
            .iter()
            .map(|(name, run)| (name.clone(), Arc::clone(run)))
            .collect();
        let began = Instant::now();
        let (mut rows, mut pace) = (Vec::new(), PACE);
        for (name, run) in runs {
            let row = lock(&run).list(began.elapsed() < LIST_JUDGING_TIME, &name);
            if row.now.state == State::Gone {
                lock(&self.runs).remove(&name);
                continue;
            }
            pace = pace.max(Watched::pace(&row.now));
            rows.push(row);
        }
        // Running runs first, then the newest.
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
        PageParts {
            parts: Arc::new(judge::topics::live::document::runs_parts(
                &rows, &night, problem,
            )),
            window_s: 0.0,
            pace,
        }
    }
}

impl RunState {
    fn new(dir: &Tree, callbacks: Callbacks) -> Self {
        Self {
            watched: Watched::new(dir, callbacks),
            looked: None,
            viewed: None,
            now: None,
            verdicts: Vec::new(),
            page: None,
        }
    }

    /// The parts of the run's page.
    fn view(&mut self) -> PageParts {
        let is_first = self.viewed.is_none();
        self.viewed = Some(Instant::now());
        if let (Some(page), Some(at), false) = (&self.page, self.looked, is_first)
            && at.elapsed() < page.pace.mul_f64(FRESH_SHARE)
        {
            return page.clone();
        }
        if is_first {
            self.watched.wake();
        }
        let now = self.refresh(true);
        let has_report = has_page(self.watched.dir(), REPORT);
        let seconds = now.arms.iter().map(|arm| arm.curve.seen_s());
        let page = PageParts {
            parts: Arc::new(judge::topics::live::document::run_parts(&now, has_report)),
            window_s: seconds.fold(0.0, f64::max),
            pace: Watched::pace(&now),
        };
        self.page = Some(page.clone());
        page
    }

    /// The run's row in the list.
    fn list(&mut self, may_judge: bool, name: &str) -> Row {
        if self.viewed.is_some_and(|at| at.elapsed() > FORGET_AFTER) {
            self.viewed = None;
        }
        let is_fresh = |pace: Duration| {
            self.looked
                .is_some_and(|at| at.elapsed() < pace.mul_f64(FRESH_SHARE))
        };
        let now = match &self.now {
            Some(now) if is_fresh(Watched::pace(now)) => now.clone(),
            _ => self.refresh(may_judge),
        };
        if self.viewed.is_none() {
            // The verdicts stay; the other details are dropped to save memory.
            self.watched.rest();
            self.page = None;
            self.now = self.now.take().map(|now| Snapshot {
                judged: None,
                ..now
            });
        }
        Row {
            verdicts: self.verdicts.clone(),
            address: format!("run/{}/", answer::encoded(name)),
            now: Snapshot {
                judged: None,
                ..now
            },
        }
    }

    fn refresh(&mut self, may_judge: bool) -> Snapshot {
        let now = self.watched.refresh(may_judge);
        if now.judged.is_some() {
            self.verdicts = judge::topics::live::document::verdicts_so_far(&now);
        }
        self.looked = Some(Instant::now());
        self.now = Some(now.clone());
        now
    }
}

/// The page of a run that no longer exists.
fn gone(name: &str) -> Vec<Part> {
    judge::topics::live::document::gone_parts(name)
}

fn begun(now: &Snapshot) -> String {
    now.entries
        .first()
        .map_or(String::new(), |entry| entry.at.clone())
}

fn has_page(dir: &Tree, name: &str) -> bool {
    let metadata = dir.metadata(name);
    metadata.is_ok_and(|metadata| metadata.len() <= MAX_REPORT_BYTES)
}

fn page(dir: &Tree, name: &str) -> Option<Vec<u8>> {
    let text = dir.read_to_string_within(name, MAX_REPORT_BYTES).ok()?;
    Some(text.into_bytes())
}

/// Locks a mutex, ignoring a panic of another holder: the next update reads the state again.
fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
