//! The server of the embedded store: bytes on a TCP connection.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Barrier};

use tenure_azure::encoding;
use tenure_store::{
    Account, AccountError, EMULATOR_ACCOUNT, EMULATOR_KEY, OperationKind, Request, Service, Store,
    run, system_clock,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::script::{Scene, signed};
use super::send::{Connection, Wire};

const LOCALHOST: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn request(method: &str, path: &str) -> Request {
    let request = Request::new(method, path)
        .with("x-ms-version", "2021-12-02")
        .with("x-ms-date", &encoding::format_http_date(system_clock().wall));
    if method == "PUT" { request.with("Content-Length", "0") } else { request }
}

fn sign(request: Request) -> Request {
    signed(request, EMULATOR_KEY, EMULATOR_ACCOUNT, "SharedKey")
}

/// Returns a store on the machine's clock, with `leases/blob` in it.
async fn store_with_blob() -> Store {
    let store = run(LOCALHOST, Vec::new()).await.unwrap();
    let mut connection = Connection::open(store.address());
    tokio::task::spawn_blocking(move || {
        let container = sign(request("PUT", "/devstoreaccount1/leases?restype=container"));
        assert_eq!(connection.send(&container).status, 201);
        let blob =
            request("PUT", "/devstoreaccount1/leases/blob").with("x-ms-blob-type", "BlockBlob");
        assert_eq!(connection.send(&sign(blob)).status, 201);
    })
    .await
    .unwrap();
    store
}

fn acquire(id: &str) -> Request {
    let request = request("PUT", "/devstoreaccount1/leases/blob?comp=lease&timeout=3");
    let request = request.with("x-ms-lease-action", "acquire").with("x-ms-lease-duration", "15");
    sign(request.with("x-ms-proposed-lease-id", id))
}

#[tokio::test(flavor = "multi_thread")]
async fn of_sixteen_at_once_one_wins() {
    let store = store_with_blob().await;
    let (address, barrier) = (store.address(), Arc::new(Barrier::new(16)));
    let mut answers = Vec::new();
    let threads: Vec<_> = (0..16)
        .map(|number| {
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || {
                let mut connection = Connection::open(address);
                let request = acquire(&format!("00000000-0000-4000-8000-{number:012}"));
                barrier.wait();
                let answer = connection.send(&request);
                (answer.status, answer.code().map(str::to_owned))
            })
        })
        .collect();
    for thread in threads {
        answers.push(thread.join().unwrap());
    }
    answers.sort();
    assert_eq!(answers[0], (201, None));
    assert!(
        answers[1..].iter().all(|answer| *answer == (409, Some("LeaseAlreadyPresent".to_owned()))),
        "{answers:?}"
    );
    assert_eq!(
        store.with(|service| service.log().count_with_status(OperationKind::Acquire, 409)),
        15
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_fail_have_no_body_and_the_connection_stays() {
    let store = store_with_blob().await;
    let mut connection = Connection::open(store.address());
    // Three requests in one write: an unexpected body would be taken for the next response.
    let one = b"HEAD /devstoreaccount1/leases/blob HTTP/1.1\r\nHost: localhost\r\n\r\n";
    connection.write(&[&one[..], one, one].concat());
    for _ in 0..3 {
        let answer = connection.read(true);
        assert_eq!((answer.status, answer.code()), (401, Some("NoAuthenticationInformation")));
    }
    let missing = connection.send(&sign(request("HEAD", "/devstoreaccount1/leases/missing")));
    assert_eq!((missing.status, missing.code()), (404, Some("BlobNotFound")));
    let existing = connection.send(&sign(request("HEAD", "/devstoreaccount1/leases/blob")));
    assert_eq!((existing.status, existing.header("content-length")), (200, Some("0")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_begins_with_a_byte_order_mark() {
    let store = store_with_blob().await;
    let answer = Connection::open(store.address())
        .send(&sign(request("GET", "/devstoreaccount1/leases/missing")));
    assert!(
        answer.body.starts_with(b"\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?><Error>")
    );
    assert_eq!(answer.header("content-type"), Some("application/xml"));
    assert_eq!(answer.header("server"), Some("Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn strange_bytes_are_answered() {
    let store = store_with_blob().await;
    let strange: [(&[u8], u16); 6] = [
        (b"HEAD /devstoreaccount1/leases/blob HTTP/1.1\r\nHost: x\r\nx-ms-meta-a: \xff\xfe\x80\r\n\r\n", 401),
        (b"HEAD /%ff%00/%zz?comp=%ff&&=&a HTTP/1.1\r\nHost: \xff\r\nAuthorization: SharedKey \xff:\xff\r\n\r\n", 403),
        (b"HEAD http://devstoreaccount1.blob.localhost/leases HTTP/1.1\r\nHost: x\r\n\r\n", 401),
        (b"HEAD / HTTP/1.1\r\nHost: x\r\nAuthorization: SharedKey\r\n\r\n", 400),
        (b"HEAD / HTTP/1.1\r\nHost: x\r\nDate: \r\nDate: \r\n\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 401),
    ];
    let mut connection = Connection::open(store.address());
    for (bytes, status) in strange {
        connection.write(bytes);
        let answer = connection.read(bytes.starts_with(b"HEAD"));
        assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(bytes));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunked_lease_request_is_accepted_and_a_large_body_is_not() {
    let store = store_with_blob().await;
    let mut connection = Connection::open(store.address());
    let mut chunked = acquire("00000000-0000-4000-8000-000000000001");
    // An empty length is signed like 0, so the signature holds for chunks as well.
    chunked.headers.retain(|(name, _)| name != "Content-Length");
    let mut chunked = chunked.with("Transfer-Encoding", "chunked");
    chunked.body = "0\r\n\r\n".into();
    assert_eq!(connection.send(&chunked).status, 201);
    let mut large =
        request("PUT", "/devstoreaccount1/leases/blob").with("x-ms-blob-type", "BlockBlob");
    large.headers.retain(|(name, _)| name != "Content-Length");
    // Announced but never sent: the response must not wait for it.
    let answer = connection.send(&sign(large.with("Content-Length", "67108865")));
    assert_eq!((answer.status, answer.code()), (413, Some("RequestBodyTooLarge")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_account_may_be_in_the_host() {
    let store = store_with_blob().await;
    let head = sign(request("HEAD", "/leases/blob"));
    let mut text =
        "HEAD /leases/blob HTTP/1.1\r\nHost: devstoreaccount1.blob.localhost:1234\r\n".to_owned();
    for (name, value) in &head.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut connection = Connection::open(store.address());
    connection.write(format!("{text}\r\n").as_bytes());
    assert_eq!(connection.read(true).status, 200);
}

#[test]
fn a_service_outlives_its_server() {
    let mut wire = Wire::new();
    Scene::new(&mut wire, "leases").run("put; acquire id=A; wait 10");
    let Wire { store, runtime, mut connection, .. } = wire;
    let service = runtime.block_on(store.stop());
    assert!(connection.is_closed(), "an idle connection is closed when the store stops");
    let again = runtime.block_on(Store::start(LOCALHOST, service)).unwrap();
    let lease = again.with(|service| {
        let elapsed = super::send::start_instant().elapsed;
        service.lease(
            elapsed + std::time::Duration::from_secs(14),
            EMULATOR_ACCOUNT,
            "leases",
            "blob",
        )
    });
    assert_eq!(lease.map(|(state, _)| state.name()), Some("leased"));
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_are_independent_and_tell_how_to_reach_them() {
    let one = store_with_blob().await;
    let account = Account::parse("alpha:AAEC:AwQF").unwrap();
    let other = run(LOCALHOST, vec![account]).await.unwrap();
    assert_ne!(one.address(), other.address());
    let text = format!(
        "DefaultEndpointsProtocol=http;AccountName=alpha;AccountKey=AAEC;BlobEndpoint=http://{}/alpha;",
        other.address()
    );
    assert_eq!(other.connection_string(), text);
    assert_eq!(other.connection_string_of("alpha"), Some(text));
    assert_eq!(other.connection_string_of("beta"), None);
    let head = request("HEAD", "/alpha/leases/blob");
    for key in ["AAEC", "AwQF"] {
        let head = signed(head.clone(), key, "alpha", "SharedKey");
        assert_eq!(Connection::open(other.address()).send(&head).code(), Some("ContainerNotFound"));
    }
    assert_eq!(Account::parse("alpha").unwrap_err(), AccountError::KeyCount);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_every_address_is_reached_by_loopback() {
    let store = run(SocketAddr::from(([0, 0, 0, 0], 0)), Vec::new()).await.unwrap();
    let endpoint =
        format!("BlobEndpoint=http://127.0.0.1:{}/devstoreaccount1;", store.address().port());
    assert!(store.connection_string().ends_with(&endpoint));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_an_error() {
    let store = run(LOCALHOST, Vec::new()).await.unwrap();
    let error = Store::start(store.address(), Service::new(vec![Account::emulator()], 1))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_headers_keep_their_case() {
    let store = store_with_blob().await;
    let mut connection = Connection::open(store.address());
    let put = request("PUT", "/devstoreaccount1/leases/blob")
        .with("x-ms-blob-type", "BlockBlob")
        .with("x-ms-meta-OwnerName", "Ada");
    assert_eq!(connection.send(&sign(put)).status, 201);
    let head = connection.send(&sign(request("HEAD", "/devstoreaccount1/leases/blob")));
    let metadata = ("x-ms-meta-OwnerName".to_owned(), "Ada".to_owned());
    assert!(head.headers.contains(&metadata), "{:?}", head.headers);
}

/// Clients write the whole body before they read. The response must not be lost with the
/// connection.
#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_request_is_answered_and_the_connection_closed() {
    let store = store_with_blob().await;
    let oversized = vec![b'x'; 64 * 1024 * 1024 + 1];
    let mut announced =
        request("PUT", "/devstoreaccount1/leases/blob").with("x-ms-blob-type", "BlockBlob");
    announced.headers.retain(|(name, _)| name != "Content-Length");
    let mut chunked = announced.clone().with("Transfer-Encoding", "chunked");
    chunked.body = [format!("{:x}\r\n", oversized.len()).as_bytes(), &oversized, b"\r\n0\r\n\r\n"]
        .concat()
        .into();
    announced = announced.with("Content-Length", &oversized.len().to_string());
    announced.body = oversized.into();
    for request in [announced, chunked] {
        let mut connection = Connection::open(store.address());
        let answer = connection.send(&sign(request));
        assert_eq!((answer.status, answer.code()), (413, Some("RequestBodyTooLarge")));
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(connection.is_closed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_ask_before_it_sends() {
    let store = store_with_blob().await;
    let mut connection = Connection::open(store.address());
    let mut put = request("PUT", "/devstoreaccount1/leases/blob")
        .with("x-ms-blob-type", "BlockBlob")
        .with("Expect", "100-continue");
    put.headers.retain(|(name, _)| name != "Content-Length");
    let put = sign(put.with("Content-Length", "5"));
    let mut bytes = format!("PUT {} HTTP/1.1\r\nHost: 127.0.0.1\r\n", put.target);
    for (name, value) in &put.headers {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    connection.write(format!("{bytes}\r\n").as_bytes());
    assert_eq!(connection.status_line(), "HTTP/1.1 100 Continue");
    assert_eq!(connection.status_line(), "");
    connection.write(b"hello");
    assert_eq!(connection.read(false).status, 201);
}

/// In virtual time, which advances while all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_end_is_given_up() {
    let store = run(LOCALHOST, Vec::new()).await.unwrap();
    let mut stream = tokio::net::TcpStream::connect(store.address()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    assert!(response.to_ascii_lowercase().contains("connection: close"), "{response}");
    let mut idle = tokio::net::TcpStream::connect(store.address()).await.unwrap();
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 0, "nothing was asked, so nothing is answered");
}
