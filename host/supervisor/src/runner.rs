//! Supervisor of the runner: the process that operators start, see and signal. protocol.md §7.3.
//!
//! The runner is its child, with the same program, arguments, environment and streams. The
//! supervisor forwards signals to it. It contains no engine, and reads no settings and no
//! credential.
//!
//! With each renewal the runner sends the last will of the leader: the release of the lease,
//! already signed. When the runner has ended, the supervisor kills the remaining work and waits for
//! its end. The program can then send the wills.
//!
//! A leader that started with a supervisor never runs without it: if the supervisor is killed, so
//! is the runner.

use super::connection::{
    Candidate, LastWill, ToSupervisor, WillSubject, from_line, pair, this_program, to_line,
};
use super::link::WAKE_SIGNAL;
use super::tree::{ProcessEnd, ProcessTree, adopt_orphans};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use tenure_clock::shared::now;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::select;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

/// Interval between checks for processes whose end the system does not report.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Longest wait for the end of work without a last will, and for a runner that does not handle
/// signals yet.
const WAIT_LIMIT: Duration = Duration::from_secs(5);

/// Longest time for which messages stay in the socket.
const MAX_READ_PAUSE: Duration = Duration::from_secs(20);
/// Maximum number of bytes that stay in the socket, which has room for far more.
const SOCKET_ROOM: usize = 16 * 1024;

/// Maximum bytes that are read before other events are handled.
const MAX_BATCH: usize = 256 * 1024;

/// End of a runner, and its last wills.
pub struct RunnerEnd {
    /// End of the runner's process.
    pub ended: ProcessEnd,
    /// True if the end of all its work was observed.
    pub is_work_over: bool,
    /// Exit code that the runner sent. `None` if it sent none.
    pub code: Option<u8>,
    /// Text of the runner's first [message](super::Supervised::link). `None` if the runner ended
    /// before that message.
    pub begin_message: Option<String>,
    /// Candidates that had not left, by number.
    pub candidates: BTreeMap<usize, Candidate>,
    /// Coordinating elections in which the runner was a member for shares.
    pub split_elections: BTreeSet<String>,
    /// Wills that the runner did not revoke.
    pub wills: BTreeMap<WillSubject, LastWill>,
}

/// Runs this program again with these arguments, as the runner, and supervises it.
///
/// `args` begin with the name of the program and a command. After these two, the runner gets the
/// argument `option` with the value for [`Supervised::connect`](super::Supervised::connect). The
/// supervisor forwards `signals` to the runner, and passes its messages for the service manager to
/// `notify`.
///
/// # Errors
///
/// Fails if the runner could not be started. There are no later errors.
pub async fn supervise_runner(
    args: &[OsString],
    option: &str,
    mut signals: impl AsyncFnMut() -> i32,
    notify: Option<&dyn Fn(String)>,
) -> io::Result<RunnerEnd> {
    let mut child_exits = signal(SignalKind::child())?;
    let mut wakes = signal(SignalKind::from_raw(WAKE_SIGNAL.as_raw()))?;
    // Without adoption, the end of the runner's work could not be observed.
    adopt_orphans()?;
    let (socket, theirs) = pair(true)?;
    // The socket is non-blocking, so an answer never waits for a runner that does not read.
    let answers = socket.try_clone()?;
    let mut messages = BufReader::new(UnixStream::from_std(socket)?).lines();
    // The start comes last. After an error the caller runs the elections itself, and must be the
    // only process that does.
    let mut tree = start(args, option, theirs)?;
    let mut state = RunnerState::default();
    let (mut is_open, mut give_up_at) = (true, None);
    let mut held_signals = HeldSignals::default();
    let mut pacing = ReadPacing { last_read_at: now(), next_read_at: Duration::ZERO };
    let is_work_over = loop {
        if tree.is_gone() {
            break true;
        }
        if state.begin_message.is_some() || !is_open || held_signals.is_expired(now()) {
            held_signals.release().for_each(|number| forward_signal(number, &tree));
        }
        if let Some(number) = state.end_orphans
            && tree.kill_adopted()
        {
            state.end_orphans = None;
            let _ = (&answers).write(to_line(&number).as_bytes());
        }
        let is_ending = tree.ended().is_some();
        if is_ending && !is_open {
            let deadline = *give_up_at.get_or_insert(now() + WAIT_LIMIT);
            if now() >= state.newest_will_until().max(deadline) {
                break false;
            }
        }
        let wait =
            if is_ending { Duration::ZERO } else { pacing.next_read_at.saturating_sub(now()) };
        select! {
            biased;
            // The loop forwards the signal at once if the runner handles signals. A runner that
            // does not handle them yet would die from it.
            number = signals() => held_signals.hold(number, now()),
            _ = wakes.recv() => pacing.next_read_at = Duration::ZERO,
            _ = child_exits.recv() => {}
            // Messages come after signals and exits, because thousands of elections always have
            // some.
            line = messages.next_line(), if is_open && wait.is_zero() => {
                let batch = state.apply_batch(line, &mut messages, notify).await;
                is_open = batch.is_open;
                // Messages for a service manager must not wait.
                if notify.is_none() {
                    pacing.on_read(batch.bytes, now());
                }
            }
            () = sleep(wait), if is_open && !wait.is_zero() => {}
            () = sleep(WAIT_LIMIT), if held_signals.is_some() => {}
            () = sleep(POLL_INTERVAL), if is_ending || state.end_orphans.is_some() => {}
        }
    };
    // Reads the last messages. The runner is dead, so its end of the socket is closed.
    while let Ok(Ok(Some(line))) = timeout(WAIT_LIMIT, messages.next_line()).await {
        state.apply(&line, notify);
    }
    let ended = tree.ended().unwrap_or(ProcessEnd::Exit(0));
    Ok(state.into_end(ended, is_work_over))
}

/// Starts the runner with its end of the socket. This process then no longer holds that end.
fn start(args: &[OsString], option: &str, theirs: Stdio) -> io::Result<ProcessTree> {
    let arg_or = |index, default| args.get(index).map_or(OsStr::new(default), OsString::as_os_str);
    let mut runner = Command::new(this_program()?);
    runner.arg0(arg_or(0, "tenure")).arg(arg_or(1, "run"));
    runner.arg(format!("{option}{}", std::process::id())).args(args.iter().skip(2));
    ProcessTree::start(runner.stdin(theirs))
}

/// State of the runner according to its messages.
#[derive(Default)]
struct RunnerState {
    code: Option<u8>,
    begin_message: Option<String>,
    candidates: BTreeMap<usize, Candidate>,
    split_elections: BTreeSet<String>,
    wills: BTreeMap<WillSubject, LastWill>,
    /// Newest unanswered request to end adopted processes.
    end_orphans: Option<u64>,
}

impl RunnerState {
    fn apply(&mut self, line: &str, notify: Option<&dyn Fn(String)>) {
        match from_line(line) {
            Some(ToSupervisor::Begin(begun)) => self.begin_message = Some(begun),
            Some(ToSupervisor::Candidate { number, candidate: Some(candidate) }) => {
                self.candidates.insert(number, candidate);
            }
            Some(ToSupervisor::Candidate { number, candidate: None }) => {
                self.candidates.remove(&number);
                self.wills.remove(&WillSubject::Lease(number));
            }
            Some(ToSupervisor::Will { subject, will }) => {
                if let WillSubject::Sign(election) = &subject {
                    self.split_elections.insert(election.clone());
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

    /// Applies `line` and the messages after it that have already arrived.
    async fn apply_batch(
        &mut self,
        mut line: io::Result<Option<String>>,
        messages: &mut Lines<BufReader<UnixStream>>,
        notify: Option<&dyn Fn(String)>,
    ) -> Batch {
        let mut bytes = 0;
        while let Ok(Some(text)) = &line {
            bytes += text.len();
            self.apply(text, notify);
            // The caller's loop must handle signals in between.
            if bytes > MAX_BATCH {
                break;
            }
            line = match timeout(Duration::ZERO, messages.next_line()).await {
                Ok(line) => line,
                Err(_) => break,
            };
        }
        Batch { bytes, is_open: matches!(line, Ok(Some(_))) }
    }

    /// Returns the latest instant until which any of the wills is useful.
    fn newest_will_until(&self) -> Duration {
        self.wills.values().map(|will| will.until).max().unwrap_or_default()
    }

    fn into_end(self, ended: ProcessEnd, is_work_over: bool) -> RunnerEnd {
        let Self { code, begin_message, candidates, split_elections, wills, .. } = self;
        RunnerEnd { ended, is_work_over, code, begin_message, candidates, split_elections, wills }
    }
}

/// Messages that were read together.
struct Batch {
    bytes: usize,
    /// False if the connection has ended.
    is_open: bool,
}

/// Forwards a signal to the runner. A stopped runner is resumed if the signal should kill it.
fn forward_signal(number: i32, tree: &ProcessTree) {
    tree.signal(number);
    if [Signal::ABORT, Signal::QUIT].iter().any(|signal| signal.as_raw() == number) {
        tree.signal(Signal::CONT.as_raw());
    }
}

/// Signals for a runner that may not handle them yet.
#[derive(Debug, Default)]
struct HeldSignals {
    /// Numbers of the signals, in order.
    numbers: Vec<i32>,
    /// Instant at which they are sent at the latest.
    held_until: Duration,
}

impl HeldSignals {
    fn hold(&mut self, number: i32, now: Duration) {
        if self.numbers.is_empty() {
            self.held_until = now + WAIT_LIMIT;
        }
        self.numbers.push(number);
    }

    fn is_some(&self) -> bool {
        !self.numbers.is_empty()
    }

    fn is_expired(&self, now: Duration) -> bool {
        now >= self.held_until
    }

    fn release(&mut self) -> impl Iterator<Item = i32> {
        std::mem::take(&mut self.numbers).into_iter()
    }
}

/// Pacing of reads from the socket.
///
/// A will is needed only when the runner has died, and the remaining messages are then read from
/// the socket. Waking up for each message would cost more than renewing the lease.
#[derive(Debug, Default)]
struct ReadPacing {
    last_read_at: Duration,
    next_read_at: Duration,
}

impl ReadPacing {
    /// Records that `bytes` were read at `now`. The next read is due before [`SOCKET_ROOM`] is full
    /// at that rate.
    fn on_read(&mut self, bytes: usize, now: Duration) {
        let elapsed = now.saturating_sub(self.last_read_at);
        let reads_per_room = u32::try_from(SOCKET_ROOM / bytes.max(1)).unwrap_or(u32::MAX);
        *self = Self {
            last_read_at: now,
            next_read_at: now + elapsed.saturating_mul(reads_per_room).min(MAX_READ_PAUSE),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_signals_keep_their_order() {
        let (mut signals, s) = (HeldSignals::default(), Duration::from_secs);
        assert!(!signals.is_some());
        signals.hold(15, s(100));
        signals.hold(2, s(103));
        assert!(signals.is_some() && !signals.is_expired(s(104)));
        // A second signal does not delay the first one.
        assert!(signals.is_expired(s(105)));
        assert_eq!(signals.release().collect::<Vec<_>>(), [15, 2]);
        assert!(!signals.is_some());
        signals.hold(1, s(110));
        assert!(!signals.is_expired(s(111)));
    }

    #[test]
    fn reads_pause_while_the_socket_has_room() {
        let (s, mut pacing) = (Duration::from_secs, ReadPacing::default());
        assert_eq!(pacing.next_read_at, Duration::ZERO);
        // One leader.
        pacing.on_read(500, s(100));
        assert_eq!(pacing.next_read_at, s(120));
        pacing.on_read(2_500, s(120));
        assert_eq!(pacing.next_read_at, s(140));
        // Thousands of leaders.
        pacing.on_read(8 * SOCKET_ROOM, s(140));
        assert_eq!(pacing.next_read_at, s(140));
        pacing.on_read(SOCKET_ROOM / 4, s(141));
        assert_eq!(pacing.next_read_at, s(145));
    }

    #[test]
    fn a_removed_candidate_leaves_no_will() {
        use std::sync::Mutex;
        use tenure_core::Request;

        let notified = Mutex::new(Vec::new());
        let notify = |message| notified.lock().unwrap().push(message);
        let mut state = RunnerState::default();
        let mut apply =
            |message: &ToSupervisor| state.apply(to_line(message).trim_end(), Some(&notify));
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
            let will = Some(LastWill { term: Some(7), request, until, ca_file: None });
            ToSupervisor::Will { subject, will }
        };
        apply(&ToSupervisor::Begin("json".into()));
        for number in [0, 1] {
            apply(&candidate(number));
            apply(&will(WillSubject::Lease(number)));
        }
        apply(&will(WillSubject::Sign("jobs/a".into())));
        apply(&ToSupervisor::Candidate { number: 0, candidate: None });
        apply(&ToSupervisor::Will { subject: WillSubject::Sign("jobs/a".into()), will: None });
        apply(&ToSupervisor::Notify("READY=1".into()));
        apply(&ToSupervisor::Exit(3));
        state.apply("{", Some(&notify));
        assert_eq!(state.begin_message.as_deref(), Some("json"));
        assert_eq!(state.candidates.into_keys().collect::<Vec<_>>(), [1]);
        assert_eq!(state.wills.into_keys().collect::<Vec<_>>(), [WillSubject::Lease(1)]);
        assert!(state.split_elections.contains("jobs/a") && state.code == Some(3));
        assert_eq!(*notified.lock().unwrap(), ["READY=1"]);
    }
}
