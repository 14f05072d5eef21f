//! The news of a candidate, for whoever reads them.

use super::super::answers::refuse;
use super::super::board::Board;
use super::super::roster::{Roster, choose};
use super::News;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, Uri};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tenure_clock::Reading;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// So many may watch the candidates of a process at a time: beside the viewers of the page, and all from one
/// address, they leave room for other questions from there.
const PLACES: usize = 24;

/// A comment comes when there was nothing else for so long.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// After so long a reader gives its place back, and asks again: one that reads nothing is not told from others
/// before the system's buffers are full.
const LIFE: Duration = Duration::from_secs(60 * 60);

#[derive(Clone)]
struct Shown {
    roster: Roster,
    places: Arc<Semaphore>,
}

/// `/watch`, of the election that `?election=` names, or the only one.
pub(crate) fn router(roster: Roster) -> Router {
    let places = Arc::new(Semaphore::new(PLACES));
    Router::new().route("/watch", get(news)).with_state(Shown { roster, places })
}

async fn news(State(Shown { roster, places }): State<Shown>, uri: Uri) -> Response<Body> {
    let face = match choose(&roster.faces(), &uri).cloned() {
        Ok(face) => face,
        Err(refusal) => return *refusal,
    };
    match places.try_acquire_owned() {
        Ok(place) => stream(face.board.clone(), face.clock.clone(), place),
        Err(_) => refuse(&format!("{PLACES} others are watching, which is the limit")),
    }
}

/// News for one reader, who gives its place back when it goes.
fn stream(board: Arc<Board>, clock: Reading, place: OwnedSemaphorePermit) -> Response<Body> {
    let changed = board.changes();
    let end = Instant::now() + LIFE;
    let reader = Reader { board, clock, changed, end, told: None, _place: place };
    let events = unfold(reader, |mut reader| async {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(SILENCE)).into_response()
}

struct Reader {
    board: Arc<Board>,
    clock: Reading,
    changed: watch::Receiver<()>,
    end: Instant,
    told: Option<(News, Option<Duration>)>,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    /// What is true, as soon as it differs from what was told last.
    async fn next(&mut self) -> Option<Event> {
        loop {
            self.changed.mark_unchanged();
            let (mut news, until) = News::of(&self.board, &self.clock);
            let same = self.told.as_ref().is_some_and(|(told, before)| {
                // The time that is left is another at each moment; only a renewal is news.
                let (valid_for_ms, valid_until) = (told.valid_for_ms, told.valid_until.clone());
                let outlook = news.outlook.timeless();
                let timeless = News { valid_for_ms, valid_until, outlook, ..news.clone() };
                *before == until && *told == timeless
            });
            if !same {
                let text = serde_json::to_string(&news.sent()).ok();
                let event = text.map(|text| Event::default().data(text));
                news.outlook = news.outlook.timeless();
                self.told = Some((news, until));
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

/// Completes when a validity ends that nobody renewed.
async fn expires(clock: &Reading, until: Option<Duration>) {
    match until {
        Some(until) => {
            let left = until.saturating_sub(clock.now());
            sleep(left.max(Duration::from_millis(1))).await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{NOW, board, leading, report, seconds};
    use super::*;
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};
    use tenure_clock::{BootClock, Clock as _};
    use tenure_core::ExchangeResult::Done;
    use tenure_core::{Ending, EndingReason, Exchange, Report, RequestKind, Role};

    /// The next event.
    async fn told(response: &mut Response<Body>) -> Value {
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        let data = text.strip_prefix("data: ").unwrap_or_else(|| panic!("{text}"));
        serde_json::from_str(data.trim_end()).unwrap()
    }

    fn ending(reason: EndingReason, what: Option<RequestKind>) -> Report {
        let exchange = |what| Exchange { what, result: Done, took: Duration::ZERO };
        let exchanges = what.map(exchange).into_iter().collect();
        let ending = Some(Ending { term: 7, reason });
        Report { ending, exchanges, ..report(Role::Undecided, &[]) }
    }

    #[tokio::test]
    async fn each_change_is_told_and_what_is_told_is_all_that_is_true() {
        let clock = BootClock::new();
        let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
        let places = Arc::new(Semaphore::new(1));
        let place = places.clone().try_acquire_owned().unwrap();
        let mut response = stream(board.clone(), clock.reading(), place);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let nothing = json!({
            "version": 1, "election": "jobs/report", "candidate": "ada", "leading": false,
            "leader": null, "valid_for_ms": null, "valid_until": null, "handing_over_to": null, "ended": null,
        });
        assert_eq!(told(&mut response).await, nothing);

        let step = |report: &Report| board.stepped(report, clock.now(), clock.now());
        step(&report(leading(), &[Done]));
        let leads = told(&mut response).await;
        assert_eq!((&leads["leading"], &leads["leader"]["term"]), (&json!(true), &json!(7)));
        let left = leads["valid_for_ms"].as_u64().unwrap();
        assert!((1..=12_000).contains(&left), "{left}");
        // A renewal; then an order.
        step(&report(leading(), &[Done]));
        assert_eq!(told(&mut response).await["handing_over_to"], Value::Null);
        step(&Report { successor: Some("ben".to_owned()), ..report(leading(), &[Done]) });
        assert_eq!(told(&mut response).await["handing_over_to"], "ben");

        step(&ending(EndingReason::HandedOver, Some(RequestKind::ChangeLease)));
        let ended = json!({ "term": 7, "reason": "handed-over", "released": true });
        let news = told(&mut response).await;
        assert_eq!((&news["ended"], &news["leading"]), (&ended, &json!(false)));
        drop(response);
        assert_eq!(places.available_permits(), 1);
    }

    #[test]
    fn a_lease_is_released_when_the_store_has_answered() {
        let board = board();
        let released = |board: &Board| board.state().ended.as_ref().map(|ended| ended.released);
        board.stepped(&report(leading(), &[Done]), NOW, NOW);
        assert_eq!(released(&board), None);
        // The work does not stop at once.
        board.stepped(&ending(EndingReason::ValidityEnded, None), NOW, NOW);
        assert_eq!(released(&board), Some(false));
        let mut later = ending(EndingReason::ValidityEnded, Some(RequestKind::ReleaseLease));
        later.ending = None;
        board.stepped(&later, NOW, NOW);
        assert_eq!(released(&board), Some(true));
        board.stepped(&report(leading(), &[Done]), NOW, NOW + seconds(1));
        assert_eq!(released(&board), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_has_a_place_for_good() {
        let clock = BootClock::new();
        let board = Arc::new(Board::new("jobs/report", "ada", clock.now()));
        let places = Arc::new(Semaphore::new(1));
        let place = places.clone().try_acquire_owned().unwrap();
        let mut response = stream(board, clock.reading(), place);
        let (began, mut comments) = (Instant::now(), 0);
        told(&mut response).await;
        while response.body_mut().frame().await.is_some() {
            comments += 1;
        }
        assert!(began.elapsed() <= LIFE && comments > 300, "{:?}, {comments}", began.elapsed());
        assert_eq!(places.available_permits(), 1);
    }
}
