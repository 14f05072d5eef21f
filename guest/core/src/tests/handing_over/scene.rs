//! One small service and its candidates.

use super::*;

/// The blob of an election, its side blobs, and the holder of its lease.
#[derive(Default)]
pub struct Service {
    pub holder: Option<LeaseId>,
    pub record: Metadata,
    pub version: u32,
    pub successor: Option<(Metadata, Moment)>,
    /// The version of the announcement.
    pub announcement_version: u32,
    /// Period of the newest acquire.
    pub seconds: u32,
    /// Each id that ever held the lease, in order.
    pub lease_ids: Vec<LeaseId>,
    /// The orders, and their tag.
    pub orders: Option<(Metadata, u32)>,
    /// True if no write of the record arrives.
    pub loses_writes: bool,
    /// True if side blobs may not be written.
    pub forbids_side_blobs: bool,
    pub reads_announcements: u32,
    /// Number of polls of a successor that the service answers as busy.
    pub busy: u32,
    /// Number of polls without a lease id that the service answers as busy.
    pub busy_for_followers: u32,
    /// True if no change of the lease arrives.
    pub loses_changes: bool,
    /// True if the leader cannot see announcements.
    pub hides_announcements: bool,
    /// True if a lease ends without renewal.
    pub expires: bool,
    pub until: Moment,
}

impl Service {
    pub fn hold(&mut self, lease: LeaseId) {
        self.holder = Some(lease);
        self.lease_ids.push(lease);
    }

    pub fn serve(&mut self, operation: &Operation, at: Moment) -> Reply {
        if self.expires && at > self.until {
            self.holder = None;
        }
        let reply = self.answer(operation, at);
        let takes_lease = matches!(operation, Operation::Acquire { .. } | Operation::Renew { .. });
        if takes_lease && reply.as_ref().is_ok_and(|answer| answer.status < 300) {
            self.until = at + Duration::from_secs(self.seconds.into());
        }
        reply
    }

    pub fn answer(&mut self, operation: &Operation, at: Moment) -> Reply {
        let version = format!("\"{}\"", self.version);
        let etag = ("etag", version.as_str());
        let mismatch = |o| error_answer(o, at, 412, "LeaseIdMismatchWithBlobOperation");
        match operation {
            Operation::Read { lease: Some(_) } if self.busy > 0 => {
                self.busy -= 1;
                error_answer(operation, at, 503, "ServerBusy")
            }
            Operation::Read { lease: None } if self.busy_for_followers > 0 => {
                self.busy_for_followers -= 1;
                error_answer(operation, at, 503, "ServerBusy")
            }
            Operation::Read { lease: Some(lease) } if self.holder != Some(*lease) => {
                mismatch(operation)
            }
            Operation::Read { .. } => {
                let state = if self.holder.is_some() { "leased" } else { "available" };
                side_blob_answer(operation, at, state, etag, &self.record, at)
            }
            Operation::Acquire { lease, seconds, .. } if self.holder == Some(*lease) => {
                self.seconds = *seconds;
                answer(operation, at, 201, &[("x-ms-lease-id", &lease.to_string()), etag])
            }
            Operation::Acquire { .. } if self.holder.is_some() => {
                error_answer(operation, at, 409, "LeaseAlreadyPresent")
            }
            Operation::Acquire { lease, seconds, .. } => {
                self.seconds = *seconds;
                self.hold(*lease);
                answer(operation, at, 201, &[("x-ms-lease-id", &lease.to_string()), etag])
            }
            Operation::Renew { lease } if self.holder == Some(*lease) => {
                answer(operation, at, 200, &[("x-ms-lease-id", &lease.to_string()), etag])
            }
            Operation::Change { .. } if self.loses_changes => failure(FailureKind::Reset),
            Operation::Change { lease, proposed: to } if self.holder == Some(*lease) => {
                self.hold(*to);
                answer(operation, at, 200, &[("x-ms-lease-id", &to.to_string()), etag])
            }
            Operation::Release { lease } if self.holder == Some(*lease) => {
                self.holder = None;
                answer(operation, at, 200, &[etag])
            }
            Operation::WriteMetadata { .. } if self.loses_writes => failure(FailureKind::Reset),
            Operation::WriteMetadata { lease, if_match, metadata }
                if self.holder == Some(*lease) && if_match.0 == version =>
            {
                self.record = metadata.clone();
                self.version += 1;
                answer(operation, at, 200, &[("etag", &format!("\"{}\"", self.version))])
            }
            Operation::ReadSideBlob(_) if self.hides_announcements => {
                error_answer(operation, at, 503, "ServerBusy")
            }
            Operation::ReadSideBlob(SideBlob::Successor) => {
                self.reads_announcements += 1;
                match &self.successor {
                    Some((metadata, when)) => {
                        let tag = format!("\"h{}\"", self.announcement_version);
                        side_blob_answer(
                            operation,
                            at,
                            "available",
                            ("etag", &tag),
                            metadata,
                            *when,
                        )
                    }
                    None => error_answer(operation, at, 404, "BlobNotFound"),
                }
            }
            Operation::ReadSideBlob(SideBlob::Orders) => match &self.orders {
                Some((metadata, tag)) => {
                    let tag = format!("\"o{tag}\"");
                    side_blob_answer(operation, at, "available", ("etag", &tag), metadata, at)
                }
                None => error_answer(operation, at, 404, "BlobNotFound"),
            },
            Operation::WriteSideBlob { blob: SideBlob::Orders, replaces: over, metadata } => {
                let tag = self.orders.as_ref().map(|(_, tag)| format!("\"o{tag}\""));
                if over.as_ref().map(|tag| tag.0.clone()) != tag {
                    return error_answer(operation, at, 412, "ConditionNotMet");
                }
                let next = self.orders.as_ref().map_or(1, |(_, tag)| tag + 1);
                self.orders = Some((metadata.clone(), next));
                answer(operation, at, 201, &[("etag", &format!("\"o{next}\""))])
            }
            Operation::WriteSideBlob { .. } if self.forbids_side_blobs => {
                error_answer(operation, at, 403, "AuthorizationPermissionMismatch")
            }
            Operation::WriteSideBlob { replaces: over, .. }
                if over.as_ref().is_none_or(|tag| tag.0 != "*")
                    && over.as_ref().map(|tag| tag.0.clone())
                        != self
                            .successor
                            .as_ref()
                            .map(|_| format!("\"h{}\"", self.announcement_version)) =>
            {
                error_answer(operation, at, 412, "ConditionNotMet")
            }
            Operation::WriteSideBlob { blob: SideBlob::Successor, metadata, .. } => {
                self.successor = Some((metadata.clone(), at));
                self.announcement_version += 1;
                answer(
                    operation,
                    at,
                    201,
                    &[("etag", &format!("\"h{}\"", self.announcement_version))],
                )
            }
            other => error_answer(other, at, 409, "LeaseIdMismatchWithLeaseOperation"),
        }
    }
}

pub fn side_blob_answer(
    operation: &Operation,
    at: Moment,
    state: &str,
    etag: (&'static str, &str),
    metadata: &Metadata,
    modified: Moment,
) -> Reply {
    let names: Vec<String> = metadata.iter().map(|(name, _)| format!("x-ms-meta-{name}")).collect();
    let modified = tenure_azure::encoding::format_http_date(instant(modified));
    let mut headers = vec![
        etag,
        ("x-ms-lease-state", state),
        ("content-length", "0"),
        ("last-modified", modified.as_str()),
    ];
    headers.extend(names.iter().map(String::as_str).zip(metadata.iter().map(|(_, value)| value)));
    answer(operation, at, 200, &headers)
}

pub fn candidate_named(name: &'static str, more: &[(&str, &'static str)]) -> Candidate {
    let mut variables = vec![(variable::NAME, name)];
    variables.extend(more.iter().map(|(name, value)| (*name, *value)));
    Candidate::new(&variables.iter().map(|(n, v)| (*n, *v)).collect::<Vec<_>>())
}

/// Candidates of one election, in one virtual time.
pub struct Scene {
    pub service: Service,
    pub candidates: Vec<(Candidate, Moment, Role)>,
    pub endings: Vec<(String, Ending)>,
    pub problems: Vec<(String, Problem)>,
    pub steps: u32,
}

impl Scene {
    /// Creates a scene in which the first candidate leads.
    pub fn new(candidates: Vec<Candidate>) -> Self {
        let start = candidates[0].now;
        let candidates = (1..).zip(candidates).map(|(seed, mut candidate)| {
            candidate.chance = Counter(seed);
            (candidate, start, Role::Undecided)
        });
        let candidates = candidates.collect();
        let service = Service::default();
        let mut scene =
            Self { service, candidates, endings: Vec::new(), problems: Vec::new(), steps: 0 };
        scene.service.record = incumbent(9);
        scene.run(seconds(8));
        assert_eq!(scene.leader().as_deref(), Some("first"));
        scene
    }

    pub fn now(&self) -> Moment {
        self.candidates.iter().map(|(candidate, ..)| candidate.now).max().unwrap_or_default()
    }

    pub fn leader(&self) -> Option<String> {
        let mut leading = self.candidates.iter().filter(|(.., s)| matches!(s, Role::Leading(_)));
        let name = leading.next().map(|(candidate, ..)| candidate.settings.name.clone());
        assert!(leading.next().is_none(), "two lead");
        name
    }

    pub fn step(&mut self, index: usize, event: Option<Event>) -> Report {
        self.steps += 1;
        let now = self.now();
        let (candidate, next, role) = &mut self.candidates[index];
        candidate.now = now;
        let service = &mut self.service;
        candidate.orders = service.orders.as_ref().map(|(orders, _)| orders.clone());
        let report = candidate.step(event, |operation, at| service.serve(operation, at));
        let name = candidate.settings.name.clone();
        *next = now + report.again_in;
        *role = report.role.clone();
        self.endings.extend(report.ending.map(|ending| (name.clone(), ending)));
        self.problems.extend(report.problems.iter().map(|problem| (name.clone(), problem.clone())));
        report
    }

    /// Runs due steps for this span.
    pub fn run(&mut self, span: Duration) {
        let end = self.now() + span;
        let most = self.steps + 20_000;
        loop {
            assert!(self.steps < most, "steps without end");
            let next = (0..self.candidates.len()).min_by_key(|index| self.candidates[*index].1);
            let index = next.unwrap();
            let due = self.candidates[index].1;
            if due > end {
                self.candidates.iter_mut().for_each(|(candidate, ..)| candidate.now = end);
                return;
            }
            let now = self.now().max(due);
            self.candidates.iter_mut().for_each(|(candidate, ..)| candidate.now = now);
            self.step(index, None);
        }
    }

    pub fn hand_over(&mut self, to: &str) -> Report {
        self.step(0, Some(Event::HandOver(to.into())))
    }
}

pub fn scene(names: [&'static str; 3]) -> Scene {
    let [first, second, third] = names;
    Scene::new(vec![
        candidate_named(first, &[]),
        candidate_named(second, &[]),
        candidate_named(third, &[]),
    ])
}
