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

#[cfg(test)]
mod tests {
    use super::super::tests::{lease, turn};
    use super::*;

    #[tokio::test]
    async fn an_error_of_any_kind_is_told_with_what_led_to_it() {
        #[derive(Debug)]
        struct Unsaved(std::num::ParseIntError);
        impl std::fmt::Display for Unsaved {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("nothing was saved")
            }
        }
        impl std::error::Error for Unsaved {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let work = from_fn(|_, _| async {
            "x".parse::<u8>().map_err(Unsaved)?;
            Ok(())
        });
        let told = "nothing was saved: invalid digit found in string".to_owned();
        assert_eq!(work.on_tick(turn(), lease()).await, TurnEnd::Failed(told));
        let work = from_fn(|_, _| async { Err("in words".into()) });
        assert_eq!(work.on_tick(turn(), lease()).await, TurnEnd::Failed("in words".to_owned()));
    }
}
