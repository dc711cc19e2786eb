//! Finds the driver, and puts our functions in the place of its.
//!
//! A function is exchanged only if both its name is in the table and its address is the driver's
//! own. By address alone, functions that the driver merged into one (such as all it no longer
//! supports) would get each other's hooks; by name alone, another library's function that happens
//! to be called `cuMemAlloc_v2` would get ours.
//!
//! Nothing here waits for a lock of ours. Threads that bind at the same time, or a thread that
//! comes back while the driver's constructors run, do the same work twice with the same result.
#![expect(unsafe_code, reason = "loads the driver")]

use crate::cuda::{CUresult, NullStream};
use crate::symbols::{self, Symbol};
use crate::{elf, guard, linker};
use libloading::os::unix::Library;
use std::ffi::{CStr, CString, OsStr, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

const DRIVER_NAME: &CStr = c"libcuda.so.1";

/// The driver's handle, once its functions are in the table's slots. Never closed.
static DRIVER: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// The addresses the driver occupies.
static DRIVER_START: AtomicUsize = AtomicUsize::new(0);
static DRIVER_END: AtomicUsize = AtomicUsize::new(0);

/// Finds the driver's functions if the process has loaded the driver, or loads it. For a hook
/// that was called although nobody has found anything: the program is linked with the driver.
pub(crate) fn bind() {
    if bind_loaded() {
        return;
    }
    // Its constructors may call our exports: straight through, then, to what is found meanwhile.
    let driver = OsStr::from_bytes(DRIVER_NAME.to_bytes());
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
    // SAFETY: what the driver's constructors do is what the program wants.
    let opened = guard::as_inside(|| unsafe { Library::open(Some(driver), flags) });
    if let Ok(library) = opened {
        let _never_closed = library.into_raw();
        bind_loaded();
    }
}

/// Finds the driver's functions if the process has loaded the driver.
pub(crate) fn bind_loaded() -> bool {
    // Pairs with the store at the end of `adopt`.
    if !DRIVER.load(Ordering::Acquire).is_null() {
        return true;
    }
    let Some((path, span)) = loaded_driver() else {
        return false;
    };
    let path = OsStr::from_bytes(path.to_bytes());
    // SAFETY: the library is already loaded; nothing of it runs.
    match unsafe { Library::open(Some(path), libc::RTLD_NOW | libc::RTLD_NOLOAD) } {
        Ok(library) => adopt(library.into_raw(), span),
        Err(_) => return false,
    }
    true
}

fn loaded_driver() -> Option<(CString, Range<usize>)> {
    elf::find(|object| {
        (object.is(DRIVER_NAME) && !object.path().is_empty())
            .then(|| (object.path().to_owned(), object.span()))
    })
}

fn adopt(driver: *mut c_void, span: Range<usize>) {
    guard::silence_panics();
    DRIVER_START.store(span.start, Ordering::Relaxed);
    DRIVER_END.store(span.end, Ordering::Relaxed);
    for symbol in symbols::all() {
        // SAFETY: an open library.
        let found = unsafe { linker::dlsym_of_glibc(driver, symbol.name) };
        // Pairs with the loads in the exports.
        symbol.real.store(found, Ordering::Release);
    }
    // Pairs with the loads in `bind_loaded` and `driver_symbol`.
    DRIVER.store(driver, Ordering::Release);
}

/// What a hook answers that has no function of the driver to call.
pub(crate) fn why_missing() -> CUresult {
    if DRIVER.load(Ordering::Relaxed).is_null() {
        CUresult::NOT_INITIALIZED
    } else {
        CUresult::NOT_FOUND
    }
}

/// The driver's own function, for calls that we make; null if there is none or no driver.
pub(crate) fn driver_symbol(name: &CStr) -> *mut c_void {
    // Pairs with the store at the end of `adopt`.
    let driver = DRIVER.load(Ordering::Acquire);
    if driver.is_null() {
        return null_mut();
    }
    // SAFETY: an open library, never closed.
    unsafe { linker::dlsym_of_glibc(driver, name) }
}

/// Our function for the one that the driver's `cuGetProcAddress` has found, or `found` itself if
/// we do not intercept it.
pub(crate) fn ours(found: *mut c_void, name: &CStr, null_stream: NullStream) -> *mut c_void {
    choose(symbols::all(), found, name, null_stream).map_or(found, |symbol| symbol.hook.cast_mut())
}

/// The row entry whose function of the driver is `found` and whose name, but for version and
/// stream, is `name`. If several are, their functions are one to the driver: then the one made for
/// this kind of null stream, or else the first, for the handlers of one name agree.
fn choose<'a>(
    table: &'a [Symbol],
    found: *mut c_void,
    name: &CStr,
    null_stream: NullStream,
) -> Option<&'a Symbol> {
    let fits = |symbol: &&Symbol| {
        symbol.real.load(Ordering::Relaxed) == found && is_called(symbol.name, name)
    };
    let mut candidates = table.iter().filter(fits);
    let first = candidates.clone().next()?;
    candidates
        .find(|symbol| symbol.null_stream == null_stream)
        .or(Some(first))
}

/// Whether the driver may answer with the function `symbol` when asked for `name`: a version of it, or what it
/// means since CUDA 12.
fn is_called(symbol: &CStr, name: &CStr) -> bool {
    let (symbol, name) = (base(symbol), base(name));
    symbol == name || (name == b"cuGraphInstantiate" && symbol == b"cuGraphInstantiateWithFlags")
}

/// A name without `_v2`, `_ptsz` and the like: CUDA's names have no other underscores.
fn base(name: &CStr) -> &[u8] {
    let name = name.to_bytes();
    name.split(|byte| *byte == b'_').next().unwrap_or(name)
}

/// Whether the driver itself has asked: either by its own code, or because it is at work for this
/// thread. What it looks up are its own functions, and it must get them: given ours for `cuInit`,
/// `cuInit` would call itself.
pub(crate) fn asked_by_the_driver(caller: *const c_void) -> bool {
    let start = DRIVER_START.load(Ordering::Relaxed);
    let end = DRIVER_END.load(Ordering::Relaxed);
    guard::inside() || (start..end).contains(&caller.addr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::Policy;

    /// A table entry whose driver's function is at `real`, and whose hook at `hook`.
    fn symbol(name: &'static CStr, null_stream: NullStream, real: usize, hook: usize) -> Symbol {
        let real = std::ptr::without_provenance_mut(real);
        Symbol {
            name,
            policy: Policy::Observe,
            null_stream,
            hook: std::ptr::without_provenance(hook),
            real: Box::leak(Box::new(AtomicPtr::new(real))),
        }
    }

    fn chosen(table: &[Symbol], found: usize, name: &CStr, stream: NullStream) -> Option<usize> {
        let found = std::ptr::without_provenance_mut(found);
        choose(table, found, name, stream).map(|symbol| symbol.hook.addr())
    }

    #[test]
    fn functions_that_the_driver_merged_are_told_apart_by_name_and_then_by_null_stream() {
        use NullStream::{Legacy, PerThread};
        let table = [
            symbol(c"cuMemcpy", Legacy, 100, 1),
            symbol(c"cuMemcpy_ptds", PerThread, 100, 2),
            symbol(c"cuLaunch", Legacy, 200, 3),
            symbol(c"cuLaunchGrid", Legacy, 200, 4),
            symbol(c"cuCtxDestroy_v2", Legacy, 300, 5),
            symbol(c"cuCtxDestroy", Legacy, 300, 6),
            symbol(c"cuGraphInstantiate_v2", Legacy, 400, 7),
            symbol(c"cuGraphInstantiateWithFlags", Legacy, 500, 8),
        ];
        for (found, name, stream, hook) in [
            (100, c"cuMemcpy", Legacy, Some(1)),
            (100, c"cuMemcpy", PerThread, Some(2)),
            (200, c"cuLaunchGrid", Legacy, Some(4)),
            (200, c"cuLaunchGrid", PerThread, Some(4)),
            (300, c"cuCtxDestroy", Legacy, Some(5)),
            (200, c"cuTexRefCreate", Legacy, None),
            (400, c"cuGraphInstantiate", Legacy, Some(7)),
            (500, c"cuGraphInstantiate", Legacy, Some(8)),
            (500, c"cuGraphInstantiate", PerThread, Some(8)),
            (400, c"cuGraphInstantiateWithFlags", Legacy, None),
            (101, c"cuMemcpy", Legacy, None),
        ] {
            assert_eq!(chosen(&table, found, name, stream), hook, "{name:?}");
        }
    }

    #[test]
    fn versions_of_a_function_are_told_apart_by_address() {
        use NullStream::Legacy;
        let table = [
            symbol(c"cuMemAlloc", Legacy, 100, 1),
            symbol(c"cuMemAlloc_v2", Legacy, 200, 2),
        ];
        assert_eq!(chosen(&table, 100, c"cuMemAlloc", Legacy), Some(1));
        assert_eq!(chosen(&table, 200, c"cuMemAlloc", Legacy), Some(2));
        assert_eq!(chosen(&table, 300, c"cuMemAlloc", Legacy), None);
    }

    #[test]
    fn what_the_driver_lacks_is_in_nobodys_place() {
        let table = [symbol(c"cuMemAlloc_v2", NullStream::Legacy, 0, 1)];
        assert_eq!(chosen(&table, 100, c"cuMemAlloc", NullStream::Legacy), None);
    }

    #[test]
    fn without_a_driver_a_hook_says_that_cuda_is_not_initialized() {
        assert_eq!(why_missing(), CUresult::NOT_INITIALIZED);
    }
}
