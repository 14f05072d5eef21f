//! A leader that runs all of the work makes way for members that are there for shares of it. docs/protocol.md §14.6.

use super::store::SharesStore;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::{Election, Order};
use tenure::{Class, Event};
use tenure_core::ProblemClass;
use tenure_shares::{Answer, Ask, Listed};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// The longest time between two looks of a leader.
const LOOK: Duration = Duration::from_secs(300);

/// Polls of a follower between two looks.
const POLLS: u32 = 75;

/// Makes the candidate without shares resign when it leads and sees the sign of life of a member. Looks when it begins to
/// lead and then every 75 polls, after 5 minutes at most. Never completes.
///
/// `leads` is its term while it leads; `election` is for requests beside its blob, and was checked.
pub async fn make_way(
    election: Arc<Election>,
    poll: Duration,
    mut leads: watch::Receiver<Option<u64>>,
    orders: mpsc::Sender<Order>,
    events: impl Fn(Event),
) {
    let store = SharesStore::of(election, "");
    let every = LOOK.min(poll * POLLS);
    loop {
        let term = leads.wait_for(Option::is_some).await.map(|term| *term);
        let Ok(term) = term else { return pending().await };
        // Where the list is refused the work was most likely never split: it needs a permission that elections do not need.
        if let Answer::Signs(signs) = store.ask(&Ask::List).await.answer
            && let Some(Listed { sign, .. }) = signs.into_iter().find(Listed::is_alive)
        {
            let detail = format!(
                "{} is there for shares of the work, and this leader runs all of it: it resigns. Start it with --shares, or \
                 end the processes that have it",
                sign.member
            );
            events(Event::Problem { class: Class::Election(ProblemClass::Configuration), detail });
            // A candidate that has left ignores orders.
            let _ = orders.send(Order::Resign).await;
        }
        let ends = async { leads.wait_for(|now| *now != term).await.is_err() };
        if timeout(every, ends).await == Ok(true) {
            return pending().await;
        }
    }
}
