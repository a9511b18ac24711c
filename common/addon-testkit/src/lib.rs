//! addon-testkit
