//! Files below a directory that another user may have filled: a run directory, an unpacked bundle, the cache, what `watch --web` shows.
//!
//! Anyone who may write to such a directory can replace a file with a symbolic link, a FIFO or a device at any time. So each
//! file is opened by a path that starts at the directory, and the kernel follows no link and never leaves the directory
//! (`openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`). Checks use the opened file, never its name. For kernels before
//! 5.6, each directory is opened in turn with `O_NOFOLLOW`, which is equivalent.
//!
//! Links in the name of the directory itself are followed, because the user has typed it.
//!
//! As root, bakeoff writes to no directory that another user can write to (`Tree::to_write`). Working as that user is no
//! alternative: namespaces, `/dev/kvm` and sysctls need root for the whole run, and the other user's changes would still
//! affect the figures of root's run.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, FileType, Metadata, TryLockError};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{Error, ErrorKind, Result, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::input::file;

/// Marks the name of an incomplete file; random characters follow.
const DRAFT: &str = ".draft-";

/// A directory and everything below it.
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
    /// The opened root; `None` if it is opened by name each time.
    held: Option<Arc<OwnedFd>>,
    /// Path from the root to this directory.
    below: PathBuf,
}

impl From<&Path> for Tree {
    fn from(path: &Path) -> Self {
        Self::at(path)
    }
}

impl From<&PathBuf> for Tree {
    fn from(path: &PathBuf) -> Self {
        Self::at(path)
    }
}

impl From<&Tree> for Tree {
    fn from(tree: &Tree) -> Self {
        tree.clone()
    }
}

/// An entry of a directory.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Name without a directory.
    pub name: OsString,
    /// Type; a link is a link.
    pub kind: FileType,
}

impl Tree {
    /// A directory by name. Each call resolves the name again, so it need not exist yet.
    pub fn at(path: &Path) -> Self {
        Self {
            root: path.into(),
            held: None,
            below: PathBuf::new(),
        }
    }

    /// A directory that stays the same even if its name changes.
    ///
    /// # Errors
    /// It does not exist, or is not a directory.
    pub fn hold(path: &Path) -> Result<Self> {
        let mut tree = Self::at(path);
        tree.held = Some(Arc::new(open_root(path)?));
        Ok(tree)
    }

    /// Like `hold` for a directory to write to, which is created if it is missing.
    ///
    /// # Errors
    /// It cannot be created, or this is root and another user can write to it.
    pub fn to_write(path: &Path) -> Result<Self> {
        DirBuilder::new().recursive(true).create(path)?;
        let tree = Self::hold(path)?;
        tree.refuse_foreign()?;
        Ok(tree)
    }

    /// Refuses the directory if this is root and another user can write to it. A missing directory is accepted.
    ///
    /// # Errors
    /// Another user can write to it; the error names the owner and the remedy.
    pub fn refuse_foreign(&self) -> Result<()> {
        // If it cannot be opened, its later use reports that.
        let Ok(root) = self.root() else {
            return Ok(());
        };
        let metadata = rustix::fs::fstat(root.fd())?;
        let euid = rustix::process::geteuid().as_raw();
        // With an access control list, the group's bits are the mask of the list.
        let has_list = rustix::fs::fgetxattr(root.fd(), ACCESS_LIST, &mut [0; 0][..]).is_ok();
        let group = (!has_list).then_some(metadata.st_gid);
        match Foreign::of(euid, metadata.st_uid, group, metadata.st_mode) {
            None => Ok(()),
            Some(foreign) => Err(Error::new(
                ErrorKind::PermissionDenied,
                foreign.message(&self.root),
            )),
        }
    }

    /// A directory below this one. Nothing is opened yet.
    #[must_use]
    pub fn below(&self, name: impl AsRef<Path>) -> Self {
        Self {
            below: self.below.join(name),
            ..self.clone()
        }
    }

    /// The directory that contains a file, and the file's name in it.
    pub fn around(file: &Path) -> (Self, &Path) {
        let dir = match file.parent() {
            Some(dir) if dir != Path::new("") => dir,
            _ => Path::new("."),
        };
        (Self::at(dir), file.file_name().map_or(file, Path::new))
    }

    /// Path of the directory, for messages and other programs.
    pub fn path(&self) -> PathBuf {
        // Joined with an empty path it would end in a slash.
        if self.below == Path::new("") {
            return self.root.clone();
        }
        self.root.join(&self.below)
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// As `File::open`, and if it is a link or not a regular file.
    pub fn open(&self, name: impl AsRef<Path>) -> Result<File> {
        self.regular(name.as_ref(), OFlags::RDONLY)
    }

    /// The content of a regular file of at most `most_bytes`.
    ///
    /// # Errors
    /// As `open`, and if the file is longer; a file whose size is known to be larger is not read.
    pub fn read(&self, name: impl AsRef<Path>, most_bytes: u64) -> Result<Vec<u8>> {
        file::read_opened(self.open(name)?, most_bytes)
    }

    /// The text of a regular file of at most `most_bytes`.
    ///
    /// # Errors
    /// As `read`, and if it is not UTF-8.
    pub fn read_to_string(&self, name: impl AsRef<Path>, most_bytes: u64) -> Result<String> {
        file::text(self.read(name, most_bytes)?)
    }

    /// Like `read_to_string` for a file that a person writes, with remedies in errors.
    ///
    /// # Errors
    /// As `file::read_to_string_within`.
    pub fn read_to_string_within(&self, name: impl AsRef<Path>, most_bytes: u64) -> Result<String> {
        file::read_written(self.open(name)?, most_bytes)
    }

    /// Metadata of a regular file.
    ///
    /// # Errors
    /// As `open`.
    pub fn metadata(&self, name: impl AsRef<Path>) -> Result<Metadata> {
        self.open(name)?.metadata()
    }

    /// Whether a regular file exists.
    pub fn has_file(&self, name: impl AsRef<Path>) -> bool {
        self.kind(name.as_ref()).is_ok_and(|kind| kind.is_file())
    }

    /// Whether a directory exists.
    pub fn has_dir(&self, name: impl AsRef<Path>) -> bool {
        self.kind(name.as_ref()).is_ok_and(|kind| kind.is_dir())
    }

    /// Whether anything exists at the name, including a link.
    pub fn has(&self, name: impl AsRef<Path>) -> bool {
        self.kind(name.as_ref()).is_ok()
    }

    /// Entries of the directory, sorted by name.
    ///
    /// # Errors
    /// It cannot be listed, or is a link.
    pub fn list(&self) -> Result<Vec<Entry>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = self.open_at(Path::new(""), flags)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_os_string();
            if name == "." || name == ".." {
                continue;
            }
            match self.kind(Path::new(&name)) {
                Ok(kind) => entries.push(Entry { name, kind }),
                // Another process has removed it meanwhile.
                Err(why) if why.kind() == ErrorKind::NotFound => {}
                Err(why) => return Err(why),
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Creates a file; an existing file or link is removed.
    ///
    /// # Errors
    /// As `File::create_new`.
    pub fn create(&self, name: impl AsRef<Path>) -> Result<File> {
        let name = name.as_ref();
        self.remove_file(name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.regular(name, flags)
    }

    /// Opens a regular file for appending and reading; it is created if it is missing.
    ///
    /// # Errors
    /// As `File::open`, and if it is a link or not a regular file.
    pub fn append(&self, name: impl AsRef<Path>) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        self.regular(name.as_ref(), flags)
    }

    /// Like `append`, without the right to read, for a program that must not read what it has written.
    ///
    /// # Errors
    /// As `append`.
    pub fn append_only(&self, name: impl AsRef<Path>) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        self.regular(name.as_ref(), flags)
    }

    /// Opens a file to lock it. It is created if it is missing; its content stays.
    ///
    /// # Errors
    /// As `append`.
    pub fn lock_file(&self, name: impl AsRef<Path>) -> Result<File> {
        self.append(name)
    }

    /// Whether a program holds an exclusive lock on a regular file.
    pub fn is_locked(&self, name: impl AsRef<Path>) -> bool {
        let is_held = |file: File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        self.open(name).is_ok_and(is_held)
    }

    /// Replaces a file atomically: a reader sees the old or the new one, even after a crash. A link in its place is
    /// replaced.
    ///
    /// # Errors
    /// The write failed; the old file is unchanged.
    pub fn replace(&self, name: impl AsRef<Path>, body: &[u8]) -> Result<()> {
        self.replace_by(name, |file| file.write_all(body)).map(drop)
    }

    /// Like `replace`, with content that `write` produces. Returns the open file.
    ///
    /// # Errors
    /// As `replace`.
    pub fn replace_by(
        &self,
        name: impl AsRef<Path>,
        write: impl FnOnce(&mut File) -> Result<()>,
    ) -> Result<File> {
        let name = name.as_ref();
        let (draft, mut file) = self.draft(name)?;
        let written = write(&mut file)
            .and_then(|()| file.sync_data())
            .and_then(|()| self.rename(&draft, name));
        match written {
            Ok(()) => Ok(file),
            Err(why) => {
                // The draft may not exist if nothing could be written.
                let _ = self.remove_file(&draft);
                Err(why)
            }
        }
    }

    /// A new file beside `name`. No other user can prepare it, because its name is random and an existing name is refused.
    fn draft(&self, name: &Path) -> Result<(PathBuf, File)> {
        loop {
            let mut draft = name.as_os_str().to_owned();
            let random = RandomState::new().build_hasher().finish();
            draft.push(format!("{DRAFT}{random:016x}"));
            let draft = PathBuf::from(draft);
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            match self.regular(&draft, flags) {
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                made => return Ok((draft, made?)),
            }
        }
    }

    /// Removes drafts that killed writers have left. The caller must hold a lock that excludes other writers.
    pub fn clear_drafts(&self) {
        for Entry { name, kind } in self.list().unwrap_or_default() {
            if kind.is_file() && name.to_string_lossy().contains(DRAFT) {
                let _ = self.remove_file(&name);
            }
        }
    }

    /// Renames a file or directory within this tree.
    ///
    /// # Errors
    /// As `fs::rename`.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.move_to(from, self, to)
    }

    /// Moves a file or directory to another tree.
    ///
    /// # Errors
    /// As `fs::rename`.
    pub fn move_to(&self, from: impl AsRef<Path>, tree: &Self, to: impl AsRef<Path>) -> Result<()> {
        let (from_dir, from) = self.parent(from.as_ref())?;
        let (to_dir, to) = tree.parent(to.as_ref())?;
        Ok(rustix::fs::renameat(from_dir, from, to_dir, to)?)
    }

    /// Creates a hard link here to a file of another tree.
    ///
    /// # Errors
    /// As `fs::hard_link`.
    pub fn link_from(
        &self,
        tree: &Self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
    ) -> Result<()> {
        let (from_dir, from) = tree.parent(from.as_ref())?;
        let (to_dir, to) = self.parent(to.as_ref())?;
        let flags = AtFlags::empty();
        Ok(rustix::fs::linkat(from_dir, from, to_dir, to, flags)?)
    }

    /// Removes a file or link, if it exists.
    ///
    /// # Errors
    /// As `fs::remove_file`.
    pub fn remove_file(&self, name: impl AsRef<Path>) -> Result<()> {
        let removed = self
            .parent(name.as_ref())
            .and_then(|(dir, name)| Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?));
        match removed {
            Err(why) if why.kind() != ErrorKind::NotFound => Err(why),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes a directory with its content, if it exists; links in it are removed, not followed.
    ///
    /// # Errors
    /// As `fs::remove_dir_all`.
    pub fn remove_all(&self, name: impl AsRef<Path>) -> Result<()> {
        let removed = self.parent(name.as_ref()).and_then(|(dir, name)| {
            // The standard library takes no descriptor, but this path refers to it.
            let dir_path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
            fs::remove_dir_all(dir_path.join(name))
        });
        match removed {
            Err(why) if why.kind() != ErrorKind::NotFound => Err(why),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// As `fs::create_dir_all`, and if a parent is a link.
    pub fn make_dir(&self, name: impl AsRef<Path>) -> Result<Self> {
        let dir = self.below(name);
        let mut made = PathBuf::new();
        let top = Self {
            below: PathBuf::new(),
            ..self.clone()
        };
        for part in dir.below.components() {
            made.push(part);
            let (parent, name) = top.parent(&made)?;
            match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(why) => return Err(why.into()),
            }
        }
        if !dir.has_dir("") {
            return Err(Error::other(format!(
                "not a directory: {}",
                dir.path().display()
            )));
        }
        Ok(dir)
    }

    /// Replaces each link with a hard link to its target file, if that is below this directory too. Other links are removed, and so
    /// are special files: only regular files and directories remain.
    ///
    /// # Errors
    /// An entry cannot be listed, linked or removed.
    pub fn flatten(&self) -> Result<()> {
        let root = self.open_at(Path::new(""), OFlags::PATH | OFlags::DIRECTORY)?;
        let others = self.all_others()?;
        let mut files = Vec::new();
        // Targets are opened before any link is removed, because a link may lead through another one.
        for name in &others {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let resolve = ResolveFlags::IN_ROOT;
            let target = rustix::fs::openat2(&root, name, flags, Mode::empty(), resolve).ok();
            files
                .push(target.filter(|file| kind_of(file.as_fd()).is_ok_and(|kind| kind.is_file())));
        }
        for (name, file) in others.iter().zip(files) {
            self.remove_file(name)?;
            if let Some(file) = file {
                let (dir, name) = self.parent(name)?;
                let from = format!("/proc/self/fd/{}", file.as_raw_fd());
                rustix::fs::linkat(CWD, from, dir, name, AtFlags::SYMLINK_FOLLOW)?;
            }
        }
        Ok(())
    }

    /// Paths of everything below that is neither a regular file nor a directory.
    fn all_others(&self) -> Result<Vec<PathBuf>> {
        let mut others = Vec::new();
        let mut dirs = vec![PathBuf::new()];
        while let Some(dir) = dirs.pop() {
            for Entry { name, kind } in self.below(&dir).list()? {
                let path = dir.join(name);
                if kind.is_dir() {
                    dirs.push(path);
                } else if !kind.is_file() {
                    others.push(path);
                }
            }
        }
        Ok(others)
    }

    /// Opens a regular file.
    fn regular(&self, name: &Path, flags: OFlags) -> Result<File> {
        // Without `NONBLOCK`, opening a FIFO would block until its other end is opened.
        let opened = self.open_at(name, flags | OFlags::NONBLOCK);
        let kind = match &opened {
            Ok(file) => kind_of(file.as_fd())?,
            Err(why) if is_wrong_type(why) => self.kind(name).map_err(|_| link_error(why))?,
            Err(_) => return Ok(opened?.into()),
        };
        match (file::kind(kind), opened) {
            (Some(kind), _) => Err(Error::other(format!("not a regular file: it is {kind}"))),
            (None, opened) => Ok(opened.map_err(|why| link_error(&why))?.into()),
        }
    }

    /// Type of what a name refers to; a link is a link.
    fn kind(&self, name: &Path) -> Result<FileType> {
        kind_of(self.open_at(name, OFlags::PATH)?.as_fd())
    }

    /// The directory of a name, and its last part.
    fn parent<'n>(&self, name: &'n Path) -> Result<(OwnedFd, &'n OsStr)> {
        let last = name.file_name().ok_or(ErrorKind::InvalidInput)?;
        let parent = name.parent().unwrap_or(Path::new(""));
        let dir = self.open_at(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok((dir, last))
    }

    fn open_at(&self, name: &Path, flags: OFlags) -> Result<OwnedFd> {
        let path = self.below.join(name);
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !path.components().all(is_plain) {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("not a name below a directory: {}", path.display()),
            ));
        }
        let root = self.root()?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = if has_openat2() {
            beneath(root.fd(), &path, flags)
        } else {
            one_by_one(root.fd(), &path, flags)
        };
        Ok(opened?)
    }

    fn root(&self) -> Result<Root> {
        match &self.held {
            Some(held) => Ok(Root::Held(Arc::clone(held))),
            None => open_root(&self.root).map(Root::Named),
        }
    }
}

/// The descriptor at which a path starts.
enum Root {
    Held(Arc<OwnedFd>),
    Named(OwnedFd),
}

impl Root {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Held(fd) => fd.as_fd(),
            Self::Named(fd) => fd.as_fd(),
        }
    }
}

fn open_root(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = if path == Path::new("") {
        Path::new(".")
    } else {
        path
    };
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Whether the kernel has `openat2`, and no system call filter blocks it.
fn has_openat2() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    *HAS.get_or_init(|| beneath(CWD, Path::new(""), flags).is_ok())
}

fn beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(root, or_dot(path), flags, mode(flags), resolve)
}

/// Like `beneath` for kernels before 5.6: opens each directory relative to the one before.
fn one_by_one(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let dir_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = rustix::fs::openat(root, ".", dir_flags, Mode::empty())?;
    let above = path.parent().unwrap_or(Path::new(""));
    for part in above {
        dir = rustix::fs::openat(&dir, part, dir_flags, Mode::empty()).map_err(|why| {
            // The kernel reports a link as ENOTDIR.
            match rustix::fs::readlinkat(&dir, part, Vec::new()) {
                Ok(_) => Errno::LOOP,
                Err(_) => why,
            }
        })?;
    }
    let last = path.file_name().map_or(Path::new("."), Path::new);
    rustix::fs::openat(&dir, last, flags, mode(flags))
}

fn or_dot(path: &Path) -> &Path {
    if path == Path::new("") {
        Path::new(".")
    } else {
        path
    }
}

/// The mode for new files; `openat2` accepts none if nothing is created.
fn mode(flags: OFlags) -> Mode {
    if flags.contains(OFlags::CREATE) {
        Mode::from_raw_mode(0o666)
    } else {
        Mode::empty()
    }
}

fn kind_of(file: BorrowedFd<'_>) -> Result<FileType> {
    // Also works for a descriptor that was opened with `PATH`.
    Ok(File::from(file.try_clone_to_owned()?)
        .metadata()?
        .file_type())
}

/// Whether opening failed because of the file's type.
fn is_wrong_type(why: &Error) -> bool {
    let kinds = [Errno::LOOP, Errno::NXIO, Errno::ISDIR, Errno::OPNOTSUPP];
    Errno::from_io_error(why).is_some_and(|errno| kinds.contains(&errno))
}

/// The error to report if opening met a link.
fn link_error(why: &Error) -> Error {
    match Errno::from_io_error(why) {
        Some(Errno::LOOP) => Error::other(
            "a directory in its path is a symbolic link (none is followed here: put the directory itself there)",
        ),
        errno => errno.map_or_else(|| Error::other(why.to_string()), Error::from),
    }
}

/// The other users who can write to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Foreign {
    /// Its owner.
    Owner(u32),
    /// A group.
    Group(u32),
    /// Users named by an access control list.
    Listed,
    /// All users.
    Everybody,
}

/// The extended attribute that holds an access control list.
const ACCESS_LIST: &str = "system.posix_acl_access";

impl Foreign {
    /// `None` if no other user can write, or if this is not root: other users can only damage their own files.
    /// `group` is `None` if an access control list decides who may write.
    fn of(euid: u32, owner: u32, group: Option<u32>, mode: u32) -> Option<Self> {
        if euid != 0 {
            None
        } else if owner != 0 {
            Some(Self::Owner(owner))
        } else if mode & 0o002 != 0 {
            Some(Self::Everybody)
        } else if mode & 0o020 != 0 {
            match group {
                Some(0) => None,
                Some(group) => Some(Self::Group(group)),
                None => Some(Self::Listed),
            }
        } else {
            None
        }
    }

    fn message(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Owner(uid) => format!(
                "root does not write to a directory of user {uid}: {path} (run bakeoff as that user: sudo -u '#{uid}' bakeoff ..., or \
                 name another directory, or make this one root's: chown -R 0:0 {path})"
            ),
            Self::Group(gid) => format!(
                "root does not write to a directory of group {gid}: {path} (name another directory, or make this one root's: chgrp 0 {path})"
            ),
            Self::Listed => format!(
                "root does not write to a directory with an access control list: {path} (name another directory, or remove the list: \
                 setfacl -b {path})"
            ),
            Self::Everybody => format!(
                "root does not write to a directory that everybody can write to: {path} (name another directory, or make this one \
                 root's: chmod o-w {path})"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    /// An untrusted directory, and one outside it with a file that must stay out of reach.
    struct Trap {
        dir: tempfile::TempDir,
        tree: Tree,
    }

    const SECRET: &str = "of somebody else";

    impl Trap {
        fn set() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("outside")).unwrap();
            fs::write(dir.path().join("outside/file"), SECRET).unwrap();
            let root = dir.path().join("root");
            fs::create_dir_all(root.join("real")).unwrap();
            fs::write(root.join("real/file"), "inside").unwrap();
            symlink(dir.path().join("outside"), root.join("away")).unwrap();
            symlink("real", root.join("near")).unwrap();
            symlink(dir.path().join("outside/file"), root.join("link")).unwrap();
            symlink("real/file", root.join("near-link")).unwrap();
            let tree = Tree::at(&root);
            Self { dir, tree }
        }

        fn assert_nothing_is_changed(&self) {
            let outside = self.dir.path().join("outside");
            assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), SECRET);
            assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
        }
    }

    #[test]
    fn no_link_is_followed_below_a_directory() {
        let trap = Trap::set();
        for name in ["link", "near-link"] {
            let why = trap.tree.read(name, 64).unwrap_err().to_string();
            assert_eq!(why, "not a regular file: it is a symbolic link");
            trap.tree.append(name).unwrap_err();
            trap.tree.lock_file(name).unwrap_err();
            assert!(!trap.tree.has_file(name) && trap.tree.has(name));
        }
        for name in ["away/file", "near/file"] {
            let why = trap.tree.read(name, 64).unwrap_err().to_string();
            assert!(why.starts_with("a directory in its path is a"), "{why}");
            trap.tree.append(name).unwrap_err();
            trap.tree.create(name).unwrap_err();
            trap.tree.replace(name, b"new").unwrap_err();
            trap.tree.remove_file(name).unwrap_err();
            trap.tree.remove_all(name).unwrap_err();
            trap.tree.rename("real/file", name).unwrap_err();
            trap.tree.rename(name, "real/file").unwrap_err();
            trap.tree.make_dir(name).unwrap_err();
        }
        trap.tree.below("away").list().unwrap_err();
        for name in ["../outside/file", "/etc/passwd", "real/../real/file"] {
            trap.tree.read(name, 64).unwrap_err();
        }
        trap.assert_nothing_is_changed();
    }

    #[test]
    fn a_written_file_replaces_a_link() {
        let trap = Trap::set();
        trap.tree.replace("link", b"new").unwrap();
        assert_eq!(trap.tree.read("link", 64).unwrap(), b"new");
        trap.tree
            .create("near-link")
            .unwrap()
            .write_all(b"own")
            .unwrap();
        assert_eq!(trap.tree.read("near-link", 64).unwrap(), b"own");
        assert_eq!(trap.tree.read("real/file", 64).unwrap(), b"inside");
        trap.tree.remove_all("away").unwrap();
        trap.tree.remove_all("no/directory").unwrap();
        assert!(!trap.tree.has("away"));
        trap.assert_nothing_is_changed();
        let names = trap.tree.list().unwrap().into_iter();
        let names: Vec<_> = names.map(|entry| entry.name).collect();
        assert_eq!(names, ["link", "near", "near-link", "real"]);
    }

    #[test]
    fn links_become_their_target_files_or_are_removed() {
        let trap = Trap::set();
        let root = trap.tree.path();
        symlink("/real/file", root.join("absolute")).unwrap();
        symlink("near/file", root.join("through-a-link")).unwrap();
        symlink("../../../../etc/passwd", root.join("real/out")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, root.join("real/fifo"), fifo, mode, 0).unwrap();
        trap.tree.flatten().unwrap();
        assert_eq!(trap.tree.all_others().unwrap(), Vec::<PathBuf>::new());
        let names = |dir: &str| -> Vec<OsString> {
            let entries = trap.tree.below(dir).list().unwrap().into_iter();
            entries.map(|entry| entry.name).collect()
        };
        assert_eq!(
            names(""),
            ["absolute", "near-link", "real", "through-a-link"]
        );
        assert_eq!(names("real"), ["file"]);
        assert_eq!(trap.tree.read("through-a-link", 64).unwrap(), b"inside");
        trap.assert_nothing_is_changed();
    }

    #[test]
    fn the_fallback_without_openat2_refuses_the_same_paths() {
        let trap = Trap::set();
        let root = open_root(&trap.tree.path()).unwrap();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let names = [
            "link",
            "near-link",
            "away/file",
            "near/file",
            "near",
            "no",
            "no/file",
        ];
        for name in names {
            let path = Path::new(name);
            let old = one_by_one(root.as_fd(), path, flags).unwrap_err();
            if has_openat2() {
                assert_eq!(
                    beneath(root.as_fd(), path, flags).unwrap_err(),
                    old,
                    "{name}"
                );
            }
        }
        for name in ["real/file", "real", ""] {
            one_by_one(root.as_fd(), Path::new(name), flags).unwrap();
        }
    }

    #[test]
    fn only_regular_files_are_opened_and_a_fifo_does_not_block() {
        let trap = Trap::set();
        let fifo = rustix::fs::FileType::Fifo;
        let place = trap.tree.path().join("fifo");
        rustix::fs::mknodat(CWD, &place, fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(trap.tree.path().join("socket"));
        for (name, kind) in [
            ("fifo", "a FIFO"),
            ("socket", "a socket"),
            ("real", "a directory"),
        ] {
            let expected = format!("not a regular file: it is {kind}");
            assert_eq!(trap.tree.read(name, 64).unwrap_err().to_string(), expected);
            assert_eq!(trap.tree.append(name).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn an_open_file_stays_the_same() {
        let trap = Trap::set();
        let held = Tree::hold(&trap.tree.path()).unwrap();
        let mut file = held.open("real/file").unwrap();
        // A directory is replaced by a link after it was opened.
        trap.tree.rename("real", "before").unwrap();
        symlink(
            trap.dir.path().join("outside"),
            trap.tree.path().join("real"),
        )
        .unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "inside");
        held.open("real/file").unwrap_err();
        // The root is replaced too.
        fs::rename(trap.tree.path(), trap.dir.path().join("moved")).unwrap();
        symlink("outside", trap.tree.path()).unwrap();
        held.replace("file", b"new").unwrap();
        assert_eq!(
            fs::read(trap.dir.path().join("moved/file")).unwrap(),
            b"new"
        );
        trap.assert_nothing_is_changed();
    }

    #[test]
    fn a_lock_and_a_failed_draft_keep_the_content() {
        let trap = Trap::set();
        let lock = trap.tree.lock_file("real/file").unwrap();
        lock.try_lock().unwrap();
        assert!(trap.tree.is_locked("real/file"));
        assert_eq!(trap.tree.read("real/file", 64).unwrap(), b"inside");
        let full = |_: &mut File| Err(Errno::NOSPC.into());
        trap.tree.replace_by("real/file", full).unwrap_err();
        assert_eq!(trap.tree.read("real/file", 64).unwrap(), b"inside");
        assert_eq!(trap.tree.below("real").list().unwrap().len(), 1);
        // A writer that is killed cannot remove its draft.
        trap.tree.draft(Path::new("real/file")).unwrap();
        assert_eq!(trap.tree.below("real").list().unwrap().len(), 2);
        trap.tree.below("real").clear_drafts();
        assert_eq!(trap.tree.below("real").list().unwrap().len(), 1);
    }

    #[test]
    fn root_writes_to_no_directory_that_others_can_write_to() {
        let foreign = |owner, group, mode| Foreign::of(0, owner, group, mode);
        assert_eq!(foreign(0, Some(0), 0o40_755), None);
        assert_eq!(foreign(0, Some(0), 0o40_775), None);
        assert_eq!(foreign(1000, Some(0), 0o40_700), Some(Foreign::Owner(1000)));
        assert_eq!(foreign(0, Some(1000), 0o40_775), Some(Foreign::Group(1000)));
        assert_eq!(foreign(0, None, 0o40_775), Some(Foreign::Listed));
        assert_eq!(foreign(0, Some(0), 0o41_777), Some(Foreign::Everybody));
        assert_eq!(Foreign::of(1000, 1001, Some(1), 0o40_777), None);
        let message = Foreign::Owner(1000).message(Path::new("runs/a"));
        assert_eq!(
            message,
            "root does not write to a directory of user 1000: runs/a (run bakeoff as that user: sudo -u '#1000' bakeoff ..., or name \
             another directory, or make this one root's: chown -R 0:0 runs/a)"
        );
    }
}
