//! Decides when the sampler reads: exactly at the window's two ends, and on every whole second between them. So the
//! samples of the window cover the window and nothing else.

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

/// A thread on which the sampler reads.
#[derive(Debug)]
pub struct Watch {
    /// Returns `None` if the load never began.
    thread: JoinHandle<Option<(Watched, Option<Recorder>)>>,
    readings: Receiver<SamplerReading>,
    edges: Sender<(Edge, Sender<()>)>,
}

/// What the sampler has read.
#[derive(Debug)]
pub(crate) enum SamplerReading {
    Sample(Box<Sample>),
    /// Counters of what may grow.
    Counters(Box<Counters>),
}

/// An end of the window, as remote clients report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Opens,
    Closes,
}

/// Who decides when the window opens and closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    /// This system's clock, which its clients also use.
    ByClock,
    /// Remote clients, by `Watch::edge`.
    ByClients,
}

/// The results of a watch.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// All samples, including the warm-up; older ones of a long load are joined.
    pub samples: Vec<Sample>,
    /// What the system used in the window.
    pub meter: Meter,
    /// Clients and network in the window, if they were watched.
    pub path: Option<PathSeen>,
    /// The CPUs' counters over the window, if they were counted.
    pub hardware_counters: Option<HardwareCounters>,
}

/// A watch whose load has yet to begin. Its thread exists already: a thread that starts while tasks keep every CPU busy
/// may have to wait for their end, as under 2.4's scheduler.
#[derive(Debug)]
pub(crate) struct Ready {
    watch: Watch,
    begins: Sender<Instant>,
}

impl Ready {
    /// Prepares to watch a load; the recorder records the window.
    pub(crate) fn to_watch(
        mut sampler: Sampler,
        timing: Timing,
        window: Window,
        recorder: Option<Recorder>,
    ) -> Self {
        let (begins, begun) = channel();
        let (edges, reported) = channel();
        let (sender, readings) = channel();
        let marks = Marks {
            recorder,
            counting: sampler.counting.take(),
        };
        let builder = thread::Builder::new().name("sampler".into());
        let thread = builder
            .spawn(move || {
                // Else a server that keeps every CPU busy would delay readings by milliseconds.
                priority::raise();
                let pace = Pace {
                    began: begun.recv().ok()?,
                    window,
                    reported,
                    early: None,
                };
                Some(watch(sampler, marks, timing, pace, &sender))
            })
            .expect("one more thread can be created");
        let watch = Watch {
            thread,
            readings,
            edges,
        };
        Self { watch, begins }
    }

    /// The load begins now.
    pub(crate) fn begin(self) -> Watch {
        // Fails only if the thread has panicked, which shows at the end.
        let _ = self.begins.send(Instant::now());
        self.watch
    }
}

impl Watch {
    /// Readings since the last call.
    pub(crate) fn fresh(&self) -> impl Iterator<Item = SamplerReading> {
        self.readings.try_iter()
    }

    /// Reports an end of the window. Returns when everything is read there.
    pub(crate) fn edge(&self, edge: Edge) {
        let (read, is_read) = channel();
        if self.edges.send((edge, read)).is_ok() {
            // The sender is dropped when everything is read, or when the watch has ended.
            let _ = is_read.recv();
        }
    }

    /// Ends the watch, and closes a window that is still open. Returns the results, the last readings, and the recorder.
    pub(crate) fn end(self) -> (Watched, Vec<SamplerReading>, Option<Recorder>) {
        drop(self.edges);
        match self.thread.join() {
            Ok(ended) => {
                let (watched, recorder) = ended.expect("only a watch that began is ended");
                (watched, self.readings.try_iter().collect(), recorder)
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Marks the window for the profiler in the emulator, the recorder, and the hardware counters.
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

/// The result of waiting for an instant.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// The instant has come.
    Now,
    /// The instant is skipped: a later end of the window was reported before it.
    Never,
    /// The load is over.
    Over,
}

/// The instants of a watch.
struct Pace {
    /// When the load began. Once remote clients have opened the window: that instant minus the warm-up.
    began: Instant,
    window: Window,
    reported: Receiver<(Edge, Sender<()>)>,
    /// An end of the window that was reported before its instant by this system's clock.
    early: Option<(Edge, Sender<()>)>,
}

impl Pace {
    /// Waits for an instant. With an end of the window comes a sender, to be dropped when everything is read.
    fn wait(&mut self, instant: Duration, edge: Option<Edge>) -> (Due, Option<Sender<()>>) {
        let is_reported = self.window == Window::ByClients;
        match (edge, self.early.take()) {
            (Some(edge), Some((early, read))) if edge == early => return (Due::Now, Some(read)),
            (_, Some(early)) => {
                self.early = Some(early);
                return (Due::Never, None);
            }
            (Some(edge), None) if is_reported => return self.wait_for_edge(edge),
            (_, None) => {}
        }
        // If the instant has passed because the load left no time, read late rather than not at all.
        let wait = (self.began + instant).saturating_duration_since(Instant::now());
        match self.reported.recv_timeout(wait) {
            Ok(early) => {
                self.early = Some(early);
                (Due::Never, None)
            }
            Err(RecvTimeoutError::Timeout) => (Due::Now, None),
            Err(RecvTimeoutError::Disconnected) => (Due::Over, None),
        }
    }

    fn wait_for_edge(&mut self, wanted: Edge) -> (Due, Option<Sender<()>>) {
        match self.reported.recv() {
            Ok((edge, read)) if edge == wanted => (Due::Now, Some(read)),
            // The window closes before it opens, or the load has ended.
            Ok(_) | Err(_) => (Due::Over, None),
        }
    }
}

fn watch(
    mut sampler: Sampler,
    mut marks: Marks,
    timing: Timing,
    mut pace: Pace,
    readings: &Sender<SamplerReading>,
) -> (Watched, Option<Recorder>) {
    let planned = pace.began + timing.warmup;
    let mut thinned = Thinned::default();
    if timing.warmup.is_zero() {
        marks.begin();
    }
    let mut last = sampler.read();
    let mut first = last.clone();
    let read_path = |sampler: &Sampler| sampler.path.as_ref().map(PathWatch::read);
    let mut path_open = read_path(&sampler);
    let mut counted: Option<Instant> = None;
    // Without a warm-up, the first reading opens the window.
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
        // Before the reading, which is in the window also for the meter.
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
        // Times count from the reading that opened the window, so no sample of the window begins before it. A late
        // reading of the warm-up must not count as one of the window's.
        let zero = opened.unwrap_or(planned.max(reading.at));
        let sample = sampler.between(&last, &reading, zero);
        let _ = readings.send(SamplerReading::Sample(Box::new(sample.clone())));
        thinned.push(sample);
        let is_due = is_counted(timing, instant)
            && counted.is_none_or(|last| reading.at - last > COUNTERS_APART);
        if let Some(opened) = opened.filter(|_| is_due) {
            counted = Some(reading.at);
            if let Some(counters) = sampler.counters(&reading, opened) {
                let _ = readings.send(SamplerReading::Counters(Box::new(counters)));
            }
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
        samples: thinned.into_vec(),
        meter,
        path,
        hardware_counters: marks.counting.map(Counting::finish),
    };
    (watched, marks.recorder)
}

/// Least time between readings of counters: one that follows a late one sooner is skipped.
const COUNTERS_APART: Duration = Duration::from_millis(4500);

/// Readings of counters to aim for in a window.
const COUNTED: u32 = 240;

/// Whether counters of what may grow are read at this instant: about once a minute of a long window, more often in a
/// shorter one.
fn is_counted(Timing { warmup, window }: Timing, instant: Duration) -> bool {
    if window < Duration::from_millis(SHORTEST_MS) {
        return false;
    }
    let every_s = (window / COUNTED).as_secs().clamp(5, 60);
    let since = instant.saturating_sub(warmup);
    warmup < instant && since.subsec_nanos() == 0 && since.as_secs().is_multiple_of(every_s)
}

/// When to read, counted from the start of the load, and whether the window opens there: at whole seconds before and
/// after the opening, at the opening and at the close.
fn instants(timing: Timing) -> impl Iterator<Item = (Duration, bool)> {
    let Timing { warmup, window } = timing;
    let end = warmup + window;
    // Whole seconds count from the opening, so the fraction of the warm-up comes first.
    let fraction = Duration::from_nanos(warmup.subsec_nanos().into());
    let steps = (0..).map(move |second| fraction + SECOND * second);
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

    /// The number of readings of counters in a window, and the longest time between them.
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

    /// A source of instructions that the test counts.
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
        let counting = Counting::new(Ok(Box::new(executed.clone())));
        let sampler = Sampler::open(&Netns::current(), &[], cpus::allowed().unwrap()).unwrap();
        let hour = Duration::from_secs(3600);
        let timing = Timing {
            warmup: hour,
            window: hour,
        };
        let sampler = sampler.with_hardware_counters(Some(counting));
        let watch = Ready::to_watch(sampler, timing, Window::ByClients, None).begin();
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

    /// Waits for the instants of a window when these edges are reported before the first instant.
    fn pace(reported: &[Edge]) -> Vec<Due> {
        let (edges, receiver) = channel();
        for edge in reported {
            edges.send((*edge, channel().0)).unwrap();
        }
        drop(edges);
        let mut pace = Pace {
            began: Instant::now(),
            window: Window::ByClients,
            reported: receiver,
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
    fn remote_clients_decide_when_the_window_opens_and_closes() {
        use Due::{Never, Now, Over};
        // No instant of this system's clock comes within the hour.
        assert_eq!(pace(&[Edge::Opens, Edge::Closes]), [Never, Now, Never, Now]);
        assert_eq!(pace(&[Edge::Opens])[..3], [Never, Now, Over]);
        assert_eq!(pace(&[])[0], Over);
    }
}
