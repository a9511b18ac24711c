//! `cache`: how long answers are kept, and stale ones served.

use super::super::dispenser::{Outcome, refuse};
use super::super::plugin::Use;
use super::super::values;
use super::SECOND;
use crate::expand::Word;
use crate::knowledge::Kind;
use crate::version::Version;

/// How long stale answers are served, and when they are looked up again.
pub(super) fn serve_stale(name: &Word, arguments: &[&Word], version: Version) -> Outcome {
    let most = match version {
        v if v >= Version::new(1, 14, 7) => 5,
        v if v >= Version::new(1, 14, 4) => 3,
        v if v >= Version::new(1, 9, 2) => 2,
        _ => 1,
    };
    let wrong_count = || refuse(name, "Wrong argument count or unexpected line ending after 'serve_stale'");
    if arguments.len() > most {
        return Err(wrong_count());
    }
    let not_negative = |word: &Word, most| {
        values::check(&Kind::DurationUpTo(most), word.text(), version).map_err(|message| refuse(word, message))
    };
    let Some((up_to, rest)) = arguments.split_first() else { return Ok(()) };
    not_negative(up_to, i64::MAX)?;
    let Some((mode, mut rest)) = rest.split_first() else { return Ok(()) };
    let verify = match mode.text().to_lowercase().as_str() {
        "verify" => true,
        "immediate" => false,
        other => return Err(refuse(mode, format!("invalid value for serve_stale refresh mode: {other}"))),
    };
    if let (true, Some((timeout, after))) = (verify, rest.split_first()) {
        not_negative(timeout, i64::MAX)?;
        rest = after;
    }
    if rest.is_empty() {
        return Ok(());
    }
    if version < Version::new(1, 14, 7) {
        return Err(refuse(rest[0], "serve_stale timeout is only valid with the verify refresh mode"));
    }
    let [ttl, recheck @ ..] = rest else { return Ok(()) };
    not_negative(ttl, i64::from(u32::MAX))?;
    if values::duration(ttl.text()).is_ok_and(|ttl| ttl % SECOND != 0) {
        return Err(refuse(ttl, "serve_stale response TTL must be a whole number of seconds"));
    }
    match recheck {
        [] => Ok(()),
        [recheck] => not_negative(recheck, 300),
        _ => Err(wrong_count()),
    }
}

pub(super) fn after_use(this: &Use<'_>, version: Version) -> Outcome {
    let mut zones = this.arguments.as_slice();
    if let Some((first, rest)) = zones.split_first()
        && let Ok(ttl) = values::integer(first.text())
    {
        if ttl <= 0 {
            return Err(refuse(first, format!("cache TTL can not be zero or negative: {ttl}")));
        }
        zones = rest;
    }
    // Before 1.11.1 `keepttl` counted the arguments of the plugin instead of its own.
    if let Some((keepttl, _)) = this.property("keepttl")
        && version < Version::new(1, 11, 1)
        && !zones.is_empty()
    {
        return Err(refuse(keepttl, "Wrong argument count or unexpected line ending after 'keepttl'"));
    }
    match this.property("serve_stale_policy") {
        Some((policy, _)) if !this.has("serve_stale") => Err(refuse(policy, "serve_stale_policy requires serve_stale")),
        _ => Ok(()),
    }
}
