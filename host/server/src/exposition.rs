//! Figures as Prometheus reads them: OpenMetrics, or its older text format.

#[cfg(test)]
mod tests;

use super::board::Board;
use super::metrics::{Kind, Metric, Sample, Value};
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::time::Duration;

/// The type of OpenMetrics, which who knows it asks for.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type of the text format, which everybody reads.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The figures of these candidates at `now`, and of the process: the type, and the text. `accept` is what the header says.
pub(super) fn exposition(
    accept: &str,
    boards: &[Arc<Board>],
    now: Duration,
) -> (&'static str, String) {
    let open_metrics = accept.contains("application/openmetrics-text");
    let mut text = String::new();
    for metric in Metric::all() {
        write(&mut text, open_metrics, metric, &metric.samples(boards, now));
    }
    if !open_metrics {
        return (TEXT, text);
    }
    text.push_str("# EOF\n");
    (OPEN_METRICS, text)
}

/// A metric without samples is left out.
fn write(text: &mut String, open_metrics: bool, metric: &Metric, samples: &[Sample]) {
    if samples.is_empty() {
        return;
    }
    let (name, help) = (metric.name, metric.help);
    let (kind, end) = match metric.kind {
        Kind::Counter => ("counter", "_total"),
        Kind::Gauge => ("gauge", ""),
        Kind::Histogram => ("histogram", ""),
    };
    // The older format describes a counter by the name of its samples.
    let described = if open_metrics { name.to_owned() } else { format!("{name}{end}") };
    // Writing into a string cannot fail.
    let _ = writeln!(text, "# HELP {described} {help}.\n# TYPE {described} {kind}");
    for Sample { labels, value } in samples {
        let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let mut sample = |end: &str, labels: &str, value: &dyn Display| {
            let _ = match labels {
                "" => writeln!(text, "{name}{end} {value}"),
                _ => writeln!(text, "{name}{end}{{{labels}}} {value}"),
            };
        };
        match value {
            Value::Whole(value) => sample(end, &labels, value),
            Value::Real(value) => sample(end, &labels, value),
            Value::Times(times) => {
                sample("_sum", &labels, &times.sum);
                sample("_count", &labels, &times.count);
                let mut so_far = 0;
                for (bound, count) in &times.buckets {
                    so_far += count;
                    sample("_bucket", &format!("{labels},le=\"{bound:?}\""), &so_far);
                }
                sample("_bucket", &format!("{labels},le=\"+Inf\""), &times.count);
            }
        }
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
