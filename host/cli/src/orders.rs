//! Orders through the storage account: `tenure transfer` and `tenure trigger`.

use crate::complaint::printable;
use crate::configuration::Configuration;
use crate::output::{CommandResult, eprint, fail, fail_with, print_wrapped};
use crate::settings::CommandLine;
use crate::settings::table::{DEFAULT_WAIT, ID, TO, TRANSFER_WAIT, TRIGGER_WAIT};
use std::hash::{BuildHasher as _, RandomState};
use std::mem::discriminant;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tenure::engine::{Clients, Election};
use tenure_base::duration::format_duration;
use tenure_clock::BootClock;
use tenure_core::{
    Incumbent, Outcome, Problem, ProblemClass, TransferOrder, TransferState, TriggerState,
    error_chain, is_order_id,
};
use tenure_server::watch::{endpoint, parse_listener};
use tokio::time::sleep;

/// Exit code: the transfer was refused or failed.
const TRANSFER_REFUSED: u8 = 1;

/// Exit code: the result of the transfer is unknown.
const TRANSFER_UNKNOWN: u8 = 2;

/// Exit code: the leader changed before it obeyed.
const LEADER_CHANGED: u8 = 3;

/// Exit code: the turn did not finish in time.
const TURN_NOT_FINISHED: u8 = 1;

/// Exit code: the turn did not succeed, or will not be run.
const TURN_NOT_SUCCEEDED: u8 = 3;

/// Time limit for notifying the leader that an order waits.
const HINT_LIMIT: Duration = Duration::from_secs(3);

/// First pause between two polls. Each pause is twice as long as the previous one, up to
/// `MAX_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// `tenure transfer`: moves the leadership to another candidate.
pub(super) async fn transfer(line: &CommandLine) -> CommandResult {
    let mut configuration = Configuration::for_operator(line);
    let wait = configuration.duration(&TRANSFER_WAIT).unwrap_or(DEFAULT_WAIT);
    let to = configuration.resolved.text(&TO);
    let operator = Operator::new(&mut configuration)?;
    operator.check_account().await.map_err(|why| fail_with(TRANSFER_REFUSED, why))?;
    let mut order = TransferOrder { id: random_id(), to, term: None };
    let term = match check_answer(operator.handle.transfer(&order, true).await) {
        Ok(TransferState::Waiting(term)) => term,
        Ok(state) => return Ok(report_transfer(&order, state)),
        Err(Failure { why, in_doubt: true }) => {
            let why = format_args!(
                "{why}. The order may have been placed all the same: see tenure status before you repeat it"
            );
            return Err(fail_with(TRANSFER_UNKNOWN, why));
        }
        Err(Failure { why, .. }) => return Err(fail_with(TRANSFER_REFUSED, why)),
    };
    order.term = Some(term);
    if let Ok(leader) = operator.hint().await {
        eprint(format_args!("tenure: the order is placed; {leader}\n"));
    }
    let is_final = |state: &TransferState| !matches!(state, TransferState::Waiting(_));
    let ask = async || check_answer(operator.handle.transfer(&order, false).await);
    let state = poll(TransferState::Waiting(term), wait, ask, is_final).await;
    let state = state.map_err(|last_error| {
        let wait = format_duration(wait);
        let why = format_args!(
            "the leader has not changed within {wait}{last_error}. It obeys an order up to a minute after it was placed: \
             see tenure status"
        );
        fail_with(TRANSFER_UNKNOWN, why)
    })?;
    Ok(report_transfer(&order, state))
}

/// Reports a final state, and returns its exit code.
fn report_transfer(order: &TransferOrder, state: TransferState) -> ExitCode {
    let leads = |Incumbent { name, term, .. }: &Incumbent| {
        format!("{} leads with term {term}", printable(name))
    };
    match state {
        TransferState::Done(incumbent) => {
            print_wrapped(&format!("A new term has begun: {}.\n", leads(&incumbent)));
            ExitCode::SUCCESS
        }
        TransferState::Changed(incumbent) => {
            let target = order.to.as_deref().map(printable).unwrap_or_default();
            let why = format_args!(
                "the leader changed before it obeyed: {}, not {target}. To move the leadership now, repeat the command",
                leads(&incumbent)
            );
            fail_with(LEADER_CHANGED, why)
        }
        TransferState::Replaced => fail_with(
            TRANSFER_REFUSED,
            "a newer transfer replaced this one before the leader read it; nothing came of this one",
        ),
        TransferState::Refused(why) => {
            fail_with(TRANSFER_REFUSED, format_args!("the leader refused: {}", printable(&why)))
        }
        TransferState::Failed(why) => {
            fail_with(TRANSFER_REFUSED, format_args!("the leader still leads: {}", printable(&why)))
        }
        TransferState::Waiting(_) => ExitCode::from(TRANSFER_UNKNOWN),
    }
}

/// `tenure trigger`: requests a turn outside the schedule, and waits for its end if requested.
pub(super) async fn trigger(line: &CommandLine) -> CommandResult {
    let mut configuration = Configuration::for_operator(line);
    let wait = configuration.duration(&TRIGGER_WAIT);
    let requested_id = configuration.resolved.text(&ID);
    if requested_id.as_ref().is_some_and(|id| !is_order_id(id)) {
        let problem = "is not 1 to 64 letters, digits, dots, hyphens and underscores";
        configuration.complain(&ID, problem, ID.advice);
    }
    let operator = Operator::new(&mut configuration)?;
    operator.check_account().await.map_err(fail)?;
    let is_new = requested_id.is_none();
    let id = requested_id.unwrap_or_else(random_id);
    let state = check_answer(operator.handle.trigger(&id, true).await);
    let state = state.map_err(|Failure { why, in_doubt }| match in_doubt && is_new {
        true => fail(format_args!(
            "{why}. The trigger may have been placed all the same; to repeat this without a second turn, add --id {id}"
        )),
        false => fail(why),
    })?;
    print_wrapped(&match &state {
        TriggerState::Waiting(until) => match operator.hint().await {
            Ok(leader) => format!("Trigger {id} waits for its turn: {leader}.\n"),
            Err(why) => {
                let until = until.to_rfc3339();
                format!(
                    "Trigger {id} waits for its turn, until {until}: {why}. The next leader runs it.\n"
                )
            }
        },
        state => format!("{}\n", describe_trigger(&id, state)),
    });
    let Some(wait) = wait else { return Ok(ExitCode::SUCCESS) };
    let mut reported = discriminant(&state);
    let is_final = |state: &TriggerState| {
        let is_changed =
            std::mem::replace(&mut reported, discriminant(state)) != discriminant(state);
        if is_changed {
            print_wrapped(&format!("{}\n", describe_trigger(&id, state)));
        }
        !matches!(state, TriggerState::Waiting(_) | TriggerState::Claimed(_))
    };
    let ask = async || check_answer(operator.handle.trigger(&id, false).await);
    match poll(state, wait, ask, is_final).await {
        Ok(TriggerState::Ended(Outcome::Succeeded)) => Ok(ExitCode::SUCCESS),
        Ok(_) => Ok(ExitCode::from(TURN_NOT_SUCCEEDED)),
        Err(last_error) => {
            let wait = format_duration(wait);
            let why = format_args!(
                "the turn for trigger {id} was not over within {wait}{last_error}; ask again with --id {id}"
            );
            Err(fail_with(TURN_NOT_FINISHED, why))
        }
    }
}

fn describe_trigger(id: &str, state: &TriggerState) -> String {
    match state {
        TriggerState::Waiting(until) => {
            format!("Trigger {id} waits for its turn, until {}.", until.to_rfc3339())
        }
        TriggerState::Claimed(term) => {
            format!("Trigger {id}: its turn was claimed under term {term}, and has not ended.")
        }
        TriggerState::Ended(outcome) => {
            format!("Trigger {id}: its turn has ended: {}.", outcome.name())
        }
        TriggerState::Unknown => format!(
            "Trigger {id}: its turn was claimed, but its outcome is not on record: its leader died or lost the \
             lease. It is not run again."
        ),
        TriggerState::Missing => format!(
            "Trigger {id} has no turn: it expired, or the record was lost, or too many others came after it. To \
             run the work now, trigger it with another --id."
        ),
    }
}

/// Access of an operator's command to an election and its leader.
struct Operator {
    handle: Election,
    clients: Clients,
    election: String,
}

/// Failure to place an order, or to read its result.
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

    /// Reads the election before an order is written. If the account is unreachable, it is then
    /// certain that no order was placed.
    ///
    /// # Errors
    ///
    /// Returns the reason if the account did not respond.
    async fn check_account(&self) -> Result<(), String> {
        match check_answer(self.handle.inspect().await) {
            Err(Failure { why, in_doubt: true }) => Err(format!("{why}. Nothing was placed")),
            _ => Ok(()),
        }
    }

    /// Notifies the leader that an order waits. Returns a clause with the leader's name, and when
    /// it reads its orders.
    ///
    /// # Errors
    ///
    /// Returns the reason if no leader is known.
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
    // The detail of a refused order needs no problem class in front.
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
/// Fails if no state is final in time. The error is empty, or the reason why the last poll failed,
/// in parentheses.
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
        pause = (pause * 2).min(MAX_PAUSE);
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
