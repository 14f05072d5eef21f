//! Findings of a check, as text lines and as JSON objects.

use crate::complaint::printable;
use crate::output::{UNUSABLE, columns, print, wants_colour, wrap_words};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use std::io::{IsTerminal, stdout};

/// Width of the column of checks; `conditional break` is the longest.
const CHECK_WIDTH: usize = 17;

/// Width of the column of verdicts.
const VERDICT_WIDTH: usize = 7;

/// Column where details begin.
const INDENT: usize = VERDICT_WIDTH + CHECK_WIDTH + 4;

/// Severity of a finding, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// The check passed.
    #[serde(rename = "ok")]
    Good,
    /// The result could not be determined. It does not prevent leading.
    Unknown,
    /// A candidate can lead, but the operator should know about this.
    Warning,
    /// A candidate cannot lead, or not for long.
    Failed,
}

/// The result of one check. Contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The check, in a few words: `acquire lease`.
    pub check: &'static str,
    /// The severity.
    pub verdict: Verdict,
    /// An explanation, with advice unless the check passed.
    pub detail: String,
}

impl Finding {
    fn new(check: &'static str, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { check, verdict, detail: detail.into() }
    }

    pub(super) fn good(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Verdict::Good, detail)
    }

    pub(super) fn unknown(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Verdict::Unknown, detail)
    }

    pub(super) fn warning(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Verdict::Warning, detail)
    }

    pub(super) fn failed(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Verdict::Failed, detail)
    }
}

/// The findings about one election so far.
pub(super) struct Findings {
    /// False for JSON, which is written at the end.
    prints: bool,
    pub items: Vec<Finding>,
}

impl Findings {
    pub(super) fn new(prints: bool) -> Self {
        Self { prints, items: Vec::new() }
    }

    /// Adds findings, and prints them at once.
    pub(super) fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        let colour = stdout().is_terminal() && wants_colour();
        for finding in findings {
            if self.prints {
                print(&line(&finding, colour, columns(stdout())));
            }
            self.items.push(finding);
        }
    }
}

impl Verdict {
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::Good | Self::Unknown => 0,
            Self::Warning => 1,
            Self::Failed => UNUSABLE,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// Returns the worst verdict. The warning about an emulator does not count, since the user chose
/// the emulator.
pub(super) fn worst(findings: &[Finding]) -> Verdict {
    let is_relevant =
        |finding: &&Finding| finding.verdict != Verdict::Warning || finding.check != "emulator";
    let verdicts = findings.iter().filter(is_relevant).map(|finding| finding.verdict);
    verdicts.max().unwrap_or(Verdict::Good)
}

/// Returns the worst verdict of all elections. None if no election was tested.
pub(super) fn overall(results: &[Findings]) -> Option<Verdict> {
    results.iter().map(|findings| worst(&findings.items)).max()
}

fn line(finding: &Finding, colour: bool, width: Option<usize>) -> String {
    let style = match finding.verdict {
        _ if !colour => Style::new(),
        Verdict::Good => AnsiColor::Green.on_default(),
        Verdict::Unknown => Style::new().dimmed(),
        Verdict::Warning => AnsiColor::Yellow.on_default(),
        Verdict::Failed => AnsiColor::Red.on_default().bold(),
    };
    let name = finding.verdict.name();
    let check = printable(finding.check);
    let detail = wrap_words(&printable(&finding.detail), INDENT, width);
    format!("{style}{name:<VERDICT_WIDTH$}{style:#}  {check:<CHECK_WIDTH$}  {detail}\n")
}

pub(super) fn summary(findings: &[Finding]) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let verdicts = [Verdict::Failed, Verdict::Warning, Verdict::Unknown, Verdict::Good];
    let counted = verdicts.into_iter().filter_map(|verdict| match (count(verdict), verdict) {
        (0, _) => None,
        (count @ 2.., Verdict::Warning) => Some(format!("{count} warnings")),
        (count, verdict) => Some(format!("{count} {}", verdict.name())),
    });
    let counted: Vec<_> = counted.collect();
    let meaning = match worst(findings) {
        Verdict::Good | Verdict::Unknown if count(Verdict::Warning) == 0 => {
            "a candidate can lead from this machine"
        }
        Verdict::Good | Verdict::Unknown | Verdict::Warning => {
            "a candidate can lead from this machine; see the warnings"
        }
        Verdict::Failed => "a candidate cannot lead from this machine, or not for long",
    };
    format!("{}: {meaning}", counted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(check: &'static str, verdict: Verdict, detail: String) -> Finding {
        Finding { check, verdict, detail }
    }

    #[test]
    fn a_line_is_aligned_and_breaks_before_the_terminal_does() {
        let words = "a bb ccc dddd a bb ccc dddd abc";
        let entry = finding("clock", Verdict::Good, words.to_owned());
        let prefix = "ok       clock              ";
        assert_eq!(line(&entry, false, None), format!("{prefix}{words}\n"));
        assert_eq!(prefix.len(), INDENT);
        let narrow = line(&entry, false, Some(INDENT + 30));
        let (first, second) = words.split_at(words.len() - 3);
        assert_eq!(narrow, format!("{prefix}{}\n{:INDENT$}{second}\n", first.trim_end(), ""));
        assert!(line(&entry, true, None).contains('\u{1b}'));
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let entry = finding("clock", Verdict::Failed, "a\u{1b}[31m\nb".to_owned());
        assert_eq!(line(&entry, false, None).matches(['\u{1b}', '\n']).count(), 1);
    }

    #[test]
    fn worst_verdict_counts_and_unknown_is_no_failure() {
        use Verdict::{Failed, Good, Unknown, Warning};
        for (verdicts, code, words) in [
            (vec![Good], 0, "1 ok: a candidate can lead"),
            (vec![Good, Unknown], 0, "1 unknown, 1 ok"),
            (vec![Warning, Good, Unknown], 1, "1 warning, 1 unknown, 1 ok"),
            (vec![Warning, Failed, Warning, Good], 2, "1 failed, 2 warnings, 1 ok"),
        ] {
            let findings: Vec<_> =
                verdicts.iter().map(|&v| finding("clock", v, String::new())).collect();
            assert_eq!(worst(&findings).exit_code(), code, "{verdicts:?}");
            assert!(summary(&findings).starts_with(words), "{}", summary(&findings));
        }
    }

    #[test]
    fn overall_verdict_does_not_depend_on_the_order_of_elections() {
        use Verdict::{Failed, Good, Unknown, Warning};
        let overall_of = |verdicts: &[Verdict]| {
            let results = verdicts.iter().map(|verdict| {
                let mut findings = Findings::new(false);
                findings.add([finding("clock", *verdict, String::new())]);
                findings
            });
            overall(&results.collect::<Vec<_>>())
        };
        assert_eq!(overall_of(&[]), None);
        for (better, worse) in [(Good, Unknown), (Unknown, Warning), (Warning, Failed)] {
            assert_eq!(overall_of(&[better, worse]), Some(worse));
            assert_eq!(overall_of(&[worse, better]), Some(worse));
        }
    }

    #[test]
    fn emulator_is_reported_but_is_no_failure() {
        let emulator = || finding("emulator", Verdict::Warning, "not the service".to_owned());
        let mut findings = vec![finding("clock", Verdict::Good, String::new()), emulator()];
        assert_eq!(worst(&findings).exit_code(), 0);
        let text = summary(&findings);
        assert!(
            text.starts_with("1 warning, 1 ok: ") && text.ends_with("see the warnings"),
            "{text}"
        );
        assert_eq!(worst(&findings).name(), "ok");
        findings.push(finding("clock", Verdict::Warning, String::new()));
        assert_eq!(worst(&findings).exit_code(), 1);
    }

    #[test]
    fn programs_get_objects() {
        for verdict in [Verdict::Good, Verdict::Unknown, Verdict::Warning, Verdict::Failed] {
            let object = serde_json::json!(finding("clock", verdict, "late".to_owned()));
            assert_eq!(
                (&object["check"], &object["verdict"]),
                (&"clock".into(), &verdict.name().into())
            );
        }
    }
}
