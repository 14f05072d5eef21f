//! Metrics in the formats of Prometheus: OpenMetrics, or the older text format.

#[cfg(test)]
mod tests;

use super::board::Board;
use super::metrics::{Kind, Metric, Sample, Value};
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::time::Duration;

/// The media type of OpenMetrics, for clients that accept it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The media type of the text format, for all other clients.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the media type and the text of the metrics of these candidates and of the process at
/// `now`. `accept` is the value of the header.
pub(super) fn exposition(
    accept: &str,
    boards: &[Arc<Board>],
    now: Duration,
) -> (&'static str, String) {
    let open_metrics = accept.contains("application/openmetrics-text");
    let mut text = String::new();
    for metric in Metric::all() {
        write_metric(&mut text, open_metrics, metric, &metric.samples(boards, now));
    }
    if !open_metrics {
        return (TEXT, text);
    }
    text.push_str("# EOF\n");
    (OPEN_METRICS, text)
}

/// Writes one metric. A metric without samples is left out.
fn write_metric(text: &mut String, open_metrics: bool, metric: &Metric, samples: &[Sample]) {
    if samples.is_empty() {
        return;
    }
    let (name, help) = (metric.name, metric.help);
    let (kind, suffix) = match metric.kind {
        Kind::Counter => ("counter", "_total"),
        Kind::Gauge => ("gauge", ""),
        Kind::Histogram => ("histogram", ""),
    };
    // The older format describes a counter by the name of its samples.
    let family = if open_metrics { name.to_owned() } else { format!("{name}{suffix}") };
    // Writing into a string cannot fail.
    let _ = writeln!(text, "# HELP {family} {help}.\n# TYPE {family} {kind}");
    for Sample { labels, value } in samples {
        let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let mut sample = |suffix: &str, labels: &str, value: &dyn Display| {
            let _ = match labels {
                "" => writeln!(text, "{name}{suffix} {value}"),
                _ => writeln!(text, "{name}{suffix}{{{labels}}} {value}"),
            };
        };
        match value {
            Value::Integer(value) => sample(suffix, &labels, value),
            Value::Float(value) => sample(suffix, &labels, value),
            Value::Histogram(histogram) => {
                sample("_sum", &labels, &histogram.sum);
                sample("_count", &labels, &histogram.count);
                let mut cumulative = 0;
                for (bound, count) in &histogram.buckets {
                    cumulative += count;
                    sample("_bucket", &format!("{labels},le=\"{bound:?}\""), &cumulative);
                }
                sample("_bucket", &format!("{labels},le=\"+Inf\""), &histogram.count);
            }
        }
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
