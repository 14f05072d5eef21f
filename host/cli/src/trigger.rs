//! `tenure trigger`: asks for a turn outside the schedule, and waits for its end if that is wanted.

use super::complaint::{self, printable};
use super::configuration::Configuration;
use super::settings::CommandLine;
use super::settings::table::{ID, WAIT};
use super::status::outcome_name;
use super::{UNUSABLE, fail, say};
use std::hash::{BuildHasher as _, RandomState};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tenure::clock::BootClock;
use tenure::component::ElectionComponent;
use tenure::contract::{
    Incumbent, LeaseState, Outcome, Problem, TriggerState, class_name, rfc3339,
};
use tenure::program::http::Clients;
use tenure::program::server::{causes, endpoint, listener};
use tenure::settings::names;
use tenure_base::duration::format_duration;
use tokio::time::sleep;

/// It was placed, but its turn was not over in time.
const NOT_YET: u8 = 1;

/// Its turn did not succeed, or will not be run.
const NOT_SUCCEEDED: u8 = 3;

/// The longest that the leader may take to hear of it.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often it is asked what became of it.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn trigger(line: &CommandLine) -> ExitCode {
    let mut configuration = Configuration::of_operator(line);
    let wait = configuration.duration(&WAIT);
    let id = configuration.given.text(&ID).unwrap_or_else(fresh_id);
    let election = configuration.settings.get(names::ELECTION).unwrap_or_default().to_owned();
    let component = match configuration.component(&BootClock::new()).await {
        Ok(component) => component,
        Err(failure) => return fail(failure),
    };
    if !configuration.complaints.is_empty() {
        complaint::print(complaint::report(&configuration.complaints));
        return ExitCode::from(UNUSABLE);
    }
    let clients = Clients::for_component(configuration.authorities.clone());
    let operator = Operator { component, clients, election, id };
    let state = match operator.place(true).await {
        Ok(state) => state,
        Err(why) => return fail(why),
    };
    match wait {
        None => {
            let told = match state {
                TriggerState::Waiting(until) => operator.tell(until).await,
                state => operator.words(&state),
            };
            say(&format!("{told}\n"));
            ExitCode::SUCCESS
        }
        Some(wait) => operator.wait(state, wait).await,
    }
}

/// One that nobody has used, most likely.
fn fresh_id() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

struct Operator {
    component: ElectionComponent,
    clients: Clients,
    election: String,
    id: String,
}

impl Operator {
    async fn place(&self, really: bool) -> Result<TriggerState, String> {
        match self.component.trigger(&self.id, really).await {
            Ok(Ok(state)) => Ok(state),
            Ok(Err(Problem { class, detail })) => {
                Err(format!("{}: {}", class_name(class), printable(&detail)))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Has the leader look for it. Says who it is, and what comes next.
    async fn tell(&self, until: u64) -> String {
        let (id, until) = (&self.id, rfc3339(until));
        let seen = match self.component.inspect().await {
            Ok(Ok(seen)) => seen,
            _ => return format!("Trigger {id} waits for the leader, until {until}."),
        };
        let held = matches!(seen.lease, LeaseState::Leased | LeaseState::Breaking);
        let Some(leader) = seen.incumbent.filter(|_| held) else {
            return format!(
                "Trigger {id} waits, until {until}: nobody leads. The next leader runs it."
            );
        };
        let name = printable(&leader.name);
        match self.reach(&leader).await {
            Ok(()) => format!("Trigger {id} waits: {name} leads, and was told."),
            Err(why) => format!("Trigger {id} waits: {name} leads, and {why}."),
        }
    }

    async fn reach(&self, Incumbent { address, .. }: &Incumbent) -> Result<(), String> {
        let Some(address) = address else {
            return Err(
                "looks for triggers each minute (it has no --address at which it could be told)"
                    .to_owned(),
            );
        };
        let at = printable(address);
        let unreached = |why: String| {
            format!(
                "looks for triggers each 5 minutes: it could not be told at {at}, the address on record ({why})"
            )
        };
        let url = listener(address)
            .ok_or_else(|| unreached("no http:// or https:// address".to_owned()))?;
        let client = self.clients.get(url.scheme()).map_err(unreached)?;
        let request =
            client.post(endpoint(&url, "trigger", Some(&self.election))).timeout(PATIENCE);
        match request.send().await {
            Ok(answer) if answer.status().as_u16() == 202 => Ok(()),
            Ok(answer) => Err(unreached(format!("HTTP {}", answer.status().as_u16()))),
            Err(error) => Err(unreached(causes(&error.without_url()))),
        }
    }

    /// Waits for its end.
    async fn wait(&self, mut state: TriggerState, wait: Duration) -> ExitCode {
        let end = Instant::now() + wait;
        let (mut told, mut trouble) = (None, None);
        loop {
            let words = match state {
                TriggerState::Waiting(until) if told.is_none() => self.tell(until).await,
                _ => self.words(&state),
            };
            let is_news = told.as_ref() != Some(&std::mem::discriminant(&state));
            told = Some(std::mem::discriminant(&state));
            if is_news {
                say(&format!("{words}\n"));
            }
            match state {
                TriggerState::Waiting(_) | TriggerState::Claimed(_) => {}
                TriggerState::Ended(Outcome::Succeeded) => return ExitCode::SUCCESS,
                TriggerState::Ended(_) | TriggerState::Unknown | TriggerState::Missing => {
                    return ExitCode::from(NOT_SUCCEEDED);
                }
            }
            loop {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let wait = format_duration(wait);
                    let trouble =
                        trouble.map(|why: String| format!(" ({why})")).unwrap_or_default();
                    complaint::print(format_args!(
                        "tenure: the turn for trigger {} was not over within {wait}{trouble}; ask again with --id {}\n",
                        self.id, self.id
                    ));
                    return ExitCode::from(NOT_YET);
                }
                sleep(PAUSE.min(left)).await;
                match self.place(false).await {
                    Ok(seen) => {
                        (state, trouble) = (seen, None);
                        break;
                    }
                    // The account may answer again.
                    Err(why) => trouble = Some(why),
                }
            }
        }
    }

    fn words(&self, state: &TriggerState) -> String {
        let id = &self.id;
        match state {
            TriggerState::Waiting(until) => {
                format!("Trigger {id} waits, until {}.", rfc3339(*until))
            }
            TriggerState::Claimed(term) => {
                format!("Trigger {id}: its turn was claimed under term {term}, and is not over.")
            }
            TriggerState::Ended(outcome) => {
                format!("Trigger {id}: its turn is over: {}.", outcome_name(*outcome))
            }
            TriggerState::Unknown => format!(
                "Trigger {id}: its turn was claimed, and how it ended is not on record: its leader died or lost \
                 the lease. It is not run again."
            ),
            TriggerState::Missing => {
                format!("Trigger {id} has expired, or the record was lost: it has no turn.")
            }
        }
    }
}
