//! Copies of rectangles and boxes: each is one piece of work in its stream, made of one step per row. No arrays.

use super::copy::{Address, Side, later, now, resolve};
use crate::arg::In;
use crate::capture;
use crate::cuda::{Answer, CUstream, CuError, Handle};
use crate::gate::Call;
use crate::op::Op;
use crate::order::{self, Submitted};
use crate::table::driver_calls;

driver_calls! {
    "cuMemcpy2D" copy_2d(copy: In<Copy2d>) { cuMemcpy2D_v2: 3020 Legacy, cuMemcpy2D_v2_ptds: 7000 PerThread }
    "cuMemcpy2DUnaligned" copy_2d(copy: In<Copy2d>) { cuMemcpy2DUnaligned_v2: 3020 Legacy, cuMemcpy2DUnaligned_v2_ptds: 7000 PerThread }
    "cuMemcpy2DAsync" copy_2d_async(copy: In<Copy2d>, stream: CUstream) {
        cuMemcpy2DAsync_v2: 3020 Legacy, cuMemcpy2DAsync_v2_ptsz: 7000 PerThread }
    "cuMemcpy3D" copy_3d(copy: In<Copy3d>) { cuMemcpy3D_v2: 3020 Legacy, cuMemcpy3D_v2_ptds: 7000 PerThread }
    "cuMemcpy3DAsync" copy_3d_async(copy: In<Copy3d>, stream: CUstream) {
        cuMemcpy3DAsync_v2: 3020 Legacy, cuMemcpy3DAsync_v2_ptsz: 7000 PerThread }
}

/// `CUDA_MEMCPY2D`
#[repr(C)]
#[derive(Clone, Copy)]
struct Copy2d {
    from: End2d,
    to: End2d,
    width: usize,
    height: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct End2d {
    x: usize,
    y: usize,
    kind: u32,
    host: usize,
    device: usize,
    array: usize,
    pitch: usize,
}

/// `CUDA_MEMCPY3D`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copy3d {
    pub(super) from: End3d,
    pub(super) to: End3d,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End3d {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    pub(super) kind: u32,
    pub(super) host: usize,
    pub(super) device: usize,
    array: usize,
    reserved: usize,
    pub(super) pitch: usize,
    rows: usize,
}

/// One end as the copy walks it: where it starts, and how far apart rows and slices are.
#[derive(Clone, Copy, Debug)]
struct Walk {
    start: usize,
    side: Side,
    pitch: usize,
    slice: usize,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    width: usize,
    height: usize,
    depth: usize,
}

impl Walk {
    fn row(&self, row: usize, slice: usize) -> Result<Address, CuError> {
        let by = |count: usize, step: usize| count.checked_mul(step).ok_or(CuError::INVALID_VALUE);
        let start = self
            .start
            .checked_add(by(row, self.pitch)?)
            .and_then(|at| at.checked_add(by(slice, self.slice).ok()?));
        Ok((start.ok_or(CuError::INVALID_VALUE)?, self.side))
    }
}

fn base(kind: u32, host: usize, device: usize) -> Result<(usize, Side), CuError> {
    match kind {
        1 => Ok((host, Side::Host)),
        2 => Ok((device, Side::Device)),
        4 => Ok((device, Side::Any)),
        3 => Err(CuError::NOT_SUPPORTED),
        _ => Err(CuError::INVALID_VALUE),
    }
}

/// A pitch of zero means rows without gaps.
fn pitch(given: usize, width: usize) -> Result<usize, CuError> {
    match given {
        0 => Ok(width),
        pitch if pitch >= width => Ok(pitch),
        _ => Err(CuError::INVALID_VALUE),
    }
}

impl End2d {
    fn walk(&self, shape: Shape) -> Result<Walk, CuError> {
        let (start, side) = base(self.kind, self.host, self.device)?;
        let pitch = pitch(self.pitch, self.x + shape.width)?;
        Ok(Walk {
            start: start + self.y * pitch + self.x,
            side,
            pitch,
            slice: 0,
        })
    }
}

impl End3d {
    fn walk(&self, shape: Shape) -> Result<Walk, CuError> {
        let (start, side) = base(self.kind, self.host, self.device)?;
        let pitch = pitch(self.pitch, self.x + shape.width)?;
        let slice = pitch * self.rows.max(self.y + shape.height);
        Ok(Walk {
            start: start + self.z * slice + self.y * pitch + self.x,
            side,
            pitch,
            slice,
        })
    }
}

/// The rows, each from where to where.
fn rows(to: Walk, from: Walk, shape: Shape) -> Result<Vec<(Address, Address)>, CuError> {
    let places = (0..shape.depth).flat_map(|slice| (0..shape.height).map(move |row| (row, slice)));
    places
        .map(|(row, slice)| Ok((to.row(row, slice)?, from.row(row, slice)?)))
        .collect()
}

fn steps(rows: Vec<(Address, Address)>, shape: Shape) -> Result<Vec<Op>, CuError> {
    let step = |(to, from): (Address, Address)| {
        Ok(Op::Copy {
            to: resolve(to, shape.width)?,
            from: resolve(from, shape.width)?,
            bytes: shape.width,
        })
    };
    rows.into_iter().map(step).collect()
}

/// A copy as a node of a graph has it.
pub(super) fn work(params: &Copy3d) -> Result<Op, CuError> {
    let shape = Shape {
        width: params.width,
        height: params.height,
        depth: params.depth,
    };
    let rows = rows(params.to.walk(shape)?, params.from.walk(shape)?, shape)?;
    let mut steps = steps(rows, shape)?;
    match steps.pop() {
        Some(only) if steps.is_empty() => Ok(only),
        Some(last) => {
            steps.push(last);
            Ok(Op::Steps(steps.into()))
        }
        None => Err(CuError::INVALID_VALUE),
    }
}

/// Copies row by row in one step. Pageable ends are read and written before the call returns.
fn copy(call: &Call, to: Walk, from: Walk, shape: Shape, stream: Option<CUstream>) -> Answer {
    let rows = rows(to, from, shape)?;
    if shape.width == 0 || rows.is_empty() {
        return Ok(());
    }
    if let [(to, from)] = rows.as_slice() {
        return match stream {
            Some(stream) => later(call, *to, *from, shape.width, stream),
            None => now(call, *to, *from, shape.width),
        };
    }
    let target = order::target(stream.unwrap_or(Handle::NULL), call.lane)?;
    let steps = steps(rows, shape)?;
    let pageable = steps.iter().any(Op::touches_pageable);
    if stream.is_none() {
        capture::unsafe_call()?;
        return target.submit_and_wait(Op::Steps(steps.into()));
    }
    match target.submit(Op::Steps(steps.into()))? {
        Submitted::Queued(ticket) if pageable => {
            target.stream.wait(ticket);
            target.context.healthy()
        }
        _ => Ok(()),
    }
}

fn copy_2d_in(call: &Call, params: In<Copy2d>, stream: Option<CUstream>) -> Answer {
    let params = params.get()?;
    let shape = Shape {
        width: params.width,
        height: params.height,
        depth: 1,
    };
    copy(
        call,
        params.to.walk(shape)?,
        params.from.walk(shape)?,
        shape,
        stream,
    )
}

fn copy_3d_in(call: &Call, params: In<Copy3d>, stream: Option<CUstream>) -> Answer {
    let params = params.get()?;
    let shape = Shape {
        width: params.width,
        height: params.height,
        depth: params.depth,
    };
    copy(
        call,
        params.to.walk(shape)?,
        params.from.walk(shape)?,
        shape,
        stream,
    )
}

fn copy_2d(call: &Call, params: In<Copy2d>) -> Answer {
    copy_2d_in(call, params, None)
}

fn copy_2d_async(call: &Call, params: In<Copy2d>, stream: CUstream) -> Answer {
    copy_2d_in(call, params, Some(stream))
}

fn copy_3d(call: &Call, params: In<Copy3d>) -> Answer {
    copy_3d_in(call, params, None)
}

fn copy_3d_async(call: &Call, params: In<Copy3d>, stream: CUstream) -> Answer {
    copy_3d_in(call, params, Some(stream))
}
