//! Where lines begin and end, how they are indented, and what text makes new lines fit in.

use crate::node::{DirectiveNode, Item, Part};
use crate::tree::Corefile;
use std::ops::Range;

/// The look of one file.
#[derive(Debug, Clone)]
pub(super) struct Layout<'a> {
    pub(super) file: &'a Corefile,
    line_end: &'static str,
    /// One level of indent.
    unit: String,
}

impl<'a> Layout<'a> {
    pub(super) fn of(file: &'a Corefile) -> Self {
        let source = file.source();
        let crlf = source.find('\n').is_some_and(|at| source[..at].ends_with('\r'));
        let mut layout = Self { file, line_end: if crlf { "\r\n" } else { "\n" }, unit: "    ".to_owned() };
        if let Some(unit) = layout.find_unit() {
            layout.unit = unit;
        }
        layout
    }

    pub(super) fn is_of(&self, file: &Corefile) -> bool {
        std::ptr::eq(self.file, file)
    }

    pub(super) fn token(&self, index: usize) -> Range<usize> {
        self.file.source.span(index, index).range()
    }

    /// The first line in a block that is indented by more than the line that opens the block tells the unit.
    fn find_unit(&self) -> Option<String> {
        let nested = |node: &DirectiveNode| {
            node.parts.iter().find_map(|part| match part {
                Part::Block(block) => Some((block.open, block.entries.first()?.first_token())),
                Part::Word(_) => None,
            })
        };
        let servers = self.file.items.iter().filter_map(|item| match item {
            Item::Server(server) | Item::Snippet(server) => Some(server),
            Item::Import(_) => None,
        });
        let pairs = servers.flat_map(|server| {
            let own = server.open.zip(server.entries.first().map(DirectiveNode::first_token));
            own.into_iter().chain(server.entries.iter().filter_map(nested))
        });
        pairs
            .filter_map(|(open, entry)| {
                let outer = self.indent_at(self.token(open).start);
                self.indent_at(self.token(entry).start).strip_prefix(outer)
            })
            .find(|unit| !unit.is_empty())
            .map(str::to_owned)
    }

    fn line_start(&self, at: usize) -> usize {
        self.file.source()[..at].rfind('\n').map_or(0, |end| end + 1)
    }

    /// The end of the line, before its line end.
    fn line_stop(&self, at: usize) -> usize {
        let source = self.file.source();
        let stop = source[at..].find('\n').map_or(source.len(), |length| at + length);
        stop - usize::from(source[at..stop].ends_with('\r'))
    }

    /// Just after the line end.
    fn next_line(&self, at: usize) -> usize {
        let source = self.file.source();
        source[at..].find('\n').map_or(source.len(), |length| at + length + 1)
    }

    fn indent_at(&self, at: usize) -> &'a str {
        let line = &self.file.source()[self.line_start(at)..at];
        let line = line.trim_start_matches('\u{feff}');
        &line[..line.len() - line.trim_start().len()]
    }

    pub(super) fn is_blank(&self, range: Range<usize>) -> bool {
        self.file.source()[range].trim_matches('\u{feff}').trim().is_empty()
    }

    /// Where the blanks before `at` begin, on its line.
    pub(super) fn blanks_before(&self, at: usize) -> usize {
        let start = self.line_start(at);
        start + self.file.source()[start..at].trim_end().len()
    }

    fn starts_its_line(&self, at: usize) -> bool {
        self.is_blank(self.line_start(at)..at)
    }

    /// Whether nothing but a comment follows on the line.
    fn ends_its_line(&self, token: usize) -> bool {
        let end = self.token(token).end;
        self.file.source.tokens.get(token + 1).is_none_or(|next| next.span.start.offset >= self.line_stop(end))
    }

    /// Indent of a line in the place of this one: its own, or one level more if it is not the first on its line.
    pub(super) fn indent_for(&self, range: &Range<usize>) -> String {
        let indent = self.indent_at(range.start);
        if self.starts_its_line(range.start) { indent.to_owned() } else { format!("{indent}{}", self.unit) }
    }

    /// The whole lines of a plugin, if it has them to itself; else its bytes with the blanks before.
    pub(super) fn lines_of(&self, range: Range<usize>) -> Range<usize> {
        let tokens = &self.file.source.tokens;
        let after = tokens.partition_point(|token| token.span.start.offset < range.end);
        if !self.starts_its_line(range.start) || !self.ends_its_line(after.saturating_sub(1)) {
            return self.blanks_before(range.start)..range.end;
        }
        let (start, end) = (self.line_start(range.start), self.next_line(range.end));
        if end == range.end.max(self.line_stop(range.end)) && start > 0 {
            // The last line of a file without a final line end: the line end before it goes.
            let before = self.file.source()[..start].strip_suffix('\n').unwrap_or_default();
            return before.strip_suffix('\r').unwrap_or(before).len()..end;
        }
        start..end
    }

    /// The lines with this indent before each, four blanks turned into the file's unit, without a final line end.
    pub(super) fn indented(&self, lines: &str, indent: &str) -> String {
        let lines: Vec<String> = lines
            .lines()
            .map(|line| {
                let text = line.trim_start_matches("    ");
                let level = (line.len() - text.len()) / 4;
                if text.trim().is_empty() {
                    String::new()
                } else {
                    format!("{indent}{}{text}", self.unit.repeat(level))
                }
            })
            .collect();
        lines.join(self.line_end)
    }

    pub(super) fn before(&self, token: usize, lines: &str) -> (Range<usize>, String) {
        let range = self.token(token);
        let indent = self.indent_for(&range);
        let text = self.indented(lines, &indent);
        if !self.starts_its_line(range.start) {
            let text = format!("{0}{text}{0}{indent}", self.line_end);
            return (self.blanks_before(range.start)..range.start, text);
        }
        // Over the comments right above.
        let tokens = &self.file.source.tokens;
        let floor = token.checked_sub(1).map_or(0, |before| self.next_line(tokens[before].span.end));
        let mut start = self.line_start(range.start);
        while start > floor {
            let above = self.line_start(start - 1);
            if above < floor || !self.file.source()[above..start].trim_start().starts_with('#') {
                break;
            }
            start = above;
        }
        (start..start, format!("{text}{}", self.line_end))
    }

    pub(super) fn after(&self, range: Range<usize>, last: usize, lines: &str) -> (Range<usize>, String) {
        let indent = self.indent_for(&range);
        let text = self.indented(lines, &indent);
        if self.ends_its_line(last) {
            return self.below(range.end, &text);
        }
        // What follows on the line, such as a closing brace, moves to a line of its own.
        let next = self.token(last + 1).start;
        let outer = indent.strip_suffix(self.unit.as_str()).unwrap_or_default();
        (range.end..next, format!("{0}{text}{0}{outer}", self.line_end))
    }

    /// On the lines after the one of `at`, which need not have a line end.
    fn below(&self, at: usize, text: &str) -> (Range<usize>, String) {
        let next = self.next_line(at);
        let ends = self.file.source()[..next].ends_with('\n') && next > at;
        (next..next, if ends { format!("{text}{}", self.line_end) } else { format!("{}{text}", self.line_end) })
    }

    pub(super) fn in_empty_block(&self, open: usize, close: usize, lines: &str) -> (Range<usize>, String) {
        let outer = self.indent_at(self.token(open).start);
        let text = self.indented(lines, &format!("{outer}{}", self.unit));
        let close = self.token(close).start;
        if self.starts_its_line(close) {
            let at = self.line_start(close);
            return (at..at, format!("{text}{}", self.line_end));
        }
        (self.token(open).end..close, format!("{0}{text}{0}{outer}", self.line_end))
    }

    /// A brace after the last word, and the rest of the block after the comment beside it.
    pub(super) fn new_block(
        &self,
        range: Range<usize>,
        last: usize,
        lines: &str,
    ) -> ((Range<usize>, String), (Range<usize>, String)) {
        let indent = self.indent_for(&range);
        let text = self.indented(lines, &format!("{indent}{}", self.unit));
        let (end, line_end) = (range.end, self.line_end);
        if self.ends_its_line(last) {
            let block = format!("{text}{line_end}{indent}}}");
            return ((end..end, " {".to_owned()), self.below(end, &block));
        }
        let outer = indent.strip_suffix(self.unit.as_str()).unwrap_or_default();
        let rest = format!("{line_end}{text}{line_end}{indent}}}{line_end}{outer}");
        ((end..end, " {".to_owned()), (end..self.token(last + 1).start, rest))
    }

    pub(super) fn at_end(&self, lines: &str) -> (Range<usize>, String) {
        let source = self.file.source();
        let line_end = if source.is_empty() || source.ends_with('\n') { "" } else { self.line_end };
        let text = self.indented(lines, "");
        (source.len()..source.len(), format!("{line_end}{text}{}", self.line_end))
    }
}
