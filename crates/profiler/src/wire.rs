//! Encoding of numbers (LEB128) and texts (length, then bytes).

/// Writes numbers and texts.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn numbers<const COUNT: usize>(&mut self, values: [u64; COUNT]) {
        for value in values {
            self.number(value);
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
    }
}

/// An error in the bytes and its offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Offset in the unpacked bytes.
    pub at: usize,
    /// Description of the error.
    pub what: &'static str,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} at byte {}", self.what, self.at)
    }
}

impl std::error::Error for Damage {}

/// Reads numbers and texts; untrusted lengths never decide how much memory is allocated.
#[derive(Debug)]
pub(crate) struct Reader<'r> {
    bytes: &'r [u8],
    at: usize,
}

impl<'r> Reader<'r> {
    pub(crate) fn new(bytes: &'r [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn damage(&self, what: &'static str) -> Damage {
        Damage { at: self.at, what }
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'r [u8], Damage> {
        let end = self.at.checked_add(length);
        let bytes = end.and_then(|end| self.bytes.get(self.at..end));
        let bytes = bytes.ok_or_else(|| self.damage("cut off"))?;
        self.at += length;
        Ok(bytes)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Damage> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.bytes(1)?[0];
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return Err(self.damage("number too large"));
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.damage("number too long"))
    }

    /// A number of at most `most`; else the error `what`.
    pub(crate) fn limited(&mut self, most: u64, what: &'static str) -> Result<u64, Damage> {
        let value = self.number()?;
        if value > most {
            Err(self.damage(what))
        } else {
            Ok(value)
        }
    }

    /// A number of rows; each takes at least one byte.
    pub(crate) fn rows(&mut self) -> Result<usize, Damage> {
        let left = (self.bytes.len() - self.at) as u64;
        Ok(self.limited(left, "more rows than bytes")? as usize)
    }

    pub(crate) fn text(&mut self) -> Result<&'r str, Damage> {
        let length = self.rows()?;
        let bytes = self.bytes(length)?;
        std::str::from_utf8(bytes).map_err(|_| self.damage("text is not UTF-8"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }
}
