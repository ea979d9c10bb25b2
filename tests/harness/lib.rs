//! Starts, kills and watches real daemons for the tests.
