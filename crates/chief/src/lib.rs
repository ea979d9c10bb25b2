//! The chief: trains, and leads.
