//! JSON values that keep their place in the text, so that a problem has a line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::observation::FileFigures;

/// A value as written, expected to be a number.
pub(crate) type Raw<'t> = &'t RawValue;

/// An object with unique keys. JSON permits duplicates, and all but one of them would be lost.
#[derive(Debug, Default, Clone)]
pub(crate) struct Object<'t>(BTreeMap<String, Raw<'t>>);

impl<'t> Deref for Object<'t> {
    type Target = BTreeMap<String, Raw<'t>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'de: 't, 't> Deserialize<'de> for Object<'t> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Keys)
    }
}

/// Collects the keys of an object.
struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Object<'de>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut object = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, Raw<'de>>()? {
            if object.insert(key.clone(), value).is_some() {
                return Err(M::Error::custom(format!(
                    "the key {key:?} twice in one object"
                )));
            }
        }
        Ok(Object(object))
    }
}

impl<'t> Object<'t> {
    /// The string at a key, if it is a string.
    pub(crate) fn word(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// The number at a key, if it is finite.
    pub(crate) fn figure(&self, key: &str) -> Option<f64> {
        let value: f64 = self.get(key)?.get().parse().ok()?;
        value.is_finite().then_some(value)
    }

    /// The object at a key, if it is an object.
    pub(crate) fn object(&self, key: &str) -> Option<Object<'t>> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }
}

/// Replaces the bare `NaN` and `Infinity` that some tools write, and that JSON lacks, with `null`.
/// Line numbers stay the same.
pub(crate) fn with_nan_as_null(text: &str) -> Cow<'_, str> {
    const WORDS: [&str; 6] = ["NaN", "nan", "Infinity", "infinity", "inf", "Inf"];
    let (mut kept, mut rest, mut is_text) = (String::new(), text, false);
    while let Some(letter) = rest.chars().next() {
        let number = rest.strip_prefix('-').unwrap_or(rest);
        let word = WORDS
            .iter()
            .find(|word| !is_text && number.starts_with(**word));
        let length = match word {
            Some(word) => {
                kept.push_str("null");
                rest.len() - number.len() + word.len()
            }
            None if is_text && letter == '\\' => {
                let escaped = rest.chars().nth(1).map_or(0, char::len_utf8);
                kept.push_str(&rest[..=escaped]);
                1 + escaped
            }
            None => {
                is_text ^= letter == '"';
                kept.push(letter);
                letter.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    if kept == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(kept)
    }
}

/// A text with the offsets of its lines.
pub(crate) struct Lines<'t> {
    text: &'t str,
    /// Start of each line but the first, in bytes.
    begins: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let begins = ends.map(|(at, _)| at + 1).collect();
        Self { text, begins }
    }

    /// Line of a slice of the text, from 1.
    pub(crate) fn of(&self, part: &str) -> usize {
        // Raw values are slices of the text that they were read from.
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        self.at(offset)
    }

    /// Line at an offset in bytes, from 1.
    pub(crate) fn at(&self, offset: usize) -> usize {
        1 + self.begins.partition_point(|begin| *begin <= offset)
    }
}

/// Parses a number, or adds a problem with its line.
pub(crate) fn number(
    file: &mut FileFigures,
    lines: &Lines<'_>,
    raw: Raw<'_>,
    at: &str,
) -> Option<f64> {
    let line = lines.of(raw.get());
    file.number(raw.get(), line, at)
}

/// Parses the whole text, or adds a problem with line and column.
pub(crate) fn whole<'t, T: Deserialize<'t>>(file: &mut FileFigures, text: &'t str) -> Option<T> {
    match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(why) => {
            let message = why.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            let what = format!("not {} at column {}: {message}", file.format, why.column());
            file.wrong(why.line(), what, "export the file again");
            None
        }
    }
}
