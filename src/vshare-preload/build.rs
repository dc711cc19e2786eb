//! Linker flags of `libvshare.so`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A thread may still be on its way out through our code when a program that opened us closes
    // us again. `-z now` is rustc's default; said here because lazy binding inside a hook of the
    // dynamic linker would be asking for trouble.
    for flag in ["-z", "nodelete", "-z", "now"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{flag}");
    }
}
