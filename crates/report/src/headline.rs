//! What the page says first of an arm, and the badge of a verdict.

use maud::{Markup, html};

use crate::words;

/// A headline with its reason, and its cause where that is known.
pub(crate) fn headline(headline: &words::Headline<'_>) -> Markup {
    html! {
        div class={ "headline " (headline.word) } {
            p { (pill(headline.word)) }
            p.said { (unbroken(&headline.said)) "." }
            @if !headline.found.is_empty() {
                ul { @for said in &headline.found { li { (unbroken(said)) } } }
            }
            p.sub { (headline.reason) }
            @for said in &headline.defects { p.limit { (unbroken(said)) "." } }
            @for said in &headline.accepted { p.limit { (unbroken(said)) "." } }
            @for said in &headline.limits { p.limit { (unbroken(said)) "." } }
            @if let Some(cause) = &headline.cause { p.cause { b { "Why" } " " (unbroken(cause)) "." } }
        }
    }
}

/// A number stays with its percent sign.
pub(crate) fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

/// A verdict, or what several come to, as a badge.
pub(crate) fn pill(word: &str) -> Markup {
    html! { span class={ "pill " (word) } { (word) } }
}
