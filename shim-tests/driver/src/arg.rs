//! Arguments that are pointers, as CUDA's contract has them: NULL, or valid for what the call reads or writes through them.
//! The only place where a pointer of the program's is followed because of its type; NULL where it is not allowed is `INVALID_VALUE`.
#![expect(unsafe_code, reason = "follows the program's pointers")]

use crate::cuda::{Answer, CuError};
use std::ffi::{CStr, c_char};
use std::fmt;

/// Where the call puts an answer, or several.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

/// What the call reads, one or several.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

/// A C string of the program's.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}

impl<T: Copy> Out<T> {
    pub(crate) fn at_address(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance_mut(address))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn required(self) -> Answer {
        if self.is_null() {
            Err(CuError::INVALID_VALUE)
        } else {
            Ok(())
        }
    }

    pub(crate) fn put(self, value: T) -> Answer {
        self.required()?;
        self.put_if_given(value);
        Ok(())
    }

    pub(crate) fn put_if_given(self, value: T) {
        if !self.is_null() {
            // SAFETY: not NULL, and CUDA's contract makes the program pass room for a T, written by nobody else now.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Element `index` of an array that the program says is long enough.
    pub(crate) fn put_at(self, index: usize, value: T) -> Answer {
        self.required()?;
        Out(self.0.wrapping_add(index)).put(value)
    }

    /// What is there now, for calls that read and then replace it.
    pub(crate) fn get(self) -> Result<T, CuError> {
        In(self.0.cast_const()).get()
    }

    pub(crate) fn cast<U: Copy>(self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl<T: Copy> In<T> {
    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
    }

    pub(crate) fn at_address(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance(address))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn get(self) -> Result<T, CuError> {
        if self.is_null() {
            return Err(CuError::INVALID_VALUE);
        }
        // SAFETY: not NULL, and CUDA's contract makes the program pass a readable T.
        Ok(unsafe { self.0.read_unaligned() })
    }

    pub(crate) fn at(self, index: usize) -> Result<T, CuError> {
        if self.is_null() {
            return Err(CuError::INVALID_VALUE);
        }
        Self(self.0.wrapping_add(index)).get()
    }

    /// The first `count` elements.
    pub(crate) fn list(self, count: usize) -> Result<Vec<T>, CuError> {
        (0..count).map(|index| self.at(index)).collect()
    }
}

impl Text {
    pub(crate) fn get(&self) -> Result<&str, CuError> {
        if self.0.is_null() {
            return Err(CuError::INVALID_VALUE);
        }
        // SAFETY: not NULL, and CUDA's contract makes it a terminated string that lives for the call.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_| CuError::INVALID_VALUE)
    }
}

/// `{:#?}` after a call that succeeded shows what was put there as well.
impl<T: Copy + fmt::Debug> fmt::Debug for Out<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            f.write_str("NULL")
        } else if f.alternate() {
            // SAFETY: not NULL and the call succeeded, so it is the program's room for a T, which C code initialised or we did.
            write!(f, "&{:?}", unsafe { self.0.read_unaligned() })
        } else {
            write!(f, "{:p}", self.0)
        }
    }
}

impl<T> fmt::Debug for In<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}", self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get().unwrap_or("NULL"))
    }
}
