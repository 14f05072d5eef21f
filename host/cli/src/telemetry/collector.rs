//! The collector: what the variables say of it, and the requests to it.

use crate::log::Log;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use reqwest::Url;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tenure::egress::Authorities;
use tenure::program::http::{Clients, Unread, whole};
use tenure::runner::{Class, Event};
use tokio::runtime::Handle;

/// The longest that a request may take, unless a variable says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest answer that is read, in bytes.
const ANSWER: usize = 64 * 1024;

/// The one protocol that is spoken here.
const PROTOCOL: &str = "http/protobuf";

/// What can be sent.
#[derive(Clone, Copy)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

/// A variable, unless it is empty: that means the same as none.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl Signal {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }

    /// Whether it is to be sent, by the variables of OpenTelemetry: its own, or else those for all signals.
    ///
    /// # Errors
    ///
    /// It is to be sent in a way that is not known here.
    pub(super) fn is_wanted(self) -> Result<bool, String> {
        self.is_wanted_by(variable)
    }

    fn is_wanted_by(self, variable: impl Fn(&str) -> Option<String>) -> Result<bool, String> {
        let own = self.name().to_ascii_uppercase();
        let of_otlp = |what: &str| {
            variable(&format!("OTEL_EXPORTER_OTLP_{own}_{what}"))
                .or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{what}")))
        };
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(false);
        }
        let exporter = format!("OTEL_{own}_EXPORTER");
        let wanted = match variable(&exporter).as_deref().map(str::trim) {
            Some("none") => false,
            Some("otlp") => true,
            None => of_otlp("ENDPOINT").is_some(),
            Some(_) => {
                return Err(format!(
                    "{exporter} names an unknown exporter: set it to otlp or none"
                ));
            }
        };
        match of_otlp("PROTOCOL").as_deref().map(str::trim) {
            Some(other) if wanted && other != PROTOCOL => Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL names an unsupported protocol: set it to {PROTOCOL}, and the endpoint \
                 to its port, usually 4318"
            )),
            _ => Ok(wanted),
        }
    }
}

/// Where signals are sent to. When it is dropped, failures are told no more.
pub(super) struct Collector {
    way: Arc<Way>,
}

struct Way {
    clients: Clients,
    patience: Duration,
    runtime: Handle,
    log: Log,
    /// The last request came to nothing.
    fails: AtomicBool,
}

/// Sends requests on the runtime of the program, whichever thread asks for it.
pub(super) struct Client(Weak<Way>);

impl Collector {
    /// # Errors
    ///
    /// The certificates cannot be read.
    pub(super) fn new(log: Log) -> Result<Self, String> {
        let authorities = match variable("OTEL_EXPORTER_OTLP_CERTIFICATE") {
            None => Authorities::default(),
            Some(file) => std::fs::read(&file)
                .map_err(|error| error.to_string())
                .and_then(|pem| Authorities::from_pem(&pem).map_err(|error| error.to_string()))
                .map_err(|why| format!("OTEL_EXPORTER_OTLP_CERTIFICATE: {file} {why}"))?,
        };
        let patience = variable("OTEL_EXPORTER_OTLP_TIMEOUT").and_then(|ms| ms.trim().parse().ok());
        let way = Way {
            clients: Clients::for_component(authorities),
            patience: patience.map_or(PATIENCE, Duration::from_millis),
            runtime: Handle::current(),
            log,
            fails: AtomicBool::new(false),
        };
        Ok(Self { way: Arc::new(way) })
    }

    pub(super) fn client(&self) -> Client {
        Client(Arc::downgrade(&self.way))
    }
}

impl Way {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string()).map_err(|error| error.to_string())?;
        let client = self.clients.get(url.scheme())?;
        let mut request = reqwest::Request::new(head.method, url);
        *request.headers_mut() = head.headers;
        *request.body_mut() = Some(body.into());
        *request.timeout_mut() = Some(self.patience);
        // The URL may hold a secret.
        let told = |error: reqwest::Error| error.without_url().to_string();
        let answer = client.execute(request).await.map_err(told)?;
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        let body = whole(answer, ANSWER).await.map_err(|unread| match unread {
            Unread::Failed(error) => told(error),
            Unread::TooLong => "the answer is too long".to_owned(),
        })?;
        *response.body_mut() = body.into();
        Ok(response)
    }

    /// Tells when requests begin to come to nothing, and when they are taken again.
    fn judge(&self, answer: &Result<Response<Bytes>, String>) {
        let why = match answer {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answers {}", response.status())),
            Err(why) => Some(why.clone()),
        };
        let failed = self.fails.swap(why.is_some(), Ordering::Relaxed);
        match why {
            Some(why) if !failed => self.log.event(&Event::Problem {
                class: Class::Telemetry,
                detail: format!(
                    "the OpenTelemetry collector does not accept data: {why}; check OTEL_EXPORTER_OTLP_ENDPOINT. The \
                     election does not depend on it"
                ),
            }),
            None if failed => self.log.event(&Event::Note {
                detail: "the OpenTelemetry collector accepts traces and metrics again".to_owned(),
            }),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let way = self.0.upgrade().ok_or("the program ends")?;
        let runtime = way.runtime.clone();
        let sent = runtime.spawn(async move {
            let answer = way.send(request).await;
            way.judge(&answer);
            answer
        });
        Ok(sent.await??)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(given: &[(&str, &str)]) -> [Result<bool, String>; 2] {
        let variable = |name: &str| {
            let found = given.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        [Signal::Traces, Signal::Metrics].map(|signal| signal.is_wanted_by(variable))
    }

    #[test]
    fn nothing_is_sent_unless_a_variable_asks_for_it() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        for (given, expected) in [
            (&[][..], [false, false]),
            (&[endpoint], [true, true]),
            (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a")], [true, false]),
            (&[endpoint, ("OTEL_TRACES_EXPORTER", "none")], [false, true]),
            (&[("OTEL_METRICS_EXPORTER", "otlp")], [false, true]),
            (&[endpoint, ("OTEL_SDK_DISABLED", "true")], [false, false]),
            (&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")], [true, true]),
        ] {
            assert_eq!(wanted(given), expected.map(Ok), "{given:?}");
        }
    }

    #[test]
    fn what_is_not_known_here_is_told() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317");
        let [traces, metrics] = wanted(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert!(traces.unwrap_err().contains("set it to http/protobuf"));
        assert!(metrics.is_err());
        let [traces, metrics] = wanted(&[endpoint, ("OTEL_TRACES_EXPORTER", "zipkin")]);
        assert!(traces.unwrap_err().contains("OTEL_TRACES_EXPORTER names an unknown exporter"));
        assert_eq!(metrics, Ok(true));
    }
}
