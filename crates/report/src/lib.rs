//! A loaded run in, HTML, Markdown or terminal text out. Computes no statistics.
//!
//! ```text
//! words      sentences and numbers, the same in all three forms
//! page       the HTML page: sections from top to bottom
//! section    its part about one workload
//! chart      its charts, as data for the charting library
//! overview   workload by arm, the first table of a plan with several
//! curves     figures against the load, in words and numbers
//! scaling    figures against CPUs, likewise
//! markdown   for a mail or a pull request
//! terminal   for a terminal
//! ```
//! The page stands alone: it embeds its style, its script and the charting library, and its content
//! security policy forbids it every network request. Whatever comes from a plan, a server or a
//! console is text to it, never markup.

use record::rundir::Run;
use record::verdict::Judgement;

#[cfg(test)]
mod browser;
mod chart;
mod curves;
mod markdown;
mod overview;
mod page;
#[cfg(test)]
mod play;
mod scaling;
mod section;
mod terminal;
mod words;

/// A self-contained page of about 5 MB, most of it the charting library.
pub fn html(run: &Run, judgement: &Judgement) -> String {
    page::page(run, judgement)
}

/// For a mail or a pull request: GitHub's Markdown, readable as plain text too.
pub fn markdown(run: &Run, judgement: &Judgement) -> String {
    markdown::markdown(run, judgement)
}

/// For a terminal of `width` columns. Plain text with a line break at its end, without colours and
/// without the control characters that a title or a console may hold.
pub fn terminal(run: &Run, judgement: &Judgement, width: usize) -> String {
    terminal::terminal(run, judgement, width)
}

/// A table for a terminal of `width` columns, the first row its head, the first `left` columns at the left.
/// Where it is too wide, every row becomes a few lines of `name value`.
pub fn table(rows: &[Vec<String>], left: usize, width: usize) -> Vec<String> {
    terminal::table(rows, left, width)
}

/// Lines of at most `width` columns, the first after `lead`, the others as far in.
pub fn wrap(text: &str, lead: &str, width: usize) -> Vec<String> {
    terminal::wrap(text, lead, width)
}
