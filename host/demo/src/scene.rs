//! The candidates of a demo and what became of them, in the terminal and on the page.

use super::act::Act;
use super::stage::{Heard, Stage, replacement};
use super::story::Story;
use chrono::Utc;
use std::io;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

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

/// Ends a demo before its time, or the demo on the page.
pub(super) type Interrupt<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;

/// The candidates, and what became of them so far.
pub(super) struct Scene {
    pub stage: Stage,
    pub story: Story,
}

impl Scene {
    pub async fn build(names: &[&'static str]) -> io::Result<(Self, UnboundedReceiver<Heard>)> {
        let (stage, heard) = Stage::build(names.len()).await?;
        let story = Story::new(Utc::now(), names, replacement()?);
        Ok((Self { stage, story }, heard))
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Duration {
        self.story.at(Utc::now())
    }

    pub fn act(&mut self, act: Act, who: usize) -> io::Result<()> {
        self.stage.act(act, who, self.story.name(who))?;
        self.story.act(self.now(), who, act);
        Ok(())
    }

    pub fn start_all(&mut self) -> io::Result<()> {
        (0..self.story.lanes.len()).try_for_each(|who| self.act(Act::Start, who))
    }

    pub fn hear(&mut self, heard: Heard) {
        self.stage.hear(&heard);
        self.story.hear(heard);
    }
}
