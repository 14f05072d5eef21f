//! Status updates at `GET /watch`, and their use by followers.
//!
//! The response is an endless stream of server-sent events. Each event is one JSON object with the
//! whole status, so a reader needs no earlier event. The first event is sent at once. A slow reader
//! gets the newest status and misses those before it.
//!
//! | field | meaning |
//! |---|---|
//! | `version` | 1. Fields may be added; a field that changes its meaning raises the number |
//! | `election`, `candidate` | the reporting candidate and its election |
//! | `leading` | true if this candidate leads, so its work may run |
//! | `leader` | `name`, `term` and, if published, `address` of the known leader; else null |
//! | `valid_for_ms` | time that this leader may act without a renewal; null for a follower |
//! | `valid_until` | the same as an instant by this machine's clock, RFC 3339 |
//! | `handing_over_to` | the successor in a transfer by this leader; else null |
//! | `ended` | `term`, `reason`, `released` of this candidate's last leadership; else null |
//! | `last_turn`, `last_success`, `last_failure` | the newest turn, success and other outcome |
//! | `next_turn` | `slot`, `local` and `in_ms` of the schedule's next turn |
//!
//! `valid_for_ms` and `in_ms` count from the time of sending. Each renewal sends an event. `ended`
//! is present once the leadership is over; `released` is true if its lease was released or handed
//! on. A finished turn has `slot`, `local` (in the schedule's time zone), `outcome`, `ended`,
//! `ago_ms` and `took_ms`. Fields of turns are missing if the record has none, and `next_turn` is
//! missing without a schedule on record.
//!
//! `GET /leader` returns the same fields except `ended`, and adds fields that only commands need.
//!
//! After ten seconds without an event, a comment is sent. The stream ends after an hour, and the
//! reader reconnects. A stream that breaks in the middle means that the process has died or cannot
//! be reached.

pub(super) mod client;

#[cfg(feature = "fuzzing")]
pub use client::accepts_stream;
pub use client::{endpoint, parse_listener};

use super::board::Board;
use super::responses::unavailable;
use super::role::{EndedLeadership, Leader, Role};
use super::roster::{Roster, select_entry};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, Uri};
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use chrono::{DateTime, SecondsFormat, Utc};
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tenure::status::TurnSummary;
use tenure_clock::ClockHandle;
use tenure_core::milliseconds;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// The version of [`StatusUpdate`].
const VERSION: u32 = 1;

/// Maximum number of watchers of a process. Even if all of them and all viewers of the page are one
/// peer, for example behind a proxy, that peer can still send other requests.
const MAX_WATCHERS: usize = 24;

/// Time without an event after which a comment is sent.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Time after which a stream ends and releases its permit; the reader then reconnects. This limits
/// how long a reader that reads nothing holds a permit: the server cannot detect it until the
/// system's buffers are full.
const STREAM_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The content of one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StatusUpdate {
    version: u32,
    election: String,
    candidate: String,
    leading: bool,
    leader: Option<Leader>,
    valid_for_ms: Option<u64>,
    /// Missing in updates of earlier releases.
    valid_until: Option<String>,
    handing_over_to: Option<String>,
    ended: Option<EndedLeadership>,
    /// The turns, for watchers that are not followers. Followers ignore it, and earlier releases do
    /// not send it.
    #[serde(skip)]
    outlook: TurnSummary,
}

/// A status update as it is sent, with its outlook.
#[derive(Serialize)]
pub(super) struct StatusUpdateWithOutlook<'n> {
    #[serde(flatten)]
    news: &'n StatusUpdate,
    #[serde(flatten)]
    outlook: &'n TurnSummary,
}

/// One instant by the wall clock and by the candidate's clock.
#[derive(Clone, Copy)]
struct ClockReading {
    wall_time: SystemTime,
    now: Duration,
}

impl ClockReading {
    /// Reads the wall clock first, so that a delay between the two readings makes the reported end
    /// too early, not too late.
    fn read(clock: &ClockHandle) -> Self {
        let wall_time = SystemTime::now();
        Self { wall_time, now: clock.now() }
    }

    /// Returns the time left in milliseconds, and the end by the wall clock.
    fn remaining(self, deadline: Duration) -> (u64, String) {
        let remaining = deadline.saturating_sub(self.now);
        let end = DateTime::<Utc>::from(self.wall_time + remaining);
        (milliseconds(remaining), end.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl StatusUpdate {
    /// Returns the update with the outlook, to be sent.
    pub(super) fn with_outlook(&self) -> StatusUpdateWithOutlook<'_> {
        StatusUpdateWithOutlook { news: self, outlook: &self.outlook }
    }

    /// Returns the current status, and the instant until which a leader may act.
    pub(super) fn snapshot(board: &Board, clock: &ClockHandle) -> (Self, Option<Duration>) {
        let reading = ClockReading::read(clock);
        let role = board.allowed_role(reading.now);
        let until = match role {
            Role::Leading { until, .. } => Some(until),
            _ => None,
        };
        let (valid_for_ms, valid_until) = until.map(|until| reading.remaining(until)).unzip();
        let state = board.state();
        let update = Self {
            version: VERSION,
            election: board.election.clone(),
            candidate: board.candidate.clone(),
            leading: until.is_some(),
            leader: role.leader(&board.candidate),
            valid_for_ms,
            valid_until,
            handing_over_to: state.successor.clone(),
            ended: state.ended.clone(),
            outlook: state.outlook(),
        };
        (update, until)
    }
}

#[derive(Clone)]
struct WatchState {
    roster: Roster,
    permits: Arc<Semaphore>,
}

/// Routes `/watch` to the election in `?election=`, or to the only one.
pub(super) fn router(roster: Roster) -> Router {
    let permits = Arc::new(Semaphore::new(MAX_WATCHERS));
    Router::new().route("/watch", get(serve_updates)).with_state(WatchState { roster, permits })
}

async fn serve_updates(
    State(WatchState { roster, permits }): State<WatchState>,
    uri: Uri,
) -> Response<Body> {
    let entry = match select_entry(&roster.entries(), &uri).cloned() {
        Ok(entry) => entry,
        Err(refusal) => return *refusal,
    };
    match permits.try_acquire_owned() {
        Ok(permit) => stream(entry.board.clone(), entry.clock.clone(), permit),
        Err(_) => unavailable(&format!("the limit of {MAX_WATCHERS} watchers is reached")),
    }
}

/// Returns the updates for one reader. The permit is released when the reader disconnects.
fn stream(board: Arc<Board>, clock: ClockHandle, permit: OwnedSemaphorePermit) -> Response<Body> {
    let changed = board.changes();
    let end = Instant::now() + STREAM_LIFETIME;
    let reader = Reader { board, clock, changed, end, last_sent: None, _permit: permit };
    let events = unfold(reader, |mut reader| async {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)).into_response()
}

struct Reader {
    board: Arc<Board>,
    clock: ClockHandle,
    changed: watch::Receiver<()>,
    end: Instant,
    last_sent: Option<(StatusUpdate, Option<Duration>)>,
    _permit: OwnedSemaphorePermit,
}

impl Reader {
    /// Waits until the status differs from the last one sent, and returns its event. Returns `None`
    /// at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            self.changed.mark_unchanged();
            let (mut update, until) = StatusUpdate::snapshot(&self.board, &self.clock);
            let is_same = self.last_sent.as_ref().is_some_and(|(sent, sent_until)| {
                // The time left always differs, so the end of the validity is compared instead.
                let (valid_for_ms, valid_until) = (sent.valid_for_ms, sent.valid_until.clone());
                let outlook = update.outlook.without_relative_times();
                let timeless =
                    StatusUpdate { valid_for_ms, valid_until, outlook, ..update.clone() };
                *sent_until == until && *sent == timeless
            });
            if !is_same {
                let text = serde_json::to_string(&update.with_outlook()).ok();
                let event = text.map(|text| Event::default().data(text));
                update.outlook = update.outlook.without_relative_times();
                self.last_sent = Some((update, until));
                return event;
            }
            tokio::select! {
                changed = self.changed.changed() => changed.ok()?,
                () = expires(&self.clock, until) => {}
                () = sleep_until(self.end) => return None,
            }
        }
    }
}

/// Waits until the instant `until`; forever if it is `None`.
async fn expires(clock: &ClockHandle, until: Option<Duration>) {
    match until {
        Some(until) => {
            let remaining = until.saturating_sub(clock.now());
            sleep(remaining.max(Duration::from_millis(1))).await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW, board, leading, report, seconds};
    use super::*;
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};
    use tenure_clock::{BootClock, Clock as _};
    use tenure_core::ExchangeResult::Done;
    use tenure_core::{Ending, EndingReason, Exchange, Report, RequestKind, Role};

    /// Returns the next event.
    async fn next_event(response: &mut Response<Body>) -> Value {
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        let data = text.strip_prefix("data: ").unwrap_or_else(|| panic!("{text}"));
        serde_json::from_str(data.trim_end()).unwrap()
    }

    fn ending(reason: EndingReason, request: Option<RequestKind>) -> Report {
        let exchange = |request| Exchange { what: request, result: Done, took: Duration::ZERO };
        let exchanges = request.map(exchange).into_iter().collect();
        let ending = Some(Ending { term: 7, reason });
        Report { ending, exchanges, ..report(Role::Undecided, &[]) }
    }

    #[tokio::test]
    async fn every_change_is_sent_with_the_whole_state() {
        let clock = BootClock::new();
        let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
        let permits = Arc::new(Semaphore::new(1));
        let permit = permits.clone().try_acquire_owned().unwrap();
        let mut response = stream(board.clone(), clock.handle(), permit);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let no_leader = json!({
            "version": 1, "election": "jobs/report", "candidate": "ada", "leading": false,
            "leader": null, "valid_for_ms": null, "valid_until": null, "handing_over_to": null, "ended": null,
        });
        assert_eq!(next_event(&mut response).await, no_leader);

        let step = |report: &Report| board.on_step(report, clock.now(), clock.now());
        step(&report(leading(), &[Done]));
        let leads = next_event(&mut response).await;
        assert_eq!((&leads["leading"], &leads["leader"]["term"]), (&json!(true), &json!(7)));
        let left = leads["valid_for_ms"].as_u64().unwrap();
        assert!((1..=12_000).contains(&left), "{left}");
        // A renewal, then an order.
        step(&report(leading(), &[Done]));
        assert_eq!(next_event(&mut response).await["handing_over_to"], Value::Null);
        step(&Report { successor: Some("ben".to_owned()), ..report(leading(), &[Done]) });
        assert_eq!(next_event(&mut response).await["handing_over_to"], "ben");

        step(&ending(EndingReason::HandedOver, Some(RequestKind::ChangeLease)));
        let ended = json!({ "term": 7, "reason": "handed-over", "released": true });
        let news = next_event(&mut response).await;
        assert_eq!((&news["ended"], &news["leading"]), (&ended, &json!(false)));
        drop(response);
        assert_eq!(permits.available_permits(), 1);
    }

    #[test]
    fn a_lease_is_released_when_the_store_has_answered() {
        let board = board();
        let released = |board: &Board| board.state().ended.as_ref().map(|ended| ended.released);
        board.on_step(&report(leading(), &[Done]), NOW, NOW);
        assert_eq!(released(&board), None);
        // The work does not stop at once.
        board.on_step(&ending(EndingReason::ValidityEnded, None), NOW, NOW);
        assert_eq!(released(&board), Some(false));
        let mut later = ending(EndingReason::ValidityEnded, Some(RequestKind::ReleaseLease));
        later.ending = None;
        board.on_step(&later, NOW, NOW);
        assert_eq!(released(&board), Some(true));
        board.on_step(&report(leading(), &[Done]), NOW, NOW + seconds(1));
        assert_eq!(released(&board), None);
    }

    #[tokio::test(start_paused = true)]
    async fn every_permit_expires() {
        let clock = BootClock::new();
        let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
        let permits = Arc::new(Semaphore::new(1));
        let permit = permits.clone().try_acquire_owned().unwrap();
        let mut response = stream(board, clock.handle(), permit);
        let (started_at, mut comments) = (Instant::now(), 0);
        next_event(&mut response).await;
        while response.body_mut().frame().await.is_some() {
            comments += 1;
        }
        assert!(
            started_at.elapsed() <= STREAM_LIFETIME && comments > 300,
            "{:?}, {comments}",
            started_at.elapsed()
        );
        assert_eq!(permits.available_permits(), 1);
    }
}
