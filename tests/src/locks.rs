//! Many who want one lock, again and again, while some of those who have it are killed.
//!
//! The referee is the kernel: each command takes a lock of its own on a file, and must never find it taken. Descendants
//! share it, so that what is left of a command counts as long as it lives.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::candidate::{is_alive, runner_of};
use crate::measure::Spread;

/// Exit code of a command that found another one running.
const TWO_AT_ONCE: i32 = 99;

/// Exit code of none that runs to its end.
const UNENDED: i32 = i32::MIN;

/// What the command does: it puts its beginning and its end into the log. A victim waits for what is done to it.
const SCRIPT: &str = r#"
n=$(($(cat "$PLACE/count") + 1))
victim=$([ $((n % VICTIMS)) = 0 ] && echo $((n / VICTIMS)) || echo 0)
echo "start $WHO $TENURE_TERM $victim $$ $(date +%s%N)" >> "$PLACE/log"
# Who has had it often enough is told to end: so the line above comes first.
echo $n > "$PLACE/count"
if [ $victim != 0 ]; then sleep 600; fi
sleep 0.02
echo "end $WHO $((n % 7)) $(date +%s%N)" >> "$PLACE/log"
exit $((n % 7))
"#;

/// What is done to a victim, in turns, and how its lock ends then: the exit code, or none when it is killed itself.
const HARM: [(Harm, Option<i32>); 10] = [
    (Harm::KillRunner, Some(76)),
    (Harm::KillCommand, Some(137)),
    (Harm::Terminate, Some(143)),
    (Harm::KillAll, None),
    (Harm::KillRunner, Some(76)),
    (Harm::KillCommand, Some(137)),
    (Harm::Terminate, Some(143)),
    (Harm::Freeze, Some(76)),
    (Harm::KillRunner, Some(76)),
    (Harm::KillCommand, Some(137)),
];

#[derive(Clone, Copy, Debug)]
enum Harm {
    KillRunner,
    KillCommand,
    Terminate,
    /// The process that was started, and the runner with it: nobody releases the lease.
    KillAll,
    /// The runner stands still until its command is dead.
    Freeze,
}

/// What is played.
#[derive(Clone, Debug)]
pub struct Game {
    /// The program.
    pub program: PathBuf,
    /// How it reaches the store.
    pub connection_string: String,
    /// `container/blob`.
    pub election: String,
    /// So many contend at a time; each begins anew when it has ended.
    pub contenders: usize,
    /// Until the lock was acquired so often.
    pub acquisitions: usize,
    /// Each so many-th holder is harmed.
    pub victims: usize,
    /// More options.
    pub options: Vec<String>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Course {
    /// How often the lock was held.
    pub acquisitions: usize,
    /// How many were harmed.
    pub harmed: usize,
    /// How many ended by which exit code; killed ones by the negative number of the signal.
    pub codes: BTreeMap<i32, usize>,
    /// How long after the end of a command that ended by itself the next one began.
    pub gaps: Spread,
    /// How long all of it took.
    pub took: Duration,
    /// What must not be.
    pub breaches: Vec<String>,
}

/// How one process ended.
struct Ended {
    who: usize,
    /// It was told to, since enough had had the lock.
    told: bool,
    status: ExitStatus,
    errors: String,
}

struct Table {
    game: Game,
    place: tempfile::TempDir,
    /// The processes that contend, by who they are.
    processes: Mutex<BTreeMap<usize, Pid>>,
    next: AtomicUsize,
}

impl Game {
    /// Plays it to its end.
    ///
    /// # Errors
    /// The program cannot be started, or does not end.
    pub async fn play(self) -> Result<Course> {
        let place = tempfile::tempdir()?;
        fs::write(place.path().join("count"), "0\n")?;
        fs::write(place.path().join("log"), "")?;
        let (processes, next) = (Mutex::default(), AtomicUsize::new(1));
        let (began, contenders) = (Instant::now(), self.contenders);
        let table = Arc::new(Table { game: self, place, processes, next });
        let mut seats = JoinSet::new();
        for _ in 0..contenders {
            seats.spawn(Arc::clone(&table).seat());
        }
        let mut ended = Vec::new();
        let mut watching = tokio::spawn(Arc::clone(&table).watch());
        loop {
            tokio::select! {
                seat = seats.join_next() => match seat {
                    Some(seat) => ended.extend(seat??),
                    None => break,
                },
                watched = &mut watching => bail!("nobody harms any more: {watched:?}"),
            }
        }
        watching.abort();
        let mut course = judge(&ended, &table.lines()?)?;
        course.took = began.elapsed();
        Ok(course)
    }
}

impl Table {
    fn lines(&self) -> Result<Vec<Vec<String>>> {
        let log = fs::read_to_string(self.place.path().join("log"))?;
        let complete = log.rsplit_once('\n').map_or("", |(complete, _)| complete);
        Ok(complete.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect())
    }

    fn over(&self) -> Result<bool> {
        let count = fs::read_to_string(self.place.path().join("count"))?;
        Ok(count.trim().parse::<usize>().unwrap_or(0) >= self.game.acquisitions)
    }

    /// One process after the other.
    async fn seat(self: Arc<Self>) -> Result<Vec<Ended>> {
        let mut all = Vec::new();
        while !self.over()? {
            let who = self.next.fetch_add(1, Ordering::Relaxed);
            let mut command = Command::new(&self.game.program);
            let place = self.place.path();
            command
                .arg("lock")
                .args(&self.game.options)
                .args(["--env", &format!("WHO={who}")])
                .args(["--env", &format!("PLACE={}", place.display())])
                .args(["--env", &format!("VICTIMS={}", self.game.victims)])
                .args([&self.game.election, "--", "flock", "-n", "-E", &TWO_AT_ONCE.to_string()])
                .arg(place.join("referee"))
                .args(["sh", "-c", SCRIPT])
                .env("AZURE_STORAGE_CONNECTION_STRING", &self.game.connection_string)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .kill_on_drop(true);
            let child = command.spawn().context("cannot start a lock")?;
            let id = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
            let id = id.context("it has no number")?;
            self.processes.lock().unwrap().insert(who, id);
            let (mut told, mut ended) = (false, std::pin::pin!(child.wait_with_output()));
            let output = loop {
                tokio::select! {
                    output = &mut ended => break output?,
                    // Who still waits when enough have had it is not needed any more.
                    () = sleep(Duration::from_millis(500)) => if self.over()? {
                        told = true;
                        let _ = kill_process(id, Signal::TERM);
                    }
                }
            };
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            all.push(Ended { who, told, status: output.status, errors });
        }
        Ok(all)
    }

    /// Harms each victim as soon as it holds the lock.
    async fn watch(self: Arc<Self>) {
        let mut seen = 0;
        loop {
            let lines = self.lines().unwrap();
            for line in &lines[seen..] {
                if line[0] == "start" && line[3] != "0" {
                    let number = |at: usize| line[at].parse::<usize>().unwrap();
                    let command = Pid::from_raw(number(4).try_into().unwrap()).unwrap();
                    let (who, victim) = (number(1), number(3));
                    let front = self.processes.lock().unwrap()[&who];
                    self.harm(HARM[(victim - 1) % HARM.len()].0, front, command).await;
                }
            }
            seen = lines.len();
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn harm(&self, harm: Harm, front: Pid, command: Pid) {
        let runner = runner_of(front);
        let send = |to: Pid, signal| {
            let _ = kill_process(to, signal);
        };
        match harm {
            Harm::KillRunner => send(runner, Signal::KILL),
            Harm::KillCommand => send(command, Signal::KILL),
            Harm::Terminate => send(front, Signal::TERM),
            Harm::KillAll => send(front, Signal::KILL),
            Harm::Freeze => {
                send(runner, Signal::STOP);
                while is_alive(command) {
                    sleep(Duration::from_millis(10)).await;
                }
                send(runner, Signal::CONT);
            }
        }
    }
}

/// Judges who ran by the log, and all processes by their exit codes.
fn judge(ended: &[Ended], lines: &[Vec<String>]) -> Result<Course> {
    let mut course = Course::default();
    let (mut expected, mut term, mut gaps) = (BTreeMap::new(), 0, Vec::new());
    let mut before: Option<u64> = None;
    for line in lines {
        let number = |at: usize| Ok::<u64, anyhow::Error>(line.get(at).context("short")?.parse()?);
        let who = number(1)?;
        if line[0] == "end" {
            before = Some(number(3)?);
            expected.insert(who, i32::try_from(number(2)?)?);
            continue;
        }
        let (next, victim, at) = (number(2)?, number(3)?, number(5)?);
        if next <= term {
            course.breaches.push(format!("{who} held it under term {next} after {term}"));
        }
        term = next;
        gaps.extend(before.take().map(|before| Duration::from_nanos(at.saturating_sub(before))));
        course.acquisitions += 1;
        // It has another one once its end is there.
        let code = match usize::try_from(victim)? {
            0 => UNENDED,
            victim => {
                course.harmed += 1;
                HARM[(victim - 1) % HARM.len()].1.unwrap_or(-Signal::KILL.as_raw())
            }
        };
        if expected.insert(who, code).is_some() {
            course.breaches.push(format!("{who} ran twice"));
        }
    }
    course.gaps = gaps.into_iter().collect();
    for Ended { who, told, status, errors } in ended {
        let code = status.code().unwrap_or_else(|| -status.signal().unwrap_or_default());
        *course.codes.entry(code).or_default() += 1;
        let expected = expected.get(&(*who as u64));
        let fits = match expected {
            None => code == 75,
            Some(&expected) => code == expected,
        };
        // The command may have been at its end by then.
        let fits = fits || (*told && code == 143);
        if !fits {
            let breach = format!(
                "{who} ended with {code}, not {expected:?} (none: 75; told to end: {told}): {errors}"
            );
            course.breaches.push(breach);
        }
    }
    Ok(course)
}
