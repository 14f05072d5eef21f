//! The bytes of HTTP/1.1: parses request heads and chunks, and formats response heads.
//!
//! Hyper is not used, because it lowercases header names, and names of metadata keep their case.

use http::{HeaderName, HeaderValue, StatusCode};

use super::wire::{BLANKS, Request, Response};

/// Maximum number of headers in a request.
const MAX_HEADERS: usize = 128;

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// A body of this length, in bytes.
    Length(u64),
    Chunked,
}

/// The head of a request.
#[derive(Clone, Debug)]
pub(super) struct Head {
    /// The request without its body.
    pub(super) request: Request,
    pub(super) framing: Framing,
    /// True if the client sends no further request on this connection.
    pub(super) closes: bool,
    /// True if the client waits for a go-ahead before the body (`Expect: 100-continue`).
    pub(super) expects_continue: bool,
}

/// Parses the head at the start of `bytes`. Returns it with its length in bytes; `None` if it is
/// incomplete.
///
/// # Errors
///
/// Returns a status for an invalid head, or for a body without a clear end.
pub(super) fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, StatusCode> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        Err(_) => return Err(StatusCode::BAD_REQUEST),
    };
    let mut request = Request::new(parsed.method.unwrap_or_default(), "/");
    for header in parsed.headers.iter() {
        // Bytes that are not UTF-8 become U+FFFD, so the signature cannot match.
        request
            .headers
            .push((header.name.to_owned(), String::from_utf8_lossy(header.value).into_owned()));
    }
    let target = parsed.path.unwrap_or_default();
    match target.split_once("://") {
        // An absolute target provides the host if no header does.
        Some((_, rest)) if !target.starts_with('/') => {
            let start = rest.find(['/', '?']).unwrap_or(rest.len());
            let (host, path) = rest.split_at(start);
            // The path may be missing: `http://host?query`.
            let slash = if path.starts_with('/') { "" } else { "/" };
            request.target = format!("{slash}{path}");
            if request.header("host").is_none() {
                request.headers.push(("Host".to_owned(), host.to_owned()));
            }
        }
        _ => target.clone_into(&mut request.target),
    }
    let is_http_1_0 = parsed.version == Some(0);
    let framing = framing(&request, is_http_1_0)?;
    let has_token = |name: &str, token: &str| {
        let tokens = request.header(name).unwrap_or_default().split(',');
        tokens.into_iter().any(|known| known.trim_matches(BLANKS).eq_ignore_ascii_case(token))
    };
    let closes = is_http_1_0 || has_token("connection", "close");
    let expects_continue = has_token("expect", "100-continue");
    Ok(Some((Head { framing, closes, expects_continue, request }, length)))
}

/// Reads the head of a request as a [`Store`](super::Store) does. Returns the request without its
/// body, and the length of the head in bytes; `None` if the head is incomplete.
///
/// # Errors
///
/// Returns the status for an invalid head, or for a body without a clear end.
pub fn request_head(bytes: &[u8]) -> Result<Option<(Request, usize)>, StatusCode> {
    Ok(parse_head(bytes)?.map(|(head, length)| (head.request, length)))
}

/// Returns the framing of a body. A body with an ambiguous end is refused, because it allows
/// request smuggling. HTTP/1.0 has no chunks.
fn framing(request: &Request, is_http_1_0: bool) -> Result<Framing, StatusCode> {
    let values = |header: &str| {
        request
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(header))
            .map(|(_, value)| value.trim_matches(BLANKS))
            .collect::<Vec<_>>()
    };
    match (values("content-length").as_slice(), values("transfer-encoding").as_slice()) {
        ([], []) => Ok(Framing::Length(0)),
        ([text], []) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map(Framing::Length).map_err(|_| StatusCode::BAD_REQUEST)
        }
        ([], [coding]) if !is_http_1_0 && coding.eq_ignore_ascii_case("chunked") => {
            Ok(Framing::Chunked)
        }
        _ => Err(StatusCode::BAD_REQUEST),
    }
}

/// Returns the head of a response. `closes` announces that the connection closes after it.
pub(super) fn response_head(response: &Response, closes: bool) -> Vec<u8> {
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let reason = status.canonical_reason().unwrap_or("Unknown");
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16());
    for (name, value) in &response.headers {
        // Values may come from the client. A header that HTTP cannot carry is omitted.
        if HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok() {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str(if closes { "Connection: close\r\n\r\n" } else { "\r\n" });
    head.into_bytes()
}

/// The next part of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Incomplete: more bytes must arrive.
    Partial,
    /// A chunk: `skip` bytes with its size, `data` bytes of the body, and a line break.
    Data { skip: usize, data: u64 },
    /// The end of the body. The last size and the trailers take this number of bytes.
    End(usize),
}

/// Parses the next part of a chunked body at the start of `bytes`.
///
/// # Errors
///
/// Returns a status if these bytes are no chunk.
pub(super) fn parse_chunk(bytes: &[u8]) -> Result<Chunk, StatusCode> {
    /// Maximum length of an incomplete size line, and of the trailers, in bytes.
    const MAX_LINE: usize = 16 * 1024;
    let partial = || {
        if bytes.len() > MAX_LINE { Err(StatusCode::BAD_REQUEST) } else { Ok(Chunk::Partial) }
    };
    match httparse::parse_chunk_size(bytes) {
        Ok(httparse::Status::Complete((skip, 0))) => {
            let mut trailers = [httparse::EMPTY_HEADER; 16];
            match httparse::parse_headers(&bytes[skip..], &mut trailers) {
                Ok(httparse::Status::Complete((length, _))) => Ok(Chunk::End(skip + length)),
                Ok(httparse::Status::Partial) => partial(),
                Err(_) => Err(StatusCode::BAD_REQUEST),
            }
        }
        Ok(httparse::Status::Complete((skip, data))) => Ok(Chunk::Data { skip, data }),
        Ok(httparse::Status::Partial) => partial(),
        Err(_) => Err(StatusCode::BAD_REQUEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Head {
        parse_head(text.as_bytes()).unwrap().unwrap().0
    }

    fn status_of(text: &str) -> StatusCode {
        parse_head(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_head_keeps_the_case_of_its_names() {
        let text = "PUT /a/b?c=d HTTP/1.1\r\nHost: x\r\nX-Ms-Meta-Term:  7 \r\n\r\nbody";
        let (head, length) = parse_head(text.as_bytes()).unwrap().unwrap();
        assert_eq!(&text[length..], "body");
        assert_eq!(
            (head.request.method.as_str(), head.request.target.as_str()),
            ("PUT", "/a/b?c=d")
        );
        assert_eq!(head.request.headers[1], ("X-Ms-Meta-Term".to_owned(), "7".to_owned()));
        assert_eq!(
            (head.framing, head.closes, head.expects_continue),
            (Framing::Length(0), false, false)
        );
        assert!(parse_head(&text.as_bytes()[..length - 1]).unwrap().is_none());
    }

    #[test]
    fn an_absolute_address_names_the_host() {
        let request = parsed("GET http://store:1?a=b HTTP/1.1\r\n\r\n").request;
        assert_eq!((request.target.as_str(), request.header("host")), ("/?a=b", Some("store:1")));
        let request = parsed("GET http://store/a HTTP/1.1\r\nHost: other\r\n\r\n").request;
        assert_eq!((request.target.as_str(), request.header("host")), ("/a", Some("other")));
        assert_eq!(parsed("OPTIONS * HTTP/1.1\r\n\r\n").request.target, "*");
        assert_eq!(
            parsed("GET /a?b=http://c/d HTTP/1.1\r\n\r\n").request.target,
            "/a?b=http://c/d"
        );
    }

    #[test]
    fn a_body_has_one_clear_end() {
        let with = |headers: &str| format!("PUT / HTTP/1.1\r\n{headers}\r\n");
        assert_eq!(parsed(&with("Content-Length: 5\r\n")).framing, Framing::Length(5));
        assert_eq!(parsed(&with("Transfer-Encoding: chunked\r\n")).framing, Framing::Chunked);
        for headers in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: \r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Content-Length: 5\u{85}\r\n",
            "Transfer-Encoding: \u{a0}chunked\r\n",
        ] {
            assert_eq!(status_of(&with(headers)), StatusCode::BAD_REQUEST, "{headers}");
        }
        // A reader of HTTP/1.0 may not know chunks and would see another end.
        let old = "PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(status_of(old), StatusCode::BAD_REQUEST);
        assert_eq!(status_of("nonsense\r\n\r\n"), StatusCode::BAD_REQUEST);
        let many = with(&"a: b\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(status_of(&many), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }

    #[test]
    fn connection_headers_are_parsed() {
        let with = |version: &str, header: &str| format!("PUT / HTTP/{version}\r\n{header}\r\n");
        assert!(parsed(&with("1.0", "")).closes);
        assert!(parsed(&with("1.1", "Connection: TE, Close\r\n")).closes);
        assert!(parsed(&with("1.1", "Expect: 100-Continue\r\n")).expects_continue);
    }

    #[test]
    fn chunks_are_distinguished() {
        assert_eq!(parse_chunk(b"5\r\nhello\r\n").unwrap(), Chunk::Data { skip: 3, data: 5 });
        assert_eq!(parse_chunk(b"0\r\n\r\nnext").unwrap(), Chunk::End(5));
        assert_eq!(parse_chunk(b"0\r\nA: b\r\n\r\n").unwrap(), Chunk::End(11));
        assert_eq!(parse_chunk(b"0\r\n").unwrap(), Chunk::Partial);
        assert_eq!(parse_chunk(b"5").unwrap(), Chunk::Partial);
        assert!(parse_chunk(b"x\r\n").is_err());
        assert!(parse_chunk(&[b"0\r\n", "a".repeat(20_000).as_bytes()].concat()).is_err());
    }

    #[test]
    fn an_answer_has_no_header_that_breaks_it() {
        let response = Response::new(206)
            .with("x-ms-meta-Term", "7")
            .with("Content-Disposition", "a\r\nSet-Cookie: b");
        let text = String::from_utf8(response_head(&response, true)).unwrap();
        let expected =
            "HTTP/1.1 206 Partial Content\r\nx-ms-meta-Term: 7\r\nConnection: close\r\n\r\n";
        assert_eq!(text, expected);
    }
}
