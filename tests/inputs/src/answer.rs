//! Responses of the service: heads, lists, dates.

use chrono::{DateTime, Utc};
use tenure_azure::answer::Page;
use tenure_azure::encoding;
use tenure_core::Timestamp;

/// Returns the machine time for inputs that need one: 2026-11-27T07:00:00Z.
pub(crate) fn wall() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_762_800, 0).unwrap()
}

/// A response as text: the status, a line for each header, an empty line, the body.
pub(crate) struct RawAnswer<'a> {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: &'a [u8],
}

impl<'a> RawAnswer<'a> {
    /// Returns `None` if the first line is not a status: then the request has no response.
    pub(crate) fn read(text: &'a [u8]) -> Option<Self> {
        let mut remaining = text;
        let mut line = || {
            let end = remaining.iter().position(|byte| *byte == b'\n').unwrap_or(remaining.len());
            let (line, next) = remaining.split_at(end);
            remaining = next.get(1..).unwrap_or_default();
            line
        };
        let status = str::from_utf8(line()).ok()?.trim().parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let line = line();
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { break };
            let name = String::from_utf8_lossy(&line[..colon]).into_owned();
            headers.push((name, line[colon + 1..].trim_ascii().to_vec()));
        }
        Some(Self { status, headers, body: remaining })
    }
}

/// Returns the pieces of an input between lines of three equals signs.
pub(crate) fn pieces(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    const SEPARATOR: &[u8] = b"\n===\n";
    let mut remaining = Some(data);
    std::iter::from_fn(move || {
        let piece = remaining?;
        let end = piece.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        remaining = end.map(|end| &piece[end + SEPARATOR.len()..]);
        Some(end.map_or(piece, |end| &piece[..end]))
    })
}

/// Tests the XML of a list of blobs.
pub fn listing(data: &[u8]) {
    let Some(page) = Page::parse(data, Some(wall())) else { return };
    for blob in &page.blobs {
        assert!(blob.etag.0.starts_with('"'), "{blob:?}");
    }
    assert_ne!(page.next.as_deref(), Some(""));
}

/// Tests dates of headers, records and tokens. A parsed date survives formatting and parsing.
pub fn dates(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if let Some(date) = encoding::parse_http_date(text) {
        assert_eq!(encoding::parse_http_date(&encoding::format_http_date(date)), Some(date));
    }
    if let Some(date) = encoding::parse_rfc3339(text) {
        assert_eq!(encoding::parse_rfc3339(&encoding::format_rfc3339(date)), Some(date));
    }
    if let Some(time) = Timestamp::parse(text) {
        assert_eq!(Timestamp::parse(&time.to_rfc3339()), Some(time));
    }
}
