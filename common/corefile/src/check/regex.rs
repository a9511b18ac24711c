//! Whether Go's `regexp` takes a pattern, and how many groups it has. The syntax of RE2; nothing is matched.

use crate::version::Version;

/// Go refuses a repetition of more than this.
const MAX_REPEAT: u32 = 1000;
/// CoreDNS from 1.14.0 refuses longer patterns.
const MAX_BYTES: usize = 10_000;
/// Go refuses deeper nesting.
const MAX_DEPTH: usize = 1000;

/// The number of groups, or what is wrong.
pub(super) fn groups(pattern: &str, version: Version) -> Result<usize, String> {
    if pattern.len() > MAX_BYTES && version >= Version::new(1, 14, 0) {
        return Err(format!("regex pattern too long: {} > {MAX_BYTES}", pattern.len()));
    }
    let mut reader = Reader { chars: pattern.chars().collect(), at: 0, groups: 0, depth: 0 };
    reader.read().map_err(|what| format!("error parsing regexp '{pattern}': {what}"))?;
    Ok(reader.groups)
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    groups: usize,
    depth: usize,
}

type Step = Result<(), &'static str>;

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, text: &str) -> bool {
        let fits = text.chars().enumerate().all(|(offset, c)| self.chars.get(self.at + offset) == Some(&c));
        self.at += if fits { text.chars().count() } else { 0 };
        fits
    }

    /// The whole pattern. Groups are counted by depth: nothing is recursive here.
    fn read(&mut self) -> Step {
        let mut repeatable = false; // whether a repetition may follow
        let mut repeated = false; // whether one has just been read
        while let Some(c) = self.peek() {
            let was_repeated = std::mem::take(&mut repeated);
            self.at += 1;
            match c {
                '(' => repeatable &= !self.open()?, // flags alone are no group
                ')' => {
                    self.depth = self.depth.checked_sub(1).ok_or("unexpected )")?;
                    repeatable = true;
                }
                '|' => repeatable = false,
                '[' => {
                    self.class()?;
                    repeatable = true;
                }
                '\\' => {
                    if self.take("Q") {
                        while self.at < self.chars.len() && !self.take("\\E") {
                            self.at += 1;
                            repeatable = true;
                        }
                    } else {
                        self.escape(false)?;
                        repeatable = true;
                    }
                }
                '*' | '+' | '?' => {
                    self.repeat(repeatable, was_repeated)?;
                    repeated = true;
                }
                '{' if self.count()? => {
                    self.repeat(repeatable, was_repeated)?;
                    repeated = true;
                }
                _ => repeatable = true, // also a brace that opens no repetition
            }
        }
        if self.depth > 0 { Err("missing closing )") } else { Ok(()) }
    }

    fn repeat(&mut self, repeatable: bool, was_repeated: bool) -> Step {
        if !repeatable {
            return Err("missing argument to repetition operator");
        }
        if was_repeated {
            return Err("invalid nested repetition operator");
        }
        self.take("?"); // as few as possible
        Ok(())
    }

    /// After a `(`. False if it only sets flags for what follows.
    fn open(&mut self) -> Result<bool, &'static str> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("expression nests too deeply");
        }
        if !self.take("?") {
            self.groups += 1;
            return Ok(true);
        }
        if self.take("P<") || self.take("<") {
            let start = self.at;
            while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                self.at += 1;
            }
            if self.at == start || !self.take(">") {
                return Err("invalid named capture");
            }
            self.groups += 1;
            return Ok(true);
        }
        let mut negative = false;
        let mut after_sign = true;
        loop {
            let c = self.peek().ok_or("missing argument to flags")?;
            self.at += 1;
            match c {
                'i' | 'm' | 's' | 'U' => after_sign = true,
                '-' if !negative => (negative, after_sign) = (true, false),
                ':' | ')' if after_sign => {
                    self.depth -= usize::from(c == ')');
                    return Ok(c == ':');
                }
                _ => return Err("invalid or unsupported Perl syntax"),
            }
        }
    }

    /// The rest of `{n,m}`. False if it is no repetition, which makes the brace a literal.
    fn count(&mut self) -> Result<bool, &'static str> {
        let start = self.at;
        let low = self.number();
        let high = match (low, self.take(",")) {
            (Some(_), true) if self.peek() == Some('}') => low,
            (Some(_), true) => self.number(),
            (low, _) => low,
        };
        let (Some(low), Some(high), true) = (low, high, self.take("}")) else {
            self.at = start;
            return Ok(false);
        };
        if low > MAX_REPEAT || high > MAX_REPEAT || low > high { Err("invalid repeat count") } else { Ok(true) }
    }

    fn number(&mut self) -> Option<u32> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        let digits: String = self.chars[start..self.at].iter().collect();
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        if digits.len() > 8 { Some(u32::MAX) } else { digits.parse().ok() }
    }

    /// After a backslash. Gives the character it stands for, if it stands for one.
    fn escape(&mut self, in_class: bool) -> Result<Option<char>, &'static str> {
        let c = self.peek().ok_or("trailing backslash at end of expression")?;
        self.at += 1;
        match c {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Ok(None),
            'A' | 'z' | 'b' | 'B' | 'C' if !in_class && c != 'C' => Ok(None),
            'a' => Ok(Some('\u{7}')),
            'f' => Ok(Some('\u{c}')),
            'n' => Ok(Some('\n')),
            'r' => Ok(Some('\r')),
            't' => Ok(Some('\t')),
            'v' => Ok(Some('\u{b}')),
            'p' | 'P' => self.unicode_class(),
            'x' => self.hexadecimal(),
            '0'..='7' => self.octal(c),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(Some(c)),
            _ => Err("invalid escape sequence"),
        }
    }

    fn unicode_class(&mut self) -> Result<Option<char>, &'static str> {
        let wrong = "invalid character class range";
        if !self.take("{") {
            let known = self.peek().is_some_and(|c| "LMNPSZC".contains(c));
            self.at += 1;
            return if known { Ok(None) } else { Err(wrong) };
        }
        let start = self.at;
        while self.peek().is_some_and(|c| c != '}') {
            self.at += 1;
        }
        let named = self.at > start;
        if self.take("}") && named { Ok(None) } else { Err(wrong) }
    }

    fn hexadecimal(&mut self) -> Result<Option<char>, &'static str> {
        let wrong = "invalid escape sequence";
        let braces = self.take("{");
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_hexdigit()) && (braces || self.at < start + 2) {
            self.at += 1;
        }
        let digits: String = self.chars[start..self.at].iter().collect();
        let complete = if braces { !digits.is_empty() && self.take("}") } else { digits.len() == 2 };
        let number = u32::from_str_radix(&digits, 16).ok().filter(|&number| complete && number <= 0x0010_ffff);
        number.map(|number| char::from_u32(number).or(Some('\u{fffd}'))).ok_or(wrong)
    }

    fn octal(&mut self, first: char) -> Result<Option<char>, &'static str> {
        let is_octal = |c: Option<char>| c.is_some_and(|c| ('0'..='7').contains(&c));
        if first != '0' && !is_octal(self.peek()) {
            return Err("invalid escape sequence"); // a back-reference
        }
        let mut number = first.to_digit(8).unwrap_or(0);
        for _ in 0..2 {
            if let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) {
                number = number * 8 + digit;
                self.at += 1;
            }
        }
        Ok(char::from_u32(number))
    }

    /// After a `[`.
    fn class(&mut self) -> Step {
        let missing = "missing closing ]";
        self.take("^");
        let mut first = true;
        loop {
            let c = self.peek().ok_or(missing)?;
            if c == ']' && !first {
                self.at += 1;
                return Ok(());
            }
            first = false;
            if c == '[' && self.chars.get(self.at + 1) == Some(&':') && self.posix_class()? {
                continue;
            }
            let Some(low) = self.class_char()? else { continue };
            // A range, unless the dash is the last character of the class.
            if self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|&next| next != ']') {
                self.at += 1;
                match self.class_char()? {
                    Some(high) if low <= high => {}
                    _ => return Err("invalid character class range"),
                }
            }
        }
    }

    fn class_char(&mut self) -> Result<Option<char>, &'static str> {
        let c = self.peek().ok_or("missing closing ]")?;
        self.at += 1;
        if c == '\\' { self.escape(true) } else { Ok(Some(c)) }
    }

    /// `[:alpha:]` and its like. False if the bracket is a literal.
    fn posix_class(&mut self) -> Result<bool, &'static str> {
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
            "word", "xdigit",
        ];
        let rest: String = self.chars[self.at + 2..].iter().take(12).collect();
        let Some((name, _)) = rest.split_once(":]") else { return Ok(false) };
        if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err("invalid character class range");
        }
        self.at += 2 + name.chars().count() + 2;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_judged_as_go_judges_them() {
        let version = Version::new(1, 14, 6);
        for (pattern, expected) in [
            (".*", 0),
            ("(a)(?:b)(?P<n>c)(?<m>d)", 3),
            ("(.*)\\.example\\.(com|org)", 2),
            ("[]a-z^-]+?", 0),
            ("a{2,3}", 0),
            ("{", 0),
            ("a{,2}", 0),
            ("a{1", 0),
            ("(?i)x|(?s-m:y)", 0),
            ("[[:alpha:]\\d_-]", 0),
            ("\\x{263a}\\pL\\p{Greek}", 0),
            ("\\Q(*\\E", 0),
            ("", 0),
            ("a||b", 0),
            ("()", 1),
            ("\\012", 0),
            ("^*", 0),
            ("a*|b", 0),
        ] {
            assert_eq!(groups(pattern, version), Ok(expected), "{pattern}");
        }
        for pattern in [
            "(",
            ")",
            "a)",
            "[",
            "[a",
            "[z-a]",
            "*",
            "a**",
            "a+*",
            "(*a)",
            "|*",
            "\\",
            "\\y",
            "\\1",
            "(?=a)",
            "(?P<>a)",
            "(?P<a",
            "a{1001}",
            "a{3,2}",
            "[[:foo:]]",
            "\\x{zz}",
            "\\p",
            "(?i",
            "[\\b]",
        ] {
            assert!(groups(pattern, version).is_err(), "{pattern}");
        }
        assert!(groups(&"a".repeat(10_001), version).is_err());
        assert!(groups(&"a".repeat(10_001), Version::new(1, 13, 2)).is_ok());
    }
}
