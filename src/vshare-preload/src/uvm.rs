//! The UVM kernel module's own calls: they move managed memory without libcuda, which holds a lock meanwhile that the program's
//! launches and moves in the other direction wait for.
//!
//! They are made on the descriptor that libcuda has opened in this process; none is opened or kept here. The interface is private to
//! NVIDIA's drivers: `UVM_MIGRATE` is the same in all open ones from 515 to 595, `UVM_DISCARD` exists since 580. So nobody may rely on
//! it whom [`crate::trial`] has not told to, and after one odd answer nobody does any more.
#![expect(unsafe_code, reason = "calls ioctl(2) and fstat(2)")]

use crate::cuda::CUresult;
use crate::report;
use std::ffi::c_void;
use std::fmt;
use std::fs;
use std::mem::{MaybeUninit, offset_of};
use std::sync::atomic::{AtomicBool, Ordering};

const LINK: &str = "/dev/nvidia-uvm";

const UVM_MIGRATE: libc::Ioctl = 51;
const UVM_DISCARD: libc::Ioctl = 80;

/// `UVM_DISCARD_FLAGS_UNMAP`: without it, what is written before the next move is lost.
const UNMAP: u64 = 1;

/// `NV_PROCESSOR_UUID_CPU_DEFAULT`.
const HOST: [u8; 16] = [
    0xa6, 0x5e, 0x0f, 0x4e, 0xd7, 0xd4, 0x7b, 0xa2, 0x50, 0x47, 0x41, 0x2c, 0x14, 0x2a, 0x77, 0x73,
];

/// `NV_ERR_INVALID_ACCESS_TYPE`: what an eviction answers when it has copied, but could not map the copy for the host, because the
/// range is protected. It is meant to be: see [`crate::os::protect`].
const INVALID_ACCESS_TYPE: u32 = 0x1d;

/// What no answer is: the module writes one over it.
const NO_ANSWER: u32 = u32::MAX;

/// `UVM_MIGRATE_PARAMS`.
#[repr(C)]
struct Migrate {
    base: u64,
    length: u64,
    destination: [u8; 16],
    flags: u32,
    semaphore_address: u64,
    semaphore_payload: u32,
    host_node: i32,
    user_space_start: u64,
    user_space_length: u64,
    status: u32,
}

const _: () = {
    assert!(size_of::<Migrate>() == 80);
    assert!(offset_of!(Migrate, base) == 0);
    assert!(offset_of!(Migrate, length) == 8);
    assert!(offset_of!(Migrate, destination) == 16);
    assert!(offset_of!(Migrate, flags) == 32);
    assert!(offset_of!(Migrate, semaphore_address) == 40);
    assert!(offset_of!(Migrate, semaphore_payload) == 48);
    assert!(offset_of!(Migrate, host_node) == 52);
    assert!(offset_of!(Migrate, user_space_start) == 56);
    assert!(offset_of!(Migrate, user_space_length) == 64);
    assert!(offset_of!(Migrate, status) == 72);
};

/// `UVM_DISCARD_PARAMS`.
#[repr(C)]
struct Discard {
    base: u64,
    length: u64,
    flags: u64,
    status: u32,
}

const _: () = {
    assert!(size_of::<Discard>() == 32);
    assert!(offset_of!(Discard, base) == 0);
    assert!(offset_of!(Discard, length) == 8);
    assert!(offset_of!(Discard, flags) == 16);
    assert!(offset_of!(Discard, status) == 24);
};

/// Why a call was in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The module's own status.
    Status(u32),
    /// The call did not come to that: errno.
    Call(i32),
    /// The descriptor is not the one that was found: the program has closed it, or has put another in its place.
    Descriptor,
}

impl Refused {
    /// As events have it.
    pub(crate) fn code(self) -> CUresult {
        match self {
            Self::Status(status) => CUresult(status),
            Self::Call(errno) => CUresult(errno.unsigned_abs()),
            Self::Descriptor => CUresult::INVALID_HANDLE,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the UVM module answered {status:#x}"),
            Self::Call(errno) => write!(f, "the UVM module's call failed with errno {errno}"),
            Self::Descriptor => write!(f, "the UVM module's descriptor has gone"),
        }
    }
}

/// Why there is no direct road.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// This process has no descriptor of the module.
    Descriptor,
    /// It has, but none that moves this memory to this device: what the last one said.
    Refused(Refused),
}

/// By which road an arena's memory moves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Road {
    /// By libcuda's calls, as long as it has not been seen whether there is another.
    Untried,
    /// By libcuda's calls.
    Libcuda,
    /// By the module's, as long as it answers as it should.
    Direct(Direct),
}

impl Road {
    /// The direct road, if it may be taken.
    pub(crate) fn direct(self) -> Option<Direct> {
        match self {
            Self::Direct(direct) if !is_given_up() => Some(direct),
            _ => None,
        }
    }
}

static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Whether the direct road is closed to this process.
pub(crate) fn is_given_up() -> bool {
    GIVEN_UP.load(Ordering::Relaxed)
}

/// Closes the direct road to this process for good: it has answered what it should not.
pub(crate) fn give_up() {
    if !GIVEN_UP.swap(true, Ordering::Relaxed) {
        report::add(report::FALLBACKS, 1);
        report::add(report::ROAD_FALLBACKS, 1);
    }
}

/// The module, as one device's memory is moved by it. Any thread may use it, and several at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct {
    descriptor: i32,
    file: File,
    device: [u8; 16],
    can_discard: bool,
}

impl Direct {
    /// Finds the descriptor that moves `page`, of memory that nothing uses, to the device of this UUID. The page is there then.
    ///
    /// # Errors
    /// See [`Lack`].
    pub(crate) fn find(device: [u8; 16], page: (u64, u64)) -> Result<Self, Lack> {
        let mut lack = Lack::Descriptor;
        for descriptor in descriptors() {
            let Some(file) = File::behind(descriptor) else {
                continue;
            };
            let direct = Self {
                descriptor,
                file,
                device,
                can_discard: false,
            };
            // Others of the module, such as those that libcuda has not set up for moving, answer that they cannot.
            match direct.promote(page.0, page.1) {
                Ok(()) => return Ok(direct),
                Err(refused) => lack = Lack::Refused(refused),
            }
        }
        Err(lack)
    }

    /// The same, with the knowledge whether [`Self::discard`] works.
    pub(crate) const fn discarding(self, can_discard: bool) -> Self {
        Self {
            can_discard,
            ..self
        }
    }

    /// Whether [`Self::discard`] works.
    pub(crate) const fn can_discard(self) -> bool {
        self.can_discard
    }

    /// Moves a range to the device. When this returns, it is there.
    ///
    /// # Errors
    /// See [`Refused`]: nothing is lost, but where the range is is not known.
    pub(crate) fn promote(self, address: u64, bytes: u64) -> Result<(), Refused> {
        self.migrate(address, bytes, self.device)
    }

    /// Moves a range to the host. When this returns, it is there.
    ///
    /// # Errors
    /// As for [`Self::promote`].
    pub(crate) fn evict(self, address: u64, bytes: u64) -> Result<(), Refused> {
        match self.migrate(address, bytes, HOST) {
            Err(Refused::Status(INVALID_ACCESS_TYPE)) => Ok(()),
            answer => answer,
        }
    }

    fn migrate(self, base: u64, length: u64, destination: [u8; 16]) -> Result<(), Refused> {
        let mut migrate = Migrate {
            base,
            length,
            destination,
            flags: 0,
            semaphore_address: 0,
            semaphore_payload: 0,
            host_node: -1,
            user_space_start: 0,
            user_space_length: 0,
            status: NO_ANSWER,
        };
        self.call(UVM_MIGRATE, (&raw mut migrate).cast())?;
        answer(migrate.status)
    }

    /// Says that a range's contents are of no use any more: the driver takes its memory when it needs some.
    ///
    /// # Errors
    /// See [`Refused`].
    pub(crate) fn discard(self, base: u64, length: u64) -> Result<(), Refused> {
        let mut discard = Discard {
            base,
            length,
            flags: UNMAP,
            status: NO_ANSWER,
        };
        self.call(UVM_DISCARD, (&raw mut discard).cast())?;
        answer(discard.status)
    }

    fn call(self, request: libc::Ioctl, argument: *mut c_void) -> Result<(), Refused> {
        // The program may have closed it and opened something else, to which the number means something else. This takes
        // less than 1 us, a move at least 20.
        if File::behind(self.descriptor) != Some(self.file) {
            return Err(Refused::Descriptor);
        }
        loop {
            // SAFETY: the descriptor is the module's, whose calls of these numbers take these structs, as their asserts show;
            // `argument` is one that the caller owns.
            if unsafe { libc::ioctl(self.descriptor, request, argument) } >= 0 {
                return Ok(());
            }
            match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                errno => return Err(Refused::Call(errno.unwrap_or(0))),
            }
        }
    }
}

fn answer(status: u32) -> Result<(), Refused> {
    if status == 0 {
        Ok(())
    } else {
        Err(Refused::Status(status))
    }
}

/// What tells a file from another that is behind the same descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct File {
    device: libc::dev_t,
    number: libc::ino_t,
    special: libc::dev_t,
}

impl File {
    /// The file that is open there now, if one is.
    fn behind(descriptor: i32) -> Option<Self> {
        let mut found = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: `found` is writable.
        if unsafe { libc::fstat(descriptor, found.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the call has succeeded, and so filled it.
        let found = unsafe { found.assume_init() };
        Some(Self {
            device: found.st_dev,
            number: found.st_ino,
            special: found.st_rdev,
        })
    }
}

/// The process's descriptors of the module.
fn descriptors() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == LINK))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    fn of(descriptor: i32) -> Direct {
        Direct {
            descriptor,
            file: File::behind(descriptor).unwrap(),
            device: [0; 16],
            can_discard: false,
        }
    }

    #[test]
    fn a_file_that_does_not_know_the_call_is_told_from_one_that_refuses() {
        let file = fs::File::open("/dev/null").unwrap();
        assert_eq!(
            of(file.as_raw_fd()).promote(0, 4096),
            Err(Refused::Call(libc::ENOTTY))
        );
    }

    #[test]
    fn nothing_is_asked_of_a_descriptor_that_is_another_files() {
        let (null, zero) = (
            fs::File::open("/dev/null").unwrap(),
            fs::File::open("/dev/zero").unwrap(),
        );
        let direct = Direct {
            file: File::behind(zero.as_raw_fd()).unwrap(),
            ..of(null.as_raw_fd())
        };
        assert_eq!(direct.evict(0, 4096), Err(Refused::Descriptor));
        assert_eq!(direct.discard(0, 4096), Err(Refused::Descriptor));
    }

    #[test]
    fn without_the_module_there_is_no_direct_road() {
        if fs::exists(LINK).unwrap() {
            return;
        }
        let found = Direct::find([0; 16], (0, 4096)).map(|_| ());
        assert_eq!(found, Err(Lack::Descriptor));
    }
}
