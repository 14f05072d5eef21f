//! The page's updates as server-sent events: a whole view at once, and another after each change.
//!
//! Nothing is queued for a slow reader: a view is made when it can be sent. An unchanged view is
//! sent periodically too. A comment would keep the connection alive, but the page cannot see
//! comments and could not detect a lost connection.

use super::Source;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

/// Minimum time between two views.
const MIN_SPACING: Duration = Duration::from_millis(250);

/// Maximum time between two views. The page treats three times this as a lost connection.
pub(super) const MAX_SPACING: Duration = Duration::from_secs(4);

/// Time after which a viewer gives its permit back and the browser reconnects. A viewer that reads
/// nothing looks like any other until the system's buffers are full.
pub(super) const STREAM_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Delay after which the browser reconnects.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// Returns the views for one viewer. The permit is released when the viewer disconnects.
pub(super) fn stream(source: Source, permit: OwnedSemaphorePermit) -> Response {
    let viewer = Viewer { source, started_at: Instant::now(), last_sent: None, _permit: permit };
    let events = unfold(viewer, |mut viewer| async {
        let event = viewer.next().await?;
        Some((Ok::<_, Infallible>(event), viewer))
    });
    Sse::new(events).into_response()
}

struct Viewer {
    source: Source,
    started_at: Instant,
    /// The time of the last view sent.
    last_sent: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

impl Viewer {
    async fn next(&mut self) -> Option<Event> {
        if self.started_at.elapsed() >= STREAM_LIFETIME {
            return None;
        }
        let mut event = Event::default();
        if let Some(last_sent) = self.last_sent {
            sleep_until(last_sent + MIN_SPACING).await;
            tokio::select! {
                changed = self.source.changed.changed() => changed.ok()?,
                () = sleep_until(last_sent + MAX_SPACING) => {}
            }
        } else {
            event = event.retry(RETRY);
        }
        self.source.changed.mark_unchanged();
        self.last_sent = Some(Instant::now());
        serde_json::to_string(&self.source.view()).ok().map(|view| event.data(view))
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::View;
    use super::*;
    use http_body_util::BodyExt as _;
    use std::sync::Arc;
    use tokio::sync::{Semaphore, watch};

    /// Returns the election in the next event, which must start with `start`.
    async fn next_election(response: &mut Response, start: &str) -> String {
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        let data = text.strip_prefix(start).unwrap_or_else(|| panic!("{text}"));
        let view: serde_json::Value = serde_json::from_str(data.trim_end()).unwrap();
        view["election"].as_str().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_view_is_sent_at_once_on_changes_and_periodically() {
        let (election, changed) = watch::channel(String::from("a"));
        let change = watch::Sender::new(());
        let source = Source::new(
            "a/b",
            move || View { election: changed.borrow().clone(), ..View::default() },
            change.subscribe(),
        );
        let permits = Arc::new(Semaphore::new(1));
        let permit = permits.clone().try_acquire_owned().unwrap();
        let mut response = stream(source, permit);
        assert_eq!(response.headers()["content-type"], "text/event-stream");

        let started_at = Instant::now();
        assert_eq!(next_election(&mut response, "retry: 1000\ndata: ").await, "a");
        assert_eq!(started_at.elapsed(), Duration::ZERO);
        // A slow reader gets only the newest view.
        for name in ["b", "c"] {
            election.send_replace(name.to_owned());
            change.send_replace(());
        }
        assert_eq!(next_election(&mut response, "data: ").await, "c");
        assert!(
            (MIN_SPACING..2 * MIN_SPACING).contains(&started_at.elapsed()),
            "{:?}",
            started_at.elapsed()
        );
        // Without a change, the view is repeated.
        let silent = Instant::now();
        assert_eq!(next_election(&mut response, "data: ").await, "c");
        assert!(
            (MAX_SPACING..MAX_SPACING + MIN_SPACING).contains(&silent.elapsed()),
            "{:?}",
            silent.elapsed()
        );

        assert_eq!(permits.available_permits(), 0);
        // The stream ends and releases its permit.
        while response.body_mut().frame().await.is_some() {}
        assert!(
            (STREAM_LIFETIME..STREAM_LIFETIME + MAX_SPACING).contains(&started_at.elapsed()),
            "{:?}",
            started_at.elapsed()
        );
        assert_eq!(permits.available_permits(), 1);
    }
}
