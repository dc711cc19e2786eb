//! Fills: of words of any size, one after the other or in rows.

use crate::cuda::{CUdeviceptr, CUresult, CUstream};
use crate::guard::Real;
use crate::symbols::Entry;
use crate::touches::Touches;
use crate::work::submit;

pub(crate) fn memset<Word>(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _value: Word,
    _count: usize,
) -> CUresult {
    submit(entry, CUstream::NULL, Touches::Fill { to: dst.0 }, real)
}

pub(crate) fn memset_2d<Word>(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _pitch: usize,
    _value: Word,
    _width: usize,
    _height: usize,
) -> CUresult {
    submit(entry, CUstream::NULL, Touches::Fill { to: dst.0 }, real)
}

pub(crate) fn memset_async<Word>(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _value: Word,
    _count: usize,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, Touches::Fill { to: dst.0 }, real)
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn memset_2d_async<Word>(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _pitch: usize,
    _value: Word,
    _width: usize,
    _height: usize,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, Touches::Fill { to: dst.0 }, real)
}
