//! What a reader must know beside the figures: arms that fail, trials that failed, warnings.

pub(crate) mod find;
pub(crate) mod gates;
pub(crate) mod tell;
