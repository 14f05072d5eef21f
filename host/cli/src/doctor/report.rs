//! Findings as lines for people, or as one object for programs.

use super::examination::{Finding, Verdict};
use super::exit_code;
use crate::complaint::{Complaint, printable};
use crate::log::json_text;
use crate::look::Named;
use crate::output::{print, refuse};
use crate::terminal::{aligned, broken, colour_wanted, columns};
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

/// The widest column of checks: `conditional break`.
const CHECK: usize = 17;

/// The column of verdicts.
const VERDICT: usize = 7;

/// Details begin there.
const INDENT: usize = VERDICT + CHECK + 4;

/// What was found so far.
pub(super) struct Report {
    pub election: String,
    json: bool,
    colour: bool,
    width: Option<usize>,
    findings: Vec<Finding>,
}

impl Report {
    /// With its name as a heading where there are several.
    pub(super) fn begin(election: &str, json: bool, heading: bool) -> Self {
        let terminal = stdout().is_terminal();
        if heading && !json {
            print(&format!("{}\n", printable(election)));
        }
        Self {
            election: election.to_owned(),
            json,
            colour: terminal && colour_wanted(),
            width: columns(stdout()),
            findings: Vec::new(),
        }
    }

    /// Takes findings; people see them at once.
    pub(super) fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            if !self.json {
                print(&line(&finding, self.colour, self.width));
            }
            self.findings.push(finding);
        }
    }

    fn verdict(&self) -> Verdict {
        worst(&self.findings)
    }

    fn object(&self) -> Value {
        as_json(&self.election, &self.findings)
    }
}

/// Says what it comes to: of one election, or of all of a file, the failures first.
pub(super) fn end(mut reports: Vec<Report>, json: bool, all_of_a_file: bool) -> ExitCode {
    let worst = reports.iter().map(Report::verdict).max_by_key(|verdict| exit_code(*verdict));
    let worst = worst.unwrap_or(Verdict::Good);
    let objects = || reports.iter().map(Report::object).collect::<Vec<_>>();
    let text = match reports.as_slice() {
        _ if json && all_of_a_file => {
            json_text(&json!({ "verdict": verdict_name(worst), "elections": objects() }))
        }
        _ if json => objects().iter().map(json_text).collect(),
        [one] => format!("\n{}\n", summary(&one.findings)),
        _ => {
            reports.sort_by_key(|report| std::cmp::Reverse(exit_code(report.verdict())));
            let title = ["election", "verdict", "findings"].map(str::to_owned);
            let row = |report: &Report| {
                let (election, findings) = (printable(&report.election), summary(&report.findings));
                [election, verdict_name(report.verdict()).to_owned(), findings]
            };
            format!("\n{}", aligned([title].into_iter().chain(reports.iter().map(row))))
        }
    };
    print(&text);
    ExitCode::from(exit_code(worst))
}

/// What is found when settings are wrong, and nothing was tried for that reason.
pub(super) fn complain(named: &Named, complaints: &[Complaint], json: bool) -> ExitCode {
    if json {
        print(&json_text(&refused(named, complaints)));
    }
    refuse(complaints)
}

/// In the shape that it would have if all settings were right. A setting may be one of several elections: each has all
/// of the complaints as findings.
fn refused(named: &Named, complaints: &[Complaint]) -> Value {
    let found = |Complaint { source, problem, advice }: &Complaint| {
        Finding::failed("settings", format!("{source}: {problem}; {advice}"))
    };
    let findings: Vec<_> = complaints.iter().map(found).collect();
    let each = named.elections.iter().map(|election| as_json(election, &findings));
    let mut object = match named.all_of_a_file {
        true => {
            let verdict = verdict_name(Verdict::Failed);
            json!({ "verdict": verdict, "elections": each.collect::<Vec<_>>() })
        }
        false => as_json(&named.elections.join(", "), &findings),
    };
    object["complaints"] = json!(complaints);
    object
}

/// The worst of all, but that an emulator is one: whoever asks about it meant it.
fn worst(findings: &[Finding]) -> Verdict {
    let counts =
        |finding: &&Finding| finding.verdict != Verdict::Warning || finding.check != "emulator";
    // What is unknown is no harm, and is not all well.
    let rank =
        |finding: &&Finding| (exit_code(finding.verdict), finding.verdict == Verdict::Unknown);
    let worst = findings.iter().filter(counts).max_by_key(rank);
    worst.map_or(Verdict::Good, |finding| finding.verdict)
}

fn line(finding: &Finding, colour: bool, width: Option<usize>) -> String {
    let style = match finding.verdict {
        _ if !colour => Style::new(),
        Verdict::Good => AnsiColor::Green.on_default(),
        Verdict::Unknown => Style::new().dimmed(),
        Verdict::Warning => AnsiColor::Yellow.on_default(),
        Verdict::Failed => AnsiColor::Red.on_default().bold(),
    };
    let name = verdict_name(finding.verdict);
    let check = printable(finding.check);
    let detail = broken(&printable(&finding.detail), INDENT, width);
    format!("{style}{name:<VERDICT$}{style:#}  {check:<CHECK$}  {detail}\n")
}

fn summary(findings: &[Finding]) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let counted = [
        (count(Verdict::Failed), "failed"),
        (count(Verdict::Warning), "warnings"),
        (count(Verdict::Unknown), "unknown"),
        (count(Verdict::Good), "ok"),
    ];
    let counted: Vec<_> = counted
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| match (count, *name) {
            (1, "warnings") => "1 warning".to_owned(),
            (count, name) => format!("{count} {name}"),
        })
        .collect();
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

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "ok",
        Verdict::Unknown => "unknown",
        Verdict::Warning => "warning",
        Verdict::Failed => "failed",
    }
}

fn as_json(election: &str, findings: &[Finding]) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "check": finding.check,
            "verdict": verdict_name(finding.verdict),
            "detail": finding.detail,
        })
    };
    json!({
        "election": election,
        "verdict": verdict_name(worst(findings)),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
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
        let told = finding("clock", Verdict::Good, words.to_owned());
        let prefix = "ok       clock              ";
        assert_eq!(line(&told, false, None), format!("{prefix}{words}\n"));
        assert_eq!(prefix.len(), INDENT);
        let narrow = line(&told, false, Some(INDENT + 30));
        let (first, second) = words.split_at(words.len() - 3);
        assert_eq!(narrow, format!("{prefix}{}\n{:INDENT$}{second}\n", first.trim_end(), ""));
        assert!(line(&told, true, None).contains('\u{1b}'));
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let told = finding("clock", Verdict::Failed, "a\u{1b}[31m\nb".to_owned());
        assert_eq!(line(&told, false, None).matches(['\u{1b}', '\n']).count(), 1);
    }

    #[test]
    fn the_worst_counts_and_what_is_unknown_is_no_harm() {
        use Verdict::{Failed, Good, Unknown, Warning};
        for (verdicts, code, words) in [
            (vec![Good], 0, "1 ok: a candidate can lead"),
            (vec![Good, Unknown], 0, "1 unknown, 1 ok"),
            (vec![Warning, Good, Unknown], 1, "1 warning, 1 unknown, 1 ok"),
            (vec![Warning, Failed, Warning, Good], 2, "1 failed, 2 warnings, 1 ok"),
        ] {
            let findings: Vec<_> =
                verdicts.iter().map(|&v| finding("clock", v, String::new())).collect();
            assert_eq!(exit_code(worst(&findings)), code, "{verdicts:?}");
            assert!(summary(&findings).starts_with(words), "{}", summary(&findings));
        }
    }

    #[test]
    fn an_emulator_is_told_and_no_reason_to_fail() {
        let emulator = || finding("emulator", Verdict::Warning, "not the service".to_owned());
        let mut findings = vec![finding("clock", Verdict::Good, String::new()), emulator()];
        assert_eq!(exit_code(worst(&findings)), 0);
        let told = summary(&findings);
        assert!(
            told.starts_with("1 warning, 1 ok: ") && told.ends_with("see the warnings"),
            "{told}"
        );
        assert_eq!(as_json("c/b", &findings)["verdict"], "ok");
        findings.push(finding("clock", Verdict::Warning, String::new()));
        assert_eq!(exit_code(worst(&findings)), 1);
    }

    #[test]
    fn programs_get_one_object() {
        let told = as_json("c/b", &[finding("clock", Verdict::Warning, "late".to_owned())]);
        assert_eq!(told["verdict"], "warning");
        assert_eq!(told["findings"][0]["check"], "clock");
        let wrong = [Complaint::new("--lease 5s", "too short", "give 15s")];
        let elections = ["c/b", "c/d"].map(str::to_owned);
        let one = Named { elections: elections[..1].to_vec(), all_of_a_file: false };
        let told = refused(&one, &wrong);
        assert_eq!((&told["verdict"], &told["election"]), (&json!("failed"), &json!("c/b")));
        assert_eq!(told["findings"][0]["detail"], "--lease 5s: too short; give 15s");
        assert_eq!(told["complaints"][0]["source"], "--lease 5s");
        // All of a file are a list, whether or not something is wrong with them.
        let several = Named { elections: elections.to_vec(), all_of_a_file: true };
        let told = refused(&several, &wrong);
        assert_eq!((&told["verdict"], &told["election"]), (&json!("failed"), &Value::Null));
        for (number, election) in elections.iter().enumerate() {
            assert_eq!(told["elections"][number]["election"], *election);
            assert_eq!(told["elections"][number]["verdict"], "failed");
        }
        assert_eq!(told["complaints"][0]["source"], "--lease 5s");
    }
}
