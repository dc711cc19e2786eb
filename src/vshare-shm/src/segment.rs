//! The file and its mapping: the crate's only module with unsafe code.
//!
//! A mapping is handed out as `&Layout`, which is words of atomics only, so whatever another
//! process writes there is a value. One thing no reader of shared files can fend off: the file's
//! owner may cut it short, and the next touch is then a SIGBUS. Nobody but the same user can, and
//! [`create`] takes the memory up front so that a full file system is not such a case.
#![expect(
    unsafe_code,
    reason = "views a shared mapping, and asks libc what std does not"
)]

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use memmap2::{MmapOptions, MmapRaw};

use crate::layout::{Layout, SIZE};
use crate::sync::AtomicU64;

/// The mode of a segment in use.
pub(crate) const MODE: u32 = 0o600;

/// A mapped segment.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: MmapRaw,
}

impl Mapping {
    /// The segment's words.
    pub(crate) fn layout(&self) -> &Layout {
        // SAFETY: `create` and `view` map exactly SIZE bytes, page-aligned, and `self` keeps
        // them mapped for the borrow. `Layout` is SIZE bytes of atomics (asserted in layout.rs),
        // which any bit pattern is valid for and which others may write to meanwhile.
        unsafe { &*self.map.as_ptr().cast::<Layout>() }
    }

    /// The same, as nothing but words.
    pub(crate) fn words(&self) -> &[AtomicU64; SIZE / 8] {
        // SAFETY: as for `layout`; an array of atomics of that size is as good a view.
        unsafe { &*self.map.as_ptr().cast::<[AtomicU64; SIZE / 8]>() }
    }
}

/// Makes a new file of [`SIZE`] zero bytes at `path`, all of it allocated, and maps it. Leaves no
/// file behind when it fails.
pub(crate) fn create(path: &Path) -> io::Result<Mapping> {
    // Past this limit the kernel does not only refuse, it sends SIGXFSZ, which ends the program.
    if file_size_limit()? < SIZE as u64 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(MODE)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)?;
    fill(&file).inspect_err(|_| {
        // What fails here is our own new file; the first error is the one to tell.
        _ = std::fs::remove_file(path);
    })
}

fn fill(file: &File) -> io::Result<Mapping> {
    // Against a umask that takes the owner's own bits.
    file.set_permissions(Permissions::from_mode(MODE))?;
    allocate(file)?;
    let map = MmapOptions::new().len(SIZE).map_raw(file)?;
    Ok(Mapping { map })
}

/// Opens `path` for reading, without following a link or waiting for a pipe.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(path)
}

/// Maps the first [`SIZE`] bytes of `file` read-only. The caller has seen that it has them.
pub(crate) fn view(file: &File) -> io::Result<Mapping> {
    let map = MmapOptions::new().len(SIZE).map_raw_read_only(file)?;
    Ok(Mapping { map })
}

/// A mapping of zeros that is nobody else's.
pub(crate) fn blank() -> io::Result<Mapping> {
    let map = MmapOptions::new().len(SIZE).map_anon()?;
    Ok(Mapping { map: map.into() })
}

/// The effective user, who owns what this process creates.
pub(crate) fn user() -> u32 {
    // SAFETY: takes nothing, touches no memory and cannot fail.
    unsafe { libc::geteuid() }
}

fn file_size_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a live rlimit that the call may write to.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if result == 0 {
        Ok(limit.rlim_cur)
    } else {
        Err(io::Error::last_os_error())
    }
}

fn allocate(file: &File) -> io::Result<()> {
    // A profiler's timer may interrupt it; one that always does must not hold the program up.
    for _ in 0..100 {
        // SAFETY: the descriptor is open for as long as `file` is borrowed; no memory is touched.
        let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, SIZE as libc::off_t) };
        match error {
            0 => return Ok(()),
            libc::EINTR => {}
            other => return Err(io::Error::from_raw_os_error(other)),
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}
