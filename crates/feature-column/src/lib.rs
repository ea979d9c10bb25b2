//! Feature columns: from a batch of records to ids and numbers.
