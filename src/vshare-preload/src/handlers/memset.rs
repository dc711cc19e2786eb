//! Fills.

use crate::cuda::{CUdeviceptr, CUresult, CUstream};
use crate::guard::Real;
use crate::symbols::Entry;
use crate::touches::Touches;
use crate::work::submit;

pub(crate) fn memset_d8(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _value: u8,
    _count: usize,
) -> CUresult {
    submit(
        entry,
        CUstream::NULL,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}

pub(crate) fn memset_d16(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _value: u16,
    _count: usize,
) -> CUresult {
    submit(
        entry,
        CUstream::NULL,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}

pub(crate) fn memset_d32(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _value: u32,
    _count: usize,
) -> CUresult {
    submit(
        entry,
        CUstream::NULL,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}

pub(crate) fn memset_d2d8(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _pitch: usize,
    _value: u8,
    _width: usize,
    _height: usize,
) -> CUresult {
    submit(
        entry,
        CUstream::NULL,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}

pub(crate) fn memset_d2d16(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _pitch: usize,
    _value: u16,
    _width: usize,
    _height: usize,
) -> CUresult {
    submit(
        entry,
        CUstream::NULL,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}

pub(crate) fn memset_d2d32(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _pitch: usize,
    _value: u32,
    _width: usize,
    _height: usize,
) -> CUresult {
    submit(
        entry,
        CUstream::NULL,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}

pub(crate) fn memset_d8_async(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _value: u8,
    _count: usize,
    stream: CUstream,
) -> CUresult {
    submit(
        entry,
        stream,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}

pub(crate) fn memset_d16_async(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _value: u16,
    _count: usize,
    stream: CUstream,
) -> CUresult {
    submit(
        entry,
        stream,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}

pub(crate) fn memset_d32_async(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _value: u32,
    _count: usize,
    stream: CUstream,
) -> CUresult {
    submit(
        entry,
        stream,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn memset_d2d8_async(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _pitch: usize,
    _value: u8,
    _width: usize,
    _height: usize,
    stream: CUstream,
) -> CUresult {
    submit(
        entry,
        stream,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn memset_d2d16_async(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _pitch: usize,
    _value: u16,
    _width: usize,
    _height: usize,
    stream: CUstream,
) -> CUresult {
    submit(
        entry,
        stream,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn memset_d2d32_async(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _pitch: usize,
    _value: u32,
    _width: usize,
    _height: usize,
    stream: CUstream,
) -> CUresult {
    submit(
        entry,
        stream,
        Touches::Copy {
            to: &[dst.0],
            from: &[],
        },
        real,
    )
}
