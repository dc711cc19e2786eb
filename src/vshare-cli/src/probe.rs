//! What must be tried and may go wrong in any way: loading a driver, being preloaded into. Done in a
//! child whose end is the worst that can happen.
#![expect(unsafe_code, reason = "calls functions of libraries that it loads")]

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::mem::ManuallyDrop;
use std::process::ExitCode;

use libloading::{Library, Symbol};
use serde_json::{Value, json};

use crate::text::uuid;
use crate::{Failure, print};

/// What `vshare doctor` starts itself with. No command of the user's: help and completions know nothing of it.
pub(crate) const NAME: &str = "__probe";

/// What is to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Loading the driver and asking it.
    Driver,
    /// Whether a library of this name has been preloaded.
    Preloaded(String),
}

/// What we were started to try, if that is why we were started.
pub(crate) fn asked() -> Option<Attempt> {
    let mut words = std::env::args_os().skip(1);
    let asked = words.next().is_some_and(|word| word == NAME);
    asked.then(|| {
        let name = words.next().map(|name| name.to_string_lossy().into_owned());
        name.map_or(Attempt::Driver, Attempt::Preloaded)
    })
}

/// Prints what it found as JSON.
pub(crate) fn probe(attempt: &Attempt) -> Result<ExitCode, Failure> {
    let found = match attempt {
        Attempt::Preloaded(name) => json!({ "preloaded": is_mapped(name), "glibc": glibc() }),
        Attempt::Driver => driver().unwrap_or_else(|error| json!({ "error": error })),
    };
    print(&format!("{found}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a library of this name is in our memory.
fn is_mapped(name: &str) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| line.ends_with(name))
}

/// The version of the C library that we run on; `None` if it is not glibc.
fn glibc() -> Option<String> {
    type Version = unsafe extern "C" fn() -> *const c_char;
    let process = libloading::os::unix::Library::this();
    // SAFETY: only glibc has a function of this name, and this is its type.
    let function = unsafe { process.get::<Version>(b"gnu_get_libc_version\0") }.ok()?;
    // SAFETY: it takes nothing and can be called at any time.
    let text = unsafe { function() };
    if text.is_null() {
        return None;
    }
    // SAFETY: glibc returns a constant string with a zero at its end.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// CUresult and its kin, as integers: a newer driver may know more values than we.
type Code = c_uint;
type Device = c_int;

/// The driver library, and the name that it has for its errors.
struct Cuda(Library);

impl Cuda {
    /// A function of the driver's.
    ///
    /// # Safety
    /// `F` is the type that cuda.h declares `name` with.
    unsafe fn function<F>(&self, name: &'static str) -> Result<Symbol<'_, F>, String> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.0.get::<F>(name) };
        found.map_err(|_| format!("the driver has no {name}: is it CUDA's?"))
    }

    fn check(&self, call: &'static str, code: Code) -> Result<(), String> {
        match code {
            0 => Ok(()),
            code => Err(format!("{call}: {} ({code})", self.name(code))),
        }
    }

    fn name(&self, code: Code) -> String {
        type GetName = unsafe extern "C" fn(Code, *mut *const c_char) -> Code;
        let mut text = std::ptr::null();
        // SAFETY: as cuda.h declares it.
        let got = unsafe { self.function::<GetName>("cuGetErrorName") }.map(|function| {
            // SAFETY: `text` is where the function may put a pointer.
            unsafe { function(code, &raw mut text) }
        });
        if got != Ok(0) || text.is_null() {
            return "unknown error".to_owned();
        }
        // SAFETY: on success it is a constant string of the driver's, which stays loaded.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }

    fn number(&self, call: &'static str) -> Result<c_int, String> {
        type Get = unsafe extern "C" fn(*mut c_int) -> Code;
        let mut value = 0;
        // SAFETY: as cuda.h declares cuDriverGetVersion and cuDeviceGetCount, the two it is used for.
        let function = unsafe { self.function::<Get>(call) }?;
        // SAFETY: `value` is where the function may put a number.
        self.check(call, unsafe { function(&raw mut value) })?;
        Ok(value)
    }

    fn attribute(&self, device: Device, attribute: c_int) -> Result<c_int, String> {
        type Get = unsafe extern "C" fn(*mut c_int, c_int, Device) -> Code;
        let call = "cuDeviceGetAttribute";
        let mut value = 0;
        // SAFETY: as cuda.h declares it.
        let function = unsafe { self.function::<Get>(call) }?;
        // SAFETY: `value` is where the function may put a number.
        self.check(call, unsafe { function(&raw mut value, attribute, device) })?;
        Ok(value)
    }

    fn device(&self, ordinal: c_int) -> Result<Value, String> {
        type Get = unsafe extern "C" fn(*mut Device, c_int) -> Code;
        type GetName = unsafe extern "C" fn(*mut c_char, c_int, Device) -> Code;
        type GetUuid = unsafe extern "C" fn(*mut [u8; 16], Device) -> Code;
        type TotalMem = unsafe extern "C" fn(*mut usize, Device) -> Code;
        const COMPUTE_MODE: c_int = 20;
        const INTEGRATED: c_int = 18;
        const CAPABILITY_MAJOR: c_int = 75;
        const CAPABILITY_MINOR: c_int = 76;
        const CONCURRENT_MANAGED_ACCESS: c_int = 89;

        let mut device = 0;
        // SAFETY: as cuda.h declares it.
        let function = unsafe { self.function::<Get>("cuDeviceGet") }?;
        // SAFETY: `device` is where the function may put a number.
        self.check("cuDeviceGet", unsafe { function(&raw mut device, ordinal) })?;

        let mut name = [0u8; 128];
        // SAFETY: as cuda.h declares it.
        let function = unsafe { self.function::<GetName>("cuDeviceGetName") }?;
        // SAFETY: the function may write 128 bytes, which `name` has.
        let code = unsafe { function(name.as_mut_ptr().cast(), 128, device) };
        self.check("cuDeviceGetName", code)?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();

        let mut bytes = [0; 16];
        // SAFETY: as cuda.h declares both: CUuuid is 16 bytes.
        let function = unsafe { self.function::<GetUuid>("cuDeviceGetUuid_v2") }
            // SAFETY: see above.
            .or_else(|_| unsafe { self.function::<GetUuid>("cuDeviceGetUuid") })?;
        // SAFETY: `bytes` has room for 16.
        self.check("cuDeviceGetUuid", unsafe {
            function(&raw mut bytes, device)
        })?;

        let mut total = 0;
        // SAFETY: as cuda.h declares it.
        let function = unsafe { self.function::<TotalMem>("cuDeviceTotalMem_v2") }?;
        // SAFETY: `total` is where the function may put a number.
        self.check("cuDeviceTotalMem_v2", unsafe {
            function(&raw mut total, device)
        })?;

        Ok(json!({
            "ordinal": ordinal,
            "name": name.to_string_lossy(),
            "uuid": uuid(bytes),
            "total_bytes": total,
            "capability": [self.attribute(device, CAPABILITY_MAJOR)?, self.attribute(device, CAPABILITY_MINOR)?],
            "compute_mode": self.attribute(device, COMPUTE_MODE)?,
            "integrated": self.attribute(device, INTEGRATED)? != 0,
            "concurrent_managed_access": self.attribute(device, CONCURRENT_MANAGED_ACCESS)? != 0,
        }))
    }
}

/// What the driver says of itself and its devices. Makes no context.
fn driver() -> Result<Value, String> {
    type Init = unsafe extern "C" fn(c_uint) -> Code;
    // SAFETY: its constructors run, as in any program that uses CUDA; this process is here for that.
    let library = unsafe { Library::new("libcuda.so.1") };
    let library = library.map_err(|error| {
        use std::error::Error as _;
        let source = error.source().map(ToString::to_string);
        source.unwrap_or_else(|| error.to_string())
    })?;
    // Unloading a driver that has started threads of its own is asking for trouble.
    let cuda = ManuallyDrop::new(Cuda(library));
    // Before cuInit, which needs a GPU.
    let version = cuda.number("cuDriverGetVersion")?;
    let started = || {
        // SAFETY: as cuda.h declares it.
        let init = unsafe { cuda.function::<Init>("cuInit") }?;
        // SAFETY: 0 is the one flag there is.
        cuda.check("cuInit", unsafe { init(0) })?;
        let count = cuda.number("cuDeviceGetCount")?;
        (0..count).map(|ordinal| cuda.device(ordinal)).collect()
    };
    let devices: Result<Vec<Value>, String> = started();
    Ok(match devices {
        Ok(devices) => json!({ "version": version, "devices": devices }),
        Err(error) => json!({ "version": version, "error": error }),
    })
}
