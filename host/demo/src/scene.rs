//! The candidates of a demo and what became of them, in the terminal and on the page.

use super::act::Act;
use super::stage::{Heard, Stage, replacement};
use super::story::Story;
use super::view::view;
use chrono::Utc;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::program::server::view::View;
use tokio::sync::mpsc::UnboundedReceiver;

/// The candidates, and what became of them so far.
pub(super) struct Scene {
    pub stage: Stage,
    pub story: Story,
}

/// A scene in the hands of the demo and its page.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Scene>>);

impl Shared {
    pub async fn build(names: &[&'static str]) -> io::Result<(Self, UnboundedReceiver<Heard>)> {
        let (stage, heard) = Stage::build(names.len()).await?;
        let story = Story::new(Utc::now(), names, replacement()?);
        Ok((Self(Arc::new(Mutex::new(Scene { stage, story }))), heard))
    }

    pub fn lock(&self) -> MutexGuard<'_, Scene> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scene {
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

    pub fn view(&self, now: Duration) -> View {
        view(&self.story, now, self.stage.sink.overlapping())
    }
}
