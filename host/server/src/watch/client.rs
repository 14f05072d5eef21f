//! How a follower watches the leader: at the address that the leader put on record it reads the news, and
//! polls soon when they say that something has changed, or break off.
//!
//! Whoever may write the record chooses that address, and whoever answers there says what they like. So
//! nothing is sent but the question, no answer is shown, and news are no more than hints (protocol.md §4.5).
//! A candidate that cannot watch is told of once, and polls as before.

use super::super::board::Board;
use super::super::role::Followed;
use super::stream::SILENCE;
use super::{News, VERSION};
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE};
use reqwest::Url;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::Authorities;
use tenure::engine::Clients;
use tenure_core::causes;
use tokio::select;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

/// So many leaders are watched at a time, where a process has many elections, and so many at one address, whose places are
/// for others too. The others are polled.
const PLACES: usize = 32;
const PLACES_AT_ONE: usize = 12;

/// The longest until a stream begins.
const PATIENCE: Duration = Duration::from_secs(10);

/// A candidate that was silent for so long is gone.
const LOST: Duration = Duration::from_secs(3 * SILENCE.as_secs());

/// Before it is asked again; doubling each time, up to the other.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// A stream that lasted for so long was well.
const WELL: Duration = Duration::from_secs(30);

/// So many bytes may come at once, and so many in each second after that. A candidate sends some hundred at
/// each renewal, or beat: up to six in a second.
const MOST_BYTES: u64 = 64 * 1024;
const BYTES_A_SECOND: u64 = 16 * 1024;

/// No candidate's line is longer.
const LONGEST_LINE: usize = 16 * 1024;

/// Of no candidate's stream are so many changes told.
const MOST_CHANGES: u32 = 16;

/// So many addresses are remembered that could not be watched.
const REMEMBERED: usize = 64;

/// Watches the leaders of a process's candidates, so that followers notice a change before their next poll.
pub struct Watcher {
    clients: Clients,
    places: Semaphore,
    /// Those of each address.
    of: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// How a stream ended.
enum End {
    /// There was none, or none of a candidate's; why.
    Refused(String),
    /// Too many others watch there.
    Full,
    /// It broke off.
    Lost,
    /// The other side ended it in good order.
    Over,
}

impl Watcher {
    /// Creates a watcher that trusts `authorities` in addition to those of the platform.
    #[must_use]
    pub fn new(authorities: Authorities) -> Self {
        let clients = Clients::direct(authorities);
        Self { clients, places: Semaphore::new(PLACES), of: Mutex::default() }
    }

    /// The places of an address.
    fn places_of(&self, address: &str) -> Arc<Semaphore> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody has, or waits for, one of these.
        of.retain(|_, places| Arc::strong_count(places) > 1);
        let places = of.entry(address.to_owned());
        places.or_insert_with(|| Arc::new(Semaphore::new(PLACES_AT_ONE))).clone()
    }

    /// Watches the leader that the candidate of `board` follows, and notifies `hints` of changes. Calls `tell` once for
    /// each address that cannot be watched. Runs until it is dropped.
    pub async fn run(&self, board: Arc<Board>, hints: Arc<Notify>, tell: impl Fn(String)) {
        let mut changed = board.changes();
        let mut told = BTreeSet::new();
        loop {
            changed.mark_unchanged();
            let Some(leader) = board.followed() else {
                if changed.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let once = |why: String| {
                if told.len() == REMEMBERED {
                    told.clear();
                }
                if told.insert(leader.address.clone()) {
                    let Followed { name, address, .. } = &leader;
                    tell(format!(
                        "cannot watch {name} at {address}: {why}. This candidate polls instead, so a handover may \
                         take one poll longer. Check the leader's --address and the network between them"
                    ));
                }
            };
            select! {
                () = self.watch(&leader, &board, &hints, once) => {}
                () = replaced(&leader, &board, &mut changed) => {}
            }
        }
    }

    /// Watches one leader, again and again.
    async fn watch(
        &self,
        leader: &Followed,
        board: &Board,
        hints: &Notify,
        mut tell: impl FnMut(String),
    ) {
        let Some(at) = listener(&leader.address) else {
            // It is for people, who can read it.
            return std::future::pending().await;
        };
        let url = endpoint(&at, "watch", Some(&board.election));
        let (mut pause, mut watched) = (FIRST_PAUSE, false);
        let there = self.places_of(&leader.address);
        loop {
            // Never closed.
            let Ok(at_that) = there.acquire().await else { return };
            let Ok(place) = self.places.acquire().await else { return };
            let began = Instant::now();
            match self.listen(url.clone(), leader, board, hints).await {
                Ok(End::Refused(why)) | Err(why) if !watched => tell(why),
                Ok(End::Refused(_) | End::Full) | Err(_) => {}
                Ok(End::Lost) => {
                    watched = true;
                    hints.notify_one();
                }
                Ok(End::Over) => watched = true,
            }
            drop((place, at_that));
            if began.elapsed() >= WELL {
                pause = FIRST_PAUSE;
            }
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    async fn listen(
        &self,
        url: Url,
        leader: &Followed,
        board: &Board,
        hints: &Notify,
    ) -> Result<End, String> {
        let client = self.clients.get(&url)?;
        let request = client.get(url).header(ACCEPT, "text/event-stream").send();
        let asked = timeout(PATIENCE, request).await;
        let asked = asked.map_err(|_| format!("no answer within {PATIENCE:?}"))?;
        let mut response = asked.map_err(|error| causes(&error.without_url()))?;
        let kind = response.headers().get(CONTENT_TYPE);
        let is = |known: &[u8]| kind.is_some_and(|kind| kind.as_bytes().starts_with(known));
        // A proxy without anybody behind it answers with the same status.
        if response.status() == StatusCode::SERVICE_UNAVAILABLE && is(b"application/json") {
            return Ok(End::Full);
        }
        if response.status() != StatusCode::OK || !is(b"text/event-stream") {
            let status = response.status().as_u16();
            return Ok(End::Refused(format!("HTTP {status} instead of an event stream")));
        }
        let mut reader = Reader::new(leader, board);
        let began = Instant::now();
        loop {
            match timeout(LOST, response.chunk()).await {
                Ok(Ok(Some(bytes))) => match reader.read(&bytes, began.elapsed()) {
                    Ok(true) => hints.notify_one(),
                    Ok(false) => {}
                    Err(why) => return Ok(End::Refused(why.to_owned())),
                },
                _ if !reader.has_read => {
                    return Ok(End::Refused("the stream was silent".to_owned()));
                }
                Ok(Ok(None)) => return Ok(End::Over),
                Ok(Err(_)) | Err(_) => return Ok(End::Lost),
            }
        }
    }
}

/// Completes when the candidate does not follow that leader any more.
async fn replaced(leader: &Followed, board: &Board, changed: &mut watch::Receiver<()>) {
    while board.followed().as_ref() == Some(leader) {
        if changed.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// What matters to a follower in the news of its leader.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sign {
    /// It leads under the term that is known.
    leads: bool,
    /// It hands over to this follower.
    hands_over: bool,
    /// The lease of that term is free, or another's.
    released: bool,
}

/// Nothing has changed.
const QUIET: Sign = Sign { leads: true, hands_over: false, released: false };

/// Reads one stream, whoever wrote it.
struct Reader<'a> {
    leader: &'a Followed,
    election: &'a str,
    own_name: &'a str,
    line: Vec<u8>,
    bytes: u64,
    changes: u32,
    last: Sign,
    has_read: bool,
}

impl<'a> Reader<'a> {
    fn new(leader: &'a Followed, board: &'a Board) -> Self {
        Self {
            leader,
            election: &board.election,
            own_name: &board.candidate,
            line: Vec::new(),
            bytes: 0,
            changes: 0,
            last: QUIET,
            has_read: false,
        }
    }

    /// Takes bytes, so long after the stream began. True: there is reason to poll. An error: no candidate
    /// writes that.
    fn read(&mut self, bytes: &[u8], elapsed: Duration) -> Result<bool, &'static str> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > MOST_BYTES + BYTES_A_SECOND * elapsed.as_secs() {
            return Err("the stream is longer than a candidate sends");
        }
        let mut news = false;
        for byte in bytes {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    news |= self.take(&line)?;
                }
                _ if self.line.len() == LONGEST_LINE => {
                    return Err("a line is longer than a candidate sends");
                }
                byte => self.line.push(*byte),
            }
        }
        Ok(news)
    }

    /// Takes a line: comments, empty lines and all fields but `data` tell nothing.
    fn take(&mut self, line: &[u8]) -> Result<bool, &'static str> {
        let Some(data) = line.strip_prefix(b"data:") else { return Ok(false) };
        let news: News = serde_json::from_slice(data)
            .map_err(|_| "the stream does not come from a candidate")?;
        if news.version != VERSION {
            return Err("the stream has another version");
        }
        if news.candidate != self.leader.name || news.election != self.election {
            return Err("another candidate answers there");
        }
        self.has_read = true;
        let term = self.leader.term;
        let sign = Sign {
            leads: news.leading && news.leader.is_some_and(|leader| leader.term == term),
            hands_over: news.handing_over_to.is_some_and(|to| to == self.own_name),
            released: news.ended.is_some_and(|ended| ended.term == term && ended.released),
        };
        let changed = sign != std::mem::replace(&mut self.last, sign);
        self.changes += u32::from(changed);
        if self.changes > MOST_CHANGES {
            return Err("the stream has more changes than a candidate sends");
        }
        Ok(changed && sign != QUIET)
    }
}

/// Returns true if a follower accepts these bytes as the stream of its leader `ada`. For fuzzing.
#[must_use]
pub fn accepts_stream(bytes: &[u8]) -> bool {
    let leader = Followed { name: "ada".into(), term: 7, address: String::new() };
    let mut reader = Reader {
        leader: &leader,
        election: "leases/leader",
        own_name: "ben",
        line: Vec::new(),
        bytes: 0,
        changes: 0,
        last: QUIET,
        has_read: false,
    };
    reader.read(bytes, Duration::ZERO).is_ok()
}

/// Parses the address of a listener. None: it is not an HTTP URL without credentials.
#[must_use]
pub fn listener(text: &str) -> Option<Url> {
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
pub fn endpoint(at: &Url, path: &str, election: Option<&str>) -> Url {
    let mut url = at.clone();
    let base = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{base}/{path}"));
    if let Some(election) = election {
        url.query_pairs_mut().append_pair("election", election);
    }
    url
}

#[cfg(test)]
mod tests;
