//! The text that CoreDNS would run: imports in place, environment references replaced, servers and plugins gathered.
//!
//! This follows `coredns/caddy: caddyfile/parse.go` step by step, since its oddities decide what starts and what does
//! not: a quoted brace is a brace, a line is "new" only by its number, and the closing brace of a server may be that of
//! an inner block. Where CoreDNS copies tokens, this reads them from a stack of sources, so time stays linear.

mod parser;
mod stream;

use crate::env::Environment;
use crate::error::ParseError;
use crate::files::{FileSource, MemoryFiles};
use crate::limits::Limits;
use crate::source::Source;
use crate::span::Position;
use crate::tree::Corefile;
use std::fmt;
use std::sync::Arc;

/// What an expansion needs to know beyond the text.
///
/// ```
/// use corefile::{Environment, ExpandOptions, MemoryFiles};
/// let mut files = MemoryFiles::new();
/// files.add("custom/log.override", "log");
/// let environment: Environment = [("UPSTREAM", "1.1.1.1")].into_iter().collect();
/// let options = ExpandOptions::new().files(&files).environment(&environment);
///
/// let file = corefile::parse(". {\n    import custom/*.override\n    forward . {$UPSTREAM}\n}\n")?;
/// let expanded = file.expand(&options)?;
/// assert_eq!(expanded.to_string(), ". {\n    log\n    forward . 1.1.1.1\n}\n");
/// # Ok::<(), corefile::ParseError>(())
/// ```
#[derive(Clone)]
pub struct ExpandOptions<'a> {
    files: Option<&'a dyn FileSource>,
    environment: Option<&'a Environment>,
    known_plugins: Option<&'a dyn Fn(&str) -> bool>,
    limits: Limits,
    skip_missing: bool,
    before_import_caps: bool,
}

impl Default for ExpandOptions<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> ExpandOptions<'a> {
    /// No files; environment references kept as they are; any plugin known; the usual limits.
    pub fn new() -> Self {
        Self {
            files: None,
            environment: None,
            known_plugins: None,
            limits: Limits::default(),
            skip_missing: false,
            before_import_caps: false,
        }
    }

    /// Where imported files come from.
    #[must_use]
    pub fn files(mut self, files: &'a dyn FileSource) -> Self {
        self.files = Some(files);
        self
    }

    /// Replaces environment references by these values; an unset variable is the empty string, and a warning.
    #[must_use]
    pub fn environment(mut self, environment: &'a Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Refuses plugins for which this says no, as a CoreDNS without them would.
    #[must_use]
    pub fn known_plugins(mut self, known: &'a dyn Fn(&str) -> bool) -> Self {
        self.known_plugins = Some(known);
        self
    }

    /// Other bounds than the usual ones.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Passes over files that are not there, with a warning instead of CoreDNS's error.
    #[must_use]
    pub fn skip_missing_imports(mut self) -> Self {
        self.skip_missing = true;
        self
    }

    /// As CoreDNS before 1.13.0, which let a snippet import itself as long as nothing used it. (Used, it hung: still an
    /// error here.)
    #[must_use]
    pub fn before_import_caps(mut self) -> Self {
        self.before_import_caps = true;
        self
    }
}

/// One word of an expanded text, and where it was written.
#[derive(Clone)]
pub struct Word {
    source: Arc<Source>,
    index: usize,
    replaced: Option<Box<str>>,
}

impl Word {
    /// What it says, environment references replaced.
    pub fn text(&self) -> &str {
        self.replaced.as_deref().unwrap_or_else(|| self.source.token_text(self.index))
    }

    /// What it said before environment references were replaced.
    pub fn raw(&self) -> &str {
        self.source.token_text(self.index)
    }

    /// The file it is written in.
    pub fn file(&self) -> &str {
        &self.source.name
    }

    /// Where it is written in that file.
    pub fn position(&self) -> Position {
        self.source.position(self.index)
    }

    /// The bytes it takes in that file.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.source.span(self.index, self.index).range()
    }

    /// The whole text of that file.
    pub fn source(&self) -> &str {
        &self.source.text
    }

    /// Whether the next word, as CoreDNS counts, is on the line on which this one ends.
    pub fn is_followed_on_line_by(&self, next: &Self) -> bool {
        Arc::ptr_eq(&self.source, &next.source) && self.last_line() == next.position().line
    }

    fn last_line(&self) -> usize {
        self.position().line + self.text().bytes().filter(|&byte| byte == b'\n').count()
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}:{}", self.text(), self.file(), self.position())
    }
}

/// One use of a plugin, imports resolved.
#[derive(Debug, Clone)]
pub struct ExpandedPlugin {
    /// The name of the plugin.
    pub name: String,
    /// All its words, the name first, braces included: what the plugin itself reads.
    pub words: Vec<Word>,
}

/// One server, imports resolved. CoreDNS ignores servers without addresses; they are left out here.
#[derive(Debug, Clone)]
pub struct ExpandedServer {
    /// Its addresses, without commas, each with the word it comes from.
    pub keys: Vec<(String, Word)>,
    /// Its plugins in the order of the text. CoreDNS gathers the uses of one plugin and runs plugins in an order of its
    /// own.
    pub plugins: Vec<ExpandedPlugin>,
}

/// Something to know about an expansion that went well.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ExpandWarning {
    /// A pattern that matches no file: CoreDNS logs it and goes on.
    NoMatch {
        /// The argument of `import`.
        pattern: Word,
    },
    /// A file that is not there, passed over by [`ExpandOptions::skip_missing_imports`].
    Skipped {
        /// The argument of `import`.
        pattern: Word,
    },
    /// A variable that is not set, so an empty string: CoreDNS says nothing.
    UnsetVariable {
        /// Its name.
        name: String,
        /// The word that refers to it.
        word: Word,
    },
}

/// What CoreDNS would run.
#[derive(Debug, Clone)]
pub struct Expanded {
    /// The servers, in order.
    pub servers: Vec<ExpandedServer>,
    /// What went well but not as one may think.
    pub warnings: Vec<ExpandWarning>,
    sources: Vec<Arc<Source>>,
}

impl Expanded {
    /// Every file that was read, with its text: the main one first. A change in any of them is a change of the whole.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sources.iter().map(|source| (source.name.as_str(), source.text.as_str()))
    }
}

/// Expands a text, also one whose braces match only after its imports are in place.
///
/// ```
/// let expanded = corefile::expand("Corefile", "(a) {\n log\n}\n.:53 {\n import a\n}\n", &corefile::ExpandOptions::new())?;
/// assert_eq!(expanded.servers[0].plugins[0].name, "log");
/// # Ok::<(), corefile::ParseError>(())
/// ```
pub fn expand(name: &str, text: &str, options: &ExpandOptions<'_>) -> Result<Expanded, ParseError> {
    expand_source(&Arc::new(Source::read(name, text, &options.limits)?), options)
}

impl Corefile {
    /// The text that CoreDNS would run, or its reason not to.
    ///
    /// ```
    /// use corefile::ExpandOptions;
    /// let file = corefile::parse(".:53 {\n    import custom.conf\n}\n")?;
    /// let error = file.expand(&ExpandOptions::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "Corefile:2:12: File to import not found: custom.conf");
    /// # Ok::<(), corefile::ParseError>(())
    /// ```
    pub fn expand(&self, options: &ExpandOptions<'_>) -> Result<Expanded, ParseError> {
        expand_source(&self.source, options)
    }
}

pub(crate) fn expand_source(source: &Arc<Source>, options: &ExpandOptions<'_>) -> Result<Expanded, ParseError> {
    let no_files = MemoryFiles::new();
    let files = options.files.unwrap_or(&no_files);
    parser::Parser::new(source, files, options).run()
}

impl fmt::Display for Expanded {
    /// One word after the other, a line for each line, four blanks for each open brace. For people and tests: words with
    /// blanks are quoted, comments are gone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for server in &self.servers {
            let keys: Vec<&str> = server.keys.iter().map(|(key, _)| key.as_str()).collect();
            writeln!(f, "{} {{", keys.join(", "))?;
            for plugin in &server.plugins {
                print_words(f, &plugin.words)?;
            }
            writeln!(f, "}}")?;
        }
        Ok(())
    }
}

fn print_words(f: &mut fmt::Formatter<'_>, words: &[Word]) -> fmt::Result {
    let mut depth = 1_usize;
    for (index, word) in words.iter().enumerate() {
        depth -= usize::from(word.text() == "}" && depth > 1);
        match index.checked_sub(1).map(|before| &words[before]) {
            None => write!(f, "{:1$}", "", depth * 4)?,
            Some(before) if before.is_followed_on_line_by(word) || word.text() == "{" => f.write_str(" ")?,
            Some(_) => write!(f, "\n{:1$}", "", depth * 4)?,
        }
        depth += usize::from(word.text() == "{");
        if word.text().is_empty() || word.text().contains(|c: char| c.is_whitespace() || c == '#') {
            write!(f, "\"{}\"", word.text().replace('"', "\\\""))?;
        } else {
            f.write_str(word.text())?;
        }
    }
    writeln!(f)
}
