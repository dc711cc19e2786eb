//! Devices: how many, what they are called, and their attributes.

use crate::arg::{Out, Text};
use crate::config::config;
use crate::cuda::{Answer, CUdevice, CUuuid, CuError};
use crate::gate::Call;
use crate::machine::{device, machine};
use crate::table::driver_calls;

driver_calls! {
    "cuDeviceGetCount" get_count(count: Out<i32>) { cuDeviceGetCount: 2000 Legacy }
    "cuDeviceGet" get(device: Out<CUdevice>, ordinal: i32) { cuDeviceGet: 2000 Legacy }
    "cuDeviceGetName" get_name(name: Out<u8>, len: i32, dev: CUdevice) { cuDeviceGetName: 2000 Legacy }
    "cuDeviceGetUuid" get_uuid(uuid: Out<[u64; 2]>, dev: CUdevice) { cuDeviceGetUuid: 9020 Legacy, cuDeviceGetUuid_v2: 11040 Legacy }
    "cuDeviceTotalMem" total_mem_v1(bytes: Out<u32>, dev: CUdevice) { cuDeviceTotalMem: 2000 Legacy }
    "cuDeviceTotalMem" total_mem(bytes: Out<usize>, dev: CUdevice) { cuDeviceTotalMem_v2: 3020 Legacy }
    "cuDeviceGetAttribute" get_attribute(value: Out<i32>, attribute: i32, dev: CUdevice) { cuDeviceGetAttribute: 2000 Legacy }
    "cuDeviceCanAccessPeer" can_access_peer(can: Out<i32>, dev: CUdevice, peer: CUdevice) { cuDeviceCanAccessPeer: 4000 Legacy }
    "cuDeviceGetByPCIBusId" get_by_pci_bus_id(dev: Out<CUdevice>, id: Text) { cuDeviceGetByPCIBusId: 4010 Legacy }
    "cuDeviceGetPCIBusId" get_pci_bus_id(text: Out<u8>, len: i32, dev: CUdevice) { cuDeviceGetPCIBusId: 4010 Legacy }
}

fn get_count(_: &Call, count: Out<i32>) -> Answer {
    count.put(i32::try_from(machine()?.primaries.len()).map_err(|_| CuError::UNKNOWN)?)
}

fn get(_: &Call, out: Out<CUdevice>, ordinal: i32) -> Answer {
    device(ordinal)?;
    out.put(ordinal)
}

fn get_name(_: &Call, name: Out<u8>, len: i32, dev: CUdevice) -> Answer {
    device(dev)?;
    put_text(name, len, &format!("Simulated GPU {dev}"))
}

/// A terminated string, cut to fit.
fn put_text(out: Out<u8>, len: i32, text: &str) -> Answer {
    let room = usize::try_from(len)
        .ok()
        .and_then(|len| len.checked_sub(1))
        .ok_or(CuError::INVALID_VALUE)?;
    let cut = text.as_bytes().iter().take(room).chain(&[0]);
    cut.enumerate()
        .try_for_each(|(index, byte)| out.put_at(index, *byte))
}

fn get_uuid(_: &Call, uuid: Out<[u64; 2]>, dev: CUdevice) -> Answer {
    let bytes = self::uuid(device(dev)?)?;
    uuid.required()?;
    uuid.cast::<CUuuid>().put(CUuuid(bytes))
}

/// What tells a device from all others.
pub(crate) fn uuid(device: usize) -> Result<[u8; 16], CuError> {
    let mut bytes = *b"simulated gpu \0\0";
    if let Some(last) = bytes.last_mut() {
        *last = u8::try_from(device).map_err(|_| CuError::INVALID_DEVICE)?;
    }
    Ok(bytes)
}

/// The 32-bit version says as much as it can.
fn total_mem_v1(_: &Call, bytes: Out<u32>, dev: CUdevice) -> Answer {
    device(dev)?;
    bytes.put(u32::try_from(config().vram).unwrap_or(u32::MAX))
}

fn total_mem(_: &Call, bytes: Out<usize>, dev: CUdevice) -> Answer {
    device(dev)?;
    bytes.put(config().vram)
}

fn get_attribute(_: &Call, value: Out<i32>, attribute: i32, dev: CUdevice) -> Answer {
    device(dev)?;
    if !(1..=147).contains(&attribute) {
        return Err(CuError::INVALID_VALUE);
    }
    let bus = dev + 1;
    value.put(match attribute {
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65535,
        8 => 49152,
        9 | 12 | 82 => 65536,
        10 => 32,
        11 => i32::MAX,
        13 => 1_980_000,
        14 | 30 => 512,
        15 | 19 | 31 | 32 | 41 => 1,
        16 => 4,
        18 => i32::from(config().integrated),
        33 => bus,
        36 => 3_201_000,
        37 => 6144,
        38 => 32 << 20,
        39 => 2048,
        40 => 3,
        51 => 32,
        75 => config().cc.0,
        76 => config().cc.1,
        78 | 79 | 80 | 83 | 90 | 91 | 95 | 96 | 99 | 115 | 120 => 1,
        81 | 97 => 233_472,
        89 => i32::from(config().concurrent_managed),
        102 | 103 => 1,
        106 => 32,
        // Pageable access, peers, and everything else that this driver does not have.
        _ => 0,
    })
}

fn can_access_peer(_: &Call, can: Out<i32>, dev: CUdevice, peer: CUdevice) -> Answer {
    device(dev)?;
    device(peer)?;
    can.put(0)
}

fn get_by_pci_bus_id(_: &Call, dev: Out<CUdevice>, id: Text) -> Answer {
    let id = id.get()?;
    let count = i32::try_from(machine()?.primaries.len()).map_err(|_| CuError::UNKNOWN)?;
    dev.put(
        (0..count)
            .find(|dev| bus_id(*dev) == id)
            .ok_or(CuError::INVALID_DEVICE)?,
    )
}

fn get_pci_bus_id(_: &Call, text: Out<u8>, len: i32, dev: CUdevice) -> Answer {
    device(dev)?;
    put_text(text, len, &bus_id(dev))
}

fn bus_id(dev: CUdevice) -> String {
    format!("0000:{:02x}:00.0", dev + 1)
}
