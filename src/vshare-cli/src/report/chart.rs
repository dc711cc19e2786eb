//! Charts over time as inline SVG. Whatever the numbers are, the picture has a bounded size.

use std::fmt::Write as _;

use vshare_core::units::Human;

use crate::recording::Sample;
use crate::timeline::Slice;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;

/// Columns of a chart.
const BINS: usize = 300;

/// The stretch of time that charts show, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Range {
    fn length(self) -> u64 {
        self.to.saturating_sub(self.from).max(1)
    }

    /// The column that holds a moment.
    fn bin(self, time_ns: u64) -> usize {
        let since = u128::from(time_ns.saturating_sub(self.from));
        let bin = since * BINS as u128 / u128::from(self.length());
        usize::try_from(bin).unwrap_or(BINS).min(BINS - 1)
    }

    fn bin_ns(self) -> f64 {
        float(self.length()) / BINS as f64
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a picture needs no more than 53 bits"
)]
fn float(value: u64) -> f64 {
    value as f64
}

/// What lay on the GPU, what in host memory above it, and the budget as a line.
pub(crate) fn memory(samples: &[Sample], range: Range) -> String {
    let mut columns = [(0u64, 0u64); BINS];
    let mut known = [false; BINS];
    for sample in samples {
        let bin = range.bin(sample.time_ns);
        if let (Some(column), Some(known)) = (columns.get_mut(bin), known.get_mut(bin)) {
            let lasting = (sample.resident, sample.host);
            // The highest of a column: a peak that is not seen is one that was not there.
            *column = match *known && sum(*column) > sum(lasting) {
                true => *column,
                false => lasting,
            };
            *known = true;
        }
    }
    // What nothing is known of stands as it stood.
    let mut last = (0, 0);
    for (column, known) in columns.iter_mut().zip(known) {
        if known {
            last = *column;
        } else {
            *column = last;
        }
    }
    let budget = samples.iter().map(|s| s.budget).max().unwrap_or(0);
    let most = columns
        .iter()
        .map(|c| sum(*c))
        .max()
        .unwrap_or(0)
        .max(budget);
    let mut chart = Chart::new(range, 0.0, float(most), bytes);
    let resident: Vec<_> = columns.iter().map(|c| float(c.0)).collect();
    let all: Vec<_> = columns.iter().map(|c| float(sum(*c))).collect();
    chart.area("host", &all);
    chart.area("gpu", &resident);
    chart.line("budget", float(budget), "budget");
    chart.finish("Memory over time")
}

fn sum(column: (u64, u64)) -> u64 {
    column.0.saturating_add(column.1)
}

/// Rates: to the GPU upwards, to the host downwards.
pub(crate) fn transfers(to_gpu: &[Slice], to_host: &[Slice], range: Range) -> String {
    let rate = |slices: &[Slice]| -> Vec<f64> {
        let spread = spread(slices, range, |slice| float(slice.bytes));
        spread
            .iter()
            .map(|bytes| bytes / range.bin_ns() * 1e9)
            .collect()
    };
    let (up, down) = (rate(to_gpu), rate(to_host));
    let most = up.iter().chain(&down).copied().fold(0.0, f64::max);
    let mut chart = Chart::new(range, -most, most, |value| bytes(value.abs()) + "/s");
    chart.bars("gpu", &up);
    let down: Vec<_> = down.iter().map(|rate| -rate).collect();
    chart.bars("host", &down);
    chart.finish("Transfers over time")
}

/// Which share of the time threads of the program waited.
pub(crate) fn stalls(slices: &[Slice], range: Range) -> String {
    let spread = spread(slices, range, |slice| float(slice.nanoseconds));
    let percent: Vec<_> = spread
        .iter()
        .map(|ns| ns / range.bin_ns() * 100.0)
        .collect();
    let most = percent.iter().copied().fold(100.0, f64::max);
    let mut chart = Chart::new(range, 0.0, most, |value| format!("{value:.0} %"));
    chart.bars("stall", &percent);
    chart.finish("Waits over time")
}

/// How much of what slices carry falls into each column, by how much of their time does.
fn spread(slices: &[Slice], range: Range, amount: impl Fn(&Slice) -> f64) -> [f64; BINS] {
    let mut columns = [0.0; BINS];
    for slice in slices {
        let end = slice.start_ns.saturating_add(slice.nanoseconds);
        let (first, last) = (range.bin(slice.start_ns), range.bin(end));
        // In columns; what lies outside of the range counts for its edge.
        let place = |time_ns: u64| float(time_ns.saturating_sub(range.from)) / range.bin_ns();
        let (from, to) = (place(slice.start_ns), place(end).min(BINS as f64));
        let length = to - from;
        for (bin, column) in columns.iter_mut().enumerate().take(last + 1).skip(first) {
            let share = match first == last || length <= 0.0 {
                true => 1.0,
                false => {
                    let overlap = to.min(bin as f64 + 1.0) - from.max(bin as f64);
                    (overlap / length).clamp(0.0, 1.0)
                }
            };
            *column += amount(slice) * share;
        }
    }
    columns
}

fn bytes(value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate"
    )]
    Human(value as u64).to_string()
}

struct Chart {
    range: Range,
    low: f64,
    high: f64,
    svg: String,
}

impl Chart {
    fn new(range: Range, low: f64, high: f64, label: impl Fn(f64) -> String) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let mut chart = Self {
            range,
            low,
            high,
            svg: String::new(),
        };
        for step in 0..=4u8 {
            let value = low + (high - low) * f64::from(step) / 4.0;
            let y = chart.y(value);
            let text = label(value);
            // A String takes all, here and below.
            _ = write!(
                chart.svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
            );
        }
        for step in 0..=4u8 {
            let x = LEFT + (WIDTH - LEFT - RIGHT) * f64::from(step) / 4.0;
            let time = float(range.from) + float(range.length()) * f64::from(step) / 4.0;
            let anchor = match step {
                0 => "start",
                4 => "end",
                _ => "middle",
            };
            _ = write!(
                chart.svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{:.3} s</text>",
                HEIGHT - 6.0,
                time / 1e9,
            );
        }
        chart
    }

    fn x(&self, bin: usize) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * bin as f64 / BINS as f64
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share.clamp(0.0, 1.0)
    }

    /// Steps of the values, filled down to zero.
    fn area(&mut self, class: &str, values: &[f64]) {
        let base = self.y(0.0);
        let mut path = format!("M{LEFT},{base:.1}");
        for (bin, value) in values.iter().enumerate() {
            let y = self.y(*value);
            _ = write!(path, "L{:.1},{y:.1}H{:.1}", self.x(bin), self.x(bin + 1));
        }
        _ = write!(path, "V{base:.1}Z");
        _ = write!(self.svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// A bar for each value that is not zero, up or down from zero.
    fn bars(&mut self, class: &str, values: &[f64]) {
        let base = self.y(0.0);
        let mut path = String::new();
        for (bin, value) in values
            .iter()
            .enumerate()
            .filter(|(_, value)| **value != 0.0)
        {
            _ = write!(
                path,
                "M{:.1},{base:.1}V{:.1}H{:.1}V{base:.1}Z",
                self.x(bin),
                self.y(*value),
                self.x(bin + 1)
            );
        }
        _ = write!(self.svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    fn line(&mut self, class: &str, value: f64, label: &str) {
        let y = self.y(value);
        _ = write!(
            self.svg,
            "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"><title>{label}</title></line>",
            WIDTH - RIGHT
        );
    }

    fn finish(self, title: &str) -> String {
        debug_assert!(self.range.length() > 0);
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{}</svg>",
            self.svg
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Range = Range { from: 100, to: 700 };

    fn slice(start_ns: u64, nanoseconds: u64, bytes: u64) -> Slice {
        Slice {
            start_ns,
            nanoseconds,
            bytes,
            device: 0,
        }
    }

    #[test]
    fn moments_fall_into_their_columns() {
        assert_eq!(RANGE.bin(0), 0);
        assert_eq!(RANGE.bin(100), 0);
        assert_eq!(RANGE.bin(400), 150);
        assert_eq!(RANGE.bin(700), BINS - 1);
        assert_eq!(RANGE.bin(u64::MAX), BINS - 1);
    }

    #[test]
    fn what_a_slice_carries_is_spread_over_its_time_and_none_is_lost() {
        let columns = spread(&[slice(100, 599, 600), slice(400, 0, 5)], RANGE, |s| {
            float(s.bytes)
        });
        let all: f64 = columns.iter().sum();
        assert!((all - 605.0).abs() < 1e-6, "{all}");
        assert!((columns[0] - 2.0).abs() < 0.01, "{}", columns[0]);
        assert!((columns[150] - 7.0).abs() < 0.01, "{}", columns[150]);
        // One that begins and ends within columns fills each by its part.
        let columns = spread(&[slice(101, 4, 8)], RANGE, |s| float(s.bytes));
        for (column, part) in columns.iter().zip([2.0, 4.0, 2.0, 0.0]) {
            assert!((column - part).abs() < 0.01, "{columns:?}");
        }
    }

    #[test]
    fn a_chart_has_a_bounded_size_whatever_the_numbers_are() {
        let samples: Vec<_> = (0..100_000u64)
            .map(|i| Sample {
                time_ns: i * 7919 % 1000,
                live: u64::MAX,
                resident: u64::MAX,
                host: u64::MAX - i,
                budget: i,
            })
            .collect();
        let slices: Vec<_> = (0..10_000).map(|i| slice(i, u64::MAX, u64::MAX)).collect();
        for range in [
            RANGE,
            Range {
                from: 0,
                to: u64::MAX,
            },
            Range { from: 5, to: 5 },
            Range { from: 9, to: 3 },
        ] {
            for svg in [
                memory(&samples, range),
                transfers(&slices, &slices, range),
                stalls(&slices, range),
                memory(&[], range),
                transfers(&[], &[], range),
            ] {
                assert!(svg.len() < 40_000, "{}", svg.len());
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }
}
