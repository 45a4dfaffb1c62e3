//! The form of a message: the kernel's format string, with marks for the parts that distinguish defects.
//!
//! | in a form | stands for |
//! |---|---|
//! | `%s` | any text, also empty |
//! | `%d` | a decimal number |
//! | `%x` | a hexadecimal number, with or without `0x` |
//! | `%F` | a function with its offset, `tcp_ack+0x12/0x340`: the top frame |
//! | `%N` | any text that names the subject, such as a device or a function; kept verbatim, and preferred to a frame |
//! | `%P` | like `%N`, but without its numbers: a program, a sentence |
//! | `%S` | any text that names the subject, without its numbers; used if no frame is found |
//!
//! A form matches at the beginning of a message and may end before it. Text is matched as short as possible.

use crate::frame;

/// What a form extracts from a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Names<'a> {
    /// `%F`
    pub function: Option<&'a str>,
    /// `%N`
    pub name: Option<&'a str>,
    /// `%P`
    pub program: Option<&'a str>,
    /// `%S`
    pub spare: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Literal(&'static str),
    Text(Mark),
    Decimal,
    Hexadecimal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    None,
    Function,
    Name,
    Program,
    Spare,
}

/// A parsed form.
#[derive(Debug)]
pub(crate) struct Form {
    parts: Vec<Part>,
}

impl Form {
    /// # Panics
    /// If a form has a letter that the table above lacks; forms are part of the program.
    pub(crate) fn new(form: &'static str) -> Self {
        let mut parts = Vec::new();
        let mut rest = form;
        while let Some(at) = rest.find('%') {
            if at > 0 {
                parts.push(Part::Literal(&rest[..at]));
            }
            parts.push(match &rest[at + 1..at + 2] {
                "s" => Part::Text(Mark::None),
                "F" => Part::Text(Mark::Function),
                "N" => Part::Text(Mark::Name),
                "P" => Part::Text(Mark::Program),
                "S" => Part::Text(Mark::Spare),
                "d" => Part::Decimal,
                "x" => Part::Hexadecimal,
                other => panic!("a form knows no %{other}: {form}"),
            });
            rest = &rest[at + 2..];
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest));
        }
        Self { parts }
    }

    /// The longest literal that every message of this form contains.
    pub(crate) fn needle(&self) -> &'static str {
        let literals = self.parts.iter().filter_map(|part| match part {
            Part::Literal(literal) => Some(*literal),
            Part::Text(_) | Part::Decimal | Part::Hexadecimal => None,
        });
        literals.max_by_key(|literal| literal.len()).unwrap_or("")
    }

    /// What the form extracts from a message; `None` if the message has another form.
    ///
    /// Each piece between two texts is matched at its first occurrence. That suffices because a form has an open end:
    /// a later occurrence leaves less for what follows.
    pub(crate) fn names<'a>(&self, message: &'a str) -> Option<Names<'a>> {
        let mut names = Names::default();
        let mut offset = 0;
        let mut rest = self.parts.as_slice();
        while let Some(part) = rest.first() {
            let Part::Text(mark) = part else {
                let piece = piece(rest);
                offset += length(piece, &message[offset..])?;
                rest = &rest[piece.len()..];
                continue;
            };
            rest = &rest[1..];
            let piece = piece(rest);
            let (text, next) = find(piece, &message[offset..])?;
            store(&mut names, *mark, text)?;
            offset += next;
            rest = &rest[piece.len()..];
        }
        Some(names)
    }
}

/// The parts before the next text.
fn piece(parts: &[Part]) -> &[Part] {
    let end = parts.iter().position(|part| matches!(part, Part::Text(_)));
    &parts[..end.unwrap_or(parts.len())]
}

/// How many bytes at the beginning of a text the piece matches.
fn length(piece: &[Part], text: &str) -> Option<usize> {
    let mut at = 0;
    for part in piece {
        let rest = &text[at..];
        at += match part {
            Part::Literal(literal) => rest.starts_with(literal).then_some(literal.len())?,
            Part::Decimal => {
                let sign = usize::from(rest.starts_with('-'));
                sign + digits(&rest[sign..], u8::is_ascii_digit)?
            }
            Part::Hexadecimal => {
                let prefix = if rest.starts_with("0x") { 2 } else { 0 };
                prefix + digits(&rest[prefix..], u8::is_ascii_hexdigit)?
            }
            Part::Text(_) => unreachable!("a piece ends before a text"),
        };
    }
    Some(at)
}

fn digits(text: &str, is_digit: impl Fn(&u8) -> bool) -> Option<usize> {
    let count = text.bytes().take_while(|byte| is_digit(byte)).count();
    (count > 0).then_some(count)
}

/// The text before the first occurrence of a piece, and the end of that occurrence.
fn find<'a>(piece: &[Part], text: &'a str) -> Option<(&'a str, usize)> {
    match piece.first() {
        None => Some((text, text.len())),
        Some(Part::Literal(literal)) => {
            let mut from = 0;
            loop {
                let at = from + text[from..].find(literal)?;
                if let Some(length) = length(piece, &text[at..]) {
                    return Some((&text[..at], at + length));
                }
                from = at + 1;
                while !text.is_char_boundary(from) {
                    from += 1;
                }
            }
        }
        Some(_) => text.char_indices().find_map(|(at, _)| {
            let length = length(piece, &text[at..])?;
            Some((&text[..at], at + length))
        }),
    }
}

fn store<'a>(names: &mut Names<'a>, mark: Mark, text: &'a str) -> Option<()> {
    match mark {
        Mark::None => {}
        Mark::Name => names.name = Some(text),
        Mark::Program => names.program = Some(text),
        Mark::Spare => names.spare = Some(text),
        Mark::Function => names.function = Some(frame::function(text)?),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_two_marks_is_as_short_as_it_can_be() {
        let form = Form::new("INFO: task %S:%d blocked%s for more than %d seconds");
        let message = "INFO: task kworker/1:2:345 blocked in I/O wait for more than 120 seconds.";
        let names = form.names(message).unwrap();
        assert_eq!(names.spare, Some("kworker/1:2"));
        assert_eq!(form.needle(), " for more than ");
        assert!(
            form.names("INFO: task a:b blocked for more than 1 seconds")
                .is_none()
        );
        assert!(
            form.names("  INFO: task a:1 blocked for more than 1 seconds")
                .is_none()
        );
    }

    #[test]
    fn numbers_are_numbers_and_functions_have_an_offset() {
        let form = Form::new("at %x in %F of %N");
        let names = form
            .names("at 0xffff8881 in tcp_ack.isra.0+0x12/0x340 [ipv4] of eth0")
            .unwrap();
        assert_eq!(names.function, Some("tcp_ack"));
        assert_eq!(names.name, Some("eth0"));
        assert!(form.names("at xyz in tcp_ack+0x1/0x2 of eth0").is_none());
        assert!(form.names("at 12 in tcp_ack of eth0").is_none());
    }

    #[test]
    fn text_is_not_cut_within_a_character() {
        let form = Form::new("%s%d: ü%d");
        assert!(form.names("ééé7: ü1").is_some());
        assert!(form.names("ééé: üü").is_none());
        assert!(Form::new("%sé%d").names("ééé7").is_some());
    }
}
