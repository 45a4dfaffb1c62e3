//! JSON from untrusted sources.
//!
//! Two bytes of text can become a hundred bytes of memory, so a limit of bytes is not enough: values are counted before they are
//! parsed. `serde_json` limits their nesting.

use serde::de::{DeserializeOwned, Error as _};

/// Parses a text of at most `most_values` values, including nested ones.
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

/// Number of values in a text, even a truncated one. A key and its value count as one.
pub(crate) fn count(text: &[u8]) -> usize {
    let (mut count, mut in_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
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
    fn values_are_counted_outside_of_strings() {
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
