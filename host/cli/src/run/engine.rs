//! Loads the components of a command.

use crate::output::log::Log;
use std::time::Duration;
use tenure::Event;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

/// Maximum time to load a cached component. A load that takes longer is logged as a compilation.
const CACHE_LOAD_LIMIT: Duration = Duration::from_secs(1);

/// Loads a component on its own thread, and logs when it has to be compiled.
pub(crate) async fn load<T: Send + 'static>(
    log: &Log,
    component: &str,
    load: impl FnOnce() -> T + Send + 'static,
) -> T {
    let loaded = log_if_slow(log, component, spawn_blocking(load), CACHE_LOAD_LIMIT).await;
    loaded.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

async fn log_if_slow<T>(
    log: &Log,
    component: &str,
    mut loading: impl Future<Output = T> + Unpin,
    threshold: Duration,
) -> T {
    let began = Instant::now();
    if let Ok(loaded) = timeout(threshold, &mut loading).await {
        return loaded;
    }
    log.event(&Event::Compiling { component: component.to_owned() });
    let loaded = loading.await;
    log.event(&Event::Compiled { component: component.to_owned(), elapsed: began.elapsed() });
    loaded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::log::{Format, Output, Style};
    use std::future::ready;
    use tokio::sync::oneshot;
    use tracing::Level;

    #[tokio::test]
    async fn compilation_is_logged_before_and_after() {
        let style = Style { format: Format::Text, level: Level::INFO, output: Output::Stdout };
        let (log, lines) = Log::new(style, false);
        let lines = || lines.try_iter().map(|line| line.text().to_owned()).collect::<Vec<_>>();
        assert_eq!(log_if_slow(&log, "a.wasm", ready(7), CACHE_LOAD_LIMIT).await, 7);
        assert_eq!(lines().len(), 0);
        let (done, loading) = oneshot::channel();
        let task = tokio::spawn({
            let log = log.clone();
            async move { log_if_slow(&log, "a.wasm", loading, Duration::ZERO).await }
        });
        let first_line = loop {
            tokio::task::yield_now().await;
            if let [line] = &lines()[..] {
                break line.clone();
            }
        };
        assert!(first_line.contains("compiling   a.wasm"), "{first_line}");
        done.send(7).unwrap();
        assert_eq!(task.await.unwrap(), Ok(7));
        let [last_line] = &lines()[..] else { panic!("one line") };
        assert!(last_line.contains("compiled    a.wasm after "), "{last_line}");
    }
}
