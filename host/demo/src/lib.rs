//! The demo of `tenure`. Real processes contend for a lease of the embedded store. The machine of one leader dies,
//! then the process of the next one, a third one is stopped, and others take over. On its page people do that
//! themselves, in a browser.

#![deny(missing_docs)]

mod act;
mod link;
mod page;
mod picture;
mod scene;
mod screen;
mod sink;
mod stage;
mod story;
mod summary;
#[cfg(test)]
mod tests;
mod view;

pub use scene::End;

use act::Act;
use chrono::Utc;
use scene::{Interrupt, Scene};
use screen::Screen;
use stage::Heard;
use std::io;
use std::pin::pin;
use std::time::Duration;
use story::{State, Story};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, sleep_until};

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

/// What is shown, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of candidates, 2 to 9.
    pub candidates: u8,
    /// On a page for a browser, where people break it themselves, instead of in the terminal.
    pub page: bool,
    /// Terminals are shown colours.
    pub colour: bool,
}

/// Runs a demo to its end, or until `interrupt` completes. The candidates are processes of this
/// program, which takes the arguments of `tenure run`; none of them is left behind.
pub async fn demo(options: &Options, interrupt: impl Future<Output = ()> + Send) -> End {
    let names = NAMES.get(..usize::from(options.candidates)).unwrap_or(&NAMES);
    let (scene, heard) = match Scene::build(names).await {
        Ok(built) => built,
        Err(error) => return End::NotSetUp(error),
    };
    let screen = Screen::new(options.colour, options.page);
    let interrupt = pin!(interrupt);
    let end = match options.page {
        true => page::perform(scene, heard, screen, interrupt).await,
        false => {
            let limit = Instant::now() + LIMIT;
            let mut demo = Demo { scene, heard, screen, interrupt, limit };
            let end = demo.perform().await;
            demo.scene.stage.tasks.shutdown().await;
            end
        }
    };
    match end {
        Ok(end) => end,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => End::Played,
        Err(error) => End::BrokeOff(error),
    }
}

/// A demo in the terminal.
struct Demo<'a> {
    scene: Scene,
    heard: UnboundedReceiver<Heard>,
    screen: Screen,
    interrupt: Interrupt<'a>,
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
                self.freeze()?;
                return Ok(End::Interrupted);
            }
        };
        self.freeze()?;
        let overlapping = self.scene.stage.sink.overlapping();
        self.screen.print(&summary::table(&self.scene.story, overlapping))?;
        let problem = match (late, overlapping, self.scene.story.lost) {
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

    fn freeze(&mut self) -> io::Result<()> {
        let now = self.scene.now();
        self.screen.freeze(&mut self.scene.story, now)
    }

    /// The script. It waits for what must happen, never for time to pass.
    async fn play(&mut self) -> Result<(), Stopped> {
        self.scene.start_all()?;
        let works = |story: &Story, now| at_work(story, now).filter(|_| all_in(story));
        let first = self.until("a leader and its first turns", works).await?;
        self.kill(Act::KillMachine, first).await?;
        // Without supervisors, the death of a process is that of a machine.
        if self.scene.story.replacement.supervised {
            let second = self.until("the turns of the next leader", works).await?;
            self.kill(Act::KillProcess, second).await?;
        }
        let rests = |story: &Story, _| rests(story).filter(|_| all_in(story));
        let third = self.until("the turns of the next leader", rests).await?;
        self.scene.act(Act::Stop, third)?;
        let rests = |story: &Story, _| self::rests(story).filter(|leader| *leader != third);
        self.until("the turns of the last leader", rests).await?;
        let over = "The demo is over. The candidates are asked to stop, the leader last.";
        self.scene.story.note(self.scene.now(), over.to_owned());
        for is_leader in [false, true] {
            for who in 0..self.scene.story.lanes.len() {
                let Scene { story, stage } = &mut self.scene;
                if !story.lanes[who].ended && (story.leader() == Some(who)) == is_leader {
                    story.dismiss(story.at(Utc::now()), who);
                    stage.act(Act::Stop, who, story.name(who))?;
                    let ended = |story: &Story, _| story.lanes[who].ended.then_some(());
                    self.until("the candidates to stop", ended).await?;
                }
            }
        }
        Ok(())
    }

    /// Kills a leader, waits for the next one, and starts it again.
    async fn kill(&mut self, act: Act, who: usize) -> Result<(), Stopped> {
        self.scene.act(act, who)?;
        let what = format!("another candidate to take over from {}", self.scene.story.name(who));
        let taken = |story: &Story, _| story.leader().filter(|_| story.lanes[who].ended);
        self.until(&what, taken).await?;
        Ok(self.scene.act(Act::Start, who)?)
    }

    /// Shows what goes on until `happened` returns something.
    async fn until<T>(
        &mut self,
        what: &str,
        happened: impl Fn(&Story, Duration) -> Option<T>,
    ) -> Result<T, Stopped> {
        loop {
            let now = self.scene.now();
            let story = &mut self.scene.story;
            self.screen.show(story, now)?;
            if let Some(result) = happened(story, now) {
                return Ok(result);
            }
            if story.lanes.iter().all(|lane| lane.ended) {
                return Err(Stopped::Alone);
            }
            tokio::select! {
                biased;
                () = &mut self.interrupt => return Err(Stopped::Interrupted),
                () = sleep_until(self.limit) => return Err(Stopped::Late(what.to_owned())),
                Some(heard) = self.heard.recv() => self.scene.hear(heard),
                () = sleep(FRAME) => {}
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
    let leads = story.lanes[term.who].state == State::Leads;
    (leads && !works).then_some(term.who)
}
