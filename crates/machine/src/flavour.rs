//! Builds of one version of Debian's kernel.

/// Which of Debian's builds of one version is taken where it has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// For virtual machines: smaller, without most drivers.
    Cloud,
    /// For hardware: with drivers for what servers have.
    General,
}
