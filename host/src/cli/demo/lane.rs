//! One candidate over time.

use std::time::Duration;

/// What a candidate is at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its process was started; it has not said anything yet.
    Starting,
    Follows,
    Leads,
    /// SIGKILL was sent.
    Killed,
    /// SIGTERM was sent.
    Stopping,
    /// It is gone, as it was asked to.
    Gone,
    /// It is gone, though nobody asked it to.
    Lost,
}

impl State {
    /// One word for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Starting => "starts",
            Self::Follows => "follows",
            Self::Leads => "leads",
            Self::Killed => "killed",
            Self::Stopping => "stopping",
            Self::Gone => "stopped",
            Self::Lost => "lost",
        }
    }
}

#[derive(Debug)]
pub(super) struct Lane {
    pub name: &'static str,
    /// The states and since when, in order.
    history: Vec<(Duration, State)>,
    /// Whether its process is seen to have ended.
    pub ended: bool,
}

impl Lane {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, history: Vec::new(), ended: true }
    }

    pub(super) fn enter(&mut self, at: Duration, state: State) {
        let last = self.history.last().map_or(Duration::ZERO, |(since, _)| *since);
        if self.state() != Some(state) {
            self.history.push((at.max(last), state));
        }
    }

    /// What it is now.
    pub(super) fn state(&self) -> Option<State> {
        self.history.last().map(|(_, state)| *state)
    }

    /// What it was just before `to`.
    pub(super) fn state_before(&self, to: Duration) -> Option<State> {
        self.history.iter().rev().find(|(since, _)| *since < to).map(|(_, state)| *state)
    }

    /// What it became from `from` on and before `to`.
    pub(super) fn changed(&self, from: Duration, to: Duration) -> impl Iterator<Item = State> {
        self.history
            .iter()
            .filter(move |(since, _)| (from..to).contains(since))
            .map(|(_, state)| *state)
    }

    /// Whether it takes part: neither told to go nor gone.
    pub(super) fn is_in(&self) -> bool {
        matches!(self.state(), Some(State::Follows | State::Leads))
    }

    /// Whether its end was asked for.
    pub(super) fn may_end(&self) -> bool {
        matches!(self.state(), Some(State::Killed | State::Stopping))
    }
}
