//! Feature columns: they transform records into ids and numbers.
//!
//! Each kind of column has a file. The results are ready for computation: numbers are normalised, texts are hashed, and
//! ids are deduplicated once per batch for all their lookups.

mod bucketized;
mod categorical;
mod columns;
mod crossed;
mod error;
mod fingerprint;
mod hashed;
mod identity;
mod ids;
mod numeric;
mod pool;
mod vocabulary;
mod weights;

pub use categorical::Categorical;
pub use columns::{FeatureColumns, Features, SharedTable};
pub use crossed::{CROSS_HASH_KEY, fingerprint_concatenate};
pub use error::Error;
pub use fingerprint::fingerprint64;
pub use ids::Ids;
pub use numeric::Numeric;
