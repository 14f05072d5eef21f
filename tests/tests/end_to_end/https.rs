//! TLS with a certificate that only `--ca-file` vouches for: Azurite's checks of tokens, and the
//! behaviour of the program.

use crate::PROGRAM;
use std::process::{Output, Stdio};
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use reqwest::StatusCode;
use tenure_tests::certificates::client;
use tenure_tests::token::{AUDIENCE, bearer, token};
use tenure_tests::{
    Azurite, BEAT_HANDLER, Candidate, Certificates, Group, Line, Sink, Store, needs,
};
use tokio::process::Command;

const TIMEOUT: Duration = tenure_tests::PATIENCE;
const HOUR: TimeDelta = TimeDelta::hours(1);

async fn azurite() -> Azurite {
    Azurite::start(0, Some(Certificates::generate().unwrap().into())).await.unwrap()
}

/// Lists the containers. Returns the status and the service's code.
async fn list(azurite: &Azurite, token: &str) -> (StatusCode, String) {
    let client = client(Some(&azurite.certificates().unwrap().ca())).unwrap();
    let url = format!("https://localhost:{}/devstoreaccount1?comp=list", azurite.port());
    let request = client.get(url).header("x-ms-version", "2021-12-02").bearer_auth(token);
    let answer = request.send().await.unwrap();
    let code = answer.headers().get("x-ms-error-code");
    let code = code.map(|code| code.to_str().unwrap().to_owned());
    (answer.status(), code.unwrap_or_default())
}

async fn azurite_takes_tokens_for_storage_while_they_are_valid() {
    let azurite = azurite().await;
    let (status, code) = list(&azurite, &bearer(Duration::from_secs(60))).await;
    assert_eq!((status, code.as_str()), (StatusCode::OK, ""));
    let now = Utc::now();
    let refused = [
        token("https://vault.azure.net", now - HOUR, now + HOUR),
        token(&format!("{AUDIENCE}.evil.example"), now - HOUR, now + HOUR),
        token(AUDIENCE, now - HOUR, now - TimeDelta::minutes(1)),
        token(AUDIENCE, now + HOUR, now + HOUR * 2),
        "no-token".to_owned(),
    ];
    for (number, token) in refused.iter().enumerate() {
        let (status, code) = list(&azurite, token).await;
        let result = (status, code.as_str());
        assert_eq!(result, (StatusCode::FORBIDDEN, "AuthenticationFailed"), "No. {number}");
    }
}

needs!(Node => async fn azurite_takes_tokens_for_storage_while_they_are_valid);

async fn azurite_is_untrusted_without_its_ca() {
    let azurite = azurite().await;
    let url = format!("https://127.0.0.1:{}/", azurite.port());
    let other_authority = Certificates::generate().unwrap();
    for untrusting_client in [client(None), client(Some(&other_authority.ca()))] {
        let refused = untrusting_client.unwrap().get(&url).send().await.unwrap_err();
        assert!(refused.is_connect(), "{refused:?}");
    }
}

needs!(Node => async fn azurite_is_untrusted_without_its_ca);

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Returns `tenure COMMAND` for the election of `group`, which only trusts the platform's
/// authorities.
fn tenure(group: &Group, command: &str) -> Command {
    let mut tenure = Command::new(PROGRAM);
    tenure.args([command, &group.election]).stdin(Stdio::null());
    tenure.env("AZURE_STORAGE_CONNECTION_STRING", &group.connection_string);
    tenure
}

/// Starts `tenure run` with a handler that beats over plain HTTP.
fn candidate(group: &Group, name: &str, trust: impl FnOnce(&mut Command)) -> Candidate {
    let mut run = tenure(group, "run");
    run.args([
        "--log",
        "json",
        "--log-level",
        "debug",
        "--name",
        name,
        "--every",
        "1s",
        "--handler",
        BEAT_HANDLER,
    ]);
    run.args(["--env", &format!("BEAT_URL=http://{}/", group.sink), "--env", "BEAT_FOR_MS=100"]);
    run.args(["--allow-host", &group.sink]);
    trust(&mut run);
    Candidate::spawn(name, run).unwrap()
}

async fn candidates_trust_configured_ca() {
    let (store, sink) = (Store::azurite_tls().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    let ca = store.ca_file().unwrap();
    let ask = async |command: &str, extra_args: &[&str]| {
        tenure(&group, command).args(extra_args).output().await.unwrap()
    };

    let mut ada = candidate(&group, "ada", |run| {
        run.arg("--ca-file").arg(&ca);
    });
    let term = ada.event("elected", TIMEOUT).await.term();
    ada.event("turn-ended", TIMEOUT).await;
    let mut ben = candidate(&group, "ben", |run| {
        run.env("TENURE_CA_FILE", &ca);
    });
    let following = |line: &Line| line.name() == "following" && line.term() == term;
    ben.line("follower", 0, TIMEOUT, following).await;
    let trusting = ["--ca-file", ca.to_str().unwrap()];
    let status = ask("status", &trusting).await;
    assert_eq!(status.status.code(), Some(0), "{}", text(&status));
    let reset = ask("reset-slot", &[&trusting[..], &["--yes"]].concat()).await;
    assert_eq!(reset.status.code(), Some(0), "{}", text(&reset));

    // The option takes precedence over the variable, and the platform does not trust the authority.
    let other_authority = Certificates::generate().unwrap();
    let mut eve = candidate(&group, "eve", |run| {
        run.env("TENURE_CA_FILE", &ca).arg("--ca-file").arg(other_authority.ca());
    });
    let problem = eve.event("problem", TIMEOUT).await;
    assert!(problem.event["detail"].as_str().unwrap().contains("TLS"), "{problem:?}");
    assert_eq!(problem.event["class"], "unreachable", "{problem:?}");
    for command in ["status", "reset-slot"] {
        let output = ask(command, &[]).await;
        assert_ne!(output.status.code(), Some(0), "{}", text(&output));
        assert!(text(&output).contains("TLS"), "{}", text(&output));
    }

    for candidate in [&mut ben, &mut eve, &mut ada] {
        let ended = candidate.terminate(TIMEOUT).await.unwrap();
        assert!(ended.success(), "{}", candidate.transcript());
    }
    assert_eq!(eve.count("elected"), 0, "{}", eve.transcript());
}

needs!(Node => async fn candidates_trust_configured_ca);
