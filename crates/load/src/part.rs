//! One of several equal parts of a load: client threads share it out, and so do client hosts.

use std::ops::Range;

/// Part `index` of `count`, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its number.
    pub index: u32,
    /// How many parts there are.
    pub count: u32,
}

impl Part {
    /// Everything.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Which of `total` things belong to this part: all parts differ by one at most.
    #[must_use]
    pub fn range(self, total: u64) -> Range<u64> {
        let begins = |index: u32| {
            let product = u128::from(total) * u128::from(index) / u128::from(self.count);
            product as u64
        };
        begins(self.index)..begins(self.index + 1)
    }

    /// How many of `total` things belong to this part.
    #[must_use]
    pub fn size(self, total: u64) -> u64 {
        let range = self.range(total);
        range.end - range.start
    }
}
