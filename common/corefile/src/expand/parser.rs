//! The parser itself: servers, snippets, imports.

use super::stream::{Stream, Token};
use super::{ExpandOptions, ExpandWarning, Expanded, ExpandedPlugin, ExpandedServer, Word};
use crate::env;
use crate::error::{ErrorKind, ParseError};
use crate::files::{Entry, FileSource, directory, glob, join};
use crate::node::snippet_name;
use crate::source::Source;
use crate::span::Position;
use std::collections::HashMap;
use std::sync::Arc;

pub(super) struct Parser<'a> {
    stream: Stream,
    files: &'a dyn FileSource,
    options: &'a ExpandOptions<'a>,
    snippets: HashMap<String, Arc<[Token]>>,
    /// Files by path: a file imported often is read once.
    loaded: HashMap<String, usize>,
    snippet_imports: usize,
    file_imports: usize,
    server: ExpandedServer,
    warnings: Vec<ExpandWarning>,
}

type Result<T> = std::result::Result<T, ParseError>;

const NO_SERVER: ExpandedServer = ExpandedServer { keys: Vec::new(), plugins: Vec::new() };

impl<'a> Parser<'a> {
    pub(super) fn new(source: &Arc<Source>, files: &'a dyn FileSource, options: &'a ExpandOptions<'a>) -> Self {
        Self {
            stream: Stream::new(source),
            files,
            options,
            snippets: HashMap::new(),
            loaded: HashMap::new(),
            snippet_imports: 0,
            file_imports: 0,
            server: NO_SERVER,
            warnings: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<Expanded> {
        let mut servers = Vec::new();
        while self.advance()? {
            self.server = NO_SERVER;
            let at_end = self.addresses()?;
            if !at_end {
                if let Some(name) = self.snippet_name() {
                    self.define_snippet(name)?;
                    continue;
                }
                self.contents()?;
            }
            let server = std::mem::replace(&mut self.server, NO_SERVER);
            if !server.keys.is_empty() {
                servers.push(server);
            }
        }
        Ok(Expanded { servers, warnings: self.warnings, sources: self.stream.sources })
    }

    fn advance(&mut self) -> Result<bool> {
        if self.stream.imported >= self.options.limits.max_imported_words {
            return Err(self.error(ErrorKind::TooManyTokens { limit: self.options.limits.max_imported_words }));
        }
        Ok(self.stream.advance())
    }

    fn is(&self, text: &str) -> bool {
        self.stream.text(self.stream.current) == text
    }

    fn at_new_line(&self) -> bool {
        self.stream.current.is_none_or(|token| self.stream.is_new_line(self.stream.previous, token))
    }

    /// An error at the current token.
    fn error(&self, kind: ErrorKind) -> ParseError {
        let (file, position) = match self.stream.current {
            None => (&self.stream.sources[0].name, Position::START),
            Some(token) => {
                let source = &self.stream.sources[token.source];
                (&source.name, source.position(token.index))
            }
        };
        ParseError { kind, file: file.clone(), position }
    }

    fn unexpected(&self, expected: &'static str) -> ParseError {
        let found = self.stream.text(self.stream.current).to_owned();
        self.error(ErrorKind::UnexpectedToken { found, expected })
    }

    fn word(&self, token: Token) -> Word {
        let source = Arc::clone(&self.stream.sources[token.source]);
        Word { source, index: token.index, replaced: None }
    }

    /// The token as a word, environment references replaced if that is asked for.
    fn replaced(&mut self, token: Token) -> Result<Word> {
        let mut word = self.word(token);
        if let Some(environment) = self.options.environment {
            let warnings = &mut self.warnings;
            let unset = |name: &str| {
                warnings.push(ExpandWarning::UnsetVariable { name: name.to_owned(), word: word.clone() });
            };
            match env::replace(word.raw(), environment, self.options.limits.max_expanded_token, unset) {
                Ok(text) => word.replaced = text.map(String::into_boxed_str),
                Err(env::Endless) => {
                    return Err(self.error(ErrorKind::EndlessEnvironment { token: word.raw().to_owned() }));
                }
            }
        }
        Ok(word)
    }

    /// Reads addresses from the current token on. True at the end of the text.
    fn addresses(&mut self) -> Result<bool> {
        let mut more_expected = false;
        while let Some(token) = self.stream.current {
            let word = self.replaced(token)?;
            match word.text() {
                "import" if self.at_new_line() => {
                    self.import()?;
                    if !self.advance()? {
                        return if more_expected { Err(self.error(ErrorKind::UnexpectedEof)) } else { Ok(true) };
                    }
                    continue;
                }
                "{" if more_expected => return Err(self.error(ErrorKind::ExtraComma)),
                "{" => return Ok(false),
                "" => {}
                text => {
                    let key = text.strip_suffix(',');
                    more_expected = key.is_some();
                    let key = key.unwrap_or(text).to_owned();
                    self.server.keys.push((key, word));
                }
            }
            if !self.advance()? {
                return if more_expected { Err(self.error(ErrorKind::UnexpectedEof)) } else { Ok(true) };
            }
            if !more_expected && self.at_new_line() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn snippet_name(&self) -> Option<String> {
        match self.server.keys.as_slice() {
            [(key, _)] => snippet_name(key).map(str::to_owned),
            _ => None,
        }
    }

    fn define_snippet(&mut self, name: String) -> Result<()> {
        if self.snippets.contains_key(&name) {
            return Err(self.error(ErrorKind::SnippetRedeclared { name }));
        }
        if !self.is("{") {
            return Err(self.unexpected("{"));
        }
        let mut depth = 1_usize;
        let mut tokens = Vec::new();
        while self.advance()? {
            depth += usize::from(self.is("{"));
            depth -= usize::from(self.is("}"));
            if depth == 0 {
                break;
            }
            tokens.extend(self.stream.current);
        }
        if depth != 0 {
            return Err(self.unexpected("}"));
        }
        if !self.options.before_import_caps {
            self.refuse_self_import(&name, &tokens)?;
        }
        self.snippets.insert(name, tokens.into());
        Ok(())
    }

    /// A snippet that plainly imports itself is refused where it is defined.
    fn refuse_self_import(&mut self, name: &str, tokens: &[Token]) -> Result<()> {
        for (at, pair) in tokens.windows(2).enumerate() {
            let starts_line = at == 0 || {
                let before = tokens[at - 1];
                before.source != pair[0].source || self.stream.line(before) != self.stream.line(pair[0])
            };
            if starts_line && self.stream.text(Some(pair[0])) == "import" && self.replaced(pair[1])?.text() == name {
                let limit = self.options.limits.max_snippet_imports;
                return Err(self.error(ErrorKind::SnippetDepth { limit }));
            }
        }
        Ok(())
    }

    /// The plugins of a server, with or without braces. The current token is the first after the addresses.
    fn contents(&mut self) -> Result<()> {
        let braces = self.is("{");
        let mut pending = !braces; // without braces the current token is a plugin already
        while pending || self.advance()? {
            pending = false;
            if self.is("}") {
                break;
            }
            if self.is("import") { self.import()? } else { self.directive()? }
        }
        if braces && !self.is("}") {
            return Err(self.unexpected("}"));
        }
        Ok(())
    }

    /// One plugin: to the end of its line, or of its block.
    fn directive(&mut self) -> Result<()> {
        let Some(token) = self.stream.current else { return Ok(()) };
        let name = self.replaced(token)?.text().to_owned();
        if self.options.known_plugins.is_some_and(|known| !known(&name)) || name == "{" {
            return Err(self.error(ErrorKind::UnknownDirective { name }));
        }
        let mut words = vec![self.word(token)];
        let mut depth = 0_usize;
        while let Some(next) = self.stream.peek() {
            let new_line = self.stream.is_new_line(self.stream.current, next);
            let opens = self.stream.text(Some(next)) == "{";
            if !opens && new_line && depth == 0 {
                break;
            }
            self.advance()?;
            if opens {
                depth += 1;
            } else if self.is("}") {
                depth = depth.checked_sub(1).ok_or_else(|| self.error(ErrorKind::UnmatchedClose))?;
            } else if new_line && self.is("import") {
                self.import()?;
                continue;
            }
            let word = self.replaced(next)?;
            if let Some(text) = &word.replaced {
                self.stream.replace_current(text);
            }
            words.push(word);
        }
        if depth > 0 {
            return Err(self.error(ErrorKind::UnexpectedEof));
        }
        self.server.plugins.push(ExpandedPlugin { name, words });
        Ok(())
    }

    /// Puts what is imported in place of the current token and its argument. Afterwards the current token is the one
    /// before the `import`.
    fn import(&mut self) -> Result<()> {
        let before = self.stream.previous;
        let Some(import) = self.stream.current else { return Ok(()) };
        match self.stream.peek() {
            Some(argument) if self.stream.is_argument(import, argument) => self.advance()?,
            _ => {
                let after = self.stream.text(Some(import)).to_owned();
                return Err(self.error(ErrorKind::ImportWithoutArgument { after }));
            }
        };
        let Some(argument) = self.stream.current else { return Ok(()) };
        let pattern = self.replaced(argument)?;
        if pattern.text().is_empty() {
            return Err(self.error(ErrorKind::ImportOfNothing));
        }
        if let Some(extra) = self.stream.peek()
            && self.stream.is_argument(argument, extra)
        {
            self.advance()?;
            return Err(self.error(ErrorKind::ImportOfMany));
        }
        if let Some(tokens) = self.snippets.get(pattern.text()).cloned() {
            if self.snippet_imports >= self.options.limits.max_snippet_imports {
                return Err(self.error(ErrorKind::SnippetDepth { limit: self.options.limits.max_snippet_imports }));
            }
            self.snippet_imports += 1;
            self.stream.enter_snippet(tokens);
        } else {
            self.import_files(argument, pattern)?;
        }
        self.stream.current = before;
        Ok(())
    }

    fn import_files(&mut self, argument: Token, pattern: Word) -> Result<()> {
        let limits = &self.options.limits;
        if self.file_imports >= limits.max_file_imports {
            return Err(self.error(ErrorKind::FileDepth { limit: limits.max_snippet_imports }));
        }
        self.file_imports += 1;
        let text = pattern.text();
        let path = if text.starts_with('/') {
            text.to_owned()
        } else {
            join(directory(&self.stream.sources[argument.source].name), text)
        };
        let count = |c: char| path.matches(c).count();
        if count('*') > 1 || count('?') > 1 || (count('[') > 0 && count(']') > 0) {
            return Err(self.error(ErrorKind::ImportPattern { pattern: path }));
        }
        let Ok(found) = glob(self.files, &path) else {
            return Err(self.error(ErrorKind::ImportBadPattern { pattern: text.to_owned() }));
        };
        if found.is_empty() {
            let warning = if path.contains(['*', '?', '[', ']']) {
                ExpandWarning::NoMatch { pattern }
            } else if self.options.skip_missing {
                ExpandWarning::Skipped { pattern }
            } else {
                return Err(self.error(ErrorKind::ImportNotFound { pattern: text.to_owned() }));
            };
            self.warnings.push(warning);
        }
        let mut sources = Vec::with_capacity(found.len());
        for path in found {
            sources.push(self.load(path)?);
        }
        for source in sources.into_iter().rev() {
            self.stream.enter_file(source);
        }
        Ok(())
    }

    fn load(&mut self, path: String) -> Result<usize> {
        if let Some(&source) = self.loaded.get(&path) {
            return Ok(source);
        }
        let files = self.files;
        let unreadable = |reason: &str| ErrorKind::ImportUnreadable { path: path.clone(), reason: reason.to_owned() };
        let source = match files.entry(&path) {
            Entry::File(text) => Source::read(&path, &text, &self.options.limits)?,
            Entry::Directory => return Err(self.error(unreadable("is a directory"))),
            Entry::Unreadable(reason) => return Err(self.error(unreadable(&reason))),
            Entry::Missing => {
                return Err(self.error(unreadable(&format!("open {path}: no such file or directory"))));
            }
        };
        let source = self.stream.push_source(Arc::new(source));
        self.loaded.insert(path, source);
        Ok(source)
    }
}
