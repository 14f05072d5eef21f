//! Client requests besides leases: ranges, listings, checksums, and refusals of unsupported
//! features.

use tenure_azure::encoding;
use tenure_store::sas::{SasParameters, Scope};
use tenure_store::{Account, EMULATOR_ACCOUNT, EMULATOR_KEY, KeyName, Request, Response};

use super::script::signed;
use super::send::{Direct, Transport};

const BOX: &str = "/devstoreaccount1/box";

/// Returns a store with one container that has `blob`, the ten digits.
fn store() -> Direct {
    let mut store = Direct::new();
    assert_eq!(
        send_signed(&mut store, "PUT", &format!("{BOX}?restype=container"), &[], "").status,
        201
    );
    assert_eq!(put(&mut store, "blob", &[], "0123456789").status, 201);
    store
}

fn request(
    store: &Direct,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Request {
    let mut request = Request::new(method, target)
        .with("Host", "127.0.0.1:10000")
        .with("x-ms-date", &encoding::format_http_date(store.now().wall));
    if !headers.iter().any(|(name, _)| *name == "x-ms-version") {
        request = request.with("x-ms-version", "2026-10-06");
    }
    if method == "PUT" {
        request = request.with("Content-Length", &body.len().to_string());
    }
    request = headers.iter().fold(request, |request, (name, value)| request.with(name, value));
    request.body = body.to_owned().into();
    request
}

fn send_signed(
    store: &mut Direct,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let request = request(store, method, target, headers, body);
    store.send(&signed(request, EMULATOR_KEY, EMULATOR_ACCOUNT, "SharedKey"))
}

fn put(store: &mut Direct, name: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let headers = [&[("x-ms-blob-type", "BlockBlob")], headers].concat();
    send_signed(store, "PUT", &format!("{BOX}/{name}"), &headers, body)
}

fn get(store: &mut Direct, headers: &[(&str, &str)]) -> Response {
    send_signed(store, "GET", &format!("{BOX}/blob"), headers, "")
}

fn text(answer: &Response) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}

fn status_and_code(answer: &Response) -> (u16, Option<&str>) {
    (answer.status, answer.code())
}

/// Returns the contents of the elements of that name, in order.
fn elements<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    xml.split(open.as_str())
        .skip(1)
        .map(|rest| rest.split(close.as_str()).next().unwrap())
        .collect()
}

#[test]
fn every_later_version_is_accepted() {
    let mut store = store();
    for version in ["2026-06-06", "2026-10-06", "2031-01-01"] {
        let answer = get(&mut store, &[("x-ms-version", version)]);
        assert_eq!((answer.status, answer.header("x-ms-version")), (200, Some(version)));
    }
    for version in ["2016-05-30", "2026-13-01", "tomorrow", "2026-6-6"] {
        let answer = get(&mut store, &[("x-ms-version", version)]);
        assert_eq!(status_and_code(&answer), (400, Some("InvalidHeaderValue")), "{version}");
    }
}

#[test]
fn a_range_is_a_part() {
    let mut store = store();
    for (header, value, part, range) in [
        ("x-ms-range", "bytes=0-33554431", "0123456789", "bytes 0-9/10"),
        ("Range", "bytes=2-4", "234", "bytes 2-4/10"),
        ("Range", "bytes=7-", "789", "bytes 7-9/10"),
    ] {
        let answer = get(&mut store, &[(header, value)]);
        assert_eq!((answer.status, text(&answer)), (206, part), "{value}");
        assert_eq!(answer.header("content-range"), Some(range));
        assert_eq!(answer.header("content-length"), Some(part.len().to_string().as_str()));
        // The checksum of the whole blob is not one of the range.
        assert_eq!(answer.header("content-md5"), None);
        assert_eq!(answer.header("x-ms-blob-content-md5"), Some("eB5eJF1ptWaXm4bijSPyxw=="));
    }
    let behind = get(&mut store, &[("Range", "bytes=10-")]);
    assert_eq!(status_and_code(&behind), (416, Some("InvalidRange")));
    assert_eq!(behind.header("content-range"), Some("bytes */10"));
    assert_eq!(
        status_and_code(&get(&mut store, &[("Range", "bytes=-3")])),
        (501, Some("NotImplemented"))
    );
}

#[test]
fn unsupported_features_are_refused_by_name() {
    let mut store = store();
    let blob = format!("{BOX}/blob");
    let container = format!("{BOX}?restype=container");
    let kind = ("x-ms-blob-type", "BlockBlob");
    let at = |query: &str| format!("{blob}?{query}");
    let in_container = |query: &str| format!("{container}&{query}");
    let account = |query: &str| format!("/devstoreaccount1/?{query}");
    // Method, address, headers, and the name in the message.
    type Row = (&'static str, String, Vec<(&'static str, &'static str)>, &'static str);
    let rows: Vec<Row> = vec![
        ("PUT", blob.clone(), vec![("x-ms-copy-source", "http://x/y")], "x-ms-copy-source"),
        ("PUT", blob.clone(), vec![kind, ("x-ms-copy-source", "http://x/y")], "x-ms-copy-source"),
        ("PUT", blob.clone(), vec![kind, ("x-ms-tags", "a=b")], "x-ms-tags"),
        ("PUT", blob.clone(), vec![kind, ("x-ms-if-tags", "a = 'b'")], "x-ms-if-tags"),
        (
            "PUT",
            blob.clone(),
            vec![kind, ("x-ms-content-crc64", "AAAAAAAAAAA=")],
            "x-ms-content-crc64",
        ),
        (
            "PUT",
            blob.clone(),
            vec![kind, ("x-ms-structured-body", "XSM/1.0")],
            "x-ms-structured-body",
        ),
        ("PUT", blob.clone(), vec![kind, ("x-ms-access-tier", "Cool")], "x-ms-access-tier"),
        ("PUT", blob.clone(), vec![kind, ("x-ms-encryption-key", "k")], "x-ms-encryption-key"),
        ("PUT", blob.clone(), vec![("x-ms-blob-type", "AppendBlob")], "AppendBlob"),
        ("PUT", blob.clone(), vec![("x-ms-blob-type", "PageBlob")], "PageBlob"),
        ("DELETE", at("versionid=2026-01-01"), vec![], "versionid"),
        ("DELETE", at("deletetype=permanent"), vec![], "deletetype"),
        ("GET", at("versionid=2026-01-01"), vec![], "versionid"),
        ("GET", at("snapshot=2026-01-01"), vec![], "snapshot"),
        ("DELETE", blob.clone(), vec![("x-ms-delete-snapshots", "only")], "x-ms-delete-snapshots"),
        ("GET", blob.clone(), vec![("x-ms-if-tags", "a = 'b'")], "x-ms-if-tags"),
        (
            "GET",
            blob.clone(),
            vec![("Range", "bytes=0-2"), ("x-ms-range-get-content-md5", "true")],
            "x-ms-range-get-content-md5",
        ),
        ("PUT", at("comp=block&blockid=YQ%3D%3D"), vec![], "Put Block"),
        ("PUT", at("comp=blocklist"), vec![], "Put Block List"),
        ("GET", at("comp=blocklist"), vec![], "Get and Put Block List"),
        ("PUT", at("comp=snapshot"), vec![], "Snapshot Blob"),
        ("PUT", at("comp=properties"), vec![], "Set Blob Properties"),
        ("PUT", at("comp=tier"), vec![], "Set Blob Tier"),
        ("PUT", at("comp=tags"), vec![], "Blob Tags"),
        ("PUT", at("comp=appendblock"), vec![], "Append Block"),
        ("PUT", at("comp=page"), vec![], "Put Page"),
        ("POST", account("comp=batch"), vec![], "Blob Batch"),
        ("GET", account("restype=service&comp=properties"), vec![], "Blob Service Properties"),
        (
            "PUT",
            in_container("comp=lease"),
            vec![("x-ms-lease-action", "acquire")],
            "Lease Container",
        ),
        ("PUT", in_container("comp=acl"), vec![], "Container ACL"),
        ("PUT", in_container("comp=metadata"), vec![], "Set Container Metadata"),
        ("DELETE", container.clone(), vec![("x-ms-lease-id", "a")], "x-ms-lease-id"),
        ("GET", in_container("comp=list&include=uncommittedblobs"), vec![], "uncommittedblobs"),
        ("GET", in_container("comp=list&include=metadata,snapshots"), vec![], "snapshots"),
        ("GET", account("comp=list&include=deleted"), vec![], "deleted"),
        ("GET", in_container("comp=list&startfrom=b"), vec![], "startfrom"),
    ];
    for (method, target, headers, name) in rows {
        let answer = send_signed(&mut store, method, &target, &headers, "");
        let case = format!("{method} {target} {headers:?}: {} {}", answer.status, text(&answer));
        assert_eq!(status_and_code(&answer), (501, Some("NotImplemented")), "{case}");
        let message = elements(text(&answer), "Message")[0];
        assert!(message.contains("does not support") && message.contains(name), "{case}");
    }
    assert_eq!(text(&get(&mut store, &[])), "0123456789", "nothing has happened to the blob");
}

#[test]
fn conditions_belong_to_operations_that_have_them() {
    let mut store = store();
    let list = format!("{BOX}?restype=container&comp=list");
    let answer = send_signed(&mut store, "GET", &list, &[("If-Match", "\"a\"")], "");
    assert_eq!(status_and_code(&answer), (400, Some("ConditionHeadersNotSupported")));
    let etag = get(&mut store, &[]).header("etag").unwrap().to_owned();
    let tags = format!("\"0x8D0\", {etag}");
    assert_eq!(get(&mut store, &[("If-Match", &tags)]).status, 200);
    assert_eq!(get(&mut store, &[("If-None-Match", &tags)]).status, 304);
    assert_eq!(
        status_and_code(&get(&mut store, &[("If-None-Match", "*")])),
        (400, Some("UnsatisfiableCondition"))
    );
    // The blob has changed since then, so one of two headers permits the read.
    let old = ("If-Modified-Since", "Thu, 01 Jan 2026 00:00:00 GMT");
    assert_eq!(get(&mut store, &[("If-None-Match", &etag), old]).status, 200);
    let both = [("If-Match", etag.as_str()), ("If-None-Match", "\"0x8D0\"")];
    let answer = put(&mut store, "blob", &both, "other");
    assert_eq!(status_and_code(&answer), (400, Some("MultipleConditionHeadersNotSupported")));
}

#[test]
fn a_checksum_is_checked_and_comes_back() {
    let mut store = store();
    let (right, wrong) = ("XUFAKrxLKna5cZ2REBfFkg==", "1B2M2Y8AsgTpgAmY7PhCfg==");
    for header in ["Content-MD5", "x-ms-blob-content-md5"] {
        assert_eq!(
            status_and_code(&put(&mut store, "b", &[(header, wrong)], "hello")),
            (400, Some("Md5Mismatch"))
        );
        assert_eq!(
            status_and_code(&put(&mut store, "b", &[(header, "x")], "hello")),
            (400, Some("InvalidMd5"))
        );
        let answer = put(&mut store, "b", &[(header, right)], "hello");
        assert_eq!((answer.status, answer.header("content-md5")), (201, Some(right)));
    }
    assert_eq!(put(&mut store, "b", &[], "hello").status, 201);
    let read = send_signed(&mut store, "GET", &format!("{BOX}/b"), &[], "");
    assert_eq!(
        read.header("content-md5"),
        Some(right),
        "the service makes one where none is given"
    );
}

#[test]
fn names_of_metadata_keep_their_case() {
    let mut store = store();
    put(&mut store, "blob", &[("x-ms-meta-OwnerName", "Ada")], "x");
    let answer = get(&mut store, &[]);
    assert!(
        answer.headers.contains(&("x-ms-meta-OwnerName".to_owned(), "Ada".to_owned())),
        "{answer:?}"
    );
    let list = format!("{BOX}?restype=container&comp=list&include=metadata");
    let answer = send_signed(&mut store, "GET", &list, &[], "");
    assert_eq!(elements(text(&answer), "Metadata"), ["<OwnerName>Ada</OwnerName>"]);
    let only = send_signed(&mut store, "GET", &format!("{BOX}/blob?comp=metadata"), &[], "");
    assert_eq!((only.header("x-ms-meta-OwnerName"), only.body.len()), (Some("Ada"), 0));
}

/// Only Get Blob and Get Blob Properties support several conditions and lists of ETags.
#[test]
fn a_read_of_metadata_takes_one_condition() {
    let mut store = store();
    let etag = put(&mut store, "blob", &[], "x").header("etag").unwrap().to_owned();
    let (list, two) =
        (format!("{etag}, \"0x1\""), [("If-Match", &*etag), ("If-None-Match", "0x1")]);
    let metadata = format!("{BOX}/blob?comp=metadata");
    for (headers, expected) in [
        (&[("If-Match", &*list)][..], (400, Some("InvalidHeaderValue"))),
        (&two, (400, Some("MultipleConditionHeadersNotSupported"))),
        (&[("If-Match", "0x1")], (412, Some("ConditionNotMet"))),
        (&[("If-None-Match", &*etag)], (304, Some("ConditionNotMet"))),
        (&[("If-Match", &*etag)], (200, None)),
    ] {
        let answer = send_signed(&mut store, "GET", &metadata, headers, "");
        assert_eq!(status_and_code(&answer), expected, "{headers:?}");
    }
}

#[test]
fn containers_are_listed_in_pages() {
    let mut store = store();
    for name in ["alpha", "beta", "bravo"] {
        let target = format!("/devstoreaccount1/{name}?restype=container");
        assert_eq!(
            send_signed(&mut store, "PUT", &target, &[("x-ms-meta-Of", name)], "").status,
            201
        );
    }
    let list = |store: &mut Direct, query: &str| {
        let answer =
            send_signed(store, "GET", &format!("/devstoreaccount1/?comp=list{query}"), &[], "");
        assert_eq!(answer.status, 200, "{}", text(&answer));
        assert_eq!(answer.header("content-type"), Some("application/xml"));
        text(&answer).to_owned()
    };
    let all = list(&mut store, "");
    assert_eq!(elements(&all, "Name"), ["alpha", "beta", "box", "bravo"]);
    assert!(all.contains("ServiceEndpoint=\"http://127.0.0.1:10000/devstoreaccount1/\""), "{all}");
    assert_eq!(elements(&all, "NextMarker"), [""]);
    assert_eq!(elements(&all, "LeaseState"), ["available"; 4]);
    assert_eq!(elements(&list(&mut store, "&include=metadata&prefix=a"), "Of"), ["alpha"]);
    let first = list(&mut store, "&prefix=b&maxresults=2");
    assert_eq!(
        (elements(&first, "Name"), elements(&first, "MaxResults")),
        (vec!["beta", "box"], vec!["2"])
    );
    let marker = elements(&first, "NextMarker")[0];
    let second = list(&mut store, &format!("&prefix=b&maxresults=2&marker={marker}"));
    assert_eq!(
        (elements(&second, "Name"), elements(&second, "NextMarker")),
        (vec!["bravo"], vec![""])
    );
}

#[test]
fn blobs_are_listed_flat_and_by_prefix() {
    let mut store = store();
    for name in ["a/1", "a/2", "a/b/3", "c%26%3C%3E", "d%01%EF%BF%BE", "%C3%A4%20x"] {
        assert_eq!(
            put(&mut store, name, &[("Content-Type", "text/plain")], "x").status,
            201,
            "{name}"
        );
    }
    let list = |store: &mut Direct, query: &str| {
        let target = format!("{BOX}?restype=container&comp=list{query}");
        let answer = send_signed(store, "GET", &target, &[], "");
        assert_eq!(answer.status, 200, "{}", text(&answer));
        text(&answer).to_owned()
    };
    let all = list(&mut store, "");
    assert_eq!(elements(&all, "Name"), ["a/1", "a/2", "a/b/3", "blob", "c&amp;&lt;&gt;", "ä x"]);
    assert!(all.contains("<Name Encoded=\"true\">d%01%EF%BF%BE</Name>"), "{all}");
    assert!(all.contains("ContainerName=\"box\""), "{all}");
    assert_eq!(elements(&all, "Content-Length")[3], "10");
    assert_eq!(elements(&all, "Content-Type")[0], "text/plain");
    assert!(elements(&all, "Etag").iter().all(|etag| etag.starts_with("0x8D")), "{all}");
    let levels = list(&mut store, "&delimiter=%2F");
    assert_eq!(elements(&levels, "BlobPrefix"), ["<Name>a/</Name>"]);
    assert_eq!(elements(&levels, "Delimiter"), ["/"]);
    let below = list(&mut store, "&prefix=a%2F&delimiter=%2F");
    assert_eq!(elements(&below, "Name"), ["a/1", "a/2", "a/b/"]);
    let (mut names, mut marker) = (Vec::new(), String::new());
    loop {
        let page = list(&mut store, &format!("&prefix=a&maxresults=1&marker={marker}"));
        names.extend(elements(&page, "Name").into_iter().map(str::to_owned));
        elements(&page, "NextMarker")[0].clone_into(&mut marker);
        if marker.is_empty() {
            break;
        }
    }
    assert_eq!(names, ["a/1", "a/2", "a/b/3"]);
    for (query, status, code) in [
        ("&maxresults=0", 400, "OutOfRangeQueryParameterValue"),
        ("&maxresults=x", 400, "InvalidQueryParameterValue"),
        ("&marker=%21", 400, "InvalidQueryParameterValue"),
        ("&include=everything", 400, "InvalidQueryParameterValue"),
    ] {
        let target = format!("{BOX}?restype=container&comp=list{query}");
        let answer = send_signed(&mut store, "GET", &target, &[], "");
        assert_eq!(status_and_code(&answer), (status, Some(code)), "{query}");
    }
    let missing = send_signed(
        &mut store,
        "GET",
        "/devstoreaccount1/none?restype=container&comp=list",
        &[],
        "",
    );
    assert_eq!(status_and_code(&missing), (404, Some("ContainerNotFound")));
}

#[test]
fn a_listing_shows_leases() {
    let mut store = store();
    let blob = format!("{BOX}/blob");
    let acquire = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1")];
    assert_eq!(
        send_signed(&mut store, "PUT", &format!("{blob}?comp=lease"), &acquire, "").status,
        201
    );
    // Azure's command line includes both.
    let list = format!("{BOX}?restype=container&comp=list&include=metadata%2Ccopy");
    let xml = send_signed(&mut store, "GET", &list, &[], "");
    assert_eq!(elements(text(&xml), "LeaseState"), ["leased"]);
    assert_eq!(elements(text(&xml), "LeaseDuration"), ["infinite"]);
}

#[test]
fn a_repeated_secret_does_not_come_back() {
    let mut store = store();
    let request = request(&store, "GET", &format!("{BOX}/blob"), &[], "");
    let request = request
        .with("Authorization", "Bearer c2VjcmV0MQ")
        .with("authorization", "Bearer c2VjcmV0Mg");
    let answer = store.send(&request);
    assert_eq!(status_and_code(&answer), (400, Some("InvalidHeaderValue")));
    assert!(!text(&answer).contains("c2VjcmV0"), "{}", text(&answer));
}

#[test]
fn a_signature_that_overrides_headers_of_answers_is_refused_by_name() {
    let mut store = store();
    let expires = store.now().wall + chrono::TimeDelta::hours(1);
    let key = tenure_azure::shared_key::Key::from_base64(EMULATOR_KEY).unwrap();
    let se = expires.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    // The overrides are the last five lines (REST reference).
    let signed = format!(
        "r\n\n{se}\n/blob/devstoreaccount1/box/blob\n\n\n\n2021-12-02\nb\n\n\nno-store\n\n\n\n"
    );
    let signature = key.sign(&signed).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let query = format!("sv=2021-12-02&sr=b&sp=r&se={se}&rscc=no-store&sig={signature}");
    let answer = store.send(&Request::new("GET", &format!("{BOX}/blob?{query}")));
    assert_eq!(status_and_code(&answer), (501, Some("NotImplemented")));
    assert!(text(&answer).contains("the parameter rscc of Get Blob"), "{}", text(&answer));
}

#[test]
fn listing_needs_its_own_permission() {
    let mut store = store();
    let expires = store.now().wall + chrono::TimeDelta::hours(1);
    let mut list = |scope: Scope, permissions: &str, target: &str| {
        let token = Account::emulator()
            .sas(KeyName::Key1, &SasParameters::new(scope, permissions, expires))
            .unwrap();
        let answer = store.send(&Request::new("GET", &format!("{target}&{}", token.query())));
        (answer.status, answer.code().map(str::to_owned))
    };
    let account_scope =
        |types: &str| Scope::Account { services: "b".to_owned(), types: types.to_owned() };
    let (blobs, containers) =
        (format!("{BOX}?restype=container&comp=list"), "/devstoreaccount1/?comp=list");
    let refused = |code: &str| (403, Some(code.to_owned()));
    assert_eq!(list(Scope::Container("box".to_owned()), "l", &blobs), (200, None));
    assert_eq!(
        list(Scope::Container("box".to_owned()), "r", &blobs),
        refused("AuthorizationPermissionMismatch")
    );
    assert_eq!(list(account_scope("c"), "l", &blobs), (200, None));
    assert_eq!(list(account_scope("o"), "l", &blobs), refused("AuthorizationResourceTypeMismatch"));
    assert_eq!(list(account_scope("s"), "l", containers), (200, None));
    assert_eq!(
        list(account_scope("c"), "l", containers),
        refused("AuthorizationResourceTypeMismatch")
    );
}
