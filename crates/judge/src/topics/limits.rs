//! Whether the clients, the network or the server limit an arm's figures.

pub(crate) mod find;
pub(crate) mod tell;
