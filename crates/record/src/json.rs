//! JSON that somebody else may have written.
//!
//! A text of two bytes can become a structure of a hundred, so a limit of bytes bounds no memory: values are counted before they are
//! read. How deep values lie in each other is bounded by `serde_json`.

use serde::de::{DeserializeOwned, Error as _};

/// Reads a text of at most so many values, those within others counted too.
///
/// # Errors
/// As `serde_json::from_slice`, and for more values.
pub(crate) fn read<T: DeserializeOwned>(text: &[u8], most_values: usize) -> serde_json::Result<T> {
    if count(text) > most_values {
        return Err(serde_json::Error::custom(format!(
            "more than {most_values} values (put back what bakeoff has written)"
        )));
    }
    serde_json::from_slice(text)
}

/// How many values a text has, or would have if it were whole. A key counts as one with its value.
pub(crate) fn count(text: &[u8]) -> usize {
    let (mut count, mut in_text, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn values_are_counted_and_texts_are_no_values() {
        for (text, want) in [
            ("7", 1),
            ("[1, 2, 3]", 4),
            (r#"{"a": [1, {}], "b": "x, [{\", y"}"#, 6),
        ] {
            assert_eq!(count(text.as_bytes()), want, "{text}");
            assert!(read::<Value>(text.as_bytes(), want).is_ok(), "{text}");
            let why = read::<Value>(text.as_bytes(), want - 1).unwrap_err();
            assert_eq!(
                why.to_string(),
                format!(
                    "more than {} values (put back what bakeoff has written)",
                    want - 1
                )
            );
        }
    }
}
