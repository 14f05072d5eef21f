//! Replacement for a build without OpenTelemetry: it sends nothing, and reports that if variables
//! enable it.

use super::log::{Log, Whose};
use std::time::Duration;
use tenure::handler::Handler;
use tenure::{Class, Event};
use tenure_clock::BootClock;
use tenure_core::Report;
use tenure_server::Roster;

// The braces make `default` work for both variants of the type.
#[derive(Default)]
pub(super) struct Telemetry {}

#[derive(Clone)]
pub(super) struct Witness {}

impl Telemetry {
    pub(super) fn start(_: &Roster, _: usize, _: &BootClock, log: &Log) -> Self {
        if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT")
            .is_some_and(|endpoint| !endpoint.is_empty())
        {
            log.event(&Event::Problem {
                class: Class::Telemetry,
                detail: "traces and metrics are not sent: this program was built without the feature `otel`"
                    .to_owned(),
            });
        }
        Self {}
    }

    pub(super) fn witness(&self, _: &Whose) -> Witness {
        Witness {}
    }

    #[allow(clippy::unused_async, reason = "as where there is something to send")]
    pub(super) async fn end(&self, _: Duration) {}
}

impl Witness {
    pub(super) fn stepped(&self, _: &Report) {}

    pub(super) fn happened(&self, _: &Event) {}

    pub(super) fn around(&self, handler: Box<dyn Handler>) -> Box<dyn Handler> {
        handler
    }
}
