//! Why a text is no Corefile: in CoreDNS's words where the verdict is CoreDNS's, in ours where a limit of ours is hit.

use crate::span::Position;
use std::fmt;

/// A text that cannot be read as a Corefile, and where.
///
/// ```
/// let error = corefile::parse(".:53 {\n    forward . 1.1.1.1 {\n").unwrap_err();
/// assert_eq!(error.to_string(), "Corefile:2:23: Unexpected EOF");
/// assert_eq!(error.coredns_message(), "Corefile:2 - Error during parsing: Unexpected EOF");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The file, as it was named by the caller or found by an import.
    pub file: String,
    /// Where: the token that CoreDNS names. At an unexpected end of file this is the last token.
    pub position: Position,
}

impl ParseError {
    /// The line that CoreDNS would log, word for word.
    pub fn coredns_message(&self) -> String {
        let intro = match self.kind {
            ErrorKind::UnexpectedToken { .. } => "Syntax error",
            _ => "Error during parsing",
        };
        format!("{}:{} - {intro}: {}", self.file, self.position.line, self.kind)
    }

    /// Whether a limit of this library is the reason: then CoreDNS might well accept the text.
    pub fn is_limit(&self) -> bool {
        matches!(self.kind, ErrorKind::TooLarge { .. } | ErrorKind::TooDeep { .. } | ErrorKind::TooManyTokens { .. })
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.position, self.kind)
    }
}

impl std::error::Error for ParseError {}

/// The ways in which a text can fail to be a Corefile.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file ends inside a block of a plugin, or after a comma.
    UnexpectedEof,
    /// Another token was needed, for example the `}` of a server.
    UnexpectedToken {
        /// The token that stands there.
        found: String,
        /// The token that was needed.
        expected: &'static str,
    },
    /// A `}` on the line of a plugin that opened no block.
    UnmatchedClose,
    /// A comma with no further address after it.
    ExtraComma,
    /// `import` without an argument.
    ImportWithoutArgument {
        /// The token after which the argument was missed.
        after: String,
    },
    /// `import` with an argument that is empty once its environment references are replaced.
    ImportOfNothing,
    /// `import` with more than one argument.
    ImportOfMany,
    /// A file that does not exist.
    ImportNotFound {
        /// The argument of `import`.
        pattern: String,
    },
    /// A file that exists and cannot be read, such as a directory.
    ImportUnreadable {
        /// Path of the file.
        path: String,
        /// The reason, for example `is a directory`.
        reason: String,
    },
    /// More than one `*` or `?`, or brackets, in the path to import.
    ImportPattern {
        /// The path with the folder of the importing file before it.
        pattern: String,
    },
    /// A pattern that has no meaning, such as one with a single `[`.
    ImportBadPattern {
        /// The argument of `import`.
        pattern: String,
    },
    /// Snippets import each other in a circle, or there are too many uses.
    SnippetDepth {
        /// The cap.
        limit: usize,
    },
    /// Files import each other in a circle, or there are too many imports.
    FileDepth {
        /// The cap (of snippets: CoreDNS's message names that one).
        limit: usize,
    },
    /// A second snippet of one name.
    SnippetRedeclared {
        /// The name, without parentheses.
        name: String,
    },
    /// A plugin that this CoreDNS does not have.
    UnknownDirective {
        /// The name as written, environment references replaced.
        name: String,
    },
    /// An environment variable whose value refers to itself: CoreDNS would hang.
    EndlessEnvironment {
        /// The token.
        token: String,
    },
    /// More bytes than [`crate::Limits::max_bytes`].
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// Blocks deeper than [`crate::Limits::max_depth`].
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// Imports bring in more words than [`crate::Limits::max_imported_words`].
    TooManyTokens {
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnexpectedEof => write!(f, "Unexpected EOF"),
            Self::UnexpectedToken { found, expected } => {
                write!(f, "Unexpected token '{found}', expecting '{expected}'")
            }
            Self::UnmatchedClose => write!(f, "Unexpected '}}' because no matching opening brace"),
            Self::ExtraComma => write!(f, "Expected another address but had '{{' - check for extra comma"),
            Self::ImportWithoutArgument { after } => {
                write!(f, "Wrong argument count or unexpected line ending after '{after}'")
            }
            Self::ImportOfNothing => write!(f, "Import requires a non-empty filepath"),
            Self::ImportOfMany => write!(f, "Import takes only one argument (glob pattern or file)"),
            Self::ImportNotFound { pattern } => write!(f, "File to import not found: {pattern}"),
            Self::ImportUnreadable { path, reason } => write!(f, "Could not import {path}: {reason}"),
            Self::ImportPattern { pattern } => {
                write!(f, "Glob pattern may only contain one wildcard (*), but has others: {pattern}")
            }
            Self::ImportBadPattern { pattern } => {
                write!(f, "Failed to use import pattern {pattern}: syntax error in pattern")
            }
            Self::SnippetDepth { limit } => write!(f, "maximum snippet import depth ({limit}) exceeded"),
            Self::FileDepth { limit } => write!(f, "maximum file import depth ({limit}) exceeded"),
            Self::SnippetRedeclared { name } => write!(f, "redeclaration of previously declared snippet {name}"),
            Self::UnknownDirective { name } => write!(f, "Unknown directive '{name}'"),
            Self::EndlessEnvironment { token } => {
                write!(f, "environment references of '{token}' have no end: a value refers to itself")
            }
            Self::TooLarge { limit } => write!(f, "the file is larger than the limit of {limit} bytes"),
            Self::TooDeep { limit } => write!(f, "blocks are nested deeper than the limit of {limit}"),
            Self::TooManyTokens { limit } => write!(f, "imports bring in more than {limit} words"),
        }
    }
}
