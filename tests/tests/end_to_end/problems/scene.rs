//! One problem, and those who are asked about it.

use crate::PROGRAM;
use std::future::Future;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use serde_json::Value;
use tenure_store::sas::{Scope, Terms};
use tenure_store::{KeyName, Request};
use tenure_tests::credential::with_sas;
use tenure_tests::{
    Access, BEAT_HANDLER, Candidate, Certificates, Credential, Front, Instead, Line, Mode,
    Outsider, Proxy, asks, reserved,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::table::{Asked, Blow, Cause, Held};

const ELECTION: &str = "problems/report";
const SOON: Duration = tenure_tests::PATIENCE;

/// So many at a time; what they found wrong, all of it.
pub async fn at_a_time<F>(most: usize, rows: impl Iterator<Item = F>) -> Vec<String>
where
    F: Future<Output = Vec<String>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(most));
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

/// A store that fails, and how to reach it.
pub struct Scene {
    cause: Cause,
    front: Front,
    proxy: Proxy,
    access: Access,
    /// What listens in the place of the store.
    _listener: Option<tokio::task::JoinHandle<()>>,
}

impl Scene {
    /// Nothing is wrong yet.
    pub async fn sound() -> Self {
        Self::set(Cause::Nothing).await
    }

    pub async fn set(cause: Cause) -> Self {
        let front = Front::start().await.unwrap();
        let known = front.connection_string();
        let (proxy, through) = Proxy::of_store(&known).await.unwrap();
        let outsider = Outsider::new(&known, ELECTION);
        let without_container =
            matches!(cause, Cause::ContainerMissing | Cause::Code(["create-container"], ..));
        if !without_container {
            outsider.create_container().await.unwrap();
        }
        let at = |origin: &str| {
            let (before, _) = known.split_once("BlobEndpoint=").unwrap();
            Access::with(format!("{before}BlobEndpoint={origin}/problems"))
        };
        let mut listener = None;
        let access = match cause {
            Cause::WrongKey => Credential::SharedKey.wrong_access(&through, "problems"),
            Cause::ExpiredSas => {
                let scope = Scope::Container("problems".to_owned());
                let terms = Terms::new(scope, "rcwd", Utc::now() - TimeDelta::minutes(1));
                let sas = front.with(|s| s.accounts()[0].sas(KeyName::Key1, &terms).unwrap());
                let (_, endpoint) = through.split_once("BlobEndpoint=").unwrap();
                Access::with(sas.connection_string(endpoint.trim_end_matches(';')))
            }
            Cause::ContainerMissing => {
                let objects = Scope::Account { services: "b".into(), types: "o".into() };
                Access::with(with_sas(&through, objects, "rwdc"))
            }
            Cause::Refused => at(&format!("http://{}", reserved().unwrap())),
            Cause::NoName => at("http://nobody.invalid"),
            Cause::NoTrust | Cause::NoTls => {
                let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let origin = format!("https://{}", socket.local_addr().unwrap());
                listener = Some(tokio::spawn(speak(socket, cause == Cause::NoTrust)));
                at(&origin)
            }
            _ => Access::with(through),
        };
        if cause == Cause::ForeignBlob {
            outsider.put_foreign_blob().await.unwrap();
        }
        if cause == Cause::InfiniteLease {
            let mut lock = Command::new(PROGRAM);
            lock.args(["lock", "--name", "before", ELECTION, "--", "true"]).kill_on_drop(true);
            access.give(&mut lock);
            assert!(lock.status().await.unwrap().success(), "somebody led");
            outsider.acquire_forever().await.unwrap();
        }
        let scene = Self { cause, front, proxy, access, _listener: listener };
        scene.begin(cause);
        scene
    }

    /// From now on this is wrong.
    fn begin(&self, cause: Cause) {
        let among = |verbs: &'static [&str], request: &Request| {
            verbs == ["*"] || verbs.contains(&asks(request))
        };
        match cause {
            Cause::Code(verbs, status, code) => self
                .front
                .set(move |request| among(verbs, request).then_some(Instead::Code(status, code))),
            Cause::AnotherLease(verbs, status) => self
                .front
                .set(move |request| among(verbs, request).then_some(Instead::AnotherLease(status))),
            Cause::Page(status) => self.front.set(move |_| Some(Instead::Page(status))),
            Cause::Silence(verbs) => {
                self.front.set(move |request| among(verbs, request).then_some(Instead::Nothing));
            }
            Cause::Behind(minutes) => self.front.set_ahead(TimeDelta::minutes(minutes)),
            Cause::Reset => self.proxy.set(Mode::Reset),
            _ => {}
        }
    }

    async fn ask(&self, command: &str) -> (Option<i32>, Value, String) {
        let mut asked = Command::new(PROGRAM);
        asked.args([command, ELECTION, "--json", "--request-timeout", "1s"]);
        self.answered(asked).await
    }

    async fn answered(&self, mut asked: Command) -> (Option<i32>, Value, String) {
        asked.stdin(Stdio::null()).kill_on_drop(true);
        self.access.give(&mut asked);
        let output = tokio::time::timeout(SOON, asked.output()).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(!self.access.is_told_by(&text), "a secret is shown: {text}");
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), text)
    }

    fn wrong(&self, who: &str, wanted: &str, said: impl std::fmt::Display) -> String {
        format!("{:?}: {who} does not say {wanted:?}:\n{said}", self.cause)
    }

    /// What `tenure status` says wrongly.
    pub async fn status(&self, row: &Asked) -> Option<String> {
        let (code, _, text) = self.ask("status").await;
        // A look that goes well shows that nobody leads, and not why.
        let wanted = row.status.unwrap_or("tenure check tests it from here");
        (!text.contains(wanted) || code == Some(0)).then(|| self.wrong("status", wanted, text))
    }

    /// What `tenure lock` says wrongly.
    pub async fn lock(&self, row: &Asked) -> Option<String> {
        let (code, wanted) = row.lock?;
        let mut lock = Command::new(PROGRAM);
        lock.args(["lock", "--wait", "2s", ELECTION, "--", "true"]);
        let (ended, _, text) = self.answered(lock).await;
        // Lines are wrapped.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (ended != Some(code) || !text.contains(wanted))
            .then(|| self.wrong("lock", &format!("{wanted}, {code}"), format!("{ended:?} {text}")))
    }

    /// `check` and a candidate report a clock that is off. The candidate reports it once.
    pub async fn clock(&self, wanted: &str) {
        let mut check = Command::new(PROGRAM);
        check.args(["check", "--json", "--every", "1h", ELECTION, "--", "true"]);
        let (code, json, text) = self.answered(check).await;
        assert_eq!(code, Some(2), "{text}");
        let findings = json["elections"][0]["findings"].as_array().unwrap();
        let clock = findings.iter().find(|finding| finding["check"] == "clock").unwrap();
        assert!(clock["detail"].as_str().unwrap().contains(wanted), "{text}");
        let candidate = self.run();
        assert_eq!(self.problem(&candidate, 0, ("clock", wanted)).await, [""; 0]);
        candidate.event("elected", SOON).await;
        let renewed = candidate.lines().len();
        candidate.line("renewal", renewed, SOON, |line| line.name() == "renewed").await;
        let reported = candidate.lines().into_iter().filter(|line| line.event["class"] == "clock");
        assert_eq!(reported.count(), 1, "{}", candidate.transcript());
    }

    /// A lease without an end is reported, and is over when `tenure break` ended it.
    pub async fn broken(&self) {
        let candidate = self.run();
        let named = ("foreign-lease", "tenure break");
        assert_eq!(self.problem(&candidate, 0, named).await, [""; 0]);
        let mut broken = Command::new(PROGRAM);
        broken.args(["break", "--yes", ELECTION]);
        let (code, _, text) = self.answered(broken).await;
        assert_eq!(code, Some(0), "{text}");
        candidate.event("elected", SOON).await;
        assert_eq!(candidate.count("following"), 0, "{}", candidate.transcript());
    }

    /// What `tenure check` says wrongly, of the account alone and with a schedule and work.
    pub async fn account(&self, row: &Asked) -> Vec<String> {
        let mut wrong = Vec::new();
        for work in [&[][..], &["--every", "1h", "--", "true"]] {
            let mut command = Command::new(PROGRAM);
            command.args(["check", ELECTION, "--json", "--request-timeout", "1s"]);
            let (code, json, text) = self
                .answered({
                    command.args(work);
                    command
                })
                .await;
            let (check, wanted) = row.check;
            let findings = json["elections"][0]["findings"].as_array().cloned().unwrap_or_default();
            let named = findings.iter().any(|finding| {
                finding["check"] == check
                    && finding["verdict"] == "failed"
                    && finding["detail"].as_str().unwrap().contains(wanted)
            });
            if !named || code != Some(2) {
                wrong.push(self.wrong("check", wanted, text));
            }
        }
        wrong
    }

    fn run(&self) -> Candidate {
        let mut command = Command::new(PROGRAM);
        command
            .args(["run", "--log", "json", "--log-level", "debug", ELECTION, "--name", "ada"])
            // A claim would be answered in other words than a renewal: no slot comes due.
            .args(["--cron", "0 0 29 2 *", "--listen", "127.0.0.1:0", "--poll", "500ms"])
            .args(["--renew", "1s", "--request-timeout", "1s", "--handler"])
            .arg(Path::new(BEAT_HANDLER));
        self.access.give(&mut command);
        Candidate::spawn("ada", command).unwrap()
    }

    /// What the log and `/readyz` of `tenure run` say wrongly.
    pub async fn candidate(&self, row: &Asked) -> Vec<String> {
        let candidate = self.run();
        let (class, wanted) = row.problem;
        let mut wrong = self.problem(&candidate, 0, row.problem).await;
        let page = format!("{}/readyz", address(&candidate).await);
        if row.ready {
            if let Err(last) = until(&page, 200, "").await {
                wrong.push(self.wrong("/readyz", "200", last));
            }
        } else if let Err(last) = until(&page, 503, wanted).await {
            wrong.push(self.wrong("/readyz", &format!("{class}: {wanted}"), last));
        }
        wrong
    }

    /// Waits for a problem of that class and with those words.
    async fn problem(
        &self,
        candidate: &Candidate,
        after: usize,
        named: (&str, &str),
    ) -> Vec<String> {
        let (class, wanted) = named;
        let is_named = |line: &Line| {
            line.name() == "problem"
                && line.event["class"] == class
                && line.event["detail"].as_str().unwrap().contains(wanted)
        };
        match candidate.line_within(after, SOON, is_named).await {
            Some(_) => Vec::new(),
            None => {
                vec![self.wrong("run", &format!("{class}: {wanted}"), candidate.transcript())]
            }
        }
    }

    /// A blow to a leader: what its log says wrongly.
    pub async fn leader(&self, row: &Held) -> Vec<String> {
        let candidate = self.run();
        candidate.event("elected", SOON).await;
        let before = candidate.lines().len();
        let outsider = Outsider::new(&self.front.connection_string(), ELECTION);
        match row.blow {
            Blow::Broken => outsider.break_lease().await.unwrap(),
            Blow::Deleted => {
                // A blob cannot be deleted while another has its lease. The leader must not learn in between
                // that it lost the lease.
                let busy = Instead::Code(503, "ServerBusy");
                let leaders = move |request: &Request| {
                    ["renew", "write"].contains(&asks(request)).then(|| busy.clone())
                };
                self.front.set(leaders);
                let lease = outsider.seize().await.unwrap();
                outsider.delete_blob(&lease).await.unwrap();
                self.front.set(|_| None);
            }
            Blow::ContainerDeleted => outsider.delete_container().await.unwrap(),
            Blow::KeyReplaced => self.front.with(|service| {
                service.replace_key("problems", KeyName::Key1, "YW5vdGhlcg==").unwrap();
            }),
            Blow::Cause(cause) => self.begin(cause),
        }
        let mut wrong = self.problem(&candidate, before, row.problem).await;
        let ended = candidate.event("stood-down", SOON).await;
        if ended.event["reason"] != row.ends {
            wrong.push(format!("{:?}: ends with {}", row.blow, ended.event));
        }
        for text in &mut wrong {
            *text = format!("{:?}: {text}", row.blow);
        }
        wrong
    }
}

/// Shakes hands by a certificate that nobody trusts, or says what is no TLS.
async fn speak(socket: TcpListener, tls: bool) {
    let certificates = Certificates::mint().unwrap();
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

/// Where a candidate says that it listens.
async fn address(candidate: &Candidate) -> String {
    let told = |line: &Line| {
        let detail = line.event["detail"].as_str()?;
        detail.strip_prefix("listening on ").map(str::to_owned)
    };
    let line = candidate.line("address", 0, SOON, |line| told(line).is_some()).await;
    told(&line).unwrap()
}

/// Asks until the status is that one and the text has these words; else the last answer.
async fn until(url: &str, status: u16, words: &str) -> Result<(), String> {
    let client = tenure_tests::certificates::client(None).unwrap();
    let mut last = String::new();
    let asked = async {
        loop {
            let answer = client.get(url).send().await.unwrap();
            let (told, body) = (answer.status().as_u16(), answer.text().await.unwrap());
            if told == status && body.contains(words) {
                return;
            }
            last = format!("{told} {body}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, asked).await.map_err(|_| last)
}
