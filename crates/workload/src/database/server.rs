//! The two database servers, and their common set-up.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::context::WorkloadContext;
use crate::tool::Tool;

/// The account's name, which is also its password and its database.
pub(crate) const ACCOUNT: &str = "bakeoff";

/// User of the servers, Debian's `nobody`. They do not run as root, and guests lack the users of
/// the packages.
const USER: u32 = 65534;

/// Time limit for making a data directory under emulation.
const SETTING_UP: Duration = Duration::from_secs(600);

/// Time limit of a server's start, including recovery under emulation.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The server, which determines the protocol.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Server {
    Mariadb,
    Postgresql,
}

/// Packages with server, initdb and pgbench: the first in any suite, the others in Debian 12 and
/// 13.
pub(crate) const POSTGRESQL: &str = "postgresql|postgresql-15|postgresql-17";

impl Server {
    /// The name of its service.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mariadb => "mariadbd",
            Self::Postgresql => "postgres",
        }
    }

    pub(crate) fn packages(self) -> Vec<&'static str> {
        match self {
            Self::Mariadb => vec!["mariadb-server-core"],
            Self::Postgresql => vec![POSTGRESQL],
        }
    }

    pub(crate) fn address(self, context: &WorkloadContext) -> SocketAddr {
        match self {
            Self::Mariadb => context.at(3306),
            Self::Postgresql => context.at(5432),
        }
    }
}

/// Makes a directory owned by the servers' user.
pub(crate) fn own_dir(context: &WorkloadContext, name: &str) -> Result<PathBuf> {
    let dir = context.make_dir(name)?;
    chown(&dir, Some(USER), Some(USER)).with_context(|| format!("give away {}", dir.display()))?;
    std::fs::set_permissions(&dir, Permissions::from_mode(0o700))
        .with_context(|| format!("close to others: {}", dir.display()))?;
    Ok(dir)
}

/// A command as the servers' user.
pub(crate) fn as_user(command: &[&str]) -> Vec<String> {
    let id = USER.to_string();
    let user = [
        "/usr/bin/setpriv",
        "--reuid",
        &id,
        "--regid",
        &id,
        "--clear-groups",
        // A change of the user clears it.
        "--pdeathsig",
        "keep",
        "--",
    ];
    user.iter()
        .chain(command)
        .map(ToString::to_string)
        .collect()
}

/// Runs a command as the servers' user in a directory.
pub(crate) fn set_up(command: &[&str], dir: &Path) -> Result<()> {
    let tool = Tool {
        command: as_user(command),
        env: Vec::new(),
        dir: Some(dir.into()),
        limit: SETTING_UP,
    };
    tool.set_up()?;
    Ok(())
}
