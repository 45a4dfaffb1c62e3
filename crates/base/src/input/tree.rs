//! Files below a directory that somebody else may have filled: a run directory, an unpacked bundle, the cache, what `serve` shows.
//!
//! Whoever may write to such a directory can put a symbolic link in the place of a file, a FIFO, or a device, at any time. So each
//! file is opened with a path that starts at the directory, and the kernel follows no link on the way and leaves the directory
//! nowhere (`openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`). What was opened is then looked at, never its name. Kernels before
//! 5.6 open one directory after the other with `O_NOFOLLOW`, which comes to the same.
//!
//! Links in the name of the directory itself are followed: the user has typed it.
//!
//! As root bakeoff writes to no directory that another user can write to (`Tree::to_write`). It could instead work as that user. But
//! what needs root, needs it for the whole run: namespaces, `/dev/kvm`, sysctls. And what the other user changes meanwhile would still
//! go into the figures of root's run.

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

/// What ends the name of a file that is not whole yet; random characters follow.
const DRAFT: &str = ".draft-";

/// A directory, and whatever lies below it.
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
    /// The root as it was opened; `None` where it is opened by its name each time.
    held: Option<Arc<OwnedFd>>,
    /// From the root to this directory.
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

/// Something in a directory.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name, without a directory.
    pub name: OsString,
    /// What it is; a link is a link.
    pub kind: FileType,
}

impl Tree {
    /// A directory by its name, which each call resolves anew: it need not be there yet.
    pub fn at(path: &Path) -> Self {
        Self {
            root: path.into(),
            held: None,
            below: PathBuf::new(),
        }
    }

    /// A directory that stays the same one, whatever becomes of its name.
    ///
    /// # Errors
    /// It is not there, or no directory.
    pub fn hold(path: &Path) -> Result<Self> {
        let mut tree = Self::at(path);
        tree.held = Some(Arc::new(open_root(path)?));
        Ok(tree)
    }

    /// The same for a directory that is to be written to. It is made where it is missing.
    ///
    /// # Errors
    /// It cannot be made, or this is root and another user can write to it.
    pub fn to_write(path: &Path) -> Result<Self> {
        DirBuilder::new().recursive(true).create(path)?;
        let tree = Self::hold(path)?;
        tree.refuse_foreign()?;
        Ok(tree)
    }

    /// Says no where this is root and another user can write to the directory. One that is not there is nobody's.
    ///
    /// # Errors
    /// Names the owner and the remedy.
    pub fn refuse_foreign(&self) -> Result<()> {
        // One that cannot be opened is told of by whoever needs it.
        let Ok(root) = self.root() else {
            return Ok(());
        };
        let about = rustix::fs::fstat(root.fd())?;
        let euid = rustix::process::geteuid().as_raw();
        // With an access control list the group's bits are what it allows anybody.
        let has_list = rustix::fs::fgetxattr(root.fd(), ACCESS_LIST, &mut [0; 0][..]).is_ok();
        let group = (!has_list).then_some(about.st_gid);
        match Foreign::of(euid, about.st_uid, group, about.st_mode) {
            None => Ok(()),
            Some(foreign) => Err(Error::new(
                ErrorKind::PermissionDenied,
                foreign.told(&self.root),
            )),
        }
    }

    /// A directory below. Nothing is opened yet.
    #[must_use]
    pub fn below(&self, name: impl AsRef<Path>) -> Self {
        Self {
            below: self.below.join(name),
            ..self.clone()
        }
    }

    /// The directory that holds a file, and the file's name in it.
    pub fn around(file: &Path) -> (Self, &Path) {
        let dir = match file.parent() {
            Some(dir) if dir != Path::new("") => dir,
            _ => Path::new("."),
        };
        (Self::at(dir), file.file_name().map_or(file, Path::new))
    }

    /// Where it is, for messages and for other programs.
    pub fn path(&self) -> PathBuf {
        // Joined to nothing it would end in a slash.
        if self.below == Path::new("") {
            return self.root.clone();
        }
        self.root.join(&self.below)
    }

    /// Opens a regular file, to be read.
    ///
    /// # Errors
    /// As `File::open`, and for links and whatever else is no regular file.
    pub fn open(&self, name: impl AsRef<Path>) -> Result<File> {
        self.regular(name.as_ref(), OFlags::RDONLY)
    }

    /// The content of a regular file of at most so many bytes.
    ///
    /// # Errors
    /// As `open`, and for a longer file, of which nothing is read where it says so.
    pub fn read(&self, name: impl AsRef<Path>, most_bytes: u64) -> Result<Vec<u8>> {
        file::read_opened(self.open(name)?, most_bytes)
    }

    /// The text of a regular file of at most so many bytes.
    ///
    /// # Errors
    /// As `read`, and where it is not UTF-8.
    pub fn read_to_string(&self, name: impl AsRef<Path>, most_bytes: u64) -> Result<String> {
        file::text(self.read(name, most_bytes)?)
    }

    /// The same of a text that a person writes.
    ///
    /// # Errors
    /// As `file::read_to_string_within`.
    pub fn read_to_string_within(&self, name: impl AsRef<Path>, most_bytes: u64) -> Result<String> {
        file::written(self.open(name)?, most_bytes)
    }

    /// What is known of a regular file without reading it.
    ///
    /// # Errors
    /// As `open`.
    pub fn metadata(&self, name: impl AsRef<Path>) -> Result<Metadata> {
        self.open(name)?.metadata()
    }

    /// Whether a regular file is there.
    pub fn has_file(&self, name: impl AsRef<Path>) -> bool {
        self.kind(name.as_ref()).is_ok_and(|kind| kind.is_file())
    }

    /// Whether a directory is there.
    pub fn has_dir(&self, name: impl AsRef<Path>) -> bool {
        self.kind(name.as_ref()).is_ok_and(|kind| kind.is_dir())
    }

    /// Whether anything is there, a link included.
    pub fn has(&self, name: impl AsRef<Path>) -> bool {
        self.kind(name.as_ref()).is_ok()
    }

    /// What is in the directory, by name.
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
                // Somebody has removed it meanwhile.
                Err(why) if why.kind() == ErrorKind::NotFound => {}
                Err(why) => return Err(why),
            }
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// Creates a file in the place of whatever file or link is there.
    ///
    /// # Errors
    /// As `File::create_new`.
    pub fn create(&self, name: impl AsRef<Path>) -> Result<File> {
        let name = name.as_ref();
        self.remove_file(name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.regular(name, flags)
    }

    /// Opens a regular file to append to and to read from; it is made where it is missing.
    ///
    /// # Errors
    /// As `File::open`, and for links and whatever else is no regular file.
    pub fn append(&self, name: impl AsRef<Path>) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        self.regular(name.as_ref(), flags)
    }

    /// The same for a program that may not read what it has written.
    ///
    /// # Errors
    /// As `append`.
    pub fn append_only(&self, name: impl AsRef<Path>) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        self.regular(name.as_ref(), flags)
    }

    /// Opens a file for its lock. It is made where it is missing, and what it holds stays.
    ///
    /// # Errors
    /// As `append`.
    pub fn lock_file(&self, name: impl AsRef<Path>) -> Result<File> {
        self.append(name)
    }

    /// Whether a program holds the lock of a regular file for itself alone.
    pub fn is_locked(&self, name: impl AsRef<Path>) -> bool {
        let is_held = |file: File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        self.open(name).is_ok_and(is_held)
    }

    /// Writes a file so that whoever reads it meanwhile, or after a crash, sees the old one or the new one. A link in its place is
    /// replaced.
    ///
    /// # Errors
    /// The old one is then still there.
    pub fn replace(&self, name: impl AsRef<Path>, body: &[u8]) -> Result<()> {
        self.replace_by(name, |file| file.write_all(body)).map(drop)
    }

    /// The same with a file that is written piece by piece. Returns the file, open.
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
                // Where nothing could be written, it may be gone.
                let _ = self.remove_file(&draft);
                Err(why)
            }
        }
    }

    /// A new file beside `name`. Nobody can have put anything there before: its name is random, and a name that is taken is refused.
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

    /// Removes what a writer that was killed has left in the directory. Hold a lock that keeps other writers away.
    pub fn clear_drafts(&self) {
        for Entry { name, kind } in self.list().unwrap_or_default() {
            if kind.is_file() && name.to_string_lossy().contains(DRAFT) {
                let _ = self.remove_file(&name);
            }
        }
    }

    /// Gives a file or directory another name below this directory.
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

    /// Gives a file of another tree a second name here.
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

    /// Removes a file or link; one that is not there need not be.
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

    /// Removes a directory with all that is in it; links in it are removed, not followed. One that is not there need not be.
    ///
    /// # Errors
    /// As `fs::remove_dir_all`.
    pub fn remove_all(&self, name: impl AsRef<Path>) -> Result<()> {
        let removed = self.parent(name.as_ref()).and_then(|(dir, name)| {
            // The standard library takes no descriptor, and this name is the same as one.
            let dir_path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
            fs::remove_dir_all(dir_path.join(name))
        });
        match removed {
            Err(why) if why.kind() != ErrorKind::NotFound => Err(why),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Makes a directory and those above it that are missing.
    ///
    /// # Errors
    /// As `fs::create_dir_all`, and for links on the way.
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

    /// Puts in the place of each link below the file that it leads to, as a second name of it, where that lies below as well. Other links
    /// are removed, and so are devices and the like: only files and directories are left.
    ///
    /// # Errors
    /// Something cannot be listed, linked or removed.
    pub fn flatten(&self) -> Result<()> {
        let root = self.open_at(Path::new(""), OFlags::PATH | OFlags::DIRECTORY)?;
        let others = self.all_others()?;
        let mut files = Vec::new();
        // Before any link is removed: one may lead through another.
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

    /// Paths of all below that is neither a regular file nor a directory.
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

    /// A regular file, with flags that say what for.
    fn regular(&self, name: &Path, flags: OFlags) -> Result<File> {
        // Without `NONBLOCK` a FIFO would be waited for until somebody opens its other end.
        let opened = self.open_at(name, flags | OFlags::NONBLOCK);
        let kind = match &opened {
            Ok(file) => kind_of(file.as_fd())?,
            Err(why) if is_of_kind(why) => self.kind(name).map_err(|_| no_link(why))?,
            Err(_) => return Ok(opened?.into()),
        };
        match (file::kind(kind), opened) {
            (Some(kind), _) => Err(Error::other(format!("not a regular file: it is {kind}"))),
            (None, opened) => Ok(opened.map_err(|why| no_link(&why))?.into()),
        }
    }

    /// What is at a name; a link is a link.
    fn kind(&self, name: &Path) -> Result<FileType> {
        kind_of(self.open_at(name, OFlags::PATH)?.as_fd())
    }

    /// The directory of a name, and the last part of it.
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

/// The descriptor that a path begins at.
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

/// Whether the kernel knows `openat2`, and nothing such as a filter of system calls keeps it from us.
fn has_openat2() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    *HAS.get_or_init(|| beneath(CWD, Path::new(""), flags).is_ok())
}

fn beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(root, or_dot(path), flags, mode(flags), resolve)
}

/// As `beneath`, for kernels before 5.6: each directory is opened at the one before.
fn one_by_one(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = rustix::fs::openat(root, ".", way, Mode::empty())?;
    let above = path.parent().unwrap_or(Path::new(""));
    for part in above {
        dir = rustix::fs::openat(&dir, part, way, Mode::empty()).map_err(|why| {
            // A link is reported as no directory.
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

/// `openat2` takes no mode where nothing is made.
fn mode(flags: OFlags) -> Mode {
    if flags.contains(OFlags::CREATE) {
        Mode::from_raw_mode(0o666)
    } else {
        Mode::empty()
    }
}

fn kind_of(file: BorrowedFd<'_>) -> Result<FileType> {
    // A descriptor that was opened with `PATH` can be looked at as a file.
    Ok(File::from(file.try_clone_to_owned()?)
        .metadata()?
        .file_type())
}

/// Whether an opening failed because of what is there.
fn is_of_kind(why: &Error) -> bool {
    let kinds = [Errno::LOOP, Errno::NXIO, Errno::ISDIR, Errno::OPNOTSUPP];
    Errno::from_io_error(why).is_some_and(|errno| kinds.contains(&errno))
}

/// Why an opening failed that met a link.
fn no_link(why: &Error) -> Error {
    match Errno::from_io_error(why) {
        Some(Errno::LOOP) => Error::other(
            "a directory in its path is a symbolic link (none is followed here: put the directory itself there)",
        ),
        errno => errno.map_or_else(|| Error::other(why.to_string()), Error::from),
    }
}

/// Who else can write to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Foreign {
    /// Its owner.
    Owner(u32),
    /// A group.
    Group(u32),
    /// Whom an access control list names.
    Listed,
    /// Everybody.
    Everybody,
}

/// The extended attribute of an access control list.
const ACCESS_LIST: &str = "system.posix_acl_access";

impl Foreign {
    /// `None` where nobody else can, or where this is not root: other users can only harm what is theirs.
    /// `group` is `None` where a list says who may write.
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

    fn told(self, path: &Path) -> String {
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

    /// A directory that somebody has filled, and one outside it with a file that nobody may reach.
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
    fn what_is_written_takes_the_place_of_a_link() {
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
    fn links_become_the_files_that_they_lead_to_or_go() {
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
    fn kernels_without_openat2_refuse_the_same() {
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
    fn nothing_but_regular_files_is_opened_and_a_fifo_is_not_waited_for() {
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
    fn what_is_open_stays_the_file_that_was_found() {
        let trap = Trap::set();
        let held = Tree::hold(&trap.tree.path()).unwrap();
        let mut file = held.open("real/file").unwrap();
        // A directory and a file are replaced by links after they were found.
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
        // So is the directory itself.
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
    fn a_lock_and_a_failed_draft_leave_what_was_there() {
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
        let told = Foreign::Owner(1000).told(Path::new("runs/a"));
        assert_eq!(
            told,
            "root does not write to a directory of user 1000: runs/a (run bakeoff as that user: sudo -u '#1000' bakeoff ..., or name \
             another directory, or make this one root's: chown -R 0:0 runs/a)"
        );
    }
}
