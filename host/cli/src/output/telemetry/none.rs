//! Replacement for a build without OpenTelemetry: it sends nothing, and reports that if variables
//! enable it.

use super::log::{Log, LogContext};
use std::time::Duration;
use tenure::handler::Handler;
use tenure::{Event, ProblemKind};
use tenure_clock::BootClock;
use tenure_core::Report;
use tenure_server::Roster;

// The braces make `default` work for both variants of the type.
#[derive(Default)]
pub(crate) struct Telemetry {}

#[derive(Clone)]
pub(crate) struct CandidateTelemetry {}

impl Telemetry {
    pub(crate) fn start(_: &Roster, _: usize, _: &BootClock, log: &Log) -> Self {
        if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT")
            .is_some_and(|endpoint| !endpoint.is_empty())
        {
            log.event(&Event::Problem {
                class: ProblemKind::Telemetry,
                detail: "traces and metrics are not sent: this program was built without the feature `otel`"
                    .to_owned(),
            });
        }
        Self {}
    }

    pub(crate) fn for_candidate(&self, _: &LogContext) -> CandidateTelemetry {
        CandidateTelemetry {}
    }

    #[allow(clippy::unused_async, reason = "as where there is something to send")]
    pub(crate) async fn shut_down(&self, _: Duration) {}
}

impl CandidateTelemetry {
    pub(crate) fn on_report(&self, _: &Report) {}

    pub(crate) fn on_event(&self, _: &Event) {}

    pub(crate) fn wrap(&self, handler: Box<dyn Handler>) -> Box<dyn Handler> {
        handler
    }
}
