//! A limit on memory, so that a test ends where something large is allocated.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bytes of address space: far above what any test needs, far below what a damaged length may say.
const ADDRESS_SPACE_BYTES_MAX: u64 = 2 << 30;

/// Limits the address space of this process from now on.
pub(crate) fn limit() {
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(
        Resource::As,
        Rlimit {
            current: Some(ADDRESS_SPACE_BYTES_MAX),
            maximum,
        },
    )
    .expect("a limit can be lowered");
}
