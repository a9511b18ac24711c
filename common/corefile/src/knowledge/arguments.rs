//! What may stand behind the name of a plugin or property.

/// The words behind a name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arguments {
    /// What they may be, in order.
    pub slots: Vec<Slot>,
    /// Whether further words pass unread.
    pub open: bool,
    /// Whether not even a block may stand there.
    pub nothing: bool,
}

/// One word, or several of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// What each may be.
    pub kind: Kind,
    /// How many there may be.
    pub times: Times,
}

/// How many words of a kind there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Exactly one.
    One,
    /// One or none.
    Optional,
    /// Any number.
    Any,
    /// At least one.
    Some,
}

/// What a word may be.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// Anything.
    Word,
    /// A zone. What is none is passed over in silence.
    Zone,
    /// A file or directory of the pod.
    Path,
    /// An IP address.
    Ip,
    /// A network range.
    Cidr,
    /// `HOST:PORT`, where the host may be missing.
    HostPort,
    /// An IP address with or without a port.
    Address,
    /// A whole number in a range.
    Int(i64, i64),
    /// A whole number without sign, of that many bits.
    Uint(u32),
    /// A number in a range.
    Float(f64, f64),
    /// A truth value, as Go reads one.
    Bool,
    /// A whole number in a range, and `%`.
    Percent(i64, i64),
    /// A duration, as Go reads one.
    Duration,
    /// A duration above zero.
    DurationAboveZero,
    /// A duration of zero or more, up to so many seconds.
    DurationUpTo(i64),
    /// A duration of at least and at most so many seconds; a bare number is one too.
    Seconds(i64, i64),
    /// A type of DNS record, such as `AAAA`.
    RecordType,
    /// A class of DNS records, such as `IN`.
    Class,
    /// A response code, such as `NXDOMAIN`; in any case if so marked.
    ResponseCode {
        /// Whether small letters will do.
        any_case: bool,
    },
    /// A regular expression, as Go reads one.
    Regex,
    /// A template, as Go reads one.
    Template,
    /// One of these words.
    OneOf {
        /// The words.
        words: Vec<String>,
        /// Whether capitals do not matter.
        any_case: bool,
    },
}

// Floats here are bounds written in the data file, never NaN.
impl Eq for Kind {}

impl Arguments {
    /// The least and the greatest number of words.
    pub fn count(&self) -> (usize, usize) {
        let least = self.slots.iter().filter(|slot| matches!(slot.times, Times::One | Times::Some)).count();
        let many = self.open || self.slots.iter().any(|slot| matches!(slot.times, Times::Any | Times::Some));
        (least, if many { usize::MAX } else { self.slots.len() })
    }

    /// The kind of each of so many words: those that may be missing are filled from the left.
    pub fn kinds(&self, words: usize) -> impl Iterator<Item = &Kind> {
        let mut spare = words.saturating_sub(self.count().0);
        self.slots.iter().flat_map(move |slot| {
            let times = match slot.times {
                Times::One => 1,
                Times::Optional => usize::from(spare > 0),
                Times::Any => spare,
                Times::Some => 1 + spare,
            };
            let needed = usize::from(matches!(slot.times, Times::One | Times::Some));
            spare -= times - needed;
            std::iter::repeat_n(&slot.kind, times)
        })
    }
}
