//! A Rust function as a handler.

use super::{BoxFuture, Handler, TurnEnd};
use crate::causes::{BoxError, causes};
use crate::contract::Turn;
use crate::deadline::Deadline;

/// A handler made of an async function. See [`from_fn`].
#[derive(Clone, Debug)]
pub struct FunctionHandler<F>(F);

/// Makes a handler of an async function. An error is a failed turn; its text, with what led to it, is logged.
/// It may be of any kind: `?` passes one on, and `Err("why".into())` says it in words.
///
/// The future is dropped at the end of the leadership, at its next `.await`: a function that
/// computes for long should ask [`Deadline::passed`] now and then.
pub fn from_fn<F, T>(function: F) -> FunctionHandler<F>
where
    F: Fn(Turn, Deadline) -> T + Send + Sync + 'static,
    T: Future<Output = Result<(), BoxError>> + Send,
{
    FunctionHandler(function)
}

impl<F, T> Handler for FunctionHandler<F>
where
    F: Fn(Turn, Deadline) -> T + Send + Sync + 'static,
    T: Future<Output = Result<(), BoxError>> + Send,
{
    fn on_tick(&self, turn: Turn, lease: Deadline) -> BoxFuture<'_, TurnEnd> {
        Box::pin(async move {
            match (self.0)(turn, lease).await {
                Ok(()) => TurnEnd::Succeeded,
                Err(error) => TurnEnd::Failed(causes(&*error)),
            }
        })
    }
}
