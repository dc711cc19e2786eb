//! Numbers, times, tables and texts from outside, as a terminal may show them.

use std::fmt::Write;

use vshare_core::units::Human;

/// As nvidia-smi writes it.
pub(crate) fn uuid(bytes: [u8; 16]) -> String {
    let mut text = "GPU".to_owned();
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        _ = write!(text, "{byte:02x}"); // a String takes all
    }
    text
}

pub(crate) fn with_unit(value: u64, unit: &str) -> String {
    match unit {
        "bytes" => Human(value).to_string(),
        "nanoseconds" => Nanoseconds(value).to_string(),
        "count" => value.to_string(),
        other => format!("{value} {}", printable(other)),
    }
}

/// A time for a person.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nanoseconds(pub(crate) u64);

impl std::fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        write!(f, "{}.{} {name}", self.0 / unit, self.0 % unit * 10 / unit)
    }
}

/// A moment, in nanoseconds since 1970, as ISO 8601 has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Utc(pub(crate) u64);

impl std::fmt::Display for Utc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seconds, micros) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1000);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        // Years that begin in March have their leap day at the end; 146097 days are 400 years.
        let since_0000_03_01 = days + 719_468;
        let (era, day) = (since_0000_03_01 / 146_097, since_0000_03_01 % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year + u64::from(month <= 2);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{micros:06}Z",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }
}

/// A table whose last column is as wide as it likes.
pub(crate) fn table<const N: usize>(head: &[&str; N], rows: &[[String; N]]) -> String {
    let mut widths = head.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let lines = std::iter::once(head.map(str::to_owned)).chain(rows.iter().cloned());
    for line in lines {
        let mut padded = String::new();
        for (cell, width) in line.iter().zip(widths) {
            _ = write!(padded, "{cell:<width$}  "); // a String takes all
        }
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}

/// What a terminal may be shown: a segment's texts come from outside.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if is_unruly(c) { '?' } else { c })
        .collect()
}

/// JSON that a terminal may be shown, too: what would move its cursor is escaped.
pub(crate) fn json(value: &impl std::fmt::Display) -> String {
    let text = value.to_string();
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        // Line breaks stand between values; inside of texts they have been escaped.
        match c {
            c if c != '\n' && is_unruly(c) => _ = write!(safe, "\\u{:04x}", u32::from(c)),
            c => safe.push(c),
        }
    }
    safe
}

/// Moves the cursor, changes the terminal, or makes text seem other than it is.
fn is_unruly(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_for_people() {
        for (nanoseconds, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.5 us"),
            (2_000_000, "2.0 ms"),
            (61_250_000_000, "61.2 s"),
        ] {
            assert_eq!(Nanoseconds(nanoseconds).to_string(), text);
        }
    }

    #[test]
    fn moments_are_written_as_iso_8601_has_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_764_560_096, "2025-12-01T03:34:56.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(Utc(seconds * 1_000_000_000).to_string(), text);
        }
        assert_eq!(Utc(u64::MAX).to_string(), "2554-07-21T23:34:33.709551Z");
    }

    #[test]
    fn columns_line_up_and_lines_have_no_blanks_at_their_end() {
        let rows = [
            ["1".to_owned(), "long cell".to_owned()],
            ["22".to_owned(), String::new()],
        ];
        assert_eq!(table(&["A", "B"], &rows), "A   B\n1   long cell\n22\n");
    }

    #[test]
    fn a_uuid_is_written_as_nvidia_smi_does() {
        let bytes = std::array::from_fn(|i| u8::try_from(i).unwrap());
        assert_eq!(uuid(bytes), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn a_segment_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc"), "a?[2Jb?c");
        let hostile = serde_json::json!({ "a": "\x1b\u{9b}\u{202e}\n\"é" });
        let safe = json(&hostile);
        assert_eq!(safe, r#"{"a":"\u001b\u009b\u202e\n\"é"}"#);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&safe).unwrap(),
            hostile
        );
        assert_eq!(printable("a\u{202e}b\u{9b}é"), "a?b?é");
    }
}
