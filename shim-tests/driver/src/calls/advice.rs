//! Advice on managed memory, and what a range remembers.

use super::managed::{old_place, place};
use crate::arg::{In, Out};
use crate::context;
use crate::cuda::{
    Answer, CUdevice, CUdeviceptr, CUmemLocation, CuError, DEVICE_CPU, DEVICE_INVALID,
    LOCATION_DEVICE, LOCATION_HOST,
};
use crate::gate::Call;
use crate::handles::lock;
use crate::machine::machine;
use crate::residency::{Advice, Block, blocks_in};
use crate::table::driver_calls;

driver_calls! {
    "cuMemAdvise" advise(dptr: CUdeviceptr, bytes: usize, advice: i32, dev: CUdevice) { cuMemAdvise: 8000 Legacy }
    "cuMemAdvise" advise_v2(dptr: CUdeviceptr, bytes: usize, advice: i32, location: CUmemLocation) { cuMemAdvise_v2: 12020 Legacy }
    "cuMemRangeGetAttribute" range_get_attribute(data: Out<i32>, data_bytes: usize, attribute: i32, dptr: CUdeviceptr, bytes: usize) {
        cuMemRangeGetAttribute: 8000 Legacy }
    "cuMemRangeGetAttributes" range_get_attributes(data: In<usize>, data_bytes: In<usize>, attributes: In<i32>, count: usize, dptr: CUdeviceptr, bytes: usize) {
        cuMemRangeGetAttributes: 8000 Legacy }
}

fn advise(_: &Call, dptr: CUdeviceptr, bytes: usize, advice: i32, dev: CUdevice) -> Answer {
    // Read-mostly and unsetting a preference look at no device.
    let place = if [1, 2, 4].contains(&advice) {
        DEVICE_INVALID
    } else {
        old_place(dev)?
    };
    apply(dptr, bytes, advice, place)
}

fn advise_v2(
    _: &Call,
    dptr: CUdeviceptr,
    bytes: usize,
    advice: i32,
    location: CUmemLocation,
) -> Answer {
    let place = if [1, 2, 4].contains(&advice) {
        DEVICE_INVALID
    } else {
        place(location)?
    };
    apply(dptr, bytes, advice, place)
}

/// Advice takes hold at once and holds for every block that the range touches.
fn apply(dptr: CUdeviceptr, bytes: usize, advice: i32, place: i32) -> Answer {
    context::current()?;
    let mut memory = lock(&machine()?.memory);
    let found = memory.managed_range(dptr.0, bytes)?;
    let (base, blocks) = (found.base, blocks_in(found, dptr.0, bytes));
    for index in blocks {
        let block = memory
            .block_mut(base, index)
            .ok_or(CuError::INVALID_VALUE)?;
        set_advice(&mut block.advice, advice, place)?;
    }
    Ok(())
}

fn set_advice(on: &mut Advice, advice: i32, place: i32) -> Answer {
    match advice {
        1 => on.read_mostly = true,
        2 => on.read_mostly = false,
        3 => on.preferred = Some(place),
        4 => on.preferred = None,
        5 if !on.accessed_by.contains(&place) => on.accessed_by.push(place),
        5 => {}
        6 => on.accessed_by.retain(|other| *other != place),
        _ => return Err(CuError::INVALID_VALUE),
    }
    Ok(())
}

fn range_get_attribute(
    _: &Call,
    data: Out<i32>,
    data_bytes: usize,
    attribute: i32,
    dptr: CUdeviceptr,
    bytes: usize,
) -> Answer {
    context::current()?;
    let memory = lock(&machine()?.memory);
    let found = memory.managed_range(dptr.0, bytes)?;
    let blocks = found
        .blocks
        .get(blocks_in(found, dptr.0, bytes))
        .ok_or(CuError::INVALID_VALUE)?;
    if attribute == 3 {
        return put_accessed_by(data, data_bytes, blocks);
    }
    if data_bytes != 4 {
        return Err(CuError::INVALID_VALUE);
    }
    let preferred = common(blocks, |block| block.advice.preferred);
    let last = common(blocks, |block| block.last_prefetch);
    data.put(match attribute {
        1 => i32::from(blocks.iter().all(|block| block.advice.read_mostly)),
        2 => preferred,
        4 => last,
        5 => location_kind(preferred),
        6 => preferred.max(0),
        7 => location_kind(last),
        8 => last.max(0),
        _ => return Err(CuError::INVALID_VALUE),
    })
}

/// What all blocks agree on.
fn common(blocks: &[Block], of: impl Fn(&Block) -> Option<i32>) -> i32 {
    let first = blocks.first().and_then(&of);
    first
        .filter(|place| blocks.iter().all(|block| of(block) == Some(*place)))
        .unwrap_or(DEVICE_INVALID)
}

fn location_kind(place: i32) -> i32 {
    match place {
        DEVICE_INVALID => 0,
        DEVICE_CPU => LOCATION_HOST,
        _ => LOCATION_DEVICE,
    }
}

fn put_accessed_by(data: Out<i32>, data_bytes: usize, blocks: &[Block]) -> Answer {
    if data_bytes == 0 || !data_bytes.is_multiple_of(4) {
        return Err(CuError::INVALID_VALUE);
    }
    let first = blocks
        .first()
        .map_or(&[][..], |block| &block.advice.accessed_by);
    let everywhere = first
        .iter()
        .filter(|place| {
            blocks
                .iter()
                .all(|block| block.advice.accessed_by.contains(place))
        })
        .copied();
    let padded = everywhere
        .chain(std::iter::repeat(DEVICE_INVALID))
        .take(data_bytes / 4);
    padded
        .enumerate()
        .try_for_each(|(index, place)| data.put_at(index, place))
}

fn range_get_attributes(
    call: &Call,
    data: In<usize>,
    data_bytes: In<usize>,
    attributes: In<i32>,
    count: usize,
    dptr: CUdeviceptr,
    bytes: usize,
) -> Answer {
    let lists = data
        .list(count)?
        .into_iter()
        .zip(data_bytes.list(count)?)
        .zip(attributes.list(count)?);
    let mut each = lists.into_iter();
    each.try_for_each(|((out, size), attribute)| {
        range_get_attribute(call, Out::at_address(out), size, attribute, dptr, bytes)
    })
}
