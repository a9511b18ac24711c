//! Takes a Corefile from one release of CoreDNS to another, up or down, in place.
//!
//! Only the lines that have to change are changed. Where a change would make CoreDNS answer differently, nothing is
//! changed and the reason is given ([`Held`]). The result has passed the check of the target.

mod proxy;
mod rules;
mod suggest;

pub use suggest::Suggestion;

use crate::check::{CheckOptions, Finding, Severity};
use crate::error::ParseError;
use crate::knowledge::Knowledge;
use crate::limits::Limits;
use crate::parser::parse_named;
use crate::tree::{Corefile, Directive};
use crate::version::Version;
use std::fmt;

/// What kind of thing a [`Notice`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoticeKind {
    /// A line says the same in other words.
    Rewritten,
    /// A line is gone: the target does not know it, and answers are the same without it.
    Removed,
    /// CoreDNS itself behaves differently, whatever the file says.
    Behaviour,
}

/// Something to know about a migration that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What kind of thing.
    pub kind: NoticeKind,
    /// The line of the text that was migrated, if it is about one.
    pub line: Option<usize>,
    /// What happened.
    pub message: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// A migration that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// The text for the target. The same text, byte for byte, if nothing had to change.
    pub text: String,
    /// What was changed, and what CoreDNS itself does differently.
    pub notices: Vec<Notice>,
    /// Warnings and notes of the target's check.
    pub findings: Vec<Finding>,
}

/// Why a migration was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The line of the text, if it is about one.
    pub line: Option<usize>,
    /// What stands in the way.
    pub message: String,
    /// What to do.
    pub remedy: Option<String>,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)?;
        self.remedy.as_ref().map_or(Ok(()), |remedy| write!(f, " ({remedy})"))
    }
}

/// A migration that was not made. The file is as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Held {
    /// The text is no Corefile.
    Unreadable(ParseError),
    /// The target would answer differently or refuse to start.
    Because(Vec<Reason>),
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::Because(reasons) => {
                let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                f.write_str(&reasons.join("; "))
            }
        }
    }
}

impl std::error::Error for Held {}

/// What the rules work on.
struct Work<'a> {
    edit: crate::edit::Edit<'a>,
    notices: Vec<Notice>,
    reasons: Vec<Reason>,
    from: Version,
    to: Version,
}

impl Work<'_> {
    fn note(&mut self, kind: NoticeKind, directive: Directive<'_>, message: impl Into<String>) {
        let line = Some(directive.span().start.line);
        self.notices.push(Notice { kind, line, message: message.into() });
    }

    fn hold(&mut self, directive: Directive<'_>, message: impl Into<String>, remedy: &str) {
        let line = Some(directive.span().start.line);
        let remedy = (!remedy.is_empty()).then(|| remedy.to_owned());
        self.reasons.push(Reason { line, message: message.into(), remedy });
    }
}

/// Migrates a text. `from` is the release it runs with now; the target is that of `to`, which also says where imported
/// files and environment variables come from.
///
/// ```
/// use corefile::{CheckOptions, Version, migrate};
/// let text = ".:53 {\n    kubernetes cluster.local {\n        upstream # for external names\n        ttl 30\n    }\n    \
///             proxy . 8.8.8.8 {\n        policy first\n    }\n}\n";
/// let target = CheckOptions::new(Version::new(1, 14, 7));
/// let migration = migrate("Corefile", text, Version::new(1, 3, 1), &target)?;
/// assert_eq!(migration.text, ".:53 {\n    kubernetes cluster.local {\n        ttl 30\n    }\n    \
///             forward . 8.8.8.8 {\n        policy sequential\n    }\n}\n");
/// # Ok::<(), corefile::Held>(())
/// ```
pub fn migrate(name: &str, text: &str, from: Version, to: &CheckOptions<'_>) -> Result<Migration, Held> {
    let file = parse_named(name, text, &Limits::default()).map_err(Held::Unreadable)?;
    let target = to.version();
    let mut work = Work { edit: file.edit(), notices: Vec::new(), reasons: Vec::new(), from, to: target };
    if from != target {
        for server in file.servers() {
            let directives = server.directives();
            proxy::count(&directives, &mut work);
            for directive in directives {
                rules::apply(directive, &mut work);
            }
        }
        for snippet in file.snippets() {
            for directive in snippet.directives() {
                rules::apply(directive, &mut work);
            }
        }
    }
    if !work.reasons.is_empty() {
        return Err(Held::Because(work.reasons));
    }
    let migrated = work
        .edit
        .finish()
        .map_err(|error| Held::Because(vec![Reason { line: None, message: error.to_string(), remedy: None }]))?;
    let report = migrated.check(to);
    let refusals: Vec<Reason> = report
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| Reason {
            line: (finding.file == name && migrated.source() == text).then_some(finding.position.line),
            message: format!("CoreDNS {target} refuses {}:{}: {}", finding.file, finding.position, finding.message),
            remedy: finding.remedy.clone(),
        })
        .collect();
    if !refusals.is_empty() {
        return Err(Held::Because(refusals));
    }
    let mut notices = work.notices;
    notices.extend(behaviour(&file, from, target));
    Ok(Migration { text: migrated.source().to_owned(), notices, findings: report.findings })
}

/// What CoreDNS does differently on the way, as far as the file's plugins are concerned.
fn behaviour(file: &Corefile, from: Version, to: Version) -> Vec<Notice> {
    let uses = |plugin: &str| {
        let of_servers = file.servers().flat_map(|server| server.directives());
        let of_snippets = file.snippets().flat_map(|snippet| snippet.directives());
        of_servers.chain(of_snippets).any(|directive| directive.name() == plugin)
    };
    let down = to < from;
    Knowledge::get()
        .changes(from.min(to), from.max(to))
        .into_iter()
        .filter(|change| change.plugin.as_deref().is_none_or(uses))
        .map(|change| {
            let about = change.plugin.as_deref().unwrap_or("CoreDNS");
            let evidence = change.evidence.as_ref().map(|evidence| format!(" ({evidence})")).unwrap_or_default();
            let message = if down {
                format!("before {}, this was not so: {about}: {}{evidence}", change.version, change.text)
            } else {
                format!("from {} on: {about}: {}{evidence}", change.version, change.text)
            };
            Notice { kind: NoticeKind::Behaviour, line: None, message }
        })
        .collect()
}
