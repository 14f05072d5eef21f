//! `tenure trigger`: asks for a turn outside the schedule, and waits for its end if that is wanted.

use super::complaint::printable;
use super::configuration::Configuration;
use super::output::{eprint, fail, refuse, say};
use super::settings::CommandLine;
use super::settings::table::{ID, TRIGGER_AT, TRIGGER_WAIT};
use super::steer::{self, Operator};
use serde_json::Value;
use std::hash::{BuildHasher as _, RandomState};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tenure::clock::BootClock;
use tenure::component::ElectionComponent;
use tenure::contract::{Incumbent, Problem, ProblemClass, TriggerTold, class_name};
use tenure::program::causes;
use tenure::program::http::Clients;
use tenure::program::server::{Intent, endpoint, listener};
use tenure::settings::names;
use tenure_base::duration::format_duration;
use tenure_core::is_order_id;
use tokio::time::sleep;

/// It was placed, but its turn was not over in time.
const NOT_YET: u8 = 1;

/// Its turn did not succeed, or will not be run.
const NOT_SUCCEEDED: u8 = 3;

/// The longest that the leader may take to hear of it.
const PATIENCE: Duration = Duration::from_secs(3);

/// How soon it is asked what became of it, and how seldom later: twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn trigger(line: &CommandLine) -> ExitCode {
    let mut configuration = Configuration::of_operator(line);
    let wait = configuration.duration(&TRIGGER_WAIT);
    let given = configuration.given.text(&ID);
    if given.as_ref().is_some_and(|id| !is_order_id(id)) {
        let problem = "is not 1 to 64 letters, digits, dots, hyphens and underscores";
        configuration.complain(&ID, problem, ID.advice);
    }
    let own = given.is_none();
    let id = given.unwrap_or_else(fresh_id);
    let way = match Way::of(&mut configuration).await {
        Ok(way) => way,
        Err(failure) => return fail(failure),
    };
    let (Some(way), []) = (way, configuration.complaints.as_slice()) else {
        return refuse(&configuration.complaints);
    };
    let asking = Asking { way, id };
    let state = match asking.ask(true).await {
        Ok(state) => state,
        // Whoever gave the id knows it.
        Err(failure) if own => return fail(asking.repeated(failure)),
        Err(failure) => return fail(failure.why),
    };
    match wait {
        None => {
            say(&format!("{}\n", asking.next(&state).await));
            ExitCode::SUCCESS
        }
        Some(wait) => asking.wait(state, wait).await,
    }
}

/// One that nobody has used, most likely.
fn fresh_id() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// How triggers are placed.
enum Way {
    /// On the blob beside the election's.
    Account { component: Box<ElectionComponent>, clients: Clients, election: String },
    /// By the leader, at its listener.
    Listener(Operator),
}

impl Way {
    /// None: there is something to complain about.
    async fn of(configuration: &mut Configuration) -> Result<Option<Self>, String> {
        let clients = Clients::direct(configuration.authorities.clone());
        let election = configuration.settings.get(names::ELECTION).map(str::to_owned);
        let Some(named) = configuration.given.text(&TRIGGER_AT) else {
            let component = configuration.component(&BootClock::new()).await?;
            let (component, election) = (Box::new(component), election.unwrap_or_default());
            return Ok(Some(Self::Account { component, clients, election }));
        };
        let token = steer::token(configuration);
        let at = match steer::listener(&named) {
            Ok(at) => Some(at),
            Err(problem) => {
                configuration.complain(&TRIGGER_AT, &problem, TRIGGER_AT.advice);
                None
            }
        };
        let operator = |(at, token)| Operator { clients, at, leader: None, token, election };
        Ok(at.zip(token).map(operator).map(Self::Listener))
    }
}

struct Asking {
    way: Way,
    id: String,
}

/// Why it is not known what became of it.
struct Failure {
    why: String,
    /// It may have been placed all the same.
    in_doubt: bool,
}

impl Failure {
    /// Before it could be placed.
    fn before(why: String) -> Self {
        Self { why, in_doubt: false }
    }

    fn of(Problem { class, detail }: Problem) -> Self {
        // As the protocol has it for any write: the answer did not come, or tells nothing.
        let in_doubt = matches!(
            class,
            ProblemClass::Unreachable | ProblemClass::Unavailable | ProblemClass::Nonsense
        );
        Self { why: format!("{}: {}", class_name(class), printable(&detail)), in_doubt }
    }
}

impl Asking {
    /// Places it, or only asks what became of it.
    async fn ask(&self, place: bool) -> Result<TriggerTold, Failure> {
        match &self.way {
            Way::Account { component, .. } => match component.trigger(&self.id, place).await {
                Ok(Ok(state)) => Ok(state.into()),
                Ok(Err(problem)) => Err(Failure::of(problem)),
                Err(error) => Err(Failure { why: error.to_string(), in_doubt: true }),
            },
            Way::Listener(operator) => self.ask_at(operator, place).await,
        }
    }

    /// How to ask again for the same turn, and not for a second one.
    fn repeated(&self, Failure { why, in_doubt }: Failure) -> String {
        let id = &self.id;
        match in_doubt {
            true => format!(
                "{why}. The trigger may have been placed all the same; to repeat this without a second turn, add --id \
                 {id}"
            ),
            false => why,
        }
    }

    async fn ask_at(&self, operator: &Operator, place: bool) -> Result<TriggerTold, Failure> {
        let seen = operator.look().await.map_err(Failure::before)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let candidate = text(&seen["candidate"]);
        let election = operator.election.clone().unwrap_or_else(|| text(&seen["election"]));
        let order = if place { "trigger" } else { "triggered" };
        let intent = Intent { order, to: &self.id, election: &election, candidate: &candidate };
        let method = if place { reqwest::Method::POST } else { reqwest::Method::GET };
        if place {
            operator.announce(&intent);
        }
        let mut url = operator.url("trigger");
        url.query_pairs_mut().append_pair("id", &self.id);
        let answer = operator.prove(method, url, &intent).await;
        let (status, told) =
            answer.map_err(|steer::Unanswered { why, in_doubt }| Failure { why, in_doubt })?;
        match serde_json::from_value(told.clone()) {
            Ok(told) if (200..300).contains(&status) => Ok(told),
            _ => {
                let why =
                    told["error"].as_str().map_or_else(|| format!("HTTP {status}"), printable);
                let (who, leader) = (printable(&candidate), steer::elsewhere(&told["leader"]));
                let why = format!("{who} at {}: {why}{leader}", operator.at);
                let in_doubt = !(300..500).contains(&status);
                Err(Failure { why, in_doubt })
            }
        }
    }

    /// What comes next. The leader is told of one that waits.
    async fn next(&self, state: &TriggerTold) -> String {
        let TriggerTold::Waiting { until } = state else { return self.words(state) };
        let who = match &self.way {
            Way::Account { component, clients, election } => {
                told(component, clients, election).await
            }
            Way::Listener(operator) => Ok(format!("the leader at {} was notified", operator.at)),
        };
        let id = &self.id;
        match who {
            Ok(who) => format!("Trigger {id} waits for its turn: {who}."),
            Err(who) => format!("Trigger {id} waits for its turn, until {until}: {who}."),
        }
    }

    /// Waits for its end.
    async fn wait(&self, mut state: TriggerTold, wait: Duration) -> ExitCode {
        let end = Instant::now() + wait;
        let (mut said, mut trouble, mut pause) = (None, None, FIRST_PAUSE);
        loop {
            let is_news = said.as_ref() != Some(&std::mem::discriminant(&state));
            if is_news {
                said = Some(std::mem::discriminant(&state));
                say(&format!("{}\n", self.next(&state).await));
            }
            match &state {
                TriggerTold::Waiting { .. } | TriggerTold::Claimed { .. } => {}
                TriggerTold::Ended { outcome } if outcome == "succeeded" => {
                    return ExitCode::SUCCESS;
                }
                TriggerTold::Ended { .. } | TriggerTold::Unknown | TriggerTold::Missing => {
                    return ExitCode::from(NOT_SUCCEEDED);
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                eprint(format_args!("tenure: {}\n", self.not_yet(wait, trouble)));
                return ExitCode::from(NOT_YET);
            }
            sleep(pause.min(left)).await;
            pause = (pause * 2).min(PAUSE);
            match self.ask(false).await {
                Ok(seen) => (state, trouble) = (seen, None),
                // The account may answer again.
                Err(failure) => trouble = Some(failure.why),
            }
        }
    }

    fn not_yet(&self, wait: Duration, trouble: Option<String>) -> String {
        let (id, wait) = (&self.id, format_duration(wait));
        let trouble = trouble.map(|why| format!(" ({why})")).unwrap_or_default();
        format!(
            "the turn for trigger {id} was not over within {wait}{trouble}; ask again with --id {id}"
        )
    }

    fn words(&self, state: &TriggerTold) -> String {
        let id = &self.id;
        match state {
            TriggerTold::Waiting { until } => {
                format!("Trigger {id} waits for its turn, until {until}.")
            }
            TriggerTold::Claimed { term } => {
                format!("Trigger {id}: its turn was claimed under term {term}, and has not ended.")
            }
            TriggerTold::Ended { outcome } => {
                format!("Trigger {id}: its turn has ended: {}.", printable(outcome))
            }
            TriggerTold::Unknown => format!(
                "Trigger {id}: its turn was claimed, but its outcome is not on record: its leader died or lost the \
                 lease. It is not run again."
            ),
            TriggerTold::Missing => format!(
                "Trigger {id} has no turn: it expired, or the record was lost, or too many others came after it. To \
                 run the work now, trigger it with another --id."
            ),
        }
    }
}

/// Has the leader look for triggers. Says who that is, and how soon it looks.
///
/// # Errors
///
/// Nobody was told.
async fn told(
    component: &ElectionComponent,
    clients: &Clients,
    election: &str,
) -> Result<String, String> {
    let seen = match component.inspect().await {
        Ok(Ok(seen)) => seen,
        _ => {
            return Err(
                "the leader was not notified, since the election could not be read".to_owned()
            );
        }
    };
    let Some(leader) = seen.leader() else {
        let why = seen.problem.as_ref().map(|problem| format!(" ({})", printable(&problem.detail)));
        let why = why.unwrap_or_default();
        return Err(format!("nobody leads now{why}, and the next leader runs it"));
    };
    let name = printable(&leader.name);
    match reach(leader, clients, election).await {
        Ok(()) => Ok(format!("{name} leads, and was notified")),
        Err(why) => Err(format!("{name} leads, and {why}")),
    }
}

/// Tells the leader at its address.
async fn reach(
    Incumbent { address, .. }: &Incumbent,
    clients: &Clients,
    election: &str,
) -> Result<(), String> {
    let Some(address) = address else {
        let why = "looks for triggers once a minute (it has no --address for a notification)";
        return Err(why.to_owned());
    };
    let at = printable(address);
    let unreached = |why: String| {
        format!(
            "looks for triggers every 5 minutes: it could not be notified at {at}, the address on record ({why})"
        )
    };
    let url = listener(address);
    let url = url.ok_or_else(|| unreached("no http:// or https:// address".to_owned()))?;
    let client = clients.get(&url).map_err(unreached)?;
    let request = client.post(endpoint(&url, "trigger", Some(election))).timeout(PATIENCE);
    match request.send().await {
        Ok(answer) if answer.status().as_u16() == 202 => Ok(()),
        Ok(answer) => Err(unreached(format!("HTTP {}", answer.status().as_u16()))),
        Err(error) => Err(unreached(causes(&error.without_url()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_listener_tells_is_read_as_it_was_meant() {
        for (told, text) in [
            (
                TriggerTold::Waiting { until: "2026-11-20T08:00:00Z".to_owned() },
                r#"{"state":"waiting","until":"2026-11-20T08:00:00Z","trigger":"a"}"#,
            ),
            (TriggerTold::Claimed { term: 7 }, r#"{"state":"claimed","term":7,"trigger":"a"}"#),
            (
                TriggerTold::Ended { outcome: "timed-out".to_owned() },
                r#"{"state":"ended","outcome":"timed-out","trigger":"a"}"#,
            ),
            (TriggerTold::Unknown, r#"{"state":"unknown"}"#),
            (TriggerTold::Missing, r#"{"state":"missing"}"#),
        ] {
            assert_eq!(serde_json::from_str::<TriggerTold>(text).unwrap(), told);
        }
        assert!(serde_json::from_str::<TriggerTold>(r#"{"error":"x"}"#).is_err());
    }
}
