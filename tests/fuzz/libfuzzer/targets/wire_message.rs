//! See `wire_message` in trainyard-fuzz.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| trainyard_fuzz::wire_message::run(data));
