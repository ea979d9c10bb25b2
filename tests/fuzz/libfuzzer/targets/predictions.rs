//! See `predictions` in trainyard-fuzz.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| trainyard_fuzz::predictions::run(data));
