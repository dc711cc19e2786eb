//! What we ask of the operating system that the standard library does not offer.
#![expect(
    unsafe_code,
    reason = "calls mprotect(2), pthread_sigmask(3), sigtimedwait(2), atexit(3) and fcntl(2)"
)]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::io::AsRawFd;

pub(crate) use libc::{ELOOP, ENXIO};

/// Takes away, or gives back, the host's view of extents of managed memory (address, bytes).
///
/// The driver copies a page out and then maps it for the host, which costs more than the copy. With
/// the range protected there is nothing to map: 46-52 GB/s instead of 4-12 on a PCIe 5 machine. The
/// program never looks at this memory through the host's view: to it, it is device memory.
///
/// To be done for whole extents, never parts, which would split the mapping for good; and only
/// while pages leave, because a GPU's write to a page that is in host memory is served one small
/// page at a time meanwhile.
pub(crate) fn protect(extents: &[(u64, u64)], protected: bool) {
    let protection = if protected {
        libc::PROT_NONE
    } else {
        libc::PROT_READ | libc::PROT_WRITE
    };
    for &(address, bytes) in extents {
        let (Ok(address), Ok(bytes)) = (usize::try_from(address), usize::try_from(bytes)) else {
            continue;
        };
        // SAFETY: the range is an extent that the driver mapped for us in this process, and nobody
        // has a reference into it. Failure leaves it as it was, which is slower and no more.
        _ = unsafe {
            libc::mprotect(
                std::ptr::with_exposed_provenance_mut(address),
                bytes,
                protection,
            )
        };
    }
}

/// Starts a thread that no signal of the program's is delivered to.
pub(crate) fn spawn_without_signals(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is writable; the call fills it.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: `all` was filled above and `before` is writable. A new thread inherits this mask; the
    // calling thread has its own back right below.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let started = std::thread::Builder::new()
        .name(name.to_owned())
        // The C library takes the thread-local storage of all libraries out of it.
        .stack_size(1 << 20)
        .spawn(body);
    // SAFETY: `before` was filled by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started
}

/// Runs `f` so that writing to a pipe which nobody reads any more does not end the program: it might
/// not have written.
pub(crate) fn without_sigpipe(f: impl FnOnce()) {
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut pipe = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is writable; the call fills it.
    unsafe { libc::sigemptyset(pipe.as_mut_ptr()) };
    // SAFETY: as above.
    unsafe { libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE) };
    // SAFETY: `before` is writable; the call fills it.
    unsafe { libc::sigemptyset(before.as_mut_ptr()) };
    // SAFETY: as above.
    unsafe { libc::sigpending(before.as_mut_ptr()) };
    // SAFETY: the set is one of pending signals, filled by the call above.
    let pending = unsafe { libc::sigismember(before.as_ptr(), libc::SIGPIPE) } == 1;
    // SAFETY: `pipe` was filled above and `before` is writable; the thread has its mask back below.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr()) };
    f();
    if !pending {
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // The signal that the write has raised, if it has: it is sent to the thread that wrote.
        // SAFETY: the set and the time are good; nothing is asked about the signal.
        unsafe { libc::sigtimedwait(pipe.as_ptr(), std::ptr::null_mut(), &raw const now) };
    }
    // SAFETY: `before` was filled by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
}

/// Calls `f` when the process ends by `exit`, before what was registered earlier.
pub(crate) fn at_exit(f: extern "C" fn()) {
    // SAFETY: `f` lives as long as the library, which is never unloaded.
    _ = unsafe { libc::atexit(f) };
}

/// Opens a file to write, and makes it for the user alone if it is not there. Never waits, and follows no link
/// that somebody else may have put there.
pub(crate) fn open_private(path: &str) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

/// Whether no other process has the file locked; from now on this one has, and no child of it. Where files cannot be
/// locked nobody has.
pub(crate) fn lock(file: &File) -> bool {
    let whole = libc::flock {
        l_type: 1, // F_WRLCK, an int elsewhere
        l_whence: 0,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is that of an open file, and the lock is one for this call.
    let locked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const whole) } == 0;
    let error = std::io::Error::last_os_error().raw_os_error();
    locked || !matches!(error, Some(libc::EAGAIN | libc::EACCES))
}
