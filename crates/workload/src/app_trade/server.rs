//! The application servers, and what all of them share: sizes, the database's driver, missing parts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::Programs;
use crate::app_trade::java::{self, JAVA, Java};
use crate::app_trade::{open_liberty, tomcat, wildfly};
use crate::config::{self, Target};
use crate::context::WorkloadContext;
use crate::database::server::{ACCOUNT, Server as Database};
use crate::probe::Probe;
use crate::service::{JavaService, Service, words};

/// Port; 80 would need root.
pub(super) const PORT: u16 = 8080;

/// Time limit of the start, under emulation.
const PATIENCE: Duration = Duration::from_secs(300);

/// Largest number of worker threads; further requests wait in the server.
const THREADS: u32 = 200;

/// Largest number of database connections, below the limit of the databases.
const POOL: u32 = 50;

/// Room for the probe, and for connections that servers have not closed yet: each visitor opens a new one.
const SPARE: u32 = 1000;

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub(super) enum AppServer {
    Tomcat,
    Wildfly,
    OpenLiberty,
}

impl AppServer {
    /// The name of its service.
    pub(super) fn name(self) -> &'static str {
        self.into()
    }

    /// Packages that it needs beside the database.
    pub(super) fn packages(self) -> Vec<&'static str> {
        // Tomcat's brings the compiler of its pages.
        match self {
            Self::Tomcat => vec!["tomcat10-common"],
            Self::Wildfly => vec!["libeclipse-jdt-core-java", "maven:wildfly-dist"],
            Self::OpenLiberty => vec!["libeclipse-jdt-core-java", "maven:openliberty-runtime"],
        }
    }

    /// Programs to read before the start. Servers outside of `/usr` are read last, as far as memory
    /// allows.
    pub(super) fn programs(self) -> Programs {
        const JAVA: &str = "/usr/lib/jvm";
        const DRIVERS: &str = "/usr/share/java";
        const MARIADB: &str = "/usr/sbin/mariadbd";
        const POSTGRESQL: &str = "/usr/lib/postgresql";
        match self {
            Self::Tomcat => Programs::All,
            Self::Wildfly => Programs::These(&[MARIADB, POSTGRESQL, JAVA, DRIVERS, wildfly::HOME]),
            Self::OpenLiberty => {
                Programs::These(&[MARIADB, POSTGRESQL, JAVA, DRIVERS, open_liberty::HOME])
            }
        }
    }

    /// Its service, as far as all servers have the same; its files are in `base`, and
    /// `configuration` is its text.
    pub(super) fn running_in(self, base: &Path, setup: &Setup, configuration: &str) -> Service {
        let log = base.join(java::LOG);
        Service {
            name: self.name().into(),
            command: Vec::new(),
            logs: vec![log.clone()],
            configuration: Vec::new(),
            probe: setup.probe.clone(),
            patience: PATIENCE,
            version: words(&[JAVA]),
            start_failure: None,
            java: Some(JavaService {
                log,
                release: self.release(),
                settings: self.settings(setup, configuration),
            }),
        }
    }

    /// Name and version; `None` if only a command prints them.
    fn release(self) -> Option<String> {
        match self {
            Self::Tomcat => None,
            Self::Wildfly => Some(wildfly::release()),
            Self::OpenLiberty => Some(open_liberty::release()),
        }
    }

    /// Compilers and pools. The sizes of pools are read from its configuration, which an arm may
    /// have changed.
    fn settings(self, setup: &Setup, configuration: &str) -> BTreeMap<&'static str, String> {
        let (threads, connections) = match self {
            Self::Tomcat => ("maxThreads=\"", "maxActive=\""),
            Self::Wildfly => ("task-max-threads=\"", "<max-pool-size>"),
            Self::OpenLiberty => ("maxThreads=\"", "maxPoolSize=\""),
        };
        let value = |before| {
            let (_, rest) = configuration.split_once(before)?;
            rest.split(['"', '<']).next()
        };
        let size = |before| value(before).unwrap_or("the server's default").to_string();
        let jit: &str = setup.java.jit.into();
        BTreeMap::from([
            ("compilers", jit.into()),
            ("worker-threads", size(threads)),
            ("database-connections", size(connections)),
        ])
    }

    /// Fills the placeholders of its configuration, and merges an arm's changes into it.
    pub(super) fn configure(
        self,
        setup: &Setup,
        context: &WorkloadContext,
        base: &Path,
        application: String,
        text: &str,
    ) -> Result<String> {
        let target = Target {
            service: self.name(),
            address: context.at(PORT),
            dir: base,
            places: setup.places(context, application),
        };
        config::render(&context.config, &target, text)
    }

    pub(super) fn service(self, setup: &Setup, context: &WorkloadContext) -> Result<Service> {
        match self {
            Self::Tomcat => tomcat::service(setup, context),
            Self::Wildfly => wildfly::service(setup, context),
            Self::OpenLiberty => open_liberty::service(setup, context),
        }
    }
}

/// What an application server is set up with.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// Number of connections at once.
    pub(super) clients: u32,
    pub(super) java: Java,
    pub(super) database: Database,
    /// A user's application in place of the broker's.
    pub(super) war: Option<PathBuf>,
    pub(super) probe: Probe,
}

impl Setup {
    /// Number of worker threads. All are made at the start, so that their creation is not measured.
    pub(super) fn threads(&self) -> u32 {
        self.clients.min(THREADS) + 1
    }

    /// Number of database connections.
    pub(super) fn pool(&self) -> u32 {
        self.clients.min(POOL)
    }

    /// Most connections of clients.
    pub(super) fn connections(&self) -> u32 {
        self.clients + SPARE
    }

    /// JDBC URL of the database.
    pub(super) fn database_url(&self, context: &WorkloadContext) -> String {
        let name: &str = self.database.into();
        format!("jdbc:{name}://{}/{ACCOUNT}", self.database.address(context))
    }

    /// The archive of the JDBC driver.
    pub(super) fn driver(&self) -> &'static str {
        match self.database {
            Database::Mariadb => "/usr/share/java/mariadb-java-client.jar",
            Database::Postgresql => "/usr/share/java/postgresql.jar",
        }
    }

    /// The class of the JDBC driver.
    pub(super) fn driver_class(&self) -> &'static str {
        match self.database {
            Database::Mariadb => "org.mariadb.jdbc.Driver",
            Database::Postgresql => "org.postgresql.Driver",
        }
    }

    /// Values of the placeholders in a server's configuration.
    fn places(
        &self,
        context: &WorkloadContext,
        application: String,
    ) -> Vec<(&'static str, String)> {
        vec![
            ("{application}", application),
            ("{database}", self.database_url(context)),
            ("{driver}", self.driver().into()),
            ("{threads}", self.threads().to_string()),
            ("{pool}", self.pool().to_string()),
            ("{connections}", self.connections().to_string()),
            ("{cpus}", context.cpus.to_string()),
        ]
    }
}

/// The Debian package of each database's JDBC driver.
pub(super) fn driver_package(database: Database) -> &'static str {
    match database {
        Database::Mariadb => "libmariadb-java",
        Database::Postgresql => "libpostgresql-jdbc-java",
    }
}

/// Checks that all parts are installed. Java would report a missing one with many exceptions.
pub(super) fn find_parts(parts: &[&str], server: AppServer) -> Result<()> {
    let Some(part) = parts.iter().find(|part| !Path::new(part).exists()) else {
        return Ok(());
    };
    let name = server.name();
    let (packages, recipe) = match server {
        AppServer::Tomcat => ("install tomcat10-common and the JDBC driver", "app"),
        AppServer::Wildfly | AppServer::OpenLiberty => ("run tools/app-servers", name),
    };
    bail!("part of {name} not found: {part} ({packages}, or take image recipe {recipe:?})")
}
