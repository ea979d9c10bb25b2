//! Trainyard as a library and as the operator's command.
