//! Parses the summaries of clients.

use anyhow::{Context as _, Result, bail};

/// A client by its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tool {
    Epoll,
    Uring,
    Wrk,
    H2load,
    Ab,
    Oha,
}

/// Counts of a client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Count {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) per_s: f64,
}

impl Tool {
    pub(crate) const ALL: [Self; 6] = [
        Self::Epoll,
        Self::Uring,
        Self::Wrk,
        Self::H2load,
        Self::Ab,
        Self::Oha,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Epoll => "bakeoff, epoll",
            Self::Uring => "bakeoff, io_uring",
            Self::Wrk => "wrk",
            Self::H2load => "h2load",
            Self::Ab => "ab",
            Self::Oha => "oha",
        }
    }

    /// Reads the summary that the client printed.
    pub(crate) fn count(self, text: &str) -> Result<Count> {
        let count = match self {
            Self::Epoll | Self::Uring => bakeoff(self, text),
            Self::Wrk => wrk(text),
            Self::H2load => h2load(text),
            Self::Ab => ab(text),
            Self::Oha => oha(text),
        };
        count.with_context(|| format!("cannot read the summary of {}: {text:?}", self.name()))
    }
}

fn bakeoff(tool: Tool, text: &str) -> Result<Count> {
    let result: record::load::LoadResult = serde_json::from_str(text)?;
    if tool == Tool::Uring && result.engine != "io_uring" {
        bail!("io_uring cannot be measured here: {}", result.engine_note);
    }
    Ok(Count {
        requests: result.ok,
        failed: result.fault_count() + result.unsent,
        per_s: result.ok_per_s(),
    })
}

fn wrk(text: &str) -> Result<Count> {
    let not_ok = after(text, "Non-2xx or 3xx responses:").unwrap_or(0.0);
    let errors = text.lines().find(|line| line.contains("Socket errors:"));
    let errors = errors.map_or(0, |line| numbers(line).sum());
    Ok(Count {
        requests: before(text, " requests in ")?,
        failed: not_ok as u64 + errors,
        per_s: after(text, "Requests/sec:")?,
    })
}

fn h2load(text: &str) -> Result<Count> {
    let line = text.lines().find(|line| line.starts_with("requests:"));
    let line = line.context("no line of requests")?;
    let finished = text.lines().find(|line| line.starts_with("finished in "));
    Ok(Count {
        requests: before(line, " succeeded")?,
        failed: before(line, " failed")?,
        per_s: before(finished.context("no end")?, " req/s")?,
    })
}

fn ab(text: &str) -> Result<Count> {
    Ok(Count {
        requests: after(text, "Complete requests:")?,
        failed: after(text, "Failed requests:")?,
        per_s: after(text, "Requests per second:")?,
    })
}

fn oha(text: &str) -> Result<Count> {
    let output: serde_json::Value = serde_json::from_str(text)?;
    let codes = output["statusCodeDistribution"]
        .as_object()
        .context("no status codes")?;
    let sum = |is_ok: bool| {
        let matching = codes.iter().filter(|(code, _)| (*code == "200") == is_ok);
        let counts = matching.filter_map(|(_, count)| count.as_u64());
        counts.sum::<u64>()
    };
    let per_s = output["summary"]["requestsPerSec"].as_f64();
    Ok(Count {
        requests: sum(true),
        failed: sum(false),
        per_s: per_s.context("no rate")?,
    })
}

/// The first number after a label.
pub(crate) fn after<T: std::str::FromStr>(text: &str, label: &str) -> Result<T> {
    let (_, rest) = text
        .split_once(label)
        .with_context(|| format!("no {label:?}"))?;
    let word = rest.split_whitespace().next().unwrap_or_default();
    let number = word
        .trim_end_matches(|end: char| !end.is_ascii_digit())
        .parse()
        .ok();
    number.with_context(|| format!("no number after {label:?}"))
}

/// The number that ends right before a label.
fn before<T: std::str::FromStr>(text: &str, label: &str) -> Result<T> {
    let (rest, _) = text
        .split_once(label)
        .with_context(|| format!("no {label:?}"))?;
    let word = rest.split_whitespace().next_back().unwrap_or_default();
    let number = word.parse().ok();
    number.with_context(|| format!("no number before {label:?}"))
}

/// All whole numbers of a line.
fn numbers(line: &str) -> impl Iterator<Item = u64> {
    line.split(|each: char| !each.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
}
