//! The application, compiled for a server. An image has it compiled already; otherwise, as on a live
//! host, it is compiled here.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::app_trade::java::JAVA;
use crate::context::WorkloadContext;
use crate::tool::Tool;

/// Tomcat's compiler, which is in a separate archive in Debian 13. Java ignores missing archives.
pub(super) const COMPILER: [&str; 2] = [
    "/usr/share/java/eclipse-jdt-core.jar",
    "/usr/share/java/eclipse-jdt-core-compiler-batch.jar",
];

/// Time limit of compiling on a slow host.
const COMPILING: Duration = Duration::from_secs(300);

/// Name and text of a file of the application.
pub(super) type SourceFile = (&'static str, &'static str);

macro_rules! source {
    ($dir:literal, $name:literal) => {
        (
            concat!("WEB-INF/src/", $name),
            include_str!(concat!("../../../../images/app/", $dir, $name)),
        )
    };
}

/// Sources of both applications.
const COMMON: [SourceFile; 6] = [
    source!("src/", "Broker.java"),
    source!("src/", "Brokerage.java"),
    source!("src/", "Market.java"),
    source!("src/", "Page.java"),
    source!("src/", "Refused.java"),
    source!("src/", "Trade.java"),
];

/// The servlet with JDBC, for Tomcat.
pub(super) const SERVLET: Application = Application {
    built: "/usr/share/bakeoff/trade",
    files: &[(
        "WEB-INF/web.xml",
        include_str!("../../../../images/app/servlet/web.xml"),
    )],
};

/// The servlet with a session bean and entities, for servers of Jakarta EE 10.
pub(super) const ENTERPRISE: Application = Application {
    built: "/usr/share/bakeoff/enterprise-trade",
    files: &[
        source!("enterprise/src/", "Account.java"),
        source!("enterprise/src/", "EnterpriseBroker.java"),
        source!("enterprise/src/", "EnterpriseTrade.java"),
        source!("enterprise/src/", "Holding.java"),
        source!("enterprise/src/", "HoldingKey.java"),
        source!("enterprise/src/", "Quote.java"),
        source!("enterprise/src/", "Stock.java"),
        source!("enterprise/src/", "TradeOrder.java"),
        source!("enterprise/src/", "Trading.java"),
        (
            "WEB-INF/classes/META-INF/persistence.xml",
            include_str!("../../../../images/app/enterprise/persistence.xml"),
        ),
        (
            "WEB-INF/ejb-jar.xml",
            include_str!("../../../../images/app/enterprise/ejb-jar.xml"),
        ),
        (
            "WEB-INF/web.xml",
            include_str!("../../../../images/app/enterprise/web.xml"),
        ),
    ],
};

/// A form of the application.
pub(super) struct Application {
    /// Where an image has it compiled.
    built: &'static str,
    /// Its files beyond the common sources.
    files: &'static [SourceFile],
}

impl Application {
    fn files(&self) -> impl Iterator<Item = &SourceFile> {
        COMMON.iter().chain(self.files)
    }

    /// Directory of the compiled application: that of the image, if it has the same source.
    /// `interfaces` are the archives that it is compiled against.
    pub(super) fn compiled(
        &self,
        context: &WorkloadContext,
        interfaces: &[PathBuf],
    ) -> Result<PathBuf> {
        let built = Path::new(self.built);
        let is_same = |(name, text): &SourceFile| {
            fs::read(built.join(name)).is_ok_and(|bytes| bytes == text.as_bytes())
        };
        let is_built = built.join("WEB-INF/classes/trade/Trade.class").exists();
        if is_built && self.files().all(is_same) {
            return Ok(built.into());
        }
        self.compile(context, interfaces)
    }

    fn compile(&self, context: &WorkloadContext, interfaces: &[PathBuf]) -> Result<PathBuf> {
        if !COMPILER.iter().any(|part| Path::new(part).exists()) {
            bail!(
                "no compiler for the application: {} (install libeclipse-jdt-core-java, or take image recipe \"app\")",
                COMPILER[0]
            );
        }
        let root = context.make_dir("trade")?;
        for (name, text) in self.files() {
            let name = format!("trade/{name}");
            let dir = Path::new(&name).parent().expect("a file is in a directory");
            context.make_dir(&dir.to_string_lossy())?;
            context.write(&name, text)?;
        }
        let place = |name: &str| root.join(name).to_string_lossy().into_owned();
        let (source, classes) = (place("WEB-INF/src"), place("WEB-INF/classes"));
        context.make_dir("trade/WEB-INF/classes")?;
        let compiler = COMPILER.join(":");
        let interfaces: Vec<_> = interfaces
            .iter()
            .map(|path| path.to_string_lossy())
            .collect();
        let interfaces = interfaces.join(":");
        let command = [
            &[
                JAVA,
                "-cp",
                &compiler,
                "org.eclipse.jdt.internal.compiler.batch.Main",
            ][..],
            &[
                "-17",
                "-proc:none",
                "-cp",
                &interfaces,
                "-d",
                &classes,
                &source,
            ],
        ];
        Tool::new(&command.concat(), COMPILING).set_up()?;
        Ok(root)
    }
}

/// Files of a directory whose names begin with `start`, by name.
pub(super) fn files_in(dir: &Path, start: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = names.filter(|file| file.file_name().to_string_lossy().starts_with(start));
    let mut files: Vec<_> = names.map(|file| file.path()).collect();
    files.sort();
    files
}
