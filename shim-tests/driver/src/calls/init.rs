//! Starting, versions, looking functions up, and what errors are called.

use crate::arg::{Out, Text};
use crate::cuda::{Answer, CuError, ERROR_NAMES};
use crate::gate::{Call, Lane};
use crate::table::{self, Lookup, driver_calls};
use crate::{calls, config, machine};

driver_calls! {
    "cuInit" init(flags: u32) { cuInit: 2000 Legacy early }
    "cuDriverGetVersion" driver_get_version(version: Out<i32>) { cuDriverGetVersion: 2020 Legacy early }
    "cuGetProcAddress" get_proc_address_v1(symbol: Text, pfn: Out<usize>, version: i32, flags: u64) {
        cuGetProcAddress: 11030 Legacy early }
    "cuGetProcAddress" get_proc_address_v2(symbol: Text, pfn: Out<usize>, version: i32, flags: u64, status: Out<i32>) {
        cuGetProcAddress_v2: 12000 Legacy early }
    "cuGetExportTable" get_export_table(table: Out<usize>, id: usize) { cuGetExportTable: 3000 Legacy early }
    "cuGetErrorName" get_error_name(error: u32, name: Out<usize>) { cuGetErrorName: 6000 Legacy early }
    "cuGetErrorString" get_error_string(error: u32, text: Out<usize>) { cuGetErrorString: 6000 Legacy early }
}

fn init(_: &Call, flags: u32) -> Answer {
    if flags == 0 {
        machine::init()
    } else {
        Err(CuError::INVALID_VALUE)
    }
}

fn driver_get_version(_: &Call, version: Out<i32>) -> Answer {
    version.put(i32::try_from(config::config().driver).map_err(|_| CuError::UNKNOWN)?)
}

fn get_proc_address_v1(
    call: &Call,
    symbol: Text,
    pfn: Out<usize>,
    version: i32,
    flags: u64,
) -> Answer {
    get_proc_address_v2(call, symbol, pfn, version, flags, Out::at_address(0))
}

/// Answers 500 and NULL for what it does not find; the status tells an unknown name (1) from a version too low for it (2).
fn get_proc_address_v2(
    _: &Call,
    symbol: Text,
    pfn: Out<usize>,
    version: i32,
    flags: u64,
    status: Out<i32>,
) -> Answer {
    pfn.put(0)?;
    let driver = config::config().driver;
    let version = u32::try_from(version).map_err(|_| CuError::INVALID_VALUE)?;
    let lane = match flags {
        0 | 1 => Lane::Legacy,
        2 => Lane::PerThread,
        _ => return Err(CuError::INVALID_VALUE),
    };
    if version > driver {
        return Err(CuError::INVALID_VALUE);
    }
    match table::find(calls::entries(), symbol.get()?, version, lane, driver) {
        Lookup::Found(address) => {
            status.put_if_given(0);
            pfn.put(address)
        }
        Lookup::Unknown => {
            status.put_if_given(1);
            Err(CuError::NOT_FOUND)
        }
        Lookup::TooOld => {
            status.put_if_given(2);
            Err(CuError::NOT_FOUND)
        }
    }
}

/// What the tables hold is the real driver's business: none is offered.
fn get_export_table(_: &Call, _table: Out<usize>, _id: usize) -> Answer {
    Err(CuError::NOT_SUPPORTED)
}

fn get_error_name(_: &Call, error: u32, name: Out<usize>) -> Answer {
    name.required()?;
    match ERROR_NAMES.iter().find(|(code, _)| *code == error) {
        Some((_, text)) => name.put(text.as_ptr().expose_provenance()),
        None => {
            name.put(0)?;
            Err(CuError::INVALID_VALUE)
        }
    }
}

fn get_error_string(call: &Call, error: u32, text: Out<usize>) -> Answer {
    get_error_name(call, error, text)
}
