//! `vshare`: runs a program under the interposer, and reads what it logged.
#![forbid(unsafe_code)]

fn main() {}
