//! One problem, and the commands that report it.

use crate::PROGRAM;
use std::future::Future;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use serde_json::Value;
use tenure_store::sas::{SasParameters, Scope};
use tenure_store::{KeyName, Request};
use tenure_tests::credential::with_sas;
use tenure_tests::{
    Access, BEAT_HANDLER, Candidate, Certificates, Credential, Front, Line, Mode, Outsider,
    Override, Proxy, operation_name, reserve_port,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::table::{Cause, LeaderFault, LeaderRow, ProblemRow};

const ELECTION: &str = "problems/report";
const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Runs at most `limit` rows at a time, and returns all mismatches.
pub async fn run_limited<F>(limit: usize, rows: impl Iterator<Item = F>) -> Vec<String>
where
    F: Future<Output = Vec<String>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(limit));
    let mut tasks = tokio::task::JoinSet::new();
    for row in rows {
        let places = Arc::clone(&places);
        tasks.spawn(async move {
            let _place = places.acquire_owned().await.unwrap();
            row.await
        });
    }
    tasks.join_all().await.concat()
}

/// A failing store, and its access.
pub struct Scene {
    cause: Cause,
    front: Front,
    proxy: Proxy,
    access: Access,
    /// Listener in place of the store.
    _listener: Option<tokio::task::JoinHandle<()>>,
}

impl Scene {
    /// Starts without a problem.
    pub async fn without_problem() -> Self {
        Self::with_cause(Cause::Nothing).await
    }

    pub async fn with_cause(cause: Cause) -> Self {
        let front = Front::start().await.unwrap();
        let connection_string = front.connection_string();
        let (proxy, proxy_connection_string) = Proxy::for_store(&connection_string).await.unwrap();
        let outsider = Outsider::new(&connection_string, ELECTION);
        let without_container =
            matches!(cause, Cause::ContainerMissing | Cause::Code(["create-container"], ..));
        if !without_container {
            outsider.create_container().await.unwrap();
        }
        let access_at = |origin: &str| {
            let (before, _) = connection_string.split_once("BlobEndpoint=").unwrap();
            Access::from_connection_string(format!("{before}BlobEndpoint={origin}/problems"))
        };
        let mut listener = None;
        let access = match cause {
            Cause::WrongKey => {
                Credential::SharedKey.wrong_access(&proxy_connection_string, "problems")
            }
            Cause::ExpiredSas => {
                let scope = Scope::Container("problems".to_owned());
                let terms = SasParameters::new(scope, "rcwd", Utc::now() - TimeDelta::minutes(1));
                let sas =
                    front.with_service(|s| s.accounts()[0].sas(KeyName::Key1, &terms).unwrap());
                let (_, endpoint) = proxy_connection_string.split_once("BlobEndpoint=").unwrap();
                Access::from_connection_string(
                    sas.connection_string(endpoint.trim_end_matches(';')),
                )
            }
            Cause::ContainerMissing => {
                let objects = Scope::Account { services: "b".into(), types: "o".into() };
                Access::from_connection_string(with_sas(&proxy_connection_string, objects, "rwdc"))
            }
            Cause::Refused => access_at(&format!("http://{}", reserve_port().unwrap())),
            Cause::UnresolvableName => access_at("http://nobody.invalid"),
            Cause::UntrustedCertificate | Cause::NoTls => {
                let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let origin = format!("https://{}", socket.local_addr().unwrap());
                listener = Some(tokio::spawn(serve_handshakes(
                    socket,
                    cause == Cause::UntrustedCertificate,
                )));
                access_at(&origin)
            }
            _ => Access::from_connection_string(proxy_connection_string),
        };
        if cause == Cause::ForeignBlob {
            outsider.put_foreign_blob().await.unwrap();
        }
        if cause == Cause::InfiniteLease {
            let mut lock = Command::new(PROGRAM);
            lock.args(["lock", "--name", "before", ELECTION, "--", "true"]).kill_on_drop(true);
            access.apply(&mut lock);
            assert!(lock.status().await.unwrap().success(), "somebody led");
            outsider.acquire_forever().await.unwrap();
        }
        let scene = Self { cause, front, proxy, access, _listener: listener };
        scene.inject(cause);
        scene
    }

    /// Injects this cause from now on.
    fn inject(&self, cause: Cause) {
        let applies = |verbs: &'static [&str], request: &Request| {
            verbs == ["*"] || verbs.contains(&operation_name(request))
        };
        match cause {
            Cause::Code(verbs, status, code) => self.front.set_rule(move |request| {
                applies(verbs, request).then_some(Override::Error(status, code))
            }),
            Cause::AnotherLease(verbs, status) => self.front.set_rule(move |request| {
                applies(verbs, request).then_some(Override::AnotherLease(status))
            }),
            Cause::Page(status) => self.front.set_rule(move |_| Some(Override::Page(status))),
            Cause::Silence(verbs) => {
                self.front
                    .set_rule(move |request| applies(verbs, request).then_some(Override::Nothing));
            }
            Cause::ClockBehind(minutes) => self.front.set_clock_ahead(TimeDelta::minutes(minutes)),
            Cause::Reset => self.proxy.set_mode(Mode::Reset),
            _ => {}
        }
    }

    async fn run_command(&self, command: &str) -> (Option<i32>, Value, String) {
        let mut process = Command::new(PROGRAM);
        process.args([command, ELECTION, "--json", "--request-timeout", "1s"]);
        self.run_to_end(process).await
    }

    async fn run_to_end(&self, mut command: Command) -> (Option<i32>, Value, String) {
        command.stdin(Stdio::null()).kill_on_drop(true);
        self.access.apply(&mut command);
        let output = tokio::time::timeout(TIMEOUT, command.output()).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(!self.access.leaks_in(&text), "a secret is shown: {text}");
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), text)
    }

    fn mismatch(&self, source: &str, expected: &str, actual: impl std::fmt::Display) -> String {
        format!("{:?}: {source} does not say {expected:?}:\n{actual}", self.cause)
    }

    /// Returns the mismatch in `tenure status`.
    pub async fn status(&self, row: &ProblemRow) -> Option<String> {
        let (code, _, text) = self.run_command("status").await;
        // A successful read shows that no candidate leads, but not the reason.
        let words = row.status.unwrap_or("tenure check tests it from here");
        (!text.contains(words) || code == Some(0)).then(|| self.mismatch("status", words, text))
    }

    /// Returns the mismatch in `tenure lock`.
    pub async fn lock(&self, row: &ProblemRow) -> Option<String> {
        let (code, words) = row.lock?;
        let mut lock = Command::new(PROGRAM);
        lock.args(["lock", "--wait", "2s", ELECTION, "--", "true"]);
        let (ended, _, text) = self.run_to_end(lock).await;
        // The output is wrapped.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (ended != Some(code) || !text.contains(words)).then(|| {
            self.mismatch("lock", &format!("{words}, {code}"), format!("{ended:?} {text}"))
        })
    }

    /// Asserts that `check` and a candidate report a wrong clock. The candidate reports it once.
    pub async fn assert_clock_reported(&self, words: &str) {
        let mut check = Command::new(PROGRAM);
        check.args(["check", "--json", "--every", "1h", ELECTION, "--", "true"]);
        let (code, json, text) = self.run_to_end(check).await;
        assert_eq!(code, Some(2), "{text}");
        let findings = json["elections"][0]["findings"].as_array().unwrap();
        let clock = findings.iter().find(|finding| finding["check"] == "clock").unwrap();
        assert!(clock["detail"].as_str().unwrap().contains(words), "{text}");
        let candidate = self.run();
        assert_eq!(self.problem(&candidate, 0, ("clock", words)).await, [""; 0]);
        candidate.event("elected", TIMEOUT).await;
        let renewed = candidate.lines().len();
        candidate.line("renewal", renewed, TIMEOUT, |line| line.name() == "renewed").await;
        let reported = candidate.lines().into_iter().filter(|line| line.event["class"] == "clock");
        assert_eq!(reported.count(), 1, "{}", candidate.transcript());
    }

    /// Asserts that an infinite lease is reported, and that `tenure break` ends the problem.
    pub async fn assert_break_ends_lease(&self) {
        let candidate = self.run();
        let expected = ("foreign-lease", "tenure break");
        assert_eq!(self.problem(&candidate, 0, expected).await, [""; 0]);
        let mut break_command = Command::new(PROGRAM);
        break_command.args(["break", "--yes", ELECTION]);
        let (code, _, text) = self.run_to_end(break_command).await;
        assert_eq!(code, Some(0), "{text}");
        candidate.event("elected", TIMEOUT).await;
        assert_eq!(candidate.count("following"), 0, "{}", candidate.transcript());
    }

    /// Returns the mismatches in `tenure check`, for the account alone and with a schedule and
    /// work.
    pub async fn account(&self, row: &ProblemRow) -> Vec<String> {
        let mut mismatches = Vec::new();
        for work in [&[][..], &["--every", "1h", "--", "true"]] {
            let mut command = Command::new(PROGRAM);
            command.args(["check", ELECTION, "--json", "--request-timeout", "1s"]);
            let (code, json, text) = self
                .run_to_end({
                    command.args(work);
                    command
                })
                .await;
            let (check, words) = row.check;
            let findings = json["elections"][0]["findings"].as_array().cloned().unwrap_or_default();
            let is_reported = findings.iter().any(|finding| {
                finding["check"] == check
                    && finding["verdict"] == "failed"
                    && finding["detail"].as_str().unwrap().contains(words)
            });
            if !is_reported || code != Some(2) {
                mismatches.push(self.mismatch("check", words, text));
            }
        }
        mismatches
    }

    fn run(&self) -> Candidate {
        let mut command = Command::new(PROGRAM);
        command
            .args(["run", "--log", "json", "--log-level", "debug", ELECTION, "--name", "ada"])
            // No slot comes due, because a claim fails with another message than a renewal.
            .args(["--cron", "0 0 29 2 *", "--listen", "127.0.0.1:0", "--poll", "500ms"])
            .args(["--renew", "1s", "--request-timeout", "1s", "--handler"])
            .arg(Path::new(BEAT_HANDLER));
        self.access.apply(&mut command);
        Candidate::spawn("ada", command).unwrap()
    }

    /// Returns the mismatches in the log and `/readyz` of `tenure run`.
    pub async fn candidate(&self, row: &ProblemRow) -> Vec<String> {
        let candidate = self.run();
        let (class, words) = row.problem;
        let mut mismatches = self.problem(&candidate, 0, row.problem).await;
        let page = format!("{}/readyz", address(&candidate).await);
        if row.ready {
            if let Err(last) = poll_until(&page, 200, "").await {
                mismatches.push(self.mismatch("/readyz", "200", last));
            }
        } else if let Err(last) = poll_until(&page, 503, words).await {
            mismatches.push(self.mismatch("/readyz", &format!("{class}: {words}"), last));
        }
        mismatches
    }

    /// Waits for a problem of this class whose text contains these words.
    async fn problem(
        &self,
        candidate: &Candidate,
        after: usize,
        expected: (&str, &str),
    ) -> Vec<String> {
        let (class, words) = expected;
        let matches = |line: &Line| {
            line.name() == "problem"
                && line.event["class"] == class
                && line.event["detail"].as_str().unwrap().contains(words)
        };
        match candidate.line_within(after, TIMEOUT, matches).await {
            Some(_) => Vec::new(),
            None => {
                vec![self.mismatch("run", &format!("{class}: {words}"), candidate.transcript())]
            }
        }
    }

    /// Injects a fault into a leader, and returns the mismatches in its log.
    pub async fn leader(&self, row: &LeaderRow) -> Vec<String> {
        let candidate = self.run();
        candidate.event("elected", TIMEOUT).await;
        let before = candidate.lines().len();
        let outsider = Outsider::new(&self.front.connection_string(), ELECTION);
        match row.fault {
            LeaderFault::LeaseBroken => outsider.break_lease().await.unwrap(),
            LeaderFault::BlobDeleted => {
                // A blob cannot be deleted while another lease holder has it. The leader must not
                // notice the lost lease meanwhile.
                let busy = Override::Error(503, "ServerBusy");
                let refuse_leader_writes = move |request: &Request| {
                    ["renew", "write"].contains(&operation_name(request)).then(|| busy.clone())
                };
                self.front.set_rule(refuse_leader_writes);
                let lease = outsider.break_and_acquire().await.unwrap();
                outsider.delete_blob(&lease).await.unwrap();
                self.front.set_rule(|_| None);
            }
            LeaderFault::ContainerDeleted => outsider.delete_container().await.unwrap(),
            LeaderFault::KeyReplaced => self.front.with_service(|service| {
                service.replace_key("problems", KeyName::Key1, "YW5vdGhlcg==").unwrap();
            }),
            LeaderFault::Cause(cause) => self.inject(cause),
        }
        let mut mismatches = self.problem(&candidate, before, row.problem).await;
        let ended = candidate.event("stood-down", TIMEOUT).await;
        if ended.event["reason"] != row.stand_down_reason {
            mismatches.push(format!("{:?}: ends with {}", row.fault, ended.event));
        }
        for text in &mut mismatches {
            *text = format!("{:?}: {text}", row.fault);
        }
        mismatches
    }
}

/// Serves TLS with an untrusted certificate, or answers with data that is not TLS.
async fn serve_handshakes(socket: TcpListener, tls: bool) {
    let certificates = Certificates::generate().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(certificates.server().unwrap()));
    while let Ok((mut stream, _)) = socket.accept().await {
        if tls {
            let _ = acceptor.accept(stream).await;
        } else {
            let _ =
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    }
}

/// Returns the address that a candidate reports.
async fn address(candidate: &Candidate) -> String {
    let listen_address = |line: &Line| {
        let detail = line.event["detail"].as_str()?;
        detail.strip_prefix("listening on ").map(str::to_owned)
    };
    let line = candidate.line("address", 0, TIMEOUT, |line| listen_address(line).is_some()).await;
    listen_address(&line).unwrap()
}

/// Polls until the response has this status and these words; otherwise returns the last response.
async fn poll_until(url: &str, status: u16, words: &str) -> Result<(), String> {
    let client = tenure_tests::certificates::client(None).unwrap();
    let mut last = String::new();
    let polling = async {
        loop {
            let answer = client.get(url).send().await.unwrap();
            let (actual, body) = (answer.status().as_u16(), answer.text().await.unwrap());
            if actual == status && body.contains(words) {
                return;
            }
            last = format!("{actual} {body}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, polling).await.map_err(|_| last)
}
