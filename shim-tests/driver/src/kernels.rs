//! The kernels that every module has, by name: what they take, and what they do to real memory on the stream's thread.
//!
//! A kernel prepares by checking all the memory it will use; what it returns then does the work and cannot fail.

use crate::access::{Access, Run, Span};
use crate::cuda::CuError;
use std::ffi::CStr;
use std::time::Duration;

type Work = Box<dyn FnOnce()>;
type Prepared = Result<Work, CuError>;

#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) c_name: &'static CStr,
    /// Size and alignment of each parameter.
    params: &'static [(usize, usize)],
    pub(crate) prepare: fn(&mut Run, &mut Args<'_>) -> Prepared,
}

const PTR: (usize, usize) = (8, 8);
const U64: (usize, usize) = (8, 8);
const U32: (usize, usize) = (4, 4);
/// `{ u64 count; u64 ptrs[16]; u32 value; u64 n; }`
const TABLE: (usize, usize) = (152, 8);
const TABLE_PTRS: usize = 16;

static KERNELS: &[Kernel] = &[
    Kernel {
        c_name: c"nop",
        params: &[],
        prepare: |_, _| Ok(Box::new(|| {})),
    },
    Kernel {
        c_name: c"fill_u32",
        params: &[PTR, U32, U64],
        prepare: fill_u32,
    },
    Kernel {
        c_name: c"add_u32",
        params: &[PTR, PTR, PTR, U64],
        prepare: add_u32,
    },
    Kernel {
        c_name: c"axpy_f32",
        params: &[PTR, PTR, U32, U64],
        prepare: axpy_f32,
    },
    Kernel {
        c_name: c"sum_u64",
        params: &[PTR, PTR, U64],
        prepare: sum_u64,
    },
    Kernel {
        c_name: c"copy_u8",
        params: &[PTR, PTR, U64],
        prepare: copy_u8,
    },
    Kernel {
        c_name: c"mix",
        params: &[PTR, U64, U32],
        prepare: mix,
    },
    Kernel {
        c_name: c"gather_ptrs",
        params: &[PTR, U64, U64, PTR],
        prepare: gather_ptrs,
    },
    Kernel {
        c_name: c"table_fill",
        params: &[TABLE],
        prepare: table_fill,
    },
    Kernel {
        c_name: c"spin_us",
        params: &[U64],
        prepare: spin_us,
    },
    Kernel {
        c_name: c"flag_host",
        params: &[PTR, U32, U64],
        prepare: flag_host,
    },
];

pub(crate) fn find(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name() == name)
}

impl Kernel {
    pub(crate) fn name(&self) -> &'static str {
        self.c_name.to_str().unwrap_or_default()
    }

    /// Offset and size of each parameter.
    pub(crate) fn layout(&self) -> Vec<(usize, usize)> {
        let mut end = 0;
        let place = |(size, align): &(usize, usize)| {
            let offset = usize::next_multiple_of(end, *align);
            end = offset + size;
            (offset, *size)
        };
        self.params.iter().map(place).collect()
    }

    pub(crate) fn param_bytes(&self) -> usize {
        self.layout()
            .last()
            .map_or(0, |(offset, size)| offset + size)
    }
}

/// A launch's parameters, read in order at their natural alignment.
#[derive(Debug)]
pub(crate) struct Args<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Args<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn next<const N: usize>(&mut self) -> Result<[u8; N], CuError> {
        let start = self.at.next_multiple_of(N);
        self.at = start + N;
        let bytes = self
            .bytes
            .get(start..self.at)
            .ok_or(CuError::ILLEGAL_ADDRESS)?;
        bytes.try_into().map_err(|_| CuError::ILLEGAL_ADDRESS)
    }

    /// A pointer or a `u64`.
    fn word(&mut self) -> Result<usize, CuError> {
        Ok(usize::from_ne_bytes(self.next()?))
    }

    fn micros(&mut self) -> Result<Duration, CuError> {
        Ok(Duration::from_micros(u64::from_ne_bytes(self.next()?)))
    }

    fn u32(&mut self) -> Result<u32, CuError> {
        Ok(u32::from_ne_bytes(self.next()?))
    }
}

fn work(work: impl FnOnce() + 'static) -> Prepared {
    Ok(Box::new(work))
}

fn fill_u32(run: &mut Run, args: &mut Args<'_>) -> Prepared {
    let (target, value, n) = (args.word()?, args.u32()?, args.word()?);
    let target = run.elements(target, n, 4, Access::Write)?;
    work(move || target.fill_with(&value.to_ne_bytes()))
}

/// out\[i\] = a\[i\] + b\[i\]
fn add_u32(run: &mut Run, args: &mut Args<'_>) -> Prepared {
    let (a, b, out, n) = (args.word()?, args.word()?, args.word()?, args.word()?);
    let a = run.elements(a, n, 4, Access::Read)?;
    let b = run.elements(b, n, 4, Access::Read)?;
    let out = run.elements(out, n, 4, Access::Write)?;
    work(move || (0..n).for_each(|i| out.set_u32(i, a.u32_at(i).wrapping_add(b.u32_at(i)))))
}

/// y\[i\] += a * x\[i\]
fn axpy_f32(run: &mut Run, args: &mut Args<'_>) -> Prepared {
    let (x, y, a, n) = (
        args.word()?,
        args.word()?,
        f32::from_bits(args.u32()?),
        args.word()?,
    );
    let x = run.elements(x, n, 4, Access::Read)?;
    let y = run.elements(y, n, 4, Access::Write)?;
    let at = |span: Span, i| f32::from_bits(span.u32_at(i));
    work(move || (0..n).for_each(|i| y.set_u32(i, (a * at(x, i) + at(y, i)).to_bits())))
}

fn sum_u64(run: &mut Run, args: &mut Args<'_>) -> Prepared {
    let (from, out, n) = (args.word()?, args.word()?, args.word()?);
    let from = run.elements(from, n, 4, Access::Read)?;
    let out = run.elements(out, 1, 8, Access::Write)?;
    work(move || out.set_u64(0, sum(from, n)))
}

fn sum(from: Span, n: usize) -> u64 {
    (0..n).fold(0, |total: u64, i| total.wrapping_add(from.u32_at(i).into()))
}

fn copy_u8(run: &mut Run, args: &mut Args<'_>) -> Prepared {
    let (to, from, n) = (args.word()?, args.word()?, args.word()?);
    let from = run.span(from, n, Access::Read)?;
    let to = run.span(to, n, Access::Write)?;
    work(move || to.copy_from(from))
}

/// `rounds` times over `n` u32: x = x * 0x9E3779B1 + round; x ^= x >> 15. No two inputs of one position give the same output.
fn mix(run: &mut Run, args: &mut Args<'_>) -> Prepared {
    let (target, n, rounds) = (args.word()?, args.word()?, args.u32()?);
    let target = run.elements(target, n, 4, Access::Write)?;
    let step = |x: u32, round: u32| {
        let x = x.wrapping_mul(0x9E37_79B1).wrapping_add(round);
        x ^ (x >> 15)
    };
    work(move || (0..n).for_each(|i| target.set_u32(i, (0..rounds).fold(target.u32_at(i), step))))
}

/// Follows pointers that no parameter shows: out\[i\] (u64) = the sum of `n_each` u32 at table\[i\].
fn gather_ptrs(run: &mut Run, args: &mut Args<'_>) -> Prepared {
    let (table, count, n_each, out) = (args.word()?, args.word()?, args.word()?, args.word()?);
    let table = run.elements(table, count, 8, Access::Read)?;
    let address = |i| usize::try_from(table.u64_at(i)).map_err(|_| CuError::ILLEGAL_ADDRESS);
    let parts: Vec<Span> = (0..count)
        .map(|i| run.elements(address(i)?, n_each, 4, Access::Read))
        .collect::<Result<_, _>>()?;
    let out = run.elements(out, count, 8, Access::Write)?;
    work(move || {
        parts
            .iter()
            .enumerate()
            .for_each(|(i, part)| out.set_u64(i, sum(*part, n_each)))
    })
}

/// Pointers inside a struct passed by value: the first `count` ranges of `n` u32 become `value`.
fn table_fill(run: &mut Run, args: &mut Args<'_>) -> Prepared {
    let count = args.word()?;
    let ptrs: Vec<usize> = (0..TABLE_PTRS)
        .map(|_| args.word())
        .collect::<Result<_, _>>()?;
    let (value, n) = (args.u32()?, args.word()?);
    let ptrs = ptrs.get(..count).ok_or(CuError::ILLEGAL_ADDRESS)?;
    let targets: Vec<Span> = ptrs
        .iter()
        .map(|ptr| run.elements(*ptr, n, 4, Access::Write))
        .collect::<Result<_, _>>()?;
    work(move || {
        targets
            .iter()
            .for_each(|target| target.fill_with(&value.to_ne_bytes()))
    })
}

fn spin_us(_run: &mut Run, args: &mut Args<'_>) -> Prepared {
    let time = args.micros()?;
    work(move || std::thread::sleep(time))
}

/// Writes a flag that the host can see, after a delay.
fn flag_host(run: &mut Run, args: &mut Args<'_>) -> Prepared {
    let (flag, value, delay) = (args.word()?, args.u32()?, args.micros()?);
    let flag = run.elements(flag, 1, 4, Access::Write)?;
    work(move || {
        std::thread::sleep(delay);
        flag.set_u32(0, value);
    })
}
