//! Whether clients, network or server set an arm's figures.

pub(crate) mod find;
pub(crate) mod tell;
