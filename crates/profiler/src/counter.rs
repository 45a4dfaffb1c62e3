//! The counter, the plugin for trials with counted instructions: its arguments and its output.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use crate::kernel::KernelSymbols;
use crate::profile::mark;

/// The built library; empty if this build could not make it.
static PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/counter.so"));

/// The shared library; `None` if this build of bakeoff has none.
pub fn library() -> Option<&'static [u8]> {
    (!PLUGIN.is_empty()).then_some(PLUGIN)
}

/// The plugin's arguments: where a kernel switches tasks, and where these keep their control groups. Empty if the kernel lacks any
/// of them.
pub fn arguments(kernel: &KernelSymbols) -> Vec<(&'static str, u64)> {
    let group = kernel.layout.group;
    let places = [
        ("switch", kernel.switch().unwrap_or(0)),
        ("cgroups", group.of_task),
        ("default_cgroup", group.default),
        ("node", group.node),
        ("name", group.name),
    ];
    if places.iter().any(|(_, place)| *place == 0) {
        return Vec::new();
    }
    places.to_vec()
}

/// Counts between two instants, as the plugin writes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions.
    pub executed: u64,
    /// Starts of string instructions that move or fill, by bytes per iteration: 1, 2, 4, 8.
    pub starts: [u64; 4],
    /// Iterations after the first one, by the same sizes.
    pub repeats: [u64; 4],
    /// Executions that QEMU did not classify as start or repeat.
    pub unknown: u64,
}

/// Counts of a measurement window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Counts of the whole window.
    pub window: Counts,
    /// Counts of each step, up to the start of the next one.
    pub steps: Vec<Counts>,
    /// Counts of the window, by control group.
    pub groups: BTreeMap<String, Counts>,
}

/// More lines than a plugin writes that stops after 4096 marks with 256 groups each.
const MOST_LINES: usize = 1 << 21;

/// Number of counts in a line.
const NUMBERS: usize = 10;

type Groups = BTreeMap<String, Counts>;

/// Reads the plugin's output.
///
/// # Errors
/// The file is cut off; marks are missing, too many, or out of order; or QEMU did not tell starts from repeats.
pub fn read(written: &[u8]) -> Result<Counted> {
    let text =
        std::str::from_utf8(written).context("the counter wrote something else than text")?;
    let mut marks: Vec<(u8, Counts, Groups)> = Vec::new();
    let mut groups = Groups::new();
    for (at, line) in text.lines().enumerate() {
        let place = || format!("line {} of the counter's file", at + 1);
        if at >= MOST_LINES {
            bail!("more than {MOST_LINES} lines in the counter's file");
        }
        let mut words = line.split(' ');
        let (kind, name) = (
            words.next().unwrap_or_default(),
            words.next().with_context(place)?,
        );
        let counts = counts(words).with_context(place)?;
        match kind {
            "group" => {
                groups.insert(name.into(), counts);
            }
            "mark" => {
                let number = name.parse().with_context(place)?;
                marks.push((number, counts, std::mem::take(&mut groups)));
            }
            _ => bail!("{}: unknown kind of line", place()),
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        bail!("the counter's file is cut off");
    }
    window(&marks)
}

/// The counts from the only begin mark to the only end mark.
fn window(marks: &[(u8, Counts, Groups)]) -> Result<Counted> {
    let indices_of = |number| -> Vec<usize> {
        let is_wanted = |index: &usize| marks[*index].0 == number;
        (0..marks.len()).filter(is_wanted).collect()
    };
    let (begins, ends) = (indices_of(mark::BEGIN), indices_of(mark::END));
    let ([begin], [end]) = (begins.as_slice(), ends.as_slice()) else {
        bail!(
            "the window's marks: {} beginnings and {} ends where there is one of each",
            begins.len(),
            ends.len()
        );
    };
    if begin >= end {
        bail!("the window's end was marked before its beginning");
    }
    let (_, before, groups_before) = &marks[*begin];
    let (_, after, groups_after) = &marks[*end];
    let window = after.since(before)?;
    if window.unknown > 0 {
        bail!(
            "QEMU does not tell where string instructions start: {} executions",
            window.unknown
        );
    }
    let steps: Vec<&Counts> = marks[..=*end]
        .iter()
        .filter(|(number, ..)| *number == mark::STEP)
        .map(|(_, counts, _)| counts)
        .collect();
    let ends = steps.iter().skip(1).copied().chain([after]);
    let steps = steps.iter().zip(ends).map(|(from, to)| to.since(from));
    let mut groups = Groups::new();
    for (name, counts) in groups_after {
        let earlier = groups_before.get(name).copied().unwrap_or_default();
        groups.insert(name.clone(), counts.since(&earlier)?);
    }
    Ok(Counted {
        window,
        steps: steps.collect::<Result<_>>()?,
        groups,
    })
}

fn counts<'w>(words: impl Iterator<Item = &'w str>) -> Result<Counts> {
    let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>()?;
    let [executed, s1, s2, s4, s8, r1, r2, r4, r8, unknown] = <[u64; NUMBERS]>::try_from(numbers)
        .map_err(|numbers| {
        anyhow::anyhow!("{} numbers in place of {NUMBERS}", numbers.len())
    })?;
    Ok(Counts {
        executed,
        starts: [s1, s2, s4, s8],
        repeats: [r1, r2, r4, r8],
        unknown,
    })
}

impl Counts {
    fn since(&self, earlier: &Self) -> Result<Self> {
        let difference = |now: u64, then: u64| {
            now.checked_sub(then)
                .context("the counter counted backwards")
        };
        let each = |now: [u64; 4], then: [u64; 4]| -> Result<[u64; 4]> {
            let mut differences = [0; 4];
            for at in 0..4 {
                differences[at] = difference(now[at], then[at])?;
            }
            Ok(differences)
        };
        Ok(Self {
            executed: difference(self.executed, earlier.executed)?,
            starts: each(self.starts, earlier.starts)?,
            repeats: each(self.repeats, earlier.repeats)?,
            unknown: difference(self.unknown, earlier.unknown)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "group / 5 0 0 0 0 0 0 0 0 0\n\
        mark 1 100 1 0 0 2 10 0 0 20 0\n\
        mark 3 200 2 0 0 3 20 0 0 30 0\n\
        mark 3 500 2 0 0 4 20 0 0 50 0\n\
        group / 15 0 0 0 0 0 0 0 0 0\n\
        group nginx 700 1 0 0 3 9 0 0 70 0\n\
        mark 2 1000 4 0 0 6 40 0 0 90 0\n";

    #[test]
    fn a_window_is_what_was_counted_between_its_marks() {
        let counted = read(WRITTEN.as_bytes()).unwrap();
        let Counts {
            executed,
            starts,
            repeats,
            ..
        } = counted.window;
        assert_eq!(
            (executed, starts, repeats),
            (900, [3, 0, 0, 4], [30, 0, 0, 70])
        );
        let steps: Vec<u64> = counted.steps.iter().map(|step| step.executed).collect();
        assert_eq!(steps, [300, 500]);
        assert_eq!(counted.groups["/"].executed, 10);
        assert_eq!(counted.groups["nginx"].starts, [1, 0, 0, 3]);
    }

    #[test]
    fn an_invalid_window_is_refused_with_the_reason() {
        let check = |text: &str, why: &str| {
            let message = format!("{:#}", read(text.as_bytes()).unwrap_err());
            assert!(message.contains(why), "{text:?}: {message}");
        };
        check("", "0 beginnings and 0 ends");
        let line =
            |number: u8, executed: u64| format!("mark {number} {executed} 0 0 0 0 0 0 0 0 0\n");
        check(&line(1, 5), "1 beginnings and 0 ends");
        check(
            &(line(1, 5) + &line(1, 6) + &line(2, 7)),
            "2 beginnings and 1 ends",
        );
        check(
            &(line(2, 5) + &line(1, 6)),
            "end was marked before its beginning",
        );
        check(&(line(1, 5) + &line(2, 4)), "counted backwards");
        check(
            "mark 1 5 0 0\n",
            "line 1 of the counter's file: 3 numbers in place of 10",
        );
        check("mark x 0 0 0 0 0 0 0 0 0 0\n", "line 1");
        check("note a 0 0 0 0 0 0 0 0 0 0\n", "unknown kind of line");
        check(&WRITTEN[..WRITTEN.len() - 1], "cut off");
        let unknown = line(1, 0) + "mark 2 9 0 0 0 0 0 0 0 0 7\n";
        check(&unknown, "does not tell where string instructions start: 7");
    }
}
