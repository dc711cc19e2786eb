//! The one way into a handler.
//!
//! A call made by our own code, or one whose handler fails, reaches the driver exactly once.

#![expect(unsafe_code, reason = "calls pthread_setcancelstate(3)")]

use crate::cuda::CUresult;
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Keeps the thread from being cancelled while it lives: it would unwind through code of ours, which
/// ends the process.
#[derive(Debug)]
struct Uncancelled(c_int);

impl Uncancelled {
    fn begin() -> Self {
        const DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: the state is one of the two there are, and `before` is writable.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state is what the call above gave.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}

/// The driver's function, with this call's arguments, for a handler to call or to answer for.
///
/// Whatever a handler did last through this value is the call's answer should the handler panic.
#[derive(Clone, Copy)]
pub(crate) struct Real<'a> {
    call: &'a dyn Fn() -> CUresult,
    answer: &'a Cell<Option<CUresult>>,
}

impl std::fmt::Debug for Real<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Real").field(&self.answer.get()).finish()
    }
}

impl Real<'_> {
    /// Calls the driver's function.
    pub(crate) fn call(self) -> CUresult {
        self.answered((self.call)())
    }

    /// Says that the call has its answer: another call of the driver took this one's place, or
    /// none will. From here on a panic cannot make the driver do the work a second time.
    pub(crate) fn answered(self, result: CUresult) -> CUresult {
        self.answer.set(Some(result));
        result
    }
}

/// Runs `handler`, giving it the driver's function.
pub(crate) fn enter(
    real: impl Fn() -> CUresult,
    handler: impl FnOnce(Real<'_>) -> CUresult,
) -> CUresult {
    if INSIDE.replace(true) {
        return real();
    }
    let _uncancelled = Uncancelled::begin();
    let answer = Cell::new(None);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        handler(Real {
            call: &real,
            answer: &answer,
        })
    }));
    let result = match (outcome, answer.get()) {
        (Ok(result), _) | (Err(_), Some(result)) => result,
        (Err(_), None) => real(),
    };
    INSIDE.set(false);
    result
}

/// Whether this thread is in a handler, and so perhaps in the driver.
pub(crate) fn inside() -> bool {
    INSIDE.get()
}

/// Runs `f`, whose calls of our exports are to go straight to the driver.
pub(crate) fn as_inside<R>(f: impl FnOnce() -> R) -> R {
    let before = INSIDE.replace(true);
    let result = f();
    INSIDE.set(before);
    result
}

/// Makes panics inside handlers silent. To be called before the first of them runs.
///
/// The hook is set in the copy of `std` that is linked into this library, and which nothing else
/// uses: a program written in Rust has its own, and its panics print as ever. Panics of ours that
/// are not caught here still go to whatever hook was there before.
pub(crate) fn silence_panics() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !inside() {
            before(info);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_before_the_driver_still_reaches_the_driver_once() {
        let calls = Cell::new(0);
        let real = || {
            calls.set(calls.get() + 1);
            CUresult::SUCCESS
        };
        assert_eq!(enter(real, |_| panic!("before")), CUresult::SUCCESS);
        assert_eq!(calls.get(), 1);
        assert!(!inside());
    }

    #[test]
    fn a_panic_after_the_driver_does_not_call_it_again() {
        let calls = Cell::new(0);
        let real = || {
            calls.set(calls.get() + 1);
            CUresult::OUT_OF_MEMORY
        };
        let result = enter(real, |real| {
            real.call();
            panic!("after")
        });
        assert_eq!((result, calls.get()), (CUresult::OUT_OF_MEMORY, 1));
    }

    #[test]
    fn a_panic_after_an_answer_of_our_own_does_not_call_the_driver() {
        let result = enter(
            || unreachable!("the driver was called"),
            |real| {
                real.answered(CUresult::SUCCESS);
                panic!("after")
            },
        );
        assert_eq!(result, CUresult::SUCCESS);
    }

    #[test]
    fn a_nested_call_goes_straight_through() {
        let result = enter(
            || CUresult::SUCCESS,
            |_| enter(|| CUresult::OUT_OF_MEMORY, |_| unreachable!()),
        );
        assert_eq!(result, CUresult::OUT_OF_MEMORY);
    }

    #[test]
    fn what_runs_as_inside_goes_straight_through_and_only_that() {
        let call = || enter(|| CUresult::SUCCESS, |_| CUresult::UNKNOWN);
        assert_eq!(as_inside(|| as_inside(call)), CUresult::SUCCESS);
        assert_eq!(call(), CUresult::UNKNOWN);
    }

    /// Panics inside a handler if this process is the one the next test starts.
    #[test]
    fn child_of_the_silence_test() {
        if std::env::var_os("VSHARE_TEST_PANICS").is_none() {
            return;
        }
        silence_panics();
        let result = enter(|| CUresult::SUCCESS, |_| panic!("inside a handler"));
        assert_eq!(result, CUresult::SUCCESS);
        let _caught = catch_unwind(|| panic!("outside of any"));
    }

    #[test]
    fn a_panic_inside_a_handler_prints_nothing() {
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("guard::tests::child_of_the_silence_test")
            .env("VSHARE_TEST_PANICS", "1")
            .output()
            .unwrap();
        let stderr = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.success(), "{stderr}");
        assert!(stderr.contains("outside of any"), "{stderr}");
        assert!(!stderr.contains("inside a handler"), "{stderr}");
    }
}
