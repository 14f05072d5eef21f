//! The demo of `tenure`. Real processes contend for a lease of the embedded store. The machine of one leader dies,
//! then the process of the next one, a third one is stopped, and others take over. On its page people do that
//! themselves, in a browser.

#![deny(missing_docs)]

mod act;
mod link;
mod page;
mod performance;
mod picture;
mod screen;
mod sink;
mod stage;
mod story;
mod summary;
#[cfg(test)]
mod tests;
mod view;

pub use performance::{End, Options, Problem};

use act::Act;
use chrono::Utc;
use performance::Interrupt;
use screen::Screen;
use stage::{Heard, Stage};
use std::io;
use std::pin::pin;
use std::time::Duration;
use story::{State, Story};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

/// The most that can be told apart at a glance, and have a name.
const NAMES: [&str; 9] = ["anna", "ben", "cleo", "dora", "emil", "finn", "gina", "hugo", "ida"];

/// A demo that takes longer has failed: usual is half of it.
const LIMIT: Duration = Duration::from_secs(56);

/// Between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// The turn in the middle of which a leader is killed, and the turns of each other leader.
const TURNS: usize = 3;
const LATER_TURNS: usize = 2;

/// How far a turn is when its leader is killed: at work, with the sink.
const MIDDLE: Duration = Duration::from_millis(300);

/// Runs a demo to its end, or until `interrupt` completes. The candidates are processes of this
/// program, which takes the arguments of `tenure run`; none of them is left behind.
///
/// # Errors
///
/// A port, a process or standard output is missing.
pub async fn demo(
    options: &Options,
    interrupt: impl Future<Output = ()> + Send,
) -> Result<End, Problem> {
    let names = NAMES.get(..usize::from(options.candidates)).unwrap_or(&NAMES);
    let interrupt = pin!(interrupt);
    let prepared = async {
        let (stage, heard) = Stage::build(names.len()).await?;
        let story = Story::new(Utc::now(), names, stage::replacement()?);
        Ok((stage, heard, story))
    };
    let (stage, heard, story) = prepared.await.map_err(Problem::NotSetUp)?;
    let end = match options.page {
        true => page::perform(stage, heard, story, options, interrupt).await,
        false => {
            let mut frames = interval_at(Instant::now() + FRAME, FRAME);
            frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let screen = Screen::new(options.colour, false);
            let limit = Instant::now() + LIMIT;
            let mut demo = Demo { stage, heard, story, screen, interrupt, frames, limit };
            let end = demo.perform().await;
            demo.stage.tasks.shutdown().await;
            end
        }
    };
    match end {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(End::Unread),
        end => end.map_err(Problem::BrokeOff),
    }
}

/// A demo in the terminal.
struct Demo<'a> {
    stage: Stage,
    heard: UnboundedReceiver<Heard>,
    story: Story,
    screen: Screen,
    interrupt: Interrupt<'a>,
    frames: Interval,
    limit: Instant,
}

/// Why the script did not come to its end.
enum Stopped {
    Interrupted,
    /// All candidates are gone.
    Alone,
    /// This did not happen in time.
    Late(String),
    BrokeOff(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::BrokeOff(error)
    }
}

impl Demo<'_> {
    async fn perform(&mut self) -> io::Result<End> {
        let late = match self.play().await {
            Ok(()) | Err(Stopped::Alone) => None,
            Err(Stopped::Late(what)) => Some(what),
            Err(Stopped::BrokeOff(error)) => return Err(error),
            Err(Stopped::Interrupted) => {
                let now = self.story.at(Utc::now());
                self.screen.freeze(&mut self.story, now)?;
                return Ok(End::Interrupted);
            }
        };
        let now = self.story.at(Utc::now());
        self.screen.freeze(&mut self.story, now)?;
        let overlapping = self.stage.sink.overlapping();
        self.screen.print(&summary::table(&self.story, overlapping))?;
        let problem = match (late, overlapping, self.story.lost) {
            (Some(what), ..) => format!("after {} s it still waited for {what}", LIMIT.as_secs()),
            (None, 0, 0) => {
                self.screen.print(summary::FAREWELL)?;
                return Ok(End::Played);
            }
            (None, 0, lost) => format!("candidates that ended unasked: {lost}"),
            (None, turns, _) => format!("turns that overlapped: {turns}"),
        };
        Ok(End::Failed(format!("the demo failed: {problem}")))
    }

    /// The script. It waits for what must happen, never for time to pass.
    async fn play(&mut self) -> Result<(), Stopped> {
        for who in 0..self.story.lanes.len() {
            self.act(Act::Start, who)?;
        }
        let works = |story: &Story, now| at_work(story, now).filter(|_| all_in(story));
        let first = self.until("a leader and its first turns", works).await?;
        self.kill(Act::KillMachine, first).await?;
        // Without supervisors, the death of a process is that of a machine.
        if self.story.replacement.supervised {
            let second = self.until("the turns of the next leader", works).await?;
            self.kill(Act::KillProcess, second).await?;
        }
        let rests = |story: &Story, _| rests(story).filter(|_| all_in(story));
        let third = self.until("the turns of the next leader", rests).await?;
        self.act(Act::Stop, third)?;
        let rests = |story: &Story, _| self::rests(story).filter(|leader| *leader != third);
        self.until("the turns of the last leader", rests).await?;
        let now = self.story.at(Utc::now());
        let over = "The demo is over. The candidates are asked to stop, the leader last.";
        self.story.note(now, over.to_owned());
        for is_leader in [false, true] {
            for who in 0..self.story.lanes.len() {
                if !self.story.lanes[who].ended && (self.story.leader() == Some(who)) == is_leader {
                    self.story.dismiss(self.story.at(Utc::now()), who);
                    self.stage.act(Act::Stop, who, self.story.name(who))?;
                    let ended = |story: &Story, _| story.lanes[who].ended.then_some(());
                    self.until("the candidates to stop", ended).await?;
                }
            }
        }
        Ok(())
    }

    /// Kills a leader, waits for the next one, and starts it again.
    async fn kill(&mut self, act: Act, who: usize) -> Result<(), Stopped> {
        self.act(act, who)?;
        let what = format!("another candidate to take over from {}", self.story.name(who));
        let taken = |story: &Story, _| story.leader().filter(|_| story.lanes[who].ended);
        self.until(&what, taken).await?;
        Ok(self.act(Act::Start, who)?)
    }

    fn act(&mut self, act: Act, who: usize) -> io::Result<()> {
        self.stage.act(act, who, self.story.name(who))?;
        self.story.act(self.story.at(Utc::now()), who, act);
        Ok(())
    }

    /// Shows what goes on until `happened` returns something.
    async fn until<T>(
        &mut self,
        what: &str,
        happened: impl Fn(&Story, Duration) -> Option<T>,
    ) -> Result<T, Stopped> {
        loop {
            let now = self.story.at(Utc::now());
            self.screen.show(&mut self.story, now)?;
            if let Some(result) = happened(&self.story, now) {
                return Ok(result);
            }
            if self.story.lanes.iter().all(|lane| lane.ended) {
                return Err(Stopped::Alone);
            }
            tokio::select! {
                biased;
                () = &mut self.interrupt => return Err(Stopped::Interrupted),
                () = sleep_until(self.limit) => return Err(Stopped::Late(what.to_owned())),
                Some(heard) = self.heard.recv() => {
                    self.stage.hear(&heard);
                    self.story.hear(heard);
                }
                _ = self.frames.tick() => {}
            }
        }
    }
}

/// All candidates take part, but for those that have ended.
fn all_in(story: &Story) -> bool {
    story.lanes.iter().all(|lane| lane.is_in() || lane.ended)
}

/// The leader, if it is in the middle of its third turn, or a later one.
fn at_work(story: &Story, now: Duration) -> Option<usize> {
    let last = story.turns.last().filter(|turn| turn.outcome.is_none())?;
    let term = story.terms.last().filter(|term| term.term == last.term && term.turns >= TURNS)?;
    story.leader().filter(|leader| *leader == term.who && now >= last.began + MIDDLE)
}

/// The leader, if it has run enough turns, and runs none.
fn rests(story: &Story) -> Option<usize> {
    let term = story.terms.last().filter(|term| term.turns >= LATER_TURNS)?;
    let works = story.turns.iter().any(|turn| turn.who == term.who && turn.outcome.is_none());
    let leads = story.lanes[term.who].state == Some(State::Leads);
    (leads && !works).then_some(term.who)
}
