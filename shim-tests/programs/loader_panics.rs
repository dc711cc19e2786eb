//! Uses the driver, and then panics. Rust, so that there are two copies of `std` in the process.

use std::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

fn main() {
    let cuda = unsafe { dlopen(c"libcuda.so.1".as_ptr(), 2) };
    let init = unsafe { dlsym(cuda, c"cuInit".as_ptr()) };
    let init: extern "C" fn(u32) -> u32 = unsafe { std::mem::transmute(init) };
    println!("{}", init(0));
    let result = std::panic::catch_unwind(|| panic!("the program's own"));
    println!("{}", result.is_err());
}
