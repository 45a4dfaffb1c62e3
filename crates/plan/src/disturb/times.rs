//! Times of disturbances: given ones, regular ones, or random ones from the plan's seed.

use std::time::Duration;

use super::{DisturbContext, MOST_TIMES};
use crate::fields::Fields;
use base::input::units;

/// Earliest time: at least one undisturbed second is needed for comparison.
const EARLIEST: Duration = Duration::from_secs(1);

/// The alternative keys for times.
const KEYS: [&str; 3] = ["at", "every", "random"];

/// The key for times that a table has.
pub(super) fn key_of(table: &Fields<'_>) -> &'static str {
    KEYS.into_iter().find(|key| table.has(key)).unwrap_or("at")
}

/// Reads times in milliseconds since the window opened, ascending.
pub(super) fn read_times(
    table: &Fields<'_>,
    name: &str,
    length: Duration,
    context: &DisturbContext<'_>,
) -> Option<Vec<u64>> {
    let keys: Vec<_> = KEYS.into_iter().filter(|key| table.has(key)).collect();
    if let [_, second, ..] = *keys {
        let what = format!("times of a disturbance told twice: {}", keys.join(" and "));
        table.refuse(second, what, "keep one of them");
        return None;
    }
    let window = context.window();
    let times = match keys.first().copied() {
        None => {
            table.missing("at", "\"90s\", or every = \"5m\", or random = 3");
            return None;
        }
        Some("at") => read_at(table)?,
        Some("every") => read_every(table, length, window)?,
        Some(_) => read_random(table, name, length, context)?,
    };
    let key = key_of(table);
    if let Some(early) = times.iter().find(|at| **at < EARLIEST) {
        let what = format!("{key} before 1 s: {}", units::show_duration(*early));
        table.wrong(
            key,
            what,
            "begin later: there is nothing before it to compare with",
        );
        return None;
    }
    if let Some(late) = times.iter().find(|at| at.saturating_add(length) > window) {
        let what = format!(
            "disturbance beyond the window of {}: {} at {} for {}",
            units::show_duration(window),
            name,
            units::show_duration(*late),
            units::show_duration(length)
        );
        table.wrong(
            key,
            what,
            "let it end within the window, or lengthen window",
        );
        return None;
    }
    Some(times.iter().map(|at| at.as_millis() as u64).collect())
}

/// Reads `at`: one time, or a list of them.
fn read_at(table: &Fields<'_>) -> Option<Vec<Duration>> {
    if !table.is_list("at") {
        return table.read("at", units::duration).map(|at| vec![at]);
    }
    let mut times = Vec::new();
    for text in table.texts("at")? {
        match units::duration(text) {
            Ok(at) => times.push(at),
            Err(why) => {
                let (what, remedy) = why.split_once(", ").unwrap_or((&why, ""));
                table.wrong("at", format!("at: {what}"), remedy);
                return None;
            }
        }
    }
    if times.is_empty() {
        table.wrong("at", "at without an instant", "write at = \"90s\"");
        return None;
    }
    times.sort();
    Some(times)
}

/// Reads `every`: its multiples at which a disturbance ends within the window.
fn read_every(table: &Fields<'_>, length: Duration, window: Duration) -> Option<Vec<Duration>> {
    let every = table.read("every", units::duration)?;
    if every <= length {
        let what = format!("every not above for: {}", units::show_duration(every));
        table.wrong("every", what, "let it end before it begins again");
        return None;
    }
    let times = (1..).map(|number| every.saturating_mul(number));
    let times = times.take_while(|at| at.saturating_add(length) <= window);
    // One more than allowed, so that the limit is noticed.
    let times: Vec<_> = times.take(MOST_TIMES + 1).collect();
    // If even the first ends after the window, it is returned, and refused like any other.
    Some(if times.is_empty() { vec![every] } else { times })
}

/// Reads `random`: one time in each of `count` equal parts of the window, at whole seconds that follow from seed and name.
fn read_random(
    table: &Fields<'_>,
    name: &str,
    length: Duration,
    context: &DisturbContext<'_>,
) -> Option<Vec<Duration>> {
    let count = table.count("random", 1..=MOST_TIMES as u64)?;
    let window_s = context.window().as_secs();
    let (part_s, length_s) = (window_s / count, length.as_secs_f64().ceil() as u64);
    let Some(spare_s) = part_s.checked_sub(length_s + EARLIEST.as_secs()) else {
        let what = format!("no room for so many in the window: random = {count}");
        table.wrong(
            "random",
            what,
            "ask for fewer, shorten for, or lengthen window",
        );
        return None;
    };
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut state = context.seed ^ hash;
    let times = (0..count).map(|part| {
        let at_s = part * part_s + EARLIEST.as_secs() + bits(&mut state) % (spare_s + 1);
        Duration::from_secs(at_s)
    });
    Some(times.collect())
}

/// `SplitMix64`, as in `record::prng`, on which this crate must not depend.
fn bits(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
