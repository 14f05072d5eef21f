//! The failover demo of `tenure`. Real processes contend for a lease of the embedded store. The
//! script kills the machine of one leader and the process of the next, and stops a third; each time
//! another candidate takes over. With `--page`, there is no script: users trigger the faults in a
//! browser.

#![deny(missing_docs)]

mod network_path;
mod page;
mod processes;
mod screen;
mod sink;
mod story;
#[cfg(test)]
mod tests;
mod view;

use screen::Screen;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;
use story::{Action, Lane, SharedStory, State, Story, Term};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Names of candidates; more could not be distinguished at a glance.
const NAMES: [&str; 9] = ["anna", "ben", "cleo", "dora", "emil", "finn", "gina", "hugo", "ida"];

/// Time limit of the script, which usually takes about 20 s.
const LIMIT: Duration = Duration::from_secs(56);

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// Number of turns that each of the first leaders starts before the script kills it.
const TURNS: usize = 3;

/// Number of turns that each later leader runs before the script stops it.
const LATER_TURNS: usize = 2;

/// Minimum age of a turn when its leader is killed, so that its work at the sink is running.
const MID_TURN: Duration = Duration::from_millis(300);

/// Options of the demo.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of candidates, 2 to 9.
    pub candidates: u8,
    /// True for a page on which users trigger the faults, instead of the terminal.
    pub page: bool,
    /// True if terminals show colours.
    pub colour: bool,
}

/// The end of a demo.
#[derive(Debug)]
pub enum DemoEnd {
    /// The demo completed, or standard output was closed.
    Completed,
    /// The demo was interrupted before its end.
    Interrupted,
    /// The demo did not show what it should; with the reason.
    Failed(String),
    /// The demo could not start, because a port or a process could not be set up.
    SetupFailed(io::Error),
    /// The demo was aborted by an error of a process or of standard output.
    Aborted(io::Error),
}

impl From<io::Error> for DemoEnd {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Completed,
            _ => Self::Aborted(error),
        }
    }
}

/// Runs a demo to its end, or until `interrupt` completes. The candidates are processes of this
/// program, which must accept the arguments of `tenure run`. All candidates have ended when this
/// function returns.
pub async fn demo(options: &Options, interrupt: impl Future<Output = ()> + Send) -> DemoEnd {
    let names = NAMES.get(..usize::from(options.candidates)).unwrap_or(&NAMES);
    let mut tasks = JoinSet::new();
    let story = match processes::open(names, &mut tasks).await {
        Ok(story) => story,
        Err(error) => return DemoEnd::SetupFailed(error),
    };
    let screen = Screen::new(options.colour, options.page);
    let (changed, interrupt) = (watch::Sender::new(()), pin!(interrupt));
    let mut demo = Demo { story, screen, changed, interrupt };
    let result = match options.page {
        true => demo.serve(&mut tasks).await,
        false => timeout(LIMIT, demo.run_script()).await.unwrap_or_else(|_| {
            Err(DemoEnd::Failed(format!("the demo has not ended after {} s", LIMIT.as_secs())))
        }),
    };
    tasks.shutdown().await;
    demo.finish(result).err().unwrap_or(DemoEnd::Completed)
}

/// A running demo.
struct Demo<'a> {
    story: SharedStory,
    screen: Screen,
    /// Notifies the page of changes.
    changed: watch::Sender<()>,
    interrupt: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
}

impl Demo<'_> {
    /// Serves the page until the interrupt.
    async fn serve(&mut self, tasks: &mut JoinSet<()>) -> Result<(), DemoEnd> {
        let url = page::open(&self.story, self.changed.subscribe(), tasks).await?;
        self.screen
            .print(&format!("Open {url}\nin a browser on this machine. Ctrl-C ends it.\n\n"))?;
        while self.frame().await? {}
        Ok(())
    }

    /// Runs the script. Each step waits for an event, not for a fixed time.
    async fn run_script(&mut self) -> Result<(), DemoEnd> {
        let first = self.show_until(working_leader).await?;
        self.kill(Action::KillMachine, first).await?;
        // Without supervisors, a killed process has the same effect as a killed machine.
        if self.story.with(|story, _| story.takeover_time.is_supervised) {
            let second = self.show_until(working_leader).await?;
            self.kill(Action::KillProcess, second).await?;
        }
        let third = self.show_until(resting_leader).await?;
        self.apply(Action::Stop, third);
        let last = self.show_until(resting_leader).await?;
        // The leader stops last, so that no other candidate takes over.
        let all = self.story.with(|story, _| 0..story.lanes.len());
        let followers = all.filter(|index| ![third, last].contains(index));
        for index in followers.chain([last]) {
            self.apply(Action::Stop, index);
            let ended = |story: &Story, _| story.lanes[index].ended.then_some(());
            self.show_until(ended).await?;
        }
        Ok(())
    }

    fn apply(&self, action: Action, index: usize) {
        self.story.with(|story, now| story.apply(now, index, action));
    }

    /// Kills a leader, waits for the next one, and starts the killed one again.
    async fn kill(&mut self, action: Action, index: usize) -> Result<(), DemoEnd> {
        self.apply(action, index);
        let taken_over = |story: &Story, _| story.leader().filter(|_| story.lanes[index].ended);
        self.show_until(taken_over).await?;
        self.apply(Action::Start, index);
        Ok(())
    }

    /// Shows the story until `condition` returns a value.
    async fn show_until<T>(
        &mut self,
        condition: impl Fn(&Story, Duration) -> Option<T>,
    ) -> Result<T, DemoEnd> {
        while self.frame().await? {
            if let Some(result) = self.story.with(|story, now| condition(story, now)) {
                return Ok(result);
            }
            let is_lost = |lane: &&Lane| lane.state == State::Lost;
            let lost =
                |story: &mut Story, _| story.lanes.iter().find(is_lost).map(|lane| lane.name);
            if let Some(name) = self.story.with(lost) {
                return Err(DemoEnd::Failed(format!("{name} has ended unexpectedly")));
            }
        }
        Err(DemoEnd::Interrupted)
    }

    /// Shows the story until the next frame. Returns false at the interrupt.
    async fn frame(&mut self) -> io::Result<bool> {
        tokio::select! {
            biased;
            () = &mut self.interrupt => return Ok(false),
            () = sleep(FRAME) => {}
        }
        self.screen.show(&self.story)?;
        self.changed.send_replace(());
        Ok(true)
    }

    /// Prints the result and the next steps.
    fn finish(mut self, result: Result<(), DemoEnd>) -> Result<(), DemoEnd> {
        self.screen.freeze(&self.story)?;
        if matches!(result, Err(DemoEnd::Interrupted)) {
            return result;
        }
        let table = self.story.with(|story, _| screen::summary_table(story));
        self.screen.print(&table)?;
        result?;
        match self.story.with(|story, _| story.sink.invalid_turns()) {
            0 => Ok(self.screen.print(screen::FAREWELL)?),
            turns => Err(DemoEnd::Failed(format!(
                "turns that overlapped, were of an earlier term or repeated a slot: {turns}"
            ))),
        }
    }
}

/// Returns the term of the leader if no candidate is still starting.
fn settled_term(story: &Story) -> Option<&Term> {
    let started = story.lanes.iter().all(|lane| lane.state != State::Starting);
    story.terms.last().filter(|term| started && story.leader() == Some(term.candidate))
}

/// Returns the leader if it is in the middle of its third or a later turn.
fn working_leader(story: &Story, now: Duration) -> Option<usize> {
    let term = settled_term(story).filter(|term| term.turns >= TURNS)?;
    let turn = story.running(term.candidate)?;
    (now >= turn.started_at + MID_TURN).then_some(term.candidate)
}

/// Returns the leader if it has run enough turns and none is running.
fn resting_leader(story: &Story, _: Duration) -> Option<usize> {
    let term = settled_term(story).filter(|term| term.turns >= LATER_TURNS)?;
    story.running(term.candidate).is_none().then_some(term.candidate)
}
