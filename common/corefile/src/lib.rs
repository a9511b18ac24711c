//! corefile
