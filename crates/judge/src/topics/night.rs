//! Several plans together, and how metrics change over dates and versions.

pub mod document;
pub mod find;
pub mod p_value;
pub mod tell;
