//! The OpenTelemetry collector: its variables, and requests to it.

use crate::output::log::Log;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use reqwest::Url;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tenure::engine::Clients;
use tenure::{Event, ProblemKind, RootCertificates};
use tenure_core::error_chain;
use tokio::runtime::Handle;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// The only supported protocol.
const PROTOCOL: &str = "http/protobuf";

/// A kind of telemetry. OpenTelemetry calls this a signal.
#[derive(Clone, Copy)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

/// Returns a variable. An empty one counts as missing.
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

    /// Returns true if the variables of OpenTelemetry enable this signal. Its own variables take
    /// precedence over those for all signals.
    ///
    /// # Errors
    ///
    /// The variables require something that is not supported.
    pub(super) fn is_wanted(self) -> Result<bool, String> {
        self.is_wanted_by(variable)
    }

    fn is_wanted_by(self, variable: impl Fn(&str) -> Option<String>) -> Result<bool, String> {
        let upper_name = self.name().to_ascii_uppercase();
        let otlp_variable = |suffix: &str| {
            let names = [
                format!("OTEL_EXPORTER_OTLP_{upper_name}_{suffix}"),
                format!("OTEL_EXPORTER_OTLP_{suffix}"),
            ];
            names.into_iter().find_map(|name| variable(&name).map(|value| (name, value)))
        };
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(false);
        }
        let exporter = format!("OTEL_{upper_name}_EXPORTER");
        let wanted = match variable(&exporter)
            .map(|value| value.trim().to_ascii_lowercase())
            .as_deref()
        {
            Some("none") => false,
            Some("otlp") => true,
            None => otlp_variable("ENDPOINT").is_some(),
            Some(_) => {
                return Err(format!(
                    "{} are not sent: {exporter} names an unknown exporter: set it to otlp or none",
                    self.name()
                ));
            }
        };
        match otlp_variable("PROTOCOL") {
            Some((name, other)) if wanted && other.trim() != PROTOCOL => Err(format!(
                "{} are not sent: {name} names an unsupported protocol: set it to {PROTOCOL}, and the endpoint to its \
                 port, usually 4318",
                self.name()
            )),
            _ => Ok(wanted),
        }
    }

    /// Returns the message for an exporter that could not be created. It omits the error, which
    /// contains the endpoint and perhaps a secret.
    pub(super) fn exporter_error(self) -> String {
        format!(
            "{} are not sent: the endpoint is no URL, or another variable of the exporter is wrong. Write \
             OTEL_EXPORTER_OTLP_ENDPOINT like http://localhost:4318, OTEL_EXPORTER_OTLP_HEADERS like name=value and \
             OTEL_EXPORTER_OTLP_COMPRESSION as gzip or none",
            self.name()
        )
    }
}

/// The destination of signals. When it is dropped, failures are no longer reported.
pub(super) struct Collector {
    clients: Clients,
    timeout: Duration,
    runtime: Handle,
    log: Log,
}

/// HTTP client for one signal. It sends requests on the program's runtime, from any thread.
pub(super) struct Client {
    signal: Signal,
    collector: Weak<Collector>,
    /// True if the last request failed.
    is_failing: Arc<AtomicBool>,
}

impl Collector {
    /// Creates the collector.
    ///
    /// # Errors
    ///
    /// The certificates cannot be read.
    pub(super) fn new(log: Log) -> Result<Arc<Self>, String> {
        let authorities = match variable("OTEL_EXPORTER_OTLP_CERTIFICATE") {
            None => RootCertificates::default(),
            Some(file) => std::fs::read(&file)
                .map_err(|error| error.to_string())
                .and_then(|pem| RootCertificates::from_pem(&pem).map_err(|error| error.to_string()))
                .map_err(|why| format!("OTEL_EXPORTER_OTLP_CERTIFICATE: {file} {why}"))?,
        };
        let timeout = variable("OTEL_EXPORTER_OTLP_TIMEOUT").and_then(|ms| ms.trim().parse().ok());
        let timeout = timeout.filter(|ms| *ms > 0);
        Ok(Arc::new(Self {
            clients: Clients::without_proxies(authorities),
            timeout: timeout.map_or(DEFAULT_TIMEOUT, Duration::from_millis),
            runtime: Handle::current(),
            log,
        }))
    }

    pub(super) fn client(self: &Arc<Self>, signal: Signal) -> Client {
        Client { signal, collector: Arc::downgrade(self), is_failing: Arc::default() }
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string()).map_err(|error| error.to_string())?;
        let client = self.clients.get(&url)?;
        let mut request = reqwest::Request::new(head.method, url);
        *request.headers_mut() = head.headers;
        *request.body_mut() = Some(body.into());
        *request.timeout_mut() = Some(self.timeout);
        // The URL may contain a secret.
        let describe = |error: reqwest::Error| error_chain(&error.without_url());
        let mut answer = client.execute(request).await.map_err(describe)?;
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(describe)? {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err("the answer is too long".to_owned());
            }
            body.extend_from_slice(&chunk);
        }
        *response.body_mut() = body.into();
        Ok(response)
    }

    /// Logs when requests of a signal begin to fail, and when they succeed again.
    fn log_transition(
        &self,
        signal: Signal,
        is_failing: &AtomicBool,
        answer: &Result<Response<Bytes>, String>,
    ) {
        let why = match answer {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answers {}", response.status())),
            Err(why) => Some(why.clone()),
        };
        let (failed, signal) = (is_failing.swap(why.is_some(), Ordering::Relaxed), signal.name());
        match why {
            Some(why) if !failed => self.log.event(&Event::Problem {
                class: ProblemKind::Telemetry,
                detail: format!(
                    "the OpenTelemetry collector does not accept {signal}: {why}; check OTEL_EXPORTER_OTLP_ENDPOINT. The \
                     election does not depend on it"
                ),
            }),
            None if failed => self.log.event(&Event::Note {
                detail: format!("the OpenTelemetry collector accepts {signal} again"),
            }),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let collector = self.collector.upgrade().ok_or("the program ends")?;
        let (runtime, signal, is_failing) =
            (collector.runtime.clone(), self.signal, self.is_failing.clone());
        let sent = runtime.spawn(async move {
            let answer = collector.send(request).await;
            collector.log_transition(signal, &is_failing, &answer);
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

    fn requested(variables: &[(&str, &str)]) -> [Result<bool, String>; 2] {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        [Signal::Traces, Signal::Metrics].map(|signal| signal.is_wanted_by(variable))
    }

    #[test]
    fn nothing_is_sent_unless_a_variable_asks_for_it() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        for (variables, expected) in [
            (&[][..], [false, false]),
            (&[endpoint], [true, true]),
            (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a")], [true, false]),
            (&[endpoint, ("OTEL_TRACES_EXPORTER", "none")], [false, true]),
            (&[("OTEL_METRICS_EXPORTER", "otlp")], [false, true]),
            (&[("OTEL_TRACES_EXPORTER", "OTLP")], [true, false]),
            (&[endpoint, ("OTEL_SDK_DISABLED", "true")], [false, false]),
            (&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")], [true, true]),
        ] {
            assert_eq!(requested(variables), expected.map(Ok), "{variables:?}");
        }
    }

    #[test]
    fn unsupported_variables_are_reported() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317");
        let [traces, metrics] = requested(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert!(traces.unwrap_err().contains("set it to http/protobuf"));
        assert!(metrics.is_err());
        let traces_protocol = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc");
        let [traces, metrics] = requested(&[endpoint, traces_protocol]);
        assert!(traces.unwrap_err().contains(traces_protocol.0));
        assert_eq!(metrics, Ok(true));
        let [traces, metrics] = requested(&[endpoint, ("OTEL_TRACES_EXPORTER", "zipkin")]);
        assert!(traces.unwrap_err().contains("OTEL_TRACES_EXPORTER names an unknown exporter"));
        assert_eq!(metrics, Ok(true));
    }
}
