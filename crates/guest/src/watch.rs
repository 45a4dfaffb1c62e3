//! The watch: when the sampler reads. Readings fall on the window's two ends exactly, and between them
//! on every whole second, so that the samples of the window cover the window and nothing else.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use record::counters::{Counters, SHORTEST_MS};
use record::evidence::Sample;
use record::hardware_counters::HardwareCounters;
use record::thinned::Thinned;
use workload::Timing;
use workload::figures::Meter;

use crate::hardware_counters::Counting;
use crate::mark;
use crate::path::{PathSeen, PathWatch};
use crate::priority;
use crate::sampled::Recorder;
use crate::sampler::Sampler;

const SECOND: Duration = Duration::from_secs(1);

/// A sampler at work on its own thread.
#[derive(Debug)]
pub struct Watch {
    /// Yields nothing where the load never began.
    thread: JoinHandle<Option<(Watched, Option<Recorder>)>>,
    taken: Receiver<Taken>,
    edges: Sender<(Edge, Sender<()>)>,
}

/// What the sampler has read.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The system over some time.
    Sample(Box<Sample>),
    /// What may grow.
    Counters(Box<Counters>),
}

/// An end of the window, told by clients that are elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Opens,
    Closes,
}

/// Who knows when the window opens and closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    /// This system's clock, by which its clients go as well.
    ByClock,
    /// Clients elsewhere, who tell (`Watch::edge`).
    Told,
}

/// What a watch yields.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// All samples, warm-up included; the older ones of a long load are joined.
    pub samples: Vec<Sample>,
    /// What the system used in the window.
    pub meter: Meter,
    /// Clients and network in the window, where they were looked at.
    pub path: Option<PathSeen>,
    /// What the CPUs' counters say of the window, where they were asked.
    pub hardware_counters: Option<HardwareCounters>,
}

/// A watch whose load has yet to begin. Its thread is there already: one that is made among tasks that keep every CPU busy may
/// get none until they are done, as under 2.4's scheduler.
#[derive(Debug)]
pub(crate) struct Ready {
    watch: Watch,
    begins: Sender<Instant>,
}

impl Ready {
    /// Gets ready to watch a load; the recorder records the window.
    pub(crate) fn to_watch(
        mut sampler: Sampler,
        timing: Timing,
        window: Window,
        recorder: Option<Recorder>,
    ) -> Self {
        let (begins, begun) = channel();
        let (edges, told) = channel();
        let (take, taken) = channel();
        let marks = Marks {
            recorder,
            counting: sampler.counting.take(),
        };
        let builder = thread::Builder::new().name("sampler".into());
        let thread = builder
            .spawn(move || {
                // A server that takes every CPU would otherwise keep the watch from reading on time; who may not raise its
                // priority reads a few milliseconds late.
                priority::raise();
                let pace = Pace {
                    began: begun.recv().ok()?,
                    window,
                    told,
                    early: None,
                };
                Some(watch((sampler, marks), timing, pace, &take))
            })
            .expect("a thread more can be had");
        let watch = Watch {
            thread,
            taken,
            edges,
        };
        Self { watch, begins }
    }

    /// The load begins now.
    pub(crate) fn begin(self) -> Watch {
        // Nobody waits for it only where the thread has panicked, which shows at the end.
        let _ = self.begins.send(Instant::now());
        self.watch
    }
}

impl Watch {
    /// What was read since this was last asked.
    pub(crate) fn fresh(&self) -> impl Iterator<Item = Taken> {
        self.taken.try_iter()
    }

    /// Tells an end of the window; returns when all is read that is to be read there.
    pub(crate) fn edge(&self, edge: Edge) {
        let (read, is_read) = channel();
        if self.edges.send((edge, read)).is_ok() {
            // It is dropped when it has been read, or when the watch has ended.
            let _ = is_read.recv();
        }
    }

    /// Ends the watch; a window that is still open is closed here. Also what is fresh then, and the recorder.
    pub(crate) fn end(self) -> (Watched, Vec<Taken>, Option<Recorder>) {
        drop(self.edges);
        match self.thread.join() {
            Ok(ended) => {
                let (watched, recorder) = ended.expect("a watch is of a load that began");
                (watched, self.taken.try_iter().collect(), recorder)
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Who is told where the window begins and ends: a profiler in the emulator, the one in here, and what counts events.
struct Marks {
    recorder: Option<Recorder>,
    counting: Option<Counting>,
}

impl Marks {
    fn begin(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.begins();
        }
        if let Some(counting) = &mut self.counting {
            counting.begins();
        }
        mark::window_begins();
    }

    fn end(&mut self) {
        mark::window_ends();
        if let Some(counting) = &mut self.counting {
            counting.ends();
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.ends();
        }
    }
}

/// What a watch waits for.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// The instant has come.
    Now,
    /// It will not be read: the window's end that comes after it was told before it.
    Never,
    /// The load is over.
    Over,
}

/// The instants of a watch, as they come.
struct Pace {
    /// When the load began; later, when it would have begun for the window to open when it did.
    began: Instant,
    window: Window,
    told: Receiver<(Edge, Sender<()>)>,
    /// An end of the window that was told before its instant by this system's clock.
    early: Option<(Edge, Sender<()>)>,
}

impl Pace {
    /// Waits for an instant; what is returned with an end of the window is to be dropped when all is read.
    fn wait(&mut self, instant: Duration, edge: Option<Edge>) -> (Due, Option<Sender<()>>) {
        let is_told = self.window == Window::Told;
        match (edge, self.early.take()) {
            (Some(own), Some((early, read))) if own == early => return (Due::Now, Some(read)),
            (_, Some(early)) => {
                self.early = Some(early);
                return (Due::Never, None);
            }
            (Some(own), None) if is_told => return self.wait_for_edge(own),
            (_, None) => {}
        }
        // An instant that is already past is one that the load before it left no time for: read late
        // rather than not at all.
        let wait = (self.began + instant).saturating_duration_since(Instant::now());
        match self.told.recv_timeout(wait) {
            Ok(early) => {
                self.early = Some(early);
                (Due::Never, None)
            }
            Err(RecvTimeoutError::Timeout) => (Due::Now, None),
            Err(RecvTimeoutError::Disconnected) => (Due::Over, None),
        }
    }

    fn wait_for_edge(&mut self, wanted: Edge) -> (Due, Option<Sender<()>>) {
        match self.told.recv() {
            Ok((edge, read)) if edge == wanted => (Due::Now, Some(read)),
            // A window that closes before it opens is none.
            Ok(_) | Err(_) => (Due::Over, None),
        }
    }
}

fn watch(
    (mut sampler, mut marks): (Sampler, Marks),
    timing: Timing,
    mut pace: Pace,
    take: &Sender<Taken>,
) -> (Watched, Option<Recorder>) {
    let planned = pace.began + timing.warmup;
    let mut taken = Thinned::default();
    if timing.warmup.is_zero() {
        marks.begin();
    }
    let mut last = sampler.read();
    let mut first = last.clone();
    let read_path = |sampler: &Sampler| sampler.path.as_ref().map(PathWatch::read);
    let mut path_open = read_path(&sampler);
    let mut counted: Option<Instant> = None;
    // Without a warm-up the window opens with the first reading, and no later one opens it.
    let mut opened = timing.warmup.is_zero().then_some(first.at);
    for (instant, opens) in instants(timing) {
        let edge = match instant {
            _ if opens => Some(Edge::Opens),
            end if end == timing.warmup + timing.window => Some(Edge::Closes),
            _ => None,
        };
        let (due, read) = pace.wait(instant, edge);
        if due == Due::Never {
            continue;
        }
        let over = due == Due::Over;
        // Before the reading, which then lies in the window as it does in the meter's account.
        if opens {
            marks.begin();
        }
        if over || edge == Some(Edge::Closes) {
            marks.end();
        }
        let reading = sampler.read();
        if opens {
            opened = Some(reading.at);
            first = reading.clone();
            if read.is_some() {
                let began = reading.at.checked_sub(timing.warmup);
                pace.began = began.unwrap_or(pace.began);
            }
            path_open = read_path(&sampler);
        }
        // The window's samples count from the reading that opened it, so none of them begins before it;
        // a late reading of the warm-up must not pass for one of them either.
        let zero = opened.unwrap_or(planned.max(reading.at));
        let sample = sampler.between(&last, &reading, zero);
        let _ = take.send(Taken::Sample(Box::new(sample.clone())));
        taken.push(sample);
        let is_due = is_counted(timing, instant)
            && counted.is_none_or(|last| reading.at - last > COUNTERS_APART);
        if let Some(opened) = opened.filter(|_| is_due) {
            counted = Some(reading.at);
            let counters = sampler.counters(&reading, opened).map(Box::new);
            let _ = counters.map(|counters| take.send(Taken::Counters(counters)));
        }
        last = reading;
        drop(read);
        if over {
            break;
        }
    }
    let path_close = read_path(&sampler);
    let meter = sampler.meter(&first, &last);
    let path = sampler.path.as_ref().zip(path_open.zip(path_close));
    let path = path.map(|(path, (open, close))| path.between(&open, &close));
    let watched = Watched {
        samples: taken.into_vec(),
        meter,
        path,
        hardware_counters: marks.counting.map(Counting::finish),
    };
    (watched, marks.recorder)
}

/// Readings of counters that come late are left out rather than taken one upon the other.
const COUNTERS_APART: Duration = Duration::from_millis(4500);

/// So many readings of counters are enough for what can be said of them.
const COUNTED: u32 = 240;

/// Whether what may grow is read at this instant: about once a minute of a long window, more often in a shorter one.
fn is_counted(Timing { warmup, window }: Timing, instant: Duration) -> bool {
    if window < Duration::from_millis(SHORTEST_MS) {
        return false;
    }
    let every_s = (window / COUNTED).as_secs().clamp(5, 60);
    let since = instant.saturating_sub(warmup);
    warmup < instant && since.subsec_nanos() == 0 && since.as_secs().is_multiple_of(every_s)
}

/// When to read, counted from the start of the load, and whether the window opens there: whole seconds
/// before and after the opening, the opening, the close.
fn instants(timing: Timing) -> impl Iterator<Item = (Duration, bool)> {
    let Timing { warmup, window } = timing;
    let end = warmup + window;
    // Seconds are counted from the opening in both directions; the odd part of the warm-up comes first.
    let odd = Duration::from_nanos(warmup.subsec_nanos().into());
    let steps = (0..).map(move |second| odd + SECOND * second);
    steps
        .skip_while(Duration::is_zero)
        .map(move |instant| (instant, instant == warmup))
        .take_while(move |(instant, _)| *instant < end)
        .chain([(end, false)])
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::cpus;
    use crate::hardware_counters::{CounterSource, GroupReading, Scope};
    use crate::netns::Netns;
    use expect_test::{Expect, expect};

    fn check(warmup_ms: u64, window_ms: u64, expected: &Expect) {
        let timing = Timing {
            warmup: Duration::from_millis(warmup_ms),
            window: Duration::from_millis(window_ms),
        };
        let instants = instants(timing).map(|(at, opens)| {
            let mark = if opens { " opens" } else { "" };
            format!("{}{mark}", at.as_millis())
        });
        expected.assert_eq(&instants.collect::<Vec<_>>().join(", "));
    }

    #[test]
    fn both_ends_of_the_window_are_read() {
        check(2000, 3000, &expect!["1000, 2000 opens, 3000, 4000, 5000"]);
        check(1500, 2000, &expect!["500, 1500 opens, 2500, 3500"]);
        check(300, 1250, &expect!["300 opens, 1300, 1550"]);
    }

    /// How many readings of counters a window has, and the time between them.
    fn counted(window_s: u64) -> (usize, Option<Duration>) {
        let timing = Timing {
            warmup: Duration::from_millis(1500),
            window: Duration::from_secs(window_s),
        };
        let at: Vec<Duration> = instants(timing)
            .map(|(at, _)| at)
            .filter(|at| is_counted(timing, *at))
            .collect();
        (
            at.len(),
            at.windows(2).map(|two| two[1].saturating_sub(two[0])).max(),
        )
    }

    #[test]
    fn counters_are_read_often_enough_and_no_more_than_once_a_minute() {
        let seconds = |s| Some(Duration::from_secs(s));
        assert_eq!(counted(239), (0, None));
        assert_eq!(counted(240), (48, seconds(5)));
        assert_eq!(counted(7200), (240, seconds(30)));
        assert_eq!(counted(86_400), (1440, seconds(60)));
    }

    #[test]
    fn a_window_without_warm_up_opens_with_the_first_reading() {
        check(0, 2000, &expect!["1000, 2000"]);
    }

    /// Counts instructions of all tasks as the test says.
    #[derive(Debug, Clone, Default)]
    struct Executed(Arc<AtomicU64>);

    impl CounterSource for Executed {
        fn read(&mut self) -> io::Result<Vec<GroupReading>> {
            let executed = self.0.load(Ordering::SeqCst);
            Ok(vec![GroupReading {
                scope: Scope::System,
                enabled_ns: executed,
                running_ns: executed,
                counts: [Some(executed); 4],
            }])
        }
    }

    #[test]
    fn events_are_counted_from_one_mark_of_the_window_to_the_other() {
        let executed = Executed::default();
        let counting = Counting::by(Ok(Box::new(executed.clone())));
        let sampler = Sampler::open(&Netns::own(), &[], cpus::own().unwrap()).unwrap();
        let hour = Duration::from_secs(3600);
        let timing = Timing {
            warmup: hour,
            window: hour,
        };
        let sampler = sampler.counted_by(Some(counting));
        let watch = Ready::to_watch(sampler, timing, Window::Told, None).begin();
        let execute = |count| executed.0.fetch_add(count, Ordering::SeqCst);
        execute(5);
        watch.edge(Edge::Opens);
        execute(7);
        watch.edge(Edge::Closes);
        execute(11);
        let (watched, _, _) = watch.end();
        let Some(HardwareCounters::Counted(window)) = watched.hardware_counters else {
            panic!("{:?}", watched.hardware_counters)
        };
        assert_eq!(window.system.instructions as u64, 7);
    }

    /// What becomes of the instants of a window of two seconds when these are told before its first second is over.
    fn pace(told: &[Edge]) -> Vec<Due> {
        let (edges, receiver) = channel();
        for edge in told {
            edges.send((*edge, channel().0)).unwrap();
        }
        drop(edges);
        let mut pace = Pace {
            began: Instant::now(),
            window: Window::Told,
            told: receiver,
            early: None,
        };
        let hour = Duration::from_secs(3600);
        [
            (hour, None),
            (hour, Some(Edge::Opens)),
            (hour, None),
            (2 * hour, Some(Edge::Closes)),
        ]
        .map(|(instant, edge)| pace.wait(instant, edge).0)
        .into()
    }

    #[test]
    fn clients_elsewhere_say_when_the_window_opens_and_closes() {
        use Due::{Never, Now, Over};
        // No instant of this system's clock comes within the hour, and none is waited for.
        assert_eq!(pace(&[Edge::Opens, Edge::Closes]), [Never, Now, Never, Now]);
        assert_eq!(pace(&[Edge::Opens])[..3], [Never, Now, Over]);
        assert_eq!(pace(&[])[0], Over);
    }
}
