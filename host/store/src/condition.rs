//! Conditional headers (REST reference: *Specifying conditional headers for Blob service
//! operations*).

use chrono::{DateTime, SubsecRound, Utc};
use tenure_azure::encoding;

use super::code::{Code, Failure};
use super::wire::Request;

/// The conditions of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
    if_modified_since: Option<DateTime<Utc>>,
    if_unmodified_since: Option<DateTime<Utc>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    Any,
    List(Vec<String>),
}

impl Tags {
    fn matches(&self, etag: &str) -> bool {
        match self {
            Tags::Any => true,
            Tags::List(tags) => tags.iter().any(|tag| tag == etag.trim_matches('"')),
        }
    }
}

impl Conditions {
    fn parse(request: &Request) -> Result<Conditions, Failure> {
        Ok(Conditions {
            if_match: tags(request, "if-match")?,
            if_none_match: tags(request, "if-none-match")?,
            if_modified_since: date(request, "if-modified-since")?,
            if_unmodified_since: date(request, "if-unmodified-since")?,
        })
    }

    /// Reads the conditions of Get Blob and Get Blob Properties: any combination, and lists of
    /// ETags.
    pub(super) fn for_read(request: &Request) -> Result<Conditions, Failure> {
        let conditions = Conditions::parse(request)?;
        // Not in the reference; observed in the service in the tests of Azure's command line.
        if conditions.if_none_match == Some(Tags::Any) {
            return Err(Code::UnsatisfiableCondition.into());
        }
        Ok(conditions)
    }

    /// Reads the conditions of all other operations: one condition with one ETag, or a pair of ETag
    /// and date, of which the ETag decides.
    pub(super) fn for_write(request: &Request) -> Result<Conditions, Failure> {
        let mut conditions = Conditions::parse(request)?;
        let is_list =
            |tags: &Option<Tags>| matches!(tags, Some(Tags::List(tags)) if tags.len() > 1);
        for (name, tags) in
            [("if-match", &conditions.if_match), ("if-none-match", &conditions.if_none_match)]
        {
            if is_list(tags) {
                return Err(Failure::header(name, request.header(name).unwrap_or_default()));
            }
        }
        let has_match_condition =
            conditions.if_match.is_some() || conditions.if_unmodified_since.is_some();
        let has_change_condition =
            conditions.if_none_match.is_some() || conditions.if_modified_since.is_some();
        if has_match_condition && has_change_condition {
            return Err(Code::MultipleConditionHeadersNotSupported.into());
        }
        if conditions.if_match.is_some() {
            conditions.if_unmodified_since = None;
        }
        if conditions.if_none_match.is_some() {
            conditions.if_modified_since = None;
        }
        Ok(conditions)
    }

    /// Returns true for `If-None-Match: *`: the target must not exist.
    pub(super) fn only_create(&self) -> bool {
        self.if_none_match == Some(Tags::Any)
    }

    /// Checks the conditions of a write to a missing target.
    pub(super) fn check_create(&self) -> Result<(), Failure> {
        if self.if_match.is_some() { Err(Code::ConditionNotMet.into()) } else { Ok(()) }
    }

    /// Checks the conditions of a write or a lease operation. `If-None-Match: *` on an existing
    /// blob fails like every condition (the reference names it for creation only).
    pub(super) fn check_write(&self, etag: &str, modified: DateTime<Utc>) -> Result<(), Failure> {
        let met = self.matches_expected(etag, modified) && self.has_changed(etag, modified);
        if met { Ok(()) } else { Err(Code::ConditionNotMet.into()) }
    }

    /// Checks the conditions of a read: 412 if a required condition fails, 304 if the client's
    /// version is current.
    pub(super) fn check_read(&self, etag: &str, modified: DateTime<Utc>) -> Result<(), Failure> {
        if !self.matches_expected(etag, modified) {
            return Err(Code::ConditionNotMet.into());
        }
        if self.has_changed(etag, modified) { Ok(()) } else { Err(Failure::not_modified()) }
    }

    /// Checks `If-Match` and `If-Unmodified-Since`.
    fn matches_expected(&self, etag: &str, modified: DateTime<Utc>) -> bool {
        self.if_match.as_ref().is_none_or(|tags| tags.matches(etag))
            // `Last-Modified` has whole seconds, and clients compare with it.
            && self.if_unmodified_since.is_none_or(|date| modified.trunc_subsecs(0) <= date)
    }

    /// Checks `If-None-Match` or `If-Modified-Since`.
    fn has_changed(&self, etag: &str, modified: DateTime<Utc>) -> bool {
        let is_other = self.if_none_match.as_ref().map(|tags| !tags.matches(etag));
        let is_later = self.if_modified_since.map(|date| modified.trunc_subsecs(0) > date);
        match (is_other, is_later) {
            (Some(other), Some(later)) => other || later,
            (one, another) => one.or(another).unwrap_or(true),
        }
    }
}

/// Parses ETags, quoted or not, separated by commas; or a single `*`.
fn tags(request: &Request, name: &str) -> Result<Option<Tags>, Failure> {
    let Some(value) = request.header(name) else { return Ok(None) };
    if value == "*" {
        return Ok(Some(Tags::Any));
    }
    let tags: Vec<String> =
        value.split(',').map(|tag| tag.trim().trim_matches('"').to_owned()).collect();
    if tags.iter().any(|tag| tag.is_empty() || tag == "*") {
        return Err(Failure::header(name, value));
    }
    Ok(Some(Tags::List(tags)))
}

fn date(request: &Request, name: &str) -> Result<Option<DateTime<Utc>>, Failure> {
    let Some(value) = request.header(name) else { return Ok(None) };
    encoding::parse_http_date(value).map(Some).ok_or_else(|| Failure::header(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETAG: &str = "\"0x8D1\"";
    const OTHER: &str = "\"0x8D2\"";
    const EARLIER: &str = "Fri, 02 Jan 2026 03:04:04 GMT";
    const SAME: &str = "Fri, 02 Jan 2026 03:04:05 GMT";

    fn modified() -> DateTime<Utc> {
        // Half a second after the value of Last-Modified.
        DateTime::from_timestamp(1_767_323_045, 500_000_000).unwrap()
    }

    fn request(headers: &[(&str, &str)]) -> Request {
        let request = Request::new("PUT", "/");
        headers.iter().fold(request, |request, (name, value)| request.with(name, value))
    }

    fn write(headers: &[(&str, &str)]) -> bool {
        let conditions = Conditions::for_write(&request(headers)).unwrap();
        conditions.check_write(ETAG, modified()).is_ok()
    }

    /// Returns the status of a read.
    fn read(headers: &[(&str, &str)]) -> u16 {
        let conditions = Conditions::for_read(&request(headers));
        match conditions.and_then(|conditions| conditions.check_read(ETAG, modified())) {
            Ok(()) => 200,
            Err(failure) => failure.response(false, "", "").status,
        }
    }

    #[test]
    fn etags() {
        assert!(write(&[("If-Match", ETAG)]));
        assert!(write(&[("If-Match", "0x8D1")]));
        assert!(write(&[("If-Match", "*")]));
        assert!(!write(&[("If-Match", OTHER)]));
        assert!(!write(&[("If-None-Match", ETAG)]));
        assert!(!write(&[("If-None-Match", "*")]));
        assert!(write(&[("If-None-Match", OTHER)]));
    }

    #[test]
    fn dates_in_whole_seconds() {
        assert!(write(&[("If-Modified-Since", EARLIER)]));
        assert!(!write(&[("If-Modified-Since", SAME)]));
        assert!(!write(&[("If-Unmodified-Since", EARLIER)]));
        assert!(write(&[("If-Unmodified-Since", SAME)]));
    }

    #[test]
    fn for_writes_an_etag_overrides_the_date() {
        assert!(write(&[("If-Match", ETAG), ("If-Unmodified-Since", EARLIER)]));
        assert!(write(&[("If-None-Match", OTHER), ("If-Modified-Since", SAME)]));
    }

    #[test]
    fn for_reads_every_header_counts() {
        // If-Match && If-Unmodified-Since && (If-None-Match || If-Modified-Since)
        assert_eq!(read(&[("If-Match", ETAG), ("If-Unmodified-Since", EARLIER)]), 412);
        assert_eq!(read(&[("If-Match", ETAG), ("If-Unmodified-Since", SAME)]), 200);
        assert_eq!(read(&[("If-None-Match", ETAG), ("If-Modified-Since", EARLIER)]), 200);
        assert_eq!(read(&[("If-None-Match", OTHER), ("If-Modified-Since", SAME)]), 200);
        assert_eq!(read(&[("If-None-Match", ETAG), ("If-Modified-Since", SAME)]), 304);
        assert_eq!(read(&[("If-Match", OTHER), ("If-None-Match", ETAG)]), 412);
        assert_eq!(read(&[("If-Match", ETAG), ("If-None-Match", ETAG)]), 304);
    }

    #[test]
    fn a_read_takes_lists_of_etags() {
        assert_eq!(read(&[("If-Match", "\"0x8D2\", \"0x8D1\"")]), 200);
        assert_eq!(read(&[("If-Match", "\"0x8D2\",0x8D3")]), 412);
        assert_eq!(read(&[("If-None-Match", "\"0x8D2\", \"0x8D1\"")]), 304);
        assert_eq!(read(&[("If-None-Match", "\"0x8D2\", \"0x8D3\"")]), 200);
        assert_eq!(read(&[("If-None-Match", "*")]), 400);
    }

    #[test]
    fn nonsense_is_refused() {
        let headers =
            [("If-Match", ""), ("If-None-Match", "\"a\", \"b\""), ("If-Modified-Since", "today")];
        for (name, value) in headers {
            let failure = Conditions::for_write(&request(&[(name, value)])).unwrap_err();
            assert_eq!(failure.code, Code::InvalidHeaderValue, "{name}");
        }
        let both = request(&[("If-Match", ETAG), ("If-None-Match", OTHER)]);
        let failure = Conditions::for_write(&both).unwrap_err();
        assert_eq!(failure.code, Code::MultipleConditionHeadersNotSupported);
        assert_eq!(read(&[("If-None-Match", "\"a\", *")]), 400);
    }
}
