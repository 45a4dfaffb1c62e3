//! The top of a defect: the top frame or a name, without what differs between two reports of the same defect.

use crate::form::Names;
use crate::frame::{self, Place};

/// Longest name, in bytes.
const NAME_BYTES: usize = 160;

/// A text with `#` in place of its numbers and addresses.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut folded = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = number(rest, folded.chars().next_back());
        if length > 0 {
            folded.push('#');
            rest = &rest[length..];
        } else {
            folded.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    folded
}

/// Length of the number at a text's beginning: `0x1f`, `1a2b3c4d` with eight digits or more, or decimal digits.
fn number(text: &str, before: Option<char>) -> usize {
    let hexadecimal = |text: &str| text.bytes().take_while(u8::is_ascii_hexdigit).count();
    if let Some(rest) = text.strip_prefix("0x") {
        let digits = hexadecimal(rest);
        if digits > 0 {
            return 2 + digits;
        }
    }
    let within_word = before.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let digits = hexadecimal(text);
    let has_decimal = text[..digits].bytes().any(|byte| byte.is_ascii_digit());
    if digits >= 8 && has_decimal && !within_word {
        return digits;
    }
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// A name that fits into a table.
pub(crate) fn name(text: &str) -> String {
    let text = text.trim().trim_end_matches(['.', ',', ':', ';', '!']);
    let mut end = text.len().min(NAME_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_string()
}

/// The search for the top of a report, line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Top {
    name: Option<String>,
    /// The first function that identifies the defect.
    frame: Option<String>,
    /// The first function that does not, in case there is no other.
    check: Option<String>,
    /// A name to use if there is no frame.
    spare: Option<String>,
}

impl Top {
    /// Takes what a form extracted.
    pub(crate) fn take_names(&mut self, names: Names<'_>) {
        if let Some(function) = names.function {
            self.take_function(function, frame::is_check(function));
        }
        let name_or_program = names.name.map(name);
        let name_or_program =
            name_or_program.or_else(|| names.program.map(|text| name(&without_numbers(text))));
        self.name = self.name.take().or(name_or_program);
        let spare = names.spare.map(|text| {
            let is_file = [".c", ".h"].iter().any(|ending| text.ends_with(ending));
            if is_file {
                name(text)
            } else {
                name(&without_numbers(text))
            }
        });
        self.spare = self.spare.take().or(spare);
    }

    /// Takes a place that a line of the report names. `is_chain` means that the lock validator still lists how earlier
    /// locks were taken; frames before the relevant trace are ignored.
    pub(crate) fn take_place(&mut self, place: Place<'_>, is_chain: bool) {
        match place {
            Place::Instruction(function) => self.take_function(function, frame::is_check(function)),
            Place::Frame(function) if !is_chain => {
                self.take_function(function, frame::is_passage(function));
            }
            Place::Acquired(function) if is_chain => {
                self.take_function(function, frame::is_passage(function));
            }
            Place::Frame(_) | Place::Acquired(_) | Place::Doubtful => {}
        }
    }

    fn take_function(&mut self, function: &str, is_check: bool) {
        if is_check {
            self.check.get_or_insert_with(|| function.to_string());
        } else {
            self.frame.get_or_insert_with(|| function.to_string());
        }
    }

    /// The best top so far; empty if there is none.
    pub(crate) fn get(&self) -> String {
        let best = self.name.as_ref().or(self.frame.as_ref());
        let next = self.spare.as_ref().or(self.check.as_ref());
        best.or(next).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_addresses_do_not_distinguish_defects() {
        assert_eq!(
            without_numbers("kworker/u8:3+flush-254:0"),
            "kworker/u#:#+flush-#:#"
        );
        assert_eq!(without_numbers("exitcode=0x0000000b"), "exitcode=#");
        assert_eq!(
            without_numbers("at ffff888100a0b0c0 deadbeef"),
            "at # deadbeef"
        );
        assert_eq!(without_numbers("feedback é9"), "feedback é#");
    }

    #[test]
    fn a_name_is_preferred_to_a_frame_and_a_frame_to_a_spare_name() {
        let mut top = Top::default();
        assert_eq!(top.get(), "");
        top.take_place(Place::Frame("dump_stack_lvl"), false);
        assert_eq!(top.get(), "dump_stack_lvl");
        top.take_names(Names {
            spare: Some("kworker/1:2"),
            ..Names::default()
        });
        assert_eq!(top.get(), "kworker/#:#");
        top.take_place(Place::Frame("tcp_ack"), true);
        assert_eq!(top.get(), "kworker/#:#");
        top.take_place(Place::Frame("tcp_ack"), false);
        top.take_place(Place::Instruction("tcp_rcv"), false);
        assert_eq!(top.get(), "tcp_ack");
        top.take_names(Names {
            name: Some("eth0."),
            ..Names::default()
        });
        assert_eq!(top.get(), "eth0");
    }
}
