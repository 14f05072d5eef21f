//! The last wills that a runner left with its supervisor, and what becomes of them when it is dead.

use super::last_words::{Fate, LastWords};
use super::message::{Message, Of, Will};
use crate::log::{Log, Style, Whose};
use crate::output::eprint;
use crate::service_manager::ServiceManager;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::to_http;
use tenure::program::http::{Clients, send};
use tenure::program::supervisor::{Ended, now, read, signal_name};
use tenure::{Authorities, Class, Event};
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

/// All that the supervisor was told.
#[derive(Default)]
pub(super) struct Wills {
    /// The exit code that the runner told.
    pub code: Option<u8>,
    wills: BTreeMap<Of, Will>,
    log: Option<Style>,
    candidates: BTreeMap<usize, Whose>,
    /// Elections whose shares the runner was there for.
    split: BTreeSet<String>,
    /// The newest request to end adopted processes, until it is answered.
    pub end_orphans: Option<u64>,
}

impl Wills {
    pub(super) fn take(&mut self, line: &str, manager: Option<&ServiceManager>) {
        match read(line) {
            Some(Message::Log { format, output }) => {
                self.log = Some(Style { format, level: Level::INFO, output });
            }
            Some(Message::Candidate { of, whose: Some(whose) }) => {
                self.candidates.insert(of, whose);
            }
            Some(Message::Candidate { of, whose: None }) => {
                self.candidates.remove(&of);
                self.wills.remove(&Of::Candidate(of));
            }
            Some(Message::Exit(code)) => self.code = Some(code),
            Some(Message::Will { of, will }) => {
                if let Of::Sign(election) = &of {
                    self.split.insert(election.clone());
                }
                match will {
                    Some(will) => drop(self.wills.insert(of, will)),
                    None => drop(self.wills.remove(&of)),
                }
            }
            Some(Message::EndOrphans(number)) => self.end_orphans = Some(number),
            Some(Message::Notify(message)) => {
                if let Some(manager) = manager {
                    manager.tell(message);
                }
            }
            None => {}
        }
    }

    /// The runner has told something, so it listens to signals.
    pub(super) fn begun(&self) -> bool {
        self.log.is_some()
    }

    /// Until when one of the wills can be of use.
    pub(super) fn until(&self) -> Duration {
        self.wills.values().map(|will| will.until).max().unwrap_or_default()
    }

    /// The runner ended so, and its work is `gone` or not. Releases what can be released, until `hurry`
    /// completes, and tells of it.
    pub(super) async fn settle(self, ended: Ended, gone: bool, hurry: impl Future<Output = ()>) {
        let how = match ended {
            Ended::Exit(code) => format!("ended with exit code {code}"),
            Ended::Signal(number) => format!("was killed by {}", signal_name(number)),
        };
        let killed = matches!(ended, Ended::Signal(_));
        if self.wills.is_empty() && !killed {
            // It has said itself why it ended.
            return;
        }
        let subject = format!("the process that ran the election {how}");
        let candidates = self.candidates;
        let Some(style) = self.log.filter(|_| !candidates.is_empty()) else {
            eprint(format_args!("tenure: {subject}\n"));
            return;
        };
        let terms = self.wills.iter().map(|(of, will)| (of.clone(), will.term)).collect();
        let fates = match gone {
            true => send_all(self.wills, hurry).await,
            false => BTreeMap::new(),
        };
        let Ok((log, written)) = Log::start(style) else { return };
        let last_words = LastWords { subject, gone, terms, fates };
        let told = last_words.all(&candidates, &self.split);
        // All of them first: one line is as wide as another.
        let logs: Vec<_> = told.into_iter().map(|(whose, told)| (log.of(whose), told)).collect();
        for (log, detail) in logs {
            log.event(&Event::Problem { class: Class::Process, detail });
        }
        drop(log);
        written.wait();
    }
}

/// What became of each will when all were answered, or `hurry` completed.
async fn send_all(
    wills: BTreeMap<Of, Will>,
    hurry: impl Future<Output = ()>,
) -> BTreeMap<Of, Fate> {
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
                Ok(clients) => will.send(&clients, &places).await,
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

impl Will {
    /// Sends it, again and again until it is answered or of no use any more. A try takes one of the
    /// `places`, and a pause none: an account that does not answer leaves them to the others.
    async fn send(self, clients: &Arc<Clients>, places: &Semaphore) -> Fate {
        let Self { term, request, until, ca_file: _ } = self;
        let what = if term.is_some() { "release lease" } else { "delete blob" };
        let Ok(request) = to_http(&request) else {
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
            let left = until.saturating_sub(now());
            if left.is_zero() {
                return unanswered.map_or(Fate::Expired, Fate::Unanswered);
            }
            unanswered = match send(clients, request.clone(), TRY.min(left)).await {
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
}

/// Whom to trust beside those whom the platform trusts.
fn authorities(ca_file: Option<&OsString>) -> Result<Authorities, String> {
    let Some(file) = ca_file else { return Ok(Authorities::default()) };
    let read = fs::read(file).map_err(|error| error.to_string());
    let read = read.and_then(|pem| Authorities::from_pem(&pem).map_err(|e| e.to_string()));
    read.map_err(|why| format!("the file of --ca-file is no longer usable: {why}"))
}
