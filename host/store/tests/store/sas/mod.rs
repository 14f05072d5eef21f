//! Shared access signatures: their rights, their validity, and refusals.

mod credentials;
mod refusals;
mod rights;

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use tenure_store::sas::{SasParameters, Scope, Token};
use tenure_store::{Account, KeyName, Response};

use super::script::Scene;
use super::send::{Direct, start_instant};

/// Friday, 2 January 2026, 03:04:05. A scene begins a quarter of a second later.
fn second() -> DateTime<Utc> {
    start_instant().wall.trunc_subsecs(0)
}

fn terms(scope: Scope, letters: &str) -> SasParameters {
    SasParameters::new(scope, letters, second() + TimeDelta::hours(1))
}

fn account(services: &str, types: &str) -> Scope {
    Scope::Account { services: services.to_owned(), types: types.to_owned() }
}

fn container(name: &str) -> Scope {
    Scope::Container(name.to_owned())
}

fn blob(container: &str, blob: &str) -> Scope {
    Scope::Blob { container: container.to_owned(), blob: blob.to_owned() }
}

fn token(terms: &SasParameters) -> Token {
    Account::emulator().sas(KeyName::Key1, terms).unwrap()
}

fn sas(scope: Scope, letters: &str) -> String {
    token(&terms(scope, letters)).query().to_owned()
}

/// Returns the response to the last step of a script with a token, in the container `leases`.
fn answer(script: &str, token: &str) -> Response {
    Scene::new(&mut Direct::new(), "leases").run(&format!("{script} sas={token}"))
}

fn outcome(script: &str, token: &str) -> String {
    ok_or_code(&answer(script, token))
}

/// Returns `ok`, or the error code.
fn ok_or_code(answer: &Response) -> String {
    match answer.status {
        200..=202 => "ok".to_owned(),
        403 => answer.code().unwrap_or("no code").to_owned(),
        status => format!("{status} {:?}", answer.code()),
    }
}

fn detail(answer: &Response) -> String {
    let body = String::from_utf8(answer.body.to_vec()).unwrap();
    let (_, rest) = body.split_once("<AuthenticationErrorDetail>").expect("a detail");
    rest.split_once("</AuthenticationErrorDetail>").unwrap().0.to_owned()
}
