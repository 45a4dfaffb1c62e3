//! Timers with microsecond precision. The runtime's timers have milliseconds, which would show as
//! send delay.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use anyhow::{Context as _, Result};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::clock::now_ns;
use crate::stall::STALL_NS;

/// Timers of all tasks of a thread. Each task, identified by a number, waits for one instant at a
/// time.
pub(super) struct Timers {
    timer: AsyncFd<OwnedFd>,
    /// By instant and task.
    waits: RefCell<BTreeMap<(u64, u32), Waker>>,
    /// When the timer expires next.
    armed_ns: Cell<u64>,
}

impl Timers {
    /// Must be called within the runtime.
    #[expect(
        unsafe_code,
        reason = "the runtime requires a guarantee about the descriptor"
    )]
    pub(super) fn new() -> Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).context("no timer left")?;
        // SAFETY: an `OwnedFd` names one open descriptor, the same until it is dropped.
        let timer = unsafe { AsyncFd::register(timer) };
        Ok(Self {
            timer: timer.context("cannot wait for a timer")?,
            waits: RefCell::default(),
            armed_ns: Cell::new(u64::MAX),
        })
    }

    /// Wakes tasks when their time has come. Returns only if the timer fails.
    pub(super) async fn run(self: Rc<Self>) {
        loop {
            self.wake(now_ns());
            self.arm();
            let Ok(mut guard) = self.timer.readable().await else {
                return;
            };
            // The number of expirations does not matter.
            let _ = rustix::io::read(self.timer.get_ref(), &mut [0_u8; 8]);
            guard.clear_ready();
        }
    }

    /// Waits for an instant; returns early after `wake_all`.
    pub(super) async fn until(&self, at_ns: u64, task: u32) {
        let mut has_waited = false;
        poll_fn(|context| {
            if has_waited || at_ns <= now_ns() {
                self.waits.borrow_mut().remove(&(at_ns, task));
                return Poll::Ready(());
            }
            has_waited = true;
            self.wait(at_ns, task, context);
            Poll::Pending
        })
        .await;
    }

    /// Output of a future, or `None` if it is not ready before `at_ns`. If the thread stalled
    /// beyond that, the future first gets the time to read what has come meanwhile.
    pub(super) async fn within<F: Future>(
        &self,
        mut at_ns: u64,
        task: u32,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut was_late = false;
        let outcome = poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let now_ns = now_ns();
            if at_ns.saturating_add(STALL_NS) <= now_ns && !was_late {
                was_late = true;
                self.waits.borrow_mut().remove(&(at_ns, task));
                at_ns = now_ns + STALL_NS;
            }
            if at_ns <= now_ns {
                return Poll::Ready(None);
            }
            self.wait(at_ns, task, context);
            Poll::Pending
        })
        .await;
        self.waits.borrow_mut().remove(&(at_ns, task));
        outcome
    }

    /// Wakes all tasks, due or not.
    pub(super) fn wake_all(&self) {
        self.wake(u64::MAX);
    }

    fn wake(&self, now_ns: u64) {
        let mut waits = self.waits.borrow_mut();
        while let Some(first) = waits.first_entry()
            && first.key().0 <= now_ns
        {
            first.remove().wake();
        }
    }

    fn wait(&self, at_ns: u64, task: u32, context: &Context<'_>) {
        let waker = context.waker().clone();
        self.waits.borrow_mut().insert((at_ns, task), waker);
        if at_ns < self.armed_ns.get() {
            self.arm();
        }
    }

    /// Sets the timer to the earliest instant.
    fn arm(&self) {
        let first = self.waits.borrow().keys().next().copied();
        let at_ns = first.map_or(u64::MAX, |(at_ns, _)| at_ns);
        self.armed_ns.set(at_ns);
        if at_ns == u64::MAX {
            return;
        }
        // Zero would disarm the timer.
        let wait_ns = at_ns.saturating_sub(now_ns()).max(1);
        let time = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: (wait_ns / 1_000_000_000).cast_signed(),
                tv_nsec: (wait_ns % 1_000_000_000).cast_signed(),
            },
        };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &time)
            .expect("a timer accepts every non-negative time");
    }
}
