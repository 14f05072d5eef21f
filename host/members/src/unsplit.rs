//! A leader that runs all of the work resigns when members run shares of it. docs/protocol.md
//! §14.6.

use super::store::SharesStore;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::{Election, Order};
use tenure::{Event, ProblemKind};
use tenure_core::ProblemClass;
use tenure_shares::{ListedSign, StoreRequest, StoreResponse};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// Longest time between two checks of a leader.
const CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// Polls between two checks.
const POLLS_PER_CHECK: u32 = 75;

/// Makes the candidate without shares resign when it leads and finds the sign of life of a member.
/// Never completes.
///
/// It checks when leadership starts and then every 75 polls, at the latest every 5 minutes.
///
/// `leading_term` is the candidate's term while it leads. `election` is for requests next to its
/// blob, and was checked.
pub async fn resign_for_shares(
    election: Arc<Election>,
    poll: Duration,
    mut leading_term: watch::Receiver<Option<u64>>,
    orders: mpsc::Sender<Order>,
    events: impl Fn(Event),
) {
    let store = SharesStore::new(election, "");
    let check_interval = CHECK_INTERVAL.min(poll * POLLS_PER_CHECK);
    loop {
        let term = leading_term.wait_for(Option::is_some).await.map(|term| *term);
        let Ok(term) = term else { return pending().await };
        // If the list is refused the work was most likely never split: listing needs a permission
        // that elections do not need.
        if let StoreResponse::Signs(signs) = store.send(&StoreRequest::ListSigns).await.response
            && let Some(ListedSign { sign, .. }) = signs.into_iter().find(ListedSign::is_alive)
        {
            let detail = format!(
                "{} runs shares of the work, but this leader runs all of it, so it resigns. Start it with --shares, or \
                 stop the processes with --shares",
                sign.member
            );
            events(Event::Problem {
                class: ProblemKind::Election(ProblemClass::Configuration),
                detail,
            });
            // A candidate that has left ignores orders.
            let _ = orders.send(Order::Resign).await;
        }
        let leadership_ended =
            async { leading_term.wait_for(|current| *current != term).await.is_err() };
        if timeout(check_interval, leadership_ended).await == Ok(true) {
            return pending().await;
        }
    }
}
