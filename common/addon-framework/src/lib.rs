//! addon-framework
