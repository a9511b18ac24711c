//! A stream of tokens from several sources, one inside the other, with the little look-back that CoreDNS's parser needs.

use crate::source::Source;
use std::sync::Arc;

/// A token by number: of the source, and within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) source: usize,
    pub(super) index: usize,
    /// Line feeds in its text, environment references replaced.
    pub(super) line_breaks: usize,
    /// Number of its text with environment references replaced, if it has been replaced in place.
    replaced: Option<usize>,
}

enum Frame {
    File { source: usize, next: usize },
    Snippet { tokens: Arc<[Token]>, next: usize },
}

pub(super) struct Stream {
    pub(super) sources: Vec<Arc<Source>>,
    frames: Vec<Frame>,
    /// The token before the current one.
    pub(super) previous: Option<Token>,
    /// The token read last; the last one of all at the end.
    pub(super) current: Option<Token>,
    /// Tokens read so far that were not in the main file itself.
    pub(super) imported: usize,
    replaced: Vec<Box<str>>,
}

impl Stream {
    pub(super) fn new(source: &Arc<Source>) -> Self {
        Self {
            sources: vec![Arc::clone(source)],
            frames: vec![Frame::File { source: 0, next: 0 }],
            previous: None,
            current: None,
            imported: 0,
            replaced: Vec::new(),
        }
    }

    pub(super) fn push_source(&mut self, source: Arc<Source>) -> usize {
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// From here on, first the tokens of this file.
    pub(super) fn enter_file(&mut self, source: usize) {
        self.frames.push(Frame::File { source, next: 0 });
    }

    /// From here on, first these tokens.
    pub(super) fn enter_snippet(&mut self, tokens: Arc<[Token]>) {
        self.frames.push(Frame::Snippet { tokens, next: 0 });
    }

    pub(super) fn peek(&mut self) -> Option<Token> {
        loop {
            let token = match self.frames.last()? {
                Frame::File { source, next } => self.sources[*source].tokens.get(*next).map(|token| Token {
                    source: *source,
                    index: *next,
                    line_breaks: token.line_breaks,
                    replaced: None,
                }),
                Frame::Snippet { tokens, next } => tokens.get(*next).copied(),
            };
            if token.is_some() {
                return token;
            }
            self.frames.pop();
        }
    }

    /// Moves on by one token. At the end, stays.
    pub(super) fn advance(&mut self) -> bool {
        let Some(token) = self.peek() else { return false };
        if let Some(Frame::File { next, .. } | Frame::Snippet { next, .. }) = self.frames.last_mut() {
            *next += 1;
        }
        self.imported += usize::from(self.frames.len() > 1);
        self.previous = self.current;
        self.current = Some(token);
        true
    }

    pub(super) fn text(&self, token: Option<Token>) -> &str {
        match token {
            None => "",
            Some(Token { replaced: Some(number), .. }) => &self.replaced[number],
            Some(token) => self.sources[token.source].token_text(token.index),
        }
    }

    /// From here on the current token says this.
    pub(super) fn replace_current(&mut self, text: &str) {
        if let Some(current) = &mut self.current {
            current.line_breaks = text.bytes().filter(|&byte| byte == b'\n').count();
            current.replaced = Some(self.replaced.len());
            self.replaced.push(text.into());
        }
    }

    pub(super) fn line(&self, token: Token) -> usize {
        self.sources[token.source].position(token.index).line
    }

    /// Whether `token` starts a line when it comes after `before`.
    pub(super) fn is_new_line(&self, before: Option<Token>, token: Token) -> bool {
        before.is_none_or(|before| {
            before.source != token.source || self.line(before) + before.line_breaks < self.line(token)
        })
    }

    /// Whether `token` is a further word of the line of `before`.
    pub(super) fn is_argument(&self, before: Token, token: Token) -> bool {
        before.source == token.source && self.line(before) + before.line_breaks == self.line(token)
    }
}
