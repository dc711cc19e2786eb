//! `dlsym`, `dlvsym` and `dlopen`, as this library exports them.
//!
//! glibc learns from the return address who calls: `RTLD_NEXT` means "after the caller", and a
//! library is looked for along the caller's `RUNPATH`. So what is not for us to answer must reach
//! glibc by a jump, with everything as the caller left it.
#![expect(unsafe_code, reason = "stands in for the dynamic linker")]

use crate::{elf, redirect, symbols};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// A function of glibc's, found when it is first needed.
struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

static DLSYM: Real = Real::named(c"dlsym");
static DLVSYM: Real = Real::named(c"dlvsym");
static DLOPEN: Real = Real::named(c"dlopen");

impl Real {
    const fn named(name: &'static CStr) -> Self {
        let address = AtomicPtr::new(null_mut());
        Self { name, address }
    }

    /// Where it is: in libc since glibc 2.34, before that in a library of its own. Null if nowhere.
    fn address(&self) -> *mut c_void {
        // Relaxed will do: the address is all there is to know, and it never changes.
        let mut found = self.address.load(Ordering::Relaxed);
        if found.is_null() {
            found = elf::function_in(&[c"libc.so.6", c"libdl.so.2"], self.name);
            self.address.store(found, Ordering::Relaxed);
        }
        found
    }

    /// Where to jump.
    fn target(&self) -> *const c_void {
        let found = self.address();
        if found.is_null() {
            return missing as *const c_void;
        }
        found
    }
}

/// Jumped to instead of a function of glibc's that is nowhere to be found.
extern "C" fn missing() -> *mut c_void {
    null_mut()
}

/// What glibc's `dlsym` finds, which is never one of our functions if `library` is the driver.
///
/// # Safety
/// `library` is an open library.
pub(crate) unsafe fn dlsym_of_glibc(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: our caller's library, and a string.
    unsafe { lookup(library, name.as_ptr(), null()) }
}

/// glibc's `dlsym`, or `dlvsym` if there is a version.
///
/// # Safety
/// As for these.
unsafe fn lookup(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void {
    let real = if version.is_null() { &DLSYM } else { &DLVSYM }.address();
    if real.is_null() {
        return null_mut();
    }
    if version.is_null() {
        // SAFETY: glibc's `dlsym`, which has this signature.
        let dlsym = unsafe { std::mem::transmute::<*mut c_void, Dlsym>(real) };
        // SAFETY: our caller's promise.
        unsafe { dlsym(handle, name) }
    } else {
        // SAFETY: glibc's `dlvsym`, which has this signature.
        let dlvsym = unsafe { std::mem::transmute::<*mut c_void, Dlvsym>(real) };
        // SAFETY: our caller's promise.
        unsafe { dlvsym(handle, name, version) }
    }
}

/// Whether a lookup is for us to answer.
///
/// # Safety
/// `name` is a string, or null.
unsafe fn is_ours(handle: *mut c_void, name: *const c_char) -> bool {
    if handle == libc::RTLD_NEXT || name.is_null() {
        return false;
    }
    // SAFETY: not null, and so a string.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_bytes().starts_with(b"cu") && symbols::find(name).is_some()
}

/// Where a call of `dlsym` is to go on: in glibc's, or if null in [`search`].
///
/// # Safety
/// As for `dlsym`.
unsafe extern "C" fn route_dlsym(handle: *mut c_void, name: *const c_char) -> *const c_void {
    // SAFETY: the program's arguments.
    if unsafe { is_ours(handle, name) } {
        return null();
    }
    DLSYM.target()
}

/// Where a call of `dlvsym` is to go on: in glibc's, or if null in [`search`].
///
/// # Safety
/// As for `dlvsym`.
unsafe extern "C" fn route_dlvsym(handle: *mut c_void, name: *const c_char) -> *const c_void {
    // SAFETY: the program's arguments.
    if unsafe { is_ours(handle, name) } {
        return null();
    }
    DLVSYM.target()
}

/// `dlsym`, or `dlvsym` if there is a version, for names in the table.
///
/// # Safety
/// As for `dlsym` and `dlvsym`.
unsafe extern "C" fn search(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    caller: *const c_void,
) -> *mut c_void {
    // First of all, so that what the program asked for is the last thing that the linker has
    // heard, and `dlerror` speaks of nothing else.
    redirect::bind_loaded();
    // SAFETY: the program's arguments.
    let found = unsafe { lookup(handle, name, version) };
    // SAFETY: `is_ours` has read this string.
    let Some(symbol) = symbols::find(unsafe { CStr::from_ptr(name) }) else {
        return found;
    };
    // Pairs with the store in `redirect::adopt`.
    let drivers_own = symbol.real.load(Ordering::Acquire);
    let answer = if redirect::asked_by_the_driver(caller) {
        drivers_own
    } else {
        symbol.hook.cast_mut()
    };
    if found.is_null() {
        found
    } else if found == drivers_own {
        answer
    } else if found.cast_const() == symbol.hook {
        // SAFETY: the program's arguments.
        unsafe { behind_us(name, version, drivers_own, answer) }
    } else {
        found
    }
}

/// The answer to a search through everything, which has found our own export: what the same search
/// finds behind us, or `answer` if that is the driver's.
///
/// Without us it would also have gone through the private libraries of whoever searches, but glibc
/// takes us for the searcher. So if the driver is loaded at all, it counts as found.
///
/// # Safety
/// As for `dlsym` and `dlvsym`.
unsafe fn behind_us(
    name: *const c_char,
    version: *const c_char,
    drivers_own: *mut c_void,
    answer: *mut c_void,
) -> *mut c_void {
    // SAFETY: our caller's strings.
    let next = unsafe { lookup(libc::RTLD_NEXT, name, version) };
    if next == drivers_own && !next.is_null() {
        return answer;
    }
    if !next.is_null() || drivers_own.is_null() {
        return next;
    }
    // SAFETY: makes glibc forget that this search has failed: the program's has not.
    unsafe { libc::dlerror() };
    answer
}

/// The flags with which a file is to be opened.
///
/// `RTLD_DEEPBIND` makes a library find the functions of its own dependencies before ours: a
/// runtime opened like that would get glibc's `dlsym`, and its program go unseen.
///
/// # Safety
/// `file` is a string, or null.
unsafe extern "C" fn dlopen_flags(file: *const c_char, flags: c_int) -> c_int {
    if flags & libc::RTLD_DEEPBIND == 0 || file.is_null() {
        return flags;
    }
    // SAFETY: not null, and so a string.
    let file = unsafe { CStr::from_ptr(file) }.to_bytes();
    if file.windows(7).any(|part| part == b"libcuda") {
        return flags & !libc::RTLD_DEEPBIND;
    }
    flags
}

/// Where a call of `dlopen` is to go on.
extern "C" fn route_dlopen() -> *const c_void {
    DLOPEN.target()
}

/// Saves the arguments, asks `route`, and jumps to where it says, or to `search` with the caller's
/// address and, by `version`, no version.
#[cfg(target_arch = "x86_64")]
macro_rules! jump_or_search {
    ($route:ident, $version:literal) => {
        std::arch::naked_asm!(
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "push r8",
            "push r9",
            "sub rsp, 8",
            "call {route}",
            "add rsp, 8",
            "pop r9",
            "pop r8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "test rax, rax",
            "jz 2f",
            "jmp rax",
            "2:",
            $version,
            "mov rcx, [rsp]",
            "jmp {search}",
            route = sym $route,
            search = sym search,
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump_or_search {
    ($route:ident, $version:literal) => {
        std::arch::naked_asm!(
            "stp x29, x30, [sp, #-96]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]",
            "stp x2, x3, [sp, #32]",
            "stp x4, x5, [sp, #48]",
            "stp x6, x7, [sp, #64]",
            "str x8, [sp, #80]",
            "bl {route}",
            "mov x16, x0",
            "ldp x0, x1, [sp, #16]",
            "ldp x2, x3, [sp, #32]",
            "ldp x4, x5, [sp, #48]",
            "ldp x6, x7, [sp, #64]",
            "ldr x8, [sp, #80]",
            "ldp x29, x30, [sp], #96",
            "cbz x16, 2f",
            "br x16",
            "2:",
            $version,
            "mov x3, x30",
            "b {search}",
            route = sym $route,
            search = sym search,
        )
    };
}

/// glibc's `dlsym`, but for the driver's functions.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    jump_or_search!(route_dlsym, "xor edx, edx");
    #[cfg(target_arch = "aarch64")]
    jump_or_search!(route_dlsym, "mov x2, xzr");
}

/// glibc's `dlvsym`, but for the driver's functions.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    jump_or_search!(route_dlvsym, "")
}

/// glibc's `dlopen`, but for a flag.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {flags}",
        "mov [rsp + 8], rax",
        "call {real}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        flags = sym dlopen_flags,
        real = sym route_dlopen,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "str x0, [sp, #16]",
        "bl {flags}",
        "str x0, [sp, #24]",
        "bl {real}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "br x16",
        flags = sym dlopen_flags,
        real = sym route_dlopen,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_are_answered_by_glibc() {
        for name in [c"qsort", c"cubic", c"", c"cu"] {
            // SAFETY: strings, and the handle that means everything.
            let found = unsafe { dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            // SAFETY: as above.
            let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            assert_eq!(found, expected, "{name:?}");
        }
    }

    #[test]
    fn versions_reach_glibc() {
        let versions = [c"GLIBC_2.2.5", c"GLIBC_2.17", c"GLIBC_9.9"];
        for version in versions.map(CStr::as_ptr) {
            let (all, name) = (libc::RTLD_DEFAULT, c"qsort".as_ptr());
            // SAFETY: strings, and the handle that means everything.
            let found = unsafe { dlvsym(all, name, version) };
            // SAFETY: as above.
            assert_eq!(found, unsafe { libc::dlvsym(all, name, version) });
        }
    }

    #[test]
    fn only_the_libraries_of_cuda_lose_the_flag() {
        let (deep, now) = (libc::RTLD_DEEPBIND, libc::RTLD_NOW);
        for (file, flags, expected) in [
            (c"/opt/lib/libcudart.so.13", now | deep, now),
            (c"libcuda.so.1", now | deep, now),
            (c"libcuda.so.1", now, now),
            (c"libm.so.6", now | deep, now | deep),
        ] {
            // SAFETY: a string.
            let given = unsafe { dlopen_flags(file.as_ptr(), flags) };
            assert_eq!(given, expected, "{file:?}");
        }
        // SAFETY: null is allowed.
        let given = unsafe { dlopen_flags(null(), now | deep) };
        assert_eq!(given, now | deep);
        // SAFETY: the program itself.
        assert!(!unsafe { dlopen(null(), now) }.is_null());
    }
}
