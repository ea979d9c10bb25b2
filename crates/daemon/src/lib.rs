//! What every daemon shares: launch, arguments, server, signals, telemetry and exit codes.
