//! What happened in each second: counted by the threads, put together and packed away beside them.
//!
//! A thread counts in a bucket of fixed size. When the bucket's second is over it hands the bucket
//! to the reader, which merges those of all threads, and goes on with a spare one. So a thread
//! neither allocates nor waits, and the seconds of a long run are thinned by their age:
//! ```text
//! thread: Recorder --full bucket--> Inbox --+              +--> told as they end
//!         Recorder <--spare bucket- Inbox   +--> Timeline -+
//! thread: Recorder ...                    --+              +--> Thinned --> [Second]
//! ```
//! A bucket that comes after its second was told is told as a part of that second.

use std::sync::mpsc::{self, Receiver, SyncSender};

use record::latency::{Latency, Packed};
use record::load::Second;
use record::thinned::{Point as _, Thinned};

use crate::window::Window;

const SECOND_NS: u64 = 1_000_000_000;

/// Buckets of one thread: one is in use, one is with the reader, one is spare.
const BUCKETS: usize = 3;

/// One second of one thread.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Seconds since the window opened; negative in the warm-up.
    index: i64,
    begins_ns: u64,
    /// Whether they count or not.
    pub(crate) all_ok: u64,
    pub(crate) all_faults: u64,
    pub(crate) ok: u64,
    pub(crate) faults: u64,
    pub(crate) body_bytes: u64,
    pub(crate) latency: Latency,
}

impl Bucket {
    fn new() -> Self {
        Self {
            index: i64::MIN,
            begins_ns: 0,
            all_ok: 0,
            all_faults: 0,
            ok: 0,
            faults: 0,
            body_bytes: 0,
            latency: Latency::coarse(),
        }
    }

    /// When its second begins.
    pub(crate) fn begins_ns(&self) -> u64 {
        self.begins_ns
    }

    fn is_empty(&self) -> bool {
        self.all_ok == 0 && self.all_faults == 0
    }

    fn clear(&mut self) {
        self.all_ok = 0;
        self.all_faults = 0;
        self.ok = 0;
        self.faults = 0;
        self.body_bytes = 0;
        self.latency.clear();
    }
}

/// The seconds of one thread.
pub(crate) struct Recorder {
    open_ns: u64,
    bucket: Box<Bucket>,
    /// When the bucket's second is over.
    ends_ns: u64,
    full: SyncSender<Box<Bucket>>,
    spare: Receiver<Box<Bucket>>,
}

impl Recorder {
    /// The bucket of an instant.
    pub(crate) fn bucket(&mut self, now_ns: u64) -> &mut Bucket {
        self.rotate(now_ns);
        &mut self.bucket
    }

    /// Hands the bucket over if its second has ended.
    pub(crate) fn rotate(&mut self, now_ns: u64) {
        if now_ns < self.ends_ns {
            return;
        }
        let index = second(now_ns, self.open_ns);
        self.ends_ns = self
            .open_ns
            .saturating_add_signed((index + 1) * SECOND_NS.cast_signed());
        if self.bucket.is_empty() {
            self.bucket.index = index;
            self.bucket.begins_ns = self.ends_ns.saturating_sub(SECOND_NS);
        } else if let Ok(spare) = self.spare.try_recv() {
            let full = std::mem::replace(&mut self.bucket, spare);
            self.bucket.index = index;
            self.bucket.begins_ns = self.ends_ns.saturating_sub(SECOND_NS);
            // There is room for all buckets; and a reader that is gone wants none.
            let _ = self.full.try_send(full);
        }
        // Without a spare bucket the reader is seconds behind: what is counted now goes to the
        // bucket's second too.
    }
}

/// The reader's end of a recorder.
struct Inbox {
    full: Receiver<Box<Bucket>>,
    spare: SyncSender<Box<Bucket>>,
}

/// All seconds of a run.
pub(crate) struct Timeline {
    inboxes: Vec<Inbox>,
    /// Successful responses and faults of all buckets, warm-up included.
    pub(crate) ok: u64,
    pub(crate) faults: u64,
    /// The seconds of the window that were told.
    told: Thinned<Second>,
    /// The number of the first second that was not.
    next: u64,
    /// That second and those after it, the last one without its latencies.
    recent: Vec<Second>,
    /// Parts of seconds that were told before.
    late: Vec<Second>,
    /// The last second of which a bucket has come, and its latencies.
    last: i64,
    latency: Latency,
}

/// Recorders for so many threads, for a window that opens at `open_ns`.
pub(crate) fn begin(threads: u32, open_ns: u64) -> (Vec<Recorder>, Timeline) {
    let (recorders, inboxes) = (0..threads).map(|_| pair(open_ns)).unzip();
    let timeline = Timeline {
        inboxes,
        ok: 0,
        faults: 0,
        told: Thinned::default(),
        next: 0,
        recent: Vec::new(),
        late: Vec::new(),
        last: i64::MIN,
        latency: Latency::coarse(),
    };
    (recorders, timeline)
}

/// A recorder that nobody reads.
pub(crate) fn discarded() -> Recorder {
    pair(0).0
}

fn pair(open_ns: u64) -> (Recorder, Inbox) {
    let (full_in, full_out) = mpsc::sync_channel(BUCKETS);
    let (spare_in, spare_out) = mpsc::sync_channel(BUCKETS);
    for _ in 1..BUCKETS {
        spare_in
            .try_send(Box::new(Bucket::new()))
            .expect("there is room for all buckets");
    }
    let recorder = Recorder {
        open_ns,
        bucket: Box::new(Bucket::new()),
        ends_ns: 0,
        full: full_in,
        spare: spare_out,
    };
    let inbox = Inbox {
        full: full_out,
        spare: spare_in,
    };
    (recorder, inbox)
}

impl Timeline {
    /// Takes all buckets that are full.
    pub(crate) fn collect(&mut self) {
        let inboxes = std::mem::take(&mut self.inboxes);
        for inbox in &inboxes {
            while let Ok(mut bucket) = inbox.full.try_recv() {
                self.add(&bucket);
                bucket.clear();
                // A thread that has ended needs it no more.
                let _ = inbox.spare.try_send(bucket);
            }
        }
        self.inboxes = inboxes;
    }

    /// The latencies of a second, if it is the last one of which a bucket has come.
    pub(crate) fn latency(&self, now_ns: u64, open_ns: u64) -> Packed {
        if self.last == second(now_ns, open_ns) {
            self.latency.pack()
        } else {
            Packed::default()
        }
    }

    /// The seconds of the window that have ended since this was last asked, each once, and parts of earlier ones that came late.
    pub(crate) fn ended(&mut self, now_ns: u64, window: Window) -> Vec<Second> {
        let ended = second(now_ns, window.open_ns);
        // What came after the window was only shown.
        let length = window.length_ns().div_ceil(SECOND_NS);
        self.tell_until(u64::try_from(ended).unwrap_or(0).min(length))
    }

    /// The seconds of a window of that length, with the buckets that the threads were still using.
    pub(crate) fn end<'d>(
        mut self,
        recorders: impl Iterator<Item = &'d Recorder>,
        window_ns: u64,
    ) -> Vec<Second> {
        self.collect();
        recorders.for_each(|recorder| self.add(&recorder.bucket));
        let length = window_ns.div_ceil(SECOND_NS);
        self.tell_until(length);
        // The user may have closed the window before its time.
        self.told.forget_from(length.cast_signed() * 1000);
        self.told.into_vec()
    }

    fn tell_until(&mut self, end: u64) -> Vec<Second> {
        if u64::try_from(self.last).is_ok_and(|last| last < end) {
            self.pack();
        }
        let mut ended = std::mem::take(&mut self.late);
        if self.next < end {
            let count = (end - self.next) as usize;
            // Seconds in which nothing happened are some too.
            self.reach(self.recent.len().max(count));
            ended.extend(self.recent.drain(..count));
            self.next = end;
        }
        for one in &ended {
            self.told.push(one.clone());
        }
        ended
    }

    fn add(&mut self, bucket: &Bucket) {
        self.ok += bucket.all_ok;
        self.faults += bucket.all_faults;
        if self.last < bucket.index {
            self.pack();
            self.latency.clear();
            self.last = bucket.index;
        }
        let Ok(index) = u64::try_from(bucket.index) else {
            // Of the warm-up nothing but what is shown.
            if self.last == bucket.index {
                self.latency.merge(&bucket.latency);
            }
            return;
        };
        let mut second = Second {
            at_ms: index * 1000,
            ok: bucket.ok,
            faults: bucket.faults,
            body_bytes: bucket.body_bytes,
            ..Second::default()
        };
        if self.last == bucket.index && self.next <= index {
            self.latency.merge(&bucket.latency);
        } else {
            second.latency = bucket.latency.pack();
        }
        match index.checked_sub(self.next) {
            Some(place) => {
                self.reach(place as usize + 1);
                self.recent[place as usize].add(&second);
            }
            None if second.is_idle() && second.latency.is_empty() => {}
            None => self.late.push(second),
        }
    }

    /// Packs the latencies of the last second away, if it was not told.
    fn pack(&mut self) {
        let place = u64::try_from(self.last).ok();
        let place = place.and_then(|last| last.checked_sub(self.next));
        let second = place.and_then(|place| self.recent.get_mut(place as usize));
        if let Some(second) = second {
            second.latency.merge(&self.latency.pack());
        }
    }

    /// Makes place for so many seconds that were not told.
    fn reach(&mut self, count: usize) {
        for place in self.recent.len()..count {
            self.recent.push(Second {
                at_ms: (self.next + place as u64) * 1000,
                ..Second::default()
            });
        }
    }
}

/// The second of an instant, counted from the opening of the window.
fn second(now_ns: u64, open_ns: u64) -> i64 {
    (now_ns.cast_signed() - open_ns.cast_signed()).div_euclid(SECOND_NS.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_NS: u64 = 10 * SECOND_NS;

    fn wrote(recorder: &mut Recorder, at_s: f64, latency_ns: u64) {
        let bucket = recorder.bucket((at_s * 1e9) as u64);
        bucket.all_ok += 1;
        bucket.ok += 1;
        bucket.latency.record(latency_ns);
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
        let (mut recorders, timeline) = begin(2, OPEN_NS);
        for at_s in [9.5, 10.1, 10.9, 12.0] {
            wrote(&mut recorders[0], at_s, 100);
        }
        for at_s in [10.5, 12.2] {
            wrote(&mut recorders[1], at_s, 200);
        }
        let seconds = timeline.end(recorders.iter(), 2_500_000_000);
        assert_eq!(shown(&seconds), [(0, 3, 3), (1000, 0, 0), (2000, 2, 2)]);
        assert_eq!(seconds[0].latency.unpack().max_ns(), 200);
    }

    #[test]
    fn an_answer_after_the_window_is_in_no_second() {
        let (mut recorders, timeline) = begin(1, OPEN_NS);
        wrote(&mut recorders[0], 10.5, 100);
        wrote(&mut recorders[0], 15.0, 5_000_000);
        let seconds = timeline.end(recorders.iter(), SECOND_NS);
        assert_eq!(shown(&seconds), [(0, 1, 1)]);
    }

    #[test]
    fn the_last_second_is_told_while_the_load_runs() {
        let (mut recorders, mut timeline) = begin(2, OPEN_NS);
        let mut told = |at_s: f64, recorders: &mut Vec<Recorder>| {
            let at_ns = (at_s * 1e9) as u64;
            for recorder in recorders {
                recorder.rotate(at_ns + 1);
            }
            timeline.collect();
            timeline.latency(at_ns - 1, OPEN_NS).unpack().count()
        };
        wrote(&mut recorders[0], 9.2, 100);
        wrote(&mut recorders[1], 9.3, 100);
        assert_eq!(told(10.0, &mut recorders), 2);
        wrote(&mut recorders[1], 10.3, 100);
        assert_eq!(told(11.0, &mut recorders), 1);
        assert_eq!(told(12.0, &mut recorders), 0);
    }

    #[test]
    fn a_late_page_is_added_to_its_second() {
        let (mut recorders, mut timeline) = begin(2, OPEN_NS);
        wrote(&mut recorders[0], 10.5, 100);
        wrote(&mut recorders[0], 11.5, 100);
        wrote(&mut recorders[0], 12.5, 100);
        timeline.collect();
        wrote(&mut recorders[1], 10.6, 700);
        let seconds = timeline.end(recorders.iter(), 3 * SECOND_NS);
        assert_eq!(shown(&seconds), [(0, 2, 2), (1000, 1, 1), (2000, 1, 1)]);
        assert_eq!(seconds[0].latency.unpack().max_ns(), 703);
    }

    const WINDOW: Window = Window {
        open_ns: OPEN_NS,
        close_ns: 20 * SECOND_NS,
    };

    #[test]
    fn each_second_is_told_once_as_it_ends_also_an_idle_one() {
        let (mut recorders, mut timeline) = begin(2, OPEN_NS);
        let mut told = |at_s: f64, recorders: &mut Vec<Recorder>| {
            let at_ns = (at_s * 1e9) as u64;
            for own in recorders.iter_mut() {
                own.rotate(at_ns);
            }
            timeline.collect();
            shown(&timeline.ended(at_ns, WINDOW))
        };
        wrote(&mut recorders[0], 9.5, 100);
        assert_eq!(told(10.0, &mut recorders), []);
        wrote(&mut recorders[0], 10.5, 100);
        wrote(&mut recorders[1], 10.7, 100);
        assert_eq!(told(11.0, &mut recorders), [(0, 2, 2)]);
        assert_eq!(told(11.5, &mut recorders), []);
        wrote(&mut recorders[1], 13.2, 100);
        let idle = [(1000, 0, 0), (2000, 0, 0)];
        assert_eq!(told(13.5, &mut recorders), idle);
        assert_eq!(told(14.0, &mut recorders), [(3000, 1, 1)]);
        // The window ends with its tenth second.
        assert_eq!(told(60.0, &mut recorders).len(), 6);
        assert_eq!(told(99.0, &mut recorders), []);
        let seconds = timeline.end(recorders.iter(), 10 * SECOND_NS);
        assert_eq!(seconds.len(), 10);
        assert_eq!(seconds.iter().map(|one| one.ok).sum::<u64>(), 3);
    }

    #[test]
    fn a_part_that_comes_late_is_told_and_added() {
        let (mut recorders, mut timeline) = begin(2, OPEN_NS);
        wrote(&mut recorders[0], 10.5, 100);
        wrote(&mut recorders[0], 11.5, 100);
        recorders[0].rotate(12 * SECOND_NS);
        timeline.collect();
        let told = timeline.ended(12 * SECOND_NS, WINDOW);
        assert_eq!(shown(&told), [(0, 1, 1), (1000, 1, 1)]);
        // This thread hung; and the last second told has a part more too.
        wrote(&mut recorders[1], 10.6, 700);
        wrote(&mut recorders[1], 11.6, 900);
        recorders[1].rotate(13 * SECOND_NS);
        timeline.collect();
        let told = timeline.ended(13 * SECOND_NS, WINDOW);
        assert_eq!(shown(&told), [(0, 1, 1), (1000, 1, 1), (2000, 0, 0)]);
        let seconds = timeline.end(recorders.iter(), 3 * SECOND_NS);
        assert_eq!(shown(&seconds), [(0, 2, 2), (1000, 2, 2), (2000, 0, 0)]);
        // To two digits.
        assert_eq!(seconds[1].latency.unpack().max_ns(), 903);
    }

    #[test]
    fn a_week_is_some_thousand_seconds() {
        let (mut recorders, mut timeline) = begin(1, OPEN_NS);
        let week = 7 * 86_400;
        let window = Window {
            open_ns: OPEN_NS,
            close_ns: OPEN_NS + week * SECOND_NS,
        };
        let mut told = 0;
        for second in 0..week {
            if second % 100 == 0 {
                wrote(&mut recorders[0], 10.5 + second as f64, 100);
            }
            let now_ns = OPEN_NS + (second + 1) * SECOND_NS;
            recorders[0].rotate(now_ns);
            timeline.collect();
            told += timeline.ended(now_ns, window).len() as u64;
        }
        assert_eq!(told, week);
        let seconds = timeline.end(recorders.iter(), week * SECOND_NS);
        assert!(seconds.len() < 6200, "{}", seconds.len());
        let sums = seconds.iter().fold((0, 0, 0), |sum, one| {
            let latency = one.latency.unpack();
            (
                sum.0 + one.ok,
                sum.1 + latency.count(),
                sum.2 + one.length_ms(),
            )
        });
        assert_eq!(sums, (week / 100, week / 100, week * 1000));
    }

    #[test]
    fn an_onlooker_who_sleeps_loses_nothing() {
        let (mut recorders, timeline) = begin(1, OPEN_NS);
        for second in 0..10 {
            wrote(&mut recorders[0], 10.5 + f64::from(second), 100);
        }
        let seconds = timeline.end(recorders.iter(), 10 * SECOND_NS);
        let counts = seconds
            .iter()
            .map(|second| (second.ok, second.latency.unpack().count()));
        let sum = counts.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        assert_eq!(sum, (10, 10));
    }
}
