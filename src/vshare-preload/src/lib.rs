//! `libvshare.so`: the CUDA interposer.
//!
//! Read `symbols` first: its table names every call we intercept, its policy and its handler.
//!
//! | module | is for |
//! |---|---|
//! | `symbols` | the table: exported names, signatures, handlers |
//! | `guard` | the one way into a handler: re-entrancy, panics, exactly-once |
//! | `redirect`, `linker`, `elf` | finding the driver; `dlsym`, `dlvsym`, `dlopen`; what is loaded |
//! | `handlers` | what happens in each intercepted call |
//! | `work`, `touches` | everything that is submitted to a stream, and what it names |
//! | `memory`, `setup`, `pools`, `elsewhere`, `host_ranges` | allocating and freeing; making arenas and extents; stream-ordered pools; what the pool does not hold |
//! | `streams` | the order between streams and how far each has come |
//! | `captures`, `graphs` | graphs being recorded; what executable ones name |
//! | `engine`, `mover`, `road` | what work needs is there when it starts; the thread that makes room; how memory moves |
//! | `process`, `arenas`, `report` | the one global and its life; one arena for each context; counters and records |
//! | `recording` | what the program does, written to a file for `vshare sim` |
//! | `uvm`, `trial` | the kernel module's own calls, and whether they do what they should |
//! | `driver`, `cuda` | calls we make ourselves; CUDA's types |
//! | `os`, `clock`, `lock`, `notice`, `headroom` | what we ask of the operating system |

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "vshare-preload hooks dlsym with a few lines of assembly that exist for x86_64 and aarch64 only"
);

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
compile_error!("vshare-preload works on 64-bit Linux with glibc only");

mod arenas;
mod captures;
mod clock;
mod crew;
mod cuda;
mod driver;
mod elf;
mod elsewhere;
mod engine;
mod graphs;
mod guard;
mod handlers;
mod headroom;
mod host_ranges;
mod linker;
mod lock;
mod memory;
mod mover;
mod notice;
mod os;
mod pools;
mod process;
mod recording;
mod redirect;
mod report;
mod road;
mod setup;
mod streams;
mod symbols;
mod touches;
mod trial;
mod uvm;
mod visits;
mod work;

/// When the library is loaded: the environment is read, before the program can change it.
#[ctor::ctor(unsafe)]
fn loaded() {
    process::loaded();
}
