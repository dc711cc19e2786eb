//! The work that streams do: what it is, and doing it.

use crate::access::{Access, Engine, Run, Span};
use crate::context::{self, Context};
use crate::cuda::{Answer, CuError, Handle};
use crate::event::Mark;
use crate::handles::lock;
use crate::kernels::{Args, Kernel};
use crate::machine::machine;
use crate::residency::blocks_in;
use crate::stats::COUNTERS;
use crate::stream::Stream;
use crate::{hold, journal};
use std::ffi::c_void;
use std::sync::Arc;

pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Kernel {
        kernel: &'static Kernel,
        /// By which handle the program named it.
        function: Handle,
        params: Arc<[u8]>,
    },
    Copy {
        to: End,
        from: End,
        bytes: usize,
    },
    Fill {
        to: usize,
        pattern: Pattern,
        count: usize,
    },
    Record(Arc<Mark>),
    Wait(Arc<Mark>),
    Host {
        function: HostFunction,
        data: usize,
    },
    /// A graph's work, or the rows of one shaped copy: one after the other.
    Steps(Arc<[Op]>),
    /// A graph within a graph.
    Child(Arc<[Op]>),
    Free(usize),
    Prefetch {
        ranges: Vec<(usize, usize)>,
        to: i32,
    },
    Discard {
        ranges: Vec<(usize, usize)>,
    },
    Nothing,
}

/// One end of a copy.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// In a live allocation, checked when the copy runs.
    Tracked(usize),
    /// The program's own pageable memory.
    Pageable(usize),
    /// Pageable memory as it was when the copy was asked for.
    Staged(Arc<[u8]>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Pattern {
    D8(u8),
    D16(u16),
    D32(u32),
}

impl Pattern {
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Self::D8(value) => vec![value],
            Self::D16(value) => value.to_ne_bytes().to_vec(),
            Self::D32(value) => value.to_ne_bytes().to_vec(),
        }
    }
}

impl Op {
    /// Whether a graph can hold it: managed-memory hints cannot be captured.
    pub(crate) fn capturable(&self) -> bool {
        !matches!(self, Self::Prefetch { .. } | Self::Discard { .. })
    }

    /// Whether it reads or writes the program's own pageable memory.
    pub(crate) fn touches_pageable(&self) -> bool {
        matches!(
            self,
            Self::Copy {
                to: End::Pageable(_),
                ..
            } | Self::Copy {
                from: End::Pageable(_),
                ..
            }
        )
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Kernel { kernel, .. } => kernel.name(),
            Self::Copy { .. } => "copy",
            Self::Fill { .. } => "fill",
            Self::Record(_) => "record",
            Self::Wait(_) => "wait",
            Self::Host { .. } => "host",
            Self::Steps(_) => "steps",
            Self::Child(_) => "child",
            Self::Free(_) => "free",
            Self::Prefetch { .. } => "prefetch",
            Self::Discard { .. } => "discard",
            Self::Nothing => "nothing",
        }
    }

    /// Does it, on the stream's thread. After an error in the context only what others wait for is still done.
    pub(crate) fn run(&self, context: &Arc<Context>, stream: &Stream) {
        let answer = match self {
            Self::Record(mark) => {
                mark.set();
                Ok(())
            }
            Self::Wait(mark) => {
                mark.wait();
                Ok(())
            }
            Self::Steps(steps) | Self::Child(steps) => {
                steps.iter().for_each(|step| step.run(context, stream));
                Ok(())
            }
            _ => context.healthy().and_then(|()| self.do_work(context)),
        };
        if let Err(error) = answer {
            context.poison(error);
        }
        journal::work(stream.handle, self.name(), answer);
    }

    fn do_work(&self, context: &Context) -> Answer {
        match self {
            Self::Kernel { kernel, params, .. } => run_kernel(context, kernel, params),
            Self::Copy { to, from, bytes } => copy(context, to, from, *bytes),
            Self::Fill { to, pattern, count } => fill(context, *to, *pattern, *count),
            Self::Host { function, data } => {
                call_host(*function, *data);
                Ok(())
            }
            Self::Free(base) => {
                lock(&machine()?.memory).free(*base);
                Ok(())
            }
            Self::Prefetch { ranges, to } => prefetch(ranges, *to),
            Self::Discard { ranges } => discard(ranges),
            Self::Record(_) | Self::Wait(_) | Self::Steps(_) | Self::Child(_) | Self::Nothing => {
                Ok(())
            }
        }
    }
}

/// A kernel first takes hold of all the memory it uses, then may be held by a test, then works.
fn run_kernel(context: &Context, kernel: &Kernel, params: &[u8]) -> Answer {
    let mut run = Run::new(context.device, Engine::Kernel);
    let work = (kernel.prepare)(&mut run, &mut Args::new(params))?;
    hold::wait(kernel.name());
    work();
    COUNTERS.kernels.one();
    Ok(())
}

fn copy(context: &Context, to: &End, from: &End, bytes: usize) -> Answer {
    let mut run = Run::new(context.device, Engine::Copy);
    let target = match to {
        End::Tracked(start) => run.span(*start, bytes, Access::Write)?,
        End::Pageable(start) => pageable(*start, bytes),
        End::Staged(_) => return Err(CuError::INVALID_VALUE),
    };
    hold::wait("copy");
    match from {
        End::Tracked(start) => target.copy_from(run.span(*start, bytes, Access::Read)?),
        End::Pageable(start) => target.copy_from(pageable(*start, bytes)),
        End::Staged(staged) => target.put(staged),
    }
    COUNTERS.copies.one();
    COUNTERS.copied_bytes.add(bytes);
    Ok(())
}

#[expect(unsafe_code, reason = "copies from and to the program's own memory")]
fn pageable(start: usize, bytes: usize) -> Span {
    // SAFETY: the program named these addresses in a copy of this many bytes that is not done yet.
    unsafe { Span::of_host(start, bytes) }
}

/// Pageable memory as it is now.
pub(crate) fn stage(start: usize, bytes: usize) -> Arc<[u8]> {
    pageable(start, bytes).bytes().into()
}

fn fill(context: &Context, to: usize, pattern: Pattern, count: usize) -> Answer {
    let pattern = pattern.bytes();
    let mut run = Run::new(context.device, Engine::Copy);
    let target = run.elements(to, count, pattern.len(), Access::Write)?;
    hold::wait("fill");
    match pattern.as_slice() {
        [byte] => target.fill(*byte),
        pattern => target.fill_with(pattern),
    }
    COUNTERS.memsets.one();
    Ok(())
}

#[expect(unsafe_code, reason = "calls a function of the program's")]
fn call_host(function: HostFunction, data: usize) {
    let data = std::ptr::with_exposed_provenance_mut(data);
    // SAFETY: the program passed the function together with its argument, to be called once with it on a thread of ours.
    context::as_host_function(|| unsafe { function(data) });
}

/// A range whose allocation has gone meanwhile is skipped: hints have no errors.
fn prefetch(ranges: &[(usize, usize)], to: i32) -> Answer {
    let mut memory = lock(&machine()?.memory);
    for (start, bytes) in ranges {
        let found = memory
            .managed_range(*start, *bytes)
            .map(|found| (found.base, blocks_in(found, *start, *bytes)));
        if let Ok((base, blocks)) = found {
            memory.prefetch(base, blocks, to);
        }
    }
    Ok(())
}

fn discard(ranges: &[(usize, usize)]) -> Answer {
    let mut memory = lock(&machine()?.memory);
    for (start, bytes) in ranges {
        if let Ok(base) = memory.managed_range(*start, *bytes).map(|found| found.base) {
            // So that whoever relies on the contents sees it.
            memory.lose(*start, *bytes);
            memory.discard(base, *start, *bytes);
        }
    }
    Ok(())
}
