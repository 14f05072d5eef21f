//! The trace that a turn belongs to.

use std::fmt;

tokio::task_local! {
    static CURRENT: TraceParent;
}

/// The span that a turn runs in, as the header `traceparent` of [W3C Trace Context] tells it.
///
/// Whoever traces turns runs them in its [`scope`](Self::scope). Then it is in the environment of a command and
/// of a component, as `TRACEPARENT`, and on each of their requests that has no such header yet, and on that of a
/// webhook. A handler in Rust asks for the [`current`](Self::current) one.
///
/// [W3C Trace Context]: https://www.w3.org/TR/trace-context/#traceparent-header
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace: not zero.
    pub trace: u128,
    /// The span: not zero.
    pub span: u64,
    /// Whether it is recorded.
    pub sampled: bool,
}

impl TraceParent {
    /// That of the turn which calls this; none where nobody traces it, or in a task that the turn has spawned.
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
