//! Versions as the field writes them: `v1.34.2+k3s1`, `1.11.1-eksbuild.8`, `v1.9.3_vmware.2`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Three numbers and what a vendor put behind them.
///
/// Order and ranges look at the three numbers only: a vendor's suffix says nothing about what a release can do, and
/// semver's pre-release rule would put `1.34.2-gke.100` before `1.34.2`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    /// First number.
    pub major: u64,
    /// Second number.
    pub minor: u64,
    /// Third number.
    pub patch: u64,
    /// What follows the numbers, with its separator; empty for upstream releases.
    pub suffix: String,
}

/// Text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no version (expected three numbers, e.g. `1.14.7` or `v1.34.2+k3s1`)")]
pub struct BadVersion(String);

impl Version {
    /// An upstream release.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self { major, minor, patch, suffix: String::new() }
    }

    /// The upstream release that this one is built from.
    #[must_use]
    pub fn upstream(&self) -> Self {
        Self::new(self.major, self.minor, self.patch)
    }

    /// Major and minor number, e.g. `1.34`.
    pub fn minor_line(&self) -> String {
        format!("{}.{}", self.major, self.minor)
    }

    /// Whether the three numbers lie in `range`.
    pub fn is_in(&self, range: &semver::VersionReq) -> bool {
        range.matches(&semver::Version::new(self.major, self.minor, self.patch))
    }
}

impl FromStr for Version {
    type Err = BadVersion;

    fn from_str(text: &str) -> Result<Self, BadVersion> {
        let bad = || BadVersion(text.chars().take(64).collect());
        let numbers = text.strip_prefix('v').unwrap_or(text);
        let end = numbers.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(numbers.len());
        let (numbers, suffix) = numbers.split_at(end);
        let is_suffix = suffix.starts_with(['-', '+', '_']) && (2..=64).contains(&suffix.len());
        if !suffix.is_empty() && !is_suffix {
            return Err(bad());
        }
        let numbers: Vec<u64> = numbers.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?;
        match numbers[..] {
            [major, minor, patch] => Ok(Self { major, minor, patch, suffix: suffix.to_owned() }),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Version {
    /// Without a leading `v`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}{}", self.major, self.minor, self.patch, self.suffix)
    }
}

impl TryFrom<String> for Version {
    type Error = BadVersion;

    fn try_from(text: String) -> Result<Self, BadVersion> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

/// The parts of a container image reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    /// Everything before tag and digest, the registry's port included.
    pub repository: &'a str,
    /// Tag, where there is one.
    pub tag: Option<&'a str>,
    /// Digest with its algorithm, where there is one.
    pub digest: Option<&'a str>,
}

impl<'a> Image<'a> {
    /// Splits an image reference; a registry's port is not taken for a tag, nor a digest for a version.
    pub fn parse(reference: &'a str) -> Self {
        let (name, digest) = match reference.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (reference, None),
        };
        let (repository, tag) = match name.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
            _ => (name, None),
        };
        Self { repository, tag, digest }
    }

    /// The version that the tag names.
    pub fn version(&self) -> Option<Version> {
        self.tag?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn vendor_suffixes_are_kept_and_do_not_count() {
        for (text, numbers, suffix) in [
            ("v1.34.2+k3s1", "1.34.2", "+k3s1"),
            ("1.11.1-eksbuild.8", "1.11.1", "-eksbuild.8"),
            ("v1.9.3_vmware.2", "1.9.3", "_vmware.2"),
            ("v1.33.1-gke.100", "1.33.1", "-gke.100"),
            ("v1.6.2-100", "1.6.2", "-100"),
        ] {
            let version: Version = text.parse().unwrap();
            assert_eq!(version.suffix, suffix);
            assert_eq!(version.upstream().to_string(), numbers);
        }
        let range = semver::VersionReq::parse(">=1.33.1").unwrap();
        assert!("v1.33.1-gke.100".parse::<Version>().unwrap().is_in(&range));
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "v", "1", "1.2", "1.2.3.4", "1.2.x", "latest", "1.2.3 ", "1.2.3-", "99999999999999999999.1.1"]
        {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_digest_is_no_version_and_a_port_is_no_tag() {
        let digest = Image::parse("registry:5000/coredns/coredns@sha256:abc");
        assert_eq!((digest.tag, digest.version()), (None, None));
        assert_eq!(Image::parse("registry:5000/coredns").tag, None);
        let both = Image::parse("registry:5000/coredns:v1.12.1@sha256:abc");
        assert_eq!(both.version(), Some(Version::new(1, 12, 1)));
        assert_eq!(both.repository, "registry:5000/coredns");
    }

    proptest! {
        #[test]
        fn printing_and_reading_agree(major in 0u64..100, minor in 0u64..100, patch in 0u64..100, suffix in "([-+_][a-z0-9.]{1,8})?") {
            let version = Version { major, minor, patch, suffix };
            prop_assert_eq!(version.to_string().parse::<Version>().unwrap(), version);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<Version>();
            let _ = Image::parse(&text).version();
        }
    }
}
