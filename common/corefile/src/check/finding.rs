//! One thing that a check found, and how it is shown.

use crate::error::ParseError;
use crate::expand::Word;
use crate::span::Position;
use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// CoreDNS refuses to start.
    Error,
    /// CoreDNS starts, but does not do what the file says.
    Warning,
    /// Worth knowing.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

macro_rules! codes {
    ($($name:ident $text:literal $severity:ident $doc:literal;)*) => {
        /// What kind of thing was found. Codes are stable: scripts may rely on them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $doc] $name,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code as text.
            ///
            /// ```
            /// assert_eq!(corefile::Code::UnknownPlugin.as_str(), "unknown-plugin");
            /// ```
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The severity of all findings of this code.
            pub fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }
        }
    };
}

codes! {
    Syntax "syntax" Error "The text is no Corefile.";
    Limit "limit" Error "The text is larger or deeper than this library reads.";
    UnknownPlugin "unknown-plugin" Error "A plugin that this CoreDNS does not have.";
    ServerKey "server-key" Error "An address of a server that is none.";
    PluginSetup "plugin-setup" Error "A plugin refuses its configuration.";
    ZoneTwice "zone-twice" Error "Two servers for one zone, port and address.";
    ZoneOverlap "zone-overlap" Error "Two servers for one zone and port, one bound to an address and one to all.";
    ListenerTwice "listener-twice" Error "A port that two plugins open, where this CoreDNS cannot share it.";
    Placeholder "placeholder" Error "A placeholder that nobody fills in.";
    Companion "companion" Error "A plugin that needs another one in its server, or another kind of server.";
    PlaceholderLeft "placeholder-left" Warning "A placeholder of NodeLocal DNS cache in a file that is not for it.";
    NoServers "no-servers" Warning "Nothing to serve: CoreDNS falls back to answering with the client's address.";
    ListenerShared "listener-shared" Warning "A port that two servers open: either one may answer a request.";
    BindShadow "bind-shadow" Warning "A server bound to an address hides one bound to all, on the same port.";
    ImportMatchesNothing "import-matches-nothing" Warning "A pattern of files that matches none.";
    UnsetVariable "unset-variable" Warning "An environment variable without a value.";
    Ignored "ignored" Warning "Something that this CoreDNS passes over in silence.";
    InvalidZone "invalid-zone" Warning "A zone that is none, passed over in silence.";
    ForwardShadowed "forward-shadowed" Warning "A forward that never gets a query, because an earlier one takes all.";
    HostsSwallows "hosts-swallows" Warning "hosts without fallthrough: names it does not know go no further.";
    ForwardLoop "forward-loop" Warning "Queries are forwarded to the server that they come from.";
    ProbeWithoutReady "probe-without-ready" Warning "Pods are probed for readiness on a port that ready does not open.";
    ProbeWithoutHealth "probe-without-health" Warning "Pods are probed for liveness on a port that health does not open.";
    BadRelease "bad-release" Warning "A release with a known fault.";
    RelativePath "relative-path" Warning "A relative path: it leads elsewhere from release to release.";
    InterfaceName "interface-name" Note "A name that has to be one of the node's network interfaces.";
    HostName "host-name" Note "A name that has to be found when CoreDNS starts.";
    NewerThanKnown "newer-than-known" Note "A release newer than all that are known here: judged by the newest known.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that was found.
///
/// Printed, it shows the line it is about, with a mark under the word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one sentence; where CoreDNS refuses, close to its words.
    pub message: String,
    /// The file, as it was named or found.
    pub file: String,
    /// Where in that file.
    pub position: Position,
    /// How many characters from there on it is about; zero if about no word.
    pub width: usize,
    /// The line in that file, if it is at hand.
    pub line_text: Option<String>,
    /// What to do.
    pub remedy: Option<String>,
}

impl Finding {
    pub(super) fn new(code: Code, word: &Word, message: impl Into<String>) -> Self {
        let mut finding = Self::at_position(code, word.file(), word.position(), message);
        finding.show(word.source(), word.range().len());
        finding
    }

    pub(super) fn at_position(code: Code, file: &str, position: Position, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            message: message.into(),
            file: file.to_owned(),
            position,
            width: 0,
            line_text: None,
            remedy: None,
        }
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Shows the line of an error in the main file.
    pub(super) fn take_line(&mut self, text: &str, error: &ParseError) {
        let rest = text.get(error.position.offset..).unwrap_or_default();
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.show(text, length);
    }

    fn show(&mut self, text: &str, bytes: usize) {
        let at = self.position.offset;
        let Some(before) = text.get(..at) else { return };
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        let word = text.get(at..at + bytes).and_then(|word| word.lines().next()).unwrap_or_default();
        self.width = word.chars().count();
        self.line_text = Some(line.trim_end().to_owned());
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}[{}]: {}", self.severity, self.code, self.message)?;
        let number = self.position.line.to_string();
        let margin = " ".repeat(number.len() + 1);
        writeln!(f, "{margin}--> {}:{}", self.file, self.position)?;
        if let Some(line) = &self.line_text {
            // Tabs are shown as they are, so the mark stands under the word whatever their width.
            let before: String = line
                .chars()
                .take(self.position.column.saturating_sub(1))
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            writeln!(f, "{margin} |\n {number} | {line}\n{margin} | {before}{}", "^".repeat(self.width.max(1)))?;
        }
        match &self.remedy {
            Some(remedy) => writeln!(f, "{margin} = help: {remedy}"),
            None => Ok(()),
        }
    }
}
