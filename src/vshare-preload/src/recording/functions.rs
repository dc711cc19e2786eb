//! Functions' numbers and names in a recording: each is asked for its name once.

use crate::cuda::CUfunction;
use crate::driver;
use crate::lock::Lock;
use std::collections::BTreeMap;

#[derive(Debug)]
struct Functions {
    numbers: BTreeMap<usize, u32>,
    /// The last number given out; 0 is for what is no function.
    last: u32,
}

static FUNCTIONS: Lock<Functions> = Lock::new(Functions {
    numbers: BTreeMap::new(),
    last: 0,
});

/// A function's number, and its name if it is new.
pub(super) fn number(function: CUfunction) -> (u32, Option<String>) {
    {
        let mut functions = FUNCTIONS.lock();
        if let Some(&known) = functions.numbers.get(&function.0) {
            return (known, None);
        }
        functions.last = functions.last.saturating_add(1);
        let number = functions.last;
        functions.numbers.insert(function.0, number);
        drop(functions);
        (
            number,
            Some(driver::function_name(function).unwrap_or_default()),
        )
    }
}

/// Functions may have gone, and their handles mean others now.
pub(crate) fn forget() {
    FUNCTIONS.lock().numbers.clear();
}
