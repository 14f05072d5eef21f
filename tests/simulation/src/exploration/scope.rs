//! What is explored, and how far.

use std::time::Duration;

use chrono::TimeDelta;
use tenure_azure::{ETag, LeaseId, Operation};
use tenure_core::{LastSlot, Record, Settings, Timestamp};
use tenure_store::{Account, Request, Service};

use super::known::{Hashed, Memo, digest};
use super::oracle::{Invariant, Validity};
use super::process::Process;
use super::state::RequestInFlight;
use super::step::Reply;
use super::time::{Instant, service_time, lease_duration, instant, wall_time};

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many candidates there are, 1 to 3. They start together.
    pub candidates: usize,
    /// How many disturbances there are on one path at most.
    pub disturbances: u8,
    /// How often an operator has a leader hand over on one path at most.
    pub orders: u8,
    /// How many seconds of virtual time a path takes at most.
    pub seconds: Instant,
    /// How many seconds lie between two instants, 1 or 2: what is due between them waits for the later one.
    pub tick: Instant,
    /// How many actions a path has at most.
    pub depth: usize,
}

/// What candidates find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Not even a container.
    Nothing,
    /// A blob with the record of a leader that has left.
    Record,
}

/// What is wrong on purpose, so that the oracle can be seen to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The host does not stop a handler at its deadline.
    NoDeadline,
    /// Acquire and record writes carry no condition that could fail.
    NoCondition,
    /// A process that starts again gets the state of its predecessor.
    OldState,
}

/// All that does not change on a path.
#[derive(Debug)]
pub struct Scope {
    pub(super) bounds: Bounds,
    pub(super) start: Start,
    pub(super) flaw: Option<Flaw>,
    /// The only invariant that is judged; none: all are.
    pub(super) only_invariant: Option<Invariant>,
    /// Of each candidate. Steps borrow them, and are copied all the time.
    pub(super) settings: &'static [Settings],
    /// They differ in nothing but their names.
    pub(super) interchangeable: bool,
    pub(super) moves: Memo<(Hashed<Process>, Option<RequestInFlight>, bool)>,
    pub(super) answers: Memo<(Hashed<Service>, Reply)>,
}

impl Scope {
    /// With nothing wrong and every invariant judged.
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

    /// With something wrong, and one invariant judged.
    #[must_use]
    pub fn with_flaw(self, flaw: Flaw, only_invariant: Invariant) -> Self {
        Self { flaw: Some(flaw), ..self.checking_only(only_invariant) }
    }

    /// With one invariant judged.
    #[must_use]
    pub fn checking_only(mut self, only_invariant: Invariant) -> Self {
        self.only_invariant = Some(only_invariant);
        self
    }

    /// With candidates that beat when they lead, and replace a leader that does not any more: each within so
    /// many milliseconds. protocol.md §13.
    #[must_use]
    pub fn with_failover(mut self, failover_ms: &[u32]) -> Self {
        assert_eq!(failover_ms.len(), self.bounds.candidates);
        let bounds: Vec<_> = failover_ms.iter().copied().map(Some).collect();
        self.settings = settings(&bounds);
        self.interchangeable = failover_ms.iter().all(|failover| *failover == failover_ms[0]);
        self
    }

    /// Whether leaders beat.
    pub(super) fn beats(&self) -> bool {
        self.settings.iter().all(|settings| settings.timings.failover.is_some())
    }

    /// How long the service holds a lease of this candidate.
    pub(super) fn lease_duration(&self, candidate: usize) -> Instant {
        lease_duration(self.settings[candidate].timings.lease)
    }

    /// How long this candidate may act, up to the instant at which its host stops it.
    pub(super) fn validity(&self, candidate: usize) -> Validity {
        let timings = &self.settings[candidate].timings;
        Validity {
            lease: self.instant(timings.lease - timings.margin),
            beat: timings.failover.map(|failover| self.instant(failover.validity())),
        }
    }

    /// The first instant that is not before `moment`.
    pub(super) fn instant(&self, moment: Duration) -> Instant {
        instant(moment, self.bounds.tick)
    }

    pub(super) fn name(&self, candidate: usize) -> &'static str {
        NAMES[candidate]
    }

    /// The name in an order to hand over. An only candidate is ordered to hand over to one that is not there.
    pub(super) fn other_name(&self, candidate: usize) -> &'static str {
        self.name((candidate + 1) % self.bounds.candidates.max(2))
    }

    /// The request as it goes out.
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

    /// The store as candidates find it.
    pub(super) fn service(&self) -> Service {
        let mut service = Service::new(vec![Account::emulator()], 0);
        if self.start == Start::Record {
            let lease = LeaseId::from_random([0xff; 16]);
            for operation in [
                Operation::CreateContainer,
                Operation::CreateBlob,
                Operation::Acquire { lease, seconds: 15, if_match: None },
                Operation::WriteMetadata { lease, if_match: any_etag(), metadata: former_record().to_metadata() },
                Operation::Release { lease },
            ] {
                let answer = service.handle(service_time(0), &self.request(0, &operation, 0));
                assert!(answer.status < 300, "{operation:?}: {answer:?}");
            }
        }
        service
    }
}

/// A condition that every blob meets.
fn any_etag() -> ETag {
    ETag("*".into())
}

/// The record of a leader that left a minute ago.
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

/// Of candidates that beat or do not: how soon each replaces a leader that does not any more, in milliseconds.
fn settings(failovers: &[Option<u32>]) -> &'static [Settings] {
    let settings = NAMES.iter().zip(failovers).map(|(name, failover)| setting(name, *failover));
    Vec::leak(settings.collect())
}

/// The default timings. A timer so short that a leader has work as soon as it can. Leases of leaders that beat
/// last for a minute: they are renewed more often than by default, so that renewals come between beats.
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
        variables.iter().find(|(name, _)| *name == name).map(|(_, value)| value.clone())
    };
    Settings::read(find).expect("these settings are right")
}
