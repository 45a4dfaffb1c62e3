//! A line of a kernel's log, without what a console, `dmesg` or the journal puts before its message.

use std::borrow::Cow;
use std::time::Duration;

/// Who printed a line, where the kernel says so (`CONFIG_PRINTK_CALLER`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Task(u32),
    Cpu(u32),
}

/// A line, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub message: Cow<'a, str>,
    pub since_boot: Option<Duration>,
    pub caller: Option<Caller>,
}

impl<'a> Line<'a> {
    /// Takes a line apart that may begin in the middle, and hold bytes that are no text.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let clean = clean(bytes);
        let mut line = Parts::default();
        let from = line.skip(&clean);
        let message = match clean {
            Cow::Borrowed(text) => Cow::Borrowed(&text[from..]),
            Cow::Owned(text) => Cow::Owned(text[from..].to_string()),
        };
        Self {
            message,
            since_boot: line.since_boot,
            caller: line.caller,
        }
    }
}

/// Text without what a terminal would obey; tabs, also as `/dev/kmsg` writes them, are spaces.
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
            // ESC [ parameters, and the letter that ends them.
            '\x1b' => {
                letters.find(char::is_ascii_alphabetic);
            }
            letter if letter.is_control() => {}
            letter => clean.push(letter),
        }
    }
    Cow::Owned(clean)
}

#[derive(Default)]
struct Parts {
    since_boot: Option<Duration>,
    caller: Option<Caller>,
}

impl Parts {
    /// Where the message begins.
    fn skip(&mut self, line: &str) -> usize {
        let mut rest = without_level(line);
        if let Some((time, message)) = kmsg(rest) {
            self.since_boot = Some(time);
            return line.len() - message.len();
        }
        rest = without_journal(rest);
        // A stamp further back: somebody had written on the console without ending the line, or its beginning was lost.
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

/// `4,1234,5678901,-;message`, as `/dev/kmsg` has it: time in microseconds.
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

/// `[   12.345678] message`, or `[Mon Nov 23 01:02:03 2026] message` without a time since boot.
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

/// `[  T123] ` or `[    C0] `, behind the stamp with or without a space.
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

fn is_number(text: &str, most: usize) -> bool {
    let length = text.len();
    1 <= length && length <= most && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, message: &str, micros: Option<u64>, caller: Option<Caller>) {
        let found = Line::new(line.as_bytes());
        assert_eq!(found.message, message, "{line}");
        assert_eq!(
            found.since_boot,
            micros.map(Duration::from_micros),
            "{line}"
        );
        assert_eq!(found.caller, caller, "{line}");
    }

    #[test]
    fn whatever_stands_before_a_message_is_taken_off() {
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
    fn a_stamp_may_come_late_and_what_looks_like_one_is_none() {
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
    fn bytes_that_are_no_text_and_orders_to_a_terminal_are_gone() {
        let line = Line::new(b"\x1b[31m[    1.000000] a\xff\x00b\x07c\x1b[0m\r\n");
        assert_eq!(line.message, "a\u{fffd}bc");
        assert_eq!(line.since_boot, Some(Duration::from_secs(1)));
    }
}
