//! The UVM kernel module as a program reaches it past the driver: descriptors whose links read `/dev/nvidia-uvm`, and `ioctl` on them.
//!
//! A program that has this library among those it is linked to finds these `ioctl` and `readlink` before the C library's. What is not
//! asked of the module goes to the kernel as it is. Moves are made within the call, in no stream's order.
#![expect(
    unsafe_code,
    reason = "takes the C library's place for two calls, and reads what programs pass"
)]

use crate::cuda::{CuError, DEVICE_CPU};
use crate::gate::{Call, Lane};
use crate::handles::lock;
use crate::machine::{Machine, machine};
use crate::memory::PAGE;
use crate::residency::blocks_in;
use crate::stats::COUNTERS;
use crate::{calls, config, hold, inject, slow};
use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

const LINK: &[u8] = b"/dev/nvidia-uvm";

const MIGRATE: c_ulong = 51;
const DISCARD: c_ulong = 80;
/// The generation whose driver brings a module that can discard.
const DISCARDS_SINCE: u32 = 13000;

static MIGRATE_CALL: Call = Call::new("UVM_MIGRATE", "UVM_MIGRATE", 0, Lane::Legacy, true);
static DISCARD_CALL: Call = Call::new("UVM_DISCARD", "UVM_DISCARD", 0, Lane::Legacy, true);
/// For failures of the call itself, of either kind: their codes are errnos.
static IOCTL_CALL: Call = Call::new("ioctl", "ioctl", 0, Lane::Legacy, true);

/// The module's statuses, `NV_ERR_`.
const ILLEGAL_ACTION: u32 = 0x16;
const INVALID_ACCESS_TYPE: u32 = 0x1d;
const INVALID_ADDRESS: u32 = 0x1e;
const INVALID_ARGUMENT: u32 = 0x1f;
const INVALID_DEVICE: u32 = 0x26;

const HOST_UUID: [u8; 16] = *b"\xa6\x5e\x0f\x4e\xd7\xd4\x7b\xa2\x50\x47\x41\x2c\x14\x2a\x77\x73";

/// The files behind the descriptors, by which they are known whatever their numbers.
#[derive(Debug)]
struct Files {
    /// One that cannot move anything, as those are that the driver opens for other purposes.
    idle: Option<(u64, u64)>,
    working: Option<(u64, u64)>,
}

static FILES: OnceLock<Files> = OnceLock::new();

/// Opens the descriptors, if programs are to find the module.
pub(crate) fn init() {
    if config::config().uvm.is_some() {
        FILES.get_or_init(|| Files {
            idle: open(),
            working: open(),
        });
    }
}

fn open() -> Option<(u64, u64)> {
    // SAFETY: the name is a terminated string; nothing else is passed.
    let fd = unsafe { libc::memfd_create(c"nvidia-uvm".as_ptr(), libc::MFD_CLOEXEC) };
    file(fd)
}

/// What is behind a descriptor.
fn file(fd: c_int) -> Option<(u64, u64)> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `found` is writable.
    if unsafe { libc::fstat(fd, found.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, and so filled it.
    let found = unsafe { found.assume_init() };
    Some((found.st_dev, found.st_ino))
}

/// The C library's `ioctl`.
///
/// # Safety
/// As the kernel's: `argument` is what the request takes.
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if let (MIGRATE | DISCARD, Some(files)) = (request, FILES.get()) {
        let behind = file(fd);
        if behind.is_some() && (behind == files.working || behind == files.idle) {
            let works = behind == files.working;
            let done = AssertUnwindSafe(|| {
                // SAFETY: the caller passes what the module's call of this number takes.
                unsafe { asked(fd, request, argument.cast(), works) }
            });
            return match catch_unwind(done).unwrap_or(Err(libc::EIO)) {
                Ok(()) => 0,
                Err(errno) => fail(errno),
            };
        }
        // To whatever this is, the number means something else.
        COUNTERS.uvm_strays.one();
    }
    // SAFETY: passed on as it came.
    let answer = unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) };
    c_int::try_from(answer).unwrap_or(-1)
}

/// The C library's `readlink`.
///
/// # Safety
/// As the kernel's: `path` is a terminated string, `to` has `room` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn readlink(path: *const c_char, to: *mut c_char, room: usize) -> isize {
    // SAFETY: the caller passes a terminated string.
    let named = unsafe { CStr::from_ptr(path) };
    let number = named.to_bytes().strip_prefix(b"/proc/self/fd/");
    let fd = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    if let (Some(fd), Some(files)) = (fd, FILES.get()) {
        let behind = file(fd);
        if behind.is_some() && (behind == files.working || behind == files.idle) {
            let length = LINK.len().min(room);
            // SAFETY: the caller's buffer has room for so many bytes, and is no part of ours.
            unsafe { std::ptr::copy_nonoverlapping(LINK.as_ptr(), to.cast(), length) };
            return isize::try_from(length).unwrap_or(0);
        }
    }
    // SAFETY: passed on as it came.
    let answer: c_long =
        unsafe { libc::syscall(libc::SYS_readlinkat, libc::AT_FDCWD, path, to, room) };
    isize::try_from(answer).unwrap_or(-1)
}

fn fail(errno: c_int) -> c_int {
    // SAFETY: the address of this thread's own errno.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: it is writable.
    unsafe { place.write(errno) };
    -1
}

/// One call of the module's. The error is an errno; what the module thinks of it is in the status.
///
/// # Safety
/// `argument` is the request's struct.
unsafe fn asked(fd: c_int, request: c_ulong, argument: *mut u8, works: bool) -> Result<(), c_int> {
    inject::check(&IOCTL_CALL).map_err(|error| c_int::try_from(error.0).unwrap_or(libc::EIO))?;
    if request == DISCARD && config::config().driver < DISCARDS_SINCE {
        return Err(libc::EINVAL);
    }
    // SAFETY: both structs begin with base and length.
    let base = unsafe { argument.cast::<u64>().read_unaligned() };
    // SAFETY: as above.
    let length = unsafe { argument.wrapping_add(8).cast::<u64>().read_unaligned() };
    let range = (
        usize::try_from(base).unwrap_or(usize::MAX),
        usize::try_from(length).unwrap_or(usize::MAX),
    );
    let (call, status_at) = match request {
        MIGRATE => (&MIGRATE_CALL, 72),
        _ => (&DISCARD_CALL, 24),
    };
    call.count.fetch_add(1, Ordering::Relaxed);
    hold::wait_in_call(call.base);
    slow::wait(call);
    let done = || {
        inject::check(call).map_err(|error| error.0)?;
        if !works {
            return Err(ILLEGAL_ACTION);
        }
        let machine = machine().map_err(|_| ILLEGAL_ACTION)?;
        if request == DISCARD {
            // SAFETY: the struct has its flags there.
            return discard(machine, range, unsafe {
                argument.wrapping_add(16).cast::<u64>().read_unaligned()
            });
        }
        // SAFETY: the struct has its destination there.
        let destination = unsafe { argument.wrapping_add(16).cast::<[u8; 16]>().read() };
        // SAFETY: the struct has its flags there.
        let flags = unsafe { argument.wrapping_add(32).cast::<u32>().read_unaligned() };
        migrate(machine, fd, range, destination, flags)
    };
    let status = done().err().unwrap_or(0);
    if status != 0 && status != INVALID_ACCESS_TYPE {
        COUNTERS.uvm_refusals.one();
    }
    // SAFETY: the struct has its status there.
    unsafe {
        argument
            .wrapping_add(status_at)
            .cast::<u32>()
            .write_unaligned(status)
    };
    Ok(())
}

fn migrate(
    machine: &Machine,
    fd: c_int,
    (start, bytes): (usize, usize),
    destination: [u8; 16],
    flags: u32,
) -> Result<(), u32> {
    if flags != 0 {
        return Err(INVALID_ARGUMENT);
    }
    let to = (0..machine.primaries.len())
        .find(|&device| calls::uuid(device).is_ok_and(|uuid| uuid == destination))
        .and_then(|device| i32::try_from(device).ok())
        .or((destination == HOST_UUID).then_some(DEVICE_CPU))
        .ok_or(INVALID_DEVICE)?;
    let mut memory = lock(&machine.memory);
    let (base, blocks) = memory
        .managed_range(start, bytes)
        .map(|found| (found.base, blocks_in(found, start, bytes)))
        .map_err(invalid)?;
    if !start.is_multiple_of(PAGE) || !bytes.is_multiple_of(PAGE) {
        return Err(INVALID_ADDRESS);
    }
    memory.prefetch(base, blocks, to);
    if to != DEVICE_CPU {
        COUNTERS.uvm_promotes.one();
        return Ok(());
    }
    COUNTERS.uvm_evicts.one();
    if config::config().uvm.as_deref() == Some("lies") {
        memory.lose(start, bytes);
    }
    drop(memory);
    if can_be_read(fd, start) {
        Ok(())
    } else {
        COUNTERS.uvm_unmapped.one();
        Err(INVALID_ACCESS_TYPE)
    }
}

fn discard(machine: &Machine, (start, bytes): (usize, usize), flags: u64) -> Result<(), u32> {
    if flags > 1 {
        return Err(INVALID_ARGUMENT);
    }
    let mut memory = lock(&machine.memory);
    let base = memory.managed_range(start, bytes).map_err(invalid)?.base;
    memory.lose(start, bytes);
    memory.discard(base, start, bytes);
    COUNTERS.uvm_discards.one();
    Ok(())
}

fn invalid(_: CuError) -> u32 {
    INVALID_ADDRESS
}

/// Whether the program may read there: the kernel says so when it is to copy a byte from there to a file.
fn can_be_read(fd: c_int, address: usize) -> bool {
    // SAFETY: the kernel reads one byte or refuses; the file is one of ours, whose contents nobody reads.
    unsafe { libc::pwrite(fd, std::ptr::with_exposed_provenance(address), 1, 0) == 1 }
}
