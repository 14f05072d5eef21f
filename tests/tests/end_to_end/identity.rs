//! Candidates that request their own tokens, from fake identity endpoints and with an Azurite that
//! accepts tokens.

use crate::PROGRAM;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tenure_tests::identity::{Endpoint, Expected, Proof, Reply, Spelling};
use tenure_tests::{Access, BEAT_HANDLER, Candidate, Group, Sink, Store, needs};
use tokio::time::{sleep, timeout};

const TIMEOUT: Duration = tenure_tests::PATIENCE;
const HEADER: &str = "853b9a84-1eakedheader";
const SECRET: &str = "Q8~leaked-client-secret";
const TENANT: &str = "ab1f708d-50f6-404c-a006-d71b2ac7a606";
const CLIENT: &str = "f997392c-e15a-4ad8-af9e-cd6966caba7f";

/// A store that accepts tokens, and the common settings of all candidates on it.
struct Scene {
    store: Store,
    sink: Sink,
    folder: TempDir,
}

impl Scene {
    async fn new() -> Self {
        let store = Store::azurite_tls().await.unwrap();
        let sink = Sink::start().await.unwrap();
        let scene = Self { store, sink, folder: TempDir::new().unwrap() };
        scene.group().warm_up().await.unwrap();
        scene
    }

    fn group(&self) -> Group {
        let group = Group::new(PROGRAM, &self.store, &self.sink);
        Group { patient_timings: true, ..group }
    }

    /// Starts an endpoint of that kind, and returns it with the variables by which a candidate
    /// finds it.
    async fn endpoint(&self, kind: &Kind) -> (Endpoint, Vec<(&'static str, String)>) {
        let certificates = match &self.store {
            Store::Azurite(azurite) => azurite.certificates().unwrap(),
            other => panic!("{other:?}"),
        };
        let expected = kind.expected("assertion-1");
        let endpoint = match kind {
            Kind::Secret | Kind::Workload => Endpoint::start_tls(expected, certificates).await,
            _ => Endpoint::start(expected).await,
        };
        let endpoint = endpoint.unwrap();
        let application = || {
            vec![
                ("AZURE_AUTHORITY_HOST", endpoint.origin()),
                ("AZURE_TENANT_ID", TENANT.to_owned()),
                ("AZURE_CLIENT_ID", CLIENT.to_owned()),
            ]
        };
        let mut variables = match kind {
            Kind::Imds | Kind::ImdsOfSeveral => {
                vec![("AZURE_POD_IDENTITY_AUTHORITY_HOST", endpoint.origin())]
            }
            Kind::App => {
                vec![("IDENTITY_ENDPOINT", endpoint.url()), ("IDENTITY_HEADER", HEADER.to_owned())]
            }
            Kind::Secret => application(),
            Kind::Workload => application(),
        };
        match kind {
            Kind::ImdsOfSeveral => variables.push(("AZURE_CLIENT_ID", CLIENT.to_owned())),
            Kind::Secret => variables.push(("AZURE_CLIENT_SECRET", SECRET.to_owned())),
            Kind::Workload => {
                let file = self.folder.path().join("assertion");
                std::fs::write(&file, "assertion-1\n").unwrap();
                let file = file.to_string_lossy().into_owned();
                variables.push(("AZURE_FEDERATED_TOKEN_FILE", file));
            }
            _ => {}
        }
        (endpoint, variables)
    }

    fn access(&self, mut variables: Vec<(&'static str, String)>) -> Access {
        let store = self.store.connection_string();
        let endpoint = store.split("BlobEndpoint=").nth(1).unwrap().trim_end_matches(';');
        variables.push(("AZURE_STORAGE_ACCOUNT", "devstoreaccount1".to_owned()));
        variables.push(("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint.to_owned()));
        Access::from_variables(variables).trusting(self.store.ca_file())
    }

    fn start(&self, group: &Group, variables: Vec<(&'static str, String)>) -> Candidate {
        let access = self.access(variables);
        // A machine that stalls for a while must not trigger another request.
        let timings = ["--lease", "60s", "--request-timeout", "15s", "--renew", "1s"];
        group.start_with("ada", &access, Path::new(BEAT_HANDLER), &timings).unwrap()
    }
}

#[derive(Debug)]
enum Kind {
    Imds,
    ImdsOfSeveral,
    App,
    Secret,
    Workload,
}

impl Kind {
    fn expected(&self, assertion: &str) -> Expected {
        let entra =
            |proof| Expected::Entra { tenant: TENANT.into(), client_id: CLIENT.into(), proof };
        match self {
            Self::Imds => Expected::Imds { client_id: None },
            Self::ImdsOfSeveral => Expected::Imds { client_id: Some(CLIENT.into()) },
            Self::App => Expected::AppService {
                path: "/msi/token".into(),
                header: HEADER.into(),
                client_id: None,
            },
            Self::Secret => entra(Proof::Secret(SECRET.into())),
            Self::Workload => entra(Proof::Assertion(assertion.into())),
        }
    }
}

async fn every_identity_leads_and_runs_its_turns() {
    let scene = Scene::new().await;
    let kinds = [Kind::Imds, Kind::ImdsOfSeveral, Kind::App, Kind::Secret, Kind::Workload];
    let mut running = Vec::new();
    for kind in kinds {
        let (endpoint, variables) = scene.endpoint(&kind).await;
        let candidate = scene.start(&scene.group(), variables);
        running.push((kind, endpoint, candidate));
    }
    for (kind, endpoint, mut candidate) in running {
        let first = candidate.event("starting", TIMEOUT).await;
        let credential = first.event["credential"].as_str().unwrap();
        assert!(credential.starts_with("the "), "{kind:?}: {first:?}");
        let ended = candidate.event("turn-ended", TIMEOUT).await;
        assert_eq!(ended.event["outcome"], "succeeded", "{kind:?}: {ended:?}");
        assert_eq!(endpoint.complaints(), [""; 0], "{kind:?}");
        // One token for the election, and one for the list of members that a leader without shares
        // reads.
        let two_requests = async {
            while endpoint.requests().len() < 2 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(
            timeout(TIMEOUT, two_requests).await.is_ok(),
            "{kind:?}: {}",
            candidate.transcript()
        );
        candidate.event("renewed", TIMEOUT).await;
        candidate.terminate(TIMEOUT).await.unwrap();
        assert_eq!(endpoint.requests().len(), 2, "{kind:?}");
        let output_text = candidate.transcript() + &candidate.errors();
        for secret in
            endpoint.issued().iter().map(String::as_str).chain([HEADER, SECRET, "assertion-1"])
        {
            assert!(!output_text.contains(secret), "{kind:?}: {output_text}");
        }
    }
}

needs!(Node => async fn every_identity_leads_and_runs_its_turns);

async fn failing_identity_endpoint_is_retried_until_token() {
    let scene = Scene::new().await;
    let (endpoint, variables) = scene.endpoint(&Kind::App).await;
    let hour = Duration::from_secs(3600);
    endpoint.add_replies([
        Reply::text(404, ""),
        Reply::text(410, ""),
        Reply::text(429, ""),
        Reply::text(500, "<html>"),
        Reply::text(200, "<html>"),
        Reply::text(200, r#"{"access_token":"ey"}"#),
        Reply::text(400, r#"{"statusCode":400,"message":"No identity."}"#),
        Reply::token(hour).expires_in(Spelling::Text).delayed_by(Duration::from_secs(2)),
    ]);
    let candidate = scene.start(&scene.group(), variables);
    candidate.event("elected", TIMEOUT).await;
    let lines = candidate.lines();
    let mut classes: Vec<&str> = lines
        .iter()
        .filter(|line| line.name() == "problem")
        .map(|line| line.event["class"].as_str().unwrap())
        .collect();
    classes.sort_unstable();
    classes.dedup();
    assert_eq!(classes, ["nonsense", "refused", "unavailable"], "{}", candidate.transcript());
    assert!(candidate.transcript().contains("No identity."));
    // A leader lists members with a separate token. That request may already have arrived.
    let requests = endpoint.requests().len();
    assert!(matches!(requests, 8 | 9), "{requests} requests");
    assert_eq!(endpoint.complaints(), [""; 0]);
}

needs!(Node => async fn failing_identity_endpoint_is_retried_until_token);

async fn entra_errors_are_quoted() {
    let scene = Scene::new().await;
    for (reply, expected) in
        [(Reply::invalid_client(), "AADSTS7000215"), (Reply::invalid_resource(), "AADSTS500011")]
    {
        let (endpoint, variables) = scene.endpoint(&Kind::Secret).await;
        endpoint.set_default_reply(reply);
        let candidate = scene.start(&scene.group(), variables);
        let problem = candidate.event("problem", TIMEOUT).await;
        assert_eq!(problem.event["class"], "refused", "{problem:?}");
        assert!(problem.event["detail"].as_str().unwrap().contains(expected), "{problem:?}");
        assert_eq!(candidate.count("elected"), 0);
    }
}

needs!(Node => async fn entra_errors_are_quoted);

/// The token of a workload identity lasts for seconds, and its assertion file changes: the
/// candidate keeps leading. `TENURE_TEST_ROTATIONS` sets the number of tokens (10).
async fn tokens_and_assertions_are_renewed_while_it_leads() {
    let scene = Scene::new().await;
    let (endpoint, variables) = scene.endpoint(&Kind::Workload).await;
    let spellings = [Spelling::Number, Spelling::Text].into_iter().cycle();
    let short = |spelling| Reply::token(Duration::from_secs(4)).expires_in(spelling);
    let renewals = std::env::var("TENURE_TEST_ROTATIONS").map_or(10, |n| n.parse().unwrap());
    endpoint.add_replies(spellings.map(short).take(renewals + 10));
    let mut candidate = scene.start(&scene.group(), variables);
    candidate.event("elected", TIMEOUT).await;
    let file = scene.folder.path().join("assertion");
    for (count, assertion) in [(3, "assertion-2"), (5, "assertion-3"), (8, "assertion-4")] {
        endpoint.wait_for(count).await;
        // Half of a token's time passes before the next request.
        let new_file = scene.folder.path().join("new");
        std::fs::write(&new_file, assertion).unwrap();
        std::fs::rename(&new_file, &file).unwrap();
        endpoint.set_expected(Kind::Workload.expected(assertion));
    }
    endpoint.wait_for(renewals).await;
    assert_eq!(endpoint.complaints(), [""; 0]);
    assert_eq!(candidate.count("elected"), 1, "{}", candidate.transcript());
    assert_eq!(candidate.count("stood-down"), 0, "{}", candidate.transcript());
    candidate.terminate(TIMEOUT).await.unwrap();
}

needs!(Node => async fn tokens_and_assertions_are_renewed_while_it_leads);

/// Uses the environment of a candidate with failover.
async fn a_slot_is_reset_with_a_token() {
    let scene = Scene::new().await;
    let group = scene.group();
    let (_endpoint, variables) = scene.endpoint(&Kind::App).await;
    let mut candidate = scene.start(&group, variables.clone());
    candidate.event("turn-ended", TIMEOUT).await;
    candidate.terminate(TIMEOUT).await.unwrap();
    let outsider = group.outsider();
    let record = outsider.metadata().await.unwrap();
    let fields = record.iter().filter_map(|line| line.split_once('='));
    let fields: Vec<_> = fields.filter(|(name, _)| *name != "tenureslot").collect();
    let fields = [&fields[..], &[("tenureslot", "2056-11-20T07:00:00Z")]].concat();
    outsider.put_metadata(&fields).await.unwrap();

    let mut command = tokio::process::Command::new(PROGRAM);
    command.args(["reset-slot", "--yes", &group.election]);
    scene.access(variables).apply(&mut command);
    command.env("TENURE_FAILOVER", "3s").stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, command.output()).await.unwrap().unwrap();
    let output_text = [output.stdout, output.stderr].concat();
    let output_text = String::from_utf8_lossy(&output_text);
    assert_eq!(output.status.code(), Some(0), "{output_text}");
    assert!(output_text.contains("2056-11-20T07:00:00Z is forgotten"), "{output_text}");
}

needs!(Node => async fn a_slot_is_reset_with_a_token);
