//! Whole-system tests: what a user does, on a real cluster. All of them are in `tests/`.
