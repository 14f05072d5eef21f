//! The table at the end.

use super::act::Act;
use super::picture::{BAD, DIM, GOOD, styled};
use super::story::{Story, brief};

pub(super) fn table(story: &Story) -> String {
    let head = format!("  {:<12}{:<8}{:>5}   {}", "term", "leader", "turns", "ended");
    let mut lines = vec![String::new(), styled(DIM, &head)];
    for term in &story.terms {
        let how = term.ended.as_ref().map_or("not yet", |(_, how)| how);
        let name = story.lanes[term.who].name;
        lines.push(format!("  {:<12}{name:<8}{:>5}   {how}", term.term, term.turns));
    }
    lines.push(String::new());
    let fact = |name: &str, value: &str, remark: &str| {
        format!("  {name:<24}{value}  {remark}").trim_end().to_owned()
    };
    for (cause, after) in (0..story.terms.len()).filter_map(|term| story.takeover(term)) {
        let waited = "the failover window had to end";
        let (event, why) = match cause {
            Act::KillMachine => ("machine died", waited),
            Act::KillProcess => ("process died", "its supervisor released the lease"),
            Act::Stop => ("stopped", "it released the lease"),
            Act::Freeze => ("frozen", waited),
            Act::Partition => ("cut off", waited),
            _ => ("resigned", "it released the lease"),
        };
        let (name, value) = (format!("{event}, takeover"), format!("{:>7}", brief(after)));
        lines.push(fact(&name, &value, why));
    }
    let cut_off = match story.began - story.succeeded {
        0 => String::new(),
        number => format!("{number} cut off"),
    };
    lines.push(fact("turns run", &format!("{:>7}", story.began), &cut_off));
    let (overlapping, judge) = (story.sink.overlapping(), "by the endpoint that they call");
    let value = styled(if overlapping == 0 { GOOD } else { BAD }, &format!("{overlapping:>7}"));
    lines.push(fact("overlapping turns", &value, judge));
    lines.join("\n") + "\n"
}

/// What to do next.
pub(super) const FAREWELL: &str = "
Run it yourself with `tenure store` and `tenure run`:
`tenure --help` shows how, and README.md how on Azure.
";
