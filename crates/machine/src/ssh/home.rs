//! Home: the box's own operating system. Nothing begins before the box is there, and no run ends.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use input::units::show_duration;

use super::session::{Session, Trouble, trouble};
use super::{SshBox, pstore, start};
use crate::guest::Lost;
use crate::program;
use crate::remote;
use crate::task::Task;

/// How often a box is asked whether it is home.
const PACE: Duration = Duration::from_secs(1);

/// A box that answers with its old boot id for so long has not left at all.
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

impl SshBox {
    /// Waits until the box is in its own operating system, at first patiently, then by its power command.
    ///
    /// # Errors
    /// A `Lost` that says what to do, where it does not come home; another one where the wait was interrupted.
    pub(super) fn come_home(&self, task: Task<'_>) -> Result<()> {
        let away = self.away.lock().expect("nobody panics with it").clone();
        let mut cycled = String::new();
        let mut until = Instant::now() + self.plan.home_timeout;
        loop {
            let answer = self.ask_home(away.as_ref(), task);
            task.go_on()?;
            match answer {
                Ok(true) => break,
                Ok(false) => {}
                // Time does not mend these.
                Err(why)
                    if matches!(trouble(&why.to_string()), Trouble::HostKey | Trouble::Login) =>
                {
                    return Err(self.give_up(why.to_string()));
                }
                Err(why) => {
                    let is_late = Instant::now() >= until;
                    let is_last = !cycled.is_empty() || self.plan.power.cycle.is_empty();
                    if is_late && is_last {
                        return Err(self.give_up(self.obituary(&cycled, &why, task)));
                    }
                    if is_late || (!is_last && self.is_off(task)) {
                        cycled = self.switch_on(task);
                        until = Instant::now() + self.plan.home_timeout;
                    }
                }
            }
            thread::sleep(PACE);
        }
        if let Some(away) = away {
            pstore::take(&self.session, &away.dir, task);
            // What a boot way has left may be gone already.
            let _ = self.session.run(start::tidy_script(self.plan.boot), task);
            *self.away.lock().expect("nobody panics with it") = None;
        }
        Ok(())
    }

    /// Whether the box answers from its own operating system, and from another boot of it than the one that it left.
    fn ask_home(&self, away: Option<&Away>, task: Task<'_>) -> Result<bool> {
        let boot_id = boot_id(&self.session, task)?;
        let Some(away) = away else { return Ok(true) };
        Ok(boot_id != away.boot_id || away.since.elapsed() > STILL_THERE)
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

    fn obituary(&self, cycled: &str, why: &anyhow::Error, task: Task<'_>) -> String {
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
             then run the same command again to go on): {why:#}",
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
