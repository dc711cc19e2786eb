//! Objects behind the remaining handles: modules and libraries, functions and kernels, pools.

use crate::cuda::Handle;
use crate::kernels::Kernel;
use std::sync::atomic::AtomicU64;

/// A handle's kind: calls for one refuse the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `CUmodule`, `CUfunction`
    Module,
    /// `CUlibrary`, `CUkernel`
    Library,
}

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) origin: Origin,
    /// Null for a library, which belongs to no context.
    pub(crate) context: Handle,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) origin: Origin,
    pub(crate) context: Handle,
    pub(crate) module: Handle,
    pub(crate) kernel: &'static Kernel,
}

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    pub(crate) is_default: bool,
    pub(crate) threshold: AtomicU64,
    pub(crate) peak: AtomicU64,
}

impl Pool {
    pub(crate) fn new(device: usize, is_default: bool) -> Self {
        Self {
            device,
            is_default,
            threshold: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }
}
