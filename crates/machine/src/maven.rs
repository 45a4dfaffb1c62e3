//! Artifacts of Maven repositories for images. `mvn` fetches them on the host, so the user's settings and mirrors apply.
//!
//! ```text
//! recipe: group:name:version:type, sha256 --mvn dependency:copy--> file --hash as in the recipe--> maven/SHA256/FILE
//! ```
//! The hash is checked when an artifact is fetched and whenever it is used. An artifact in the cache needs neither network
//! nor `mvn`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use plan::fields::Fields;
use record::hash;

use crate::cache::about::{About, Part};
use crate::cache::{Cache, Staging};
use crate::program;
use crate::task::Task;

/// Kind of the cache's entries.
const KIND: &str = "maven";

/// Space for fetching an artifact; an application server needs about 350 MiB.
const FETCH_BYTES: u64 = 512 << 20;

/// Prefix of an artifact in an image's list of packages. Names of Debian packages have no colon.
pub(crate) const PREFIX: &str = "maven:";

/// An artifact in a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// `group:name:version`, with `:type` and `:classifier` if they are not `jar` and none.
    pub coordinate: String,
    /// SHA-256 of the file, in lowercase hexadecimal.
    pub sha256: String,
}

impl Artifact {
    /// Reads `{ artifact = "...", sha256 = "..." }`.
    pub(crate) fn read(fields: &Fields<'_>) -> Self {
        let examples = [
            ("artifact", "\"org.wildfly:wildfly-dist:37.0.1.Final:zip\""),
            ("sha256", "\"...\", which sha256sum prints"),
        ];
        for (key, example) in examples {
            if !fields.has(key) {
                fields.missing(key, example);
            }
        }
        let coordinate = fields.text("artifact").unwrap_or_default();
        if fields.has("artifact") && !is_coordinate(coordinate) {
            let what = format!("not a Maven artifact: {coordinate:?}");
            fields.wrong("artifact", what, "write \"group:name:version:type\"");
        }
        let sha256 = fields.text("sha256").unwrap_or_default();
        if fields.has("sha256") && !is_sha256(sha256) {
            let what = format!("not a SHA-256: {sha256:?}");
            fields.wrong("sha256", what, "write the 64 digits that sha256sum prints");
        }
        fields.finish();
        Self {
            coordinate: coordinate.into(),
            sha256: sha256.into(),
        }
    }

    /// A field of the coordinate; `type` and `classifier` may be left out.
    fn part(&self, place: usize) -> Option<&str> {
        self.coordinate.split(':').nth(place)
    }

    /// Its name, which is also that of its file or directory below `/opt`.
    pub(crate) fn name(&self) -> &str {
        self.part(1).unwrap_or_default()
    }

    fn version(&self) -> &str {
        self.part(2).unwrap_or_default()
    }

    fn file_type(&self) -> &str {
        self.part(3).unwrap_or("jar")
    }

    /// Its line in an image's list of packages.
    pub(crate) fn manifest_line(&self) -> String {
        format!("{PREFIX}{}={}", self.name(), self.version())
    }

    /// The record of it as a part of an image.
    pub(crate) fn as_part(&self) -> Part {
        Part {
            name: format!("{PREFIX}{}", self.name()),
            version: self.version().into(),
            sha256: self.sha256.clone(),
        }
    }

    /// Name of its file in the cache.
    fn file(&self) -> String {
        format!("{}.{}", self.name(), self.file_type())
    }

    /// Its file in the cache; fetches it if it is not there.
    pub(crate) fn fetch(&self, cache: &Cache, task: Task<'_>) -> Result<PathBuf> {
        if let Some(file) = self.cached(cache)? {
            return Ok(file);
        }
        let _lock = cache.lock(&format!("{KIND} {}", self.sha256), task)?;
        if let Some(file) = self.cached(cache)? {
            return Ok(file);
        }
        let entry = cache.staging(FETCH_BYTES)?;
        let mvn = program::command("mvn", "maven")?;
        self.download(mvn.get_program(), &entry, task)?;
        let title = self.coordinate.clone();
        About::now(&title, "maven".into(), vec![self.as_part()]).write(cache, &entry.path)?;
        let place = cache.keep(&entry, KIND, &self.sha256)?;
        Ok(place.join(self.file()))
    }

    fn cached(&self, cache: &Cache) -> Result<Option<PathBuf>> {
        let Some(entry) = cache.entry(KIND, &self.sha256)? else {
            return Ok(None);
        };
        let file = entry.join(self.file());
        self.check(&file)?;
        Ok(Some(file))
    }

    /// Has `mvn` copy the artifact into the entry.
    fn download(&self, mvn: &OsStr, entry: &Staging, task: Task<'_>) -> Result<()> {
        task.tell(&format!("fetching {}", self.coordinate), None);
        let (log, copied) = (entry.path.join("log"), entry.path.join("copied"));
        // Its errors are on standard output.
        let mut fetch = Command::new("/bin/sh");
        fetch
            .args(["-c", "log=$1; shift; exec \"$@\" > \"$log\" 2>&1", "sh"])
            .arg(&log)
            .arg(mvn)
            .args(["--batch-mode", "--quiet", "dependency:copy"])
            .arg(format!("-Dartifact={}", self.coordinate))
            .arg(format!("-DoutputDirectory={}", copied.display()))
            // Without a project, so that none in the working directory counts.
            .current_dir(&entry.path);
        if let Err(why) = program::run(&mut fetch, task) {
            task.go_on()?;
            let text = fs::read(&log).unwrap_or_default();
            let line = error_line(&String::from_utf8_lossy(&text));
            let line = line.unwrap_or_else(|| format!("{why:#}"));
            bail!("mvn cannot fetch {}: {line}", self.coordinate);
        }
        let file = entry.path.join(self.file());
        fs::rename(only_file(&copied)?, &file)?;
        fs::remove_dir(&copied)?;
        fs::remove_file(&log)?;
        self.check(&file)
    }

    /// Fails if the file is not what the recipe says.
    fn check(&self, file: &Path) -> Result<()> {
        let sha256 = File::open(file).and_then(hash::sha256_of);
        let sha256 = sha256.with_context(|| format!("cannot read {}", file.display()))?;
        if sha256 != self.sha256 {
            bail!(
                "artifact is not the recipe's: {}: its sha256 is {sha256}, not {} (correct the recipe, or remove the copy in ~/.m2)",
                self.coordinate,
                self.sha256
            );
        }
        Ok(())
    }
}

fn is_coordinate(text: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let parts: Vec<_> = text.split(':').collect();
    let is_part = |part: &&str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(is_good)
    };
    (3..=5).contains(&parts.len()) && parts.iter().all(is_part)
}

fn is_sha256(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    text.len() == 64 && text.chars().all(is_digit)
}

/// The first error of `mvn`, without the hints that follow it.
fn error_line(log: &str) -> Option<String> {
    // It colours its prefix even without a terminal in some versions.
    let plain = log
        .replace("\u{1b}[1;31m", "")
        .replace("\u{1b}[m", "")
        .replace("\u{1b}[0m", "");
    let line = plain
        .lines()
        .find_map(|line| line.trim().strip_prefix("[ERROR] "))?;
    Some(line.split(" -> [Help").next().unwrap_or(line).to_string())
}

fn only_file(dir: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(dir).into_iter().flatten().flatten();
    let first = files.next().context("mvn copied no file")?;
    Ok(first.path())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::AtomicBool;

    use expect_test::{Expect, expect};
    use plan::fields::Page;

    use super::*;

    fn check(text: &str, expected: &Expect) {
        let page = Page::new("mine.toml", text);
        let table = page.parse();
        let artifact = Artifact::read(&Fields::top(&page, &table));
        let read = page.close(Some(artifact));
        expected.assert_eq(&read.map_or_else(|why| why.to_string(), |it| format!("{it:?}")));
    }

    #[test]
    fn an_artifact_has_a_coordinate_and_a_hash() {
        let hash = "0".repeat(64);
        check(
            &format!("artifact = \"a.b:c:1:zip\"\nsha256 = \"{hash}\""),
            &expect![[
                r#"Artifact { coordinate: "a.b:c:1:zip", sha256: "0000000000000000000000000000000000000000000000000000000000000000" }"#
            ]],
        );
        check(
            "artifact = \"c:1\"\nsha256 = \"ABC\"",
            &expect![[r#"
                mine.toml:1: not a Maven artifact: "c:1" (write "group:name:version:type")
                mine.toml:2: not a SHA-256: "ABC" (write the 64 digits that sha256sum prints)"#]],
        );
        check(
            "artifact = \"a:../b:1\"\n",
            &expect![[r#"
            mine.toml:1: missing key in the file: sha256 (add sha256 = "...", which sha256sum prints)
            mine.toml:1: not a Maven artifact: "a:../b:1" (write "group:name:version:type")"#]],
        );
    }

    #[test]
    fn the_first_error_of_maven_is_told_without_its_hints() {
        let log = "\u{1b}[m[\u{1b}[1;31mERROR\u{1b}[m] Could not find artifact a:b:zip:1 in central -> [Help 1]\n[ERROR] \n[ERROR] To see";
        expect!["Could not find artifact a:b:zip:1 in central"]
            .assert_eq(&error_line(log).unwrap());
        assert_eq!(error_line("fine"), None);
    }

    /// An artifact in a cache: fetching it runs no program.
    #[test]
    fn an_artifact_in_the_cache_needs_no_maven_and_is_checked_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path());
        let artifact = |content: &str| Artifact {
            coordinate: "a.b:c:1:zip".into(),
            sha256: hash::sha256(content.as_bytes()),
        };
        let put = |named: &Artifact, content: &str| {
            let staging = cache.staging(0).unwrap();
            fs::write(staging.path.join(named.file()), content).unwrap();
            cache.keep(&staging, KIND, &named.sha256).unwrap()
        };
        let stop = AtomicBool::new(false);
        let task = Task::silent(&stop);
        let good = artifact("good");
        let place = put(&good, "good");
        assert_eq!(good.fetch(&cache, task).unwrap(), place.join("c.zip"));
        let other = artifact("expected");
        put(&other, "forged");
        let why = other.fetch(&cache, task).unwrap_err().to_string();
        expect!["artifact is not the recipe's: a.b:c:1:zip: its sha256 is ccdd35168ab474fa5764a526cfb83621351e23682c5075b2e18d56bddf96aa30, not cea23dd4b87e8b00d19fb9ccaaef93e97353c7353e2070f3baf05aeb3995dff4 (correct the recipe, or remove the copy in ~/.m2)"].assert_eq(&why);
    }

    /// Downloads with a script in place of `mvn`.
    fn download(script: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache"));
        let mvn = dir.path().join("mvn");
        fs::write(&mvn, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&mvn, fs::Permissions::from_mode(0o755)).unwrap();
        let artifact = Artifact {
            coordinate: "a.b:c:1:zip".into(),
            sha256: hash::sha256(b"good\n"),
        };
        let (entry, stop) = (cache.staging(0).unwrap(), AtomicBool::new(false));
        let done = artifact.download(mvn.as_os_str(), &entry, Task::silent(&stop));
        done.map_err(|why| why.to_string())?;
        let names = fs::read_dir(&entry.path).unwrap().flatten();
        let names: Vec<_> = names
            .map(|file| file.file_name().into_string().unwrap())
            .collect();
        Ok(names.join(" "))
    }

    #[test]
    fn maven_copies_the_artifact_or_says_why_not() {
        let copy = |content: &str| {
            format!(
                "for last; do :; done; dir=${{last#*=}}; mkdir $dir; echo {content} > $dir/c-1.zip"
            )
        };
        assert_eq!(download(&copy("good")).unwrap(), "c.zip");
        let forged = download(&copy("bad")).unwrap_err();
        assert!(
            forged.starts_with("artifact is not the recipe's: a.b:c:1:zip: its sha256 is "),
            "{forged}"
        );
        let refused =
            download("echo '[ERROR] Could not find artifact a.b:c:zip:1 -> [Help 1]'; exit 1");
        expect!["mvn cannot fetch a.b:c:1:zip: Could not find artifact a.b:c:zip:1"]
            .assert_eq(&refused.unwrap_err());
        let silent = download("exit 1");
        expect!["mvn cannot fetch a.b:c:1:zip: sh failed: exit status: 1"]
            .assert_eq(&silent.unwrap_err());
        expect!["mvn copied no file"].assert_eq(&download("exit 0").unwrap_err());
    }
}
