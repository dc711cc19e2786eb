//! A CUDA driver without a GPU: the library that tests install as `libcuda.so.1`.
//!
//! Read `table.rs` first (how a function is exported), then one file of `calls/` (what the functions do), then `stream.rs` (when
//! work runs) and `residency.rs` (where managed memory is). What is left out answers `CUDA_ERROR_NOT_SUPPORTED`: `calls/absent.rs`.
//!
//! Environment, read once:
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `SIMCUDA_DEVICES` | number of devices | 1 |
//! | `SIMCUDA_VRAM` | memory of each device, bytes or with K, M, G | 1G |
//! | `SIMCUDA_DRIVER` | driver version; newer entry points are hidden | 13000 |
//! | `SIMCUDA_CC` | compute capability, as `9.0` or `90` | 9.0 |
//! | `SIMCUDA_CONCURRENT_MANAGED` | `concurrentManagedAccess`, 0 or 1 | 1 |
//! | `SIMCUDA_INTEGRATED` | whether the devices' memory is the host's, 0 or 1 | 0 |
//! | `SIMCUDA_HOLD_KERNEL` | `name[:path],…`: these kernels wait for the file, or for `simcuda_release()`; 30 s at most | |
//! | `SIMCUDA_HOLD_CALL` | the same for calls: whoever makes one waits in it | |
//! | `SIMCUDA_FAIL` | `call:n:code,…` the n-th call answers the code; `n+` from the n-th on | |
//! | `SIMCUDA_SLOW` | `call:µs,…` these calls take so much longer | |
//! | `SIMCUDA_UVM` | programs find the UVM kernel module: `1`, or `lies`, whose moves to the host lose what was there; in `SIMCUDA_FAIL` its calls are `UVM_MIGRATE` and `UVM_DISCARD`, their codes statuses, and `ioctl` is either, with an errno | |
//! | `SIMCUDA_STATS` | file for the counters, written at exit and by `simcuda_write_stats()` | |
//! | `SIMCUDA_LOG` | file for one line per call, and `*` lines for work that streams did | |

mod access;
mod arena;
mod arg;
mod calls;
mod capture;
mod config;
mod context;
mod cuda;
mod event;
mod gate;
mod graph;
mod handles;
mod hold;
mod inject;
mod journal;
mod kernels;
mod machine;
mod mapping;
mod memory;
mod module;
mod op;
mod order;
mod residency;
mod slow;
mod stats;
mod stream;
mod table;
mod uvm;
