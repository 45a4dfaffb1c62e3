//! x86 with 64 bits.

use super::{Kind, Last};
use crate::strings::{self, StringOp};

/// Decodes the last instruction of a block, at address `at`.
pub fn last(at: u64, bytes: &[u8]) -> Last {
    let (prefixes, rest) = strings::split(bytes);
    let end = at.wrapping_add(bytes.len() as u64);
    let near = |offset: &[u8]| match *offset {
        [byte] => end.wrapping_add_signed(i64::from(byte.cast_signed())),
        [a, b, c, d] => end.wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d]))),
        _ => 0,
    };
    let other = Last::OTHER;
    let operation = |modrm: u8| (modrm >> 3) & 7;
    match rest {
        [0xe8, ..] => Last {
            kind: Kind::Call,
            ..other
        },
        [0xff, modrm, ..] if matches!(operation(*modrm), 2 | 3) => Last {
            kind: Kind::Call,
            is_indirect: true,
            ..other
        },
        [0xff, modrm, ..] if matches!(operation(*modrm), 4 | 5) => Last {
            is_indirect: true,
            ..other
        },
        [0xc3 | 0xc2, ..] => Last {
            kind: Kind::Ret,
            ..other
        },
        [0xcf, ..] => Last {
            kind: Kind::Iret,
            ..other
        },
        [0xeb | 0xe9 | 0x70..=0x7f | 0xe0..=0xe3, offset @ ..]
        | [0x0f, 0x80..=0x8f, offset @ ..] => Last {
            target: near(offset),
            ..other
        },
        // ins, outs, movs, cmps, stos, lods, scas
        [0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf] if strings::has_rep(prefixes) => Last {
            target: at,
            is_rep: true,
            string_bytes: StringOp::of(bytes).map_or(0, |op| 1 << op.size),
            ..other
        },
        _ => other,
    }
}

/// The number of a mark: `nopl 0xbabe0f00+N(%rax)`.
pub fn mark(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [0x0f, 0x1f, 0x80, mark, 0x0f, 0xbe, 0xba] => Some(*mark),
        _ => None,
    }
}
