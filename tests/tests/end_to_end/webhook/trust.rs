//! Webhooks over TLS whose authority is nobody's that the platform trusts.

use crate::PROGRAM;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_tests::{Candidate, Certificates, Line};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{SECRET, SOON, command, good, no_secret, refused, stage};

/// Takes every call whose handshake succeeds.
struct Guarded {
    url: String,
    certificates: Certificates,
    calls: Arc<AtomicUsize>,
}

impl Guarded {
    async fn start() -> Self {
        let certificates = Certificates::mint().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(certificates.server().unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::<AtomicUsize>::default();
        let counted = calls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut heard = Vec::new();
                while !heard.ends_with(b"}") {
                    let Ok(1..) = stream.read_buf(&mut heard).await else { break };
                }
                counted.fetch_add(1, Ordering::SeqCst);
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

/// The end of the first turn.
async fn ended(candidate: &Candidate) -> Line {
    candidate.event("turn-ended", SOON).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_of_ones_own_is_trusted_where_it_is_named_and_not_else() {
    let (_store, group) = stage().await;
    let (server, other) = (Guarded::start().await, Guarded::start().await);
    let of = |name: &str, more: &[&str], variables: &[(&str, String)]| {
        let mut group = group.clone();
        group.election = format!("{}-{name}", group.election);
        let mut command = command(&group, name, &[&["--webhook", &server.url], more].concat());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Candidate::spawn(name, command).unwrap()
    };
    let (ca, another) = (server.ca(), other.ca());
    // What the storage account is trusted by says nothing of the webhook.
    let refused = [
        of("none", &[], &[]),
        of("other", &["--webhook-ca-file", &another], &[]),
        of("storage", &["--ca-file", &ca], &[]),
        of("flag", &["--webhook-ca-file", &another], &[("TENURE_HANDLER_CA_FILE", ca.clone())]),
    ];
    for candidate in &refused {
        let ended = ended(candidate).await.event;
        assert_eq!(ended["outcome"], "failed", "{}", candidate.transcript());
        let detail = ended["detail"].as_str().unwrap();
        assert!(detail.starts_with("the webhook cannot be trusted over TLS (TLS: "), "{detail}");
        no_secret(candidate);
    }
    assert_eq!(server.count(), 0);
    let accepted = [
        of("named", &["--webhook-ca-file", &ca], &[]),
        of("set", &[], &[("TENURE_HANDLER_CA_FILE", ca.clone())]),
    ];
    for candidate in &accepted {
        let ended = ended(candidate).await.event;
        assert_eq!(ended["outcome"], "succeeded", "{}", candidate.transcript());
        no_secret(candidate);
    }
    assert!(server.count() >= 2, "{}", server.count());
    assert_eq!(other.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_names_an_authority_by_a_path_from_where_it_lies() {
    let (_store, group) = stage().await;
    let server = Guarded::start().await;
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
    group.access.give(&mut command);
    let candidate = Candidate::spawn("ada", command).unwrap();
    let ended = ended(&candidate).await.event;
    assert_eq!(ended["outcome"], "succeeded", "{}", candidate.transcript());
}

#[test]
fn what_names_no_authority_or_no_webhook_is_told_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let (empty, url) = (empty.to_str().unwrap(), good());
    for (file, problem) in [(empty, "holds no certificate"), ("/no/such/file", "cannot be read")] {
        let given = ["--every", "5s", "--webhook", &url, "--webhook-ca-file", file];
        let said = refused(&given, &[]);
        assert!(said.contains(&format!("--webhook-ca-file {file}\n")), "{said}");
        assert!(said.contains(problem), "{said}");
        let said = refused(&given[..4], &[("TENURE_HANDLER_CA_FILE", file)]);
        assert!(said.contains("TENURE_HANDLER_CA_FILE\n"), "{said}");
        assert!(said.contains(problem), "{said}");
    }
    for work in [&["--", "true"][..], &[]] {
        let given = [&["--every", "5s", "--webhook-ca-file", empty], work].concat();
        let said = refused(&given, &[]);
        assert!(said.contains("--webhook-ca-file\n    this is for a webhook"), "{said}");
    }
}
