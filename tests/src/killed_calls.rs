//! Kills leaders during a call to their webhook, and measures the bytes of the call that leave the
//! machine afterwards.
//!
//! The receiver is busy: its receive buffer is small, and it reads slowly. So most of the call
//! waits in the kernel of the leader's machine when the process dies.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::ioctl_fionread;
use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::{Candidate, Group, Sink, Store};

/// Bytes that the URL adds to each call. With the rest of its head, a call has slightly more than
/// 64 KiB.
const URL_LENGTH: usize = 64 * 1024 - 1024;

/// Size of the receiver's buffer in the kernel, in bytes; the kernel doubles it.
const RECEIVE_BUFFER: u32 = 4096;

/// Number of bytes that the receiver reads at a time.
const READ_SIZE: usize = 512;

/// Pause of the receiver between two reads.
const PAUSE: Duration = Duration::from_millis(1);

/// Number of bytes of the first call after which the receiver stops until the leader is killed.
const STOP_AFTER: std::ops::Range<usize> = 4 * 1024..40 * 1024;

/// Limit of the bytes that the receiver reads between the kill and the exit of the process. The
/// exit may take long on a busy machine.
const MAX_READ_AFTER_KILL: usize = 8 * 1024;

/// Longer than any step of a round.
const ROUND_TIMEOUT: Duration = Duration::from_secs(180);

/// Result of one round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Bytes of the old leader's call that had arrived when its exit became visible.
    pub arrived_bytes: usize,
    /// Part of `arrived_bytes` that the receiver had not read: its own kernel held it.
    pub unread_bytes: usize,
    /// Bytes that arrived later: they left the old leader's machine after its process had exited.
    pub late_bytes: usize,
    /// Time from the visible exit of the process until the last byte of its call was read.
    pub read_duration: Duration,
    /// Time from the exit of the process to the whole call of the next leader.
    pub takeover: Duration,
    /// True if the old leader's call was complete in the end.
    pub completed: bool,
}

/// Kills a leader in the middle of its call, and lets the next leader make a whole call.
///
/// # Errors
/// A process could not be started, or a step took too long.
pub async fn round(program: &str, store: &Store) -> Result<Round> {
    timeout(ROUND_TIMEOUT, run_round(program, store)).await.context("the round takes too long")?
}

async fn run_round(program: &str, store: &Store) -> Result<Round> {
    let stop_after = fastrand::usize(STOP_AFTER);
    let receiver = Receiver::start(stop_after).await?;
    let group = Group::new(program, store, &Sink::start().await?);
    let old_leader = start(&group, "old", receiver.address)?;
    receiver
        .wait_until(|calls| calls.first().is_some_and(|call| call.bytes.len() >= stop_after))
        .await?;
    let new_leader = start(&group, "new", receiver.address)?;
    new_leader.wait_for_line(|line| line.name() == "following").await;

    let runner = old_leader.runner()?;
    // The descriptor becomes readable at the same time as the supervisor can notice the exit.
    let end = pidfd_open(runner, PidfdFlags::empty())?;
    let exit_wait = spawn_blocking(move || poll(&mut [PollFd::new(&end, PollFlags::IN)], None));
    kill_process(runner, Signal::KILL)?;
    receiver.limit.send_replace(stop_after + MAX_READ_AFTER_KILL);
    exit_wait.await??;
    let (ended_at, unread_bytes, arrived_bytes) = {
        let calls = receiver.calls.borrow();
        let unread_bytes = usize::try_from(ioctl_fionread(&calls[0].connection)?)?;
        (Instant::now(), unread_bytes, calls[0].bytes.len() + unread_bytes)
    };
    receiver.limit.send_replace(usize::MAX);
    receiver.wait_until(|calls| calls[0].is_over).await?;
    receiver
        .wait_until(|calls| calls.iter().skip(1).any(|call| call.answered_at.is_some()))
        .await?;

    let calls = receiver.calls.borrow();
    let next = calls[1..].iter().find_map(|call| Some((call.length()?, call.answered_at?)));
    let (length, answered_at) = next.context("no whole call")?;
    ensure!(arrived_bytes < length, "all of the call had arrived when the process ended");
    let last_read = calls[0].last_read.context("nothing was read")?;
    Ok(Round {
        arrived_bytes,
        unread_bytes,
        late_bytes: calls[0].bytes.len() - arrived_bytes,
        read_duration: last_read.saturating_duration_since(ended_at),
        takeover: answered_at.saturating_duration_since(ended_at),
        completed: calls[0].answered_at.is_some(),
    })
}

fn start(group: &Group, name: &str, receiver: SocketAddr) -> Result<Candidate> {
    let mut command = Command::new(&group.program);
    command.args(["run", "--log", "json", "--log-level", "debug", "--name", name]);
    command.args([&group.election, "--every", "1s", "--poll", "1s"]);
    command.env("TENURE_HANDLER_URL", format!("http://{receiver}/{}", "x".repeat(URL_LENGTH)));
    group.access.apply(&mut command);
    Candidate::spawn(name, command)
}

/// One connection, which carries one call.
#[derive(Debug)]
struct Call {
    connection: Arc<TcpStream>,
    bytes: Vec<u8>,
    last_read: Option<Instant>,
    /// Time at which the whole call had been read.
    answered_at: Option<Instant>,
    /// True if the connection has ended.
    is_over: bool,
}

impl Call {
    /// Returns the length of the whole call, or `None` until its head is complete.
    fn length(&self) -> Option<usize> {
        let end = self.bytes.windows(4).position(|part| part == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&self.bytes[..end]).ok()?;
        let body = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
        Some(end + 4 + body.parse::<usize>().ok()?)
    }
}

/// Reads calls slowly, and at most `limit` bytes of the first one.
struct Receiver {
    address: SocketAddr,
    /// Calls with their bytes. A lock covers the transfer of bytes from a connection.
    calls: Arc<watch::Sender<Vec<Call>>>,
    limit: watch::Sender<usize>,
    server: JoinHandle<()>,
}

impl Receiver {
    async fn start(limit: usize) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let listener = socket.listen(8)?;
        let address = listener.local_addr()?;
        let calls = Arc::new(watch::Sender::new(Vec::new()));
        let (limit, limit_receiver) = watch::channel(limit);
        let all_calls = Arc::clone(&calls);
        let server = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.spawn(receive_call(
                    connection,
                    Arc::clone(&all_calls),
                    limit_receiver.clone(),
                ));
            }
        });
        Ok(Self { address, calls, limit, server })
    }

    async fn wait_until(&self, condition: impl Fn(&[Call]) -> bool) -> Result<()> {
        self.calls.subscribe().wait_for(|calls| condition(calls)).await?;
        Ok(())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive_call(
    connection: TcpStream,
    calls: Arc<watch::Sender<Vec<Call>>>,
    mut limit: watch::Receiver<usize>,
) {
    let connection = Arc::new(connection);
    let mut index = 0;
    calls.send_modify(|calls| {
        index = calls.len();
        calls.push(Call {
            connection: Arc::clone(&connection),
            bytes: Vec::new(),
            last_read: None,
            answered_at: None,
            is_over: false,
        });
    });
    let mut bytes_read = 0;
    loop {
        if index == 0 && limit.wait_for(|limit| bytes_read < *limit).await.is_err() {
            return;
        }
        let mut is_over = connection.readable().await.is_err();
        let (mut buffer, mut is_whole) = ([0; READ_SIZE], false);
        calls.send_modify(|calls| {
            let call = &mut calls[index];
            match connection.try_read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => is_over = true,
                Ok(count) => {
                    call.bytes.extend_from_slice(&buffer[..count]);
                    bytes_read = call.bytes.len();
                    call.last_read = Some(Instant::now());
                    if call.length().is_some_and(|length| bytes_read >= length) {
                        call.answered_at = call.last_read;
                        is_whole = true;
                    }
                }
            }
            call.is_over = is_over;
        });
        if is_over {
            return;
        }
        if is_whole {
            let _ = connection.try_write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
        // Reads at the pace of a busy receiver.
        sleep(PAUSE).await;
    }
}
