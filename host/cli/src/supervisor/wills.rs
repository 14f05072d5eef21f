//! Sends the last wills of a dead runner.

use super::will_report::{WillOutcome, WillReport};
use crate::output::eprint;
use crate::output::log::{Log, LogContext, Style};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::{Clients, to_http};
use tenure::{Event, ProblemKind, RootCertificates};
use tenure_supervisor::{LastWill, ProcessEnd, RunnerEnd, WillSubject, signal_name};
use tokio::select;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::Level;

/// Time limit for one try.
const TRY: Duration = Duration::from_secs(3);

/// Pause between two tries. It doubles up to the maximum.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of wills that are sent at the same time.
const MAX_CONCURRENT: usize = 32;

/// Sends the wills of a dead runner until `hurry` completes, and logs the outcomes. Sends nothing
/// unless all processes of its work have exited.
pub(super) async fn send_and_report(end: RunnerEnd, hurry: impl Future<Output = ()>) {
    let RunnerEnd {
        ended,
        is_work_over,
        begin_message: begun,
        candidates,
        split_elections: split,
        wills,
        ..
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
    let style = begun.and_then(|begun| serde_json::from_str(&begun).ok());
    let Some((format, output)) = style.filter(|_| !candidates.is_empty()) else {
        eprint(format_args!("tenure: {subject}\n"));
        return;
    };
    let with_context = |(number, candidate): (usize, tenure_supervisor::Candidate)| {
        (number, LogContext { election: candidate.election, candidate: candidate.name })
    };
    let candidates: BTreeMap<_, _> = candidates.into_iter().map(with_context).collect();
    let terms = wills.iter().map(|(key, will)| (key.clone(), will.term)).collect();
    let outcomes = if is_work_over { send_all(wills, hurry).await } else { BTreeMap::new() };
    let style = Style { format, level: Level::INFO, output };
    let Ok((log, written)) = Log::start(style) else { return };
    let report = WillReport { subject, is_work_over, terms, outcomes };
    let lines = report.lines(&candidates, &split);
    // Creates all logs first, so that the lines have the same width.
    let logs: Vec<_> =
        lines.into_iter().map(|(context, text)| (log.for_candidate(context), text)).collect();
    for (log, detail) in logs {
        log.event(&Event::Problem { class: ProblemKind::Process, detail });
    }
    drop(log);
    written.wait();
}

/// Returns the outcomes when all wills were answered, or `hurry` completed.
async fn send_all(
    wills: BTreeMap<WillSubject, LastWill>,
    hurry: impl Future<Output = ()>,
) -> BTreeMap<WillSubject, WillOutcome> {
    let (mut outcomes, mut sending) = (BTreeMap::new(), JoinSet::new());
    let places = Arc::new(Semaphore::new(MAX_CONCURRENT));
    // Shares clients, because there may be thousands of wills, and each client reads certificates
    // from files.
    let mut clients: BTreeMap<_, Result<_, String>> = BTreeMap::new();
    for (key, will) in wills {
        let known = clients.entry(will.ca_file.clone());
        let clients = known.or_insert_with_key(|file| {
            authorities(file.as_ref()).map(|known| Arc::new(Clients::with_env_proxies(known)))
        });
        let (clients, places) = (clients.clone(), places.clone());
        sending.spawn(async move {
            let outcome = match clients {
                Ok(clients) => send_will(&will, &clients, &places).await,
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
        () = hurry => {}
    }
    outcomes
}

/// Sends a will repeatedly until it is answered or has expired. Only a try occupies one of the
/// `places`, not a pause, so an unreachable account does not block the others.
async fn send_will(will: &LastWill, clients: &Arc<Clients>, places: &Semaphore) -> WillOutcome {
    let LastWill { term, request, .. } = will;
    let operation = if term.is_some() { "release lease" } else { "delete blob" };
    let Ok(request) = to_http(request) else {
        return WillOutcome::Unsent("its request is invalid".to_owned());
    };
    let origin = match (request.uri().scheme(), request.uri().authority()) {
        (Some(scheme), Some(authority)) => format!("{scheme}://{authority}"),
        _ => String::new(),
    };
    let (mut pause, mut unanswered) = (PAUSE, None);
    loop {
        // The semaphore is never closed.
        let place = places.acquire().await;
        let remaining = will.remaining();
        if remaining.is_zero() {
            return unanswered.map_or(WillOutcome::Expired, WillOutcome::Unanswered);
        }
        unanswered = match clients.send(request.clone(), TRY.min(remaining)).await {
            Ok(answer) => match answer.status().as_u16() {
                200 | 202 => return WillOutcome::Done,
                404 if term.is_none() => return WillOutcome::Done,
                // The lease was released before, or it expired and another candidate holds it. Or
                // the member's blob is a newer one.
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
        pause = LONGEST_PAUSE.min(2 * pause);
    }
}

/// Reads the authorities to trust in addition to the platform's.
fn authorities(ca_file: Option<&OsString>) -> Result<RootCertificates, String> {
    let Some(file) = ca_file else { return Ok(RootCertificates::default()) };
    let read = fs::read(file).map_err(|error| error.to_string());
    let read = read.and_then(|pem| RootCertificates::from_pem(&pem).map_err(|e| e.to_string()));
    read.map_err(|why| format!("the file of --ca-file is no longer usable: {why}"))
}
