//! Untrusted text: what may be shown of it, and what may be a name.

use std::fmt::Write as _;
use std::iter::Peekable;

/// Longest name of a figure, a curve or a service, in bytes.
const NAME_BYTES: usize = 100;

/// Longest release of a kernel, in bytes; `uname` has space for 64.
const RELEASE_BYTES: usize = 64;

const ESCAPE: char = '\u{1b}';

/// The text without terminal escapes and control characters; line breaks and tabs stay.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            ESCAPE => skip_escape(&mut rest),
            // Control sequence introducer in one character.
            '\u{9b}' => skip_sequence(&mut rest),
            '\n' | '\t' => clean.push(letter),
            letter if letter.is_control() || is_misleading(letter) => {}
            letter => clean.push(letter),
        }
    }
    clean
}

/// Like `clean`, in one line.
pub fn clean_line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

/// The text with control characters written out, as `\u{1b}`, so that no terminal or browser interprets them; line breaks and tabs
/// stay. All output about a run passes through this once, as a whole: terminal, HTML and Markdown.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => escaped.push(letter),
            letter if letter.is_control() || is_misleading(letter) => {
                escaped.extend(letter.escape_unicode());
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Like `escaped` for JSON, where such characters occur only in strings: each is written as JSON does, as `\u202e`.
pub fn escaped_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter != '\n' && (letter.is_control() || is_misleading(letter)) {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// The beginning of a text: at most `limit_bytes`, whole characters only.
pub fn cut(text: &str, limit_bytes: usize) -> &str {
    let mut end = limit_bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The text as one word of a shell command, quoted if necessary.
pub fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+:=@,%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Characters that change the direction of writing (UAX #9) or are invisible, so that a text looks different from its content, and
/// separators of lines and paragraphs, which start a line within a text.
fn is_misleading(letter: char) -> bool {
    matches!(
        letter,
        '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Skips what follows an escape (ECMA-48): a sequence, a string with its terminator, or a single character.
fn skip_escape(rest: &mut Peekable<impl Iterator<Item = char>>) {
    match rest.next_if(|letter| !letter.is_control()) {
        Some('[') => skip_sequence(rest),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(rest),
        Some(' '..='/') => {
            while rest
                .next_if(|letter| (' '..='/').contains(letter))
                .is_some()
            {}
            rest.next_if(|letter| !letter.is_control());
        }
        Some(_) | None => {}
    }
}

/// Skips parameters and one final character.
fn skip_sequence(rest: &mut Peekable<impl Iterator<Item = char>>) {
    while rest
        .next_if(|letter| (' '..='?').contains(letter))
        .is_some()
    {}
    rest.next_if(|letter| ('@'..='~').contains(letter));
}

/// Skips up to a bell or a string terminator; an unterminated string ends with its line.
fn skip_string(rest: &mut Peekable<impl Iterator<Item = char>>) {
    while rest.next_if(|letter| !letter.is_control()).is_some() {}
    match rest.peek() {
        Some('\u{7}' | '\u{9c}') => {
            rest.next();
        }
        Some(&ESCAPE) => {
            rest.next();
            rest.next_if_eq(&'\\');
        }
        Some(_) | None => {}
    }
}

/// Whether the text is a valid name of a figure, a curve or a service: printable ASCII without white space at its ends.
pub fn is_name(text: &str) -> bool {
    let printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    !text.is_empty()
        && text.len() <= NAME_BYTES
        && text.bytes().all(printable)
        && text.trim() == text
}

/// Whether the text is a valid kernel release, which becomes the name of a directory: `6.1.0-40-cloud-amd64`.
pub fn is_release(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".+_~-".contains(&byte);
    !text.is_empty()
        && text.len() <= RELEASE_BYTES
        && text.bytes().all(plain)
        && !text.starts_with(['.', '-'])
        && !text.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_quoted_word_unchanged() {
        for (text, want) in [
            ("runs/compare-6.1.toml", "runs/compare-6.1.toml"),
            ("my runs/one", "'my runs/one'"),
            ("it's", r"'it'\''s'"),
            ("~/runs", "'~/runs'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), want);
        }
    }

    #[test]
    fn escapes_are_removed_and_words_stay() {
        for (text, want) in [
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]52;c;never ended\nnext", "\nnext"),
            ("\u{1b}(0lqk", "lqk"),
            ("\u{9b}2Jgone", "gone"),
            ("\u{1b}c\u{1b}", ""),
            ("a\rb\u{8}c\u{7f}", "abc"),
            ("tab\tline\n", "tab\tline\n"),
            ("\u{202e}txt.exe", "txt.exe"),
            ("größer µs", "größer µs"),
        ] {
            assert_eq!(clean(text), want, "{text:?}");
        }
    }

    #[test]
    fn json_stays_equivalent_without_control_characters() {
        for (json, want) in [
            (
                "{\n  \"a\": \"b\u{9b}31m\"\n}",
                "{\n  \"a\": \"b\\u009b31m\"\n}",
            ),
            ("[\"\u{7f}\u{202e}\u{200b}\"]", r#"["\u007f\u202e\u200b"]"#),
            ("\"\u{e0041}\"", r#""\udb40\udc41""#),
            ("\"größer \\n µs\"", "\"größer \\n µs\""),
        ] {
            assert_eq!(escaped_json(json), want);
        }
    }

    #[test]
    fn control_characters_are_written_out() {
        for (text, want) in [
            ("\u{1b}[2Jgone\u{7}", r"\u{1b}[2Jgone\u{7}"),
            ("a\rb\u{9b}c\u{202e}d", r"a\u{d}b\u{9b}c\u{202e}d"),
            (
                "two\nlines\tof \"größer µs\"",
                "two\nlines\tof \"größer µs\"",
            ),
        ] {
            assert_eq!(escaped(text), want);
        }
    }

    #[test]
    fn a_release_cannot_name_another_directory() {
        for good in [
            "6.1.0-40-cloud-amd64",
            "7.2.3+deb14-amd64",
            "6.9.1+",
            "7.3~rc1",
        ] {
            assert!(is_release(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "6.1/../..",
            "6..1",
            "-x",
            "6.1 x",
            "6\u{1b}",
            &"6".repeat(65),
        ] {
            assert!(!is_release(bad), "{bad}");
        }
    }

    #[test]
    fn names_are_short_and_can_be_printed() {
        for good in ["latency-p99", "kept-of-peak", "p 99"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", " x", "x\n", "µ", "\u{1b}[1m", &"x".repeat(101)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_cut_keeps_whole_characters() {
        assert_eq!(cut("aµ", 2), "a");
        assert_eq!(cut("aµ", 3), "aµ");
    }
}
