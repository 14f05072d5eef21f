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

use act::Act;
use scene::Shared;
use screen::Screen;
use stage::Heard;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;
use story::{Story, Term};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// The most that can be told apart at a glance, and have a name.
const NAMES: [&str; 9] = ["anna", "ben", "cleo", "dora", "emil", "finn", "gina", "hugo", "ida"];

/// A demo that takes longer has failed: usual is half of it.
const LIMIT: Duration = Duration::from_secs(56);

/// Between two frames.
const FRAME: Duration = Duration::from_millis(200);

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

/// The end of a demo.
#[derive(Debug)]
pub enum End {
    /// It showed what it should, or the reader of standard output is gone.
    Played,
    /// It was interrupted before its end.
    Interrupted,
    /// It did not show what it should, and why.
    Failed(String),
    /// Nothing was shown: a port or a process is missing.
    NotSetUp(io::Error),
    /// It broke off: a process or standard output is missing.
    BrokeOff(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Played,
            _ => Self::BrokeOff(error),
        }
    }
}

/// Runs a demo to its end, or until `interrupt` completes. The candidates are processes of this
/// program, which takes the arguments of `tenure run`; none of them is left behind.
pub async fn demo(options: &Options, interrupt: impl Future<Output = ()> + Send) -> End {
    let names = NAMES.get(..usize::from(options.candidates)).unwrap_or(&NAMES);
    let (scene, heard) = match Shared::build(names).await {
        Ok(built) => built,
        Err(error) => return End::NotSetUp(error),
    };
    let screen = Screen::new(options.colour, options.page);
    let (changed, interrupt) = (watch::Sender::new(()), pin!(interrupt));
    let mut demo = Demo { scene, heard, screen, changed, interrupt, awaited: "" };
    let played = match options.page {
        true => demo.serve().await,
        false => demo.play().await,
    };
    demo.close(played).await.err().unwrap_or(End::Played)
}

/// A demo under way.
struct Demo<'a> {
    scene: Shared,
    heard: UnboundedReceiver<Heard>,
    screen: Screen,
    /// Tells the page.
    changed: watch::Sender<()>,
    interrupt: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
    /// What the script waits for.
    awaited: &'static str,
}

impl Demo<'_> {
    /// Lets people play on the page, until the interrupt.
    async fn serve(&mut self) -> Result<(), End> {
        let url = page::open(&self.scene, self.changed.subscribe()).await?;
        self.screen
            .print(&format!("Open {url}\nin a browser on this machine. Ctrl-C ends it.\n\n"))?;
        self.scene.lock().start_all()?;
        loop {
            match self.frame().await {
                Ok(()) => {}
                Err(End::Interrupted) => return Ok(()),
                Err(end) => return Err(end),
            }
        }
    }

    /// Plays the script, and fails if that takes too long.
    async fn play(&mut self) -> Result<(), End> {
        timeout(LIMIT, self.script()).await.unwrap_or_else(|_| {
            let (limit, awaited) = (LIMIT.as_secs(), self.awaited);
            Err(End::Failed(format!("after {limit} s the demo still waited for {awaited}")))
        })
    }

    /// Waits for what must happen, never for time to pass.
    async fn script(&mut self) -> Result<(), End> {
        self.scene.lock().start_all()?;
        let first = self.until("a leader and its first turns", at_work).await?;
        self.kill(Act::KillMachine, first).await?;
        // Without supervisors, the death of a process is that of a machine.
        let supervised = self.scene.lock().story.replacement.supervised;
        if supervised {
            let second = self.until("the turns of the next leader", at_work).await?;
            self.kill(Act::KillProcess, second).await?;
        }
        let third = self.until("the turns of the next leader", rests).await?;
        self.scene.lock().act(Act::Stop, third)?;
        let last = self.until("the turns of the last leader", rests).await?;
        let mut order: Vec<_> = (0..self.scene.lock().story.lanes.len()).collect();
        order.retain(|who| *who != third);
        order.sort_by_key(|who| *who == last);
        for who in order {
            self.scene.lock().act(Act::Stop, who)?;
            let ended = |story: &Story, _| story.lanes[who].ended.then_some(());
            self.until("the candidates to stop", ended).await?;
        }
        let lost = self.scene.lock().story.lost();
        match lost {
            0 => Ok(()),
            lost => Err(End::Failed(format!("candidates that ended unasked: {lost}"))),
        }
    }

    /// Kills a leader, waits for the next one, and starts it again.
    async fn kill(&mut self, act: Act, who: usize) -> Result<(), End> {
        self.scene.lock().act(act, who)?;
        let taken = |story: &Story, _| story.leader().filter(|_| story.lanes[who].ended);
        self.until("another candidate to take over", taken).await?;
        Ok(self.scene.lock().act(Act::Start, who)?)
    }

    /// Shows what goes on until `happened` returns something.
    async fn until<T>(
        &mut self,
        what: &'static str,
        happened: impl Fn(&Story, Duration) -> Option<T>,
    ) -> Result<T, End> {
        self.awaited = what;
        loop {
            self.frame().await?;
            let scene = self.scene.lock();
            if let Some(result) = happened(&scene.story, scene.now()) {
                return Ok(result);
            }
            if scene.story.lanes.iter().all(|lane| lane.ended) {
                return Err(End::Failed("all candidates have ended".to_owned()));
            }
        }
    }

    /// Takes what happens next, and shows it.
    async fn frame(&mut self) -> Result<(), End> {
        tokio::select! {
            biased;
            () = &mut self.interrupt => return Err(End::Interrupted),
            Some(heard) = self.heard.recv() => self.scene.lock().hear(heard),
            () = sleep(FRAME) => {}
        }
        self.screen.show(&mut self.scene.lock())?;
        self.changed.send_replace(());
        Ok(())
    }

    /// Ends the candidates that are left, and says how it went.
    async fn close(mut self, played: Result<(), End>) -> Result<(), End> {
        let mut tasks = std::mem::take(&mut self.scene.lock().stage.tasks);
        tasks.shutdown().await;
        let mut scene = self.scene.lock();
        self.screen.freeze(&mut scene)?;
        if matches!(played, Err(End::Interrupted)) {
            return played;
        }
        let overlapping = scene.stage.sink.overlapping();
        self.screen.print(&summary::table(&scene.story, overlapping))?;
        played?;
        if overlapping > 0 {
            return Err(End::Failed(format!("turns that overlapped: {overlapping}")));
        }
        Ok(self.screen.print(summary::FAREWELL)?)
    }
}

/// The term of the leader, if all candidates take part, but for those that have ended.
fn settled(story: &Story) -> Option<&Term> {
    let all_in = story.lanes.iter().all(|lane| lane.is_in() || lane.ended);
    story.terms.last().filter(|term| all_in && story.leader() == Some(term.who))
}

/// The leader, if it is in the middle of its third turn, or a later one.
fn at_work(story: &Story, now: Duration) -> Option<usize> {
    let term = settled(story).filter(|term| term.turns >= TURNS)?;
    let turn = story.running(term.who)?;
    (now >= turn.began + MIDDLE).then_some(term.who)
}

/// The leader, if it has run enough turns, and runs none.
fn rests(story: &Story, _: Duration) -> Option<usize> {
    let term = settled(story).filter(|term| term.turns >= LATER_TURNS)?;
    story.running(term.who).is_none().then_some(term.who)
}
