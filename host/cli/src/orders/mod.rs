//! Orders through the storage account: `tenure transfer` and `tenure trigger`.

mod transfer;
mod trigger;

pub(super) use transfer::transfer;
pub(super) use trigger::trigger;

use crate::complaint::printable;
use crate::configuration::Configuration;
use std::hash::{BuildHasher as _, RandomState};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tenure::engine::{Clients, Election};
use tenure_clock::BootClock;
use tenure_core::{Incumbent, Problem, ProblemClass, error_chain};
use tenure_server::watch::{endpoint, parse_listener};
use tokio::time::sleep;

const HINT_LIMIT: Duration = Duration::from_secs(3);

/// Pauses between two polls: each one is twice as long as the previous one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An election as an operator's command uses it.
struct Operator {
    handle: Election,
    clients: Clients,
    election: String,
}

/// An order whose result is unknown, or that was not placed.
struct Failure {
    why: String,
    /// True if the order may have been placed.
    in_doubt: bool,
}

impl Operator {
    fn new(configuration: &mut Configuration) -> Result<Self, ExitCode> {
        let clients = Clients::without_proxies(configuration.authorities.clone());
        let handle = configuration.operator_election(&BootClock::new())?;
        Ok(Self { handle, clients, election: configuration.election() })
    }

    /// Reads the election before an order is written, so that an unreachable account leaves no
    /// doubt about it.
    ///
    /// # Errors
    ///
    /// The account did not respond.
    async fn check_account(&self) -> Result<(), String> {
        match check_answer(self.handle.inspect().await) {
            Err(Failure { why, in_doubt: true }) => Err(format!("{why}. Nothing was placed")),
            _ => Ok(()),
        }
    }

    /// Notifies the leader that an order waits. Returns who leads and when it reads its orders, as
    /// a clause.
    ///
    /// # Errors
    ///
    /// No leader is known.
    async fn hint(&self) -> Result<String, String> {
        let Ok(snapshot) = self.handle.inspect().await else {
            return Err("the election could not be read, so the leader was not notified".to_owned());
        };
        let Some(leader) = snapshot.leader() else {
            let why = snapshot
                .problem
                .as_ref()
                .map(|problem| format!(" ({})", printable(&problem.detail)));
            return Err(format!("there is no leader now{}", why.unwrap_or_default()));
        };
        let name = printable(&leader.name);
        Ok(match self.notify_leader(leader).await {
            Ok(()) => format!("{name} leads, and was notified"),
            Err(why) => format!("{name} leads, and looks for orders every 10 s ({why})"),
        })
    }

    async fn notify_leader(&self, Incumbent { address, .. }: &Incumbent) -> Result<(), String> {
        let Some(address) = address else {
            return Err("it has no --address for a notification".to_owned());
        };
        let notification_error = |why: String| {
            format!("no notification at {}, the address on record: {why}", printable(address))
        };
        let url = parse_listener(address);
        let url =
            url.ok_or_else(|| notification_error("no http:// or https:// address".to_owned()))?;
        let client = self.clients.get(&url).map_err(notification_error)?;
        let request = client.post(endpoint(&url, "hint", Some(&self.election)));
        match request.timeout(HINT_LIMIT).send().await {
            Ok(answer) if answer.status().as_u16() == 202 => Ok(()),
            Ok(answer) => Err(notification_error(format!("HTTP {}", answer.status().as_u16()))),
            Err(error) => Err(notification_error(error_chain(&error.without_url()))),
        }
    }
}

/// Checks the response to an order.
fn check_answer<S>(answer: Result<S, Problem>) -> Result<S, Failure> {
    let problem = match answer {
        Ok(state) => return Ok(state),
        Err(problem) => problem,
    };
    let in_doubt = matches!(
        problem.class,
        ProblemClass::Unreachable | ProblemClass::Unavailable | ProblemClass::Nonsense
    );
    // The detail of a refused order is complete.
    let why = match problem.class {
        ProblemClass::Order => problem.detail,
        _ => problem.to_string(),
    };
    Err(Failure { why: printable(&why), in_doubt })
}

/// Polls with `ask` until `is_final` is true for a state, for `wait` at most.
///
/// # Errors
///
/// The state is not final in time. If the last poll failed, the error says why, in parentheses.
async fn poll<S>(
    mut state: S,
    wait: Duration,
    ask: impl AsyncFn() -> Result<S, Failure>,
    mut is_final: impl FnMut(&S) -> bool,
) -> Result<S, String> {
    let (end, mut pause, mut last_error) = (Instant::now() + wait, FIRST_PAUSE, String::new());
    while !is_final(&state) {
        let remaining = end.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(last_error);
        }
        sleep(pause.min(remaining)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        match ask().await {
            Ok(new_state) => (state, last_error) = (new_state, String::new()),
            // The account may respond again.
            Err(failure) => last_error = format!(" ({})", failure.why),
        }
    }
    Ok(state)
}

fn random_id() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}
