//! The figures of `/metrics`, for a collector: the same names, labels and values. Times are not among them: they are
//! measured where they are known.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};
use tenure::clock::{BootClock, Clock as _};
use tenure::program::server::{Figure, Kind, Sample, Value};
use tenure::server::Roster;

/// Shows all figures by `meter`.
pub(super) fn observe(meter: &Meter, roster: &Roster, clock: &BootClock) {
    for figure in Figure::all() {
        let (roster, clock) = (roster.clone(), clock.clone());
        let observe = move |instrument: &dyn AsyncInstrument<f64>| {
            for Sample { labels, value } in figure.samples(&roster.boards(), clock.now()) {
                if let Some(value) = number(&value) {
                    let labels = labels.into_iter().map(|(name, value)| KeyValue::new(name, value));
                    instrument.observe(value, &labels.collect::<Vec<_>>());
                }
            }
        };
        let (name, help) = (figure.name, format!("{}.", figure.help));
        match figure.kind {
            Kind::Counter => {
                let counter = meter.f64_observable_counter(name).with_description(help);
                let _ = counter.with_callback(observe).build();
            }
            Kind::Gauge => {
                let gauge = meter.f64_observable_gauge(name).with_description(help);
                let _ = gauge.with_callback(observe).build();
            }
            Kind::Histogram => {}
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts and terms are far below 2^52")]
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Whole(value) => Some(*value as f64),
        Value::Real(value) => Some(*value),
        Value::Times(_) => None,
    }
}
