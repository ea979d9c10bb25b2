//! See `log_segment` in trainyard-fuzz.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| trainyard_fuzz::log_segment::run(data));
