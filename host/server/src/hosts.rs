//! The names by which a listener may be asked.
//!
//! A page of the internet can have its own name resolved to an address of this network, and its
//! script may then read whatever answers there: DNS rebinding. The browser tells the name in `Host`.
//! Addresses, and names that the public DNS does not have, cannot be such a page's.

use super::answers::json_response;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{Response, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// Ends of names that nobody can register. A name without a dot is none of the public DNS either.
const PRIVATE: [&str; 5] = [".localhost", ".local", ".internal", ".svc", ".home.arpa"];

/// Probes ask by whatever name they like, and learn nothing that others should not.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// The host names to which a listener answers, in addition to addresses and names that the public DNS does not have.
/// Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Arc<RwLock<BTreeSet<String>>>);

impl Hosts {
    /// Adds a name; `*` stands for all. A listener that has a clone answers to it too.
    pub fn add(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(normalize(name));
    }

    fn allows(&self, name: &str) -> bool {
        let (name, allowed) = (normalize(name), self.0.read().unwrap_or_else(PoisonError::into_inner));
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        is_address
            || !name.contains('.')
            || PRIVATE.iter().any(|end| name.ends_with(end))
            || allowed.contains(&name)
            || allowed.contains("*")
    }
}

/// A name in the one way in which names are compared.
fn normalize(name: &str) -> String {
    let name = name.trim();
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Answers only those who ask by one of these names.
pub(super) fn restrict_hosts(hosts: Hosts, router: Router) -> Router {
    router.layer(from_fn_with_state(hosts, check))
}

async fn check(State(hosts): State<Hosts>, request: Request, next: Next) -> Response<Body> {
    match rejected_host(&hosts, &request) {
        Some(name) if !PROBES.contains(&request.uri().path()) => {
            let error = format!(
                "this listener does not answer to the name {name}; if it is one of its names, add it with \
                 --listen-host (or TENURE_LISTEN_HOST)"
            );
            json_response(StatusCode::MISDIRECTED_REQUEST, &json!({ "error": error }))
        }
        _ => next.run(request).await,
    }
}

/// The name that it is asked by, where that is none of its own. Browsers always tell it.
fn rejected_host(hosts: &Hosts, request: &Request) -> Option<String> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.host().to_owned()).filter(|name| !hosts.allows(name));
    }
    let host = request.headers().get(header::HOST)?.to_str().ok();
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    match host {
        Some(authority) => Some(authority.host().to_owned()).filter(|name| !hosts.allows(name)),
        None => Some("that it was asked by".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_public_dns_must_be_added() {
        let hosts = Hosts::default();
        for (name, admitted) in [
            ("10.0.0.4", true),
            ("[::1]", true),
            ("localhost", true),
            ("LOCALHOST", true),
            ("tenure", true),
            ("tenure.jobs.svc", true),
            ("tenure.jobs.svc.cluster.local", true),
            ("vm1.internal", true),
            ("app.localhost.", true),
            ("evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("xlocal.example.", false),
            ("tenure.example.com", false),
        ] {
            assert_eq!(hosts.allows(name), admitted, "{name}");
        }
        hosts.add(" Tenure.example.com. ");
        assert!(hosts.allows("tenure.EXAMPLE.com") && !hosts.allows("example.com"));
        hosts.add("*");
        assert!(hosts.allows("evil.example"));
    }
}
