//! A user's application in place of the broker: a WAR, and a script of requests to it.
//!
//! It is deployed at `/` with the broker's data source, and has an empty database. There are no
//! books, so there is no audit: what is checked of a response is what the script expects.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use load::exchange::Exchange;
use load::expect::Expect;
use load::schedule::{Schedule, Think};
use load::script::Script;
use load::traffic::{End, Mix, Traffic};
use plan::fields::Fields;
use serde::{Deserialize, Serialize};

use crate::Wrong;
use crate::context::{FILES, WorkloadContext};
use crate::options;

/// A WAR and the requests to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct War {
    /// Path on the host.
    pub(super) file: String,
    /// Path that is answered with status 200 when the application serves.
    pub(super) ready: String,
    /// Paths that are requested once, before the warm-up; may be empty.
    setup: Vec<String>,
    /// What visitors do.
    script: String,
}

/// Keys that only an application of the user has.
const KEYS: [&str; 3] = ["ready", "setup", "script"];

/// Keys that only the broker has.
const BROKERS_KEYS: [&str; 2] = ["accounts", "symbols"];

impl War {
    /// Reads its keys. `Ok(None)` is the broker.
    pub(super) fn read(fields: &Fields<'_>) -> Result<Option<Self>, ()> {
        if !fields.takes("war") {
            for key in KEYS.into_iter().filter(|key| fields.has(key)) {
                fields.refuse(key, format!("{key} without war"), "add war = \"FILE\"");
            }
            return Ok(None);
        }
        for key in BROKERS_KEYS.into_iter().filter(|key| fields.has(key)) {
            fields.refuse(key, format!("{key} of the broker beside war"), "remove it");
        }
        let file = fields.text("war");
        if file.is_some_and(|file| Path::new(file).file_name().is_none()) {
            let what = format!("not the path of a file: {:?}", file.unwrap_or_default());
            fields.wrong("war", what, "write war = \"./app.war\"");
        }
        if !fields.has("script") {
            fields.missing("script", "\"visit /\"");
        }
        let ready = read_ready(fields);
        let setup = if fields.takes("setup") {
            options::paths(fields, "setup")
        } else {
            Some(Vec::new())
        };
        let script = read_script(fields);
        let read = || {
            Some(Self {
                file: file?.into(),
                ready: ready?,
                setup: setup?,
                script: script?,
            })
        };
        read().map(Some).ok_or(())
    }

    /// Copies it to where the servers' user can read it.
    pub(super) fn deploy(&self, context: &WorkloadContext) -> Result<PathBuf> {
        let name = Path::new(&self.file).file_name().unwrap_or_default();
        let from = context.dir.join(FILES).join(name);
        let bytes = std::fs::read(&from).with_context(|| format!("read {}", from.display()))?;
        context.make_dir("war")?;
        context.write("war/app.war", bytes)
    }

    /// What visitors do.
    pub(super) fn script(&self) -> Result<Script> {
        Ok(Script::read("script", &self.script)?)
    }

    /// Sends the requests of `setup`, one after the other. All must succeed.
    pub(super) fn set_up(&self, traffic: &Traffic, stop: &AtomicBool) -> Result<()> {
        if self.setup.is_empty() {
            return Ok(());
        }
        let get = |path: &String| Exchange::get(path.clone(), Expect::status(200));
        let exchanges: Vec<_> = self.setup.iter().map(get).collect();
        let traffic = Traffic {
            schedule: Schedule::Closed { think: Think::NONE },
            connections: 1,
            threads: 1,
            warmup: Duration::ZERO,
            end: End::Count(exchanges.len() as u64),
            mix: Mix::Round(exchanges),
            ..traffic.clone()
        };
        let load = load::run::run(&traffic, stop, &mut |_| {}).context("requests of setup")?;
        if load.fault_count() > 0 {
            let what = format!("requests of setup failed: {:?}", load.faults);
            return Err(Wrong(what).into());
        }
        Ok(())
    }
}

fn read_ready(fields: &Fields<'_>) -> Option<String> {
    if !fields.takes("ready") {
        return Some("/".into());
    }
    options::path(fields, "ready", fields.text("ready")?)
}

fn read_script(fields: &Fields<'_>) -> Option<String> {
    let text = fields.text("script")?;
    match Script::read("script", text) {
        Ok(_) => Some(text.into()),
        Err(problems) => {
            for problem in problems.0 {
                let what = format!("line {} of script: {}", problem.line, problem.what);
                fields.wrong("script", what, problem.remedy);
            }
            None
        }
    }
}

/// Bytes that are searched: the limit on a plan's files.
const MOST_BYTES: u64 = 256 << 20;

/// Checks that a file is a ZIP with the directory of a web application. Names in a ZIP are not
/// compressed.
pub(super) fn check_file(path: &Path) -> Result<(), String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    read.map_err(|why| format!("cannot read {}: {why}", path.display()))?;
    let lack = if !bytes.starts_with(b"PK") {
        "not a ZIP"
    } else if !bytes.windows(8).any(|window| window == b"WEB-INF/") {
        "no WEB-INF in it"
    } else {
        return Ok(());
    };
    Err(format!("not a WAR: {} ({lack})", path.display()))
}
