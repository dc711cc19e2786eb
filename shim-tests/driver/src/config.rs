//! The environment, read once. A value that does not parse counts as absent.

use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) devices: usize,
    pub(crate) vram: usize,
    pub(crate) driver: u32,
    pub(crate) cc: (i32, i32),
    pub(crate) concurrent_managed: bool,
    pub(crate) integrated: bool,
    pub(crate) hold: Option<String>,
    pub(crate) hold_call: Option<String>,
    pub(crate) fail: Option<String>,
    pub(crate) slow: Option<String>,
    pub(crate) uvm: Option<String>,
    pub(crate) stats: Option<String>,
    pub(crate) log: Option<String>,
}

pub(crate) fn config() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    CONFIG.get_or_init(|| read(|name| std::env::var(name).ok().filter(|value| !value.is_empty())))
}

fn read(get: impl Fn(&str) -> Option<String>) -> Config {
    Config {
        devices: number(&get, "SIMCUDA_DEVICES", 1),
        vram: get("SIMCUDA_VRAM")
            .and_then(|text| bytes(&text))
            .unwrap_or(1 << 30),
        driver: number(&get, "SIMCUDA_DRIVER", 13000),
        cc: get("SIMCUDA_CC")
            .and_then(|text| capability(&text))
            .unwrap_or((9, 0)),
        concurrent_managed: number(&get, "SIMCUDA_CONCURRENT_MANAGED", 1u32) != 0,
        integrated: number(&get, "SIMCUDA_INTEGRATED", 0u32) != 0,
        hold: get("SIMCUDA_HOLD_KERNEL"),
        hold_call: get("SIMCUDA_HOLD_CALL"),
        fail: get("SIMCUDA_FAIL"),
        slow: get("SIMCUDA_SLOW"),
        uvm: get("SIMCUDA_UVM").filter(|text| text != "0"),
        stats: get("SIMCUDA_STATS"),
        log: get("SIMCUDA_LOG"),
    }
}

fn number<N: std::str::FromStr>(
    get: &impl Fn(&str) -> Option<String>,
    name: &str,
    otherwise: N,
) -> N {
    get(name)
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

/// `64M` and the like.
fn bytes(text: &str) -> Option<usize> {
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (text.get(..at)?, 10),
        (at, 'M' | 'm') => (text.get(..at)?, 20),
        (at, 'G' | 'g') => (text.get(..at)?, 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

/// `9.0`, `90` or `120`: the last digit is the minor number.
fn capability(text: &str) -> Option<(i32, i32)> {
    let digits: i32 = text.replace('.', "").parse().ok()?;
    Some((digits / 10, digits % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_a_suffix() {
        assert_eq!(bytes("64M"), Some(64 << 20));
        assert_eq!(bytes("3"), Some(3));
        assert_eq!(bytes("x"), None);
    }

    #[test]
    fn a_capability_is_read_with_and_without_a_dot() {
        assert_eq!(capability("9.0"), Some((9, 0)));
        assert_eq!(capability("120"), Some((12, 0)));
    }
}
