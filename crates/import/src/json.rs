//! Numbers in JSON keep their place in the text, so that a mistake has a line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::observation::FileFigures;

/// A value as it is written, where a number belongs.
pub(crate) type Raw<'t> = &'t RawValue;

/// An object that has each key once: JSON allows more, and all but one of them would be lost.
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
    /// The text of a key, if it holds a text.
    pub(crate) fn word(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// The number of a key, if it holds a finite one.
    pub(crate) fn figure(&self, key: &str) -> Option<f64> {
        let value: f64 = self.get(key)?.get().parse().ok()?;
        value.is_finite().then_some(value)
    }

    /// The object of a key, if it holds one.
    pub(crate) fn object(&self, key: &str) -> Option<Object<'t>> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }
}

/// The text with `null` for the bare `NaN` and `Infinity` that some tools write and JSON does not know.
/// Lines stay where they are.
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

/// A text that knows where its lines begin.
pub(crate) struct Lines<'t> {
    text: &'t str,
    /// Where each line but the first begins, in bytes.
    begins: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let begins = ends.map(|(at, _)| at + 1).collect();
        Self { text, begins }
    }

    /// Line of a part of the text, counted from 1.
    pub(crate) fn of(&self, part: &str) -> usize {
        // Raw values are slices of the text that they were read from.
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        self.at(offset)
    }

    /// Line of a place in bytes.
    pub(crate) fn at(&self, offset: usize) -> usize {
        1 + self.begins.partition_point(|begin| *begin <= offset)
    }
}

/// The number at a place of the text, or a note that there is none.
pub(crate) fn number(
    found: &mut FileFigures,
    lines: &Lines<'_>,
    raw: Raw<'_>,
    at: &str,
) -> Option<f64> {
    let line = lines.of(raw.get());
    found.number(raw.get(), line, at)
}

/// The whole text in a form, or a note of what does not fit, with its line and column.
pub(crate) fn whole<'t, T: Deserialize<'t>>(found: &mut FileFigures, text: &'t str) -> Option<T> {
    match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(why) => {
            let said = why.to_string();
            let said = said.split(" at line ").next().unwrap_or_default();
            let what = format!("not {} at column {}: {said}", found.format, why.column());
            found.wrong(why.line(), what, "export the file again");
            None
        }
    }
}
