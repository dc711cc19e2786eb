//! The driver and its devices.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use vshare_core::units::Human;

use super::Check;
use crate::probe;

/// A driver that has not answered by then never will.
const LIMIT: Duration = Duration::from_secs(60);

/// The driver and each device; and the largest device's memory.
pub(super) fn driver() -> (Vec<Check>, u64) {
    let found = match probe(None, None) {
        Ok((found, _)) => found,
        Err(why) => {
            let advice =
                "other CUDA programs would end so, too: reinstall the driver, and see `dmesg`";
            return (
                vec![Check::fail("driver", format!("trying it {why}"), advice)],
                0,
            );
        }
    };
    let version = at(&found, "/version").as_u64().unwrap_or(0);
    let mut checks = Vec::new();
    if version > 0 {
        checks.push(of_version(version));
    }
    if let Some(error) = at(&found, "/error").as_str() {
        checks.push(Check::fail("driver", error, cure(error)));
        return (checks, 0);
    }
    let devices = at(&found, "/devices")
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    if devices.is_empty() {
        let advice = "see `nvidia-smi`, and CUDA_VISIBLE_DEVICES below";
        checks.push(Check::fail("device", "the driver shows no GPU", advice));
    }
    checks.extend(devices.iter().map(device));
    let total = |device: &Value| at(device, "/total_bytes").as_u64().unwrap_or(0);
    (checks, devices.iter().map(total).max().unwrap_or(0))
}

fn of_version(version: u64) -> Check {
    let found = format!(
        "libcuda.so.1 is for CUDA {}.{}",
        version / 1000,
        version % 1000 / 10
    );
    if version < 12_040 {
        let advice = "launches by kernelParams are fetched for from 12.4 on: before, they fault their memory in, which is slower";
        return Check::warn("driver", found, advice);
    }
    Check::ok("driver", found)
}

/// What to do about an error of the driver's.
fn cure(error: &str) -> &'static str {
    let has = |text: &str| error.contains(text);
    if has("libcuda.so.1") {
        "install NVIDIA's driver; in a container, start it with the GPU (`--gpus all`)"
    } else if has("(100)") {
        "no GPU is visible: see `nvidia-smi`, and CUDA_VISIBLE_DEVICES below; in a container, start it with the GPU (`--gpus all`)"
    } else if has("(803)") || has("(804)") {
        "the library and the kernel's module are of different versions: restart the machine after an update of the driver"
    } else {
        "see `nvidia-smi` and `dmesg`: other CUDA programs fail so, too"
    }
}

fn device(device: &Value) -> Check {
    let text = |name: &str| at(device, name).as_str().unwrap_or("?");
    let number = |name: &str| at(device, name).as_i64().unwrap_or(0);
    let found = format!(
        "GPU {}: {}, {}, compute capability {}.{}, {}",
        number("/ordinal"),
        text("/name"),
        Human(at(device, "/total_bytes").as_u64().unwrap_or(0)),
        at(device, "/capability/0"),
        at(device, "/capability/1"),
        text("/uuid"),
    );
    if number("/compute_mode") == 2 {
        let advice =
            "no program may use it (compute mode \"prohibited\"): `nvidia-smi -c 0` allows it";
        return Check::fail("device", found, advice);
    }
    if at(device, "/concurrent_managed_access") != true {
        let advice = "no concurrent managed access (a GPU before Pascal, WSL, a virtual GPU, or confidential computing): \
                      programs run, but not with more memory than it has";
        return Check::fail("device", found, advice);
    }
    if at(device, "/integrated") == true {
        let advice = "its memory is the host's: there is nowhere else to put what does not fit";
        return Check::warn("device", found, advice);
    }
    if matches!(number("/compute_mode"), 1 | 3) {
        let advice = "one process at a time may use it (compute mode \"exclusive\"): `nvidia-smi -c 0` lets several share it";
        return Check::warn("device", found, advice);
    }
    Check::ok("device", found)
}

/// What `CUDA_VISIBLE_DEVICES` leaves.
pub(super) fn visible() -> Check {
    let name = "CUDA_VISIBLE_DEVICES";
    match std::env::var_os(name) {
        None => Check::ok(
            "visible",
            format!("{name} is not set: all GPUs are visible"),
        ),
        Some(value) => {
            let value = value.to_string_lossy().into_owned();
            match value.trim() {
                "" | "-1" | "none" | "void" | "NoDevFiles" => Check::fail(
                    "visible",
                    format!("{name}=\"{value}\" hides all GPUs"),
                    format!("unset {name}, or name a GPU in it"),
                ),
                _ => Check::ok(
                    "visible",
                    format!("{name}={value}; GPU 0 is the first of these"),
                ),
            }
        }
    }
}

/// What is at `path` in `value`; null if nothing is.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    value.pointer(path).unwrap_or(&Value::Null)
}

/// Runs ourselves to try something, with `preload` in `LD_PRELOAD`. What it found, and what the loader said; or how it failed.
pub(super) fn probe(
    preloaded: Option<&str>,
    preload: Option<&Path>,
) -> Result<(Value, String), String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot start: {error}"))?;
    let mut command = Command::new(own);
    command
        .arg(probe::NAME)
        .args(preloaded)
        .env_remove("LD_PRELOAD");
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start: {error}"))?;
    let start = Instant::now();
    // What it says fits into its pipes.
    while child
        .try_wait()
        .map_err(|error| error.to_string())?
        .is_none()
    {
        if start.elapsed() > LIMIT {
            _ = child.kill();
            _ = child.wait();
            return Err(format!("has not ended after {} s", LIMIT.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        return Err(format!("ended with {}: {said}", output.status));
    }
    // A driver may have written something of its own first.
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().next_back().unwrap_or_default();
    let found = serde_json::from_str(last).map_err(|_| format!("said {last:?}"))?;
    Ok((found, said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;
    use serde_json::json;

    fn gpu(change: &str, value: Value) -> Value {
        let mut gpu = json!({
            "ordinal": 0, "name": "H200", "uuid": "GPU-1", "total_bytes": 1u64 << 37, "capability": [9, 0],
            "compute_mode": 0, "integrated": false, "concurrent_managed_access": true,
        });
        gpu[change] = value;
        gpu
    }

    #[test]
    fn a_device_is_judged_by_what_vshare_needs() {
        for (change, value, status) in [
            ("ordinal", json!(0), Status::Ok),
            ("compute_mode", json!(2), Status::Fail),
            ("compute_mode", json!(3), Status::Warn),
            ("integrated", json!(true), Status::Warn),
            ("concurrent_managed_access", json!(false), Status::Fail),
        ] {
            let check = device(&gpu(change, value));
            assert_eq!(check.status, status, "{change}");
            assert_eq!(check.advice.is_none(), status == Status::Ok, "{change}");
            assert!(
                check
                    .found
                    .contains("H200, 128.0 GiB, compute capability 9.0"),
                "{check:?}"
            );
        }
    }

    #[test]
    fn an_old_driver_is_a_warning() {
        assert_eq!(
            of_version(13_000),
            Check::ok("driver", "libcuda.so.1 is for CUDA 13.0")
        );
        assert_eq!(of_version(12_020).status, Status::Warn);
    }
}
