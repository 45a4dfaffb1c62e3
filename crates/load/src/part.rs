//! One of several equal parts of a load, which is shared by client threads and by client hosts.

use std::ops::Range;

/// Part `index` of `count`, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Number of the part.
    pub index: u32,
    /// How many parts there are.
    pub count: u32,
}

impl Part {
    /// The only part.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// The indices of `total` items that belong to this part. Sizes of parts differ by at most one.
    #[must_use]
    pub fn range(self, total: u64) -> Range<u64> {
        let begins = |index: u32| {
            let product = u128::from(total) * u128::from(index) / u128::from(self.count);
            product as u64
        };
        begins(self.index)..begins(self.index + 1)
    }

    /// How many of `total` items belong to this part.
    #[must_use]
    pub fn size(self, total: u64) -> u64 {
        let range = self.range(total);
        range.end - range.start
    }
}
