//! The files that `import` can reach, given by the caller, and the patterns that name several of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A file with this text.
    File(Cow<'a, str>),
    /// A directory: CoreDNS refuses to import one.
    Directory,
    /// Something that cannot be read, for this reason.
    Unreadable(String),
    /// Nothing.
    Missing,
}

/// Where imported files come from.
///
/// Paths are cleaned (no `.`, `..` or double slashes inside) and start where the name of the importing file starts: at
/// `/` if that is absolute, else at the folder that the name is relative to.
pub trait FileSource {
    /// What stands at `path`.
    fn entry(&self, path: &str) -> Entry<'_>;

    /// The names in a directory, hidden ones and directories included; none if it is no directory.
    fn names(&self, directory: &str) -> Vec<String>;
}

/// Files held in memory, such as the keys of ConfigMaps.
///
/// ```
/// use corefile::{Entry, FileSource, MemoryFiles};
/// let mut files = MemoryFiles::new();
/// files.add("/etc/coredns/custom/a.server", "a.org { }");
/// assert_eq!(files.entry("/etc/coredns/custom"), Entry::Directory);
/// assert_eq!(files.names("/etc/coredns/custom"), ["a.server"]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemoryFiles(BTreeMap<String, String>);

impl MemoryFiles {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    pub fn add(&mut self, path: &str, text: impl Into<String>) {
        self.0.insert(clean(path), text.into());
    }

    /// Adds a ConfigMap as kubelet mounts it: a file for each key, and the hidden directory `..data`, which makes
    /// `import custom/*` fail in a pod ("is a directory") although it looks right.
    ///
    /// ```
    /// use corefile::{FileSource, MemoryFiles};
    /// let mut files = MemoryFiles::new();
    /// files.add_config_map("custom", [("log.override", "log")]);
    /// assert_eq!(files.names("custom"), ["..data", "log.override"]);
    /// ```
    pub fn add_config_map<'a>(&mut self, directory: &str, data: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (key, text) in data {
            self.add(&format!("{directory}/{key}"), text);
            self.add(&format!("{directory}/..data/{key}"), text);
        }
    }
}

impl FileSource for MemoryFiles {
    fn entry(&self, path: &str) -> Entry<'_> {
        if let Some(text) = self.0.get(path) {
            return Entry::File(Cow::Borrowed(text));
        }
        let prefix = folder_prefix(path);
        if prefix.len() < 2 {
            return Entry::Directory; // the root, or where relative paths start
        }
        let mut below = self.0.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        if below.next().is_some() { Entry::Directory } else { Entry::Missing }
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let prefix = folder_prefix(directory);
        let below = self.0.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let mut names: Vec<String> =
            below.filter_map(|(path, _)| path[prefix.len()..].split('/').next()).map(str::to_owned).collect();
        names.dedup();
        names
    }
}

fn folder_prefix(directory: &str) -> String {
    match directory {
        "." | "" => String::new(),
        "/" => "/".to_owned(),
        other => format!("{other}/"),
    }
}

/// A pattern that means nothing, such as a lone `[`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadPattern;

/// Whether a path is a pattern rather than a name.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '[', '\\'])
}

/// The existing paths that a cleaned pattern matches, sorted.
pub(crate) fn glob(files: &dyn FileSource, pattern: &str) -> Result<Vec<String>, BadPattern> {
    if !is_pattern(pattern) {
        return Ok(match files.entry(pattern) {
            Entry::Missing => Vec::new(),
            _ => vec![pattern.to_owned()],
        });
    }
    matches(pattern, "")?;
    let (root, rest) = match pattern.strip_prefix('/') {
        Some(rest) => ("/", rest),
        None => ("", pattern),
    };
    let mut found = vec![root.to_owned()];
    for part in rest.split('/') {
        let mut next = Vec::new();
        for directory in &found {
            if is_pattern(part) {
                let mut names = files.names(if directory.is_empty() { "." } else { directory });
                names.sort_unstable();
                for name in names {
                    if matches(part, &name)? {
                        next.push(join(directory, &name));
                    }
                }
            } else {
                next.push(join(directory, part));
            }
        }
        found = next;
    }
    found.retain(|path| files.entry(path) != Entry::Missing);
    Ok(found)
}

/// One step of a path match: `*`, `?`, and `\` before a character that stands for itself.
fn matches(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    let mut literal: Vec<(char, bool)> = Vec::new(); // character, and whether it is a wildcard
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => literal.push((chars.next().ok_or(BadPattern)?, false)),
            '[' => return Err(BadPattern),
            c => literal.push((c, c == '*' || c == '?')),
        }
    }
    let fits = |pattern: &[(char, bool)], name: &[char]| {
        pattern.len() == name.len() && pattern.iter().zip(name).all(|(&(c, any), &n)| any || c == n)
    };
    let name: Vec<char> = name.chars().collect();
    // CoreDNS allows one star at most.
    Ok(match literal.iter().position(|&wildcard| wildcard == ('*', true)) {
        None => fits(&literal, &name),
        Some(star) => {
            let (before, after) = (&literal[..star], &literal[star + 1..]);
            name.len() >= before.len() + after.len()
                && fits(before, &name[..before.len()])
                && fits(after, &name[name.len() - after.len()..])
        }
    })
}

/// The folder that a file is in.
pub(crate) fn directory(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) => "/",
        Some(end) => &path[..end],
        None => "",
    }
}

/// A path with another below it, cleaned.
pub(crate) fn join(directory: &str, path: &str) -> String {
    if directory.is_empty() { clean(path) } else { clean(&format!("{directory}/{path}")) }
}

/// The shortest path of the same meaning.
pub(crate) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|&last| last != "..") => drop(parts.pop()),
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    match (rooted, parts.join("/")) {
        (true, path) => format!("/{path}"),
        (false, path) if path.is_empty() => ".".to_owned(),
        (false, path) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned() {
        for (path, clean_path) in [("a//b/./c/../d", "a/b/d"), ("/../a", "/a"), ("../a", "../a"), ("", "."), ("/", "/")]
        {
            assert_eq!(clean(path), clean_path);
        }
    }

    #[test]
    fn a_star_matches_inside_one_folder_and_hidden_names_too() {
        let mut files = MemoryFiles::new();
        for path in ["/c/b.server", "/c/a.server", "/c/x.override", "/c/.h.server", "/c/d/e.server"] {
            files.add(path, "");
        }
        assert_eq!(glob(&files, "/c/*.server").unwrap(), ["/c/.h.server", "/c/a.server", "/c/b.server"]);
        assert_eq!(glob(&files, "/c/?.override").unwrap(), ["/c/x.override"]);
        assert_eq!(glob(&files, "/*/e.server").unwrap(), Vec::<String>::new());
        assert_eq!(glob(&files, "/c/*/e.server").unwrap(), ["/c/d/e.server"]);
        assert_eq!(glob(&files, "/c/none").unwrap(), Vec::<String>::new());
        assert_eq!(glob(&files, "/c/[a"), Err(BadPattern));
    }
}
