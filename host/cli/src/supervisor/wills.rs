//! Sends the last wills of a dead runner, and reports their outcomes. The report has a line for
//! each election, and one for all shares of an election.

use crate::output::log::{Log, LogContext, Style};
use crate::output::{eprint, ranges};
use reqwest::Url;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::Clients;
use tenure::{Event, ProblemKind, RootCertificates};
use tenure_shares::Share;
use tenure_supervisor::{LastWill, ProcessEnd, RunnerEnd, WillSubject, signal_name};
use tokio::select;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::Level;

/// Time limit for one try to send a will.
const TRY: Duration = Duration::from_secs(3);

/// First pause between two tries. Each pause is twice as long as the one before, up to
/// `MAX_PAUSE`.
const PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of wills that are sent at the same time.
const MAX_CONCURRENT: usize = 32;

/// Sends the wills of a dead runner until `deadline` completes, and logs the outcomes. Sends
/// nothing unless all processes of its work have exited.
pub(super) async fn send_and_report(end: RunnerEnd, deadline: impl Future<Output = ()>) {
    let RunnerEnd {
        ended, is_work_over, begin_message, candidates, split_elections, wills, ..
    } = end;
    let ending = match ended {
        ProcessEnd::Exit(code) => format!("ended with exit code {code}"),
        ProcessEnd::Signal(number) => format!("was killed by {}", signal_name(number)),
    };
    let killed = matches!(ended, ProcessEnd::Signal(_));
    if wills.is_empty() && !killed {
        // The runner has already reported why it ended.
        return;
    }
    let subject = format!("the process that ran the election {ending}");
    // The runner sends its log style to the supervisor with the begin message.
    let style = begin_message.and_then(|message| serde_json::from_str(&message).ok());
    let Some((format, output)) = style.filter(|_| !candidates.is_empty()) else {
        eprint(format_args!("tenure: {subject}\n"));
        return;
    };
    let with_context = |(number, candidate): (usize, tenure_supervisor::Candidate)| {
        (number, LogContext { election: candidate.election, candidate: candidate.name })
    };
    let candidates: BTreeMap<_, _> = candidates.into_iter().map(with_context).collect();
    let terms = wills.iter().map(|(key, will)| (key.clone(), will.term)).collect();
    let outcomes = if is_work_over { send_all(wills, deadline).await } else { BTreeMap::new() };
    let style = Style { format, level: Level::INFO, output };
    let Ok((log, written)) = Log::start(style) else { return };
    let report = WillReport { subject, is_work_over, terms, outcomes };
    let lines = report.lines(&candidates, &split_elections);
    // Creates all logs first, so that the lines have the same width.
    let logs: Vec<_> =
        lines.into_iter().map(|(context, text)| (log.for_candidate(context), text)).collect();
    for (log, detail) in logs {
        log.event(&Event::Problem { class: ProblemKind::Process, detail });
    }
    drop(log);
    written.wait();
}

/// Sends all wills, and returns their outcomes. If `deadline` completes first, returns the outcomes
/// that are known by then.
async fn send_all(
    wills: BTreeMap<WillSubject, LastWill>,
    deadline: impl Future<Output = ()>,
) -> BTreeMap<WillSubject, WillOutcome> {
    let (mut outcomes, mut sending) = (BTreeMap::new(), JoinSet::new());
    let places = Arc::new(Semaphore::new(MAX_CONCURRENT));
    // Shares clients, because there may be thousands of wills, and each client reads certificates
    // from files.
    let mut clients: BTreeMap<_, Result<_, String>> = BTreeMap::new();
    for (key, will) in wills {
        let entry = clients.entry(will.ca_file.clone());
        let client = entry.or_insert_with_key(|file| {
            authorities(file.as_ref()).map(|roots| Arc::new(Clients::with_env_proxies(roots)))
        });
        let (client, places) = (client.clone(), places.clone());
        sending.spawn(async move {
            let outcome = match client {
                Ok(client) => send_will(&will, &client, &places).await,
                Err(why) => WillOutcome::Unsent(why),
            };
            (key, outcome)
        });
    }
    let all = async {
        while let Some(sent) = sending.join_next().await {
            outcomes.extend(sent.ok());
        }
    };
    select! {
        () = all => {}
        () = deadline => {}
    }
    outcomes
}

/// Sends a will repeatedly until it is answered or has expired. Only a try occupies one of the
/// `places`, not a pause, so an unreachable account does not block the others.
async fn send_will(will: &LastWill, clients: &Arc<Clients>, places: &Semaphore) -> WillOutcome {
    let LastWill { term, request, .. } = will;
    let operation = if term.is_some() { "release lease" } else { "delete blob" };
    let Ok(url) = Url::parse(&request.url) else {
        return WillOutcome::Unsent("its request is invalid".to_owned());
    };
    let (origin, mut request) = (url.origin().ascii_serialization(), request.clone());
    let (mut pause, mut unanswered) = (PAUSE, None);
    loop {
        // The semaphore is never closed.
        let place = places.acquire().await;
        let remaining = will.remaining();
        if remaining.is_zero() {
            return unanswered.map_or(WillOutcome::Expired, WillOutcome::Unanswered);
        }
        request.timeout = TRY.min(remaining);
        unanswered = match clients.send(&request).await {
            Ok(answer) => match answer.status {
                200 | 202 => return WillOutcome::Done,
                404 if term.is_none() => return WillOutcome::Done,
                // The lease was already released, or another candidate holds it, or the member has
                // written a newer sign of life.
                404 | 409 | 412 => return WillOutcome::Superseded,
                status @ (400..=407 | 410..=428 | 430..=499) => {
                    return WillOutcome::Refused(status);
                }
                status => Some(format!("the service answered with status {status}")),
            },
            Err(failure) => Some(failure.to_problem(operation, &origin).detail),
        };
        drop(place);
        sleep(pause.min(remaining)).await;
        pause = MAX_PAUSE.min(2 * pause);
    }
}

/// Reads the certificate authorities to trust in addition to the platform's.
fn authorities(ca_file: Option<&OsString>) -> Result<RootCertificates, String> {
    let Some(file) = ca_file else { return Ok(RootCertificates::default()) };
    let read = fs::read(file).map_err(|error| error.to_string());
    let read = read.and_then(|pem| RootCertificates::from_pem(&pem).map_err(|e| e.to_string()));
    read.map_err(|why| format!("the file of --ca-file is no longer usable: {why}"))
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WillOutcome {
    /// The lease was released, or the member's sign of life was deleted.
    Done,
    /// The service reports another holder or none, or a newer sign of life of the member.
    Superseded,
    /// The service refused the request with this status.
    Refused(u16),
    /// No valid response arrived, for this reason.
    Unanswered(String),
    /// The will expired before it could be sent.
    Expired,
    /// The will was not sent for another reason.
    Unsent(String),
}

/// The end of a runner, and the outcomes of its wills.
struct WillReport {
    /// The process and its end, as a clause.
    subject: String,
    /// True if all processes of its work have exited.
    is_work_over: bool,
    /// The wills, each with the term if it releases a lease.
    terms: BTreeMap<WillSubject, Option<u64>>,
    /// The outcomes of the wills that were sent in time.
    outcomes: BTreeMap<WillSubject, WillOutcome>,
}

impl WillReport {
    /// Returns all lines, each with its context. `split` contains the coordinating elections of the
    /// runner's shares.
    fn lines<'a>(
        &self,
        candidates: &'a BTreeMap<usize, LogContext>,
        split: &BTreeSet<String>,
    ) -> Vec<(&'a LogContext, String)> {
        let share = |election: &str| {
            split.iter().find_map(|coordinating| {
                let suffix = election.strip_prefix(coordinating.as_str())?.strip_prefix('.')?;
                Some((coordinating.clone(), Share::from_suffix(suffix)?))
            })
        };
        let mut shares: BTreeMap<String, Vec<(Share, usize)>> = BTreeMap::new();
        let mut lines = Vec::new();
        for (number, context) in candidates {
            match share(&context.election) {
                Some((coordinating, share)) => {
                    shares.entry(coordinating).or_default().push((share, *number))
                }
                None => lines.push((*number, context)),
            }
        }
        let to_line = |(number, context): (usize, &'a LogContext)| {
            let text = match split.contains(&context.election) {
                true => {
                    let mut shares = shares.remove(&context.election).unwrap_or_default();
                    shares.sort_unstable();
                    self.describe_member(&context.election, number, &shares)
                }
                false => self.describe_election(number),
            };
            (context, format!("{}; {text}", self.subject))
        };
        lines.into_iter().map(to_line).collect()
    }

    /// Describes the will of a single candidate.
    fn describe_election(&self, number: usize) -> String {
        let key = WillSubject::Lease(number);
        let Some(Some(term)) = self.terms.get(&key) else {
            return "it left no lease to release".to_owned();
        };
        let lease = format!("its lease (term {term})");
        match self.outcomes.get(&key) {
            Some(outcome) => {
                format!(
                    "all its processes have exited, and {}",
                    outcome.describe_lease(&lease, *term)
                )
            }
            None if self.is_work_over => format!(
                "{lease} was not released before this process had to end; the other candidates \
                 wait until the lease expires"
            ),
            None => format!(
                "some of its work could not be stopped, so {lease} is not released; the other \
                 candidates wait until the lease expires"
            ),
        }
    }

    /// Describes the wills of a member. `coordinator` is the number of its candidate in the
    /// coordinating election.
    fn describe_member(
        &self,
        coordinating: &str,
        coordinator: usize,
        shares: &[(Share, usize)],
    ) -> String {
        let sign = WillSubject::Sign(coordinating.to_owned());
        let mut clauses = Vec::new();
        if !self.is_work_over {
            clauses.push("some of its work could not be stopped".to_owned());
        } else if !self.outcomes.is_empty() {
            clauses.push("all its processes have exited".to_owned());
        }
        let share_leases = shares.iter().map(|(share, number)| (Some(share.index), *number));
        let mut leases: Vec<(Option<&WillOutcome>, Vec<Option<u32>>)> = Vec::new();
        for (share, number) in share_leases.chain([(None, coordinator)]) {
            let key = WillSubject::Lease(number);
            if self.terms.contains_key(&key) {
                let outcome = self.outcomes.get(&key);
                match leases.iter_mut().find(|(known, _)| *known == outcome) {
                    Some((_, group)) => group.push(share),
                    None => leases.push((outcome, vec![share])),
                }
            }
        }
        if leases.is_empty() {
            clauses.push("it left no share to release".to_owned());
        }
        clauses.extend(leases.iter().map(|(outcome, group)| self.describe_leases(*outcome, group)));
        if self.terms.contains_key(&sign) {
            clauses.push(self.describe_sign(self.outcomes.get(&sign)));
        }
        clauses.join("; ")
    }

    /// Describes the leases of these shares. None stands for the coordinating election.
    fn describe_leases(&self, outcome: Option<&WillOutcome>, group: &[Option<u32>]) -> String {
        let shares = group.iter().copied().flatten().collect::<Vec<_>>();
        let lease_owner = match shares.as_slice() {
            [] => "the coordinating election".to_owned(),
            [share] => format!("share {share}"),
            shares => format!("shares {}", ranges(shares)),
        };
        let coordination_suffix = if group.len() > shares.len() && !shares.is_empty() {
            " and the coordinating election"
        } else {
            ""
        };
        let (leases, verb) = if group.len() == 1 { ("lease", "was") } else { ("leases", "were") };
        let leases = format!("the {leases} of {lease_owner}{coordination_suffix}");
        let not_released = format!("{leases} {verb} not released");
        match outcome {
            Some(WillOutcome::Done) => format!("{leases} {verb} released"),
            Some(WillOutcome::Superseded) => format!("{leases} {verb} no longer held"),
            Some(outcome) => format!("{not_released}{}", outcome.failure_reason()),
            None => format!("{not_released}{}", self.unsent_reason()),
        }
    }

    fn describe_sign(&self, outcome: Option<&WillOutcome>) -> String {
        let why = match outcome {
            Some(WillOutcome::Done) => {
                return "its sign of life was deleted, so the other members take over its shares \
                        at once"
                    .to_owned();
            }
            Some(WillOutcome::Superseded) => {
                ": its last write was never answered, or another process has the same name"
                    .to_owned()
            }
            Some(outcome) => outcome.failure_reason(),
            None => self.unsent_reason().to_owned(),
        };
        format!(
            "its sign of life was not deleted{why}; the other members take over its shares once it \
             has been silent for too long"
        )
    }

    /// Explains why no will was sent.
    fn unsent_reason(&self) -> &'static str {
        if self.is_work_over { " before this process had to end" } else { "" }
    }
}

impl WillOutcome {
    /// Describes the outcome for the lease of this term.
    fn describe_lease(&self, lease: &str, term: u64) -> String {
        match self {
            Self::Done => format!("{lease} was released, so another candidate can lead"),
            Self::Superseded => format!("{lease} was no longer held"),
            Self::Refused(status) => format!(
                "the service refused to release {lease} with status {status}; the other \
                 candidates wait until the lease expires"
            ),
            Self::Unanswered(why) => {
                format!("{lease} could not be released before it expired: {why}")
            }
            Self::Expired => format!(
                "its last will (term {term}) was not sent: the lease has expired, or the authorisation of \
                 the release has"
            ),
            Self::Unsent(why) => format!(
                "its last will (term {term}) was not sent, since {why}; the other candidates wait \
                 until the lease expires"
            ),
        }
    }

    /// Explains why a lease was not released, or a sign of life not deleted.
    fn failure_reason(&self) -> String {
        match self {
            Self::Done | Self::Superseded => String::new(),
            Self::Refused(status) => format!(": the service refused with status {status}"),
            Self::Unanswered(why) => format!(" in time: {why}"),
            Self::Expired => {
                ": the time for it had passed, or the authorisation had expired".to_owned()
            }
            Self::Unsent(why) => format!(", since {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "jobs/orders";

    /// A runner with a coordinating candidate, candidates for shares 0 to 3 and 9 of ten, and one
    /// for another election.
    struct Scene {
        candidates: BTreeMap<usize, LogContext>,
        report: WillReport,
    }

    fn scene(outcomes: &[(WillSubject, WillOutcome)], unsent: &[WillSubject]) -> Scene {
        let suffixes = ["", ".share.1.0-of-10", ".share.1.1-of-10", ".share.1.2-of-10"];
        let member_suffixes = suffixes.into_iter().chain([".share.1.3-of-10", ".share.1.9-of-10"]);
        let elections =
            member_suffixes.map(|suffix| format!("{ALL}{suffix}")).chain(["jobs/else".into()]);
        let context = |election| LogContext { election, candidate: "ada".to_owned() };
        let term =
            |key: &WillSubject| (key.clone(), matches!(key, WillSubject::Lease(_)).then_some(7));
        let terms = outcomes.iter().map(|(key, _)| key).chain(unsent).map(term).collect();
        let outcomes = outcomes.iter().cloned().collect();
        let subject = "the process was killed".to_owned();
        Scene {
            candidates: elections.map(context).enumerate().collect(),
            report: WillReport { subject, is_work_over: true, terms, outcomes },
        }
    }

    impl Scene {
        fn lines(&self) -> Vec<(&str, String)> {
            let split = BTreeSet::from([ALL.to_owned()]);
            let all = self.report.lines(&self.candidates, &split);
            let strip_subject = |text: String| text.replace("the process was killed; ", "");
            all.into_iter()
                .map(|(context, text)| (context.election.as_str(), strip_subject(text)))
                .collect()
        }
    }

    fn sign() -> WillSubject {
        WillSubject::Sign(ALL.to_owned())
    }

    const LEASE: fn(usize) -> WillSubject = WillSubject::Lease;

    #[test]
    fn all_shares_of_an_election_have_one_line() {
        let done = |key| (key, WillOutcome::Done);
        let scene =
            scene(&[sign(), LEASE(1), LEASE(2), LEASE(3), LEASE(5), LEASE(6)].map(done), &[]);
        let expected = "all its processes have exited; the leases of shares 0–2, 9 were released; its sign of \
                        life was deleted, so the other members take over its shares at once";
        let other = "all its processes have exited, and its lease (term 7) was released, so another candidate \
                     can lead";
        assert_eq!(scene.lines(), [(ALL, expected.into()), ("jobs/else", other.into())]);
    }

    #[test]
    fn failures_are_separate_from_successes() {
        let outcomes = [
            (LEASE(0), WillOutcome::Done),
            (LEASE(1), WillOutcome::Refused(403)),
            (LEASE(2), WillOutcome::Refused(403)),
            (LEASE(4), WillOutcome::Done),
            (sign(), WillOutcome::Superseded),
        ];
        let scene = scene(&outcomes, &[]);
        let expected = "all its processes have exited; the leases of shares 0–1 were not released: the service \
                        refused with status 403; the leases of share 3 and the coordinating election were released; its sign of \
                        life was not deleted: its last write was never answered, or another process has the same \
                        name; the other members take over its shares once it has been silent for too long";
        let lines = scene.lines();
        assert_eq!(lines[0], (ALL, expected.into()));
        assert_eq!(lines[1], ("jobs/else", "it left no lease to release".into()));
    }

    #[test]
    fn withdrawn_sign_is_not_reported() {
        assert_eq!(scene(&[], &[]).lines()[0], (ALL, "it left no share to release".into()));
    }

    #[test]
    fn reason_for_unsent_wills_is_reported() {
        let mut scene = scene(&[], &[LEASE(0), LEASE(5), sign()]);
        let suffix =
            "; the other members take over its shares once it has been silent for too long";
        let hurried = "before this process had to end";
        let expected = format!(
            "the leases of share 9 and the coordinating election were not released {hurried}; its sign of life was not deleted \
             {hurried}{suffix}"
        );
        assert_eq!(scene.lines()[0], (ALL, expected));
        scene.report.is_work_over = false;
        let expected = format!(
            "some of its work could not be stopped; the leases of share 9 and the coordinating election were not released; its sign \
             of life was not deleted{suffix}"
        );
        assert_eq!(scene.lines()[0], (ALL, expected));
    }
}
