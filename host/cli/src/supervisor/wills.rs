//! The last wills that a runner left with its supervisor, and what becomes of them when it is dead.

use super::last_words::{Fate, LastWords};
use crate::log::{Log, Style, Whose};
use crate::output::eprint;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::{Clients, to_http};
use tenure::{Authorities, Class, Event};
use tenure_supervisor::{Ended, RunnerEnd, Subject, Will, signal_name};
use tokio::select;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::Level;

/// The longest that one try may take.
const TRY: Duration = Duration::from_secs(3);

/// Between two tries, doubling to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// So many requests of wills are under way at a time.
const AT_A_TIME: usize = 32;

/// Sends the wills of a runner that ended so, until `hurry` completes, and tells of it. Nothing is sent unless the end of all
/// its work was seen.
pub(super) async fn settle(end: RunnerEnd, hurry: impl Future<Output = ()>) {
    let RunnerEnd { ended, is_work_over, begun, candidates, split, wills, .. } = end;
    let how = match ended {
        Ended::Exit(code) => format!("ended with exit code {code}"),
        Ended::Signal(number) => format!("was killed by {}", signal_name(number)),
    };
    let killed = matches!(ended, Ended::Signal(_));
    if wills.is_empty() && !killed {
        // It has said itself why it ended.
        return;
    }
    let subject = format!("the process that ran the election {how}");
    let style = begun.and_then(|begun| serde_json::from_str(&begun).ok());
    let Some((format, output)) = style.filter(|_| !candidates.is_empty()) else {
        eprint(format_args!("tenure: {subject}\n"));
        return;
    };
    let whose = |(number, candidate): (usize, tenure_supervisor::Candidate)| {
        (number, Whose { election: candidate.election, candidate: candidate.name })
    };
    let candidates: BTreeMap<_, _> = candidates.into_iter().map(whose).collect();
    let terms = wills.iter().map(|(of, will)| (of.clone(), will.term)).collect();
    let fates = if is_work_over { send_all(wills, hurry).await } else { BTreeMap::new() };
    let style = Style { format, level: Level::INFO, output };
    let Ok((log, written)) = Log::start(style) else { return };
    let last_words = LastWords { subject, gone: is_work_over, terms, fates };
    let told = last_words.all(&candidates, &split);
    // All of them first: one line is as wide as another.
    let logs: Vec<_> = told.into_iter().map(|(whose, told)| (log.of(whose), told)).collect();
    for (log, detail) in logs {
        log.event(&Event::Problem { class: Class::Process, detail });
    }
    drop(log);
    written.wait();
}

/// What became of each will when all were answered, or `hurry` completed.
async fn send_all(
    wills: BTreeMap<Subject, Will>,
    hurry: impl Future<Output = ()>,
) -> BTreeMap<Subject, Fate> {
    let (mut fates, mut sending) = (BTreeMap::new(), JoinSet::new());
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    // They may be thousands, and whom the platform trusts is read from files.
    let mut clients: BTreeMap<_, Result<_, String>> = BTreeMap::new();
    for (of, will) in wills {
        let known = clients.entry(will.ca_file.clone());
        let clients = known.or_insert_with_key(|file| {
            authorities(file.as_ref()).map(|known| Arc::new(Clients::for_component(known)))
        });
        let (clients, places) = (clients.clone(), places.clone());
        sending.spawn(async move {
            let fate = match clients {
                Ok(clients) => send_will(&will, &clients, &places).await,
                Err(why) => Fate::Unsent(why),
            };
            (of, fate)
        });
    }
    let all = async {
        while let Some(sent) = sending.join_next().await {
            fates.extend(sent.ok());
        }
    };
    select! {
        () = all => {}
        () = hurry => {}
    }
    fates
}

/// Sends a will, again and again until it is answered or of no use any more. A try takes one of the `places`, and a pause
/// none: an account that does not answer leaves them to the others.
async fn send_will(will: &Will, clients: &Arc<Clients>, places: &Semaphore) -> Fate {
    let Will { term, request, .. } = will;
    let what = if term.is_some() { "release lease" } else { "delete blob" };
    let Ok(request) = to_http(request) else {
        return Fate::Unsent("it is no request".to_owned());
    };
    let origin = match (request.uri().scheme(), request.uri().authority()) {
        (Some(scheme), Some(authority)) => format!("{scheme}://{authority}"),
        _ => String::new(),
    };
    let (mut pause, mut unanswered) = (PAUSE, None);
    loop {
        // Never closed.
        let place = places.acquire().await;
        let left = will.left();
        if left.is_zero() {
            return unanswered.map_or(Fate::Expired, Fate::Unanswered);
        }
        unanswered = match clients.send(request.clone(), TRY.min(left)).await {
            Ok(answer) => match answer.status().as_u16() {
                200 | 202 => return Fate::Done,
                404 if term.is_none() => return Fate::Done,
                // It was released before, or has run out and is another's; or the sign is a newer one.
                404 | 409 | 412 => return Fate::NotThat,
                status @ (400..=407 | 410..=428 | 430..=499) => return Fate::Refused(status),
                status => Some(format!("the service answered with status {status}")),
            },
            Err(failure) => Some(failure.problem(what, &origin).detail),
        };
        drop(place);
        sleep(pause.min(left)).await;
        pause = LONGEST_PAUSE.min(2 * pause);
    }
}

/// Whom to trust beside those whom the platform trusts.
fn authorities(ca_file: Option<&OsString>) -> Result<Authorities, String> {
    let Some(file) = ca_file else { return Ok(Authorities::default()) };
    let read = fs::read(file).map_err(|error| error.to_string());
    let read = read.and_then(|pem| Authorities::from_pem(&pem).map_err(|e| e.to_string()));
    read.map_err(|why| format!("the file of --ca-file is no longer usable: {why}"))
}
