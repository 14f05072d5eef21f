//! Parts of an elector, for hosts of components and their tests.
//!
//! The [`Runner`] drives an [`Elector`] on a clock of the crate `tenure-clock`. Requests are
//! guarded down to the socket. The types that both sides exchange are in the crate `tenure-core`:
//! states, events, reports.
//!
//! All of this may change in any release.

pub use crate::egress::{
    AllowList, Body, Budget, Clients, Error, Gate, InvalidOrigin, Limits, Outlet, Policy, Proxy,
    direct::{from_http, to_http},
};
pub use crate::election::Election;
pub use crate::handler::lines::{HandlerLines, Lines, TurnLines};
pub use crate::runner::{Elector, ElectorError, Order, Runner};
pub use crate::settings::candidate::CandidateSettings;
pub use crate::settings::variables::Variables;
pub use crate::tasks::{LeaveSignal, Task, Tasks};

use std::fmt;

/// Interface through which a handler component is called.
pub const LEADER_HANDLER: &str = "tenure:election/leader-handler@0.1.0";

tokio::task_local! {
    static CURRENT: TraceParent;
}

/// Span of a turn, as in the header `traceparent` of [W3C Trace Context].
///
/// A host that traces turns runs them in a [`scope`](Self::scope). The span is then passed on in
/// these places:
///
/// - `TRACEPARENT` in the environment of a command or a component
/// - the header of each of their requests that has none yet
/// - the header of the requests of a webhook
///
/// A handler in Rust reads the [`current`](Self::current) span.
///
/// [W3C Trace Context]: https://www.w3.org/TR/trace-context/#traceparent-header
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Trace id, not zero.
    pub trace: u128,
    /// Span id, not zero.
    pub span: u64,
    /// True if the trace is recorded.
    pub sampled: bool,
}

impl TraceParent {
    /// Returns the span of the current turn. Returns `None` if it is not traced, or in a task that
    /// the turn has spawned.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| *current).ok()
    }

    /// Runs a turn in this span.
    pub async fn scope<F: Future>(self, turn: F) -> F::Output {
        CURRENT.scope(self, turn).await
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, span, sampled } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(*sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_trace_parent_is_visible_in_its_scope_only() {
        let parent = TraceParent { trace: 0xabc, span: 7, sampled: true };
        assert_eq!(parent.to_string(), "00-00000000000000000000000000000abc-0000000000000007-01");
        assert_eq!(parent.scope(async { TraceParent::current() }).await, Some(parent));
        assert_eq!(TraceParent::current(), None);
    }
}
