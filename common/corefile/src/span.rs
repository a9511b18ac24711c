//! Places in a Corefile: byte offsets for machines, line and column for people.

use std::fmt;

/// One place in a source text.
///
/// ```
/// use corefile::Position;
/// let place = Position { offset: 12, line: 2, column: 5 };
/// assert_eq!(place.to_string(), "2:5");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Bytes from the start of the text.
    pub offset: usize,
    /// Line, from 1, counted as CoreDNS counts: by line feeds.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
}

impl Position {
    /// The first place of every text.
    pub const START: Self = Self { offset: 0, line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A stretch of a source text: from `start` up to the byte before `end`.
///
/// ```
/// let file = corefile::parse(".:53 {\n    errors\n}\n")?;
/// let errors = &file.servers().next().unwrap().directives()[0];
/// assert_eq!(errors.span().start.to_string(), "2:5");
/// assert_eq!(&file.source()[errors.span().range()], "errors");
/// # Ok::<(), corefile::ParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// Where it starts.
    pub start: Position,
    /// Byte offset just after its last byte.
    pub end: usize,
}

impl Span {
    /// The byte range, to slice the source text with.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.start.offset..self.end
    }
}
