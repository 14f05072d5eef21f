//! Watches the leader for a follower. The watcher reads the leader's status updates at the address
//! on record. The follower polls soon after an update that shows a change, or after the stream
//! breaks.
//!
//! Any writer of the record can choose that address, and the server there may send anything. So the
//! watcher sends only the request, displays no response, and treats updates as hints (protocol.md
//! §4.5). It reports an address that cannot be watched once, and the candidate polls as before.

use super::super::board::Board;
use super::super::role::FollowedLeader;
use super::{KEEP_ALIVE_INTERVAL, StatusUpdate, VERSION};
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE};
use reqwest::Url;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::RootCertificates;
use tenure::engine::Clients;
use tenure_core::error_chain;
use tokio::select;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

/// Maximum number of leaders that a process watches at a time. Further leaders are polled.
const MAX_WATCHED: usize = 32;

/// Maximum number of watched leaders at one address, whose server shares its permits among all
/// clients.
const MAX_WATCHED_PER_ADDRESS: usize = 12;

/// Maximum time until the response to a request begins.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Silence after which the stream counts as lost.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3 * KEEP_ALIVE_INTERVAL.as_secs());

/// First delay before a reconnect. It doubles each time up to `MAX_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(5 * 60);

/// Duration after which a stream counts as healthy. The next delay is then the first one again.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);

/// Bytes accepted at once, and in each second after that. A candidate sends some hundred bytes at
/// each renewal or beat, up to six times a second.
const BURST_BYTES: u64 = 64 * 1024;
const BYTES_PER_SECOND: u64 = 16 * 1024;

/// Maximum length of a line; candidates send shorter ones.
const MAX_LINE: usize = 16 * 1024;

/// Maximum number of changes in one stream; candidates send fewer.
const MAX_CHANGES: u32 = 16;

/// Maximum number of remembered addresses that could not be watched.
const MAX_REPORTED: usize = 64;

/// Watcher of the leaders that a process's candidates follow. With it, a follower notices a change
/// before its next poll.
pub struct Watcher {
    clients: Clients,
    permits: Semaphore,
    /// Permits for each address.
    by_address: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// The end of a stream.
enum StreamEnd {
    /// The server refused the request, or its response is not a candidate's; with the reason.
    Refused(String),
    /// The server has too many watchers.
    Full,
    /// The connection broke.
    Lost,
    /// The server ended it cleanly.
    Ended,
}

impl Watcher {
    /// Creates a watcher that trusts `authorities` in addition to those of the platform.
    #[must_use]
    pub fn new(authorities: RootCertificates) -> Self {
        let clients = Clients::without_proxies(authorities);
        Self { clients, permits: Semaphore::new(MAX_WATCHED), by_address: Mutex::default() }
    }

    /// Returns the permits of an address.
    fn permits_for(&self, address: &str) -> Arc<Semaphore> {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        // Drops the permits of addresses that are not in use.
        by_address.retain(|_, permits| Arc::strong_count(permits) > 1);
        let entry = by_address.entry(address.to_owned());
        entry.or_insert_with(|| Arc::new(Semaphore::new(MAX_WATCHED_PER_ADDRESS))).clone()
    }

    /// Watches the leader that the candidate of `board` follows, and notifies `hints` of changes.
    /// Calls `warn` once for each address that cannot be watched. Returns only if the board is
    /// closed.
    pub async fn run(&self, board: Arc<Board>, hints: Arc<Notify>, warn: impl Fn(String)) {
        let mut changed = board.changes();
        let mut warned = BTreeSet::new();
        loop {
            changed.mark_unchanged();
            let Some(leader) = board.followed_leader() else {
                if changed.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let warn_once = |reason: String| {
                if warned.len() == MAX_REPORTED {
                    warned.clear();
                }
                if warned.insert(leader.address.clone()) {
                    let FollowedLeader { name, address, .. } = &leader;
                    warn(format!(
                        "cannot watch {name} at {address}: {reason}. This candidate polls instead, so a handover may \
                         take one poll longer. Check the leader's --address and the network between them"
                    ));
                }
            };
            select! {
                () = self.watch(&leader, &board, &hints, warn_once) => {}
                () = wait_until_replaced(&leader, &board, &mut changed) => {}
            }
        }
    }

    /// Watches one leader; reconnects after each stream.
    async fn watch(
        &self,
        leader: &FollowedLeader,
        board: &Board,
        hints: &Notify,
        mut warn: impl FnMut(String),
    ) {
        let Some(base_url) = parse_listener(&leader.address) else {
            // The address is not a URL; it is meant for humans.
            return std::future::pending().await;
        };
        let url = endpoint(&base_url, "watch", Some(&board.election));
        let (mut pause, mut watched) = (FIRST_PAUSE, false);
        let address_permits = self.permits_for(&leader.address);
        loop {
            // The semaphores are never closed.
            let Ok(address_permit) = address_permits.acquire().await else { return };
            let Ok(permit) = self.permits.acquire().await else { return };
            let started_at = Instant::now();
            match self.listen(url.clone(), leader, board, hints).await {
                Ok(StreamEnd::Refused(reason)) | Err(reason) if !watched => warn(reason),
                Ok(StreamEnd::Refused(_) | StreamEnd::Full) | Err(_) => {}
                Ok(StreamEnd::Lost) => {
                    watched = true;
                    hints.notify_one();
                }
                Ok(StreamEnd::Ended) => watched = true,
            }
            drop((permit, address_permit));
            if started_at.elapsed() >= HEALTHY_AFTER {
                pause = FIRST_PAUSE;
            }
            sleep(pause).await;
            pause = (2 * pause).min(MAX_PAUSE);
        }
    }

    async fn listen(
        &self,
        url: Url,
        leader: &FollowedLeader,
        board: &Board,
        hints: &Notify,
    ) -> Result<StreamEnd, String> {
        let client = self.clients.get(&url)?;
        let request = client.get(url).header(ACCEPT, "text/event-stream").send();
        let result = timeout(RESPONSE_TIMEOUT, request).await;
        let result = result.map_err(|_| format!("no answer within {RESPONSE_TIMEOUT:?}"))?;
        let mut response = result.map_err(|error| error_chain(&error.without_url()))?;
        let kind = response.headers().get(CONTENT_TYPE);
        let has_type = |known: &[u8]| kind.is_some_and(|kind| kind.as_bytes().starts_with(known));
        // A proxy without a backend responds with 503 too, but not with JSON.
        if response.status() == StatusCode::SERVICE_UNAVAILABLE && has_type(b"application/json") {
            return Ok(StreamEnd::Full);
        }
        if response.status() != StatusCode::OK || !has_type(b"text/event-stream") {
            let status = response.status().as_u16();
            return Ok(StreamEnd::Refused(format!("HTTP {status} instead of an event stream")));
        }
        let mut reader = Reader::new(leader, &board.election, &board.candidate);
        let started_at = Instant::now();
        loop {
            match timeout(SILENCE_TIMEOUT, response.chunk()).await {
                Ok(Ok(Some(bytes))) => match reader.read(&bytes, started_at.elapsed()) {
                    Ok(true) => hints.notify_one(),
                    Ok(false) => {}
                    Err(reason) => return Ok(StreamEnd::Refused(reason.to_owned())),
                },
                _ if !reader.has_read => {
                    return Ok(StreamEnd::Refused("the stream was silent".to_owned()));
                }
                Ok(Ok(None)) => return Ok(StreamEnd::Ended),
                Ok(Err(_)) | Err(_) => return Ok(StreamEnd::Lost),
            }
        }
    }
}

/// Waits until the candidate no longer follows that leader.
async fn wait_until_replaced(
    leader: &FollowedLeader,
    board: &Board,
    changed: &mut watch::Receiver<()>,
) {
    while board.followed_leader().as_ref() == Some(leader) {
        if changed.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// The part of an update that matters to a follower.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Signal {
    /// True if the leader still leads in the known term.
    leads: bool,
    /// True if the leader hands over to this follower.
    hands_over: bool,
    /// True if the lease of that term is free or another candidate's.
    released: bool,
}

/// The signal of an unchanged leader.
const UNCHANGED: Signal = Signal { leads: true, hands_over: false, released: false };

/// Reader of one stream, which may come from any server.
struct Reader<'a> {
    leader: &'a FollowedLeader,
    election: &'a str,
    own_name: &'a str,
    line: Vec<u8>,
    bytes: u64,
    changes: u32,
    last_signal: Signal,
    has_read: bool,
}

impl<'a> Reader<'a> {
    fn new(leader: &'a FollowedLeader, election: &'a str, own_name: &'a str) -> Self {
        Self {
            leader,
            election,
            own_name,
            line: Vec::new(),
            bytes: 0,
            changes: 0,
            last_signal: UNCHANGED,
            has_read: false,
        }
    }

    /// Takes bytes that arrived `elapsed` after the stream began. Returns true if there is reason
    /// to poll, and an error if no candidate would send this.
    fn read(&mut self, bytes: &[u8], elapsed: Duration) -> Result<bool, &'static str> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > BURST_BYTES + BYTES_PER_SECOND * elapsed.as_secs() {
            return Err("the stream is longer than a candidate sends");
        }
        let mut should_poll = false;
        for byte in bytes {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    should_poll |= self.read_line(&line)?;
                }
                _ if self.line.len() == MAX_LINE => {
                    return Err("a line is longer than a candidate sends");
                }
                byte => self.line.push(*byte),
            }
        }
        Ok(should_poll)
    }

    /// Handles a line. Only `data` fields matter.
    fn read_line(&mut self, line: &[u8]) -> Result<bool, &'static str> {
        let Some(data) = line.strip_prefix(b"data:") else { return Ok(false) };
        let update: StatusUpdate = serde_json::from_slice(data)
            .map_err(|_| "the stream does not come from a candidate")?;
        if update.version != VERSION {
            return Err("the stream has another version");
        }
        if update.candidate != self.leader.name || update.election != self.election {
            return Err("another candidate answers there");
        }
        self.has_read = true;
        let term = self.leader.term;
        let signal = Signal {
            leads: update.leading && update.leader.is_some_and(|leader| leader.term == term),
            hands_over: update.handing_over_to.is_some_and(|to| to == self.own_name),
            released: update.ended.is_some_and(|ended| ended.term == term && ended.released),
        };
        let changed = signal != std::mem::replace(&mut self.last_signal, signal);
        self.changes += u32::from(changed);
        if self.changes > MAX_CHANGES {
            return Err("the stream has more changes than a candidate sends");
        }
        Ok(changed && signal != UNCHANGED)
    }
}

/// Returns true if a follower accepts these bytes as the stream of its leader `ada`.
#[cfg(feature = "fuzzing")]
#[must_use]
pub fn accepts_stream(bytes: &[u8]) -> bool {
    let leader = FollowedLeader { name: "ada".into(), term: 7, address: String::new() };
    let mut reader = Reader::new(&leader, "leases/leader", "ben");
    reader.read(bytes, Duration::ZERO).is_ok()
}

/// Parses the address of a listener. Returns `None` unless it is an HTTP URL without credentials.
#[must_use]
pub fn parse_listener(text: &str) -> Option<Url> {
    let mut url = Url::parse(text.trim()).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.has_host()
    })?;
    if url.password().is_some() {
        return None;
    }
    url.set_query(None);
    url.set_fragment(None);
    Some(url)
}

/// Returns the URL of `path` at a listener, for an election.
#[must_use]
pub fn endpoint(base_url: &Url, path: &str, election: Option<&str>) -> Url {
    let mut url = base_url.clone();
    let base = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{base}/{path}"));
    if let Some(election) = election {
        url.query_pairs_mut().append_pair("election", election);
    }
    url
}

#[cfg(test)]
mod tests;
