//! Waking at instants, to the microsecond. The runtime's own timers count milliseconds, which would
//! show as send delay.

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

/// Who waits for which instant; each waits for one at a time.
pub(super) struct Timers {
    timer: AsyncFd<OwnedFd>,
    /// By instant and by who waits.
    waits: RefCell<BTreeMap<(u64, u32), Waker>>,
    /// When the timer goes off next.
    armed_ns: Cell<u64>,
}

impl Timers {
    /// Made on the runtime that it serves.
    #[expect(
        unsafe_code,
        reason = "the runtime wants a promise about the descriptor"
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

    /// Wakes everybody in time, for ever.
    pub(super) async fn run(self: Rc<Self>) {
        loop {
            self.wake(now_ns());
            self.arm();
            let Ok(mut guard) = self.timer.readable().await else {
                return;
            };
            // The number of times it went off; that it did is enough.
            let _ = rustix::io::read(self.timer.get_ref(), &mut [0_u8; 8]);
            guard.clear_ready();
        }
    }

    /// Waits for an instant; returns early after `wake_all`.
    pub(super) async fn until(&self, at_ns: u64, who: u32) {
        let mut rung = false;
        poll_fn(|context| {
            if rung || at_ns <= now_ns() {
                self.waits.borrow_mut().remove(&(at_ns, who));
                return Poll::Ready(());
            }
            rung = true;
            self.wait(at_ns, who, context);
            Poll::Pending
        })
        .await;
    }

    /// What comes of a future, if it does before an instant. A thread that is held up beyond that
    /// instant reads what has come meanwhile before it gives up.
    pub(super) async fn within<F: Future>(
        &self,
        at_ns: u64,
        who: u32,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut at_ns = at_ns;
        let mut was_late = false;
        let outcome = poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let now_ns = now_ns();
            if at_ns.saturating_add(STALL_NS) <= now_ns && !was_late {
                was_late = true;
                self.waits.borrow_mut().remove(&(at_ns, who));
                at_ns = now_ns + STALL_NS;
            }
            if at_ns <= now_ns {
                return Poll::Ready(None);
            }
            self.wait(at_ns, who, context);
            Poll::Pending
        })
        .await;
        self.waits.borrow_mut().remove(&(at_ns, who));
        outcome
    }

    /// Wakes all who wait, due or not.
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

    fn wait(&self, at_ns: u64, who: u32, context: &Context<'_>) {
        let waker = context.waker().clone();
        self.waits.borrow_mut().insert((at_ns, who), waker);
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
        // Zero would mean never.
        let wait_ns = at_ns.saturating_sub(now_ns()).max(1);
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let time = Itimerspec {
            it_interval: none,
            it_value: Timespec {
                tv_sec: (wait_ns / 1_000_000_000).cast_signed(),
                tv_nsec: (wait_ns % 1_000_000_000).cast_signed(),
            },
        };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &time)
            .expect("a timer takes every time that is not negative");
    }
}
