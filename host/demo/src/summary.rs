//! What came of it: the table at the end, and whether all was as it must be.

use super::act::Act;
use super::ink::{Line, PLAIN};
use super::story::{Story, brief};
use anstyle::{AnsiColor, Style};

const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What the others wait for when a leader is silent.
const PROMISE: &str = "the promise had to end";
const BAD: Style = AnsiColor::Red.on_default().bold();

pub(super) fn table(story: &Story, overlapping: usize) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    let head = format!("  {:<12}{:<8}{:>5}   {}", "term", "leader", "turns", "ended");
    lines.push(Line::of(DIM, &head));
    for leadership in &story.leaderships {
        let kept = story.turns.iter().filter(|turn| turn.term == leadership.term).count();
        let turns = leadership.turns_forgotten + kept;
        let how = leadership.ended.as_ref().map_or("not yet", |(_, how)| how);
        let name = story.name(leadership.who);
        let row = format!("  {:<12}{name:<8}{turns:>5}   {how}", leadership.term);
        lines.push(Line::of(PLAIN, &row));
    }
    lines.push(Line::default());
    for take_over in &story.take_overs {
        let (name, why) = match take_over.cause {
            Act::KillMachine => ("machine died, takeover", PROMISE),
            Act::KillProcess => ("process died, takeover", "its last will was sent"),
            Act::Stop => ("stopped, takeover", "it released the lease"),
            Act::Freeze => ("frozen, takeover", PROMISE),
            Act::Partition => ("cut off, takeover", PROMISE),
            Act::Resign => ("resigned, takeover", "it released the lease"),
            Act::Start | Act::Thaw | Act::Heal => ("takeover", ""),
        };
        lines.push(fact(name, &brief(take_over.after), PLAIN, why));
    }
    let cut_off = story.turns.iter().filter(|turn| !turn.done()).count() + story.cut_off_forgotten;
    let cut_off = if cut_off == 0 { String::new() } else { format!("{cut_off} cut off") };
    let run = story.turns.len() + story.turns_forgotten;
    lines.push(fact("turns run", &run.to_string(), PLAIN, &cut_off));
    let style = if overlapping == 0 { GOOD } else { BAD };
    let source = "by logs and by endpoint";
    lines.push(fact("overlapping turns", &overlapping.to_string(), style, source));
    lines
}

fn fact(name: &str, value: &str, style: Style, remark: &str) -> Line {
    Line::of(PLAIN, &format!("  {name:<24}"))
        .with(style, &format!("{value:>7}"))
        .with(DIM, &format!("  {remark}"))
}

/// Why the demo did not show what it should, if it did not.
pub(super) fn verdict(story: &Story, overlapping: usize) -> Result<(), String> {
    match (overlapping, story.lost) {
        (0, 0) => Ok(()),
        (0, lost) => Err(format!("candidates that ended though nobody asked them to: {lost}")),
        (turns, _) => Err(format!("turns that overlapped: {turns}")),
    }
}

/// What to do next.
pub(super) fn farewell() -> [Line; 3] {
    let line = |start: &str, rest: &str| Line::of(PLAIN.bold(), start).with(PLAIN, rest);
    [
        Line::default(),
        line("Run it yourself", " with `tenure store` and `tenure run`:"),
        line("", "`tenure --help` shows how, and README.md how on Azure."),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::script::{ms, started};
    use super::*;

    #[test]
    fn a_table_for_a_narrow_terminal() {
        let mut story = started();
        story.begins(2_000, 0, 1000);
        story.kill(ms(2_300), 0);
        story.dies(2_310, 0);
        story.elects(4_600, 1, 1015);
        story.runs(6_000, 1, 1015);
        story.kill_process(ms(7_000), 1);
        story.dies(7_040, 1);
        story.elects(7_061, 2, 1016);
        let text: Vec<_> = table(&story, 0).iter().map(|line| line.render(false)).collect();
        assert_eq!(
            text,
            [
                "",
                "  term        leader  turns   ended",
                "  1000        anna        1   its machine died",
                "  1015        ben         1   its process died",
                "  1016        cleo        0   not yet",
                "",
                "  machine died, takeover    2.3 s  the promise had to end",
                "  process died, takeover    61 ms  its last will was sent",
                "  turns run                     2  1 cut off",
                "  overlapping turns             0  by logs and by endpoint",
            ]
        );
        assert!(table(&story, 0).iter().chain(&farewell()).all(|line| line.width() < 60));
    }

    #[test]
    fn how_a_term_ended_is_told_in_words() {
        let mut story = started();
        for (number, (reason, words)) in [
            ("validity-ended", "its validity ended"),
            ("lease-lost", "the lease was lost"),
            ("work-failed", "its work failed"),
            ("handed-over", "it handed over"),
            ("resigned", "resigned"),
        ]
        .into_iter()
        .enumerate()
        {
            let (at, term) = (10_000 * (number as u64 + 1), 1_100 + number as u64);
            story.elects(at, 0, term);
            story.stands_down(at + 1_000, 0, term, reason);
            let text: Vec<_> = table(&story, 0).iter().map(|line| line.render(false)).collect();
            let row = text.iter().find(|line| line.contains(&term.to_string())).unwrap();
            assert!(row.ends_with(words), "{reason}: {row}");
            assert!(story.said().ends_with(&format!("{words}.")), "{}", story.said());
        }
    }

    #[test]
    fn two_at_work_or_a_candidate_lost_is_a_failure() {
        let mut story = started();
        assert_eq!(verdict(&story, 0), Ok(()));
        assert!(verdict(&story, 1).is_err());
        story.dies(1_000, 2);
        assert!(verdict(&story, 0).is_err());
    }
}
