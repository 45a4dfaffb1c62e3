//! Waits until the box is in its installed OS, before an arm begins and before a run ends.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use base::input::units::show_duration;

use super::session::{Session, Trouble, trouble};
use super::{SshBox, pstore, start};
use crate::guest::MachineGone;
use crate::program;
use crate::remote;
use crate::task::Task;

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A box that stays this long in the boot that it should have left, while nothing shuts it down, has never left.
const STAY_LIMIT: Duration = Duration::from_secs(60);

/// Longest time that a power command may take.
const POWER_LIMIT: Duration = Duration::from_secs(120);

/// A box that has left its installed OS for an arm.
#[derive(Debug, Clone)]
pub(super) struct Away {
    /// Of the installed OS that it left.
    pub(super) boot_id: String,
    /// The trial's directory.
    pub(super) dir: PathBuf,
    pub(super) since: Instant,
}

/// The id of the box's present boot.
pub(super) fn boot_id(session: &Session, task: Task<'_>) -> Result<String> {
    let output = session.run("cat /proc/sys/kernel/random/boot_id", task)?;
    Ok(output.trim().into())
}

/// A box's answer about its present boot.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BootState {
    boot_id: String,
    /// What shuts it down, if anything does.
    leaving: Option<String>,
}

impl BootState {
    fn parse(text: &str) -> Self {
        let mut lines = text.lines().map(str::trim);
        Self {
            boot_id: lines.next().unwrap_or_default().into(),
            leaving: lines.find(|line| !line.is_empty()).map(String::from),
        }
    }
}

/// What to do next while waiting for a box.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// It is in its installed OS.
    Home,
    AskAgain,
    /// It does not answer, and there is time left: check its power.
    AskPower,
    /// Its time is over: cycle its power.
    Power,
    /// The time after the power cycle is over too.
    GiveUp,
}

/// The wait for a box; the caller has the clock.
struct Wait<'a> {
    away: Option<&'a Away>,
    limit: Duration,
    until: Instant,
    /// Whether its power may still be cycled.
    has_power: bool,
}

impl Wait<'_> {
    /// The next step; `state` is `None` if the box did not answer.
    fn next(&self, state: Option<&BootState>, now: Instant) -> Step {
        // A box that answers and is not shutting down is in its installed OS, or soon counts as such: no power cycle.
        if let Some(state) = state.filter(|state| state.leaving.is_none()) {
            return if self.is_home(state, now) {
                Step::Home
            } else {
                Step::AskAgain
            };
        }
        match (now >= self.until, self.has_power) {
            (true, true) => Step::Power,
            (true, false) => Step::GiveUp,
            (false, true) if state.is_none() => Step::AskPower,
            (false, _) => Step::AskAgain,
        }
    }

    /// Whether the box is in another boot than the one that it left, or has never left that one.
    fn is_home(&self, state: &BootState, now: Instant) -> bool {
        let left = self.away.filter(|away| away.boot_id == state.boot_id);
        left.is_none_or(|away| now.saturating_duration_since(away.since) > STAY_LIMIT)
    }

    fn begin_again(&mut self, now: Instant) {
        self.has_power = false;
        self.until = now + self.limit;
    }
}

impl SshBox {
    /// Waits until the box is in its installed OS; after `home_timeout`, cycles its power.
    ///
    /// # Errors
    /// A `MachineGone` that says what to do if the box does not return; another error if the wait was interrupted.
    pub(super) fn return_to_installed_os(&self, task: Task<'_>) -> Result<()> {
        let away = self.away.lock().expect("nobody panics with it").clone();
        let mut cycled = String::new();
        let limit = self.plan.home_timeout;
        let mut wait = Wait {
            away: away.as_ref(),
            limit,
            until: Instant::now() + limit,
            has_power: !self.plan.power.cycle.is_empty(),
        };
        loop {
            let answer = self.session.run(start::WHERE_SCRIPT, task);
            task.go_on()?;
            // Waiting does not help against these.
            if let Err(why) = &answer
                && matches!(trouble(&why.to_string()), Trouble::HostKey | Trouble::Login)
            {
                return Err(self.give_up(why.to_string()));
            }
            let answer = answer.map(|text| BootState::parse(&text));
            let is_due = match wait.next(answer.as_ref().ok(), Instant::now()) {
                Step::Home => break,
                Step::AskAgain => false,
                Step::AskPower => self.is_off(task),
                Step::Power => true,
                Step::GiveUp => {
                    let why = why_not(answer);
                    return Err(self.give_up(self.not_returned(&cycled, &why, task)));
                }
            };
            if is_due {
                cycled = self.switch_on(task);
                wait.begin_again(Instant::now());
            }
            thread::sleep(POLL_INTERVAL);
        }
        if let Some(away) = away {
            pstore::take(&self.session, &away.dir, task);
            // The files may be gone already.
            let _ = self.session.run(&start::tidy_script(self.plan.boot), task);
            *self.away.lock().expect("nobody panics with it") = None;
        }
        Ok(())
    }

    /// Whether the power status is off, so that waiting is useless.
    fn is_off(&self, task: Task<'_>) -> bool {
        let status = &self.plan.power.status;
        let is_off = |output: String| says_off(&output);
        !status.is_empty() && self.power(status, task).is_ok_and(is_off)
    }

    /// Cycles the box's power, or turns it on if it is off. Returns the result for a message.
    fn switch_on(&self, task: Task<'_>) -> String {
        let power = &self.plan.power;
        let (name, command) = if !power.on.is_empty() && self.is_off(task) {
            ("power.on", &power.on)
        } else {
            ("power.cycle", &power.cycle)
        };
        match self.power(command, task) {
            Ok(_) => format!("after {name} too"),
            Err(why) => format!("{name} failed: {why:#}"),
        }
    }

    /// Ends the run, without another wait for the box.
    fn give_up(&self, message: String) -> anyhow::Error {
        *self.away.lock().expect("nobody panics with it") = None;
        anyhow::Error::new(MachineGone(message))
    }

    /// The message for a box that did not return.
    fn not_returned(&self, cycled: &str, why: &str, task: Task<'_>) -> String {
        let status = match self.plan.power.status.as_slice() {
            [] => String::new(),
            command => {
                let output = self.power(command, task);
                let output = output.unwrap_or_else(|why| format!("{why:#}"));
                format!("; power.status: {}", output.trim())
            }
        };
        let cycled = match cycled {
            "" => "it has no power.cycle in the plan".to_string(),
            words => words.into(),
        };
        format!(
            "the box did not come home within {}: {} ({cycled}{status}; look at its console, bring it to its own operating system, \
             then run the same command again to go on): {why}",
            show_duration(self.plan.home_timeout),
            self.plan.host
        )
    }

    fn power(&self, command: &[String], task: Task<'_>) -> Result<String> {
        let [program, words @ ..] = command else {
            return Err(anyhow!("no command"));
        };
        let mut command = Command::new(remote::place_of(program, &self.base));
        command.args(words);
        if !self.base.as_os_str().is_empty() {
            command.current_dir(&self.base);
        }
        program::run_within(POWER_LIMIT, &mut command, task)
    }
}

/// Why the box does not count as returned yet.
fn why_not(answer: Result<BootState>) -> String {
    match answer.map(|state| state.leaving) {
        Ok(Some(leaving)) => format!("it has not gone down yet: {leaving}"),
        Ok(None) => "it has not left yet".into(),
        Err(why) => format!("{why:#}"),
    }
}

/// Recognises `Chassis Power is off`, `"PowerState":"Off"`, `off`.
fn says_off(status: &str) -> bool {
    let words = status.split(|c: char| !c.is_ascii_alphabetic());
    let mut words = words.filter(|word| !word.is_empty());
    match status.split_once("\"PowerState\"") {
        Some((_, rest)) => rest.trim_start_matches([':', ' ', '"']).starts_with("Off"),
        None => words.any(|word| word.eq_ignore_ascii_case("off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);

    /// Simulates a wait with a poll each second. Returns the steps, with the seconds since the box should have left.
    fn simulate(has_power: bool, answer: impl Fn(u64) -> Option<&'static str>) -> Vec<(u64, Step)> {
        let begun = Instant::now();
        let away = Away {
            boot_id: "old".into(),
            dir: PathBuf::new(),
            since: begun,
        };
        let mut wait = Wait {
            away: Some(&away),
            limit: LIMIT,
            until: begun + LIMIT,
            has_power,
        };
        let mut steps = Vec::new();
        for second in 0..2000 {
            let now = begun + Duration::from_secs(second);
            let state = answer(second).map(BootState::parse);
            let step = wait.next(state.as_ref(), now);
            match step {
                Step::AskAgain | Step::AskPower => {}
                Step::Power => {
                    wait.begin_again(now);
                    steps.push((second, step));
                }
                Step::Home | Step::GiveUp => {
                    steps.push((second, step));
                    break;
                }
            }
        }
        steps
    }

    #[test]
    fn a_box_that_takes_long_to_go_down_is_not_home_before_it_has_gone() {
        let slow = |second| match second {
            0..200 => Some("old\nsystemd stops its services\n"),
            200..260 => None,
            _ => Some("new\n"),
        };
        assert_eq!(simulate(true, slow), [(260, Step::Home)]);
        // Away for less than the time between two polls.
        let quick = |second| {
            Some(if second < 3 {
                "old\nleaving\n"
            } else {
                "new\n"
            })
        };
        assert_eq!(simulate(true, quick), [(3, Step::Home)]);
        // Somebody restarts it as it comes up.
        let again = |second| match second {
            0..10 => Some("old\nleaving\n"),
            10..20 => Some("new\nsystemd stops its services\n"),
            _ => Some("newer\n"),
        };
        assert_eq!(simulate(true, again), [(20, Step::Home)]);
    }

    #[test]
    fn a_box_that_was_never_taken_down_has_not_left() {
        assert_eq!(simulate(true, |_| Some("old\n")), [(61, Step::Home)]);
        // What was to take it down gave up after a while.
        let tried = |second| {
            Some(if second < 90 {
                "old\nleaving\n"
            } else {
                "old\n"
            })
        };
        assert_eq!(simulate(true, tried), [(90, Step::Home)]);
        let wait = Wait {
            away: None,
            limit: LIMIT,
            until: Instant::now() + LIMIT,
            has_power: true,
        };
        let next = |text, now| wait.next(Some(&BootState::parse(text)), now);
        assert_eq!(next("any\n", Instant::now()), Step::Home);
        assert_eq!(next("any\nleaving\n", Instant::now()), Step::AskAgain);
        // It should not leave, so its power is not cycled.
        let late = wait.until + LIMIT;
        assert_eq!(next("any\n", late), Step::Home);
    }

    #[test]
    fn a_box_that_never_goes_down_ends_the_wait() {
        let stuck = |_| Some("old\nsystemd stops its services\n");
        let at = |has_power| simulate(has_power, stuck);
        assert_eq!(at(false), [(600, Step::GiveUp)]);
        assert_eq!(at(true), [(600, Step::Power), (1200, Step::GiveUp)]);
        assert_eq!(
            why_not(Ok(BootState::parse("old\nsystemd stops its services\n"))),
            "it has not gone down yet: systemd stops its services"
        );
        assert_eq!(
            simulate(true, |_| None),
            [(600, Step::Power), (1200, Step::GiveUp)]
        );
    }

    #[test]
    fn a_switch_that_is_off_is_recognised() {
        for (status, is_off) in [
            ("Chassis Power is off\n", true),
            ("off", true),
            (r#"{"Name":"On/Off","PowerState": "Off"}"#, true),
            ("Chassis Power is on\n", false),
            ("", false),
            (r#"{"PowerState":"On","x":"Off"}"#, false),
            ("offset", false),
        ] {
            assert_eq!(says_off(status), is_off, "{status}");
        }
    }
}
