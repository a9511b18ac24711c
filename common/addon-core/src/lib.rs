//! addon-core
