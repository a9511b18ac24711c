//! Changes to single lines of a Corefile. Everything else stays byte for byte: comments, blank lines, indent, line ends.
//!
//! An [`Edit`] collects changes against one [`Corefile`], and [`Edit::finish`] makes a new one from them. Nothing is
//! written that would not parse again.
//!
//! New lines are given as Corefile text with four blanks for each level; they take on the indent (blanks or tabs) and the
//! line ends (LF or CRLF) of the place they go to.

mod layout;

use crate::error::ParseError;
use crate::lexer::lex;
use crate::limits::Limits;
use crate::node::Part;
use crate::parser::parse_named;
use crate::tree::{Corefile, Directive, Server};
use layout::Layout;
use std::fmt;
use std::ops::Range;

/// Why an edit was not made. The file is as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// Two changes touch the same bytes, for example the removal of a plugin and a change inside it.
    Overlap {
        /// Line of the second of them.
        line: usize,
    },
    /// A word that the language cannot hold, for example one with both a blank and `\"`.
    Unwritable {
        /// The word.
        word: String,
    },
    /// Lines whose braces do not match.
    Unbalanced {
        /// The lines.
        lines: String,
    },
    /// A plugin or server of another file, or an argument that is not there.
    NotHere,
    /// The result would be no Corefile.
    Invalid(ParseError),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { line } => write!(f, "two changes to the same text on line {line}"),
            Self::Unwritable { word } => write!(f, "no way to write {word:?} in a Corefile"),
            Self::Unbalanced { lines } => write!(f, "the braces of these lines do not match: {lines}"),
            Self::NotHere => write!(f, "what is to be changed is not part of this file"),
            Self::Invalid(error) => write!(f, "the result would be no Corefile: {error}"),
        }
    }
}

impl std::error::Error for EditError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Invalid(error) => Some(error),
            _ => None,
        }
    }
}

/// Changes to one file, not yet made.
///
/// ```
/// let file = corefile::parse(".:53 {\n\terrors # keep\n\tproxy . 8.8.8.8 # old\n\tupstream\n}\n")?;
/// let server = file.servers().next().unwrap();
/// let mut edit = file.edit();
/// edit.rename(server.directive("proxy").unwrap(), "forward");
/// edit.remove(server.directive("upstream").unwrap());
/// edit.append(server, "cache 30 {\n    prefetch 2\n}");
/// assert_eq!(
///     edit.finish()?.to_string(),
///     ".:53 {\n\terrors # keep\n\tforward . 8.8.8.8 # old\n\tcache 30 {\n\t\tprefetch 2\n\t}\n}\n",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Edit<'a> {
    layout: Layout<'a>,
    changes: Vec<(Range<usize>, String)>,
    failure: Option<EditError>,
}

impl Corefile {
    /// Starts an edit.
    pub fn edit(&self) -> Edit<'_> {
        Edit { layout: Layout::of(self), changes: Vec::new(), failure: None }
    }
}

/// A word as it has to be written: in quotes where it needs them.
///
/// ```
/// assert_eq!(corefile::write_word("cluster.local").as_deref(), Some("cluster.local"));
/// assert_eq!(corefile::write_word("two words").as_deref(), Some("\"two words\""));
/// assert_eq!(corefile::write_word("a \\\" b"), None);
/// ```
pub fn write_word(word: &str) -> Option<String> {
    let quoted = || format!("\"{}\"", word.replace('"', "\\\""));
    [word.to_owned(), quoted()].into_iter().find(|written| match lex(written).as_slice() {
        [token] => token.text(written) == word && token.span.range() == (0..written.len()),
        _ => false,
    })
}

impl<'a> Edit<'a> {
    /// Gives a plugin, or a line in a block, another name.
    pub fn rename(&mut self, directive: Directive<'a>, name: &str) -> &mut Self {
        match directive.node.parts.first() {
            Some(&Part::Word(token)) if self.owns(directive) => self.put_word(self.layout.token(token), name, ""),
            _ => self.fail(EditError::NotHere),
        }
        self
    }

    /// Replaces one argument.
    ///
    /// ```
    /// let file = corefile::parse("cluster.local {\n    forward . 10.0.0.10 # upstream\n}\n")?;
    /// let forward = file.servers().next().unwrap().directive("forward").unwrap();
    /// let mut edit = file.edit();
    /// edit.replace_arg(forward, 1, "10.0.0.11");
    /// assert_eq!(edit.finish()?.source(), "cluster.local {\n    forward . 10.0.0.11 # upstream\n}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace_arg(&mut self, directive: Directive<'a>, index: usize, word: &str) -> &mut Self {
        match directive.arg_spans().get(index) {
            Some(span) if self.owns(directive) => self.put_word(span.range(), word, ""),
            _ => self.fail(EditError::NotHere),
        }
        self
    }

    /// Takes one argument away.
    pub fn remove_arg(&mut self, directive: Directive<'a>, index: usize) -> &mut Self {
        match directive.arg_spans().get(index) {
            Some(span) if self.owns(directive) => {
                let range = span.range();
                self.change(self.layout.blanks_before(range.start)..range.end, String::new());
            }
            _ => self.fail(EditError::NotHere),
        }
        self
    }

    /// Adds an argument after the last one, before the block if there is one.
    pub fn add_arg(&mut self, directive: Directive<'a>, word: &str) -> &mut Self {
        let words = directive.node.parts.iter().take_while(|part| matches!(part, Part::Word(_)));
        match words.last() {
            Some(&Part::Word(token)) if self.owns(directive) => {
                let end = self.layout.token(token).end;
                self.put_word(end..end, word, " ");
            }
            _ => self.fail(EditError::NotHere),
        }
        self
    }

    /// Removes a plugin, or a line in a block, with its block and the comment beside it. Comments above it stay.
    pub fn remove(&mut self, directive: Directive<'a>) -> &mut Self {
        if self.owns(directive) {
            let range = self.layout.lines_of(directive.span().range());
            self.change(range, String::new());
        } else {
            self.fail(EditError::NotHere);
        }
        self
    }

    /// Removes the block of a plugin; its name and arguments stay.
    ///
    /// ```
    /// let file = corefile::parse(". {\n    cache 30 {\n        prefetch 2\n    } # enough\n}\n")?;
    /// let cache = file.servers().next().unwrap().directive("cache").unwrap();
    /// let mut edit = file.edit();
    /// edit.remove_block(cache);
    /// assert_eq!(edit.finish()?.source(), ". {\n    cache 30 # enough\n}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove_block(&mut self, directive: Directive<'a>) -> &mut Self {
        if !self.owns(directive) {
            self.fail(EditError::NotHere);
            return self;
        }
        for block in directive.blocks() {
            let start = self.layout.blanks_before(self.layout.token(block.open).start);
            self.change(start..self.layout.token(block.close).end, String::new());
        }
        self
    }

    /// Puts other lines in the place of a plugin or of a line in a block. The comment beside its last word stays.
    pub fn replace(&mut self, directive: Directive<'a>, lines: &str) -> &mut Self {
        if self.owns(directive) {
            let range = directive.span().range();
            let text = self.layout.indented(lines, &self.layout.indent_for(&range));
            self.put_lines((range, text.trim_start().to_owned()), lines);
        } else {
            self.fail(EditError::NotHere);
        }
        self
    }

    /// Puts lines before a plugin or a line in a block, above the comments that stand right above it.
    pub fn insert_before(&mut self, directive: Directive<'a>, lines: &str) -> &mut Self {
        if self.owns(directive) {
            let change = self.layout.before(directive.node.first_token(), lines);
            self.put_lines(change, lines);
        } else {
            self.fail(EditError::NotHere);
        }
        self
    }

    /// Puts lines after a plugin or a line in a block.
    ///
    /// ```
    /// let file = corefile::parse(".:53 {\r\n  errors # all\r\n  reload }\r\n").unwrap_err();
    /// assert_eq!(file.to_string(), "Corefile:3:10: Unexpected '}' because no matching opening brace");
    ///
    /// let file = corefile::parse(".:53 {\r\n  errors # all\r\n  reload\r\n}\r\n")?;
    /// let mut edit = file.edit();
    /// edit.insert_after(file.servers().next().unwrap().directive("errors").unwrap(), "ready");
    /// assert_eq!(edit.finish()?.source(), ".:53 {\r\n  errors # all\r\n  ready\r\n  reload\r\n}\r\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert_after(&mut self, directive: Directive<'a>, lines: &str) -> &mut Self {
        if self.owns(directive) {
            let change = self.layout.after(directive.span().range(), directive.node.last_token(), lines);
            self.put_lines(change, lines);
        } else {
            self.fail(EditError::NotHere);
        }
        self
    }

    /// Puts lines at the end of a server.
    ///
    /// ```
    /// let file = corefile::parse("x:53 { }\n")?;
    /// let mut edit = file.edit();
    /// edit.append(file.servers().next().unwrap(), "errors\nlog");
    /// assert_eq!(edit.finish()?.source(), "x:53 {\n    errors\n    log\n}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append(&mut self, server: Server<'a>, lines: &str) -> &mut Self {
        if !self.layout.is_of(server.file) {
            self.fail(EditError::NotHere);
            return self;
        }
        let node = server.node;
        let change = match (node.entries.last(), node.open, node.close) {
            (Some(entry), ..) => {
                let span = server.file.source.span(entry.first_token(), entry.last_token());
                self.layout.after(span.range(), entry.last_token(), lines)
            }
            (None, Some(open), Some(close)) => self.layout.in_empty_block(open, close, lines),
            _ => {
                let last = node.last_token();
                self.layout.after(self.layout.token(last), last, lines)
            }
        };
        self.put_lines(change, lines);
        self
    }

    /// Puts lines at the end of the block of a plugin, which gets a block if it has none.
    ///
    /// ```
    /// let file = corefile::parse(". {\n   health # probe\n}\n")?;
    /// let mut edit = file.edit();
    /// edit.append_property(file.servers().next().unwrap().directive("health").unwrap(), "lameduck 5s");
    /// assert_eq!(edit.finish()?.source(), ". {\n   health { # probe\n      lameduck 5s\n   }\n}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_property(&mut self, directive: Directive<'a>, lines: &str) -> &mut Self {
        if !self.owns(directive) {
            self.fail(EditError::NotHere);
            return self;
        }
        let Some(block) = directive.blocks().last() else {
            let (open, block) = self.layout.new_block(directive.span().range(), directive.node.last_token(), lines);
            self.change(open.0, open.1);
            self.put_lines(block, lines);
            return self;
        };
        let change = match block.entries.last() {
            Some(entry) => {
                let span = directive.file.source.span(entry.first_token(), entry.last_token());
                self.layout.after(span.range(), entry.last_token(), lines)
            }
            None => self.layout.in_empty_block(block.open, block.close, lines),
        };
        self.put_lines(change, lines);
        self
    }

    /// Puts whole servers or snippets at the end of the file.
    ///
    /// ```
    /// let file = corefile::parse(". {\n}")?;
    /// let mut edit = file.edit();
    /// edit.append_server("example.org {\n    whoami\n}");
    /// assert_eq!(edit.finish()?.source(), ". {\n}\nexample.org {\n    whoami\n}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_server(&mut self, lines: &str) -> &mut Self {
        let change = self.layout.at_end(lines);
        self.put_lines(change, lines);
        self
    }

    /// Makes the changes.
    pub fn finish(self) -> Result<Corefile, EditError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if self.changes.is_empty() {
            return Ok(self.layout.file.clone());
        }
        let source = self.layout.file.source();
        let mut changes = self.changes;
        changes.sort_by_key(|(range, _)| (range.start, range.end)); // stable: insertions at one place keep their order
        let mut text = String::with_capacity(source.len());
        let mut done = 0;
        for (range, new) in changes {
            // Two removals may share a line end; nothing else may overlap.
            if range.start < done && !(new.is_empty() && range.end >= done && self.layout.is_blank(range.start..done)) {
                let line = 1 + source[..range.start].matches('\n').count();
                return Err(EditError::Overlap { line });
            }
            text.push_str(source.get(done..range.start).unwrap_or_default());
            text.push_str(&new);
            done = range.end.max(done);
        }
        text.push_str(&source[done..]);
        parse_named(self.layout.file.name(), &text, &Limits::default()).map_err(EditError::Invalid)
    }

    /// Puts lines into a range, if their braces match.
    fn put_lines(&mut self, (range, text): (Range<usize>, String), lines: &str) {
        let mut depth = 0_usize;
        for token in lex(lines) {
            match token.text(lines) {
                "{" => depth += 1,
                "}" if depth == 0 => depth = usize::MAX / 2,
                "}" => depth -= 1,
                _ => {}
            }
        }
        if depth == 0 { self.change(range, text) } else { self.fail(EditError::Unbalanced { lines: lines.to_owned() }) }
    }

    fn owns(&self, directive: Directive<'_>) -> bool {
        self.layout.is_of(directive.file)
    }

    fn change(&mut self, range: Range<usize>, text: String) {
        self.changes.push((range, text));
    }

    fn put_word(&mut self, range: Range<usize>, word: &str, before: &str) {
        match write_word(word) {
            Some(written) => self.change(range, format!("{before}{written}")),
            None => self.fail(EditError::Unwritable { word: word.to_owned() }),
        }
    }

    fn fail(&mut self, error: EditError) {
        self.failure.get_or_insert(error);
    }
}
