//! The archive of a bundle: a tar stream in one zstd frame, and its SHA-256.
//!
//! A bundle comes from anybody. So its reader has limits, creates regular files only, and accepts exactly the bytes that
//! the writer would have written for the same names and contents.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek as _, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use base::input::file;
use base::input::tree::Tree;
use base::input::units::show_bytes;
use machine::task::Interrupted;
use record::hash::{hex, sha256, sha256_of};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{self, CompressionLevel};
use sha2::{Digest as _, Sha256};

/// Name of the signature.
const SIGNATURE: &str = "statement.json.sig";

/// Name of the statement.
const STATEMENT: &str = "statement.json";

/// Name of the manifest.
pub const MANIFEST: &str = "manifest.sha256";

/// Directory of the run's files.
pub const RUN: &str = "run";

/// Most bytes of all files together.
pub const MOST_BYTES: u64 = 16 << 30;

/// Most bytes of a signature.
const MOST_SIGNATURE_BYTES: u64 = 64 << 10;

/// Most bytes of a statement.
const MOST_STATEMENT_BYTES: u64 = 4 << 20;

/// Most bytes of a manifest: some 200,000 files.
const MOST_MANIFEST_BYTES: u64 = 32 << 20;

/// Memory for the decoder's window; the writer needs 128 KiB.
const WINDOW_BYTES: u64 = 8 << 20;

/// Size of a tar block.
const BLOCK: usize = 512;

/// Two empty blocks end a tar stream.
const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Beginning of the last bytes: a skippable frame of zstd of 40 bytes, so that other programs can unpack bundles.
const TRAILER: [u8; 16] = *b"\x50\x2a\x4d\x18\x28\0\0\0bakeoff1";

/// Length of the last bytes: `TRAILER` and a SHA-256.
const TRAILER_BYTES: u64 = 48;

/// A file of a run.
#[derive(Debug)]
pub struct RunFile {
    /// Path below the run directory, with slashes.
    pub name: String,
    /// Where its content is.
    pub content: Content,
}

/// Content of a file.
#[derive(Debug)]
pub enum Content {
    /// The file of the same name in the run directory.
    Stored,
    /// Made for the bundle.
    Made(Vec<u8>),
}

/// The manifest of a run's files, which are sorted by name.
///
/// # Errors
/// A file cannot be read, or its name cannot be in a bundle.
pub fn manifest(run: &Tree, files: &[RunFile], stop: &AtomicBool) -> Result<String> {
    let size = |file: &RunFile| match &file.content {
        Content::Made(body) => body.len() as u64,
        Content::Stored => run
            .metadata(&file.name)
            .map_or(0, |metadata| metadata.len()),
    };
    let total = files.iter().map(size).fold(0, u64::saturating_add);
    if total > MOST_BYTES {
        bail!(
            "run too large for a bundle: {} (at most {}; remove console logs and profiles that nobody needs)",
            show_bytes(total),
            show_bytes(MOST_BYTES)
        );
    }
    let mut text = String::new();
    for RunFile { name, content } in files {
        Interrupted::check(stop)?;
        check_name(name).with_context(|| run.path().join(name).display().to_string())?;
        let digest = match content {
            Content::Made(body) => sha256(body),
            Content::Stored => run
                .open(name)
                .and_then(sha256_of)
                .with_context(|| cannot_read(&run.path().join(name)))?,
        };
        let _ = writeln!(text, "{digest}  {RUN}/{name}");
    }
    Ok(text)
}

/// What a bundle is made of, besides the run's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// Signature of the statement.
    pub signature: Option<Vec<u8>>,
    /// The statement.
    pub statement: Vec<u8>,
    /// The manifest.
    pub manifest: String,
}

impl Cover {
    fn parts(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let signature = self.signature.as_deref();
        let signature = signature.map(|signature| (SIGNATURE, signature));
        signature.into_iter().chain([
            (STATEMENT, &*self.statement),
            (MANIFEST, self.manifest.as_bytes()),
        ])
    }
}

/// Writes a bundle.
///
/// # Errors
/// A file cannot be read or has changed since the manifest was made, or `to` cannot be written.
pub fn write(
    cover: &Cover,
    run: &Tree,
    files: &[RunFile],
    to: &mut File,
    stop: &AtomicBool,
) -> io::Result<()> {
    let (tar, mut pipe) = io::pipe()?;
    thread::scope(|scope| {
        let written = scope.spawn(move || write_tar(cover, run, files, &mut pipe, stop));
        let mut hashed = Hashed {
            to: &mut *to,
            hasher: Sha256::new(),
            failed: None,
        };
        encoding::compress(tar, &mut hashed, CompressionLevel::Fastest);
        let Hashed { hasher, failed, .. } = hashed;
        let written = written.join().expect("the writer of the archive panicked");
        // If the disk is full, the pipe breaks too.
        failed.map_or(written, Err)?;
        to.write_all(&TRAILER)?;
        to.write_all(&hasher.finalize())
    })
}

/// Passes bytes on and hashes them. The encoder panics at an error, so the first one is kept and later bytes are dropped.
struct Hashed<'f> {
    to: &'f mut File,
    hasher: Sha256,
    failed: Option<io::Error>,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.update(bytes);
        if self.failed.is_none() {
            self.failed = self.to.write_all(bytes).err();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_tar(
    cover: &Cover,
    run: &Tree,
    files: &[RunFile],
    to: &mut impl Write,
    stop: &AtomicBool,
) -> io::Result<()> {
    for (name, body) in cover.parts() {
        append(to, name, body.len() as u64, &mut { body })?;
    }
    for RunFile { name, content } in files {
        Interrupted::check(stop).map_err(io::Error::other)?;
        let place = format!("{RUN}/{name}");
        match content {
            Content::Made(body) => append(to, &place, body.len() as u64, &mut body.as_slice())?,
            Content::Stored => {
                let mut file = run.open(name)?;
                let bytes = file.metadata()?.len();
                append(to, &place, bytes, &mut file)?;
            }
        }
    }
    to.write_all(&END)
}

fn append(to: &mut impl Write, name: &str, bytes: u64, body: &mut impl Read) -> io::Result<()> {
    to.write_all(header(name, bytes)?.as_bytes())?;
    let copied = io::copy(&mut body.take(bytes), to)?;
    if copied < bytes {
        let what = format!("{name} became shorter while it was read");
        return Err(io::Error::other(what));
    }
    to.write_all(&END[..padding(bytes)])
}

/// The one header that a file has in a bundle.
fn header(name: &str, bytes: u64) -> io::Result<tar::Header> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name)?;
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    Ok(header)
}

fn padding(bytes: u64) -> usize {
    (BLOCK - (bytes % BLOCK as u64) as usize) % BLOCK
}

/// Names of files: no empty or hidden part, and no character that a terminal, a shell or a path treats specially.
fn check_name(name: &str) -> Result<()> {
    let is_plain = |part: &str| {
        let mut letters = part.chars();
        letters.next().is_some_and(|c| c.is_ascii_alphanumeric())
            && letters.all(|c| c.is_ascii_alphanumeric() || "._+=,@-".contains(c))
    };
    if !name.split('/').all(is_plain) {
        bail!("not a name of a file in a bundle: {name:?} (letters, digits and ._+=,@- only)");
    }
    header(&format!("{RUN}/{name}"), 0)
        .map(drop)
        .map_err(|_| anyhow!("name too long for a bundle: {name:?}"))
}

/// Whether a file ends as a bundle does.
pub fn ends_as_bundle(path: &Path) -> bool {
    let trailer = file::open(path).and_then(|mut file| read_trailer(&mut file));
    trailer.is_ok_and(|trailer| trailer.starts_with(&TRAILER))
}

/// The last bytes of a file.
fn read_trailer(file: &mut File) -> io::Result<[u8; TRAILER_BYTES as usize]> {
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.seek(SeekFrom::End(-TRAILER_BYTES.cast_signed()))?;
    file.read_exact(&mut trailer)?;
    Ok(trailer)
}

/// Reads a bundle's cover, and unpacks the run's files into `to`.
///
/// # Errors
/// The file cannot be read or written, or is not what `write` makes.
pub fn unpack(path: &Path, to: &Tree, stop: &AtomicBool) -> Result<Cover> {
    read(path, Some(to), stop).with_context(|| format!("bundle {}", path.display()))
}

/// Reads a bundle's cover, and compares all files with the manifest.
///
/// # Errors
/// As `unpack`.
pub fn verify(path: &Path, stop: &AtomicBool) -> Result<Cover> {
    read(path, None, stop).with_context(|| format!("bundle {}", path.display()))
}

fn read(path: &Path, to: Option<&Tree>, stop: &AtomicBool) -> Result<Cover> {
    let mut file = file::open(path).context("cannot read")?;
    let bytes = checked_length(&mut file)?;
    file.rewind()?;
    let mut packed = BufReader::new(file.take(bytes));
    let cover = {
        let decoder = StreamingDecoder::new_with_max_window_size(&mut packed, WINDOW_BYTES);
        let decoder = decoder.map_err(|_| damaged("it holds no zstd frame"))?;
        let mut tar = BufReader::new(decoder);
        let cover = read_cover(&mut tar)?;
        read_files(&mut tar, &cover.manifest, to, stop)?;
        let mut end = Vec::new();
        let read = tar.take(END.len() as u64 + 1).read_to_end(&mut end);
        read.map_err(|why| damaged(&why.to_string()))?;
        if end != END {
            return Err(damaged("something follows its files"));
        }
        cover
    };
    if packed.read(&mut [0])? > 0 {
        return Err(damaged("something follows its zstd frame"));
    }
    Ok(cover)
}

/// The length without the trailer, which is compared with what stands before it.
fn checked_length(file: &mut File) -> Result<u64> {
    let all = file.metadata()?.len();
    let Some(bytes) = all.checked_sub(TRAILER_BYTES) else {
        bail!(
            "not a bundle: {} (bakeoff bundle RUN makes one)",
            show_bytes(all)
        );
    };
    let trailer = read_trailer(file)?;
    let (mark, digest) = trailer.split_at(TRAILER.len());
    if mark != TRAILER {
        let version = TRAILER.len() - 1;
        if mark[..version] == TRAILER[..version] {
            bail!(
                "made by another version of bakeoff, in another format (read it with that version)"
            );
        }
        bail!(
            "not a bundle, or cut off: its last {TRAILER_BYTES} bytes are not those of a bundle (bakeoff bundle RUN makes one)"
        );
    }
    file.rewind()?;
    if sha256_of(&mut file.take(bytes))? != hex(digest) {
        return Err(damaged("its SHA-256 differs from the one at its end"));
    }
    Ok(bytes)
}

fn damaged(why: &str) -> anyhow::Error {
    anyhow!("damaged: {why} (fetch it again)")
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// Reads the files before those of the run.
fn read_cover(tar: &mut impl Read) -> Result<Cover> {
    let mut entry = next_header(tar)?;
    let mut signature = None;
    if entry.name == SIGNATURE {
        signature = Some(read_small(tar, &entry, MOST_SIGNATURE_BYTES)?);
        entry = next_header(tar)?;
    }
    if entry.name != STATEMENT {
        return Err(damaged(&format!("{STATEMENT} is missing")));
    }
    let statement = read_small(tar, &entry, MOST_STATEMENT_BYTES)?;
    let entry = next_header(tar)?;
    if entry.name != MANIFEST {
        return Err(damaged(&format!("{MANIFEST} is missing")));
    }
    let manifest = read_small(tar, &entry, MOST_MANIFEST_BYTES)?;
    let manifest = String::from_utf8(manifest);
    Ok(Cover {
        signature,
        statement,
        manifest: manifest.map_err(|_| damaged(&format!("{MANIFEST} is not UTF-8")))?,
    })
}

/// A file's header.
struct Entry {
    name: String,
    bytes: u64,
}

fn next_header(tar: &mut impl Read) -> Result<Entry> {
    let mut found = tar::Header::new_ustar();
    tar.read_exact(found.as_mut_bytes())
        .map_err(|why| cut_off(&why))?;
    let path = found.path_bytes();
    let name = String::from_utf8_lossy(&path).into_owned();
    let bytes = found.size().unwrap_or(u64::MAX);
    let expected = header(&name, bytes);
    if !expected.is_ok_and(|expected| expected.as_bytes() == found.as_bytes()) {
        return Err(damaged(&format!(
            "{name:?} has a header that no bundle has (a link, an owner or a time)"
        )));
    }
    Ok(Entry { name, bytes })
}

fn cut_off(why: &io::Error) -> anyhow::Error {
    match why.kind() {
        ErrorKind::UnexpectedEof => damaged("cut off"),
        _ => damaged(&why.to_string()),
    }
}

fn read_small(tar: &mut impl Read, entry: &Entry, most_bytes: u64) -> Result<Vec<u8>> {
    if entry.bytes > most_bytes {
        return Err(damaged(&format!(
            "{} too large: {} (at most {})",
            entry.name,
            show_bytes(entry.bytes),
            show_bytes(most_bytes)
        )));
    }
    let mut body = Vec::new();
    copy(tar, entry, &mut body)?;
    Ok(body)
}

/// Copies a file's content and skips what fills its last block.
fn copy(tar: &mut impl Read, entry: &Entry, to: &mut impl Write) -> Result<()> {
    let mut rest = entry.bytes;
    let mut buffer = vec![0; 64 << 10];
    while rest > 0 {
        let wanted = buffer
            .len()
            .min(usize::try_from(rest).unwrap_or(usize::MAX));
        let length = tar.read(&mut buffer[..wanted]);
        let length = length.map_err(|why| cut_off(&why))?;
        if length == 0 {
            return Err(damaged("cut off"));
        }
        to.write_all(&buffer[..length])?;
        rest -= length as u64;
    }
    let mut fill = [0; BLOCK];
    let fill = &mut fill[..padding(entry.bytes)];
    tar.read_exact(fill).map_err(|why| cut_off(&why))?;
    if fill.iter().any(|byte| *byte != 0) {
        return Err(damaged(&format!("something follows {}", entry.name)));
    }
    Ok(())
}

/// Reads the run's files, which are those of the manifest in its order.
fn read_files(
    tar: &mut impl Read,
    manifest: &str,
    to: Option<&Tree>,
    stop: &AtomicBool,
) -> Result<()> {
    let mut rest = MOST_BYTES;
    let mut last = "";
    for line in manifest.split_inclusive('\n') {
        Interrupted::check(stop)?;
        let (digest, name) = manifest_line(line)
            .ok_or_else(|| damaged(&format!("a line of {MANIFEST} is not one of sha256sum")))?;
        check_name(name).map_err(|why| damaged(&why.to_string()))?;
        if name <= last {
            return Err(damaged(&format!(
                "{MANIFEST} is not sorted, or names {name} twice"
            )));
        }
        last = name;
        let entry = next_header(tar)?;
        if below_run(&entry.name) != Some(name) {
            return Err(damaged(&format!(
                "{:?} is not the next file of {MANIFEST}",
                entry.name
            )));
        }
        rest = rest.checked_sub(entry.bytes).ok_or_else(|| {
            damaged(&format!(
                "too large unpacked (at most {})",
                show_bytes(MOST_BYTES)
            ))
        })?;
        let mut hashed = HashedFile {
            hasher: Sha256::new(),
            file: match to {
                Some(tree) => Some(create(tree, name).map_err(|why| cannot_unpack(tree, &why))?),
                None => None,
            },
        };
        copy(tar, &entry, &mut hashed).map_err(|why| match (to, why.downcast::<io::Error>()) {
            (Some(tree), Ok(why)) => cannot_unpack(tree, &why),
            (None, Ok(why)) => why.into(),
            (_, Err(why)) => why,
        })?;
        if hex(&hashed.hasher.finalize()) != digest {
            return Err(anyhow!(
                "changed: {name} differs from {MANIFEST} (do not trust this bundle)"
            ));
        }
    }
    Ok(())
}

fn cannot_unpack(tree: &Tree, why: &io::Error) -> anyhow::Error {
    anyhow!(
        "cannot unpack into {}: {why} (make room, or name another cache with XDG_CACHE_HOME)",
        tree.path().display()
    )
}

/// Digest and name below the run directory, of a line of the manifest.
fn manifest_line(line: &str) -> Option<(&str, &str)> {
    let (digest, name) = line.strip_suffix('\n')?.split_once("  ")?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_digest = digest.len() == 64 && digest.bytes().all(is_digit);
    is_digest.then_some((digest, below_run(name)?))
}

fn below_run(name: &str) -> Option<&str> {
    name.strip_prefix(RUN)?.strip_prefix('/')
}

fn create(tree: &Tree, name: &str) -> io::Result<File> {
    if let Some((dir, _)) = name.rsplit_once('/') {
        tree.make_dir(dir)?;
    }
    tree.create(name)
}

/// Hashes bytes, and writes them to a file, if there is one.
struct HashedFile {
    hasher: Sha256,
    file: Option<File>,
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(file) = &mut self.file {
            file.write_all(bytes)?;
        }
        self.hasher.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        run: Tree,
    }

    impl Place {
        /// A run of two files, one of them in a directory.
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let run = Tree::to_write(&dir.path().join("web")).unwrap();
            run.make_dir("trials/001").unwrap();
            run.replace("journal.jsonl", b"one line\n").unwrap();
            run.replace("trials/001/trial.json", &[b'7'; 1300]).unwrap();
            Self { dir, run }
        }

        fn files() -> Vec<RunFile> {
            let file = |name: &str, content| RunFile {
                name: name.into(),
                content,
            };
            vec![
                file("journal.jsonl", Content::Stored),
                file("trials/001/trial.json", Content::Stored),
                file("verdict.json", Content::Made(b"{}".into())),
            ]
        }

        fn cover(&self) -> Cover {
            Cover {
                signature: Some(b"signature".into()),
                statement: b"{}".into(),
                manifest: manifest(&self.run, &Self::files(), &GO_ON).unwrap(),
            }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("bundle")
        }

        fn write(&self, cover: &Cover) {
            let mut file = File::create(self.path()).unwrap();
            write(cover, &self.run, &Self::files(), &mut file, &GO_ON).unwrap();
        }

        /// Writes a bundle with this tar stream, which `write` would not make.
        fn seal(&self, tar: &[u8]) {
            let mut bundle = encoding::compress_to_vec(tar, CompressionLevel::Fastest);
            let digest = Sha256::digest(&bundle);
            bundle.extend(TRAILER);
            bundle.extend(digest);
            std::fs::write(self.path(), bundle).unwrap();
        }

        fn refusal(&self) -> String {
            let out = Tree::to_write(&self.dir.path().join("out")).unwrap();
            let why = unpack(&self.path(), &out, &GO_ON).unwrap_err();
            format!("{why:#}")
        }
    }

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_bundle_is_unpacked_as_it_was_packed() {
        let place = Place::new();
        let cover = place.cover();
        place.write(&cover);
        let out = Tree::to_write(&place.dir.path().join("out")).unwrap();
        assert_eq!(unpack(&place.path(), &out, &GO_ON).unwrap(), cover);
        assert_eq!(verify(&place.path(), &GO_ON).unwrap(), cover);
        assert_eq!(out.read("journal.jsonl", 64).unwrap(), b"one line\n");
        let trial = out.read("trials/001/trial.json", 4096).unwrap();
        assert_eq!(trial, [b'7'; 1300]);
        let first = std::fs::read(place.path()).unwrap();
        place.write(&cover);
        assert_eq!(std::fs::read(place.path()).unwrap(), first);
    }

    #[test]
    fn other_archives_are_refused() {
        let place = Place::new();
        let cover = place.cover();
        let mut good = Vec::new();
        write_tar(&cover, &place.run, &Place::files(), &mut good, &GO_ON).unwrap();
        place.seal(&good);
        assert_eq!(verify(&place.path(), &GO_ON).unwrap(), cover);
        let with = |name: &str, kind: tar::EntryType| {
            let mut header = header(name, 0).unwrap();
            header.set_entry_type(kind);
            if kind == tar::EntryType::Symlink {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            let mut tar = Vec::new();
            for (name, body) in cover.parts() {
                append(&mut tar, name, body.len() as u64, &mut { body }).unwrap();
            }
            tar.extend(header.as_bytes());
            tar.extend(END);
            tar
        };
        let mut longer = good.clone();
        longer.push(0);
        let mut followed = good.clone();
        let end = good.len() - END.len() - 1;
        followed[end] = 1;
        let cut = good[..good.len() - 1024].to_vec();
        let journal = "run/journal.jsonl";
        for (tar, want) in [
            (
                with(journal, tar::EntryType::Symlink),
                "header that no bundle has",
            ),
            (
                with(journal, tar::EntryType::Directory),
                "header that no bundle has",
            ),
            (
                with("run/other", tar::EntryType::Regular),
                "is not the next file",
            ),
            (
                with(journal, tar::EntryType::Regular),
                "changed: journal.jsonl",
            ),
            (longer, "something follows its files"),
            (followed, "something follows run/verdict.json"),
            (cut, "something follows its files"),
            (good[..100].to_vec(), "cut off"),
            (good[..good.len() - 2000].to_vec(), "cut off"),
        ] {
            place.seal(&tar);
            let refusal = place.refusal();
            assert!(refusal.contains(want), "{want}: {refusal}");
        }
        std::fs::write(place.path(), "short").unwrap();
        assert!(place.refusal().contains("not a bundle: 5.00 B"));
        std::fs::write(place.path(), [0; 100]).unwrap();
        assert!(place.refusal().contains("not a bundle, or cut off"));
        place.seal(&good);
        let mut newer = std::fs::read(place.path()).unwrap();
        let version = newer.len() - 33;
        newer[version] = b'2';
        std::fs::write(place.path(), newer).unwrap();
        assert!(place.refusal().contains("another version of bakeoff"));
    }

    #[test]
    fn a_manifest_names_files_below_the_run_in_order() {
        let place = Place::new();
        let cover = place.cover();
        let digest = "0".repeat(64);
        for (manifest, want) in [
            (format!("{digest}  run/../x\n"), "not a name of a file"),
            (format!("{digest}  run//etc\n"), "not a name of a file"),
            (format!("{digest}  run/.hidden\n"), "not a name of a file"),
            (format!("{digest}  run/a b\n"), "not a name of a file"),
            (format!("{digest}  other/a\n"), "not one of sha256sum"),
            (format!("{digest}  run/a"), "not one of sha256sum"),
            ("0  run/a\n".into(), "not one of sha256sum"),
        ] {
            let cover = Cover {
                manifest,
                ..cover.clone()
            };
            place.write(&cover);
            let refusal = place.refusal();
            assert!(refusal.contains(want), "{want}: {refusal}");
        }
        let first = cover.manifest.lines().next().unwrap();
        let twice = Cover {
            manifest: format!("{first}\n{first}\n"),
            ..cover.clone()
        };
        place.write(&twice);
        let refusal = place.refusal();
        assert!(refusal.contains("names journal.jsonl twice"), "{refusal}");
    }

    #[test]
    fn what_cannot_be_packed_is_one_message() {
        let place = Place::new();
        let file = |name: &str| {
            vec![RunFile {
                name: name.into(),
                content: Content::Stored,
            }]
        };
        let why = |name: &str| {
            let why = manifest(&place.run, &file(name), &GO_ON).unwrap_err();
            format!("{why:#}")
        };
        assert!(why("gone").contains("cannot read"));
        assert!(why("a b").contains("not a name of a file"));
        assert!(why(&"a".repeat(200)).contains("name too long"));
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let cover = place.cover();
        let why = write(&cover, &place.run, &Place::files(), &mut full, &GO_ON).unwrap_err();
        assert_eq!(why.kind(), ErrorKind::StorageFull);
        // A file that shrinks after its size was read.
        let why = append(&mut Vec::new(), "a", 10, &mut &b"short"[..]).unwrap_err();
        assert_eq!(why.to_string(), "a became shorter while it was read");
        let stopped = AtomicBool::new(true);
        let why = manifest(&place.run, &Place::files(), &stopped).unwrap_err();
        assert!(why.is::<Interrupted>());
    }
}
