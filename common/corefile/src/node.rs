//! The bare syntax tree: what belongs to what, as indices into the file's tokens. Read through [`crate::tree`].

/// Something at the top of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Server(ServerNode),
    Snippet(ServerNode),
    Import(DirectiveNode),
}

/// Addresses and what they serve; for a snippet, its name and its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerNode {
    pub(crate) header: Vec<usize>,
    pub(crate) open: Option<usize>,
    pub(crate) entries: Vec<DirectiveNode>,
    /// May be missing in a file without braces, and at the end of a file after an inner `}`. May be there without
    /// `open`: a stray `}` ends a server that has no braces.
    pub(crate) close: Option<usize>,
}

/// A plugin, or a line in a block of one. Never without parts; without a word first only inside blocks and snippets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectiveNode {
    pub(crate) is_import: bool,
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Word(usize),
    Block(BlockNode),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockNode {
    pub(crate) open: usize,
    pub(crate) entries: Vec<DirectiveNode>,
    pub(crate) close: usize,
}

impl Part {
    pub(crate) fn first_token(&self) -> usize {
        match self {
            Self::Word(index) => *index,
            Self::Block(block) => block.open,
        }
    }

    pub(crate) fn last_token(&self) -> usize {
        match self {
            Self::Word(index) => *index,
            Self::Block(block) => block.close,
        }
    }
}

impl DirectiveNode {
    pub(crate) fn first_token(&self) -> usize {
        self.parts.first().map_or(0, Part::first_token)
    }

    pub(crate) fn last_token(&self) -> usize {
        self.parts.last().map_or(0, Part::last_token)
    }
}

impl ServerNode {
    pub(crate) fn first_token(&self) -> usize {
        let entry = || self.entries.first().map(DirectiveNode::first_token);
        self.header.first().copied().or(self.open).or_else(entry).or(self.close).unwrap_or(0)
    }

    pub(crate) fn last_token(&self) -> usize {
        let entry = || self.entries.last().map(DirectiveNode::last_token);
        self.close.or_else(entry).or(self.open).or_else(|| self.header.last().copied()).unwrap_or(0)
    }
}

/// The name in `(name)`.
pub(crate) fn snippet_name(key: &str) -> Option<&str> {
    key.strip_prefix('(')?.strip_suffix(')')
}
