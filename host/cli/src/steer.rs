//! `tenure resign`, `transfer`, `pause` and `resume`: orders to a candidate, over its listener.

use super::complaint::NO_ELECTION;
use super::complaint::{printable, shown, shown_address};
use super::configuration::Configuration;
use super::output::{UNUSABLE, eprint, fail, refuse, say};
use super::settings::CommandLine;
use super::settings::table::{AT, CONTROL_TOKEN_FILE, TO};
use http::StatusCode;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use reqwest::Url;
use serde_json::Value;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tenure::clock::BootClock;
use tenure::contract::{LeaseState, Snapshot};
use tenure::program::causes;
use tenure::program::http::{Clients, Unread, whole};
use tenure::program::server::{self, Intent, authorization, endpoint, nonce_of};
use tenure::server::ControlToken;
use tenure::settings::names;

/// It was ordered, but did not come about in time.
const NOT_YET: u8 = 1;

/// The longest that one request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// No answer of a candidate is longer, in bytes. Anybody may listen at an address on record.
const LONGEST: usize = 64 * 1024;

/// How often it is asked what became of an order.
const PAUSE: Duration = Duration::from_millis(250);

/// How long an order may take: a turn may end in its grace, a successor has to announce itself.
const LIMIT: Duration = Duration::from_secs(120);

/// What is ordered.
enum Verb {
    Resign,
    Transfer(String),
    Pause,
    Resume,
}

impl Verb {
    const TRANSFER: &str = "transfer";

    fn name(&self) -> &'static str {
        match self {
            Self::Resign => "resign",
            Self::Transfer(_) => Self::TRANSFER,
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

pub(super) async fn steer(line: &CommandLine) -> ExitCode {
    let mut configuration = Configuration::of_operator(line);
    let verb = match line.command.as_str() {
        "transfer" => Verb::Transfer(configuration.given.text(&TO).unwrap_or_default()),
        "pause" => Verb::Pause,
        "resume" => Verb::Resume,
        _ => Verb::Resign,
    };
    let token = token(&mut configuration);
    let named = configuration.given.text(&AT);
    let at = named.as_deref().and_then(|named| match listener(named) {
        Ok(url) => Some(url),
        Err(problem) => {
            configuration.complain(&AT, &problem, AT.advice);
            None
        }
    });
    let component = match named.is_none() {
        true => match configuration.component(&BootClock::new()).await {
            Ok(component) => Some(component),
            Err(failure) => return fail(failure),
        },
        false => None,
    };
    let (Some(token), []) = (token, configuration.complaints.as_slice()) else {
        return refuse(&configuration.complaints);
    };
    let (at, leader) = match (at, component) {
        (Some(at), _) => (at, None),
        (None, Some(component)) => match component.inspect().await {
            Ok(Ok(seen)) => match leaders_listener(&seen) {
                Ok((at, leader)) => (at, Some(leader)),
                Err(why) => return fail(why),
            },
            Ok(Err(problem)) => return fail(printable(&problem.detail)),
            Err(error) => return fail(error),
        },
        (None, None) => return ExitCode::from(UNUSABLE),
    };
    let clients = Clients::direct(configuration.authorities.clone());
    let election = configuration.settings.get(names::ELECTION).map(str::to_owned);
    match (Operator { clients, at, leader, token, election }).order(&verb).await {
        Ok(done) => {
            say(&format!("{done}\n"));
            ExitCode::SUCCESS
        }
        Err(Stop::Refused(why)) => fail(why),
        Err(Stop::NotYet(why)) => {
            eprint(format_args!("tenure: {why}\n"));
            ExitCode::from(NOT_YET)
        }
    }
}

pub(super) fn token(configuration: &mut Configuration) -> Option<ControlToken> {
    if !configuration.given.is_on(&CONTROL_TOKEN_FILE) {
        configuration.complain(
            &CONTROL_TOKEN_FILE,
            "no control token is given, and candidates refuse orders without one",
            "give the control token of the candidates",
        );
    }
    let token = configuration.control_token()?;
    if let Some(why) = configuration.exposed_token() {
        eprint(format_args!("tenure: warning: {why}\n"));
    }
    Some(token)
}

/// The address of a listener; else what is wrong with it.
pub(super) fn listener(text: &str) -> Result<Url, String> {
    let problem = || format!("\"{}\" is not an http:// or https:// address", shown_address(text));
    server::listener(text).ok_or_else(problem)
}

/// Where the leader takes orders, and its name, as they are on record.
fn leaders_listener(seen: &Snapshot) -> Result<(Url, String), String> {
    if seen.lease == LeaseState::Absent {
        return Err(NO_ELECTION.to_owned());
    }
    let Some(leader) = seen.leader() else {
        let why = seen.problem.as_ref().map(|problem| format!(": {}", printable(&problem.detail)));
        let why = why.unwrap_or_default();
        return Err(format!("nobody leads, so there is nothing to give up{why}"));
    };
    let name = printable(&leader.name);
    let address = leader.address.as_deref().ok_or_else(|| {
        format!(
            "{name} leads, but put no address on record (--address); give its listener with --at"
        )
    })?;
    let at = listener(address).map_err(|problem| {
        format!("{name} leads, but the address that it put on record cannot be used: {problem}; give its listener with --at")
    });
    Ok((at?, leader.name.clone()))
}

/// Why an order was not carried out.
enum Stop {
    /// Nothing has changed.
    Refused(String),
    NotYet(String),
}

/// An order without an answer.
pub(super) struct Unanswered {
    pub why: String,
    /// It may have arrived.
    pub in_doubt: bool,
}

pub(super) struct Operator {
    pub clients: Clients,
    pub at: Url,
    /// Who must be there, when the address is the one on record: whoever may write the record chooses it.
    pub leader: Option<String>,
    pub token: ControlToken,
    /// Which of several at that listener is meant.
    pub election: Option<String>,
}

impl Operator {
    async fn order(&self, verb: &Verb) -> Result<String, Stop> {
        let before = self.look().await.map_err(Stop::Refused)?;
        let candidate = before["candidate"].as_str().unwrap_or_default();
        let election = self.election.as_deref().or(before["election"].as_str()).unwrap_or_default();
        let who = printable(candidate);
        self.is_meant(candidate).map_err(Stop::Refused)?;
        if let Verb::Transfer(to) = verb
            && before["leader"]["name"] == to.as_str()
        {
            return Ok(format!("{} leads already; nothing was ordered.", printable(to)));
        }
        let to = match verb {
            Verb::Transfer(to) => to,
            _ => "",
        };
        let intent = Intent { order: verb.name(), to, election, candidate };
        self.announce(&intent);
        let (status, told) = self.demand(&intent).await.map_err(|Unanswered { why, in_doubt }| {
            match in_doubt {
                true => Stop::NotYet(format!(
                    "{why}. It may have been ordered all the same: see tenure status before you repeat it"
                )),
                false => Stop::Refused(why),
            }
        })?;
        if status != 202 {
            let why = told["error"].as_str().map_or_else(|| format!("HTTP {status}"), printable);
            let leader = elsewhere(&told["leader"]);
            return Err(Stop::Refused(format!("{who} at {}: {why}{leader}", self.at)));
        }
        match verb {
            Verb::Pause => Ok(format!(
                "{who} was paused; it does not contend until `tenure resume`. A leader resigns first."
            )),
            Verb::Resume => {
                Ok(format!("{who} was ordered to resume; it contends as soon as it is ready."))
            }
            Verb::Resign => {
                let term = before["leader"]["term"].clone();
                self.resigned(&who, (before["leading"] == true).then_some(term)).await
            }
            Verb::Transfer(to) => self.transferred(&who, to).await,
        }
    }

    /// Whether the candidate that answers is the one that the record names.
    fn is_meant(&self, candidate: &str) -> Result<(), String> {
        match &self.leader {
            Some(leader) if leader != candidate => Err(format!(
                "{} leads, but at the address on record, {}, {} answers; give the listener of the leader \
                 with --at",
                printable(leader),
                self.at,
                printable(candidate)
            )),
            _ => Ok(()),
        }
    }

    /// Says where an order goes.
    pub(super) fn announce(&self, Intent { order, election, candidate, .. }: &Intent<'_>) {
        let source = match self.leader {
            Some(_) => ", the address on record",
            None => "",
        };
        let (election, candidate) = (printable(election), printable(candidate));
        eprint(format_args!(
            "tenure: sending \"{order}\" to {candidate} of {election} at {}{source}\n",
            self.at
        ));
    }

    async fn demand(&self, intent: &Intent<'_>) -> Result<(u16, Value), Unanswered> {
        let mut url = self.url(intent.order);
        if intent.order == Verb::TRANSFER {
            url.query_pairs_mut().append_pair("to", intent.to);
        }
        self.prove(reqwest::Method::POST, url, intent).await
    }

    /// Sends it with a proof that this operator has the token: never the token itself.
    pub(super) async fn prove(
        &self,
        method: reqwest::Method,
        url: Url,
        intent: &Intent<'_>,
    ) -> Result<(u16, Value), Unanswered> {
        let first = self.send(method.clone(), url.clone(), None).await;
        let (first, told) = first.map_err(|why| Unanswered { why, in_doubt: false })?;
        let challenges = first.headers().get_all(WWW_AUTHENTICATE);
        let challenges = challenges.iter().filter_map(|challenge| challenge.to_str().ok());
        let nonce = nonce_of(challenges).filter(|_| first.status() == StatusCode::UNAUTHORIZED);
        let Some(nonce) = nonce else { return Ok((first.status().as_u16(), told)) };
        let shown = authorization(nonce, &intent.prove(&self.token, nonce));
        let second = self.send(method, url, Some(shown)).await;
        let (second, told) = second.map_err(|why| Unanswered { why, in_doubt: true })?;
        Ok((second.status().as_u16(), told))
    }

    /// `term` is the one that it led before; none: it did not lead yet.
    async fn resigned(&self, who: &str, mut term: Option<Value>) -> Result<String, Stop> {
        let end = Instant::now() + LIMIT;
        let mut led = true;
        while Instant::now() < end {
            tokio::time::sleep(PAUSE).await;
            let Ok(seen) = self.look().await else { continue };
            led = seen["leading"] == true;
            let leads = &seen["leader"]["term"];
            if led && term.get_or_insert_with(|| leads.clone()) != leads {
                return Ok(format!("{who} resigned; nobody else took over, so it leads again."));
            }
            let leader = seen["leader"]["name"].as_str().filter(|_| !led);
            if let Some(leader) = leader {
                return Ok(format!("{who} resigned; {} leads now.", printable(leader)));
            }
        }
        Err(Stop::NotYet(match led {
            true => format!("{who} was ordered to resign, but still leads; its log says why"),
            false => format!("{who} resigned, but no other candidate is known to lead yet"),
        }))
    }

    async fn transferred(&self, who: &str, to: &str) -> Result<String, Stop> {
        let end = Instant::now() + LIMIT;
        let (mut began, name) = (false, printable(to));
        while Instant::now() < end {
            tokio::time::sleep(PAUSE).await;
            let Ok(seen) = self.look().await else { continue };
            let (leads, leader) = (seen["leading"] == true, seen["leader"]["name"].as_str());
            match leader.filter(|_| !leads) {
                Some(leader) if leader == to => {
                    return Ok(format!("{who} handed over to {name}, which leads now."));
                }
                Some(other) => {
                    let other = printable(other);
                    return Err(Stop::NotYet(format!(
                        "{who} lost its leadership meanwhile; {other} leads now"
                    )));
                }
                None => {}
            }
            let waits = seen["handing_over_to"] == to;
            // Why nothing came of an earlier order was forgotten when this one was taken.
            began |= seen["order_refused"].is_string();
            if began && leads && !waits {
                // The same reason is told once a minute.
                let why = seen["order_refused"].as_str().map_or_else(
                    || format!("the leadership was not handed over to {name}; its log says why"),
                    printable,
                );
                return Err(Stop::Refused(format!("{who} still leads: {why}")));
            }
            began |= waits;
        }
        Err(Stop::NotYet(format!(
            "{who} was ordered to hand over to {name}; its log shows the result"
        )))
    }

    pub(super) fn url(&self, path: &str) -> Url {
        endpoint(&self.at, path, self.election.as_deref())
    }

    pub(super) async fn look(&self) -> Result<Value, String> {
        let (answer, told) = self.send(reqwest::Method::GET, self.url("leader"), None).await?;
        let status = answer.status().as_u16();
        match told.get("candidate") {
            Some(_) if status == 200 => Ok(told),
            _ if told["elections"].is_array() => {
                let there = told["elections"].as_array().into_iter().flatten();
                let there: Vec<_> = there.filter_map(Value::as_str).map(printable).collect();
                let (why, advice) = match &self.election {
                    Some(named) => (format!("no candidate of {} is", shown(named)), "give"),
                    None => ("several elections are".to_owned(), "add"),
                };
                let there = there.join(", or ");
                Err(format!("{why} at {}; {advice} {there}", self.at))
            }
            _ if status == 421 => Err(format!(
                "the candidate at {} does not answer by that name; use its address, or give it the name \
                 with --listen-host",
                self.at
            )),
            _ => Err(format!("{} is not the listener of a candidate (HTTP {status})", self.at)),
        }
    }

    /// Head and body of the answer.
    async fn send(
        &self,
        method: reqwest::Method,
        url: Url,
        shown: Option<String>,
    ) -> Result<(http::Response<()>, Value), String> {
        let client = self.clients.get(&url)?;
        let mut request = client.request(method, url).timeout(PATIENCE);
        if let Some(shown) = shown {
            request = request.header(AUTHORIZATION, shown);
        }
        let unreached = |error: reqwest::Error| {
            let why = causes(&error.without_url());
            format!("the candidate at {} cannot be reached: {why}", self.at)
        };
        let response = request.send().await.map_err(unreached)?;
        let mut head = http::Response::new(());
        *head.status_mut() = response.status();
        head.headers_mut().clone_from(response.headers());
        match whole(response, LONGEST).await {
            Ok(body) => Ok((head, serde_json::from_slice(&body).unwrap_or_default())),
            Err(Unread::Failed(error)) => Err(unreached(error)),
            Err(Unread::TooLong) => Err(format!(
                "{} answers with more than 64 KiB, so it is not the listener of a candidate",
                self.at
            )),
        }
    }
}

/// Who leads instead, as far as that is known.
pub(super) fn elsewhere(leader: &Value) -> String {
    let Some(name) = leader["name"].as_str() else { return String::new() };
    let at = leader["address"].as_str().map(|at| format!(" at {}", printable(at)));
    format!("; {} leads{}", printable(name), at.unwrap_or_default())
}
