//! Figures as Prometheus reads them: OpenMetrics, or its older text format.

use super::board::Board;
use super::figures::{Figure, Kind, Sample, Value};
use axum::body::Body;
use axum::http::Response;
use futures_util::stream;
use std::convert::Infallible;
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::time::Duration;

use super::answers::shown;

/// The type of OpenMetrics, which who knows it asks for.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type of the text format, which everybody reads.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The figures of these candidates at `now`, and of the process. `accept` is what the header says.
pub(super) fn exposition(accept: &str, boards: Vec<Arc<Board>>, now: Duration) -> Response<Body> {
    let open = accept.contains("application/openmetrics-text");
    // One after the other: of thousands of candidates they are large together.
    let parts = parts(open, boards, now).map(Ok::<_, Infallible>);
    shown(if open { OPEN_METRICS } else { TEXT }, Body::from_stream(stream::iter(parts)))
}

/// The text, a part for each figure.
fn parts(open: bool, boards: Vec<Arc<Board>>, now: Duration) -> impl Iterator<Item = String> {
    let of = move |figure: &Figure| text(open, figure, &figure.samples(&boards, now));
    Figure::all().map(of).chain(open.then(|| "# EOF\n".to_owned()))
}

/// A figure without samples is left out.
fn text(open: bool, figure: &Figure, samples: &[Sample]) -> String {
    let mut text = String::new();
    if samples.is_empty() {
        return text;
    }
    let (name, help) = (figure.name, figure.help);
    let (kind, end) = match figure.kind {
        Kind::Counter => ("counter", "_total"),
        Kind::Gauge => ("gauge", ""),
        Kind::Histogram => ("histogram", ""),
    };
    // The older format describes a counter by the name of its samples.
    let described = if open { name.to_owned() } else { format!("{name}{end}") };
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
                let mut until = 0;
                for (bound, count) in &times.buckets {
                    until += count;
                    sample("_bucket", &format!("{labels},le=\"{bound:?}\""), &until);
                }
                sample("_bucket", &format!("{labels},le=\"+Inf\""), &times.count);
            }
        }
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Exchange, ExchangeResult};
    use crate::server::metrics::{RENEWAL, renewal_bounds};
    use std::collections::BTreeSet;

    fn board() -> Arc<Board> {
        Arc::new(Board::new("jobs/a \"b\"", "ada\\\n", Duration::ZERO))
    }

    /// All parts of which each begins with these words.
    fn parts_of(open: bool, boards: &[Arc<Board>], beginning: &str) -> String {
        let parts = parts(open, boards.to_vec(), Duration::ZERO);
        parts.filter(|part| part.starts_with(beginning)).collect()
    }

    #[test]
    fn the_older_format_names_counters_by_their_samples() {
        let boards = [board()];
        let labels = r#"{election="jobs/a \"b\"",candidate="ada\\\n"}"#;
        for (open, name) in [(true, "tenure_stand_downs"), (false, "tenure_stand_downs_total")] {
            let expected = format!(
                "# HELP {name} Leaderships that ended.\n# TYPE {name} counter\n\
                 tenure_stand_downs_total{labels} 0\n"
            );
            assert_eq!(parts_of(open, &boards, &format!("# HELP {name} ")), expected);
        }
    }

    #[test]
    fn a_time_is_in_its_bucket_and_in_all_above() {
        let board = board();
        for took in [2_000_000, 2_000_001, 60_000_000_000] {
            let result = ExchangeResult::Done;
            board.metrics.exchange(&Exchange { what: RENEWAL.to_owned(), result, took });
        }
        let text = parts_of(false, &[board], "# HELP tenure_renewal_seconds ");
        let buckets = text.lines().filter_map(|line| {
            let (_, bucket) = line.split_once("le=\"")?;
            bucket.split_once("\"} ")
        });
        let buckets = buckets.collect::<Vec<_>>();
        assert_eq!(buckets.len(), renewal_bounds().count() + 1);
        assert_eq!(buckets[..3], [("0.001", "0"), ("0.002", "1"), ("0.004", "2")]);
        assert_eq!(buckets[14..], [("16.384", "2"), ("+Inf", "3")]);
        assert!(text.contains("tenure_renewal_seconds_count{"), "{text}");
        assert!(text.contains("} 60.004000001\n") && text.contains("} 3\n"), "{text}");
    }

    /// The table that people read has each figure, and no other.
    #[test]
    fn the_figures_are_those_of_the_documentation() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
        let page = std::fs::read_to_string(page).unwrap();
        let documented = page.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
            let known = name.starts_with("tenure_") || name.starts_with("process_");
            known.then(|| (name.to_owned(), rest.split(' ').next().unwrap().to_owned()))
        });
        let sample = Sample { labels: Vec::new(), value: Value::Whole(0) };
        let texts = Figure::all().map(|figure| text(false, figure, std::slice::from_ref(&sample)));
        let texts = texts.collect::<String>();
        let shown = texts.lines().filter_map(|line| {
            let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
            Some((name.to_owned(), kind.to_owned()))
        });
        assert_eq!(documented.collect::<BTreeSet<_>>(), shown.collect::<BTreeSet<_>>());
    }

    #[test]
    fn open_metrics_is_for_who_asks_for_it() {
        let asked =
            "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.5";
        for (accept, kind) in
            [(asked, OPEN_METRICS), ("*/*", TEXT), ("text/plain", TEXT), ("", TEXT)]
        {
            let told = exposition(accept, Vec::new(), Duration::ZERO);
            assert_eq!(told.headers()["content-type"], kind, "{accept}");
        }
        let last = |open| parts(open, vec![board()], Duration::ZERO).last().unwrap();
        assert!(last(true) == "# EOF\n" && !last(false).contains("# EOF"));
    }
}
