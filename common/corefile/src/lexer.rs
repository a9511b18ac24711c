//! Splits a text into tokens exactly as CoreDNS does (`coredns/caddy: caddyfile/lexer.go`).
//!
//! The rules that surprise: a quote opens only as the first character of a token; a `#` inside a word ends that word
//! and hides only the rest *of the word*; a carriage return vanishes wherever it stands, even inside a word; quoted and
//! bare tokens of one text are the same token to the parser, so `"{"` opens a block.
//!
//! The lexer never fails: every text is a sequence of tokens. What lies between tokens is white space and comments.

use crate::span::{Position, Span};

/// One token: where it is written and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) span: Span,
    /// The meaning, where it differs from what is written (quotes, escapes, dropped carriage returns).
    cooked: Option<Box<str>>,
    /// Line feeds inside the token (only in quotes).
    pub(crate) line_breaks: usize,
    pub(crate) quoted: bool,
}

impl Token {
    /// What the token says, given the text it was read from.
    pub(crate) fn text<'a>(&'a self, source: &'a str) -> &'a str {
        self.cooked.as_deref().unwrap_or_else(|| source.get(self.span.range()).unwrap_or_default())
    }

    /// The line on which the token ends.
    pub(crate) fn last_line(&self) -> usize {
        self.span.start.line + self.line_breaks
    }
}

/// All tokens of a text, in order.
pub(crate) fn lex(source: &str) -> Vec<Token> {
    let mut lexer = Lexer::new(source);
    let mut tokens = Vec::with_capacity(source.len() / 8);
    while let Some(token) = lexer.next_token() {
        tokens.push(token);
    }
    tokens
}

struct Lexer<'a> {
    source: &'a str,
    chars: std::iter::Peekable<std::str::CharIndices<'a>>,
    line: usize,
    column: usize,
}

impl<'a> Lexer<'a> {
    fn new(source: &'a str) -> Self {
        let mut chars = source.char_indices().peekable();
        // A byte-order mark counts only at the very start.
        chars.next_if(|&(_, c)| c == '\u{feff}');
        Self { source, chars, line: 1, column: 1 }
    }

    /// The next character, with the place it stands at.
    fn bump(&mut self) -> Option<(Position, char)> {
        let (offset, c) = self.chars.next()?;
        let at = Position { offset, line: self.line, column: self.column };
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some((at, c))
    }

    fn next_token(&mut self) -> Option<Token> {
        let mut comment = false;
        loop {
            let (at, c) = self.bump()?;
            match c {
                '\n' => comment = false,
                c if c.is_whitespace() || comment => {}
                '#' => comment = true,
                // An empty quotation that the end of the file cuts off is no token; every other one is.
                '"' => return self.quoted(at),
                c => return Some(self.bare(at, c)),
            }
        }
    }

    fn bare(&mut self, start: Position, first: char) -> Token {
        let mut end = start.offset + first.len_utf8();
        let mut hidden = false; // after a `#`, up to the end of the word
        let mut carriage_return = false;
        let mut cooked: Option<String> = None;
        while let Some(&(offset, c)) = self.chars.peek() {
            if c.is_whitespace() && c != '\r' {
                break;
            }
            self.bump();
            hidden |= c == '#';
            if hidden {
                continue;
            }
            if c == '\r' {
                carriage_return = true;
                continue;
            }
            if carriage_return && cooked.is_none() {
                // Letters after a carriage return: the written form differs from the meaning.
                cooked = Some(self.source[start.offset..end].chars().filter(|&c| c != '\r').collect());
            }
            if let Some(text) = &mut cooked {
                text.push(c);
            }
            end = offset + c.len_utf8();
        }
        let cooked = cooked.map(String::into_boxed_str);
        Token { span: Span { start, end }, cooked, line_breaks: 0, quoted: false }
    }

    fn quoted(&mut self, start: Position) -> Option<Token> {
        let mut text = String::new();
        let mut escaped = false;
        let mut closed = false;
        let mut end = start.offset + 1;
        while let Some((at, c)) = self.bump() {
            end = at.offset + c.len_utf8();
            if !escaped {
                if c == '\\' {
                    escaped = true;
                    continue;
                }
                if c == '"' {
                    closed = true;
                    break;
                }
            }
            if escaped && c != '"' {
                text.push('\\');
            }
            text.push(c);
            escaped = false;
        }
        if text.is_empty() && !closed {
            return None;
        }
        let line_breaks = text.bytes().filter(|&b| b == b'\n').count();
        Some(Token { span: Span { start, end }, cooked: Some(text.into_boxed_str()), line_breaks, quoted: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        lex(source).iter().map(|t| t.text(source).to_owned()).collect()
    }

    #[test]
    fn a_hash_hides_only_the_rest_of_its_word() {
        assert_eq!(words("forward . 1.1.1.1#cloudflare dns\n"), ["forward", ".", "1.1.1.1", "dns"]);
        assert_eq!(words("forward . # all of this\nlog"), ["forward", ".", "log"]);
        assert_eq!(words("a#b#c d"), ["a", "d"]);
    }

    #[test]
    fn quotes_open_only_at_the_start_of_a_token() {
        assert_eq!(words(r#"a"b c" "d e""f"g"#), ["a\"b", "c\"", "d e", "f", "g"]);
        assert_eq!(words(r#""say \"hi\" \n""#), [r#"say "hi" \n"#]);
        assert_eq!(words("\"no end\n} "), ["no end\n} "]);
    }

    #[test]
    fn empty_quotes_are_a_token_unless_cut_off() {
        assert_eq!(words("\"\" x"), ["", "x"]);
        assert_eq!(words("x \""), ["x"]);
        assert_eq!(words("x \"\\"), ["x"]);
    }

    #[test]
    fn carriage_returns_vanish() {
        assert_eq!(words("a\r\nb\rc\r d"), ["a", "bc", "d"]);
        assert_eq!(words("\r\r\ra\r\r"), ["a"]);
        assert_eq!(words("\"a\rb\""), ["a\rb"]);
    }

    #[test]
    fn a_byte_order_mark_counts_only_at_the_start() {
        assert_eq!(words("\u{feff}a \u{feff}b"), ["a", "\u{feff}b"]);
    }

    #[test]
    fn every_unicode_blank_separates() {
        assert_eq!(words("a\u{a0}b\u{2003}c\u{85}d\u{b}e"), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn places_are_counted_in_lines_and_characters() {
        let source = "\u{feff}é x\r\n  \"q\nr\" y";
        let places: Vec<String> = lex(source).iter().map(|t| t.span.start.to_string()).collect();
        assert_eq!(places, ["1:1", "1:3", "2:3", "3:4"]);
        assert_eq!(lex(source)[2].last_line(), 3);
    }
}
