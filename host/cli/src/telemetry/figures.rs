//! The figures of `/metrics`, for a collector: the same names, labels and values.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tenure::clock::{BootClock, Clock as _};
use tenure::program::server::{example, figures};
use tenure::server::Roster;

/// Figures are read once for all instruments of an export.
const FRESH: Duration = Duration::from_secs(1);

/// What is said of figures of one name, and these. Times are not among them: they are measured where they are
/// known.
#[derive(Debug, PartialEq)]
struct Family {
    name: String,
    help: String,
    counts: bool,
    samples: Vec<(Vec<KeyValue>, f64)>,
}

/// Reads the figures when they are asked for.
struct Reader {
    read: Box<dyn Fn() -> Vec<Family> + Send + Sync>,
    last: Mutex<Option<(Instant, Arc<Vec<Family>>)>>,
}

/// Shows all figures by `meter`.
pub(super) fn observe(meter: &Meter, roster: &Roster, clock: &BootClock) {
    let (roster, clock) = (roster.clone(), clock.clone());
    let read = move || families(&figures(&roster.boards(), clock.now()));
    let reader = Arc::new(Reader { read: Box::new(read), last: Mutex::default() });
    // Names that have no sample yet are not in the text.
    for Family { name, help, counts, .. } in families(&example()) {
        let (reader, wanted) = (reader.clone(), name.clone());
        let observe = move |instrument: &dyn AsyncInstrument<f64>| {
            let families = reader.families();
            let samples = families.iter().filter(|family| family.name == wanted);
            for (labels, value) in samples.flat_map(|family| &family.samples) {
                instrument.observe(*value, labels);
            }
        };
        match counts {
            true => {
                let counter = meter.f64_observable_counter(name).with_description(help);
                let _ = counter.with_callback(observe).build();
            }
            false => {
                let gauge = meter.f64_observable_gauge(name).with_description(help);
                let _ = gauge.with_callback(observe).build();
            }
        }
    }
}

impl Reader {
    fn families(&self) -> Arc<Vec<Family>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((at, families)) if at.elapsed() < FRESH => families.clone(),
            _ => {
                let families = Arc::new((self.read)());
                *last = Some((Instant::now(), families.clone()));
                families
            }
        }
    }
}

/// The counters and gauges of a text in OpenMetrics, which this program has written itself.
fn families(text: &str) -> Vec<Family> {
    let (mut families, mut help) = (Vec::<Family>::new(), "");
    for line in text.lines() {
        if let Some(told) = line.strip_prefix("# HELP ") {
            help = told.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|told| told.split_once(' '))
        {
            let (name, help) = (name.to_owned(), help.to_owned());
            if matches!(kind, "counter" | "gauge") {
                let counts = kind == "counter";
                families.push(Family { name, help, counts, samples: Vec::new() });
            }
        } else if let Some(family) = families.last_mut() {
            let end = if family.counts { "_total" } else { "" };
            let sample = line.strip_prefix(&family.name).and_then(|rest| rest.strip_prefix(end));
            family.samples.extend(sample.and_then(sample_of));
        }
    }
    families
}

/// `{name="value",…} 7`, or without labels ` 7`.
fn sample_of(text: &str) -> Option<(Vec<KeyValue>, f64)> {
    let Some(mut rest) = text.strip_prefix('{') else {
        return Some((Vec::new(), text.strip_prefix(' ')?.parse().ok()?));
    };
    let mut labels = Vec::new();
    loop {
        let (name, quoted) = rest.split_once("=\"")?;
        let (mut value, mut characters) = (String::new(), quoted.char_indices());
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push(KeyValue::new(name.to_owned(), value));
        rest = quoted.get(end + 1..)?;
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Some((labels, rest.strip_prefix("} ")?.parse().ok()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::server::Board;

    #[test]
    fn counters_and_gauges_are_read_with_their_labels() {
        let text = "# HELP a_turns Turns.\n# TYPE a_turns counter\na_turns_total{x=\"y, \\\"}\\\\\\n\",z=\"\"} 1\n\
                    a_turns_total{x=\"b\",z=\"c\"} 2.5\n\
                    # HELP a_s Time.\n# TYPE a_s histogram\na_s_sum{x=\"y\"} 2\na_s_bucket{le=\"1.0\",x=\"y\"} 2\n\
                    # HELP b Else.\n# TYPE b gauge\nb 7\n# EOF\n";
        let labels = |x: &str, z: &str| {
            vec![KeyValue::new("x", x.to_owned()), KeyValue::new("z", z.to_owned())]
        };
        let family = |name: &str, help: &str, counts, samples| Family {
            name: name.to_owned(),
            help: help.to_owned(),
            counts,
            samples,
        };
        let turns = vec![(labels("y, \"}\\\n", ""), 1.0), (labels("b", "c"), 2.5)];
        assert_eq!(
            families(text),
            [
                family("a_turns", "Turns.", true, turns),
                family("b", "Else.", false, vec![(Vec::new(), 7.0)])
            ]
        );
    }

    #[test]
    fn all_that_a_candidate_shows_is_read() {
        let clock = BootClock::new();
        let board = Arc::new(Board::new("jobs/a b", "ada, \"first\"", clock.now()));
        let read = families(&figures(&[board], clock.now()));
        let of = |name: &str| read.iter().find(|family| family.name == name).unwrap();
        assert_eq!(of("tenure_is_leader").samples[0].1, 0.0);
        assert_eq!(of("tenure_turns").samples.len(), 5);
        let candidate = KeyValue::new("candidate", "ada, \"first\"");
        assert!(of("tenure_turns").samples.iter().all(|(labels, _)| labels.contains(&candidate)));
        assert!(of("tenure_turns").counts && !of("tenure_is_leader").counts);
        let names =
            |families: Vec<Family>| families.into_iter().map(|f| f.name).collect::<Vec<_>>();
        let all = names(families(&example()));
        assert!(all.iter().any(|name| name == "tenure_requests"));
        assert!(names(read).iter().all(|name| all.contains(name)), "{all:?}");
    }
}
