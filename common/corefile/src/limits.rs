//! Upper bounds, so that no input can make us use more than a fair amount of memory or stack.
//!
//! CoreDNS itself bounds only the number of imports. The other limits are far above anything seen in the field and are
//! reported as errors of their own ([`crate::ErrorKind::TooLarge`] and friends), never as a verdict of CoreDNS.

/// Bounds on one parse or one expansion.
///
/// ```
/// use corefile::{ErrorKind, Limits, parse_with};
/// let small = Limits { max_bytes: 8, ..Limits::default() };
/// assert_eq!(parse_with(".:53 {\n}\n", &small).unwrap_err().kind, ErrorKind::TooLarge { limit: 8 });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file. A ConfigMap holds at most 1 MiB.
    pub max_bytes: usize,
    /// Depth of blocks inside a directive. No plugin of CoreDNS reads more than two levels.
    pub max_depth: usize,
    /// Words that imports bring in, all uses together.
    pub max_imported_words: usize,
    /// Uses of snippets in one file. CoreDNS's own cap (from 1.13.0; older versions hang on a cycle).
    pub max_snippet_imports: usize,
    /// Uses of files in one file. CoreDNS's own cap (from 1.13.0; older versions hang on a cycle).
    pub max_file_imports: usize,
    /// Bytes of one token after its environment references are replaced.
    pub max_expanded_token: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 32 << 20,
            max_depth: 100,
            max_imported_words: 1 << 20,
            max_snippet_imports: 10_000,
            max_file_imports: 100_000,
            max_expanded_token: 1 << 20,
        }
    }
}
