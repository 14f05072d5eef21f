//! The table at the end of the demo.

use super::action::Action;
use super::picture::{BAD, DIM, GOOD, styled};
use super::story::{Story, format_brief};

pub(super) fn table(story: &Story) -> String {
    let head = format!("  {:<12}{:<8}{:>5}   {}", "term", "leader", "turns", "ended");
    let mut lines = vec![String::new(), styled(DIM, &head)];
    for term in &story.terms {
        let reason = term.ended.as_ref().map_or("not yet", |(_, how)| how);
        let name = story.lanes[term.candidate].name;
        lines.push(format!("  {:<12}{name:<8}{:>5}   {reason}", term.term, term.turns));
    }
    lines.push(String::new());
    let fact = |name: &str, value: &str, comment: &str| {
        format!("  {name:<24}{value}  {comment}").trim_end().to_owned()
    };
    for (cause, after) in (0..story.terms.len()).filter_map(|term| story.takeover(term)) {
        let waited = "the failover window had to end";
        let (event, explanation) = match cause {
            Action::KillMachine => ("machine died", waited),
            Action::KillProcess => ("process died", "its supervisor released the lease"),
            Action::Stop => ("stopped", "it released the lease"),
            Action::Freeze => ("frozen", waited),
            Action::Partition => ("cut off", waited),
            _ => ("resigned", "it released the lease"),
        };
        let (name, value) = (format!("{event}, takeover"), format!("{:>7}", format_brief(after)));
        lines.push(fact(&name, &value, explanation));
    }
    let cut_off = match story.turns_started - story.turns_succeeded {
        0 => String::new(),
        number => format!("{number} cut off"),
    };
    lines.push(fact("turns run", &format!("{:>7}", story.turns_started), &cut_off));
    let (overlapping, source) = (story.sink.overlapping(), "by the endpoint that they call");
    let value = styled(if overlapping == 0 { GOOD } else { BAD }, &format!("{overlapping:>7}"));
    lines.push(fact("overlapping turns", &value, source));
    lines.join("\n") + "\n"
}

/// The next steps for the user.
pub(super) const FAREWELL: &str = "
Run it yourself with `tenure store` and `tenure run`:
`tenure --help` shows how, and README.md how on Azure.
";
