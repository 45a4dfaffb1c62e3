//! Arm with 64 bits (Arm Architecture Reference Manual, C4.1: the top-level encodings of A64).

use super::{Kind, Last};

/// Decodes the last instruction of a block, at address `at`.
pub fn last(at: u64, bytes: &[u8]) -> Last {
    let other = Last::OTHER;
    let Some(word) = bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else {
        return other;
    };
    let jump = |bits: u32, shift: u32| Last {
        target: at.wrapping_add_signed(offset(word >> shift, bits)),
        ..other
    };
    // Unconditional branch to a register: opc in bits 24 to 21. Bits 11 and 10 are those with pointer authentication.
    let is_register = word & 0xfe1f_0000 == 0xd61f_0000;
    match word {
        // bl
        _ if word >> 26 == 0x25 => Last {
            kind: Kind::Call,
            ..other
        },
        // b
        _ if word >> 26 == 0x05 => jump(26, 0),
        // b.cond, bc.cond
        _ if word >> 24 == 0x54 => jump(19, 5),
        // cbz, cbnz
        _ if word & 0x7e00_0000 == 0x3400_0000 => jump(19, 5),
        // tbz, tbnz
        _ if word & 0x7e00_0000 == 0x3600_0000 => jump(14, 5),
        _ if is_register => match (word >> 21) & 0xf {
            // br, braa
            0b0000 | 0b1000 => Last {
                is_indirect: true,
                ..other
            },
            // blr, blraa
            0b0001 | 0b1001 => Last {
                kind: Kind::Call,
                is_indirect: true,
                ..other
            },
            // ret, retaa
            0b0010 => Last {
                kind: Kind::Ret,
                ..other
            },
            // eret, eretaa
            0b0100 => Last {
                kind: Kind::Iret,
                ..other
            },
            _ => other,
        },
        _ => other,
    }
}

/// A signed number of words in the lowest bits, in bytes.
fn offset(field: u32, bits: u32) -> i64 {
    let shift = 64 - bits;
    ((u64::from(field) << shift).cast_signed() >> shift) * 4
}

/// The number of a mark: `movz xzr, #0xba00+N`.
pub fn mark(bytes: &[u8]) -> Option<u8> {
    const MARK: u32 = 0xd297_401f;
    let word = u32::from_le_bytes(*bytes.first_chunk()?);
    (word & !(0xff << 5) == MARK).then_some((word >> 5) as u8)
}
