//! Work outside this process: an application polls `/leader` or reads `/watch`, and acts while the
//! answer says that this candidate leads.
//!
//! This process cannot stop the application. So the board records the permissions that it gave out.
//! While the leadership is being given up, for example on shutdown, the board denies new ones. The
//! leadership lasts until the last permission has expired (protocol.md §7.1: the lease is released
//! when the work has stopped).

use super::board::Board;
use super::role::Role;
use super::state::{Allowance, State};
use std::sync::Arc;
use std::time::Duration;
use tenure::Lease;
use tenure::handler::{BoxFuture, Handler, TurnEnd};
use tenure_clock::Clock;
use tenure_core::Turn;

/// The handler of a leader whose work is an application of its own.
///
/// Use it with [`Schedule::WhileLeading`](tenure::settings::Schedule::WhileLeading), and let a
/// [`Server`](super::Server) show its [`Board`]. The board must receive each report and each event.
/// The turn ends by itself when the leadership is about to be given up and all permissions of the
/// application have expired.
///
/// Leave the runner's [`grace`](tenure::engine::Runner::grace) as it is. If it is shorter than
/// [`Timings::lease_validity`](tenure_core::Timings::lease_validity), the lease may be released
/// before the last permission has expired. The application must then obey a denial within the
/// grace period.
///
/// The application cannot be preempted. The candidate must leave no last will, because its process
/// may die while the application continues.
#[derive(Debug)]
pub struct Application<C> {
    board: Arc<Board>,
    clock: C,
}

impl<C: Clock> Application<C> {
    /// Creates the handler of an application that reads `/leader` or `/watch` of `board`.
    pub fn new(board: Arc<Board>, clock: C) -> Self {
        board.begin_application();
        Self { board, clock }
    }

    /// Waits until the leadership must be given up and no permission of the application is in
    /// force.
    async fn wait_until_over(&self) {
        let mut changed = self.board.changes();
        loop {
            changed.mark_unchanged();
            let until = self.board.state().application.as_ref().and_then(|allowance| {
                (allowance.winding_down || allowance.leaving).then_some(allowance.expires_at)
            });
            let expired = async {
                match until {
                    Some(until) => self.clock.sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = expired => return,
                // After `Board::close` no change is signalled: only the expiry can end the wait.
                true = async { changed.changed().await.is_ok() } => {}
            }
        }
    }
}

impl<C: Clock> Handler for Application<C> {
    fn on_tick(&self, turn: Turn, _: Lease) -> BoxFuture<'_, TurnEnd> {
        Box::pin(async move {
            let _permit = ActingPermit::begin(&self.board, turn.term);
            self.wait_until_over().await;
            TurnEnd::Succeeded
        })
    }

    /// Returns more than the duration of any permission, which ends with the validity of the last
    /// renewal.
    fn grace(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// Guard of a running turn: while it exists, the application may receive permission to act.
struct ActingPermit<'b>(&'b Board);

impl<'b> ActingPermit<'b> {
    fn begin(board: &'b Board, term: u64) -> Self {
        board.set_term(Some(term));
        Self(board)
    }
}

impl Drop for ActingPermit<'_> {
    fn drop(&mut self) {
        self.0.set_term(None);
    }
}

impl Board {
    /// Starts to record the permissions of an application.
    fn begin_application(&self) {
        self.state().application = Some(Allowance::default());
    }

    /// Sets the term in which the application may act. With `None`, it may not act.
    fn set_term(&self, term: Option<u64>) {
        if let Some(allowance) = &mut self.state().application {
            allowance.term = term;
        }
        self.notify_changed();
    }

    /// Returns [`Board::role`], but `Undecided` instead of a leadership in which the application
    /// may not act. Records the permission if it returns a leadership.
    pub(super) fn allowed_role(&self, now: Duration) -> Role {
        let mut state = self.state();
        let State { role, application, .. } = &mut *state;
        match (role, application) {
            (Role::Leading { until, .. }, _) if now >= *until => Role::Undecided,
            (Role::Leading { term, .. }, Some(allowance)) if !allowance.may_act(*term) => {
                Role::Undecided
            }
            (role, allowance) => {
                if let (Role::Leading { until, .. }, Some(allowance)) = (&*role, allowance) {
                    allowance.expires_at = allowance.expires_at.max(*until);
                }
                role.clone()
            }
        }
    }
}

#[cfg(test)]
mod tests;
