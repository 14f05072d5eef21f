//! Conditional headers (REST reference: *Specifying conditional headers for Blob service operations*).

use chrono::{DateTime, SubsecRound, Utc};
use tenure_guest::azure::http_date;

use super::code::{Code, Failure};
use super::wire::Request;

/// The conditions of one request. Where a pair is given, the ETag decides and the date is not looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    matches: Option<Tag>,
    matches_none: Option<Tag>,
    modified_since: Option<DateTime<Utc>>,
    unmodified_since: Option<DateTime<Utc>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tag {
    Any,
    This(String),
}

impl Tag {
    fn covers(&self, etag: &str) -> bool {
        match self {
            Tag::Any => true,
            Tag::This(tag) => tag.trim_matches('"') == etag.trim_matches('"'),
        }
    }
}

impl Conditions {
    pub(super) fn read(request: &Request) -> Result<Conditions, Failure> {
        Ok(Conditions {
            matches: tag(request, "if-match")?,
            matches_none: tag(request, "if-none-match")?,
            modified_since: date(request, "if-modified-since")?,
            unmodified_since: date(request, "if-unmodified-since")?,
        })
    }

    /// `If-None-Match: *`: only if there is nothing yet.
    pub(super) fn only_create(&self) -> bool {
        self.matches_none == Some(Tag::Any)
    }

    /// For a write to what is not there.
    pub(super) fn admit_create(&self) -> Result<(), Failure> {
        if self.matches.is_some() { Err(Code::ConditionNotMet.into()) } else { Ok(()) }
    }

    /// For a write or a lease operation. `If-None-Match: *` on what exists fails like every condition (the reference
    /// names it for creating only).
    pub(super) fn admit_write(&self, etag: &str, modified: DateTime<Utc>) -> Result<(), Failure> {
        let met = self.is_wanted(etag, modified) && self.is_news(etag, modified);
        if met { Ok(()) } else { Err(Code::ConditionNotMet.into()) }
    }

    /// For a read: 412 when it is another one than wanted, 304 when it is the known one.
    pub(super) fn admit_read(&self, etag: &str, modified: DateTime<Utc>) -> Result<(), Failure> {
        if !self.is_wanted(etag, modified) {
            return Err(Code::ConditionNotMet.into());
        }
        if self.is_news(etag, modified) { Ok(()) } else { Err(Failure::not_modified()) }
    }

    /// `If-Match`, `If-Unmodified-Since`.
    fn is_wanted(&self, etag: &str, modified: DateTime<Utc>) -> bool {
        match (&self.matches, self.unmodified_since) {
            (Some(tag), _) => tag.covers(etag),
            // `Last-Modified` has whole seconds, so that is what a client can compare with.
            (None, Some(date)) => modified.trunc_subsecs(0) <= date,
            (None, None) => true,
        }
    }

    /// `If-None-Match`, `If-Modified-Since`.
    fn is_news(&self, etag: &str, modified: DateTime<Utc>) -> bool {
        match (&self.matches_none, self.modified_since) {
            (Some(tag), _) => !tag.covers(etag),
            (None, Some(date)) => modified.trunc_subsecs(0) > date,
            (None, None) => true,
        }
    }
}

/// One ETag or `*`: the service takes no lists.
fn tag(request: &Request, name: &str) -> Result<Option<Tag>, Failure> {
    match request.header(name) {
        None => Ok(None),
        Some("*") => Ok(Some(Tag::Any)),
        Some(value) if value.is_empty() || value.contains(',') => Err(Failure::header(name, value)),
        Some(value) => Ok(Some(Tag::This(value.to_owned()))),
    }
}

fn date(request: &Request, name: &str) -> Result<Option<DateTime<Utc>>, Failure> {
    let Some(value) = request.header(name) else { return Ok(None) };
    http_date::parse(value).map(Some).ok_or_else(|| Failure::header(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETAG: &str = "\"0x8D1\"";

    fn modified() -> DateTime<Utc> {
        // Half a second after what Last-Modified can say.
        DateTime::from_timestamp(1_767_323_045, 500_000_000).unwrap()
    }

    fn read(name: &str, value: &str) -> Conditions {
        Conditions::read(&Request::new("PUT", "/").with(name, value)).unwrap()
    }

    fn write(conditions: &Conditions) -> bool {
        conditions.admit_write(ETAG, modified()).is_ok()
    }

    #[test]
    fn etags() {
        assert!(write(&read("If-Match", ETAG)));
        assert!(write(&read("If-Match", "0x8D1")));
        assert!(write(&read("If-Match", "*")));
        assert!(!write(&read("If-Match", "\"0x8D2\"")));
        assert!(!write(&read("If-None-Match", ETAG)));
        assert!(!write(&read("If-None-Match", "*")));
        assert!(write(&read("If-None-Match", "\"0x8D2\"")));
    }

    #[test]
    fn dates_in_whole_seconds() {
        let (before, same) = ("Fri, 02 Jan 2026 03:04:04 GMT", "Fri, 02 Jan 2026 03:04:05 GMT");
        assert!(write(&read("If-Modified-Since", before)));
        assert!(!write(&read("If-Modified-Since", same)));
        assert!(!write(&read("If-Unmodified-Since", before)));
        assert!(write(&read("If-Unmodified-Since", same)));
    }

    #[test]
    fn the_etag_decides_over_the_date() {
        let request = Request::new("PUT", "/").with("If-Match", ETAG);
        let both = request.with("If-Unmodified-Since", "Fri, 02 Jan 2026 03:04:04 GMT");
        assert!(write(&Conditions::read(&both).unwrap()));
    }

    #[test]
    fn a_read_of_the_known_is_not_modified() {
        let failure = read("If-None-Match", ETAG).admit_read(ETAG, modified()).unwrap_err();
        assert_eq!(failure.answer(false, "", "").status, 304);
        let failure = read("If-Match", "\"0x8D2\"").admit_read(ETAG, modified()).unwrap_err();
        assert_eq!(failure.answer(false, "", "").status, 412);
    }

    #[test]
    fn nonsense_is_refused() {
        for (name, value) in
            [("If-Match", ""), ("If-None-Match", "\"a\", \"b\""), ("If-Modified-Since", "today")]
        {
            let failure =
                Conditions::read(&Request::new("PUT", "/").with(name, value)).unwrap_err();
            assert_eq!(failure.code, Code::InvalidHeaderValue, "{name}");
        }
    }
}
