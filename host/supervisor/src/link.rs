//! The runner's end of the connection to its own supervisor. Sending never blocks the caller.

use super::connection::{
    Candidate, LastWill, ToSupervisor, WillSubject, from_line, inherited_with_stdin, to_line,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tenure_clock::shared::now;
use tenure_core::{Report, Request, Role};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, watch};

/// Signal that makes the supervisor read the socket at once. Processes that do not handle it ignore
/// it.
pub(super) const WAKE_SIGNAL: Signal = Signal::URG;

/// Interval between checks that the supervisor still runs. macOS does not report the end of a
/// connection to a poll that waits for nothing else.
const POLL_TIMEOUT: Option<Timespec> = match cfg!(target_os = "linux") {
    true => None,
    false => Some(Timespec { tv_sec: 0, tv_nsec: 200_000_000 }),
};

/// A runner that has had a supervisor since its start.
#[derive(Debug)]
pub struct Supervised {
    supervisor: Pid,
    socket: StdUnixStream,
}

impl Supervised {
    /// Connects this process with its supervisor, whose id
    /// [`supervise_runner`](super::supervise_runner) passed on.
    ///
    /// Also restores the real standard input of this process. From then on this process does not
    /// outlive the supervisor.
    ///
    /// # Errors
    ///
    /// Returns the reason why the supervisor cannot be reached.
    pub fn connect(supervisor_id: &str) -> Result<Self, String> {
        let supervisor = supervisor_id.parse().ok().filter(|id| *id > 0).and_then(Pid::from_raw);
        let supervisor = supervisor.ok_or("the supervisor gave no process id")?;
        let connect = || {
            let (socket, stdin) = inherited_with_stdin()?;
            rustix::stdio::dup2_stdin(&stdin)?;
            let this = Self { supervisor, socket };
            this.die_with_supervisor()?;
            Ok(this)
        };
        connect().map_err(|error: io::Error| format!("the supervisor cannot be reached: {error}"))
    }

    /// Kills this process when its supervisor dies. Its work then dies too, and the lease expires.
    fn die_with_supervisor(&self) -> io::Result<()> {
        // The death signal works even if this process is frozen, or no thread can be started.
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(self.supervisor) {
            die();
        }
        let (socket, supervisor) = (self.socket.try_clone()?, self.supervisor);
        thread::Builder::new().name("tenure-parent".to_owned()).spawn(move || {
            wait_for_hang_up(&socket, supervisor);
            die();
        })?;
        Ok(())
    }

    /// Returns the process id of the supervisor, which is the process that a service manager knows.
    #[must_use]
    pub fn supervisor(&self) -> u32 {
        self.supervisor.as_raw_nonzero().get().unsigned_abs()
    }

    /// Opens the connection. The supervisor passes `begin_message` to its own program when
    /// this process has ended, in [`RunnerEnd`](super::RunnerEnd).
    ///
    /// # Errors
    ///
    /// Returns the reason why the system refuses it.
    pub fn link(&self, begin_message: String) -> Result<Arc<Link>, String> {
        let socket = self.socket.try_clone().and_then(UnixStream::from_std);
        let unreachable = |error| format!("the supervisor cannot be reached: {error}");
        let (answers, messages) = socket.map_err(unreachable)?.into_split();
        let link = Arc::new(Link::default());
        link.pending().begin = Some(to_line(&ToSupervisor::Begin(begin_message)));
        let supervisor = self.supervisor;
        let wake_supervisor = move || {
            let _ = kill_process(supervisor, WAKE_SIGNAL);
        };
        tokio::spawn(link.clone().deliver(messages, wake_supervisor));
        tokio::spawn(link.clone().read_answers(answers));
        Ok(link)
    }
}

/// Writes all bytes. Wakes the supervisor if the socket is full, because it delays its reads.
async fn write(
    messages: &OwnedWriteHalf,
    mut bytes: &[u8],
    wake_supervisor: &impl Fn(),
) -> io::Result<()> {
    while !bytes.is_empty() {
        match messages.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wake_supervisor();
                messages.writable().await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until the other end of the connection is closed, or the parent is another process.
fn wait_for_hang_up(socket: &StdUnixStream, parent: Pid) {
    loop {
        match poll(&mut [PollFd::new(socket, PollFlags::empty())], POLL_TIMEOUT.as_ref()) {
            Ok(0) | Err(Errno::INTR | Errno::AGAIN) if getppid() == Some(parent) => {}
            _ => return,
        }
    }
}

fn die() {
    let _ = kill_process(getpid(), Signal::KILL);
}

/// Connection to the runner's supervisor. The queue is bounded: it keeps only the newest will of
/// each candidate, and the newest value of each variable for the service manager.
#[derive(Default)]
pub struct Link {
    pending: Mutex<PendingMessages>,
    changed: Notify,
    /// Notified when the exit code and all messages before it were sent.
    delivered: Notify,
    /// Number of the newest answered request to end adopted processes.
    orphans_ended: watch::Sender<u64>,
}

#[derive(Default)]
struct PendingMessages {
    /// First line. Sent before the others, except for requests to end adopted processes.
    begin: Option<String>,
    /// Notification for the service manager: the newest assignment to each variable, by variable.
    notification: BTreeMap<String, String>,
    /// Number of the next candidate.
    next_number: usize,
    /// Candidates to report, by number. `None` if the candidate has left.
    candidates: BTreeMap<usize, Option<Candidate>>,
    wills: BTreeMap<WillSubject, Option<LastWill>>,
    /// Number of requests to end adopted processes.
    orphan_requests: u64,
    /// True if the newest request was not sent yet.
    end_orphans: bool,
    /// Exit code. Sent last.
    exit: Option<u8>,
    /// Candidates whose will the supervisor has or is about to get.
    holders: BTreeSet<usize>,
}

/// Urgency of a line to the supervisor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    /// The supervisor may delay reading this line.
    Later,
    /// The supervisor must read this line at once.
    Now,
    /// This line is the last one.
    Last,
}

impl PendingMessages {
    fn next(&mut self) -> Option<(String, Urgency)> {
        if std::mem::take(&mut self.end_orphans) {
            return Some((to_line(&ToSupervisor::EndOrphans(self.orphan_requests)), Urgency::Now));
        }
        let next_line = self.next_before_exit().map(|line| (line, Urgency::Later));
        let exit = || Some((to_line(&ToSupervisor::Exit(self.exit.take()?)), Urgency::Last));
        next_line.or_else(exit)
    }

    fn next_before_exit(&mut self) -> Option<String> {
        let candidate_line =
            |(number, candidate)| to_line(&ToSupervisor::Candidate { number, candidate });
        let will_line = |(subject, will)| to_line(&ToSupervisor::Will { subject, will });
        // A candidate is sent before its will.
        let next = self.begin.take().or_else(|| self.next_notification());
        let next = next.or_else(|| self.candidates.pop_first().map(candidate_line));
        next.or_else(|| self.wills.pop_first().map(will_line))
    }

    fn next_notification(&mut self) -> Option<String> {
        let assignments: Vec<_> = std::mem::take(&mut self.notification).into_values().collect();
        let message = || to_line(&ToSupervisor::Notify(assignments.join("\n")));
        (!assignments.is_empty()).then(message)
    }
}

impl LastWill {
    /// Creates a will from a request that was created `age` ago, and is useful for its timeout from
    /// then.
    fn new(
        term: Option<u64>,
        request: &Request,
        age: Duration,
        ca_file: Option<&OsString>,
    ) -> Self {
        Self {
            term,
            request: request.clone(),
            until: now() + request.timeout.saturating_sub(age),
            ca_file: ca_file.cloned(),
        }
    }
}

impl Link {
    fn pending(&self) -> MutexGuard<'_, PendingMessages> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the queue and wakes the sender.
    fn update<T>(&self, change: impl FnOnce(&mut PendingMessages) -> T) -> T {
        let result = change(&mut self.pending());
        self.changed.notify_one();
        result
    }

    /// Registers a candidate and returns its number.
    pub fn add_candidate(&self, candidate: Candidate) -> usize {
        self.update(|pending| {
            let number = pending.next_number;
            pending.next_number += 1;
            pending.candidates.insert(number, Some(candidate));
            number
        })
    }

    /// Removes a candidate that has left.
    pub fn remove_candidate(&self, number: usize) {
        self.update(|pending| {
            pending.holders.remove(&number);
            pending.wills.remove(&WillSubject::Lease(number));
            pending.candidates.insert(number, None);
        });
    }

    /// Updates the last will of the candidate with that number, from a report that was taken `age`
    /// ago.
    pub fn on_step(
        &self,
        number: usize,
        report: &Report,
        age: Duration,
        ca_file: Option<&OsString>,
    ) {
        let mut pending = self.pending();
        let will = match (&report.role, &report.last_will) {
            (Role::Leading(leadership), Some(will)) => {
                pending.holders.insert(number);
                Some(LastWill::new(Some(leadership.term), will, age, ca_file))
            }
            // The earlier will remains valid.
            (Role::Leading(_), None) => return,
            _ if pending.holders.remove(&number) => None,
            _ => return,
        };
        pending.wills.insert(WillSubject::Lease(number), will);
        drop(pending);
        self.changed.notify_one();
    }

    /// Sets the last will of this process as a member for shares of that election: the request that
    /// deletes its sign of life. `None` revokes the previous will.
    pub fn set_sign_of_life_will(
        &self,
        election: &str,
        will: Option<&Request>,
        ca_file: Option<&OsString>,
    ) {
        let will = will.map(|will| LastWill::new(None, will, Duration::ZERO, ca_file));
        self.update(|pending| pending.wills.insert(WillSubject::Sign(election.to_owned()), will));
    }

    /// Asks the supervisor to kill the processes that it adopted, and waits until none is left.
    pub async fn end_orphans(&self) {
        let number = self.update(|pending| {
            pending.orphan_requests += 1;
            pending.end_orphans = true;
            pending.orphan_requests
        });
        // Cannot fail: the sender is a field of `self`.
        let _ = self.orphans_ended.subscribe().wait_for(|ended| *ended >= number).await;
    }

    /// Reads the supervisor's answers.
    async fn read_answers(self: Arc<Self>, answers: OwnedReadHalf) {
        let mut answers = BufReader::new(answers).lines();
        while let Ok(Some(line)) = answers.next_line().await {
            if let Some(number) = from_line(&line) {
                self.orphans_ended.send_replace(number);
            }
        }
    }

    /// Sends a message to the service manager through the supervisor.
    ///
    /// Each line of the message assigns a variable. While the supervisor is not reading, messages
    /// are merged, so that `READY=1` and `STOPPING=1` are never lost.
    pub fn notify(&self, message: &str) {
        self.update(|pending| {
            for assignment in message.lines() {
                let variable = assignment.split('=').next().unwrap_or_default();
                pending.notification.insert(variable.to_owned(), assignment.to_owned());
            }
        });
    }

    /// Sends the exit code of this program, which applies even if this process is killed.
    pub fn exit(&self, code: u8) {
        self.update(|pending| pending.exit = Some(code));
    }

    /// Waits until the exit code was sent. Call it once.
    pub async fn delivered(&self) {
        self.delivered.notified().await;
    }

    async fn deliver(self: Arc<Self>, messages: OwnedWriteHalf, wake_supervisor: impl Fn()) {
        // Tokio reports a socket as full until it has polled it once. Without this wait, `write`
        // would wake the supervisor although the socket has room.
        if messages.writable().await.is_err() {
            return;
        }
        loop {
            let next = self.pending().next();
            let Some((line, urgency)) = next else {
                self.changed.notified().await;
                continue;
            };
            if write(&messages, line.as_bytes(), &wake_supervisor).await.is_err() {
                return;
            }
            match urgency {
                Urgency::Later => {}
                Urgency::Now => wake_supervisor(),
                Urgency::Last => self.delivered.notify_one(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::Leadership;
    use tokio::io::AsyncReadExt as _;
    use tokio::time::timeout;

    const TERM: u64 = 7;

    fn report(role: Role, url: Option<&str>) -> Report {
        Report { last_will: url.map(request), ..Report::new(role, Duration::ZERO) }
    }

    fn request(url: &str) -> Request {
        Request {
            method: "PUT".into(),
            url: url.into(),
            headers: Vec::new(),
            body: String::new(),
            timeout: Duration::from_secs(15),
        }
    }

    fn leading() -> Role {
        Role::Leading(Leadership { term: TERM, valid_for: Duration::ZERO })
    }

    /// Returns the next will: its subject, and its URL.
    fn next(link: &Link) -> Option<(WillSubject, Option<String>)> {
        let (line, _) = link.pending().next()?;
        match from_line(line.trim_end()) {
            Some(ToSupervisor::Will { subject, will }) => {
                Some((subject, will.map(|will| will.request.url.clone())))
            }
            _ => panic!("no will"),
        }
    }

    #[test]
    fn the_newest_will_is_sent_until_the_leadership_ends() {
        let (link, age) = (Link::default(), Duration::from_secs(1));
        let step = |number, role, url| link.on_step(number, &report(role, url), age, None);
        step(0, Role::Undecided, None);
        assert_eq!(next(&link), None, "nobody leads");
        step(0, leading(), Some("http://one"));
        step(1, leading(), Some("http://other"));
        step(0, leading(), Some("http://two"));
        let lease_subject = WillSubject::Lease;
        assert_eq!(next(&link), Some((lease_subject(0), Some("http://two".into()))));
        assert_eq!(next(&link), Some((lease_subject(1), Some("http://other".into()))));
        step(0, leading(), None);
        assert_eq!(next(&link), None, "the earlier will remains valid");
        step(0, Role::Undecided, None);
        step(0, Role::Left, None);
        assert_eq!(next(&link), Some((lease_subject(0), None)));
        assert_eq!(next(&link), None);
    }

    #[test]
    fn the_newest_will_of_a_sign_is_sent_first() {
        let (link, subject) = (Link::default(), WillSubject::Sign("jobs/orders".into()));
        link.on_step(0, &report(leading(), Some("http://lease")), Duration::ZERO, None);
        for url in ["http://one", "http://two"] {
            link.set_sign_of_life_will("jobs/orders", Some(&request(url)), None);
        }
        assert_eq!(next(&link), Some((subject.clone(), Some("http://two".into()))));
        assert_eq!(next(&link), Some((WillSubject::Lease(0), Some("http://lease".into()))));
        link.set_sign_of_life_will("jobs/orders", None, None);
        assert_eq!(next(&link), Some((subject, None)));
        assert_eq!(next(&link), None);
    }

    #[test]
    fn a_candidate_is_sent_before_its_will_and_removed_with_it() {
        let (link, age) = (Link::default(), Duration::from_secs(1));
        let next_candidate = |link: &Link| {
            let (line, _) = link.pending().next()?;
            match from_line(line.trim_end()) {
                Some(ToSupervisor::Candidate { number, candidate }) => {
                    Some((number, candidate.map(|candidate| candidate.election)))
                }
                _ => None,
            }
        };
        let candidate =
            |election: &str| Candidate { election: election.into(), name: "ada".into() };
        let (first, second) =
            (link.add_candidate(candidate("jobs/a")), link.add_candidate(candidate("jobs/b")));
        link.on_step(first, &report(leading(), Some("http://one")), age, None);
        assert_eq!(next_candidate(&link), Some((first, Some("jobs/a".into()))));
        assert_eq!(next_candidate(&link), Some((second, Some("jobs/b".into()))));
        link.remove_candidate(first);
        assert_eq!(next_candidate(&link), Some((first, None)), "and no will");
        assert!(link.pending().next().is_none());
        // Numbers are never reused.
        assert!(link.add_candidate(candidate("jobs/a")) > second);
    }

    #[test]
    fn a_will_counts_from_its_step() {
        let link = Link::default();
        let before = now();
        link.on_step(0, &report(leading(), Some("http://a")), Duration::from_secs(5), None);
        let Some(Some(will)) = link.pending().wills.remove(&WillSubject::Lease(0)) else {
            panic!("no will")
        };
        let remaining = will.until - before;
        assert!(
            remaining >= Duration::from_secs(10) && remaining < Duration::from_secs(15),
            "{remaining:?}"
        );
    }

    #[tokio::test]
    async fn a_request_to_end_orphans_wakes_the_supervisor_and_waits_for_its_answer() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, ours) = ours.into_split();
        let (theirs, answers) = theirs.into_split();
        let (link, woken) = (Arc::new(Link::default()), Arc::new(Notify::new()));
        let wake = woken.clone();
        tokio::spawn(link.clone().deliver(ours, move || wake.notify_one()));
        tokio::spawn(link.clone().read_answers(reader));
        let mut lines = BufReader::new(theirs).lines();
        for number in [1, 2] {
            let request = tokio::spawn({
                let link = link.clone();
                async move { link.end_orphans().await }
            });
            woken.notified().await;
            let line = lines.next_line().await.unwrap().unwrap();
            assert!(
                matches!(from_line(&line), Some(ToSupervisor::EndOrphans(asked)) if asked == number)
            );
            // The answer to the previous request.
            answers.writable().await.unwrap();
            answers.try_write(line_of(number - 1).as_bytes()).unwrap();
            tokio::task::yield_now().await;
            assert!(!request.is_finished());
            answers.try_write(line_of(number).as_bytes()).unwrap();
            request.await.unwrap();
        }
    }

    fn line_of(number: u64) -> String {
        to_line(&number)
    }

    #[test]
    fn notifications_to_a_stalled_supervisor_are_merged() {
        let link = Link::default();
        link.notify("READY=1\nSTATUS=starting");
        link.pending().begin = Some("first".into());
        for number in 0..1_000 {
            link.notify(&format!("STATUS={number}\nWATCHDOG=1"));
        }
        link.notify("STOPPING=1");
        let next = || link.pending().next().map(|(line, _)| line);
        assert_eq!(next().as_deref(), Some("first"));
        let merged = "READY=1\nSTATUS=999\nSTOPPING=1\nWATCHDOG=1";
        assert_eq!(next(), Some(to_line(&ToSupervisor::Notify(merged.into()))));
        assert_eq!(next(), None);
    }

    #[tokio::test]
    async fn a_full_socket_wakes_the_supervisor() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (_, ours) = ours.into_split();
        let (link, woken) = (Arc::new(Link::default()), Arc::new(Notify::new()));
        let wake = woken.clone();
        tokio::spawn(link.clone().deliver(ours, move || wake.notify_one()));
        link.notify("one");
        let mut line = [0; 1024];
        let read = theirs.read(&mut line).await.unwrap();
        assert!(timeout(Duration::ZERO, woken.notified()).await.is_err(), "there is room");
        // More than a socket holds.
        let long = "x".repeat(4 * 1024 * 1024);
        link.notify(&long);
        woken.notified().await;
        let mut received = Vec::new();
        while !received.ends_with(b"\n") {
            theirs.read_buf(&mut received).await.unwrap();
        }
        assert!(read < line.len() && received.len() > long.len());
    }

    #[test]
    fn the_end_of_the_supervisor_is_noticed() {
        let (theirs, ours) = StdUnixStream::pair().unwrap();
        let parent = getppid().unwrap();
        let waiter = thread::spawn(move || wait_for_hang_up(&ours, parent));
        assert!(!waiter.is_finished());
        drop(theirs);
        waiter.join().unwrap();
    }
}
