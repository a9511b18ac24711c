//! Versions of CoreDNS, also out of image tags.

use std::fmt;

/// The three numbers of a release.
///
/// ```
/// use corefile::Version;
/// assert!(Version::new(1, 9, 4) < Version::new(1, 14, 0));
/// assert_eq!(Version::new(1, 12, 1).to_string(), "1.12.1");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Third number.
    pub patch: u16,
}

impl Version {
    /// A version from its numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// Reads a version or an image tag: an optional `v`, three numbers, an optional suffix of a vendor.
    ///
    /// ```
    /// use corefile::Version;
    /// assert_eq!(Version::parse("v1.11.1-eksbuild.8"), Some(Version::new(1, 11, 1)));
    /// assert_eq!(Version::parse("1.9.3_vmware.2"), Some(Version::new(1, 9, 3)));
    /// assert_eq!(Version::parse("sha256:0123"), None);
    /// assert_eq!(Version::parse("1.9"), None);
    /// ```
    pub fn parse(tag: &str) -> Option<Self> {
        let tag = tag.strip_prefix('v').unwrap_or(tag);
        let end = tag.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(tag.len());
        let (numbers, suffix) = tag.split_at(end);
        if !suffix.is_empty() && !suffix.starts_with(['-', '_', '+']) {
            return None;
        }
        let mut numbers = numbers.split('.').map(|number| number.parse().ok());
        match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
            (Some(major), Some(minor), Some(patch), None) => Some(Self::new(major?, minor?, patch?)),
            _ => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl std::str::FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        Self::parse(text).ok_or_else(|| VersionError(text.to_owned()))
    }
}

/// A text that is no version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionError(String);

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no CoreDNS version such as 1.14.6", self.0)
    }
}

impl std::error::Error for VersionError {}
