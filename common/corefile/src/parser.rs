//! From tokens to the syntax tree of **one** file, by CoreDNS's rules (`coredns/caddy: caddyfile/parse.go`).
//!
//! Nothing is looked up here: an `import` is a node of its own and an environment reference is an ordinary word. What
//! the file means once both are resolved is the business of [`crate::expand`], which alone decides as CoreDNS decides.

use crate::error::{ErrorKind, ParseError};
use crate::lexer::Token;
use crate::limits::Limits;
use crate::node::{BlockNode, DirectiveNode, Item, Part, ServerNode};
use crate::source::Source;
use crate::span::Position;
use crate::tree::Corefile;
use std::sync::Arc;

/// Reads a Corefile.
///
/// ```
/// let file = corefile::parse("example.org:1053 {\n    file db.example.org # the zone\n}\n")?;
/// assert_eq!(file.servers().next().unwrap().keys(), ["example.org:1053"]);
/// assert_eq!(file.to_string(), file.source());
/// # Ok::<(), corefile::ParseError>(())
/// ```
pub fn parse(source: &str) -> Result<Corefile, ParseError> {
    parse_with(source, &Limits::default())
}

/// Reads a Corefile with other bounds than the usual ones.
///
/// ```
/// use corefile::{Limits, parse_with};
/// assert!(parse_with(".:53", &Limits { max_bytes: 1024, ..Limits::default() }).is_ok());
/// ```
pub fn parse_with(source: &str, limits: &Limits) -> Result<Corefile, ParseError> {
    parse_named("Corefile", source, limits)
}

/// Reads a Corefile that has a name of its own, which then stands in errors.
///
/// ```
/// use corefile::{Limits, parse_named};
/// let error = parse_named("custom/a.server", "a.org {", &Limits::default()).unwrap_err();
/// assert_eq!(error.to_string(), "custom/a.server:1:7: Unexpected token '{', expecting '}'");
/// ```
pub fn parse_named(name: &str, source: &str, limits: &Limits) -> Result<Corefile, ParseError> {
    let source = Source::read(name, source, limits)?;
    let mut parser = Parser { source: &source, next: 0, max_depth: limits.max_depth, in_snippet: false };
    let mut items = Vec::new();
    while parser.next < source.tokens.len() {
        items.push(parser.item()?);
    }
    Ok(Corefile { source: Arc::new(source), items })
}

struct Parser<'a> {
    source: &'a Source,
    /// Index of the token to read next.
    next: usize,
    max_depth: usize,
    /// CoreDNS reads the lines of a snippet only where it is used: until then they may be anything.
    in_snippet: bool,
}

/// How an entry of a block is read.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// A plugin of a server.
    Server,
    /// A line of a snippet: may be anything, also a bare block.
    Snippet,
    /// A line in the block of a plugin.
    Nested,
}

impl<'a> Parser<'a> {
    fn tokens(&self) -> &'a [Token] {
        &self.source.tokens
    }

    fn text(&self, index: usize) -> &'a str {
        self.source.token_text(index)
    }

    fn is(&self, index: usize, text: &str) -> bool {
        index < self.tokens().len() && self.text(index) == text
    }

    /// Whether the token starts a new line.
    fn starts_line(&self, index: usize) -> bool {
        match (index.checked_sub(1).and_then(|before| self.tokens().get(before)), self.tokens().get(index)) {
            (Some(before), Some(token)) => before.last_line() < token.span.start.line,
            _ => true,
        }
    }

    fn error_at(&self, index: usize, kind: ErrorKind) -> ParseError {
        let last = self.tokens().len().saturating_sub(1);
        let position = self.tokens().get(index.min(last)).map_or(Position::START, |t| t.span.start);
        ParseError { kind, file: self.source.name.clone(), position }
    }

    /// The end of the file where more was needed. CoreDNS names the last token.
    fn unexpected_eof(&self) -> ParseError {
        self.error_at(self.tokens().len(), ErrorKind::UnexpectedEof)
    }

    fn unexpected(&self, index: usize, expected: &'static str) -> ParseError {
        let index = index.min(self.tokens().len().saturating_sub(1));
        self.error_at(index, ErrorKind::UnexpectedToken { found: self.text(index).to_owned(), expected })
    }

    /// One import, snippet or server at the top of the file.
    fn item(&mut self) -> Result<Item, ParseError> {
        if self.is(self.next, "import") && self.starts_line(self.next) {
            return Ok(Item::Import(self.import()?));
        }
        let header = self.header()?;
        if self.next >= self.tokens().len() {
            return Ok(Item::Server(ServerNode { header, open: None, entries: Vec::new(), close: None }));
        }
        let is_snippet = self.snippet_name(&header).is_some();
        if is_snippet { self.snippet(header).map(Item::Snippet) } else { self.server(header).map(Item::Server) }
    }

    /// The addresses of a server: up to a `{` or the end of the line, a trailing comma joining the next line.
    fn header(&mut self) -> Result<Vec<usize>, ParseError> {
        let mut header = Vec::new();
        let mut more_expected = false;
        while self.next < self.tokens().len() {
            let at = self.next;
            if !header.is_empty() && !more_expected && self.starts_line(at) {
                return Ok(header);
            }
            match self.text(at) {
                "{" if more_expected => return Err(self.error_at(at, ErrorKind::ExtraComma)),
                "{" => return Ok(header),
                "import" if self.starts_line(at) => {
                    // Addresses from another file, after a comma.
                    self.import()?;
                    more_expected = false;
                    continue;
                }
                "" => {}
                key => more_expected = key.ends_with(','),
            }
            header.push(at);
            self.next += 1;
        }
        if more_expected { Err(self.unexpected_eof()) } else { Ok(header) }
    }

    fn snippet_name(&self, header: &[usize]) -> Option<&'a str> {
        let mut keys = header.iter().map(|&index| self.text(index)).filter(|key| !key.is_empty());
        match (keys.next(), keys.next()) {
            (Some(key), None) => crate::node::snippet_name(key),
            _ => None,
        }
    }

    fn snippet(&mut self, header: Vec<usize>) -> Result<ServerNode, ParseError> {
        let open = self.next;
        if !self.is(open, "{") {
            return Err(self.unexpected(open, "{"));
        }
        self.next += 1;
        self.in_snippet = true;
        let entries = self.entries(Place::Snippet, 0);
        self.in_snippet = false;
        let entries = entries.map_err(|error| match error.kind {
            ErrorKind::UnexpectedEof => self.unexpected(self.tokens().len(), "}"),
            _ => error,
        })?;
        if !self.is(self.next, "}") {
            return Err(self.unexpected(self.next, "}"));
        }
        let close = Some(self.next);
        self.next += 1;
        Ok(ServerNode { header, open: Some(open), entries, close })
    }

    fn server(&mut self, header: Vec<usize>) -> Result<ServerNode, ParseError> {
        let open = self.is(self.next, "{").then_some(self.next);
        self.next += usize::from(open.is_some());
        let entries = self.entries(Place::Server, 0)?;
        let close = self.is(self.next, "}").then_some(self.next);
        if close.is_some() {
            self.next += 1;
        } else if open.is_some() && !self.is(self.tokens().len() - 1, "}") {
            // CoreDNS looks only at the last token: the `}` of an inner block will do.
            return Err(self.unexpected(self.tokens().len(), "}"));
        }
        Ok(ServerNode { header, open, entries, close })
    }

    /// Entries up to a `}` (not taken) or the end of the file.
    fn entries(&mut self, place: Place, depth: usize) -> Result<Vec<DirectiveNode>, ParseError> {
        let mut entries = Vec::new();
        while self.next < self.tokens().len() && !self.is(self.next, "}") {
            let imports = self.is(self.next, "import") && (place != Place::Nested || self.starts_line(self.next));
            entries.push(match if imports { self.import() } else { self.directive(place, depth) } {
                Err(_) if imports && self.in_snippet => self.directive(place, depth)?,
                other => other?,
            });
        }
        Ok(entries)
    }

    /// `import` and its one argument. Blocks that follow on the next line belong to what is imported; they hang here.
    fn import(&mut self) -> Result<DirectiveNode, ParseError> {
        let name = self.next;
        let argument = name + 1;
        if argument >= self.tokens().len() || self.starts_line(argument) {
            let after = self.text(name).to_owned();
            return Err(self.error_at(name, ErrorKind::ImportWithoutArgument { after }));
        }
        if argument + 1 < self.tokens().len() && !self.starts_line(argument + 1) {
            return Err(self.error_at(argument + 1, ErrorKind::ImportOfMany));
        }
        self.next = argument + 1;
        Ok(DirectiveNode { is_import: true, parts: vec![Part::Word(name), Part::Word(argument)] })
    }

    /// A plugin with its arguments and blocks, or a line inside such a block.
    fn directive(&mut self, place: Place, depth: usize) -> Result<DirectiveNode, ParseError> {
        let mut parts = Vec::new();
        if !self.is(self.next, "{") {
            parts.push(Part::Word(self.next));
            self.next += 1;
        } else if place == Place::Server {
            return Err(self.error_at(self.next, ErrorKind::UnknownDirective { name: "{".to_owned() }));
        }
        while self.next < self.tokens().len() {
            let at = self.next;
            if self.is(at, "{") {
                parts.push(Part::Block(self.block(depth + 1)?));
            } else if self.starts_line(at) {
                break;
            } else if self.is(at, "}") {
                if place == Place::Server {
                    return Err(self.error_at(at, ErrorKind::UnmatchedClose));
                }
                break;
            } else {
                parts.push(Part::Word(at));
                self.next += 1;
            }
        }
        Ok(DirectiveNode { is_import: false, parts })
    }

    fn block(&mut self, depth: usize) -> Result<BlockNode, ParseError> {
        let open = self.next;
        if depth > self.max_depth {
            return Err(self.error_at(open, ErrorKind::TooDeep { limit: self.max_depth }));
        }
        self.next += 1;
        let entries = self.entries(Place::Nested, depth)?;
        if self.next >= self.tokens().len() {
            return Err(self.unexpected_eof());
        }
        let close = self.next;
        self.next += 1;
        Ok(BlockNode { open, entries, close })
    }
}
