//! Figures as Prometheus reads them: OpenMetrics, or its older text format.

use super::board::Board;
use super::metrics::Metrics;
use super::process;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The type of OpenMetrics, which who knows it asks for.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type of the text format, which everybody reads.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The figures of these candidates at `now`, and of the process, in OpenMetrics.
pub fn figures(boards: &[Arc<Board>], now: Duration) -> String {
    let candidates = boards.iter().map(|board| board.figures(now));
    together(&candidates.chain([process::figures()]).collect::<Vec<_>>())
}

/// The same with a sample of each figure that there can be.
pub fn example() -> String {
    together(&[Metrics::example(), process::figures()])
}

/// Figures in OpenMetrics as they were asked for, with their type. `accept` is what the header says.
pub(super) fn exposition(accept: &str, open: String) -> (&'static str, String) {
    match accept.contains("application/openmetrics-text") {
        true => (OPEN_METRICS, open),
        false => (TEXT, plain(&open)),
    }
}

/// OpenMetrics in the older format: there a counter is described by the name of its samples, and the text ends
/// without a word.
fn plain(open: &str) -> String {
    let counters = open.lines().filter_map(|line| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        (kind == "counter").then_some(name)
    });
    let counters: BTreeSet<_> = counters.collect();
    let lines = open.lines().filter(|line| *line != END && !line.starts_with("# UNIT "));
    let line = |line: &str| {
        let described = ["# HELP ", "# TYPE "].into_iter().find_map(|what| {
            let (name, rest) = line.strip_prefix(what)?.split_once(' ')?;
            counters.contains(name).then(|| format!("{what}{name}_total {rest}\n"))
        });
        described.unwrap_or_else(|| format!("{line}\n"))
    };
    lines.map(line).collect()
}

/// The last line of a text.
const END: &str = "# EOF";

/// What is said of figures of one name, and these.
#[derive(Default)]
struct Figures<'t> {
    help: &'t str,
    more: Vec<&'t str>,
    samples: Vec<&'t str>,
}

/// The figures of several candidates as one text: those of one name must stand together.
fn together(texts: &[String]) -> String {
    let mut all: Vec<Figures<'_>> = Vec::new();
    for text in texts {
        let mut at = 0;
        for line in text.lines().filter(|line| *line != END) {
            if line.starts_with("# HELP ") {
                at = all.iter().position(|figures| figures.help == line).unwrap_or(all.len());
                if at == all.len() {
                    all.push(Figures { help: line, ..Figures::default() });
                }
            } else if let Some(figures) = all.get_mut(at) {
                match line.starts_with('#') {
                    true if figures.more.contains(&line) => {}
                    true => figures.more.push(line),
                    false => figures.samples.push(line),
                }
            }
        }
    }
    let lines = all.iter().flat_map(|f| [&[f.help][..], &f.more, &f.samples].concat());
    lines.chain([END]).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_names_counters_by_their_samples() {
        let open = "# HELP a_turns Turns.\n# TYPE a_turns counter\na_turns_total{x=\"y\"} 1\n\
                    # HELP a_s Time.\n# TYPE a_s gauge\n# UNIT a_s seconds\na_s 2\n# EOF\n";
        let expected = "# HELP a_turns_total Turns.\n# TYPE a_turns_total counter\n\
                        a_turns_total{x=\"y\"} 1\n# HELP a_s Time.\n# TYPE a_s gauge\na_s 2\n";
        assert_eq!(plain(open), expected);
    }

    /// The table that people read has each figure, and no other.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_figures_are_those_of_the_documentation() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
        let page = std::fs::read_to_string(page).unwrap();
        let documented = page.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
            let known = name.starts_with("tenure_") || name.starts_with("process_");
            known.then(|| (name.to_owned(), rest.split(' ').next().unwrap().to_owned()))
        });
        let text = plain(&example());
        let shown = text.lines().filter_map(|line| {
            let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
            Some((name.to_owned(), kind.to_owned()))
        });
        assert_eq!(documented.collect::<BTreeSet<_>>(), shown.collect::<BTreeSet<_>>());
    }

    #[test]
    fn open_metrics_is_for_who_asks_for_it() {
        let asked =
            "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.5";
        for (accept, kind, ends) in [
            (asked, OPEN_METRICS, true),
            ("*/*", TEXT, false),
            ("text/plain", TEXT, false),
            ("", TEXT, false),
        ] {
            let (told, text) = exposition(accept, figures(&[], Duration::ZERO));
            assert_eq!((told, text.ends_with("# EOF\n")), (kind, ends), "{accept}");
        }
    }
}
