//! Mistakes in a user's input: place, value, remedy.

use std::fmt;

/// One mistake in a user's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file as the user named it.
    pub file: String,
    /// Line, from 1; 0 if the mistake has no line.
    pub line: usize,
    /// What is wrong, as a lowercase fragment with the value last.
    pub what: String,
    /// What to write instead; may be empty.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}", self.file, self.what)?,
            line => write!(out, "{}:{line}: {}", self.file, self.what)?,
        }
        if self.remedy.is_empty() {
            Ok(())
        } else {
            write!(out, " ({})", self.remedy)
        }
    }
}

/// All mistakes in a user's input, so that they are reported at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(out, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Proposes the known word nearest to what was typed, or lists them all.
pub fn remedy_among(typed: &str, known: &[&str]) -> String {
    match nearest(typed, known) {
        Some((distance, word)) if distance <= 1 + word.len() / 4 => {
            format!("did you mean {word:?}?")
        }
        Some(_) | None => format!("known: {}", known.join(", ")),
    }
}

/// The known word nearest to what was typed, and how many letters apart they are.
pub fn nearest<'w>(typed: &str, known: &[&'w str]) -> Option<(usize, &'w str)> {
    let words = known.iter();
    words
        .map(|word| (strsim::damerau_levenshtein(typed, word), *word))
        .min()
}
