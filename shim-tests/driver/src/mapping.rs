//! Memory with two faces: the addresses that programs see and may protect or unprotect, and the driver's own alias of the same pages.
//! A mapping is never taken down, so an alias stays readable whatever is freed meanwhile.
#![expect(unsafe_code, reason = "maps memory")]

use std::ptr;

/// What a program may do with the addresses it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramMay {
    Nothing,
    ReadAndWrite,
}

#[derive(Debug)]
pub(crate) struct Mapping {
    fd: i32,
    pub(crate) program: usize,
    alias: usize,
    pub(crate) len: usize,
}

impl Mapping {
    /// As much of `len` as the machine lets us reserve, not less than a sixty-fourth; pages take memory only when touched.
    pub(crate) fn reserve(len: usize, near: usize, may: ProgramMay) -> Option<Self> {
        // SAFETY: the name is a terminated string; nothing else is passed.
        let fd = unsafe { libc::memfd_create(c"simcuda".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        (0..7).find_map(|halvings| Self::map(fd, len >> halvings, near, may))
    }

    fn map(fd: i32, len: usize, near: usize, may: ProgramMay) -> Option<Self> {
        let size = libc::off_t::try_from(len).ok()?;
        // SAFETY: fd is our own memfd, and nothing of it is mapped yet that could shrink.
        if unsafe { libc::ftruncate(fd, size) } != 0 {
            return None;
        }
        let seen = if may == ProgramMay::Nothing {
            libc::PROT_NONE
        } else {
            libc::PROT_READ | libc::PROT_WRITE
        };
        let program = Self::view(fd, len, near, seen)?;
        let Some(alias) = Self::view(fd, len, 0, libc::PROT_READ | libc::PROT_WRITE) else {
            // SAFETY: just mapped here, with this length, and handed to nobody.
            unsafe { libc::munmap(ptr::with_exposed_provenance_mut(program), len) };
            return None;
        };
        Some(Self {
            fd,
            program,
            alias,
            len,
        })
    }

    fn view(fd: i32, len: usize, near: usize, protection: i32) -> Option<usize> {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: the address is a hint only, so no existing mapping is replaced; fd is open and `len` bytes long.
        let address = unsafe {
            libc::mmap(
                ptr::with_exposed_provenance_mut(near),
                len,
                protection,
                flags,
                fd,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            None
        } else {
            Some(address.expose_provenance())
        }
    }

    /// The driver's address of a program's address inside this mapping.
    pub(crate) fn alias(&self, program: usize) -> usize {
        program - self.program + self.alias
    }

    /// Gives the pages back; they read as zero afterwards.
    pub(crate) fn empty(&self, program: usize, len: usize) {
        let (Ok(at), Ok(len)) = (
            libc::off_t::try_from(program - self.program),
            libc::off_t::try_from(len),
        ) else {
            return;
        };
        // SAFETY: fd is our own; mapped pages of a hole read as zero, they do not go away.
        unsafe {
            libc::fallocate(
                self.fd,
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                at,
                len,
            )
        };
    }

    /// Writes `byte` all over a range, whatever the program has protected.
    pub(crate) fn fill(&self, program: usize, len: usize, byte: u8) {
        let alias = ptr::with_exposed_provenance_mut::<u8>(self.alias(program));
        // SAFETY: the range is inside our own mapping, which stays; nobody has a reference into it.
        unsafe { ptr::write_bytes(alias, byte, len) };
    }

    /// Lets the program read and write the range again, whatever it had protected.
    pub(crate) fn open_to_program(&self, program: usize, len: usize) {
        // SAFETY: the range is inside our own mapping and belongs to no live allocation, so nobody relies on its protection.
        unsafe {
            libc::mprotect(
                ptr::with_exposed_provenance_mut(program),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
    }
}

/// Pinned host memory: ordinary pages, the same address for everyone.
pub(crate) fn host_pages(len: usize) -> Option<usize> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh anonymous mapping; no address is asked for, so none is replaced.
    let address = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        None
    } else {
        Some(address.expose_provenance())
    }
}

/// Takes `host_pages` down again.
///
/// # Safety
/// `address` and `len` are from one `host_pages`, and no queued work uses it any more.
pub(crate) unsafe fn drop_host_pages(address: usize, len: usize) {
    // SAFETY: the caller passes a whole mapping of ours that nobody uses.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(address), len) };
}
