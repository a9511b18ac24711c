//! A text with its name and its tokens: the unit that syntax trees and expansions point into.

use crate::error::{ErrorKind, ParseError};
use crate::lexer::{Token, lex};
use crate::limits::Limits;
use crate::span::{Position, Span};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
}

impl Source {
    pub(crate) fn read(name: &str, text: &str, limits: &Limits) -> Result<Self, ParseError> {
        if text.len() > limits.max_bytes {
            return Err(ParseError {
                kind: ErrorKind::TooLarge { limit: limits.max_bytes },
                file: name.to_owned(),
                position: Position::START,
            });
        }
        Ok(Self { name: name.to_owned(), text: text.to_owned(), tokens: lex(text) })
    }

    /// What the token says; empty past the end, as in CoreDNS.
    pub(crate) fn token_text(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| token.text(&self.text))
    }

    pub(crate) fn span(&self, first: usize, last: usize) -> Span {
        let start = self.position(first);
        let end = self.tokens.get(last).map_or(start.offset, |token| token.span.end);
        Span { start, end }
    }

    pub(crate) fn position(&self, index: usize) -> Position {
        self.tokens.get(index).map_or(Position::START, |token| token.span.start)
    }
}
