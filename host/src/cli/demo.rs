//! `tenure demo`: an election to watch. Real processes contend for a lease of the embedded store;
//! one leader is killed, the next one is stopped, and others take over. With `--page` people do that
//! themselves, in a browser.

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
mod picture;
mod plot;
mod resign;
mod screen;
#[cfg(test)]
mod script;
mod sink;
mod stage;
mod steer;
mod story;
mod summary;
mod view;

use super::args::DemoArguments;
use super::complaint;
use super::fail;
use super::signals::Signals;
use candidate::Order;
use chrono::Utc;
use live::Live;
use plot::{Action, Plot};
use screen::Screen;
use stage::Stage;
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use story::Story;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// The most that can be told apart at a glance, and have a name.
const NAMES: [&str; 9] = ["anna", "ben", "cleo", "dora", "emil", "finn", "gina", "hugo", "ida"];

/// The shortest lease that the service grants.
const LEASE: Duration = Duration::from_secs(15);

/// By then something is wrong that waiting does not mend. Usual are 25 s to 35 s.
const LIMIT: Duration = Duration::from_secs(56);

/// Between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// The demo did not show what it should.
const FAILED: u8 = 1;

/// As shells report the end by SIGINT.
const INTERRUPTED: u8 = 130;

/// How the performance ended.
enum End {
    Played,
    Interrupted,
    /// Something did not happen.
    Late(String),
}

pub(super) async fn demo(arguments: &DemoArguments) -> ExitCode {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(format_args!("signals cannot be handled: {error}")),
    };
    let mut tasks = JoinSet::new();
    let names = NAMES.get(..usize::from(arguments.candidates)).unwrap_or(&NAMES);
    let not_set_up = |error| fail(format_args!("the demo could not be set up: {error}"));
    let code = if arguments.page {
        match Live::start(names, &mut tasks).await {
            Ok(live) => live.perform(&mut signals, &mut tasks).await,
            Err(error) => return not_set_up(error),
        }
    } else {
        match Demo::prepare(names, &mut tasks).await {
            Ok(mut demo) => demo.perform(&mut signals, &mut tasks).await,
            Err(error) => return not_set_up(error),
        }
    };
    // Kills what is left of the candidates.
    tasks.shutdown().await;
    code.unwrap_or_else(|error| {
        complaint::print(format_args!("tenure: the demo could not go on: {error}\n"));
        ExitCode::from(FAILED)
    })
}

struct Demo {
    stage: Stage,
    story: Story,
    screen: Screen,
}

impl Demo {
    async fn prepare(names: &[&'static str], tasks: &mut JoinSet<()>) -> io::Result<Self> {
        let stage = Stage::build(names.len(), tasks).await?;
        Ok(Self { stage, story: Story::new(Utc::now(), names, LEASE), screen: Screen::new() })
    }

    async fn perform(
        &mut self,
        signals: &mut Signals,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<ExitCode> {
        let end = self.play(signals, tasks).await?;
        let now = self.story.at(Utc::now());
        self.screen.freeze(&self.story, now)?;
        if matches!(end, End::Interrupted) {
            complaint::print("\ntenure: interrupted; all candidates are ended\n");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        let overlapping = judge::overlapping(&self.story.turns, &self.stage.sink.deliveries());
        self.screen.print(&summary::table(&self.story, overlapping))?;
        let problem = match end {
            End::Late(what) => {
                Some(format!("after {} s it still waited for {what}", LIMIT.as_secs()))
            }
            _ => summary::verdict(&self.story, overlapping).err(),
        };
        if let Some(problem) = problem {
            complaint::print(format_args!("\ntenure: the demo failed: {problem}\n"));
            return Ok(ExitCode::from(FAILED));
        }
        self.screen.print(&summary::farewell())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn play(&mut self, signals: &mut Signals, tasks: &mut JoinSet<()>) -> io::Result<End> {
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
                return Ok(End::Played);
            }
            tokio::select! {
                biased;
                () = signals.next() => return Ok(End::Interrupted),
                () = tokio::time::sleep_until(limit) => {
                    return Ok(End::Late(plot.waits_for(&self.story)));
                }
                Some(heard) = self.stage.heard.recv() => self.story.hear(heard),
                _ = frames.tick() => {}
            }
        }
    }

    fn act(&mut self, action: Action, now: Duration, tasks: &mut JoinSet<()>) -> io::Result<()> {
        match action {
            Action::Start(who) => {
                self.stage.start(who, self.story.name(who), tasks)?;
                self.story.start(now, who);
            }
            Action::Kill(who) => {
                self.story.kill(now, who);
                self.stage.order(who, Order::Kill);
            }
            Action::Stop(who) => {
                self.story.stop(now, who);
                self.stage.order(who, Order::Stop);
            }
            Action::Finish => self.story.finish(now),
            Action::Dismiss(who) => {
                self.story.dismiss(now, who);
                self.stage.order(who, Order::Stop);
            }
        }
        Ok(())
    }
}
