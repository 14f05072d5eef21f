//! The supervisor of the runner: the process that people start, see and signal. protocol.md §7.3.
//!
//! The runner is its child: the same program with the same arguments, environment and streams. The supervisor hands signals on
//! to it. It has no engine, and reads no setting and no credential. With each renewal the runner sends it the last
//! will of the leader: the release of the lease, signed already. When the runner has ended, the supervisor kills what is
//! left of its work, and sees the end of it. Then the program can send the wills.
//!
//! Nobody leads without a supervisor that was there once: where that is killed, so is the runner.

use super::connection::{line, pair, read, this_program};
use super::link::BELL;
use super::messages::{Candidate, Subject, ToSupervisor, Will};
use super::tree::{Ended, ProcessTree, adopt_orphans};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use tenure_clock::shared::now;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::select;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

/// The interval between looks for processes whose end the system does not report.
const LOOK: Duration = Duration::from_millis(10);

/// The longest wait for the end of work without a last will, and for a runner that does not listen to signals yet.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest time that messages stay in the socket, and the most bytes of them: far less than it holds.
const LATER: Duration = Duration::from_secs(20);
const ROOM: usize = 16 * 1024;

/// The most bytes that are read before anything else is done.
const MOST: usize = 256 * 1024;

/// The end of a runner, and the wills that it left.
pub struct RunnerEnd {
    /// The end of its process.
    pub ended: Ended,
    /// True if the end of all its work was seen.
    pub is_work_over: bool,
    /// The exit code that it told.
    pub code: Option<u8>,
    /// The text that it [began](super::Supervised::link) with; none if it ended before that.
    pub begun: Option<String>,
    /// The candidates that it still had, by number.
    pub candidates: BTreeMap<usize, Candidate>,
    /// The elections that it was there for as a member for shares.
    pub split: BTreeSet<String>,
    /// The wills that are not void.
    pub wills: BTreeMap<Subject, Will>,
}

/// Runs this program with these arguments again, as the runner, and supervises it. `words` begin with the name of the program
/// and a command; behind that the runner finds `option` with a word for
/// [`Supervised::connect`](super::Supervised::connect). `signals` are handed on to it, and `notify` gets what it has for the
/// service manager.
///
/// # Errors
///
/// The runner could not be started. There are none afterwards.
pub async fn supervise_runner(
    words: &[OsString],
    option: &str,
    mut signals: impl AsyncFnMut() -> i32,
    notify: Option<&dyn Fn(String)>,
) -> io::Result<RunnerEnd> {
    let mut deaths = signal(SignalKind::child())?;
    let mut bell = signal(SignalKind::from_raw(BELL.as_raw()))?;
    // Else nobody could tell whether its work is over.
    adopt_orphans()?;
    let (socket, theirs) = pair(true)?;
    // Neither this process nor a runner that reads nothing blocks on it.
    let answers = socket.try_clone()?;
    let mut messages = BufReader::new(UnixStream::from_std(socket)?).lines();
    // Last of all: after an error the caller runs the elections itself, and must be the only one that does.
    let mut tree = start(words, option, theirs)?;
    let mut told = Told::default();
    let (mut open, mut give_up) = (true, None);
    let mut held = Held::default();
    let mut pace = Pace { last: now(), next: Duration::ZERO };
    let is_work_over = loop {
        if tree.is_gone() {
            break true;
        }
        if told.begun.is_some() || !open || held.too_long(now()) {
            held.release().for_each(|number| hand_on(number, &tree));
        }
        if let Some(number) = told.end_orphans
            && tree.end_adopted()
        {
            told.end_orphans = None;
            let _ = (&answers).write(line(&number).as_bytes());
        }
        let ending = tree.ended().is_some();
        if ending && !open {
            let give_up = *give_up.get_or_insert(now() + PATIENCE);
            if now() >= told.until().max(give_up) {
                break false;
            }
        }
        let wait = if ending { Duration::ZERO } else { pace.next.saturating_sub(now()) };
        select! {
            biased;
            // The loop hands it on at once to a runner that listens. Another one would die of it.
            number = signals() => held.hold(number, now()),
            _ = bell.recv() => pace.next = Duration::ZERO,
            _ = deaths.recv() => {}
            // After those: thousands of elections always have something to tell.
            line = messages.next_line(), if open && wait.is_zero() => {
                let (mut line, mut bytes) = (line, 0);
                while let Ok(Some(text)) = &line {
                    bytes += text.len();
                    told.take(text, notify);
                    // Signals are heard too.
                    if bytes > MOST {
                        break;
                    }
                    line = match timeout(Duration::ZERO, messages.next_line()).await {
                        Ok(line) => line,
                        Err(_) => break,
                    };
                }
                open = matches!(line, Ok(Some(_)));
                // A service manager is told at once.
                if notify.is_none() {
                    pace.took(bytes, now());
                }
            }
            () = sleep(wait), if open && !wait.is_zero() => {}
            () = sleep(PATIENCE), if held.is_some() => {}
            () = sleep(LOOK), if ending || told.end_orphans.is_some() => {}
        }
    };
    // What it wrote last. Its end is closed, since it is dead.
    while let Ok(Ok(Some(line))) = timeout(PATIENCE, messages.next_line()).await {
        told.take(&line, notify);
    }
    let Told { code, begun, candidates, split, wills, .. } = told;
    let ended = tree.ended().unwrap_or(Ended::Exit(0));
    Ok(RunnerEnd { ended, is_work_over, code, begun, candidates, split, wills })
}

/// Starts the runner with its end of the socket. Afterwards nobody else has that end.
fn start(words: &[OsString], option: &str, theirs: Stdio) -> io::Result<ProcessTree> {
    let word = |place, default| words.get(place).map_or(OsStr::new(default), OsString::as_os_str);
    let mut runner = Command::new(this_program()?);
    runner.arg0(word(0, "tenure")).arg(word(1, "run"));
    runner.arg(format!("{option}{}", std::process::id())).args(words.iter().skip(2));
    ProcessTree::start(runner.stdin(theirs))
}

/// The messages of the runner so far.
#[derive(Default)]
struct Told {
    code: Option<u8>,
    begun: Option<String>,
    candidates: BTreeMap<usize, Candidate>,
    split: BTreeSet<String>,
    wills: BTreeMap<Subject, Will>,
    /// The newest request to end adopted processes, until it is answered.
    end_orphans: Option<u64>,
}

impl Told {
    fn take(&mut self, line: &str, notify: Option<&dyn Fn(String)>) {
        match read(line) {
            Some(ToSupervisor::Begin(begun)) => self.begun = Some(begun),
            Some(ToSupervisor::Candidate { number, candidate: Some(candidate) }) => {
                self.candidates.insert(number, candidate);
            }
            Some(ToSupervisor::Candidate { number, candidate: None }) => {
                self.candidates.remove(&number);
                self.wills.remove(&Subject::Lease(number));
            }
            Some(ToSupervisor::Will { subject, will }) => {
                if let Subject::Sign(election) = &subject {
                    self.split.insert(election.clone());
                }
                match will {
                    Some(will) => drop(self.wills.insert(subject, will)),
                    None => drop(self.wills.remove(&subject)),
                }
            }
            Some(ToSupervisor::EndOrphans(number)) => self.end_orphans = Some(number),
            Some(ToSupervisor::Notify(message)) => {
                if let Some(notify) = notify {
                    notify(message);
                }
            }
            Some(ToSupervisor::Exit(code)) => self.code = Some(code),
            None => {}
        }
    }

    /// Until when one of the wills can be of use.
    fn until(&self) -> Duration {
        self.wills.values().map(|will| will.until).max().unwrap_or_default()
    }
}

/// Hands a signal on to the runner. One that stands still is to die of what should kill it.
fn hand_on(number: i32, tree: &ProcessTree) {
    tree.signal(number);
    if [Signal::ABORT, Signal::QUIT].iter().any(|signal| signal.as_raw() == number) {
        tree.signal(Signal::CONT.as_raw());
    }
}

/// Signals for a runner that may not listen yet.
#[derive(Debug, Default)]
struct Held {
    /// In their order.
    numbers: Vec<i32>,
    /// The instant at which they are sent at the latest.
    until: Duration,
}

impl Held {
    fn hold(&mut self, number: i32, now: Duration) {
        if self.numbers.is_empty() {
            self.until = now + PATIENCE;
        }
        self.numbers.push(number);
    }

    fn is_some(&self) -> bool {
        !self.numbers.is_empty()
    }

    fn too_long(&self, now: Duration) -> bool {
        now >= self.until
    }

    fn release(&mut self) -> impl Iterator<Item = i32> {
        std::mem::take(&mut self.numbers).into_iter()
    }
}

/// When the socket is to be read again. A will is of use only when the runner has died, and what the socket holds then is read:
/// to wake up for each would cost more than to renew the lease.
#[derive(Debug, Default)]
struct Pace {
    last: Duration,
    next: Duration,
}

impl Pace {
    /// So many bytes were read at `now`.
    fn took(&mut self, bytes: usize, now: Duration) {
        let elapsed = now.saturating_sub(self.last);
        let filled = u32::try_from(ROOM / bytes.max(1)).unwrap_or(u32::MAX);
        *self = Self { last: now, next: now + elapsed.saturating_mul(filled).min(LATER) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_held_together_and_in_their_order() {
        let (mut held, s) = (Held::default(), Duration::from_secs);
        assert!(!held.is_some());
        held.hold(15, s(100));
        held.hold(2, s(103));
        assert!(held.is_some() && !held.too_long(s(104)));
        // The second one does not put the first one off.
        assert!(held.too_long(s(105)));
        assert_eq!(held.release().collect::<Vec<_>>(), [15, 2]);
        assert!(!held.is_some());
        held.hold(1, s(110));
        assert!(!held.too_long(s(111)));
    }

    #[test]
    fn messages_are_left_in_the_socket_while_there_is_room() {
        let (s, mut pace) = (Duration::from_secs, Pace::default());
        assert_eq!(pace.next, Duration::ZERO);
        // One leader.
        pace.took(500, s(100));
        assert_eq!(pace.next, s(120));
        pace.took(2_500, s(120));
        assert_eq!(pace.next, s(140));
        // Thousands.
        pace.took(8 * ROOM, s(140));
        assert_eq!(pace.next, s(140));
        pace.took(ROOM / 4, s(141));
        assert_eq!(pace.next, s(145));
    }

    #[test]
    fn a_candidate_that_is_gone_leaves_no_will() {
        use std::sync::Mutex;
        use tenure_core::Request;

        let notified = Mutex::new(Vec::new());
        let notify = |message| notified.lock().unwrap().push(message);
        let mut told = Told::default();
        let mut take = |message: &ToSupervisor| told.take(line(message).trim_end(), Some(&notify));
        let candidate = |number| ToSupervisor::Candidate {
            number,
            candidate: Some(Candidate { election: "jobs/a".into(), name: "ada".into() }),
        };
        let will = |subject| {
            let request = Request {
                method: "PUT".into(),
                url: "http://127.0.0.1/".into(),
                headers: Vec::new(),
                body: String::new(),
                timeout: Duration::ZERO,
            };
            let until = Duration::from_secs(5);
            let will = Some(Will { term: Some(7), request, until, ca_file: None });
            ToSupervisor::Will { subject, will }
        };
        take(&ToSupervisor::Begin("json".into()));
        for number in [0, 1] {
            take(&candidate(number));
            take(&will(Subject::Lease(number)));
        }
        take(&will(Subject::Sign("jobs/a".into())));
        take(&ToSupervisor::Candidate { number: 0, candidate: None });
        take(&ToSupervisor::Will { subject: Subject::Sign("jobs/a".into()), will: None });
        take(&ToSupervisor::Notify("READY=1".into()));
        take(&ToSupervisor::Exit(3));
        told.take("{", Some(&notify));
        assert_eq!(told.begun.as_deref(), Some("json"));
        assert_eq!(told.candidates.into_keys().collect::<Vec<_>>(), [1]);
        assert_eq!(told.wills.into_keys().collect::<Vec<_>>(), [Subject::Lease(1)]);
        assert!(told.split.contains("jobs/a") && told.code == Some(3));
        assert_eq!(*notified.lock().unwrap(), ["READY=1"]);
    }
}
