//! The embedded store behind a front that replaces or changes selected responses. It can give every
//! error and every malformed response of a service or an intermediary.

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::Response as Answered;
use chrono::TimeDelta;
use http::StatusCode;
use tenure_store::{Account, Request, Response, Service, system_clock};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Largest request body in bytes. Requests here have none.
const MAX_BODY: usize = 64 * 1024;

/// Response or change that replaces the normal handling of a request.
#[derive(Clone, Debug)]
pub enum Override {
    /// The service answers with this status and code, and does not apply the request.
    Error(u16, &'static str),
    /// The response reports success, but names another holder's lease.
    AnotherLease(u16),
    /// A server other than a Blob service answers.
    Page(u16),
    /// No response arrives.
    Nothing,
    /// The store answers like an account that keeps every version of a blob.
    Versioned,
    /// An intermediary drops `If-Match`. A signature with the key would detect that; a SAS does
    /// not.
    Unconditional,
}

type Rule = Arc<dyn Fn(&Request) -> Option<Override> + Send + Sync>;

/// Front of a store. Dropping it ends the server.
pub struct Front {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<std::io::Result<()>>,
}

struct Shared {
    service: Mutex<Service>,
    rule: Mutex<Rule>,
    /// Lead of the store's clock over this machine's.
    clock_ahead: Mutex<TimeDelta>,
}

impl Front {
    /// Starts in front of an empty store, with an account other than the emulator's. It forwards
    /// everything at first.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start() -> Result<Self> {
        let account = Account::new("problems", &["dHJvdWJsZXM="])?;
        let shared = Arc::new(Shared {
            service: Mutex::new(Service::new(vec![account], 1)),
            rule: Mutex::new(Arc::new(|_| None)),
            clock_ahead: Mutex::default(),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let app = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { address, shared, task })
    }

    /// Returns the connection string with the account's key.
    #[must_use]
    pub fn connection_string(&self) -> String {
        let service = self.shared.service.lock().unwrap();
        service.accounts()[0].connection_string(self.address)
    }

    /// Sets the rule that selects overrides from now on.
    pub fn set_rule(&self, rule: impl Fn(&Request) -> Option<Override> + Send + Sync + 'static) {
        *self.shared.rule.lock().unwrap() = Arc::new(rule);
    }

    /// Sets the lead of the store's clock from now on.
    pub fn set_clock_ahead(&self, clock_ahead: TimeDelta) {
        *self.shared.clock_ahead.lock().unwrap() = clock_ahead;
    }

    /// Reads or changes the store.
    pub fn with_service<T>(&self, action: impl FnOnce(&mut Service) -> T) -> T {
        action(&mut self.shared.service.lock().unwrap())
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a short name for the operation of a request, such as `acquire`, `look` or `create-blob`.
#[must_use]
pub fn operation_name(request: &Request) -> &'static str {
    let query = request.target.split_once('?').map_or("", |(_, query)| query);
    let has = |pair: &str| query.split('&').any(|part| part == pair);
    match (request.method.as_str(), request.header("x-ms-lease-action")) {
        (_, Some("acquire")) => "acquire",
        (_, Some("renew")) => "renew",
        (_, Some("change")) => "change",
        (_, Some("release")) => "release",
        (_, Some(_)) => "break",
        ("HEAD", _) if has("restype=account") => "account",
        ("HEAD", _) => "look",
        ("DELETE", _) => "delete",
        _ if has("restype=container") => "create-container",
        _ if has("comp=metadata") => "write",
        _ => "create-blob",
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    request: axum::extract::Request,
) -> Answered<Body> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY).await.unwrap_or_default();
    let mut request = Request::from_http(&head, body);
    let rule = Arc::clone(&shared.rule.lock().unwrap());
    let replacement = rule(&request);
    if matches!(replacement, Some(Override::Nothing)) {
        return pending().await;
    }
    if matches!(replacement, Some(Override::Unconditional)) {
        request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("if-match"));
    }
    let mut now = system_clock();
    now.wall += *shared.clock_ahead.lock().unwrap();
    let pass_through = || shared.service.lock().unwrap().handle(now, &request);
    let fixed_response = |status, headers: &[(&str, &str)]| Response {
        status,
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .chain([
                ("Date".to_owned(), tenure_azure::encoding::format_http_date(now.wall)),
                ("Content-Length".to_owned(), "0".to_owned()),
            ])
            .collect(),
        ..Response::default()
    };
    let answer = match replacement {
        None | Some(Override::Unconditional) => pass_through(),
        Some(Override::Versioned) => {
            let mut answer = pass_through();
            let version = tenure_azure::encoding::format_http_date(now.wall);
            answer.headers.push(("x-ms-version-id".to_owned(), version));
            answer
        }
        Some(Override::Nothing) => return pending().await,
        Some(Override::Error(status, code)) => {
            fixed_response(status, &[("x-ms-error-code", code), ("x-ms-request-id", "front")])
        }
        Some(Override::AnotherLease(status)) => {
            let lease = ("x-ms-lease-id", "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee");
            fixed_response(status, &[lease, ("x-ms-request-id", "front")])
        }
        Some(Override::Page(status)) => {
            let mut page = Answered::new(Body::from("<html>Welcome to the hotel</html>"));
            *page.status_mut() = StatusCode::from_u16(status).unwrap();
            return page;
        }
    };
    answer.into_http().map(Body::from)
}
