//! Scope and bounds of an exploration.

use std::time::Duration;

use chrono::TimeDelta;
use tenure_azure::{ETag, LeaseId, Operation};
use tenure_core::{LastSlot, Record, Settings, Timestamp};
use tenure_store::{Account, Request, Service};

use super::hashed::{Hashed, Memo, digest};
use super::oracle::{Invariant, Validity};
use super::process::Process;
use super::state::RequestInFlight;
use super::step::Reply;
use super::time::{Instant, instant, lease_duration, service_time, wall_time};

/// Bounds of an exploration.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Number of candidates, 1 to 3. They start together.
    pub candidates: usize,
    /// Maximum number of disturbances on a path.
    pub disturbances: u8,
    /// Maximum number of handover orders on a path.
    pub orders: u8,
    /// Maximum virtual time of a path, in seconds.
    pub seconds: Instant,
    /// Seconds between two instants, 1 or 2. Work that is due between them waits for the later one.
    pub tick: Instant,
    /// Maximum number of actions on a path.
    pub depth: usize,
}

/// Initial state of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// An empty account, without a container.
    Nothing,
    /// A blob with the record of a leader that has left.
    Record,
}

/// Deliberate flaw, to prove that the oracle detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The host does not stop a handler at its deadline.
    NoDeadline,
    /// Acquire and record writes have no effective condition.
    NoCondition,
    /// A process that restarts gets the state of its predecessor.
    OldState,
}

/// Constants of an exploration.
#[derive(Debug)]
pub struct Scope {
    pub(super) bounds: Bounds,
    pub(super) start: Start,
    pub(super) flaw: Option<Flaw>,
    /// Invariant to check; `None` for all.
    pub(super) only_invariant: Option<Invariant>,
    /// Settings of each candidate. Leaked, because steps borrow them and are copied often.
    pub(super) settings: &'static [Settings],
    /// True if the candidates only differ in their names.
    pub(super) interchangeable: bool,
    pub(super) moves: Memo<(Hashed<Process>, Option<RequestInFlight>, bool)>,
    pub(super) answers: Memo<(Hashed<Service>, Reply)>,
}

impl Scope {
    /// Creates a scope without a flaw that checks every invariant.
    pub fn new(bounds: Bounds, start: Start) -> Self {
        Self {
            bounds,
            start,
            flaw: None,
            only_invariant: None,
            settings: settings(&[None; NAMES.len()][..bounds.candidates]),
            interchangeable: true,
            moves: Memo::default(),
            answers: Memo::default(),
        }
    }

    /// Adds a flaw, and restricts checks to one invariant.
    #[must_use]
    pub fn with_flaw(self, flaw: Flaw, only_invariant: Invariant) -> Self {
        Self { flaw: Some(flaw), ..self.checking_only(only_invariant) }
    }

    /// Restricts checks to one invariant.
    #[must_use]
    pub fn checking_only(mut self, only_invariant: Invariant) -> Self {
        self.only_invariant = Some(only_invariant);
        self
    }

    /// Makes candidates beat when they lead, and replace a leader that stopped beating (protocol.md
    /// §13).
    ///
    /// Takes one failover window per candidate, in milliseconds.
    #[must_use]
    pub fn with_failover(mut self, failover_ms: &[u32]) -> Self {
        assert_eq!(failover_ms.len(), self.bounds.candidates);
        let bounds: Vec<_> = failover_ms.iter().copied().map(Some).collect();
        self.settings = settings(&bounds);
        self.interchangeable = failover_ms.iter().all(|failover| *failover == failover_ms[0]);
        self
    }

    /// Returns true if leaders beat.
    pub(super) fn beats(&self) -> bool {
        self.settings.iter().all(|settings| settings.timings.failover.is_some())
    }

    /// Returns the time that the service holds a lease of this candidate.
    pub(super) fn lease_duration(&self, candidate: usize) -> Instant {
        lease_duration(self.settings[candidate].timings.lease)
    }

    /// Returns the time that this candidate may act, up to the instant at which its host stops it.
    pub(super) fn validity(&self, candidate: usize) -> Validity {
        let timings = &self.settings[candidate].timings;
        Validity {
            lease: self.instant(timings.lease - timings.margin),
            beat: timings.failover.map(|failover| self.instant(failover.validity())),
        }
    }

    /// Returns the first instant that is not before `moment`.
    pub(super) fn instant(&self, moment: Duration) -> Instant {
        instant(moment, self.bounds.tick)
    }

    pub(super) fn name(&self, candidate: usize) -> &'static str {
        NAMES[candidate]
    }

    /// Returns the name for a handover order. A single candidate gets the name of a missing one.
    pub(super) fn other_name(&self, candidate: usize) -> &'static str {
        self.name((candidate + 1) % self.bounds.candidates.max(2))
    }

    /// Returns the request as sent.
    pub(super) fn request(
        &self,
        candidate: usize,
        operation: &Operation,
        now: Instant,
    ) -> Hashed<Request> {
        let settings = &self.settings[candidate];
        let mut operation = operation.clone();
        if self.flaw == Some(Flaw::NoCondition) {
            match &mut operation {
                Operation::Acquire { if_match, .. } => *if_match = Some(any_etag()),
                Operation::WriteMetadata { if_match, .. } => *if_match = any_etag(),
                _ => {}
            }
        }
        let (account, election) = (&settings.account, &settings.election);
        let sent = operation.request(account, election, wall_time(now), 3, account.authorization());
        let request = Request {
            method: sent.method.as_str().into(),
            target: sent.path_and_query,
            headers: sent.headers,
            ..Request::default()
        };
        let digest = digest(&(&request.method, &request.target, &request.headers));
        Hashed::with_digest(request, digest)
    }

    /// Returns the initial state of the store.
    pub(super) fn service(&self) -> Service {
        let mut service = Service::new(vec![Account::emulator()], 0);
        if self.start == Start::Record {
            let lease = LeaseId::from_random([0xff; 16]);
            for operation in [
                Operation::CreateContainer,
                Operation::CreateBlob,
                Operation::Acquire { lease, seconds: 15, if_match: None },
                Operation::WriteMetadata {
                    lease,
                    if_match: any_etag(),
                    metadata: former_record().to_metadata(),
                },
                Operation::Release { lease },
            ] {
                let answer = service.handle(service_time(0), &self.request(0, &operation, 0));
                assert!(answer.status < 300, "{operation:?}: {answer:?}");
            }
        }
        service
    }
}

/// Returns a condition that every blob meets.
fn any_etag() -> ETag {
    ETag("*".into())
}

/// Returns the record of a leader that left a minute ago.
fn former_record() -> Record {
    let left_at = Timestamp::from_date(wall_time(0) - TimeDelta::minutes(1));
    Record {
        term: left_at.seconds(),
        leader: "former".into(),
        nonce: u64::MAX,
        since: left_at,
        schedule: Some("every 1s".into()),
        last_slot: Some(LastSlot { slot: left_at, attempt: 1 }),
        ..Record::default()
    }
}

const NAMES: [&str; 3] = ["ada", "ben", "cyd"];

/// Returns the settings for these failover windows, in milliseconds; `None` for a candidate that
/// does not beat.
fn settings(failovers: &[Option<u32>]) -> &'static [Settings] {
    let settings = NAMES.iter().zip(failovers).map(|(name, failover)| setting(name, *failover));
    Vec::leak(settings.collect())
}

/// Returns the default timings with a timer so short that a leader quickly has work.
///
/// Leases of leaders that beat last for a minute. They are renewed more often than by default, so
/// that renewals come between beats.
fn setting(name: &str, failover: Option<u32>) -> Settings {
    let mut variables = vec![
        ("TENURE_ELECTION", "leases/leader".to_string()),
        ("TENURE_NAME", name.to_string()),
        ("TENURE_EVERY", "1s".to_string()),
        ("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true".to_string()),
    ];
    if let Some(failover_ms) = failover {
        variables.push(("TENURE_FAILOVER", format!("{failover_ms}ms")));
        variables.push(("TENURE_RENEW", "5s".to_string()));
    }
    let find = |name: &str| {
        variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.clone())
    };
    Settings::read(find).expect("these settings are right")
}
