//! Gives the library the driver's soname, keeps its calls to its own exports inside it whatever a program preloads, and
//! lets nothing unload it: its threads and its exit handler run its code.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
