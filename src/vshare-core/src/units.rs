//! Sizes as people write them, and the page that memory moves in.

use core::fmt;

/// Bytes in one page of residency: the block in which the UVM driver keeps and moves memory.
pub const PAGE: u64 = 2 << 20;

/// Bytes that every address the pool hands out is a multiple of; the alignment the CUDA driver
/// guarantees is 256, and its allocations on current devices are multiples of 512.
pub const ALIGN: u64 = 512;

/// A size as the user gave it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// A number of bytes.
    Bytes(u64),
    /// A share of something, in percent: above 0, at most 100.
    Percent(f64),
}

impl Size {
    /// The bytes meant, where a percentage is one of `whole`.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => scale(whole, percent / 100.0),
        }
    }
}

/// Why a text is not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// Nothing but white space.
    Empty,
    /// Does not begin with a number, or has a minus sign.
    NotANumber,
    /// The letters after the number are none of k, M, G, T, Ki, Mi, Gi, Ti (with or without B) or %.
    UnknownUnit,
    /// Zero bytes or zero percent.
    Zero,
    /// More than 2^63 bytes, or more than 100 percent.
    TooLarge,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::NotANumber => "it does not begin with a positive number",
            Self::UnknownUnit => "its unit is none of k M G T Ki Mi Gi Ti (B) %",
            Self::Zero => "it is zero",
            Self::TooLarge => "it is too large",
        })
    }
}

impl core::error::Error for SizeError {}

/// Reads a size: a number, then nothing (bytes), `k` `M` `G` `T` (powers of 1000), `Ki` `Mi` `Gi`
/// `Ti` (powers of 1024), each with or without `B`, or `%`. Decimals are allowed; case is not
/// looked at; white space around the number is.
///
/// # Errors
/// Says what is wrong with the text.
pub fn parse_size(text: &str) -> Result<Size, SizeError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SizeError::Empty);
    }
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    if unit == "%" {
        let percent: f64 = number.parse().map_err(|_| SizeError::NotANumber)?;
        return match percent {
            p if p <= 0.0 => Err(SizeError::Zero),
            p if p > 100.0 => Err(SizeError::TooLarge),
            p => Ok(Size::Percent(p)),
        };
    }
    let factor = factor(unit).ok_or(if number.is_empty() {
        SizeError::NotANumber
    } else {
        SizeError::UnknownUnit
    })?;
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor).ok_or(SizeError::TooLarge)?,
        Err(_) if number.contains('.') => {
            let value: f64 = number.parse().map_err(|_| SizeError::NotANumber)?;
            scale(factor, value)
        }
        Err(_) if number.is_empty() => return Err(SizeError::NotANumber),
        Err(_) => return Err(SizeError::TooLarge),
    };
    match bytes {
        0 => Err(SizeError::Zero),
        b if b > 1 << 63 => Err(SizeError::TooLarge),
        b => Ok(Size::Bytes(b)),
    }
}

fn factor(unit: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 9] = [
        ("", 1),
        ("k", 1000),
        ("m", 1_000_000),
        ("g", 1_000_000_000),
        ("t", 1_000_000_000_000),
        ("ki", 1 << 10),
        ("mi", 1 << 20),
        ("gi", 1 << 30),
        ("ti", 1 << 40),
    ];
    let bare = unit.strip_suffix(['b', 'B']).unwrap_or(unit);
    UNITS
        .into_iter()
        .find_map(|(name, factor)| bare.eq_ignore_ascii_case(name).then_some(factor))
}

/// `whole` times `factor`, as close as a float comes; saturates.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "float casts saturate, and sizes need no more than 53 bits"
)]
fn scale(whole: u64, factor: f64) -> u64 {
    (whole as f64 * factor) as u64
}

/// Pages that `bytes` bytes need.
#[must_use]
pub const fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE)
}

/// Writes a number of bytes for a person: `1.5 GiB`.
#[derive(Clone, Copy, Debug)]
pub struct Human(pub u64);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 4] = [
            ("TiB", 1 << 40),
            ("GiB", 1 << 30),
            ("MiB", 1 << 20),
            ("KiB", 1 << 10),
        ];
        for (name, factor) in UNITS {
            if self.0 >= factor {
                let whole = self.0 / factor;
                let tenths = (self.0 % factor) * 10 / factor;
                return write!(f, "{whole}.{tenths} {name}");
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn sizes_are_read_as_the_readme_says() {
        for (text, bytes) in [
            ("1", 1),
            ("2k", 2000),
            ("2K", 2000),
            ("2KiB", 2048),
            ("1.5Gi", 3 << 29),
            (" 3 MB ", 3_000_000),
            ("2GiB", 2 << 30),
            ("1t", 1_000_000_000_000),
            ("512b", 512),
        ] {
            assert_eq!(parse_size(text), Ok(Size::Bytes(bytes)), "{text}");
        }
        assert_eq!(parse_size("50%"), Ok(Size::Percent(50.0)));
        assert_eq!(parse_size("12.5 %").map(|s| s.of(800)), Ok(100));
    }

    #[test]
    fn what_is_no_size_is_told_apart() {
        for (text, error) in [
            ("", SizeError::Empty),
            ("  ", SizeError::Empty),
            ("-5", SizeError::NotANumber),
            ("abc", SizeError::NotANumber),
            ("GiB", SizeError::NotANumber),
            ("1x", SizeError::UnknownUnit),
            ("1GiBB", SizeError::UnknownUnit),
            ("1 2", SizeError::UnknownUnit),
            ("0", SizeError::Zero),
            ("0m", SizeError::Zero),
            ("0%", SizeError::Zero),
            ("101%", SizeError::TooLarge),
            ("99999999999999999999", SizeError::TooLarge),
            ("99999999T", SizeError::TooLarge),
            ("1.2.3", SizeError::NotANumber),
            (".", SizeError::NotANumber),
            ("%", SizeError::NotANumber),
            ("nan%", SizeError::NotANumber),
            ("1e9", SizeError::UnknownUnit),
        ] {
            assert_eq!(parse_size(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn people_read_one_decimal() {
        assert_eq!(Human(3 << 29).to_string(), "1.5 GiB");
        assert_eq!(Human(1023).to_string(), "1023 B");
    }
}
