//! The syntax tree as its users see it: servers, snippets and imports; their plugins; lines and blocks inside.
//!
//! All of these borrow from the [`Corefile`] and know where they stand in it ([`Span`]). Text is given as CoreDNS reads
//! it, without quotes; [`Span::range`] gives it as written.

use crate::node::{BlockNode, DirectiveNode, Item, Part, ServerNode, snippet_name};
use crate::source::Source;
use crate::span::Span;
use std::fmt;
use std::sync::Arc;

/// One file in the language of CoreDNS's configuration, with every byte of it.
///
/// Made by [`crate::parse`]; never changes ([`Corefile::edit`] makes a new one); printed as it was read.
///
/// ```
/// let text = "# my zones\nexample.org {\n\terrors # loud\n}\n. { }\n";
/// let file = corefile::parse(text)?;
/// assert_eq!(file.servers().count(), 2);
/// assert_eq!(file.to_string(), text);
/// # Ok::<(), corefile::ParseError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corefile {
    pub(crate) source: Arc<Source>,
    pub(crate) items: Vec<Item>,
}

impl Corefile {
    /// The text, byte for byte as it was read.
    pub fn source(&self) -> &str {
        &self.source.text
    }

    /// The name given when it was read; `Corefile` if none was.
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// The servers of this file itself, not those it imports.
    ///
    /// ```
    /// let file = corefile::parse("a.org, b.org {\n}\n(shared) {\n errors\n}\n")?;
    /// let keys: Vec<_> = file.servers().map(|server| server.keys()).collect();
    /// assert_eq!(keys, [["a.org", "b.org"]]);
    /// # Ok::<(), corefile::ParseError>(())
    /// ```
    pub fn servers(&self) -> impl Iterator<Item = Server<'_>> {
        self.items.iter().filter_map(|item| match item {
            Item::Server(node) => Some(Server { file: self, node }),
            _ => None,
        })
    }

    /// The snippets that this file defines.
    ///
    /// ```
    /// let file = corefile::parse("(shared) {\n    errors\n}\n. {\n    import shared\n}\n")?;
    /// let shared = file.snippets().next().unwrap();
    /// assert_eq!((shared.name(), shared.directives()[0].name()), ("shared", "errors"));
    /// # Ok::<(), corefile::ParseError>(())
    /// ```
    pub fn snippets(&self) -> impl Iterator<Item = Snippet<'_>> {
        self.items.iter().filter_map(|item| match item {
            Item::Snippet(node) => Some(Snippet { file: self, node }),
            _ => None,
        })
    }

    /// The imports that stand outside servers.
    pub fn imports(&self) -> impl Iterator<Item = Directive<'_>> {
        self.items.iter().filter_map(|item| match item {
            Item::Import(node) => Some(Directive { file: self, node }),
            _ => None,
        })
    }

    fn directives<'a>(&'a self, nodes: &'a [DirectiveNode]) -> Vec<Directive<'a>> {
        nodes.iter().map(|node| Directive { file: self, node }).collect()
    }
}

impl fmt::Display for Corefile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source.text)
    }
}

/// A server: the zones and ports it answers on, and the plugins that answer.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    pub(crate) file: &'a Corefile,
    pub(crate) node: &'a ServerNode,
}

impl<'a> Server<'a> {
    /// The addresses, without the commas between them. Empty for a block that CoreDNS ignores.
    pub fn keys(&self) -> Vec<&'a str> {
        let keys = self.node.header.iter().map(|&index| self.file.source.token_text(index));
        keys.filter(|key| !key.is_empty()).map(|key| key.strip_suffix(',').unwrap_or(key)).collect()
    }

    /// The plugins and imports, in the order of the file.
    pub fn directives(&self) -> Vec<Directive<'a>> {
        self.file.directives(&self.node.entries)
    }

    /// The first plugin of that name.
    ///
    /// ```
    /// let file = corefile::parse(". {\n    forward . 1.1.1.1\n}\n")?;
    /// let server = file.servers().next().unwrap();
    /// assert_eq!(server.directive("forward").unwrap().args(), [".", "1.1.1.1"]);
    /// assert!(server.directive("log").is_none());
    /// # Ok::<(), corefile::ParseError>(())
    /// ```
    pub fn directive(&self, name: &str) -> Option<Directive<'a>> {
        self.node
            .entries
            .iter()
            .map(|node| Directive { file: self.file, node })
            .find(|directive| !directive.is_import() && directive.name() == name)
    }

    /// From its first address to its closing brace.
    pub fn span(&self) -> Span {
        self.file.source.span(self.node.first_token(), self.node.last_token())
    }

    /// Whether it stands in braces. A file with one server needs none.
    pub fn has_braces(&self) -> bool {
        self.node.open.is_some()
    }
}

/// Lines under a name, for `import`.
#[derive(Debug, Clone, Copy)]
pub struct Snippet<'a> {
    file: &'a Corefile,
    node: &'a ServerNode,
}

impl<'a> Snippet<'a> {
    /// The name, without parentheses.
    pub fn name(&self) -> &'a str {
        let mut keys = self.node.header.iter().map(|&index| self.file.source.token_text(index));
        keys.find_map(snippet_name).unwrap_or_default()
    }

    /// Its lines.
    pub fn directives(&self) -> Vec<Directive<'a>> {
        self.file.directives(&self.node.entries)
    }

    /// From its name to its closing brace.
    pub fn span(&self) -> Span {
        self.file.source.span(self.node.first_token(), self.node.last_token())
    }
}

/// A plugin with its arguments and blocks; or, inside such a block, a line of it.
#[derive(Debug, Clone, Copy)]
pub struct Directive<'a> {
    pub(crate) file: &'a Corefile,
    pub(crate) node: &'a DirectiveNode,
}

impl<'a> Directive<'a> {
    /// Its first word; empty for a bare block inside a block.
    pub fn name(&self) -> &'a str {
        match self.node.parts.first() {
            Some(Part::Word(index)) => self.file.source.token_text(*index),
            _ => "",
        }
    }

    /// The words after the name and outside blocks.
    pub fn args(&self) -> Vec<&'a str> {
        self.words().skip(1).map(|index| self.file.source.token_text(index)).collect()
    }

    /// Where each of [`Self::args`] is written.
    pub fn arg_spans(&self) -> Vec<Span> {
        self.words().skip(1).map(|index| self.file.source.span(index, index)).collect()
    }

    /// The lines inside its blocks (nearly always one block or none).
    ///
    /// ```
    /// let file = corefile::parse(". {\n    cache 30 {\n        success 9984 30\n        prefetch 2\n    }\n}\n")?;
    /// let cache = file.servers().next().unwrap().directive("cache").unwrap();
    /// let names: Vec<_> = cache.properties().iter().map(|line| line.name()).collect();
    /// assert_eq!(names, ["success", "prefetch"]);
    /// # Ok::<(), corefile::ParseError>(())
    /// ```
    pub fn properties(&self) -> Vec<Directive<'a>> {
        let blocks = self.blocks().flat_map(|block| &block.entries);
        blocks.map(|node| Directive { file: self.file, node }).collect()
    }

    /// The first line of that name inside its blocks.
    pub fn property(&self, name: &str) -> Option<Directive<'a>> {
        self.properties().into_iter().find(|line| line.name() == name)
    }

    /// Whether it has a block.
    pub fn has_block(&self) -> bool {
        self.blocks().next().is_some()
    }

    /// Whether it is an `import`, which CoreDNS replaces by a snippet or by files.
    pub fn is_import(&self) -> bool {
        self.node.is_import
    }

    /// From its name to its last word or brace.
    pub fn span(&self) -> Span {
        self.file.source.span(self.node.first_token(), self.node.last_token())
    }

    fn words(&self) -> impl Iterator<Item = usize> + use<'a> {
        self.node.parts.iter().filter_map(|part| match part {
            Part::Word(index) => Some(*index),
            Part::Block(_) => None,
        })
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = &'a BlockNode> + use<'a> {
        self.node.parts.iter().filter_map(|part| match part {
            Part::Block(block) => Some(block),
            Part::Word(_) => None,
        })
    }
}
