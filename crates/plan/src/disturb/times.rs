//! When it is done: at written instants, at regular ones, or at random ones that follow from the plan's seed.

use std::time::Duration;

use super::{Ground, MOST_TIMES};
use crate::fields::Fields;
use base::input::units;

/// A second before the first one: what service was like before it is told by the seconds before it.
const EARLIEST: Duration = Duration::from_secs(1);

/// The three ways to write them.
const KEYS: [&str; 3] = ["at", "every", "random"];

/// The key by which a table tells its times.
pub(super) fn key_of(table: &Fields<'_>) -> &'static str {
    KEYS.into_iter().find(|key| table.has(key)).unwrap_or("at")
}

/// Milliseconds since the window opened, ascending.
pub(super) fn read_times(
    table: &Fields<'_>,
    (name, length): (&str, Duration),
    ground: &Ground<'_>,
) -> Option<Vec<u64>> {
    let written: Vec<_> = KEYS.into_iter().filter(|key| table.has(key)).collect();
    if let [_, second, ..] = *written {
        let what = format!(
            "times of a disturbance told twice: {}",
            written.join(" and ")
        );
        table.refuse(second, what, "keep one of them");
        return None;
    }
    let window = ground.window();
    let times = match written.first().copied() {
        None => {
            table.missing("at", "\"90s\", or every = \"5m\", or random = 3");
            return None;
        }
        Some("at") => read_at(table)?,
        Some("every") => regular(table, length, window)?,
        Some(_) => random(table, (name, length), ground)?,
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

/// One instant, or a list of them.
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

/// After each such time, as long as it ends within the window.
fn regular(table: &Fields<'_>, length: Duration, window: Duration) -> Option<Vec<Duration>> {
    let every = table.read("every", units::duration)?;
    if every <= length {
        let what = format!("every not above for: {}", units::show_duration(every));
        table.wrong("every", what, "let it end before it begins again");
        return None;
    }
    let times = (1..).map(|place| every.saturating_mul(place));
    let times = times.take_while(|at| at.saturating_add(length) <= window);
    // One more than can be, so that too many are seen.
    let times: Vec<_> = times.take(MOST_TIMES + 1).collect();
    // The first one is beyond the window, which is told as of any other.
    Some(if times.is_empty() { vec![every] } else { times })
}

/// One in each of so many equal parts of the window, at whole seconds: what they are follows from seed and name.
fn random(
    table: &Fields<'_>,
    (name, length): (&str, Duration),
    ground: &Ground<'_>,
) -> Option<Vec<Duration>> {
    let count = table.count("random", 1..=MOST_TIMES as u64)?;
    let window = ground.window().as_secs();
    let (part, length) = (window / count, length.as_secs_f64().ceil() as u64);
    // The first part has a second before its earliest.
    let Some(room) = part.checked_sub(length + EARLIEST.as_secs()) else {
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
    let mut state = ground.seed ^ hash;
    let times = (0..count).map(|place| {
        let at = place * part + EARLIEST.as_secs() + bits(&mut state) % (room + 1);
        Duration::from_secs(at)
    });
    Some(times.collect())
}

/// The generator of Steele, Lea and Flood (2014), as in `record::prng`, which this room may not use.
fn bits(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
