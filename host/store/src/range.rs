//! The requested part of a blob (REST reference: *Specifying the range header for Blob service
//! operations*, *Get Blob*).

use super::blob::Part;
use super::code::Failure;
use super::wire::Request;

/// Returns the part that a Get Blob requests of a blob of this length: `bytes=FIRST-` or
/// `bytes=FIRST-LAST`. `x-ms-range` takes precedence over `Range`.
pub(super) fn requested_part(request: &Request, length: u64) -> Result<Part, Failure> {
    let header = ["x-ms-range", "range"]
        .into_iter()
        .find_map(|name| request.header(name).map(|text| (name, text)));
    let Some((name, text)) = header else { return Ok(Part::Whole) };
    let invalid = || Failure::header(name, text);
    let (first, last) =
        text.strip_prefix("bytes=").and_then(|range| range.split_once('-')).ok_or_else(invalid)?;
    // HTTP has both forms; the reference has neither.
    if first.trim().is_empty() || last.contains(',') {
        let feature = format!("{name}: {text}, only bytes=FIRST- and bytes=FIRST-LAST,");
        return Err(Failure::unsupported(&feature));
    }
    let first: u64 = first.trim().parse().map_err(|_| invalid())?;
    let last: u64 = match last.trim() {
        "" => u64::MAX,
        last => last.parse().map_err(|_| invalid())?,
    };
    if last < first {
        return Err(invalid());
    }
    if first >= length {
        return Err(Failure::range(length));
    }
    Ok(Part::Range { first, last: last.min(length - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first and last byte, or the status of the refusal.
    fn requested_bytes(headers: &[(&str, &str)], length: u64) -> Result<(u64, u64), u16> {
        let request = Request::new("GET", "/");
        let request =
            headers.iter().fold(request, |request, (name, value)| request.with(name, value));
        match requested_part(&request, length) {
            Ok(Part::Range { first, last }) => Ok((first, last)),
            Ok(Part::Whole | Part::Empty) => Err(200),
            Err(failure) => Err(failure.response(false, "", "").status),
        }
    }

    #[test]
    fn two_forms_are_accepted() {
        assert_eq!(requested_bytes(&[("Range", "bytes=2-4")], 10), Ok((2, 4)));
        assert_eq!(requested_bytes(&[("Range", "bytes=2-")], 10), Ok((2, 9)));
        assert_eq!(requested_bytes(&[("Range", "bytes=0-99")], 10), Ok((0, 9)));
        assert_eq!(
            requested_bytes(&[("Range", "bytes=2-4"), ("x-ms-range", "bytes=0-0")], 10),
            Ok((0, 0))
        );
        assert_eq!(requested_bytes(&[], 10), Err(200));
    }

    #[test]
    fn other_forms_are_refused() {
        assert_eq!(requested_bytes(&[("Range", "bytes=10-")], 10), Err(416));
        assert_eq!(requested_bytes(&[("x-ms-range", "bytes=0-0")], 0), Err(416));
        assert_eq!(requested_bytes(&[("Range", "bytes=-5")], 10), Err(501));
        assert_eq!(requested_bytes(&[("Range", "bytes=0-1,3-4")], 10), Err(501));
        assert_eq!(requested_bytes(&[("Range", "bytes=4-2")], 10), Err(400));
        assert_eq!(requested_bytes(&[("Range", "lines=1-2")], 10), Err(400));
        assert_eq!(requested_bytes(&[("Range", "bytes=a-b")], 10), Err(400));
    }
}
