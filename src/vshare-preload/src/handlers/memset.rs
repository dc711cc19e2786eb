//! Fills: of words of any size, one after the other or in rows.

use crate::cuda::{CUdeviceptr, CUresult, CUstream};
use crate::guard::Real;
use crate::symbols::Entry;
use crate::work::submit_copy;

pub(crate) fn memset<Word>(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _value: Word,
    _count: usize,
) -> CUresult {
    submit_copy(entry, CUstream::NULL, &[dst.0], &[], real)
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
    submit_copy(entry, CUstream::NULL, &[dst.0], &[], real)
}

pub(crate) fn memset_async<Word>(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _value: Word,
    _count: usize,
    stream: CUstream,
) -> CUresult {
    submit_copy(entry, stream, &[dst.0], &[], real)
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
    submit_copy(entry, stream, &[dst.0], &[], real)
}
