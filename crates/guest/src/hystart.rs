//! HyStart of TCP CUBIC, which ends slow start when round trips become longer. Round trips between a server and
//! clients beside it include the wait for their CPU, so there it ends slow start by chance.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The parameter of the module, which is there too if CUBIC is built in.
pub(crate) const SWITCH: &str = "/sys/module/tcp_cubic/parameters/hystart";

/// Switches HyStart off for all new connections. `false` for a kernel without it.
pub(crate) fn disable(switch: impl AsRef<Path>) -> Result<bool> {
    let switch = switch.as_ref();
    if !switch.exists() {
        return Ok(false);
    }
    fs::write(switch, "0").with_context(|| format!("switch HyStart off: {}", switch.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hystart_is_switched_off_where_the_kernel_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let switch = dir.path().join("hystart");
        assert!(!disable(&switch).unwrap());
        assert!(!switch.exists());
        fs::write(&switch, "1\n").unwrap();
        assert!(disable(&switch).unwrap());
        assert_eq!(fs::read_to_string(&switch).unwrap(), "0");
    }
}
