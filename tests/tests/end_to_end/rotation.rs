//! Secrets that are replaced under load, while candidates lead: no leadership is lost.
//!
//! `TENURE_TEST_ROTATIONS` sets how often the account's keys are regenerated (12).

use crate::PROGRAM;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{TimeDelta, Utc};
use tempfile::TempDir;
use tenure_store::sas::{SasParameters, Scope};
use tenure_store::{Account, EMULATOR_ACCOUNT, KeyName};
use tenure_tests::{Access, BEAT_HANDLER, Candidate, Group, Sink, Store};

const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Two of the three leaders cannot renew until the third has renewed and their files have the new
/// key. On a busy machine that takes longer than the shortest lease.
const TIMINGS: [&str; 6] = ["--renew", "1s", "--lease", "60s", "--request-timeout", "15s"];

/// Files that an operator keeps up to date.
struct Secrets {
    folder: TempDir,
    keys: [String; 2],
    container: String,
    endpoint: String,
}

impl Secrets {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file by a rename, like platforms that mount secrets.
    fn write(&self, name: &str, text: &str) {
        let new = self.path("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, self.path(name)).unwrap();
    }

    /// Updates everything that was made with one of the keys. The file "key" gets the newest key,
    /// so it never holds the one that is regenerated next.
    fn publish(&self, key_index: usize) {
        self.write("key", &self.keys[key_index]);
        if key_index == 0 {
            let account = Account::new(EMULATOR_ACCOUNT, &[&self.keys[0]]).unwrap();
            let scope = Scope::Container(self.container.clone());
            let terms = SasParameters::new(scope, "rcw", Utc::now() + TimeDelta::hours(1));
            let token = account.sas(KeyName::Key1, &terms).unwrap();
            self.write("sas", token.query());
            let endpoint = &self.endpoint;
            let key = &self.keys[0];
            self.write(
                "string",
                &format!("AccountName={EMULATOR_ACCOUNT};AccountKey={key};BlobEndpoint={endpoint}"),
            );
        }
    }
}

/// Waits until a candidate has renewed its lease again.
async fn renewed(candidate: &Candidate) {
    let from = candidate.lines().len();
    candidate.line("renewal", from, TIMEOUT, |line| line.name() == "renewed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_survive_key_rotation() {
    let rotations = std::env::var("TENURE_TEST_ROTATIONS").map_or(12, |n| n.parse().unwrap());
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    group.outsider().create_container().await.unwrap();
    let Store::Embedded(embedded) = &store else { panic!("the embedded one") };
    let container = group.election.split_once('/').unwrap().0.to_owned();
    let endpoint = group.connection_string.split("BlobEndpoint=").nth(1).unwrap();
    let endpoint = endpoint.trim_end_matches(';').to_owned();
    let key = |number: usize| STANDARD.encode(format!("key number {number} of this account"));
    let mut secrets = Secrets {
        folder: TempDir::new().unwrap(),
        keys: [key(1), key(2)],
        container: container.clone(),
        endpoint: endpoint.clone(),
    };
    let regenerate = |name, key: &str| {
        embedded.with(|service| service.replace_key(EMULATOR_ACCOUNT, name, key)).unwrap();
    };
    for (key_index, name) in [KeyName::Key1, KeyName::Key2].into_iter().enumerate() {
        regenerate(name, &secrets.keys[key_index]);
        secrets.publish(key_index);
    }

    let file = |name: &str| secrets.path(name).to_string_lossy().into_owned();
    let access_from = |variables: &[(&'static str, String)]| {
        let account = [
            ("AZURE_STORAGE_ACCOUNT", EMULATOR_ACCOUNT.to_owned()),
            ("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint.clone()),
        ];
        Access::from_variables(account.into_iter().chain(variables.iter().cloned()).collect())
    };
    let accesses = [
        ("key", access_from(&[("AZURE_STORAGE_KEY_FILE", file("key"))])),
        ("sas", access_from(&[("AZURE_STORAGE_SAS_TOKEN_FILE", file("sas"))])),
        (
            "string",
            Access::from_variables(vec![("AZURE_STORAGE_CONNECTION_STRING_FILE", file("string"))]),
        ),
    ];
    let mut leaders = Vec::new();
    for (name, access) in &accesses {
        let group = Group { election: format!("{container}/{name}"), ..group.clone() };
        let leader = group.start_with(name, access, Path::new(BEAT_HANDLER), &TIMINGS);
        leaders.push(leader.unwrap());
    }
    for leader in &leaders {
        leader.event("elected", TIMEOUT).await;
    }

    for rotation in 0..rotations {
        let key_index = rotation % 2;
        secrets.keys[key_index] = key(rotation + 3);
        regenerate([KeyName::Key1, KeyName::Key2][key_index], &secrets.keys[key_index]);
        if rotation == 0 {
            // The files get the new key after both leaders were refused with the old one. Later
            // rotations do not wait for that.
            for leader in &leaders[1..] {
                leader.event("problem", TIMEOUT).await;
            }
        }
        // The leader that has the other key keeps leading.
        renewed(&leaders[0]).await;
        secrets.publish(key_index);
        for leader in &leaders {
            renewed(leader).await;
        }
    }

    for leader in &leaders[1..] {
        assert!(leader.count("problem") > 0, "the rotations were seen: {}", leader.transcript());
    }
    for leader in &mut leaders {
        assert_eq!(leader.count("elected"), 1, "{}", leader.transcript());
        assert_eq!(leader.count("stood-down"), 0, "{}", leader.transcript());
        assert!(leader.count("turn-ended") > 0, "{}", leader.transcript());
        leader.terminate(TIMEOUT).await.unwrap();
    }
}
