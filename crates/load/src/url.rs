//! Paths as people type them.

use std::fmt::Write as _;

/// A path and query as they go on the wire: what is no visible ASCII character is written as `%XX`,
/// byte by byte (RFC 3986, section 2.1). What is escaped already stays as it is; a control
/// character is a mistake.
pub fn encode(path: &str) -> Result<String, String> {
    if path.chars().any(char::is_control) {
        return Err(format!(
            "control character in the path: {path:?} (remove it)"
        ));
    }
    let mut text = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_graphic() {
            text.push(byte.into());
        } else {
            _ = write!(text, "%{byte:02X}");
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_out_in_ascii() {
        assert_eq!(encode("/ü b?x=%20&y"), Ok("/%C3%BC%20b?x=%20&y".into()));
        assert!(
            encode("/a\nb")
                .unwrap_err()
                .starts_with("control character")
        );
    }
}
