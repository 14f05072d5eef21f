use super::*;
use proptest::prelude::*;

/// An answer of the service, including parts that are ignored.
const ANSWER: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\
    <EnumerationResults ServiceEndpoint=\"https://a.blob.core.windows.net/\" ContainerName=\"c\">\
    <Prefix>jobs.member.</Prefix><MaxResults>1000</MaxResults><Blobs>\
    <Blob><Name>jobs.member.a&amp;b</Name><Properties><Creation-Time>Fri, 02 Jan 2026 03:04:05 GMT</Creation-Time>\
    <Last-Modified>Fri, 02 Jan 2026 03:04:45 GMT</Last-Modified><Etag>0x8DE0000000000A1</Etag><Content-Length>0</Content-Length><Content-MD5 /><LeaseStatus>unlocked</LeaseStatus><LeaseState>expired</LeaseState></Properties>\
    <Metadata><tenureweight>2</tenureweight><Tenuremaxshares>7</Tenuremaxshares></Metadata><OrMetadata /></Blob>\
    <Blob><Name Encoded=\"true\">jobs.member.%01</Name><Properties><Etag>\"0x2\"</Etag></Properties><Metadata/></Blob>\
    <BlobPrefix><Name>jobs.x/</Name></BlobPrefix>\
    </Blobs><NextMarker>2!76!MDAw</NextMarker></EnumerationResults>";

fn read(body: &[u8]) -> Option<Page> {
    Page::parse(body, encoding::parse_http_date("Fri, 02 Jan 2026 03:05:05 GMT"))
}

#[test]
fn names_versions_ages_metadata_and_the_next_page_are_read() {
    let page = read(ANSWER.as_bytes()).unwrap();
    let expected = [
        (
            "jobs.member.a&b",
            "\"0x8DE0000000000A1\"",
            20,
            false,
            vec![("tenuremaxshares", "7"), ("tenureweight", "2")],
        ),
        ("jobs.member.\u{1}", "\"0x2\"", 0, true, vec![]),
    ];
    let expected = expected.map(|(name, etag, age, leased, metadata)| Entry {
        name: name.into(),
        etag: ETag(etag.into()),
        age: Duration::from_secs(age),
        leased,
        metadata: Metadata::from_iter(metadata),
    });
    assert_eq!(page, Page { blobs: expected.into(), next: Some("2!76!MDAw".into()) });
}

#[test]
fn without_two_dates_in_their_order_the_age_is_zero() {
    for date in [None, encoding::parse_http_date("Fri, 02 Jan 2026 03:04:44 GMT")] {
        let page = Page::parse(ANSWER.as_bytes(), date).unwrap();
        assert_eq!(page.blobs[0].age, Duration::ZERO, "{date:?}");
    }
}

#[test]
fn the_last_page_has_none_after_it() {
    for marker in ["<NextMarker/>", "<NextMarker></NextMarker>", ""] {
        let answer = format!("<EnumerationResults><Blobs></Blobs>{marker}</EnumerationResults>");
        let page = read(answer.as_bytes());
        assert_eq!(page, Some(Page { blobs: vec![], next: None }), "{marker}");
    }
}

#[test]
fn incomplete_page_is_none() {
    for length in (0..ANSWER.len()).filter(|length| ANSWER.is_char_boundary(*length)) {
        assert_eq!(read(&ANSWER.as_bytes()[..length]), None, "{length}");
    }
    let without = |part: &str| ANSWER.replacen(part, "", 1);
    for answer in [
        without("<Etag>0x8DE0000000000A1</Etag>"),
        without("<Name>jobs.member.a&amp;b</Name>"),
        "<html><body>Please sign in</body></html>".into(),
        "<EnumerationResults/>".into(),
    ] {
        assert_eq!(read(answer.as_bytes()), None, "{answer}");
    }
}

proptest! {
    #[test]
    fn nothing_panics(body in any::<Vec<u8>>(), cut in 0..ANSWER.len(), byte in any::<u8>()) {
        let _ = read(&body);
        let mut answer = ANSWER.as_bytes().to_vec();
        answer[cut] = byte;
        let _ = read(&answer);
    }
}
