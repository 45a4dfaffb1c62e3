//! Counts per second: recorded by the client threads, merged by a reader.
//!
//! A thread counts in a bucket of fixed size. At the end of a second it hands the bucket to the
//! reader, which merges those of all threads, and continues with a spare one. So a thread neither
//! allocates nor waits. The reader thins out old seconds of long runs:
//! ```text
//! thread: Recorder --full bucket--> Inbox --+              +--> reported as they end
//!         Recorder <--spare bucket- Inbox   +--> Timeline -+
//! thread: Recorder ...                    --+              +--> Thinned --> [Second]
//! ```
//! A bucket that comes after its second was reported is reported as another part of that second.

use std::sync::mpsc::{self, Receiver, SyncSender};

use base::latency::{Latency, Packed};
use record::load::Second;
use record::thinned::{Point as _, Thinned};

use crate::window::Window;

const SECOND_NS: u64 = 1_000_000_000;

/// Buckets of one thread: one in use, one with the reader, one spare.
const BUCKETS: usize = 3;

/// One second of one thread.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Seconds since the window opened; negative in the warm-up.
    index: i64,
    pub(crate) begins_ns: u64,
    pub(crate) counts: Counts,
    pub(crate) latency: Latency,
}

/// Counts of a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Including responses outside the window.
    pub(crate) all_ok: u64,
    pub(crate) all_faults: u64,
    /// Within the window.
    pub(crate) ok: u64,
    pub(crate) faults: u64,
    pub(crate) body_bytes: u64,
}

impl Bucket {
    fn new() -> Self {
        Self {
            index: i64::MIN,
            begins_ns: 0,
            counts: Counts::default(),
            latency: Latency::coarse(),
        }
    }
}

/// The seconds of one thread.
pub(crate) struct Recorder {
    open_ns: u64,
    bucket: Box<Bucket>,
    /// End of the bucket's second.
    ends_ns: u64,
    full: SyncSender<Box<Bucket>>,
    spare: Receiver<Box<Bucket>>,
}

impl Recorder {
    /// The bucket to count in at `now_ns`.
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
        if self.bucket.counts == Counts::default() {
            self.bucket.index = index;
            self.bucket.begins_ns = self.ends_ns.saturating_sub(SECOND_NS);
        } else if let Ok(spare) = self.spare.try_recv() {
            let full = std::mem::replace(&mut self.bucket, spare);
            self.bucket.index = index;
            self.bucket.begins_ns = self.ends_ns.saturating_sub(SECOND_NS);
            // There is room for all buckets. It fails only if the reader has gone.
            let _ = self.full.try_send(full);
        }
        // Without a spare bucket the reader is seconds behind: keep counting in the same bucket.
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
    /// The reported seconds of the window.
    reported: Thinned<Second>,
    /// Number of the first second not yet reported.
    next: u64,
    /// The seconds from `next` on; the last one without its latencies.
    recent: Vec<Second>,
    /// Late parts of seconds reported before.
    late: Vec<Second>,
    /// The last second of which a bucket has come, and its latencies.
    last: i64,
    latency: Latency,
}

/// Recorders for this many threads, for a window that opens at `open_ns`.
pub(crate) fn begin(threads: u32, open_ns: u64) -> (Vec<Recorder>, Timeline) {
    let (recorders, inboxes) = (0..threads).map(|_| pair(open_ns)).unzip();
    let timeline = Timeline {
        inboxes,
        ok: 0,
        faults: 0,
        reported: Thinned::default(),
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
    /// Merges all full buckets.
    pub(crate) fn collect(&mut self) {
        let inboxes = std::mem::take(&mut self.inboxes);
        for inbox in &inboxes {
            while let Ok(mut bucket) = inbox.full.try_recv() {
                self.add(&bucket);
                bucket.counts = Counts::default();
                bucket.latency.clear();
                // Fails only if the thread has ended.
                let _ = inbox.spare.try_send(bucket);
            }
        }
        self.inboxes = inboxes;
    }

    /// The latencies of the second of `now_ns`; empty unless it is the last one with a bucket.
    pub(crate) fn latency(&self, now_ns: u64, open_ns: u64) -> Packed {
        if self.last == second(now_ns, open_ns) {
            self.latency.pack()
        } else {
            Packed::default()
        }
    }

    /// Takes the seconds of the window that have ended since the last call, and late parts of
    /// earlier ones.
    pub(crate) fn ended(&mut self, now_ns: u64, window: Window) -> Vec<Second> {
        let ended = second(now_ns, window.open_ns);
        let length = window.length_ns().div_ceil(SECOND_NS);
        self.report_until(u64::try_from(ended).unwrap_or(0).min(length))
    }

    /// All seconds of the window. `recorders` hold the buckets that threads were still using.
    pub(crate) fn end<'d>(
        mut self,
        recorders: impl Iterator<Item = &'d Recorder>,
        window_ns: u64,
    ) -> Vec<Second> {
        self.collect();
        recorders.for_each(|recorder| self.add(&recorder.bucket));
        let length = window_ns.div_ceil(SECOND_NS);
        self.report_until(length);
        // The user may have closed the window early.
        self.reported.forget_from(length.cast_signed() * 1000);
        self.reported.into_vec()
    }

    fn report_until(&mut self, end: u64) -> Vec<Second> {
        if u64::try_from(self.last).is_ok_and(|last| last < end) {
            self.pack();
        }
        let mut ended = std::mem::take(&mut self.late);
        if self.next < end {
            let count = (end - self.next) as usize;
            // Idle seconds are reported too.
            self.grow_recent(count);
            ended.extend(self.recent.drain(..count));
            self.next = end;
        }
        for second in &ended {
            self.reported.push(second.clone());
        }
        ended
    }

    fn add(&mut self, bucket: &Bucket) {
        self.ok += bucket.counts.all_ok;
        self.faults += bucket.counts.all_faults;
        if self.last < bucket.index {
            self.pack();
            self.latency.clear();
            self.last = bucket.index;
        }
        let Ok(index) = u64::try_from(bucket.index) else {
            // The warm-up appears only in live ticks.
            if self.last == bucket.index {
                self.latency.merge(&bucket.latency);
            }
            return;
        };
        let mut second = Second {
            at_ms: index * 1000,
            ok: bucket.counts.ok,
            faults: bucket.counts.faults,
            body_bytes: bucket.counts.body_bytes,
            ..Second::default()
        };
        if self.last == bucket.index && self.next <= index {
            self.latency.merge(&bucket.latency);
        } else {
            second.latency = bucket.latency.pack();
        }
        match index.checked_sub(self.next) {
            Some(place) => {
                self.grow_recent(place as usize + 1);
                self.recent[place as usize].add(&second);
            }
            None if second.is_idle() && second.latency.is_empty() => {}
            None => self.late.push(second),
        }
    }

    /// Adds the latencies of the last second to `recent`, unless it was reported already.
    fn pack(&mut self) {
        let place = u64::try_from(self.last).ok();
        let place = place.and_then(|last| last.checked_sub(self.next));
        let second = place.and_then(|place| self.recent.get_mut(place as usize));
        if let Some(second) = second {
            second.latency.merge(&self.latency.pack());
        }
    }

    /// Extends `recent` to at least `count` seconds.
    fn grow_recent(&mut self, count: usize) {
        for place in self.recent.len()..count {
            self.recent.push(Second {
                at_ms: (self.next + place as u64) * 1000,
                ..Second::default()
            });
        }
    }
}

/// The second in which `now_ns` lies, counted from the opening of the window.
fn second(now_ns: u64, open_ns: u64) -> i64 {
    (now_ns.cast_signed() - open_ns.cast_signed()).div_euclid(SECOND_NS.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_NS: u64 = 10 * SECOND_NS;

    fn record(recorder: &mut Recorder, at_s: f64, latency_ns: u64) {
        let bucket = recorder.bucket((at_s * 1e9) as u64);
        bucket.counts.all_ok += 1;
        bucket.counts.ok += 1;
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
            record(&mut recorders[0], at_s, 100);
        }
        for at_s in [10.5, 12.2] {
            record(&mut recorders[1], at_s, 200);
        }
        let seconds = timeline.end(recorders.iter(), 2_500_000_000);
        assert_eq!(shown(&seconds), [(0, 3, 3), (1000, 0, 0), (2000, 2, 2)]);
        assert_eq!(seconds[0].latency.unpack().max_ns(), 200);
    }

    #[test]
    fn a_response_after_the_window_is_in_no_second() {
        let (mut recorders, timeline) = begin(1, OPEN_NS);
        record(&mut recorders[0], 10.5, 100);
        record(&mut recorders[0], 15.0, 5_000_000);
        let seconds = timeline.end(recorders.iter(), SECOND_NS);
        assert_eq!(shown(&seconds), [(0, 1, 1)]);
    }

    #[test]
    fn latencies_of_the_last_second_are_available_during_the_load() {
        let (mut recorders, mut timeline) = begin(2, OPEN_NS);
        let mut report = |at_s: f64, recorders: &mut Vec<Recorder>| {
            let at_ns = (at_s * 1e9) as u64;
            for recorder in recorders {
                recorder.rotate(at_ns + 1);
            }
            timeline.collect();
            timeline.latency(at_ns - 1, OPEN_NS).unpack().count()
        };
        record(&mut recorders[0], 9.2, 100);
        record(&mut recorders[1], 9.3, 100);
        assert_eq!(report(10.0, &mut recorders), 2);
        record(&mut recorders[1], 10.3, 100);
        assert_eq!(report(11.0, &mut recorders), 1);
        assert_eq!(report(12.0, &mut recorders), 0);
    }

    #[test]
    fn a_late_bucket_is_added_to_its_second() {
        let (mut recorders, mut timeline) = begin(2, OPEN_NS);
        record(&mut recorders[0], 10.5, 100);
        record(&mut recorders[0], 11.5, 100);
        record(&mut recorders[0], 12.5, 100);
        timeline.collect();
        record(&mut recorders[1], 10.6, 700);
        let seconds = timeline.end(recorders.iter(), 3 * SECOND_NS);
        assert_eq!(shown(&seconds), [(0, 2, 2), (1000, 1, 1), (2000, 1, 1)]);
        assert_eq!(seconds[0].latency.unpack().max_ns(), 703);
    }

    const WINDOW: Window = Window {
        open_ns: OPEN_NS,
        close_ns: 20 * SECOND_NS,
    };

    #[test]
    fn each_second_is_reported_once_as_it_ends_even_an_idle_one() {
        let (mut recorders, mut timeline) = begin(2, OPEN_NS);
        let mut report = |at_s: f64, recorders: &mut Vec<Recorder>| {
            let at_ns = (at_s * 1e9) as u64;
            for recorder in recorders.iter_mut() {
                recorder.rotate(at_ns);
            }
            timeline.collect();
            shown(&timeline.ended(at_ns, WINDOW))
        };
        record(&mut recorders[0], 9.5, 100);
        assert_eq!(report(10.0, &mut recorders), []);
        record(&mut recorders[0], 10.5, 100);
        record(&mut recorders[1], 10.7, 100);
        assert_eq!(report(11.0, &mut recorders), [(0, 2, 2)]);
        assert_eq!(report(11.5, &mut recorders), []);
        record(&mut recorders[1], 13.2, 100);
        let idle = [(1000, 0, 0), (2000, 0, 0)];
        assert_eq!(report(13.5, &mut recorders), idle);
        assert_eq!(report(14.0, &mut recorders), [(3000, 1, 1)]);
        // The window ends with its tenth second.
        assert_eq!(report(60.0, &mut recorders).len(), 6);
        assert_eq!(report(99.0, &mut recorders), []);
        let seconds = timeline.end(recorders.iter(), 10 * SECOND_NS);
        assert_eq!(seconds.len(), 10);
        assert_eq!(seconds.iter().map(|second| second.ok).sum::<u64>(), 3);
    }

    #[test]
    fn a_late_part_is_reported_and_added() {
        let (mut recorders, mut timeline) = begin(2, OPEN_NS);
        record(&mut recorders[0], 10.5, 100);
        record(&mut recorders[0], 11.5, 100);
        recorders[0].rotate(12 * SECOND_NS);
        timeline.collect();
        let reported = timeline.ended(12 * SECOND_NS, WINDOW);
        assert_eq!(shown(&reported), [(0, 1, 1), (1000, 1, 1)]);
        // The second thread hung: both reported seconds get another part.
        record(&mut recorders[1], 10.6, 700);
        record(&mut recorders[1], 11.6, 900);
        recorders[1].rotate(13 * SECOND_NS);
        timeline.collect();
        let reported = timeline.ended(13 * SECOND_NS, WINDOW);
        assert_eq!(shown(&reported), [(0, 1, 1), (1000, 1, 1), (2000, 0, 0)]);
        let seconds = timeline.end(recorders.iter(), 3 * SECOND_NS);
        assert_eq!(shown(&seconds), [(0, 2, 2), (1000, 2, 2), (2000, 0, 0)]);
        // Rounded to two digits.
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
        let mut reported = 0;
        for second in 0..week {
            if second % 100 == 0 {
                record(&mut recorders[0], 10.5 + second as f64, 100);
            }
            let now_ns = OPEN_NS + (second + 1) * SECOND_NS;
            recorders[0].rotate(now_ns);
            timeline.collect();
            reported += timeline.ended(now_ns, window).len() as u64;
        }
        assert_eq!(reported, week);
        let seconds = timeline.end(recorders.iter(), week * SECOND_NS);
        assert!(seconds.len() < 6200, "{}", seconds.len());
        let sums = seconds.iter().fold((0, 0, 0), |sum, second| {
            let latency = second.latency.unpack();
            (
                sum.0 + second.ok,
                sum.1 + latency.count(),
                sum.2 + second.length_ms(),
            )
        });
        assert_eq!(sums, (week / 100, week / 100, week * 1000));
    }

    #[test]
    fn a_reader_that_never_collects_loses_nothing() {
        let (mut recorders, timeline) = begin(1, OPEN_NS);
        for second in 0..10 {
            record(&mut recorders[0], 10.5 + f64::from(second), 100);
        }
        let seconds = timeline.end(recorders.iter(), 10 * SECOND_NS);
        let counts = seconds
            .iter()
            .map(|second| (second.ok, second.latency.unpack().count()));
        let sum = counts.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        assert_eq!(sum, (10, 10));
    }
}
