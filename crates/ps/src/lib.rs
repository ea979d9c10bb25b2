//! The parameter server: serves pull and push over its shard.
