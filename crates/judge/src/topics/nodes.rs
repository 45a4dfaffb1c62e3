//! What each node of a fleet measured, and claims about machines in general.

pub mod find;
pub mod tell;
