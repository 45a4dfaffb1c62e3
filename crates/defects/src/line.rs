//! A line of a kernel log, without the prefix that a console, `dmesg` or the journal adds.

use std::borrow::Cow;
use std::time::Duration;

/// The printing context, if the kernel records it (`CONFIG_PRINTK_CALLER`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Task(u32),
    Cpu(u32),
}

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub message: Cow<'a, str>,
    pub since_boot: Option<Duration>,
    pub caller: Option<Caller>,
}

impl<'a> Line<'a> {
    /// Parses a line, which may start in the middle and contain bytes that are not text.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let clean = clean(bytes);
        let mut prefix = Prefix::default();
        let start = prefix.skip(&clean);
        let message = match clean {
            Cow::Borrowed(text) => Cow::Borrowed(&text[start..]),
            Cow::Owned(text) => Cow::Owned(text[start..].to_string()),
        };
        Self {
            message,
            since_boot: prefix.since_boot,
            caller: prefix.caller,
        }
    }
}

/// Text without terminal escapes and control characters; tabs, also as `/dev/kmsg` writes them, become spaces.
fn clean(bytes: &[u8]) -> Cow<'_, str> {
    let bytes = bytes.trim_ascii_end();
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\';
    if bytes.iter().all(is_plain) {
        return String::from_utf8_lossy(bytes);
    }
    let text = String::from_utf8_lossy(bytes).replace("\\x09", " ");
    let mut clean = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\t' => clean.push(' '),
            // ESC [ parameters, and the letter that ends the sequence.
            '\x1b' => {
                letters.find(char::is_ascii_alphabetic);
            }
            letter if letter.is_control() => {}
            letter => clean.push(letter),
        }
    }
    Cow::Owned(clean)
}

/// What the prefix of a line contains.
#[derive(Default)]
struct Prefix {
    since_boot: Option<Duration>,
    caller: Option<Caller>,
}

impl Prefix {
    /// Parses the prefix; returns the offset of the message.
    fn skip(&mut self, line: &str) -> usize {
        let mut rest = without_level(line);
        if let Some((time, message)) = kmsg(rest) {
            self.since_boot = Some(time);
            return line.len() - message.len();
        }
        rest = without_journal(rest);
        // The timestamp may come late: a program wrote to the console without a newline, or the line's start was lost.
        if let Some((time, message)) = stamp(rest).or_else(|| late_stamp(rest)) {
            self.since_boot = time;
            rest = message;
        }
        rest = without_level(rest);
        if let Some((caller, message)) = caller(rest) {
            self.caller = Some(caller);
            rest = message;
        }
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        line.len() - rest.len()
    }
}

/// Without `<4>`.
fn without_level(line: &str) -> &str {
    let level = line
        .strip_prefix('<')
        .and_then(|rest| rest.split_once('>'))
        .filter(|(level, _)| is_number(level, 3));
    level.map_or(line, |(_, rest)| rest)
}

/// `4,1234,5678901,-;message`, the format of `/dev/kmsg`: time in microseconds.
fn kmsg(line: &str) -> Option<(Duration, &str)> {
    let (head, message) = line.split_once(';')?;
    let mut fields = head.split(',');
    let (level, sequence, time) = (fields.next()?, fields.next()?, fields.next()?);
    let all = [level, sequence, time]
        .iter()
        .all(|field| is_number(field, 20));
    fields.next()?;
    let time = all.then(|| time.parse().ok()).flatten()?;
    Some((Duration::from_micros(time), message))
}

/// Without `Nov 23 01:02:03 host kernel: `.
fn without_journal(line: &str) -> &str {
    let dated = line.get(..4).is_some_and(|start| {
        let month = [
            "Jan ", "Feb ", "Mar ", "Apr ", "May ", "Jun ", "Jul ", "Aug ", "Sep ", "Oct ", "Nov ",
            "Dec ",
        ];
        month.contains(&start) || is_number(start, 4)
    });
    let message = line
        .split_once(" kernel: ")
        .filter(|(head, _)| dated && head.len() < 100);
    message.map_or(line, |(_, message)| message)
}

/// `[   12.345678] message`, or `[Mon Nov 23 01:02:03 2026] message`, which has no time since boot.
fn stamp(line: &str) -> Option<(Option<Duration>, &str)> {
    let (inside, rest) = line.strip_prefix('[')?.split_once(']')?;
    let inside = inside.trim_start();
    if let Some((seconds, fraction)) = inside.split_once('.') {
        let is_time = is_number(seconds, 12) && is_number(fraction, 9);
        let seconds = is_time.then(|| seconds.parse().ok()).flatten()?;
        let nanoseconds: u32 = format!("{fraction:0<9}").parse().ok()?;
        return Some((Some(Duration::new(seconds, nanoseconds)), rest));
    }
    let weekday = ["Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "];
    let is_date = weekday.iter().any(|day| inside.starts_with(day)) && inside.len() < 40;
    is_date.then_some((None, rest))
}

fn late_stamp(line: &str) -> Option<(Option<Duration>, &str)> {
    let mut places = line.match_indices('[').map(|(at, _)| at);
    places.find_map(|at| stamp(&line[at..]).filter(|(time, _)| time.is_some()))
}

/// `[  T123] ` or `[    C0] `, after the timestamp with or without a space.
fn caller(line: &str) -> Option<(Caller, &str)> {
    let (inside, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let inside = inside.trim_start();
    let number = inside.get(1..).filter(|number| is_number(number, 9))?;
    let number = number.parse().ok()?;
    match &inside[..1] {
        "T" => Some((Caller::Task(number), rest)),
        "C" => Some((Caller::Cpu(number), rest)),
        _ => None,
    }
}

fn is_number(text: &str, max_digits: usize) -> bool {
    let length = text.len();
    1 <= length && length <= max_digits && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, message: &str, micros: Option<u64>, caller: Option<Caller>) {
        let line = Line::new(text.as_bytes());
        assert_eq!(line.message, message, "{text}");
        assert_eq!(line.since_boot, micros.map(Duration::from_micros), "{text}");
        assert_eq!(line.caller, caller, "{text}");
    }

    #[test]
    fn the_prefix_of_a_message_is_removed() {
        check("BUG: x", "BUG: x", None, None);
        check("[   12.345678] BUG: x\r", "BUG: x", Some(12_345_678), None);
        check("<4>[    0.000001] BUG: x", "BUG: x", Some(1), None);
        check("[12.345678]<3>BUG: x", "BUG: x", Some(12_345_678), None);
        check(
            "[    5.000000][  T123] BUG: x",
            "BUG: x",
            Some(5_000_000),
            Some(Caller::Task(123)),
        );
        check(
            "[    5.000000] [    C1] BUG: x",
            "BUG: x",
            Some(5_000_000),
            Some(Caller::Cpu(1)),
        );
        check("4,1234,5678901,-;BUG: x", "BUG: x", Some(5_678_901), None);
        check(
            "4,1234,5678901,-,caller=T1;BUG: x",
            "BUG: x",
            Some(5_678_901),
            None,
        );
        check("[Mon Nov 23 01:02:03 2026] BUG: x", "BUG: x", None, None);
        check("Nov 23 01:02:03 box kernel: BUG: x", "BUG: x", None, None);
        check(
            "2026-11-23T01:02:03+00:00 box kernel: [    1.5] BUG: x",
            "BUG: x",
            Some(1_500_000),
            None,
        );
    }

    #[test]
    fn a_late_timestamp_is_found_and_a_lookalike_is_not() {
        check(
            "login: [    1.000000] BUG: x",
            "BUG: x",
            Some(1_000_000),
            None,
        );
        check(
            "  12.3[    1.000000] BUG: x",
            "BUG: x",
            Some(1_000_000),
            None,
        );
        check(
            "[ BUG: Invalid wait context ]",
            "[ BUG: Invalid wait context ]",
            None,
            None,
        );
        check(
            "[99999999999999999999.1] x",
            "[99999999999999999999.1] x",
            None,
            None,
        );
        check("[1.] x", "[1.] x", None, None);
        check("<x>a", "<x>a", None, None);
        check("", "", None, None);
    }

    #[test]
    fn an_indented_line_stays_indented() {
        check(
            "[    1.000000]  tcp_ack+0x1/0x2",
            " tcp_ack+0x1/0x2",
            Some(1_000_000),
            None,
        );
        check("6,1,2,-;rcu: \\x09one", "rcu:  one", Some(2), None);
    }

    #[test]
    fn invalid_bytes_and_terminal_escapes_are_removed() {
        let line = Line::new(b"\x1b[31m[    1.000000] a\xff\x00b\x07c\x1b[0m\r\n");
        assert_eq!(line.message, "a\u{fffd}bc");
        assert_eq!(line.since_boot, Some(Duration::from_secs(1)));
    }
}
