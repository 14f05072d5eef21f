use super::*;

const A: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";
const B: &str = "aaaaaaaa-bbbb-4ccc-8ddd-ffffffffffff";

fn id(text: &str) -> LeaseId {
    LeaseId::parse(text).unwrap()
}

fn request(operation: &Operation) -> Request {
    let account = Account::from_connection_string("UseDevelopmentStorage=true").unwrap();
    let blob = BlobName::parse("leases/my leader").unwrap();
    operation.request(
        &account,
        &blob,
        DateTime::from_timestamp(1_767_323_045, 0).unwrap(),
        3,
        account.authorization(),
    )
}

fn content(over: WriteCondition, content: &str) -> Operation {
    let metadata = Metadata::from_iter([("who", "here")]);
    Operation::WriteContent { condition: over, content: content.into(), metadata }
}

fn all() -> Vec<Operation> {
    let etag = || ETag("\"0x1\"".into());
    vec![
        Operation::Read { lease: None },
        Operation::Read { lease: Some(id(A)) },
        Operation::CreateContainer,
        Operation::CreateBlob,
        Operation::Acquire { lease: id(A), seconds: 15, if_match: None },
        Operation::Acquire { lease: id(A), seconds: 60, if_match: Some(etag()) },
        Operation::Renew { lease: id(A) },
        Operation::Change { lease: id(A), proposed: id(B) },
        Operation::Release { lease: id(A) },
        Operation::Break { period: None, if_match: None },
        Operation::Break { period: Some(0), if_match: None },
        Operation::WriteMetadata {
            lease: id(A),
            if_match: etag(),
            metadata: Metadata::from_iter([("term", "7"), ("since", "")]),
        },
        Operation::ReadSideBlob(SideBlob::Orders),
        Operation::WriteSideBlob {
            blob: SideBlob::Orders,
            replaces: None,
            metadata: Metadata::from_iter([("who", "here"), ("what", "a")]),
        },
        Operation::WriteSideBlob {
            blob: SideBlob::Successor,
            replaces: Some(etag()),
            metadata: Metadata::default(),
        },
        Operation::Delete { lease: None, if_match: None },
        Operation::Delete { lease: Some(id(A)), if_match: Some(ETag("x".into())) },
        Operation::ReadAccount,
        Operation::ReadContent { if_none_match: None },
        Operation::ReadContent { if_none_match: Some(etag()) },
        content(WriteCondition::Unconditional, ""),
        content(WriteCondition::IfAbsent, "é"),
        content(WriteCondition::IfMatch(etag()), "é"),
        Operation::List { prefix: "my leader.a/".into(), marker: None },
        Operation::List { prefix: String::new(), marker: Some("2!76!/+=&".into()) },
    ]
}

#[test]
fn each_operation_is_the_request_of_the_reference() {
    let lease = "PUT /devstoreaccount1/leases/my%20leader?comp=lease&timeout=3";
    let content = "PUT /devstoreaccount1/leases/my%20leader?timeout=3";
    let (block, metadata_header) = (("x-ms-blob-type", "BlockBlob"), ("x-ms-meta-who", "here"));
    let expected = [
        ("HEAD /devstoreaccount1/leases/my%20leader?timeout=3", vec![]),
        ("HEAD /devstoreaccount1/leases/my%20leader?timeout=3", vec![("x-ms-lease-id", A)]),
        ("PUT /devstoreaccount1/leases?restype=container&timeout=3", vec![]),
        (
            "PUT /devstoreaccount1/leases/my%20leader?timeout=3",
            vec![("x-ms-blob-type", "BlockBlob"), ("if-none-match", "*")],
        ),
        (
            lease,
            vec![
                ("x-ms-lease-action", "acquire"),
                ("x-ms-lease-duration", "15"),
                ("x-ms-proposed-lease-id", A),
            ],
        ),
        (
            lease,
            vec![
                ("x-ms-lease-action", "acquire"),
                ("x-ms-lease-duration", "60"),
                ("x-ms-proposed-lease-id", A),
                ("if-match", "\"0x1\""),
            ],
        ),
        (lease, vec![("x-ms-lease-action", "renew"), ("x-ms-lease-id", A)]),
        (
            lease,
            vec![
                ("x-ms-lease-action", "change"),
                ("x-ms-lease-id", A),
                ("x-ms-proposed-lease-id", B),
            ],
        ),
        (lease, vec![("x-ms-lease-action", "release"), ("x-ms-lease-id", A)]),
        (lease, vec![("x-ms-lease-action", "break")]),
        (lease, vec![("x-ms-lease-action", "break"), ("x-ms-lease-break-period", "0")]),
        (
            "PUT /devstoreaccount1/leases/my%20leader?comp=metadata&timeout=3",
            vec![
                ("x-ms-lease-id", A),
                ("if-match", "\"0x1\""),
                ("x-ms-meta-since", ""),
                ("x-ms-meta-term", "7"),
            ],
        ),
        ("HEAD /devstoreaccount1/leases/my%20leader.orders?timeout=3", vec![]),
        (
            "PUT /devstoreaccount1/leases/my%20leader.orders?timeout=3",
            vec![
                ("x-ms-blob-type", "BlockBlob"),
                ("if-none-match", "*"),
                ("x-ms-meta-what", "a"),
                ("x-ms-meta-who", "here"),
            ],
        ),
        (
            "PUT /devstoreaccount1/leases/my%20leader.successor?timeout=3",
            vec![("x-ms-blob-type", "BlockBlob"), ("if-match", "\"0x1\"")],
        ),
        ("DELETE /devstoreaccount1/leases/my%20leader?timeout=3", vec![]),
        (
            "DELETE /devstoreaccount1/leases/my%20leader?timeout=3",
            vec![("x-ms-lease-id", A), ("if-match", "x")],
        ),
        ("HEAD /devstoreaccount1/leases?restype=account&comp=properties&timeout=3", vec![]),
        ("GET /devstoreaccount1/leases/my%20leader?timeout=3", vec![]),
        ("GET /devstoreaccount1/leases/my%20leader?timeout=3", vec![("if-none-match", "\"0x1\"")]),
        (content, vec![block, metadata_header]),
        (content, vec![block, ("if-none-match", "*"), metadata_header]),
        (content, vec![block, ("if-match", "\"0x1\""), metadata_header]),
        (
            "GET /devstoreaccount1/leases?restype=container&comp=list&include=metadata&maxresults=1000\
             &prefix=my%20leader.a%2F&timeout=3",
            vec![],
        ),
        (
            "GET /devstoreaccount1/leases?restype=container&comp=list&include=metadata&maxresults=400\
             &prefix=&marker=2%2176%21%2F%2B%3D%26&timeout=3",
            vec![],
        ),
    ];
    assert_eq!(all().len(), expected.len());
    for (operation, (line, extra_headers)) in all().iter().zip(expected) {
        let sent = request(operation);
        assert_eq!(format!("{} {}", sent.method.as_str(), sent.path_and_query), line);
        assert_eq!(sent.origin, "http://127.0.0.1:10000");
        let mut headers =
            vec![("x-ms-date", "Fri, 02 Jan 2026 03:04:05 GMT"), ("x-ms-version", "2021-12-02")];
        let length = sent.body.reveal().len().to_string();
        if sent.method == Method::Put {
            headers.push(("content-length", &length));
        }
        let has_content =
            matches!(operation, Operation::WriteContent { content, .. } if !content.is_empty());
        assert_eq!(length, if has_content { "2" } else { "0" });
        headers.extend(extra_headers);
        let mut got: Vec<_> =
            sent.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (name, value) = got.pop().unwrap();
        assert_eq!(got, headers, "{operation:?}");
        assert_eq!(name, "authorization");
        assert!(value.starts_with("SharedKey devstoreaccount1:"));
    }
}

#[test]
fn a_sas_is_in_the_query_and_nowhere_else() {
    let sas = "sp=rcw&sv=2022-11-02&sr=c&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k%3D";
    let text =
        format!("BlobEndpoint=https://acc.blob.core.windows.net;SharedAccessSignature={sas}");
    let account = Account::from_connection_string(&text).unwrap();
    let blob = BlobName::parse("leases/leader").unwrap();
    for operation in all() {
        let sent =
            operation.request(&account, &blob, DateTime::UNIX_EPOCH, 3, account.authorization());
        assert!(sent.path_and_query.ends_with(&format!("timeout=3&{sas}")), "{operation:?}");
        let names: Vec<_> = sent.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert!(!names.contains(&"authorization") && !names.contains(&"x-ms-date"), "{names:?}");
        assert!(names.contains(&"x-ms-version"));
        assert!(!format!("{sent:?} {sent:#?}").contains("c2ln"), "{sent:?}");
    }
}

#[test]
fn a_timeout_is_at_least_a_second() {
    let account = Account::from_connection_string("UseDevelopmentStorage=true").unwrap();
    let blob = BlobName::parse("leases/leader").unwrap();
    let sent = Operation::CreateBlob.request(
        &account,
        &blob,
        DateTime::UNIX_EPOCH,
        0,
        account.authorization(),
    );
    assert!(sent.path_and_query.ends_with("?timeout=1"), "{sent:?}");
}

#[test]
fn nothing_printed_gives_a_lease_or_the_signature_away() {
    for operation in all() {
        let sent = request(&operation);
        let signature = &sent.headers.last().unwrap().1["SharedKey devstoreaccount1:".len()..];
        let printed = format!("{operation:?} {} {sent:?} {sent:#?}", operation.name());
        for secret in [&A[..8], &B[24..], signature] {
            assert!(!printed.contains(secret), "{printed}");
        }
        assert!(printed.contains("authorization"));
    }
}
