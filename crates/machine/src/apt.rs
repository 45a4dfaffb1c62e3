//! A private apt root for a Debian suite, which makes kernels of any suite available without changing the
//! host's package system, and apt itself checks every signature.
//!
//! Where Debian's archive is and how to reach it (mirror, proxy, credentials) is taken from the host's own
//! apt configuration. No mirror is named here.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use base::arch::Arch;
use base::input::problem::remedy_among;
use base::input::tree::Tree;

use crate::cache;
use crate::cache::{Cache, NOTE_BYTES};
use crate::program;
use crate::program::command;
use crate::task::Task;

/// Suites that may be named, oldest first.
pub const SUITES: [&str; 7] = [
    "bullseye",
    "bookworm",
    "bookworm-backports",
    "trixie",
    "trixie-backports",
    "forky",
    "sid",
];

/// Environment variable that names another mirror than the host's.
const MIRROR_VARIABLE: &str = "BAKEOFF_DEBIAN_MIRROR";

/// The file of a root that names the mirror whose index is there.
const FETCHED: &str = "fetched";

/// The file of a root that says how to reach it: lines of `apt.conf`.
const SETTINGS: &str = "settings";

/// Public keys of Debian's archive, as the package debian-archive-keyring installs them.
pub(crate) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Space for a suite's index and apt's caches of it.
const INDEX_BYTES: u64 = 250 << 20;

/// A suite whose index is in the cache.
#[derive(Debug)]
pub(crate) struct Suite {
    name: String,
    arch: Arch,
    root: Tree,
}

/// One package of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) depends: String,
    pub(crate) sha256: String,
    /// Size of the package file.
    pub(crate) bytes: u64,
    /// Size when unpacked.
    pub(crate) installed_bytes: u64,
}

impl Suite {
    /// Opens a suite. Fetches its index if it is missing, or with `refresh`.
    ///
    /// The caller must hold the cache's lock of the suite, because apt allows one user at a time.
    pub(crate) fn open(cache: &Cache, name: &str, refresh: bool, task: Task<'_>) -> Result<Self> {
        check_suite(name)?;
        let suite = Self {
            name: name.into(),
            arch: cache.arch(),
            root: cache.dir(&format!("apt/{}", cache.name_of_arch(name)))?,
        };
        match suite.source() {
            // A refresh from another mirror that failed has left that one's line, and a cache that was moved or copied has the
            // configuration of its old place.
            Some(source) if !refresh => suite
                .configure(&source)
                .map_err(|why| cache.cannot_write(&why))?,
            before => suite.fetch(cache, before.as_ref(), task)?,
        }
        Ok(suite)
    }

    /// Whether a suite's index is in the cache.
    pub(crate) fn is_indexed(cache: &Cache, name: &str) -> bool {
        let suite = Self {
            name: name.into(),
            arch: cache.arch(),
            root: cache.tree().below("apt").below(cache.name_of_arch(name)),
        };
        suite.source().is_some()
    }

    /// The mirror whose index is there, and how it was reached. Its name is written last, so that such an index is complete.
    fn source(&self) -> Option<Source> {
        let mirror = self.root.read_to_string(FETCHED, NOTE_BYTES).ok()?;
        let settings = self.root.read_to_string(SETTINGS, NOTE_BYTES).ok()?;
        (!mirror.is_empty()).then_some(Source { mirror, settings })
    }

    /// Fetches the index. The index of the mirror `before` stays until the new one is complete.
    fn fetch(&self, cache: &Cache, before: Option<&Source>, task: Task<'_>) -> Result<()> {
        let name = &self.name;
        cache.expect_space(INDEX_BYTES)?;
        let source = Source::of_host(task)?;
        self.configure(&source)
            .map_err(|why| cache.cannot_write(&why))?;
        let what = format!("fetching the index of {name}");
        let mut update = self.command("apt-get")?;
        // Else apt reports a partly failed update as success, and uses the old files.
        update.args(["update", "--error-on=any"]);
        if before.is_some_and(|before| before.mirror != source.mirror) {
            // Else apt would remove the index that `fetched` still names. The next update does.
            update.args(["-o", "APT::Get::List-Cleanup=false"]);
        }
        program::run_with(&mut update, task, &mut |_| task.tell(&what, None)).with_context(|| {
            format!("cannot fetch the index of {name} from {} (check the network, or set {MIRROR_VARIABLE})", source.mirror)
        })?;
        replace(&self.root, FETCHED, source.mirror.as_bytes())
            .map_err(|why| cache.cannot_write(&why))
    }

    /// All packages whose names begin with one of `prefixes`.
    pub(crate) fn packages(&self, prefixes: &[&str], task: Task<'_>) -> Result<Vec<Package>> {
        Ok(read_index(&self.index(task)?, prefixes))
    }

    /// The index, checked against the signed release file, because the cache may have been changed since apt fetched it.
    fn index(&self, task: Task<'_>) -> Result<String> {
        let mut targets = self.command("apt-get")?;
        let format = ["--format", "$(METAKEY) $(FILENAME)", "Created-By: Packages"];
        let files = program::run(targets.arg("indextargets").args(format), task)?;
        let mut index = String::new();
        for (key, file) in files.lines().filter_map(|line| line.split_once(' ')) {
            // It may be compressed, in any format that apt supports.
            let mut cat = Command::new("/usr/lib/apt/apt-helper");
            self.adorn(cat.args(["cat-file", file]));
            let text = program::run(&mut cat, task)?;
            self.refuse_unsigned(key, file, &text, task)?;
            index.push_str(&text);
            index.push('\n');
        }
        if index.trim().is_empty() {
            bail!(
                "no packages in the index of {}: {} ({})",
                self.name,
                self.root.path().display(),
                self.anew()
            );
        }
        Ok(index)
    }

    /// Refuses a list whose SHA-256 is not in the release file that the archive's keys have signed.
    fn refuse_unsigned(&self, key: &str, file: &str, text: &str, task: Task<'_>) -> Result<()> {
        let wrong = |what: &str| format!("{what}: {file} ({})", self.anew());
        let list = key.replace('/', "_");
        // It may end in what it is compressed by.
        let Some(end) = file.rfind(&list) else {
            bail!(wrong("not the name of a list of packages"));
        };
        let release = format!("{}InRelease", &file[..end]);
        let mut gpgv = command("gpgv", "gpgv")?;
        gpgv.args(["--keyring", KEYRING, "--output", "-", &release]);
        let signed = program::run(&mut gpgv, task)
            .with_context(|| wrong("the list of packages has no good signature"))?;
        if signed_sum(&signed, key) != Some(cache::hash(text.as_bytes()).as_str()) {
            bail!(wrong("the list of packages is not the one that was signed"));
        }
        Ok(())
    }

    fn anew(&self) -> String {
        format!(
            "bakeoff cache kernel list debian:{} --refresh fetches it anew",
            self.name
        )
    }

    /// Downloads packages into `into`; apt checks them against the signed index.
    pub(crate) fn download(&self, packages: &[Package], into: &Path, task: Task<'_>) -> Result<()> {
        let all_bytes: u64 = packages.iter().map(|package| package.bytes).sum();
        let mut download = self.command("apt-get")?;
        download.arg("download").current_dir(into);
        for package in packages {
            download.arg(format!("{}={}", package.name, package.version));
        }
        program::run_with(&mut download, task, &mut |_| {
            let share = cache::size_of(into) as f64 / all_bytes.max(1) as f64;
            task.tell("fetching packages", Some(share.min(1.0)));
        })
        .context("cannot fetch packages (check the network)")?;
        Ok(())
    }

    /// The packages of a minimal system with `packages`: `name=version`, sorted.
    pub(crate) fn resolve(&self, packages: &[String], task: Task<'_>) -> Result<Vec<String>> {
        let mut names = vec!["?essential".to_string(), "apt".into()];
        names.extend(required_in(&self.index(task)?));
        names.extend_from_slice(packages);
        self.simulate(&names, task)
    }

    /// Packages and all that they depend on, where nothing is installed yet: `name=version`, sorted.
    pub(crate) fn closure(&self, packages: &[&str], task: Task<'_>) -> Result<Vec<String>> {
        let names: Vec<String> = packages.iter().map(ToString::to_string).collect();
        self.simulate(&names, task)
    }

    fn simulate(&self, names: &[String], task: Task<'_>) -> Result<Vec<String>> {
        let mut install = self.command("apt-get")?;
        install.args(["install", "--simulate", "--no-install-recommends"]);
        let plan = program::run(install.args(names), task)?;
        let mut chosen: Vec<_> = plan.lines().filter_map(read_install).collect();
        chosen.sort();
        Ok(chosen)
    }

    /// Writes the root's configuration.
    fn configure(&self, source: &Source) -> io::Result<()> {
        for dir in [
            "lists/partial",
            "archives/partial",
            "sources.list.d",
            "apt.conf.d",
            "preferences.d",
        ] {
            self.root.make_dir(dir)?;
        }
        replace(&self.root, "status", b"")?;
        let list = format!("{}\n", source_line(&source.mirror, &self.name));
        replace(&self.root, "sources.list", list.as_bytes())?;
        replace(&self.root, SETTINGS, source.settings.as_bytes())?;
        let place = self.root.path();
        let place = place.display();
        let arch = self.arch.facts().debian();
        let conf = format!(
            "{}Dir::State \"{place}\";\nDir::State::lists \"lists\";\nDir::State::status \"{place}/status\";\n\
             Dir::Cache \"{place}\";\nDir::Etc \"{place}\";\n\
             Dir::Etc::netrc \"/etc/apt/auth.conf\";\nDir::Etc::netrcparts \"/etc/apt/auth.conf.d\";\n\
             Dir::Etc::trusted \"/dev/null\";\nDir::Etc::trustedparts \"{place}/none\";\n\
             APT::Architecture \"{arch}\";\n#clear APT::Architectures;\nAPT::Architectures:: \"{arch}\";\n\
             APT::Sandbox::User \"\";\nAcquire::Languages \"none\";\n",
            source.settings
        );
        replace(&self.root, "apt.conf", conf.as_bytes())
    }

    fn command(&self, name: &str) -> Result<Command> {
        let mut apt = command(name, "apt")?;
        self.adorn(&mut apt);
        Ok(apt)
    }

    fn adorn(&self, apt: &mut Command) {
        apt.env("APT_CONFIG", self.root.path().join("apt.conf"))
            .env("LC_ALL", "C.UTF-8");
    }
}

/// Writes a file atomically, if its content differs: apt reads the index again if `sources.list` is newer.
fn replace(root: &Tree, name: &str, body: &[u8]) -> io::Result<()> {
    if root
        .read(name, NOTE_BYTES)
        .is_ok_and(|before| before == body)
    {
        return Ok(());
    }
    root.replace(name, body)
}

/// The SHA-256 of a list in a signed release file.
fn signed_sum<'r>(release: &'r str, list: &str) -> Option<&'r str> {
    let mut lines = release
        .lines()
        .skip_while(|line| *line != "SHA256:")
        .skip(1);
    let mut sums = lines.by_ref().take_while(|line| line.starts_with(' '));
    sums.find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (sum, _bytes, name) = (words.next()?, words.next()?, words.next()?);
        (name == list).then_some(sum)
    })
}

/// Fails for an unknown suite, before the network is used.
pub(crate) fn check_suite(name: &str) -> Result<()> {
    if SUITES.contains(&name) {
        return Ok(());
    }
    bail!(
        "unknown Debian suite: {name:?} ({})",
        remedy_among(name, &SUITES)
    );
}

/// Where Debian's archive is and how this host reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) mirror: String,
    /// Lines of `apt.conf`: proxies and the like.
    pub(crate) settings: String,
}

impl Source {
    /// From the host's apt configuration.
    pub(crate) fn of_host(task: Task<'_>) -> Result<Self> {
        let named = named_mirror(std::env::var_os(MIRROR_VARIABLE).as_deref())?;
        if !Path::new(KEYRING).exists() {
            bail!(
                "keyring not found: {KEYRING} (install the Debian package debian-archive-keyring)"
            );
        }
        let mut dump = command("apt-config", "apt")?;
        let settings = settings_of(&program::run(dump.arg("dump"), task)?);
        if let Some(mirror) = named {
            return Ok(Self { mirror, settings });
        }
        let mut targets = command("apt-get", "apt")?;
        targets.args([
            "indextargets",
            "--format",
            "$(SITE) $(ORIGIN)",
            "Created-By: Packages",
        ]);
        match mirror_of(&program::run(&mut targets, task)?) {
            Some(mirror) => Ok(Self { mirror, settings }),
            None => bail!(
                "this system's apt knows no Debian mirror (run apt-get update, or set {MIRROR_VARIABLE} to the URI of one)"
            ),
        }
    }

    /// The line of `sources.list` for a suite.
    pub(crate) fn line(&self, suite: &str) -> String {
        source_line(&self.mirror, suite)
    }
}

fn source_line(mirror: &str, suite: &str) -> String {
    format!("deb [signed-by={KEYRING}] {mirror} {suite} main")
}

/// The mirror that the variable names, if it is one that a line of `sources.list` can have.
fn named_mirror(value: Option<&OsStr>) -> Result<Option<String>> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let is_uri = |text: &&str| {
        let parts = text.split_once(":/");
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        parts.is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.chars().all(is_scheme))
            && text.chars().all(|c| c.is_ascii_graphic())
    };
    match value.to_str().filter(is_uri) {
        Some(uri) => Ok(Some(uri.into())),
        None => bail!(
            "{MIRROR_VARIABLE} is no URI: {:?} (write one such as http://HOST/debian, or unset it)",
            value.to_string_lossy()
        ),
    }
}

/// The site that serves Debian itself, from lines of `SITE ORIGIN`; the security archive has no kernels of
/// other suites.
fn mirror_of(targets: &str) -> Option<String> {
    targets
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(site, origin)| *origin == "Debian" && !site.contains("security"))
        .map(|(site, _)| site.to_string())
}

/// The lines of `apt-config dump` that say how to fetch.
///
/// Without lines that say what to fetch, and those that would weaken the check of signatures.
fn settings_of(dump: &str) -> String {
    let ours = [
        "IndexTargets",
        "Changelogs",
        "Languages",
        "CompressionTypes",
        "GzipIndexes",
        "Allow",
    ];
    let mut settings = String::new();
    for line in dump.lines() {
        let Some(key) = line.strip_prefix("Acquire::") else {
            continue;
        };
        let empty = line.ends_with(" \"\";");
        if !empty && !ours.iter().any(|word| key.starts_with(word)) {
            settings.push_str(line);
            settings.push('\n');
        }
    }
    settings
}

/// Reads the packages of an index whose names begin with one of `prefixes`.
fn read_index(index: &str, prefixes: &[&str]) -> Vec<Package> {
    let mut packages = Vec::new();
    for stanza in index.split("\n\n") {
        let field = |name: &str| {
            stanza
                .lines()
                .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.trim()))
        };
        let number = |name| field(name).and_then(|text| text.parse::<u64>().ok());
        let Some(name) = field("Package") else {
            continue;
        };
        if !prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        packages.push(Package {
            name: name.into(),
            version: field("Version").unwrap_or_default().into(),
            depends: field("Depends").unwrap_or_default().into(),
            sha256: field("SHA256").unwrap_or_default().into(),
            bytes: number("Size").unwrap_or(0),
            installed_bytes: number("Installed-Size").unwrap_or(0) * 1024,
        });
    }
    packages
}

/// Packages of priority required: with the essential ones and apt they make the minimal system.
fn required_in(index: &str) -> Vec<String> {
    index
        .split("\n\n")
        .filter(|stanza| stanza.lines().any(|line| line == "Priority: required"))
        .filter_map(|stanza| {
            stanza
                .lines()
                .find_map(|line| line.strip_prefix("Package: "))
        })
        .map(String::from)
        .collect()
}

/// `Inst kmod (30+20221128-1 Debian:12.5/stable [amd64])` as `kmod=30+20221128-1`.
fn read_install(line: &str) -> Option<String> {
    let mut words = line.strip_prefix("Inst ")?.split(' ');
    let name = words.next()?;
    let version = words.find_map(|word| word.strip_prefix('('))?;
    Some(format!("{name}={version}"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_mirror_is_the_site_that_serves_debian_itself() {
        let targets = "https://tools.example.org/apt Tools\n\
            http://security.example.org/debian-security Debian\n\
            http://mirror.example.org/debian Debian\n";
        assert_eq!(
            mirror_of(targets).as_deref(),
            Some("http://mirror.example.org/debian")
        );
        assert_eq!(mirror_of("https://tools.example.org/apt Tools\n"), None);
        assert_eq!(mirror_of(""), None);
    }

    #[test]
    fn a_mirror_that_is_no_uri_is_refused_by_its_variable() {
        let named = |value: &str| named_mirror(Some(value.as_ref())).map_err(|why| why.to_string());
        assert_eq!(named_mirror(None).unwrap(), None);
        assert_eq!(named(""), Ok(None));
        for good in ["http://mirror.example.org/debian", "file:/srv/debian"] {
            assert_eq!(named(good), Ok(Some(good.into())));
        }
        for bad in ["deb.debian.org", "://x", "http://x y", "[x]:/y"] {
            assert!(named(bad).is_err(), "{bad}");
        }
        expect![[r#"BAKEOFF_DEBIAN_MIRROR is no URI: "nonsense" (write one such as http://HOST/debian, or unset it)"#]]
            .assert_eq(&named("nonsense").unwrap_err());
    }

    #[test]
    fn ways_to_the_mirror_are_kept_and_hooks_are_not() {
        let dump = r#"APT::Update::Post-Invoke:: "rm -f something";
DPkg::Pre-Invoke:: "something";
Acquire "";
Acquire::http::Proxy "http://proxy.example.org:3142";
Acquire::Check-Valid-Until "false";
Acquire::AllowInsecureRepositories "1";
Acquire::IndexTargets::deb::Packages::MetaKey "x";
Acquire::GzipIndexes "true";
Acquire::Languages:: "none";
"#;
        expect![[r#"
            Acquire::http::Proxy "http://proxy.example.org:3142";
            Acquire::Check-Valid-Until "false";
        "#]]
        .assert_eq(&settings_of(dump));
    }

    #[test]
    fn an_index_is_read_by_prefix() {
        let index = "Package: apache2\nVersion: 2.4\n\n\
            Package: linux-image-x-amd64\nVersion: 6.1-1\nInstalled-Size: 2\nDepends: kmod, linux-base\n\
            Description: a kernel\n with: more\nSize: 300\nSHA256: abcd\n";
        let packages = read_index(index, &["linux-"]);
        assert_eq!(packages.len(), 1);
        assert_eq!(packages[0].version, "6.1-1");
        assert_eq!(
            (packages[0].bytes, packages[0].installed_bytes),
            (300, 2048)
        );
        assert_eq!(packages[0].sha256, "abcd");
    }

    #[test]
    fn a_release_file_says_what_was_signed() {
        let release = "Suite: stable\nMD5Sum:\n 11 5 main/binary-amd64/Packages\nSHA256:\n aa 7 main/binary-all/Packages\n \
            bb 9 main/binary-amd64/Packages\nSHA512:\n cc 9 main/binary-arm64/Packages\n";
        let sum = |list| signed_sum(release, list);
        assert_eq!(sum("main/binary-amd64/Packages"), Some("bb"));
        assert_eq!(sum("main/binary-arm64/Packages"), None);
        assert_eq!(signed_sum("no sums", "main/binary-amd64/Packages"), None);
    }

    #[test]
    fn a_root_that_was_copied_is_configured_for_its_new_place() {
        let dir = tempfile::tempdir().unwrap();
        let cache = |name: &str| Cache::open(&dir.path().join(name));
        let stop = std::sync::atomic::AtomicBool::new(false);
        let task = Task::silent(&stop);
        let source = Source {
            mirror: "http://mirror.example.org/debian".into(),
            settings: "Acquire::http::Proxy \"http://proxy.example.org:3142\";\n".into(),
        };
        let suite = Suite {
            arch: Arch::X86_64,
            name: "bookworm".into(),
            root: cache("old").dir("apt/bookworm").unwrap(),
        };
        suite.configure(&source).unwrap();
        replace(&suite.root, FETCHED, source.mirror.as_bytes()).unwrap();
        std::fs::rename(dir.path().join("old"), dir.path().join("new")).unwrap();
        // No index is fetched: there is one.
        let moved = Suite::open(&cache("new"), "bookworm", false, task).unwrap();
        let conf = moved.root.read_to_string("apt.conf", NOTE_BYTES).unwrap();
        let old = dir.path().join("old");
        assert!(!conf.contains(old.to_str().unwrap()), "{conf}");
        assert!(conf.starts_with(&source.settings), "{conf}");
        let place = dir.path().join("new/apt/bookworm");
        assert!(
            conf.contains(&format!("Dir::State \"{}\";", place.display())),
            "{conf}"
        );
    }

    #[test]
    fn required_packages_are_part_of_a_minimal_system() {
        let index = "Package: mount\nPriority: required\n\nPackage: vim\nPriority: optional\n";
        assert_eq!(required_in(index), ["mount"]);
    }

    #[test]
    fn a_simulated_installation_is_read() {
        let line = "Inst kmod (30+20221128-1 Debian:12.5/stable [amd64])";
        assert_eq!(read_install(line).as_deref(), Some("kmod=30+20221128-1"));
        assert_eq!(read_install("Conf kmod (30)"), None);
    }

    #[test]
    fn an_unknown_suite_is_told_with_the_known_ones() {
        let why = check_suite("bookwurm").unwrap_err().to_string();
        assert_eq!(
            why,
            "unknown Debian suite: \"bookwurm\" (did you mean \"bookworm\"?)"
        );
        let why = check_suite("jammy-and-jelly").unwrap_err().to_string();
        assert!(why.contains("known: bullseye, bookworm,"), "{why}");
    }
}
