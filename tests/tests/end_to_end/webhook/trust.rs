//! Webhooks over TLS whose authority the platform does not trust.

use crate::PROGRAM;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_tests::{Candidate, Certificates, Line};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{SECRET, TIMEOUT, command, no_secret, run_refused, secret_url, stage};

/// Receiver of every call whose handshake succeeds.
struct TlsReceiver {
    url: String,
    certificates: Certificates,
    calls: Arc<AtomicUsize>,
}

impl TlsReceiver {
    async fn start() -> Self {
        let certificates = Certificates::generate().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(certificates.server().unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::<AtomicUsize>::default();
        let counter = calls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut received = Vec::new();
                while !received.ends_with(b"}") {
                    let Ok(1..) = stream.read_buf(&mut received).await else { break };
                }
                counter.fetch_add(1, Ordering::SeqCst);
                let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { url: format!("https://localhost:{port}/hooks/{SECRET}"), certificates, calls }
    }

    fn ca(&self) -> String {
        self.certificates.ca().to_str().unwrap().to_owned()
    }

    fn count(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Waits for the end of the first turn.
async fn wait_for_turn_end(candidate: &Candidate) -> Line {
    candidate.event("turn-ended", TIMEOUT).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_ca_is_trusted_only_where_configured() {
    let (_store, group) = stage().await;
    let (server, other) = (TlsReceiver::start().await, TlsReceiver::start().await);
    let start_candidate = |name: &str, extra_args: &[&str], variables: &[(&str, String)]| {
        let mut group = group.clone();
        group.election = format!("{}-{name}", group.election);
        let mut command =
            command(&group, name, &[&["--webhook", &server.url], extra_args].concat());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Candidate::spawn(name, command).unwrap()
    };
    let (ca, other_ca) = (server.ca(), other.ca());
    // Authorities trusted for the storage account do not apply to the webhook.
    let refused = [
        start_candidate("none", &[], &[]),
        start_candidate("other", &["--webhook-ca-file", &other_ca], &[]),
        start_candidate("storage", &["--ca-file", &ca], &[]),
        start_candidate(
            "flag",
            &["--webhook-ca-file", &other_ca],
            &[("TENURE_HANDLER_CA_FILE", ca.clone())],
        ),
    ];
    for candidate in &refused {
        let ended = wait_for_turn_end(candidate).await.event;
        assert_eq!(ended["outcome"], "failed", "{}", candidate.transcript());
        let detail = ended["detail"].as_str().unwrap();
        assert!(detail.starts_with("the webhook cannot be trusted over TLS (TLS: "), "{detail}");
        no_secret(candidate);
    }
    assert_eq!(server.count(), 0);
    let accepted = [
        start_candidate("named", &["--webhook-ca-file", &ca], &[]),
        start_candidate("set", &[], &[("TENURE_HANDLER_CA_FILE", ca.clone())]),
    ];
    for candidate in &accepted {
        let ended = wait_for_turn_end(candidate).await.event;
        assert_eq!(ended["outcome"], "succeeded", "{}", candidate.transcript());
        no_secret(candidate);
    }
    assert!(server.count() >= 2, "{}", server.count());
    assert_eq!(other.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ca_path_is_relative_to_the_file() {
    let (_store, group) = stage().await;
    let server = TlsReceiver::start().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(server.ca(), folder.path().join("own.pem")).unwrap();
    let file: PathBuf = folder.path().join("tenure.toml");
    let text = format!(
        "log = \"json\"\nname = \"ada\"\nevery = \"1s\"\nelection = \"{}\"\nwebhook = \"{}\"\n\
         webhook-ca-file = \"own.pem\"\n",
        group.election, server.url
    );
    std::fs::write(&file, text).unwrap();
    let mut command = tokio::process::Command::new(PROGRAM);
    command.arg("run").arg("--config").arg(&file);
    group.access.apply(&mut command);
    let candidate = Candidate::spawn("ada", command).unwrap();
    let ended = wait_for_turn_end(&candidate).await.event;
    assert_eq!(ended["outcome"], "succeeded", "{}", candidate.transcript());
}

#[test]
fn invalid_webhook_ca_is_reported_before_any_request() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let (empty, url) = (empty.to_str().unwrap(), secret_url());
    for (file, problem) in [(empty, "holds no certificate"), ("/no/such/file", "cannot be read")] {
        let args = ["--every", "5s", "--webhook", &url, "--webhook-ca-file", file];
        let message = run_refused(&args, &[]);
        assert!(message.contains(&format!("--webhook-ca-file {file}\n")), "{message}");
        assert!(message.contains(problem), "{message}");
        let message = run_refused(&args[..4], &[("TENURE_HANDLER_CA_FILE", file)]);
        assert!(message.contains("TENURE_HANDLER_CA_FILE\n"), "{message}");
        assert!(message.contains(problem), "{message}");
    }
    for work in [&["--", "true"][..], &[]] {
        let args = [&["--every", "5s", "--webhook-ca-file", empty], work].concat();
        let message = run_refused(&args, &[]);
        assert!(message.contains("--webhook-ca-file\n    this is for a webhook"), "{message}");
    }
}
