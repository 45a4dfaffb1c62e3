//! What happened in each second: counted by the threads, put together and packed away beside them.
//!
//! A thread writes on a page of fixed size. When the page's second is over it hands the page to the onlooker, who
//! merges those of all threads, and goes on with a spare one. So a thread neither allocates nor waits, and a second of a
//! long run takes some hundred bytes:
//! ```text
//! thread: Diary --full page--> Shelf --+
//!         Diary <--spare page- Shelf   +--> Timeline --> [Second]
//! thread: Diary ...                  --+
//! ```

use std::sync::mpsc::{self, Receiver, SyncSender};

use record::latency::{Latency, Packed};
use record::load::Second;

const SECOND_NS: u64 = 1_000_000_000;

/// Pages of one thread: one is written on, one is at the onlooker's, one is spare.
const PAGES: usize = 3;

/// One second of one thread.
#[derive(Debug)]
pub(crate) struct Page {
    /// Seconds since the window opened; negative in the warm-up.
    index: i64,
    /// Whether they count or not.
    pub(crate) all_ok: u64,
    pub(crate) all_faults: u64,
    pub(crate) ok: u64,
    pub(crate) faults: u64,
    pub(crate) body_bytes: u64,
    pub(crate) latency: Latency,
}

impl Page {
    fn new() -> Self {
        Self {
            index: i64::MIN,
            all_ok: 0,
            all_faults: 0,
            ok: 0,
            faults: 0,
            body_bytes: 0,
            latency: Latency::coarse(),
        }
    }

    fn is_empty(&self) -> bool {
        self.all_ok == 0 && self.all_faults == 0
    }

    fn clear(&mut self) {
        (self.all_ok, self.all_faults) = (0, 0);
        (self.ok, self.faults, self.body_bytes) = (0, 0, 0);
        self.latency.clear();
    }
}

/// The seconds of one thread.
pub(crate) struct Diary {
    open_ns: u64,
    page: Box<Page>,
    /// When the page's second is over.
    ends_ns: u64,
    full: SyncSender<Box<Page>>,
    spare: Receiver<Box<Page>>,
}

impl Diary {
    /// The page to write on at an instant.
    pub(crate) fn page(&mut self, now_ns: u64) -> &mut Page {
        self.turn(now_ns);
        &mut self.page
    }

    /// Hands the page over if its second has ended.
    pub(crate) fn turn(&mut self, now_ns: u64) {
        if now_ns < self.ends_ns {
            return;
        }
        let index = second(now_ns, self.open_ns);
        self.ends_ns = self
            .open_ns
            .saturating_add_signed((index + 1) * SECOND_NS.cast_signed());
        if self.page.is_empty() {
            self.page.index = index;
        } else if let Ok(spare) = self.spare.try_recv() {
            let full = std::mem::replace(&mut self.page, spare);
            self.page.index = index;
            // There is room for all pages; and an onlooker who is gone wants none.
            let _ = self.full.try_send(full);
        }
        // Without a spare page the onlooker is seconds behind: what is written now belongs to the page's second too.
    }
}

/// The onlooker's end of a diary.
struct Shelf {
    full: Receiver<Box<Page>>,
    spare: SyncSender<Box<Page>>,
}

/// All seconds of a run.
pub(crate) struct Timeline {
    shelves: Vec<Shelf>,
    /// Right answers and faults of all pages, warm-up included.
    pub(crate) ok: u64,
    pub(crate) faults: u64,
    /// Those of the window, and after them those in which late answers came.
    seconds: Vec<Second>,
    /// The last second of which a page has come, and its latencies.
    last: i64,
    latency: Latency,
}

/// Diaries for so many threads, for a window that opens at `open_ns`.
pub(crate) fn begin(threads: u32, open_ns: u64) -> (Vec<Diary>, Timeline) {
    let (diaries, shelves) = (0..threads).map(|_| pair(open_ns)).unzip();
    let timeline = Timeline {
        shelves,
        ok: 0,
        faults: 0,
        seconds: Vec::new(),
        last: i64::MIN,
        latency: Latency::coarse(),
    };
    (diaries, timeline)
}

/// A diary that nobody looks into.
pub(crate) fn unread() -> Diary {
    pair(0).0
}

fn pair(open_ns: u64) -> (Diary, Shelf) {
    let (full_in, full_out) = mpsc::sync_channel(PAGES);
    let (spare_in, spare_out) = mpsc::sync_channel(PAGES);
    for _ in 1..PAGES {
        spare_in
            .try_send(Box::new(Page::new()))
            .expect("there is room for all pages");
    }
    let diary = Diary {
        open_ns,
        page: Box::new(Page::new()),
        ends_ns: 0,
        full: full_in,
        spare: spare_out,
    };
    let shelf = Shelf {
        full: full_out,
        spare: spare_in,
    };
    (diary, shelf)
}

impl Timeline {
    /// Takes all pages that are full.
    pub(crate) fn gather(&mut self) {
        let shelves = std::mem::take(&mut self.shelves);
        for shelf in &shelves {
            while let Ok(mut page) = shelf.full.try_recv() {
                self.add(&page);
                page.clear();
                // A thread that has ended needs it no more.
                let _ = shelf.spare.try_send(page);
            }
        }
        self.shelves = shelves;
    }

    /// The latencies of a second, if it is the last one of which a page has come.
    pub(crate) fn latency(&self, now_ns: u64, open_ns: u64) -> Packed {
        if self.last == second(now_ns, open_ns) {
            self.latency.pack()
        } else {
            Packed::default()
        }
    }

    /// The seconds of a window of that length, with the pages that the threads were still writing on.
    pub(crate) fn end<'d>(
        mut self,
        diaries: impl Iterator<Item = &'d Diary>,
        window_ns: u64,
    ) -> Vec<Second> {
        self.gather();
        diaries.for_each(|diary| self.add(&diary.page));
        self.pack();
        let length = window_ns.div_ceil(SECOND_NS) as usize;
        self.seconds
            .resize(length.max(self.seconds.len()), Second::default());
        let late = self.seconds.split_off(length);
        if let Some(last) = self.seconds.last_mut() {
            for second in &late {
                last.latency.merge(&second.latency);
            }
        }
        for (index, second) in (0..).zip(&mut self.seconds) {
            second.at_ms = index * 1000;
        }
        self.seconds
    }

    fn add(&mut self, page: &Page) {
        self.ok += page.all_ok;
        self.faults += page.all_faults;
        if self.last < page.index {
            self.pack();
            self.latency.clear();
            self.last = page.index;
        }
        let is_last = self.last == page.index;
        if is_last {
            self.latency.merge(&page.latency);
        }
        let Some(second) = at(&mut self.seconds, page.index) else {
            return;
        };
        second.ok += page.ok;
        second.faults += page.faults;
        second.body_bytes += page.body_bytes;
        if !is_last {
            second.latency.merge(&page.latency.pack());
        }
    }

    /// Packs the last second away.
    fn pack(&mut self) {
        if let Some(second) = at(&mut self.seconds, self.last) {
            second.latency.merge(&self.latency.pack());
        }
    }
}

/// A second of the window or after it; none of the warm-up.
fn at(seconds: &mut Vec<Second>, index: i64) -> Option<&mut Second> {
    let index = usize::try_from(index).ok()?;
    if seconds.len() <= index {
        seconds.resize(index + 1, Second::default());
    }
    seconds.get_mut(index)
}

/// The second of an instant, counted from the opening of the window.
fn second(now_ns: u64, open_ns: u64) -> i64 {
    (now_ns.cast_signed() - open_ns.cast_signed()).div_euclid(SECOND_NS.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_NS: u64 = 10 * SECOND_NS;

    fn wrote(diary: &mut Diary, at_s: f64, latency_ns: u64) {
        let page = diary.page((at_s * 1e9) as u64);
        page.all_ok += 1;
        page.ok += 1;
        page.latency.record(latency_ns);
    }

    fn shown(seconds: &[Second]) -> Vec<(u64, u64, u64)> {
        let show = |second: &Second| {
            let latency = second.latency.unpack();
            (second.at_ms, second.ok, latency.count())
        };
        seconds.iter().map(show).collect()
    }

    #[test]
    fn seconds_of_all_threads_are_one() {
        let (mut diaries, timeline) = begin(2, OPEN_NS);
        for at_s in [9.5, 10.1, 10.9, 12.0] {
            wrote(&mut diaries[0], at_s, 100);
        }
        for at_s in [10.5, 12.2] {
            wrote(&mut diaries[1], at_s, 200);
        }
        let seconds = timeline.end(diaries.iter(), 2_500_000_000);
        assert_eq!(shown(&seconds), [(0, 3, 3), (1000, 0, 0), (2000, 2, 2)]);
        assert_eq!(seconds[0].latency.unpack().max_ns(), 200);
    }

    #[test]
    fn an_answer_after_the_window_is_in_its_last_second() {
        let (mut diaries, timeline) = begin(1, OPEN_NS);
        wrote(&mut diaries[0], 10.5, 100);
        wrote(&mut diaries[0], 15.0, 5_000_000);
        let seconds = timeline.end(diaries.iter(), SECOND_NS);
        assert_eq!((seconds.len(), seconds[0].latency.unpack().count()), (1, 2));
    }

    #[test]
    fn the_last_second_is_told_while_the_load_runs() {
        let (mut diaries, mut timeline) = begin(2, OPEN_NS);
        let mut told = |at_s: f64, diaries: &mut Vec<Diary>| {
            let at_ns = (at_s * 1e9) as u64;
            for diary in diaries {
                diary.turn(at_ns + 1);
            }
            timeline.gather();
            timeline.latency(at_ns - 1, OPEN_NS).unpack().count()
        };
        wrote(&mut diaries[0], 9.2, 100);
        wrote(&mut diaries[1], 9.3, 100);
        assert_eq!(told(10.0, &mut diaries), 2);
        wrote(&mut diaries[1], 10.3, 100);
        assert_eq!(told(11.0, &mut diaries), 1);
        assert_eq!(told(12.0, &mut diaries), 0);
    }

    #[test]
    fn a_late_page_is_added_to_its_second() {
        let (mut diaries, mut timeline) = begin(2, OPEN_NS);
        wrote(&mut diaries[0], 10.5, 100);
        wrote(&mut diaries[0], 11.5, 100);
        wrote(&mut diaries[0], 12.5, 100);
        timeline.gather();
        wrote(&mut diaries[1], 10.6, 700);
        let seconds = timeline.end(diaries.iter(), 3 * SECOND_NS);
        assert_eq!(shown(&seconds), [(0, 2, 2), (1000, 1, 1), (2000, 1, 1)]);
        assert_eq!(seconds[0].latency.unpack().max_ns(), 703);
    }

    #[test]
    fn an_onlooker_who_sleeps_loses_nothing() {
        let (mut diaries, timeline) = begin(1, OPEN_NS);
        for second in 0..10 {
            wrote(&mut diaries[0], 10.5 + f64::from(second), 100);
        }
        let seconds = timeline.end(diaries.iter(), 10 * SECOND_NS);
        let counts = seconds
            .iter()
            .map(|second| (second.ok, second.latency.unpack().count()));
        let sum = counts.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        assert_eq!(sum, (10, 10));
    }
}
