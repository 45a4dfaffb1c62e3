//! Lines at error level in the logs of services.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::defect_set::{Defect, DefectSet, Moment, cut_line};
use crate::kind::{Kind, Severity};
use crate::services::signal_name;
use crate::top::{name, without_numbers};

/// Number of bytes read of a line.
const READ_BYTES: usize = 2 << 10;

/// The service's log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Apache 2.4: `[date] [module:level] [pid 1:tid 2] [client ..] AH01234: message`.
    Apache,
    /// nginx: `date time [level] 1#1: *1 message, client: ..`.
    Nginx,
    /// MariaDB: `date time thread [ERROR] message`.
    MariaDb,
    /// PostgreSQL: `date time zone [1] user@database FATAL:  message`.
    PostgreSql,
    /// Samba: `[date, level] file:line(function)`, with the message in the next line.
    Samba,
    /// Tomcat: `date time SEVERE [thread] class message`.
    Tomcat,
    /// `WildFly`: `time ERROR [category] WFLYCTL0013: message`.
    Wildfly,
    /// Open Liberty: `[date] thread class E CWWKZ0002E: message`.
    OpenLiberty,
}

/// A reader of one service's log. It is fed while the log grows, and can be queried at any time.
#[derive(Clone, Debug)]
pub struct ServiceLog {
    service: String,
    format: LogFormat,
    partial: Vec<u8>,
    lines: u64,
    clock: Option<Duration>,
    /// Samba: the function of a message at error level, whose text follows.
    pending: Option<String>,
    /// Processes killed on purpose whose end was not read yet.
    expected_ends: BTreeSet<u32>,
    defects: DefectSet,
}

impl ServiceLog {
    /// A reader that has read nothing. Each [`Defect::top`] starts with the service's name.
    pub fn new(service: &str, format: LogFormat) -> Self {
        Self {
            service: service.to_string(),
            format,
            partial: Vec::new(),
            lines: 0,
            clock: None,
            pending: None,
            expected_ends: BTreeSet::new(),
            defects: DefectSet::default(),
        }
    }

    /// Sets [`Moment::clock`] of everything that is fed from here on.
    pub fn set_clock(&mut self, now: Duration) {
        self.clock = Some(now);
    }

    /// Announces that a process of the service is killed on purpose (`SIGKILL`), so that its end is no crash.
    pub fn ask_end(&mut self, pid: u32) {
        self.expected_ends.insert(pid);
    }

    /// Takes the next piece of the log, which may end anywhere.
    pub fn feed(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (bytes, ends) = match part.strip_suffix(b"\n") {
                Some(bytes) => (bytes, true),
                None => (part, false),
            };
            let space = READ_BYTES.saturating_sub(self.partial.len());
            self.partial
                .extend_from_slice(&bytes[..bytes.len().min(space)]);
            if ends {
                let line = std::mem::take(&mut self.partial);
                self.line(&line);
            }
        }
    }

    /// Takes one whole line.
    pub fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        let text = String::from_utf8_lossy(&line[..line.len().min(READ_BYTES)]);
        let text: String = text
            .trim_end()
            .chars()
            .filter(|letter| !letter.is_control())
            .collect();
        let entry = match self.format {
            LogFormat::Samba => self.samba(&text),
            format => parse(format, &text),
        };
        let Some(entry) = entry.or_else(|| self.restart(&text)) else {
            return;
        };
        if entry.kind == Kind::ServiceCrash
            && entry.subject == "SIGKILL"
            && self.is_expected_end(&text)
        {
            return;
        }
        let moment = Moment {
            line: self.lines,
            since_boot: None,
            clock: self.clock,
        };
        self.defects.add(Defect {
            kind: entry.kind,
            severity: entry.severity,
            top: match entry.kind {
                Kind::ServiceRestart => self.service.clone(),
                _ => format!("{}: {}", self.service, entry.subject),
            },
            count: 1,
            first: moment,
            last: moment,
            lines: vec![cut_line(&text)],
        });
    }

    /// A restart: a line about a start that comes after the measurement window has opened.
    fn restart(&self, text: &str) -> Option<Entry> {
        let started = match self.format {
            LogFormat::Apache => " -- resuming normal operations",
            LogFormat::MariaDb => ": ready for connections.",
            LogFormat::PostgreSql => "LOG:  database system is ready to accept connections",
            LogFormat::Samba => "daemon_ready: ",
            LogFormat::Tomcat => " Server startup in ",
            LogFormat::Wildfly => " WFLYSRV0025: ",
            LogFormat::OpenLiberty => " CWWKF0011I: ",
            // nginx logs a start at a level that is off by default.
            LogFormat::Nginx => return None,
        };
        let is_restart = self.clock.is_some() && text.contains(started);
        is_restart.then(|| Entry {
            kind: Kind::ServiceRestart,
            ..Entry::new(Severity::Suspicious, String::new())
        })
    }

    /// Whether a line names a process whose end was announced. PIDs are reused, so each counts once.
    fn is_expected_end(&mut self, text: &str) -> bool {
        let numbers = text.split(|letter: char| !letter.is_ascii_digit());
        let mut pids = numbers.filter_map(|number| number.parse().ok());
        pids.any(|pid| self.expected_ends.remove(&pid))
    }

    /// All defects so far, by kind and top.
    pub fn defects(&self) -> Vec<Defect> {
        self.defects.clone().into_defects()
    }

    fn samba(&mut self, text: &str) -> Option<Entry> {
        if let Some(rest) = text.strip_prefix('[') {
            self.pending = samba_function(rest);
            return None;
        }
        let function = self.pending.take()?;
        let message = text.trim_start();
        // Messages that Samba prints at level 0 so that every log has them.
        let routine = ["Copyright ", "daemon_ready", "Got SIGTERM"];
        if routine.iter().any(|start| message.starts_with(start)) || message.ends_with(" started.")
        {
            return None;
        }
        if message.starts_with("INTERNAL ERROR: ") || message.starts_with("PANIC") {
            return Some(Entry::crash(message));
        }
        Some(Entry::new(Severity::Suspicious, function))
    }
}

/// The meaning of a line.
struct Entry {
    kind: Kind,
    severity: Severity,
    subject: String,
}

impl Entry {
    fn new(severity: Severity, subject: String) -> Self {
        Self {
            kind: Kind::ServiceLog,
            severity,
            subject,
        }
    }

    /// A process of the service that a signal killed, named by the signal's number anywhere in the message.
    fn crash(message: &str) -> Self {
        let number = message.split_once("ignal ").and_then(|(_, rest)| {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            rest[..digits].parse().ok()
        });
        Self {
            kind: Kind::ServiceCrash,
            severity: Severity::Defect,
            subject: number.map_or_else(|| name(&without_numbers(message)), signal_name),
        }
    }
}

fn parse(format: LogFormat, line: &str) -> Option<Entry> {
    match format {
        LogFormat::Apache => apache(line),
        LogFormat::Nginx => nginx(line),
        LogFormat::MariaDb => mariadb(line),
        LogFormat::PostgreSql => postgresql(line),
        LogFormat::Tomcat => java(line).or_else(|| tomcat(line)),
        LogFormat::Wildfly => java(line).or_else(|| wildfly(line)),
        LogFormat::OpenLiberty => java(line).or_else(|| open_liberty(line)),
        LogFormat::Samba => None,
    }
}

fn apache(line: &str) -> Option<Entry> {
    let (_, rest) = line.strip_prefix('[')?.split_once("] [")?;
    let (level, mut message) = rest.split_once("] ")?;
    let level = level.rsplit(':').next()?;
    // [pid 1:tid 2], [client 10.0.0.2:1234], and the system error before the latter.
    while let Some((_, rest)) = message
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        message = rest;
    }
    if message.contains("child pid ") && message.contains(" exit signal ") {
        let signal = message
            .rsplit('(')
            .find_map(|part| part.split_once(')').map(|(inside, _)| inside));
        let number = signal.and_then(|inside| inside.parse().ok());
        return Some(Entry {
            subject: number.map_or_else(|| "child".to_string(), signal_name),
            ..Entry::crash(message)
        });
    }
    let severity = match level {
        "emerg" | "alert" | "crit" => Severity::Defect,
        "error" => Severity::Suspicious,
        _ => return None,
    };
    let code = message.split([' ', ':']).find(|word| {
        let digits = word.strip_prefix("AH").unwrap_or("");
        digits.len() == 5 && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    let subject = code.map_or_else(|| name(&without_numbers(message)), str::to_string);
    Some(Entry::new(severity, subject))
}

fn nginx(line: &str) -> Option<Entry> {
    let (before, rest) = line.split_once(" [")?;
    let (level, message) = rest.split_once("] ")?;
    let severity = match level {
        "emerg" | "alert" => Severity::Defect,
        "crit" => Severity::Suspicious,
        _ => return None,
    };
    // `date time`, and nothing that a client sent.
    if before.len() != 19 {
        return None;
    }
    let message = message
        .split_once(": ")
        .map_or(message, |(_, message)| message);
    if message.contains(" exited on signal ") {
        return Some(Entry::crash(message));
    }
    let message = match message.strip_prefix('*') {
        Some(rest) => rest.split_once(' ').map_or(rest, |(_, message)| message),
        None => message,
    };
    let message = message.split(", client: ").next().unwrap_or(message);
    Some(Entry::new(severity, name(&without_numbers(message))))
}

fn mariadb(line: &str) -> Option<Entry> {
    let (_, rest) = line.split_once('[')?;
    let message = rest.strip_prefix("ERROR] ")?;
    if message.contains(" got signal ") {
        return Some(Entry::crash(message));
    }
    Some(Entry::new(
        Severity::Suspicious,
        name(&without_numbers(message)),
    ))
}

fn postgresql(line: &str) -> Option<Entry> {
    let (head, message) = line.split_once(":  ")?;
    let severity = match head.rsplit(' ').next()? {
        "PANIC" => Severity::Defect,
        "FATAL" => Severity::Suspicious,
        "LOG" if message.contains(" was terminated by signal ") => {
            return Some(Entry::crash(message));
        }
        _ => return None,
    };
    // Messages to every client whose connection coincides with a start or stop.
    let routine = [
        "terminating connection due to administrator command",
        "the database system is starting up",
        "the database system is shutting down",
    ];
    let is_routine = routine.contains(&message);
    (!is_routine).then(|| Entry::new(severity, name(&without_numbers(message))))
}

fn tomcat(line: &str) -> Option<Entry> {
    let mut words = line.splitn(4, ' ');
    let (_date, _time) = (words.next()?, words.next()?);
    if words.next()? != "SEVERE" {
        return None;
    }
    let (_thread, message) = words.next()?.strip_prefix('[')?.split_once("] ")?;
    let class = message.split(' ').next().unwrap_or(message);
    Some(Entry::new(Severity::Suspicious, name(class)))
}

fn wildfly(line: &str) -> Option<Entry> {
    let (_time, rest) = line.split_once(' ')?;
    let (level, rest) = rest.split_once(' ')?;
    let severity = match level {
        "FATAL" => Severity::Defect,
        "ERROR" => Severity::Suspicious,
        _ => return None,
    };
    let (category, message) = rest.trim_start().strip_prefix('[')?.split_once("] ")?;
    let code = message.split_once(": ").map(|(code, _)| code);
    let is_code =
        |code: &&str| code.ends_with(|digit: char| digit.is_ascii_digit()) && !code.contains(' ');
    Some(Entry::new(
        severity,
        name(code.filter(is_code).unwrap_or(category)),
    ))
}

fn open_liberty(line: &str) -> Option<Entry> {
    let (_date, rest) = line.strip_prefix('[')?.split_once("] ")?;
    // The level is a letter of its own after thread and class.
    let (place, message) = rest.split_once(" E ").or_else(|| rest.split_once(" F "))?;
    let class = place.split_whitespace().nth(1)?;
    let code = message.split_once(": ").map(|(code, _)| code);
    let is_code = |code: &&str| code.ends_with('E') && !code.contains(' ');
    Some(Entry::new(
        Severity::Suspicious,
        name(code.filter(is_code).unwrap_or(class)),
    ))
}

/// Share of the heap, in percent, that a collection of all of it must free at least a part of.
const FULL_HEAP_PERCENT: u64 = 95;

/// What any server in Java logs: the end of its memory, and collections that free next to none of it.
fn java(line: &str) -> Option<Entry> {
    let error = "java.lang.OutOfMemoryError";
    if let Some((_, rest)) = line.split_once(error) {
        let reason = rest.strip_prefix(": ").unwrap_or_default();
        let subject = format!("OutOfMemoryError {}", name(&without_numbers(reason)));
        return Some(Entry::new(Severity::Defect, subject.trim_end().into()));
    }
    // `[7.812s][info][gc] GC(12) Pause Full (Allocation Failure) 63M->62M(64M) 81.125ms`
    let (_, full) = line.split_once(" Pause Full (")?;
    let (_, sizes) = full.split_once("->")?;
    let (after, rest) = sizes.split_once("M(")?;
    let (heap, _) = rest.split_once("M)")?;
    let (after, heap): (u64, u64) = (after.parse().ok()?, heap.parse().ok()?);
    let is_full = after.saturating_mul(100) >= heap.saturating_mul(FULL_HEAP_PERCENT);
    is_full.then(|| Entry::new(Severity::Defect, "heap full after a collection".into()))
}

/// The function of a Samba header at level 0: `2026/11/23 01:02:03.123456,  0, pid=7] ../source3/x.c:12(function)`.
fn samba_function(header: &str) -> Option<String> {
    let (inside, place) = header.split_once(']')?;
    let level = inside.split(',').nth(1)?.trim();
    if level != "0" {
        return None;
    }
    let (_, function) = place.rsplit_once('(')?;
    Some(function.trim_end_matches(')').to_string())
}
