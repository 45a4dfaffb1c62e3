//! Bounds of single values that a guest, or somebody else, has written.

use base::input::text;

/// What is wrong with it, value last.
pub type Checked = Result<(), String>;

/// Highest count, size or time in a record: what a JSON number holds in any reader. A thousand of them, and
/// the 64 bits that sums have, do not overflow.
pub(crate) const COUNT_LIMIT: u64 = 1 << 53;

/// Highest figure. Products and squares of such figures are finite.
pub(crate) const FIGURE_LIMIT: f64 = 1e100;

/// Most figures of a trial, and most curves.
pub(crate) const FIGURES: usize = 1000;

/// Most client threads.
pub(crate) const THREADS: usize = 65_536;

/// Most services, and most names of a kind of counter, in one sample.
pub(crate) const NAMES: usize = 1000;

/// Longest word of a program about itself, in bytes: a version, a unit, why an engine is the slower one.
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

/// Short text in one line.
pub(crate) fn words(what: &str, said: &mut String) -> Checked {
    long(what, said, WORDS_BYTES)?;
    *said = text::clean_line(said);
    Ok(())
}

pub(crate) fn long(what: &str, said: &str, limit_bytes: usize) -> Checked {
    if said.len() > limit_bytes {
        let bytes = said.len();
        return Err(format!("longer than {limit_bytes} bytes: {what}, {bytes}"));
    }
    Ok(())
}

/// A text that is wrong, as it may stand in a message.
pub(crate) fn quoted(wrong: &str) -> String {
    format!("{:?}", text::clean_line(text::cut(wrong, 80)))
}

/// Counts that are listed once, to be checked by their names.
pub(crate) trait Counts {
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

/// Lists all fields of a table of counts by name: one that is missing does not compile. Those of `sum` can be added up too.
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
