//! Mistakes in the options, collected so that all of them are reported at once.

use std::time::Duration;

use base::input::problem::{Problem, Problems};
use base::input::units::show_duration;
use load::run;

use crate::load_cli::args::LoadArgs;
use crate::load_cli::options;
use crate::load_cli::ports::{Peak, Ports};
use base::secret::Secret;
use load::url::{Scheme, Url};

/// The shortest window and the shortest deadline.
pub(crate) const MIN_TIME: Duration = Duration::from_millis(1);

/// The longest window and the longest warm-up.
const MAX_TIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// Mistakes found so far.
pub(crate) struct Mistakes(pub(crate) Vec<Problem>);

impl Mistakes {
    fn add(&mut self, option: &str, what: String) {
        self.0.push(Problem {
            file: option.into(),
            line: 0,
            what,
            remedy: String::new(),
        });
    }

    /// Returns the value of an option, or adds the mistake.
    pub(crate) fn keep<T>(&mut self, option: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|what| self.add(option, what)).ok()
    }

    /// Like `keep`, for a file that may have several mistakes.
    pub(crate) fn keep_file<T>(&mut self, read: Result<T, Problems>) -> Option<T> {
        read.map_err(|problems| self.0.extend(problems.0)).ok()
    }

    /// Checks amounts and times.
    pub(crate) fn amounts(&mut self, args: &LoadArgs) {
        let amounts = [
            ("-c", "connections", u64::from(args.connections)),
            ("-t", "client threads", args.threads.into()),
            ("-n", "requests", args.requests.unwrap_or(u64::MAX)),
            ("--streams", "streams", args.streams.into()),
        ];
        for (option, noun, amount) in amounts {
            if amount == 0 {
                self.add(option, format!("too few {noun}: 0 (ask for at least 1)"));
            }
        }
        if let Some(window) = args.duration.filter(|window| *window < MIN_TIME) {
            let shown = show_duration(window);
            let what = format!("window too short: {shown} (measure for at least 1ms)");
            self.add("-d", what);
        }
        let times = [
            ("-d", "window", args.duration),
            ("--warmup", "warm-up", args.warmup),
        ];
        for (option, noun, time) in times {
            if let Some(time) = time.filter(|time| MAX_TIME < *time) {
                let shown = show_duration(time);
                let why = "at most 30 days, of which the seconds take 2 GB of memory";
                self.add(option, format!("{noun} too long: {shown} ({why})"));
            }
        }
        self.keep("--deadline", check_deadline(args.deadline));
    }

    /// Checks for contradicting options that clap's rules cannot express.
    pub(crate) fn contradictions(&mut self, args: &LoadArgs, url: Option<&Url>) {
        let not_over_http2 = [
            ("--script", args.script.is_some()),
            ("--slow", args.slow.is_some()),
            ("--no-keepalive", args.no_keepalive),
        ];
        let not_over_http2 = given(&not_over_http2);
        if args.http2 && !not_over_http2.is_empty() {
            let remedy = "leave that out, or go over HTTP/1.1";
            let what = format!("not over HTTP/2: {} ({remedy})", not_over_http2.join(", "));
            self.add("--http2", what);
        }
        if args.secret_file.is_some() && args.coordinate.is_empty() && args.worker.is_none() {
            let what = "no other host is to know it (give --coordinate or --worker as well)";
            self.add("--secret-file", what.into());
        }
        let only_over_https = [
            ("--insecure", args.insecure),
            ("--no-resume", args.no_resume),
        ];
        if url.is_some_and(|url| url.scheme == Scheme::Http) {
            for option in given(&only_over_https) {
                let what = "nothing is encrypted over http:// (leave it out, or write https://)";
                self.add(option, what.into());
            }
        }
    }

    /// Checks that each host gets a part of the load. The hosts themselves check ports and descriptors.
    pub(crate) fn hosts(&mut self, args: &LoadArgs, hosts: &[String]) {
        if let Some(path) = &args.secret_file {
            self.keep("--secret-file", Secret::read(path));
        }
        for (index, host) in hosts.iter().enumerate() {
            if hosts[..index].contains(host) {
                let what = format!("host named twice: {host} (name each once)");
                self.add("--coordinate", what);
            }
        }
        let count = hosts.len() as u64;
        let divided = [
            ("-c", "connections", u64::from(args.connections)),
            ("-n", "requests", args.requests.unwrap_or(u64::MAX)),
        ];
        for (option, noun, amount) in divided {
            if 0 < amount && amount < count {
                let what = format!("fewer {noun} than hosts: {amount} (ask for {count} or more)");
                self.add(option, what);
            }
        }
    }

    /// Checks that this host has enough ports and descriptors; `sources` is the number of source
    /// addresses.
    pub(crate) fn resources(&mut self, peak: Peak, sources: usize) {
        let ports = match Ports::read(sources) {
            Ok(ports) => ports,
            Err(why) => return self.add("-c", format!("{why:#}")),
        };
        let checks = [
            ("-c", ports.check_connections(peak)),
            ("-c", run::allow_connections(peak.connections)),
            ("--rate", ports.check_rate(peak)),
        ];
        for (option, checked) in checks {
            self.keep(option, checked.map_err(|why| format!("{why:#}")));
        }
    }
}

/// The options that the user gave.
fn given<'o>(options: &[(&'o str, bool)]) -> Vec<&'o str> {
    let options = options.iter().filter(|(_, is_given)| *is_given);
    options.map(|(option, _)| *option).collect()
}

fn check_deadline(deadline: Duration) -> Result<(), String> {
    let shown = show_duration(deadline);
    if deadline < MIN_TIME {
        Err(format!(
            "deadline too short: {shown} (allow at least 1ms: below that the client's own timers decide what is late)"
        ))
    } else if options::MAX_LATENCY < deadline {
        Err(format!(
            "deadline too long: {shown} (allow at most 1h: longer latencies are not told apart)"
        ))
    } else {
        Ok(())
    }
}
