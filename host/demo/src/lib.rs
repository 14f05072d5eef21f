//! The demo of `tenure`: an election to watch. Real processes contend for a lease of the embedded
//! store; the machine of one leader dies, then the process of the next one, a third one is stopped, and others take over. On its page people do
//! that themselves, in a browser.

#![deny(missing_docs)]

mod act;
mod candidate;
mod control;
mod frame;
mod heard;
mod ink;
mod judge;
mod lane;
mod link;
mod live;
mod note;
mod performance;
mod picture;
mod plot;
mod screen;
#[cfg(test)]
mod script;
mod sink;
mod stage;
mod steer;
mod story;
mod summary;
mod view;

pub use performance::{End, Options};

use act::Act;
use chrono::Utc;
use live::Live;
use performance::Interrupt;
use plot::{Action, Plot};
use screen::Screen;
use stage::Stage;
use std::io;
use std::pin::pin;
use std::time::Duration;
use story::Story;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// The most that can be told apart at a glance, and have a name.
const NAMES: [&str; 9] = ["anna", "ben", "cleo", "dora", "emil", "finn", "gina", "hugo", "ida"];

/// By then something is wrong that waiting does not mend: usual is half of it.
const LIMIT: Duration = Duration::from_secs(56);

/// Between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// Why there is no end.
#[derive(Debug)]
pub enum Problem {
    /// Nothing was shown.
    NotSetUp(io::Error),
    /// It broke off.
    BrokeOff(io::Error),
}

/// Runs a demo to its end, or until `interrupt` completes. The candidates are processes of this
/// program, which takes the arguments of `tenure run`; none of them is left behind.
///
/// # Errors
///
/// When a port, a process or standard output is not to be had.
pub async fn demo(
    options: &Options,
    interrupt: impl Future<Output = ()> + Send,
) -> Result<End, Problem> {
    let mut tasks = JoinSet::new();
    let names = NAMES.get(..usize::from(options.candidates)).unwrap_or(&NAMES);
    let interrupt = pin!(interrupt);
    let end = if options.page {
        let live = Live::start(names, options, &mut tasks).await.map_err(Problem::NotSetUp)?;
        live.perform(interrupt, &mut tasks).await
    } else {
        let demo = Demo::prepare(names, options.colour, &mut tasks).await;
        demo.map_err(Problem::NotSetUp)?.perform(interrupt, &mut tasks).await
    };
    // Kills what is left of the candidates.
    tasks.shutdown().await;
    match end {
        // Of standard output: nothing else is written to here. Its reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(End::Unread),
        end => end.map_err(Problem::BrokeOff),
    }
}

/// How the performance ended.
enum Finish {
    Played,
    Interrupted,
    /// Something did not happen.
    Late(String),
}

struct Demo {
    stage: Stage,
    story: Story,
    screen: Screen,
}

impl Demo {
    async fn prepare(
        names: &[&'static str],
        colour: bool,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<Self> {
        let stage = Stage::build(names.len(), tasks).await?;
        let story = Story::new(Utc::now(), names, stage::replacement()?);
        Ok(Self { stage, story, screen: Screen::new(colour) })
    }

    async fn perform(
        &mut self,
        interrupt: Interrupt<'_>,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<End> {
        let finish = self.play(interrupt, tasks).await?;
        let now = self.story.at(Utc::now());
        self.screen.freeze(&self.story, now)?;
        if matches!(finish, Finish::Interrupted) {
            return Ok(End::Interrupted);
        }
        let overlapping = judge::overlapping(&self.story.turns, &self.stage.sink.deliveries());
        self.screen.print(&summary::table(&self.story, overlapping))?;
        let problem = match finish {
            Finish::Late(what) => {
                Some(format!("after {} s it still waited for {what}", LIMIT.as_secs()))
            }
            _ => summary::verdict(&self.story, overlapping).err(),
        };
        if let Some(problem) = problem {
            return Ok(End::Failed(format!("the demo failed: {problem}")));
        }
        self.screen.print(&summary::farewell())?;
        Ok(End::Played)
    }

    async fn play(
        &mut self,
        mut interrupt: Interrupt<'_>,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<Finish> {
        let mut plot = Plot::default();
        let mut frames = interval_at(Instant::now() + FRAME, FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let limit = Instant::now() + LIMIT;
        loop {
            let mut now = self.story.at(Utc::now());
            while let Some(action) = plot.next(&self.story, now) {
                self.act(action, now, tasks)?;
                now = self.story.at(Utc::now());
            }
            self.screen.show(&self.story, now)?;
            if plot.is_over() {
                return Ok(Finish::Played);
            }
            tokio::select! {
                biased;
                () = &mut interrupt => return Ok(Finish::Interrupted),
                () = tokio::time::sleep_until(limit) => {
                    return Ok(Finish::Late(plot.waits_for(&self.story)));
                }
                Some(heard) = self.stage.hear() => self.story.hear(heard),
                _ = frames.tick() => {}
            }
        }
    }

    fn act(&mut self, action: Action, now: Duration, tasks: &mut JoinSet<()>) -> io::Result<()> {
        match action {
            Action::Do(act, who) => {
                self.stage.act(act, who, self.story.name(who), tasks)?;
                self.story.act(now, who, act);
            }
            Action::Finish => self.story.finish(now),
            Action::Dismiss(who) => {
                self.story.dismiss(now, who);
                self.stage.act(Act::Stop, who, self.story.name(who), tasks)?;
            }
        }
        Ok(())
    }
}
