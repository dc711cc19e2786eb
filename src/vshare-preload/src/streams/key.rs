//! Telling streams apart.

use crate::cuda::{CUcontext, CUstream, NullStream};
use crate::driver;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A stream, told apart from all others. Default streams are one per context, or per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    handle: CUstream,
    pub(super) context: CUcontext,
    thread: usize,
}

impl Key {
    /// The stream that a handle means in an entry point.
    pub(crate) fn of(null_stream: NullStream, stream: CUstream) -> Self {
        let handle = match (stream, null_stream) {
            (CUstream::NULL, NullStream::Legacy) => CUstream::LEGACY,
            (CUstream::NULL, NullStream::PerThread) => CUstream::PER_THREAD,
            _ => stream,
        };
        let context = if handle.0 <= CUstream::PER_THREAD.0 {
            driver::current_context().unwrap_or(CUcontext::NULL)
        } else {
            CUcontext::NULL
        };
        let thread = if handle == CUstream::PER_THREAD {
            this_thread()
        } else {
            0
        };
        Self {
            handle,
            context,
            thread,
        }
    }

    /// Whether the current context is its own. A stream that the driver does not know counts as such.
    pub(crate) fn is_of_current_context(self) -> bool {
        self.context != CUcontext::NULL
            || driver::stream_context(self.handle)
                .is_none_or(|context| driver::current_context() == Some(context))
    }

    /// Whether it is a legacy default stream.
    pub(super) fn is_legacy(self) -> bool {
        self.handle == CUstream::LEGACY
    }

    /// The handle by which any entry point means this stream.
    pub(crate) const fn handle(self) -> CUstream {
        self.handle
    }

    /// Whether it is the own default stream of the thread with this number.
    pub(super) const fn is_of_thread(self, number: usize) -> bool {
        self.thread == number
    }

    /// Whether it is a thread's own default stream.
    pub(crate) const fn is_per_thread(self) -> bool {
        self.thread != 0
    }

    /// Whether threads other than the one that uses it can name it.
    pub(super) fn is_shared(self) -> bool {
        self.thread == 0 || self.thread == this_thread()
    }

    /// A number other than 0 for each stream that may be solo.
    pub(super) fn word(self) -> u64 {
        if self.thread != 0 {
            0
        } else if self.handle == CUstream::LEGACY {
            self.context.0 as u64 | 1 << 63
        } else {
            self.handle.0 as u64
        }
    }
}

/// A number for each thread there ever was: an address would come again after the thread's end.
fn this_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
            // Later on in the thread's end this fails: then nobody is told of it.
            if END.try_with(|_| ()).is_err() {
                ENDING.set(true);
            }
        }
        number.get()
    })
}

thread_local! {
    /// Without a destructor: may be asked for until the very end of the thread.
    static NUMBER: Cell<usize> = const { Cell::new(0) };

    static END: End = const { End };

    /// Whether the thread's end has begun, and [`END`] is no more.
    static ENDING: Cell<bool> = const { Cell::new(false) };
}

/// The number of the calling thread, if its end has begun: its own default stream may still be used.
pub(super) fn ending_thread() -> Option<usize> {
    ENDING.get().then(|| NUMBER.get())
}

/// Lives as long as the thread.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        ENDING.set(true);
        super::order::thread_ends(NUMBER.get());
    }
}
