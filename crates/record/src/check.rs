//! Bounds of single values written by a guest or another program.

use base::input::text;

/// The error says what is wrong, value last.
pub type Checked = Result<(), String>;

/// Highest count, size or time in a record: every JSON reader represents it exactly, and a sum of a thousand fits in 64 bits.
pub(crate) const COUNT_LIMIT: u64 = 1 << 53;

/// Highest absolute figure. Products and squares of such figures are finite.
pub(crate) const FIGURE_LIMIT: f64 = 1e100;

/// Most figures of a trial, and most of its curves.
pub(crate) const FIGURES: usize = 1000;

/// Most client threads.
pub(crate) const THREADS: usize = 65_536;

/// Most services in a sample, and most names of each kind of counter.
pub(crate) const NAMES: usize = 1000;

/// Longest text in which a program describes itself, in bytes: a version, a unit, the reason for a slower engine.
pub(crate) const WORDS_BYTES: usize = 4 << 10;

pub(crate) fn is_measurable(name: &str, value: f64) -> Checked {
    is_finite(name, value)?;
    if value < 0.0 {
        return Err(format!("figure below zero: {name} {value}"));
    }
    Ok(())
}

pub(crate) fn is_finite(name: &str, value: f64) -> Checked {
    if value.is_nan() {
        return Err(format!(
            "figure is not a number: {}",
            text::clean_line(name)
        ));
    }
    if value.abs() > FIGURE_LIMIT {
        let name = text::clean_line(name);
        return Err(format!("figure beyond all measure: {name} {value}"));
    }
    Ok(())
}

pub(crate) fn counts(named: &[(&str, u64)]) -> Checked {
    named
        .iter()
        .try_for_each(|(name, value)| count(name, *value))
}

pub(crate) fn count(name: &str, value: u64) -> Checked {
    if value > COUNT_LIMIT {
        return Err(format!("number beyond all measure: {name} {value}"));
    }
    Ok(())
}

pub(crate) fn most(what: &str, count: usize, limit: usize) -> Checked {
    if count > limit {
        return Err(format!("more than {limit} {what}: {count}"));
    }
    Ok(())
}

pub(crate) fn is_name(what: &str, name: &str) -> Checked {
    if !text::is_name(name) {
        return Err(format!("not a name of {what}: {}", quoted(name)));
    }
    Ok(())
}

/// Checks a short text, and removes control characters from it.
pub(crate) fn short_text(what: &str, text: &mut String) -> Checked {
    length(what, text, WORDS_BYTES)?;
    *text = text::clean_line(text);
    Ok(())
}

pub(crate) fn length(what: &str, text: &str, limit_bytes: usize) -> Checked {
    let bytes = text.len();
    if bytes > limit_bytes {
        return Err(format!("longer than {limit_bytes} bytes: {what}, {bytes}"));
    }
    Ok(())
}

/// An invalid text, shortened and cleaned for a message.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", text::clean_line(text::cut(text, 80)))
}

/// A struct of counts, listed with their names so that each can be checked.
pub(crate) trait Counts {
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

/// Lists all fields of a struct of counts; a missing field is a compile error. With `sum`, structs can be added up too.
macro_rules! counts_of {
    ($table:ident: $($field:ident)*) => {
        impl $crate::check::Counts for $table {
            fn counts(&self) -> Vec<(&'static str, u64)> {
                let Self { $($field),* } = *self;
                vec![$((stringify!($field), $field)),*]
            }
        }
    };
    (sum $table:ident: $($field:ident)*) => {
        counts_of!($table: $($field)*);

        impl $table {
            fn append(&mut self, later: &Self) {
                $(self.$field = self.$field.saturating_add(later.$field);)*
            }
        }
    };
}
pub(crate) use counts_of;
