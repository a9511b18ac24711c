//! Hands the words of a plugin to its rules, one by one, in the way CoreDNS does (`coredns/caddy: dispenser.go`).
//!
//! All uses of a plugin in a server are one stream. Lines are told by numbers alone, blocks by a depth that is kept
//! across calls: what stands where a plugin does not look for it is read as something else. That decides verdicts.

use crate::expand::Word;

/// Why a plugin refuses its configuration.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) message: String,
    pub(super) at: Word,
}

pub(super) type Outcome<T = ()> = Result<T, Refusal>;

pub(super) struct Dispenser<'a> {
    words: Vec<&'a Word>,
    /// One more than the index of the current word; zero before the first.
    cursor: usize,
    nesting: usize,
    /// CoreDNS from 1.13.0 steps into blocks inside blocks.
    steps_into_blocks: bool,
    /// Whether CoreDNS would look for the end of a block for ever.
    hangs: bool,
}

impl<'a> Dispenser<'a> {
    pub(super) fn new(words: Vec<&'a Word>, steps_into_blocks: bool) -> Self {
        Self { words, cursor: 0, nesting: 0, steps_into_blocks, hangs: false }
    }

    /// The current word. There is one: a plugin is looked at only where it is used.
    pub(super) fn word(&self) -> &'a Word {
        self.words[self.cursor.saturating_sub(1).min(self.words.len() - 1)]
    }

    pub(super) fn text(&self) -> &'a str {
        if self.cursor == 0 { "" } else { self.word().text() }
    }

    pub(super) fn next(&mut self) -> bool {
        let more = self.cursor < self.words.len();
        self.cursor += usize::from(more);
        more
    }

    /// The next word, if it is on the line of the current one.
    pub(super) fn next_argument(&mut self) -> bool {
        let on_line = match (self.cursor.checked_sub(1).map(|at| self.words[at]), self.words.get(self.cursor)) {
            (None, Some(_)) => true,
            (Some(current), Some(next)) => current.is_followed_on_line_by(next),
            (_, None) => false,
        };
        self.cursor += usize::from(on_line);
        on_line
    }

    /// All further words on the line, up to a `{`.
    pub(super) fn rest_of_line(&mut self) -> Vec<&'a Word> {
        let mut rest = Vec::new();
        while self.next_argument() {
            if self.text() == "{" {
                self.cursor -= 1;
                break;
            }
            rest.push(self.word());
        }
        rest
    }

    /// Opens the block on this line, or goes on in the one that is open. False at its end, and where there is none.
    pub(super) fn next_block(&mut self) -> bool {
        if self.nesting > 0 {
            if !self.next() {
                self.hangs = !self.steps_into_blocks;
                return false;
            }
            if self.text() == "{" && self.steps_into_blocks {
                self.cursor -= 1;
            } else if self.text() == "}" {
                self.nesting -= 1;
                return false;
            } else {
                return true;
            }
        }
        if !self.next_argument() {
            return false;
        }
        if self.text() != "{" {
            self.cursor -= 1;
            return false;
        }
        if !self.next() || self.text() == "}" {
            return false; // closed at once
        }
        self.nesting += 1;
        true
    }

    /// Whether CoreDNS before 1.13.0 would never come to an end here.
    pub(super) fn hangs(&self) -> bool {
        self.hangs
    }

    /// A refusal at the current word.
    pub(super) fn refuse(&self, message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), at: self.word().clone() }
    }

    /// The refusal of a wrong number of arguments.
    pub(super) fn wrong_count(&self) -> Refusal {
        if self.text() == "{" {
            return self.refuse("Unexpected token '{', expecting argument");
        }
        self.refuse(format!("Wrong argument count or unexpected line ending after '{}'", self.text()))
    }

    pub(super) fn unknown_property(&self) -> Refusal {
        self.refuse(format!("unknown property '{}'", self.text()))
    }
}

/// A refusal at a given word.
pub(super) fn refuse(at: &Word, message: impl Into<String>) -> Refusal {
    Refusal { message: message.into(), at: at.clone() }
}
