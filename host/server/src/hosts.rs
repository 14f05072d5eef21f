//! The host names to which a listener answers.
//!
//! The check prevents DNS rebinding. A website can resolve its own name to an address of this
//! network; its script can then read responses from that address. The browser sends the website's
//! name in `Host`, so the listener rejects unknown names. It accepts addresses and names outside
//! the public DNS, because such a website cannot have them as its name.

use super::responses::json_response;
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

/// Suffixes of names outside the public DNS. A name without a dot is outside it too.
const PRIVATE: [&str; 5] = [".localhost", ".local", ".internal", ".svc", ".home.arpa"];

/// Paths of probes. Their requests may use any name, because the responses are not confidential.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// The host names to which a listener answers, besides addresses and names outside the public DNS.
/// Clones share one set.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Arc<RwLock<BTreeSet<String>>>);

impl Hosts {
    /// Adds a name; `*` stands for all names. Listeners with a clone of this set accept it too.
    pub fn add(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(normalize(name));
    }

    fn allows(&self, name: &str) -> bool {
        let (name, allowed) =
            (normalize(name), self.0.read().unwrap_or_else(PoisonError::into_inner));
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        is_address
            || !name.contains('.')
            || PRIVATE.iter().any(|end| name.ends_with(end))
            || allowed.contains(&name)
            || allowed.contains("*")
    }
}

/// Normalizes a name for comparison: trimmed, in lower case, without a final dot.
fn normalize(name: &str) -> String {
    let name = name.trim();
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Makes `router` reject requests for host names to which `hosts` does not answer.
pub(super) fn restrict_hosts(hosts: Hosts, router: Router) -> Router {
    router.layer(from_fn_with_state(hosts, check))
}

async fn check(State(hosts): State<Hosts>, request: Request, next: Next) -> Response<Body> {
    match rejected_host(&hosts, &request) {
        Some(name) if !PROBES.contains(&request.uri().path()) => {
            let error = format!(
                "this listener does not answer to the name {name}; if the name belongs to this \
                 listener, add it with --listen-host (or TENURE_LISTEN_HOST)"
            );
            json_response(StatusCode::MISDIRECTED_REQUEST, &json!({ "error": error }))
        }
        _ => next.run(request).await,
    }
}

/// Returns the requested host name if the listener does not answer to it. A request without a host
/// name is accepted, because browsers always send one.
fn rejected_host(hosts: &Hosts, request: &Request) -> Option<String> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.host().to_owned()).filter(|name| !hosts.allows(name));
    }
    let host = request.headers().get(header::HOST)?.to_str().ok();
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    match host {
        Some(authority) => Some(authority.host().to_owned()).filter(|name| !hosts.allows(name)),
        // An invalid header has no name for the message of `check`.
        None => Some("in the request".to_owned()),
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
