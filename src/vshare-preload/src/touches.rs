//! What a piece of work names: addresses in its arguments.
//!
//! A kernel's parameters are searched word by word, structs passed by value too; whatever looks like
//! an address in an arena or in host memory that the device can reach is one. A word that only looks
//! so costs a page moved for nothing.
#![expect(unsafe_code, reason = "reads the arguments of launches")]

use crate::cuda::{CUfunction, CUgraphExec};
use crate::lock::Lock;
use crate::{driver, graphs, recording, report};
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use vshare_core::history::mix;

/// What work names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Touches<'a> {
    /// Nothing on the device.
    Nothing,
    /// A copy: what it writes and what it reads.
    Copy { to: &'a [u64], from: &'a [u64] },
    /// A fill: what it writes.
    Fill { to: u64 },
    /// A kernel and its parameters, in either form.
    Kernel {
        function: CUfunction,
        /// Of the grid and its blocks.
        sizes: [u32; 6],
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    },
    /// An executable graph.
    Graph(CUgraphExec),
    /// The host: a function of the program's is called there.
    Host,
    /// It cannot be known.
    Unknown,
}

/// A kernel's parameters: (offset, size), bytes. `None`: not known.
type Layout = Option<Arc<[(usize, usize)]>>;

/// Layouts by function, asked of the driver once for each.
static LAYOUTS: Lock<Option<HashMap<usize, Layout, BuildHasherDefault<Mix>>>> = Lock::new(None);

/// Functions' handles are addresses: one multiplication spreads them.
#[derive(Debug, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    fn write_usize(&mut self, n: usize) {
        let mixed = (self.0 ^ n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Functions may have gone, and their handles mean others now.
pub(crate) fn forget_functions() {
    *LAYOUTS.lock() = None;
    recording::forget_functions();
}

impl Touches<'_> {
    /// Shows `visit` every word that may be an address, and whether the work may write there.
    /// Returns whether that is all the work names.
    pub(crate) fn visit(self, visit: &mut dyn FnMut(u64, Access)) -> bool {
        match self {
            Self::Nothing => true,
            Self::Copy { to, from } => {
                to.iter().for_each(|&a| visit(a, Access::Written));
                from.iter().for_each(|&a| visit(a, Access::Read));
                true
            }
            Self::Fill { to } => {
                visit(to, Access::Written);
                true
            }
            Self::Kernel {
                function,
                params,
                extra,
                ..
            } => {
                let known = visit_kernel(function, params, extra, visit);
                report::add(report::LAUNCHES_SCANNED, u64::from(known));
                report::add(report::LAUNCHES_UNKNOWN, u64::from(!known));
                known
            }
            // Not all of it: what its kernels reach through memory, and nodes that are not read.
            Self::Graph(exec) => {
                graphs::visit(exec, visit);
                false
            }
            Self::Host | Self::Unknown => false,
        }
    }

    /// What is done, as a number: the same for the same kind of work, wherever in memory.
    pub(crate) fn signature(self) -> u64 {
        match self {
            Self::Nothing => 1,
            Self::Copy { to, from } => mix(2, (to.len() * 2 + from.len()) as u64),
            // As a copy from memory that is not looked at.
            Self::Fill { .. } => mix(2, 2),
            Self::Kernel {
                function, sizes, ..
            } => sizes.iter().fold(mix(3, function.0 as u64), |sum, &size| {
                mix(sum, u64::from(size))
            }),
            Self::Host => 4,
            Self::Graph(exec) => graphs::signature(exec).unwrap_or(5),
            Self::Unknown => 5,
        }
    }
}

/// What work may do at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Write, or read.
    Written,
    /// The same, if the word means anything: kernels that work on lists of tensors take a table by value, of which
    /// often only a part is filled, and the rest is left from earlier.
    Table,
    /// Only read.
    Read,
}

fn layout(function: CUfunction) -> Layout {
    if let Some(known) = LAYOUTS.lock().as_ref().and_then(|l| l.get(&function.0)) {
        return known.clone();
    }
    let layout: Layout = driver::parameters(function).ok().map(Into::into);
    LAYOUTS
        .lock()
        .get_or_insert_default()
        .insert(function.0, layout.clone());
    layout
}

/// Shows `visit` what a kernel's parameters, in either form, may name. Returns whether they could be read.
pub(crate) fn visit_kernel(
    function: CUfunction,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    visit: &mut dyn FnMut(u64, Access),
) -> bool {
    if params.is_null() {
        visit_extra(function, extra, visit)
    } else {
        visit_params(function, params, visit)
    }
}

/// `params[i]` points to the i-th parameter.
fn visit_params(
    function: CUfunction,
    params: *mut *mut c_void,
    visit: &mut dyn FnMut(u64, Access),
) -> bool {
    let Some(layout) = layout(function) else {
        return false;
    };
    for (index, &(_, size)) in layout.iter().enumerate() {
        if size < 8 {
            continue;
        }
        // SAFETY: the program passes as many pointers as the kernel has parameters.
        let slot = unsafe { params.add(index) };
        // SAFETY: as above; the array is the program's, and in place until the launch returns.
        let parameter = unsafe { slot.read() };
        if !parameter.is_null() {
            visit_words(parameter.cast(), size, visit);
        }
    }
    true
}

/// `extra` is a list of key and value, ended by a null key: `CU_LAUNCH_PARAM_BUFFER_POINTER` (1)
/// gives the parameters, `CU_LAUNCH_PARAM_BUFFER_SIZE` (2) points to their size. Without `extra`
/// there are no parameters.
fn visit_extra(
    function: CUfunction,
    extra: *mut *mut c_void,
    visit: &mut dyn FnMut(u64, Access),
) -> bool {
    if extra.is_null() {
        return true;
    }
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), 0);
    // No more keys than these two exist; a longer list is not one.
    for pair in 0..4 {
        // SAFETY: the list has not ended before this key.
        let at = unsafe { extra.add(2 * pair) };
        // SAFETY: as above.
        let key = unsafe { at.read() }.addr();
        if key == 0 {
            break;
        }
        // SAFETY: a value follows each key.
        let at = unsafe { extra.add(2 * pair + 1) };
        // SAFETY: as above.
        let value = unsafe { at.read() };
        match key {
            1 => buffer = value.cast(),
            // SAFETY: the value of this key points to a `size_t`.
            2 if !value.is_null() => size = unsafe { value.cast::<usize>().read_unaligned() },
            _ => return false,
        }
    }
    if buffer.is_null() {
        return size == 0;
    }
    // Where one parameter ends and the next begins tells tables from others.
    let layout = layout(function).filter(|l| size > TABLE && covers(l, size));
    for &(offset, size) in layout.as_deref().unwrap_or(&[(0, size)]) {
        // SAFETY: within the buffer, as `covers` has found.
        let parameter = unsafe { buffer.add(offset) };
        visit_words(parameter, size, visit);
    }
    true
}

/// Whether parameters lie within a buffer of `size` bytes, and fill it but for gaps.
fn covers(layout: &[(usize, usize)], size: usize) -> bool {
    layout
        .iter()
        .all(|&(offset, length)| offset.checked_add(length).is_some_and(|end| end <= size))
        && layout
            .iter()
            .map(|p| p.1.next_multiple_of(8))
            .sum::<usize>()
            >= size / 8 * 8
}

/// Parameters of more bytes than this are tables: see [`Access::Table`].
const TABLE: usize = 512;

/// Every whole word of `size` bytes at `start` that could be an address in user space.
fn visit_words(start: *const u8, size: usize, visit: &mut dyn FnMut(u64, Access)) {
    let access = if size > TABLE {
        Access::Table
    } else {
        Access::Written
    };
    for offset in (0..size / 8).map(|i| i * 8) {
        // SAFETY: `offset + 8 <= size`.
        let at = unsafe { start.add(offset) }.cast::<u64>();
        // SAFETY: as above: the bytes belong to a parameter that the driver is about to read.
        let word = unsafe { at.read_unaligned() };
        if (0x1_0000..1 << 47).contains(&word) {
            visit(word, access);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_cannot_be_addresses_are_passed_over() {
        let words = [0, 5, 0x7f00_0000_0000, u64::MAX, 0x2_0000];
        let mut found = Vec::new();
        visit_words(words.as_ptr().cast(), 40 - 3, &mut |w, _| found.push(w));
        assert_eq!(found, [0x7f00_0000_0000], "the last word is not whole");
    }

    #[test]
    fn the_buffer_form_is_read_to_its_size() {
        let words = [0x7f00_0000_0000_u64, 0x7f00_0000_1000];
        let mut size = 8_usize;
        let mut extra = [
            std::ptr::without_provenance_mut(1),
            words.as_ptr().cast_mut().cast::<c_void>(),
            std::ptr::without_provenance_mut(2),
            (&raw mut size).cast(),
            std::ptr::null_mut(),
        ];
        let mut found = Vec::new();
        let function = CUfunction(0);
        assert!(visit_extra(function, extra.as_mut_ptr(), &mut |w, _| found.push(w)));
        assert_eq!(found, [0x7f00_0000_0000]);
        assert!(visit_extra(function, std::ptr::null_mut(), &mut |_, _| ()));
    }
}
