//! Home: the box's own operating system. Nothing begins before the box is there, and no run ends.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use base::input::units::show_duration;

use super::session::{Session, Trouble, trouble};
use super::{SshBox, pstore, start};
use crate::guest::Lost;
use crate::program;
use crate::remote;
use crate::task::Task;

/// How often a box is asked whether it is home.
const PACE: Duration = Duration::from_secs(1);

/// A box that nothing takes down, in the boot that it was to leave, has not left at all after so long.
const STILL_THERE: Duration = Duration::from_secs(60);

/// Longest time that a power command may take.
const POWER_LIMIT: Duration = Duration::from_secs(120);

/// An arm for which the box has left.
#[derive(Debug, Clone)]
pub(super) struct Away {
    /// Of the operating system that it left.
    pub(super) boot_id: String,
    /// The trial's directory.
    pub(super) dir: PathBuf,
    pub(super) since: Instant,
}

/// Which boot of its own operating system a box is in.
pub(super) fn boot_id(session: &Session, task: Task<'_>) -> Result<String> {
    let said = session.run("cat /proc/sys/kernel/random/boot_id", task)?;
    Ok(said.trim().into())
}

/// What a box says of the boot that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    boot_id: String,
    /// What takes it down, where something does.
    leaving: Option<String>,
}

impl Said {
    fn parse(text: &str) -> Self {
        let mut lines = text.lines().map(str::trim);
        Self {
            boot_id: lines.next().unwrap_or_default().into(),
            leaving: lines.find(|line| !line.is_empty()).map(String::from),
        }
    }
}

/// What to do next about a box that is waited for.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Home,
    AskAgain,
    /// It does not answer, and there is time left.
    AskPower,
    /// Its time is over: its power is to be cycled.
    Power,
    /// So is that which it had after it.
    GiveUp,
}

/// The wait for a box. Whoever waits has the clock.
struct Wait<'a> {
    away: Option<&'a Away>,
    limit: Duration,
    until: Instant,
    /// Whether its power may still be cycled.
    has_power: bool,
}

impl Wait<'_> {
    /// `None` of a box that did not answer.
    fn next(&self, said: Option<&Said>, now: Instant) -> Step {
        // One that answers and stays is not cycled: it is home, or will be taken to be in a moment.
        if let Some(said) = said.filter(|said| said.leaving.is_none()) {
            return if self.is_home(said, now) {
                Step::Home
            } else {
                Step::AskAgain
            };
        }
        match (now >= self.until, self.has_power) {
            (true, true) => Step::Power,
            (true, false) => Step::GiveUp,
            (false, true) if said.is_none() => Step::AskPower,
            (false, _) => Step::AskAgain,
        }
    }

    /// Another boot id is another boot. With the old one it is on its way down, however long that takes, or, where nothing takes it
    /// down any more, has never left.
    fn is_home(&self, said: &Said, now: Instant) -> bool {
        let left = self.away.filter(|away| away.boot_id == said.boot_id);
        left.is_none_or(|away| now.saturating_duration_since(away.since) > STILL_THERE)
    }

    fn begin_again(&mut self, now: Instant) {
        self.has_power = false;
        self.until = now + self.limit;
    }
}

impl SshBox {
    /// Waits until the box is in its own operating system, at first patiently, then by its power command.
    ///
    /// # Errors
    /// A `Lost` that says what to do, where it does not come home; another one where the wait was interrupted.
    pub(super) fn come_home(&self, task: Task<'_>) -> Result<()> {
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
            // Time does not mend these.
            if let Err(why) = &answer
                && matches!(trouble(&why.to_string()), Trouble::HostKey | Trouble::Login)
            {
                return Err(self.give_up(why.to_string()));
            }
            let answer = answer.map(|text| Said::parse(&text));
            let is_due = match wait.next(answer.as_ref().ok(), Instant::now()) {
                Step::Home => break,
                Step::AskAgain => false,
                Step::AskPower => self.is_off(task),
                Step::Power => true,
                Step::GiveUp => {
                    let why = why_not(answer);
                    return Err(self.give_up(self.obituary(&cycled, &why, task)));
                }
            };
            if is_due {
                cycled = self.switch_on(task);
                wait.begin_again(Instant::now());
            }
            thread::sleep(PACE);
        }
        if let Some(away) = away {
            pstore::take(&self.session, &away.dir, task);
            // What a boot way has left may be gone already.
            let _ = self.session.run(&start::tidy_script(self.plan.boot), task);
            *self.away.lock().expect("nobody panics with it") = None;
        }
        Ok(())
    }

    /// Whether its power switch says that it is off: then there is nothing to wait for.
    fn is_off(&self, task: Task<'_>) -> bool {
        let status = &self.plan.power.status;
        !status.is_empty() && self.power(status, task).is_ok_and(|said| says_off(&said))
    }

    /// Has the box's power cycled, or turned on where it is off; how that went, in words.
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

    /// The end of the run: nobody waits for the box once more.
    fn give_up(&self, words: String) -> anyhow::Error {
        *self.away.lock().expect("nobody panics with it") = None;
        anyhow::Error::new(Lost(words))
    }

    fn obituary(&self, cycled: &str, why: &str, task: Task<'_>) -> String {
        let status = match self.plan.power.status.as_slice() {
            [] => String::new(),
            command => {
                let said = self.power(command, task);
                let said = said.unwrap_or_else(|why| format!("{why:#}"));
                format!("; power.status: {}", said.trim())
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

/// Why the box does not count as home yet.
fn why_not(answer: Result<Said>) -> String {
    match answer {
        Ok(Said {
            leaving: Some(leaving),
            ..
        }) => {
            format!("it has not gone down yet: {leaving}")
        }
        Ok(Said { leaving: None, .. }) => "it has not left yet".into(),
        Err(why) => format!("{why:#}"),
    }
}

/// `Chassis Power is off`, `"PowerState":"Off"`, `off`.
fn says_off(said: &str) -> bool {
    let words = said.split(|c: char| !c.is_ascii_alphabetic());
    let mut words = words.filter(|word| !word.is_empty());
    match said.split_once("\"PowerState\"") {
        Some((_, rest)) => rest.trim_start_matches([':', ' ', '"']).starts_with("Off"),
        None => words.any(|word| word.eq_ignore_ascii_case("off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);

    /// Asks a box each second of simulated time; what is done about it and when, in seconds after it was told to leave.
    fn played(has_power: bool, said: impl Fn(u64) -> Option<&'static str>) -> Vec<(u64, Step)> {
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
            let said = said(second).map(Said::parse);
            let step = wait.next(said.as_ref(), now);
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
        assert_eq!(played(true, slow), [(260, Step::Home)]);
        // As short as it may be away: between two looks.
        let quick = |second| {
            Some(if second < 3 {
                "old\nleaving\n"
            } else {
                "new\n"
            })
        };
        assert_eq!(played(true, quick), [(3, Step::Home)]);
        // Somebody restarts it as it comes up.
        let again = |second| match second {
            0..10 => Some("old\nleaving\n"),
            10..20 => Some("new\nsystemd stops its services\n"),
            _ => Some("newer\n"),
        };
        assert_eq!(played(true, again), [(20, Step::Home)]);
    }

    #[test]
    fn a_box_that_was_never_taken_down_has_not_left() {
        assert_eq!(played(true, |_| Some("old\n")), [(61, Step::Home)]);
        // What was to take it down gave up after a while.
        let tried = |second| {
            Some(if second < 90 {
                "old\nleaving\n"
            } else {
                "old\n"
            })
        };
        assert_eq!(played(true, tried), [(90, Step::Home)]);
        let wait = Wait {
            away: None,
            limit: LIMIT,
            until: Instant::now() + LIMIT,
            has_power: true,
        };
        let next = |text, now| wait.next(Some(&Said::parse(text)), now);
        assert_eq!(next("any\n", Instant::now()), Step::Home);
        assert_eq!(next("any\nleaving\n", Instant::now()), Step::AskAgain);
        // It was never told to leave, so its power is left alone as well.
        let late = wait.until + LIMIT;
        assert_eq!(next("any\n", late), Step::Home);
    }

    #[test]
    fn a_box_that_never_goes_down_ends_the_wait() {
        let stuck = |_| Some("old\nsystemd stops its services\n");
        let at = |has_power| played(has_power, stuck);
        assert_eq!(at(false), [(600, Step::GiveUp)]);
        assert_eq!(at(true), [(600, Step::Power), (1200, Step::GiveUp)]);
        assert_eq!(
            why_not(Ok(Said::parse("old\nsystemd stops its services\n"))),
            "it has not gone down yet: systemd stops its services"
        );
        assert_eq!(
            played(true, |_| None),
            [(600, Step::Power), (1200, Step::GiveUp)]
        );
    }

    #[test]
    fn a_switch_that_is_off_is_recognised() {
        for said in [
            "Chassis Power is off\n",
            "off",
            r#"{"Name":"On/Off","PowerState": "Off"}"#,
        ] {
            assert!(says_off(said), "{said}");
        }
        for said in [
            "Chassis Power is on\n",
            "",
            r#"{"PowerState":"On","x":"Off"}"#,
            "offset",
        ] {
            assert!(!says_off(said), "{said}");
        }
    }
}
