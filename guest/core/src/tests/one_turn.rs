//! Invocations that are one whole turn, on a blob that keeps what is written to it.

use super::*;

const EVERY_10M: &[(&str, &str)] = &[(variable::EVERY, "10m")];

/// The blob and its lease.
#[derive(Default)]
pub(super) struct Blob {
    metadata: Option<Metadata>,
    etag: u32,
    /// Who holds it, and until when.
    lease: Option<(LeaseId, Moment)>,
    asked: Vec<&'static str>,
    /// Requests of this name are refused.
    refused: Option<&'static str>,
}

impl Blob {
    /// One that had a leader, whose newest slot was claimed long ago.
    fn with_record(record: Record) -> Self {
        Self { metadata: Some(record.write()), etag: 1, ..Self::default() }
    }

    fn holder(&self, at: Moment) -> Option<LeaseId> {
        self.lease.filter(|(_, until)| at < *until).map(|(lease, _)| lease)
    }

    pub(super) fn answer(&mut self, operation: &Operation, at: Moment) -> Reply {
        self.asked.push(operation.name());
        if self.refused == Some(operation.name()) {
            return refusal(operation, at, 403, "AuthorizationFailure");
        }
        let holder = self.holder(at);
        let tag = format!("\"{}\"", self.etag);
        let done = |status, lease: &LeaseId| {
            answer(operation, at, status, &[("x-ms-lease-id", &lease.to_string()), ("etag", &tag)])
        };
        match operation {
            Operation::Read { .. } => match (&self.metadata, holder) {
                (None, _) => refusal(operation, at, 404, "BlobNotFound"),
                (Some(metadata), None) => self.seen(operation, at, "available", metadata),
                (Some(metadata), Some(_)) => self.seen(operation, at, "leased", metadata),
            },
            Operation::CreateBlob if self.metadata.is_none() => {
                (self.metadata, self.etag) = (Some(Metadata::default()), 1);
                answer(operation, at, 201, &[("etag", "\"1\"")])
            }
            Operation::CreateBlob => refusal(operation, at, 409, "BlobAlreadyExists"),
            Operation::Acquire { if_match: Some(etag), .. } if etag.0 != tag => {
                refusal(operation, at, 412, "ConditionNotMet")
            }
            Operation::Acquire { lease, seconds: length, .. } if holder.is_none() => {
                self.lease = Some((*lease, at + seconds((*length).into())));
                done(201, lease)
            }
            Operation::Acquire { .. } => refusal(operation, at, 409, "LeaseAlreadyPresent"),
            Operation::WriteMetadata { lease, .. } if holder != Some(*lease) => {
                refusal(operation, at, 412, "LeaseIdMismatchWithBlobOperation")
            }
            Operation::WriteMetadata { if_match, .. } if if_match.0 != tag => {
                refusal(operation, at, 412, "ConditionNotMet")
            }
            Operation::WriteMetadata { metadata, .. } => {
                (self.metadata, self.etag) = (Some(metadata.clone()), self.etag + 1);
                answer(operation, at, 200, &[("etag", &format!("\"{}\"", self.etag))])
            }
            Operation::Release { lease } if holder == Some(*lease) => {
                self.lease = None;
                done(200, lease)
            }
            Operation::Renew { lease } if holder == Some(*lease) => {
                self.lease = Some((*lease, at + seconds(15)));
                done(200, lease)
            }
            Operation::Release { .. } | Operation::Renew { .. } => {
                refusal(operation, at, 409, "LeaseIdMismatch")
            }
            Operation::ReadSideBlob(_) => refusal(operation, at, 404, "BlobNotFound"),
            other => panic!("{other:?}"),
        }
    }

    fn seen(&self, operation: &Operation, at: Moment, state: &str, metadata: &Metadata) -> Reply {
        let Ok(mut answer) = seen(operation, at, state, metadata) else { panic!() };
        answer.etag = Some(tenure_azure::operation::ETag(format!("\"{}\"", self.etag)));
        Ok(answer)
    }

    pub(super) fn record(&self) -> Record {
        Record::read(self.metadata.as_ref().unwrap()).unwrap().unwrap()
    }
}

/// One that had a leader before, and whose slots up to 07:00 were claimed.
fn before() -> Record {
    Record {
        term: 9,
        leader: "there".into(),
        nonce: 1,
        last: Some(LastSlot { slot: Timestamp::parse(ORIGIN).unwrap(), attempt: 1 }),
        ..Record::default()
    }
}

/// An invocation, which may be stopped at any request and gone on with later.
struct Invocation {
    settings: &'static Settings,
    now: Moment,
    chance: Counter,
    turn: OneTurn<'static>,
    /// Its own time, by the two clocks of its machine.
    own: OwnTime,
    /// By how much the wall clock was set forward, and after which request.
    set: (&'static str, Duration),
    /// A step that is not over, and how it was begun.
    step: Option<(Step<'static>, Begins)>,
    result: Option<Turned>,
    /// Turns that were run.
    ran: Vec<Turn>,
    /// How long the handler takes, and what it returns.
    work: (Duration, Result<(), String>),
}

impl Invocation {
    fn at(now: Moment, seed: u64, more: &[(&str, &str)]) -> Self {
        let mut variables = BTreeMap::from([
            (variable::ELECTION, "leases/leader"),
            (variable::CONNECTION_STRING, "UseDevelopmentStorage=true"),
        ]);
        variables.extend(more.iter().copied());
        let settings = Settings::one_shot(|name: &str| variables.get(name).map(|v| v.to_string()));
        let settings: &'static Settings = Box::leak(Box::new(settings.unwrap()));
        Self {
            settings,
            now,
            chance: Counter(seed),
            turn: OneTurn::begin(settings, now),
            own: OwnTime::begin(Duration::ZERO, instant(Duration::ZERO)),
            set: ("", Duration::ZERO),
            step: None,
            result: None,
            ran: Vec::new(),
            work: (millis(50), Ok(())),
        }
    }

    /// Does one thing; each request takes 10 ms.
    fn go(&mut self, blob: &mut Blob) {
        if let Some(step) = self.step.take() {
            return self.go_on(step, blob);
        }
        let begins = self.time().step();
        match self.turn.next(begins.at) {
            Next::Read => {
                let Ok(reply) = blob.answer(&Operation::Read { lease: None }, self.now) else {
                    panic!()
                };
                let wall = instant(self.now);
                self.now += millis(10);
                let now = self.time().step().at;
                self.turn.read(Look::read(&reply, self.settings, wall), now);
            }
            Next::Step(event) => {
                let state = self.turn.state();
                let step = Step::begin(self.settings, state, begins, event, &mut self.chance);
                self.step = Some((step, begins));
            }
            Next::Wait(until) => {
                assert!(until > begins.at, "a wait that ends");
                self.now += until - begins.at;
            }
            Next::Run(turn) => {
                self.ran.push(turn);
                self.now += self.work.0;
                let now = self.time().step().at;
                self.turn.ran(self.work.1.clone(), now);
            }
            Next::Done(result) => self.result = Some(*result),
        }
    }

    /// The present by its own time.
    fn time(&mut self) -> OwnTime {
        let (after, by) = self.set;
        let set = if after.is_empty() { by } else { Duration::ZERO };
        self.own.read(self.now, instant(self.now + set));
        self.own
    }

    fn go_on(&mut self, (mut step, begins): (Step<'static>, Begins), blob: &mut Blob) {
        let sent = self.time().within(begins);
        match step.next(sent) {
            Todo::Rest(report) => {
                let (prospect, now) = (step.prospect(), self.time().step().at);
                self.turn.stepped(*report, prospect, begins.at, now);
            }
            Todo::Fetch(_) => panic!("no token is needed"),
            Todo::Send(ask) => {
                let reply = blob.answer(&ask.operation, self.now);
                self.now += millis(10);
                if self.set.0 == ask.operation.name() {
                    self.set.0 = "";
                }
                let (now, wall) = (self.time().within(begins), instant(self.now + self.set.1));
                step.answered(sent, now, wall, reply, &mut self.chance);
                self.step = Some((step, begins));
            }
        }
    }

    fn all(&mut self, blob: &mut Blob) -> Turned {
        for _ in 0..1000 {
            self.go(blob);
            if let Some(result) = &self.result {
                return result.clone();
            }
        }
        panic!("an invocation that does not end");
    }
}

fn slot(text: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-11-20T{text}Z")).unwrap()
}

#[test]
fn a_turn_that_is_due_is_run_completed_and_the_lease_released() {
    let mut blob = Blob::with_record(before());
    let mut invocation = Invocation::at(seconds(601), 1, EVERY_10M);
    let turned = invocation.all(&mut blob);
    assert_eq!(turned.course, Course::Succeeded);
    assert_eq!(turned.turn.as_ref().unwrap().slot, slot("07:10:00"));
    assert_eq!((turned.term, turned.recorded), (Some(ORIGIN_SECONDS + 602), Some(true)));
    assert_eq!(turned.next, Some(slot("07:20:00")));
    assert_eq!(turned.problems, []);
    assert!(invocation.ran[0].valid_for > seconds(47), "60 s less a fifth: {turned:?}");
    let finished = Finished { slot: slot("07:10:00"), outcome: Outcome::Succeeded };
    assert_eq!(blob.record().finished, Some(finished));
    assert_eq!(blob.lease, None);
    let again = Invocation::at(seconds(602), 2, EVERY_10M).all(&mut blob);
    assert_eq!((again.course, again.ran, again.term), (Course::NothingDue, false, None));
}

#[test]
fn nothing_is_written_when_nothing_is_due_or_another_leads() {
    let mut blob = Blob::with_record(before());
    let turned = Invocation::at(seconds(300), 1, EVERY_10M).all(&mut blob);
    assert_eq!((turned.course, turned.next), (Course::NothingDue, Some(slot("07:10:00"))));
    blob.lease = Some((LeaseId::from_random([5; 16]), seconds(700)));
    let turned = Invocation::at(seconds(601), 1, EVERY_10M).all(&mut blob);
    assert_eq!(turned.course, Course::Followed);
    assert_eq!(turned.leader.unwrap().name, "there");
    assert_eq!(blob.asked, ["read blob"; 2]);
}

#[test]
fn a_turn_that_is_due_in_a_moment_is_waited_for() {
    let mut blob = Blob::with_record(before());
    let turned = Invocation::at(millis(598_500), 1, EVERY_10M).all(&mut blob);
    assert_eq!(turned.course, Course::Succeeded);
    let mut blob = Blob::with_record(before());
    let turned = Invocation::at(millis(597_900), 1, EVERY_10M).all(&mut blob);
    assert_eq!(turned.course, Course::NothingDue);
}

/// Answers tell whole seconds.
#[test]
fn a_turn_that_is_due_within_a_second_is_waited_for_too() {
    let settings = &[(variable::EVERY, "10m"), (variable::JITTER, "1s")];
    for at in (599_000..600_000).step_by(50) {
        let mut blob = Blob::with_record(before());
        let turned = Invocation::at(millis(at), 1, settings).all(&mut blob);
        assert_eq!(turned.course, Course::Succeeded, "at {at}: {turned:?}");
    }
}

#[test]
fn the_first_invocation_of_all_begins_the_count() {
    let mut blob = Blob::default();
    let turned = Invocation::at(seconds(100), 1, EVERY_10M).all(&mut blob);
    assert_eq!((turned.course, turned.ran), (Course::NothingDue, false));
    assert_eq!(turned.next, Some(slot("07:10:00")));
    assert_eq!(blob.record().last, Some(LastSlot { slot: slot("07:00:00"), attempt: 0 }));
    assert_eq!(blob.lease, None);
}

#[test]
fn a_failed_turn_is_on_record_and_comes_again_only_where_that_is_the_rule() {
    for (delivery, attempts) in [("at-most-once", 1), ("at-least-once", 2)] {
        let settings = &[(variable::EVERY, "10m"), (variable::DELIVERY, delivery)];
        let mut blob = Blob::with_record(Record {
            finished: Some(Finished { slot: slot("07:00:00"), outcome: Outcome::Succeeded }),
            ..before()
        });
        let mut ran = Vec::new();
        for (seed, work) in [Err("no".to_string()), Ok(()), Ok(())].into_iter().enumerate() {
            let mut invocation = Invocation::at(seconds(601 + seed as u64), seed as u64, settings);
            invocation.work.1 = work;
            let turned = invocation.all(&mut blob);
            let courses = [Course::Failed, Course::Succeeded, Course::NothingDue];
            let expected = courses[if ran.len() < attempts { seed } else { 2 }];
            assert_eq!(turned.course, expected, "{delivery}, {turned:?}");
            ran.extend(invocation.ran.iter().map(|turn| (turn.slot, turn.attempt)));
        }
        let expected = [(slot("07:10:00"), 1), (slot("07:10:00"), 2)];
        assert_eq!(ran, expected[..attempts], "{delivery}");
    }
}

#[test]
fn a_turn_that_outlasts_the_leadership_has_overrun_whatever_it_returned() {
    for (lasts, recorded) in [(seconds(50), true), (seconds(70), false)] {
        let mut blob = Blob::with_record(before());
        let mut invocation = Invocation::at(seconds(601), 1, EVERY_10M);
        invocation.work.0 = lasts;
        let turned = invocation.all(&mut blob);
        assert_eq!((turned.course, turned.ran), (Course::Overran, true));
        // Only while the lease is ours: the service sees to that.
        assert_eq!(turned.recorded, Some(recorded), "{lasts:?}");
        assert_eq!(blob.record().finished.is_some(), recorded, "{lasts:?}");
        assert_eq!(blob.record().last.unwrap().slot, slot("07:10:00"));
        assert_eq!(blob.holder(invocation.now), None);
    }
}

#[test]
fn a_freeze_between_the_claim_and_the_turn_keeps_it_from_running() {
    let mut blob = Blob::with_record(before());
    let mut invocation = Invocation::at(seconds(601), 1, EVERY_10M);
    while invocation.step.is_some() || blob.record().last.unwrap().slot != slot("07:10:00") {
        invocation.go(&mut blob);
    }
    invocation.now += seconds(49);
    let turned = invocation.all(&mut blob);
    assert_eq!((turned.course, turned.ran), (Course::Overran, false));
    assert!(invocation.ran.is_empty());
    // So no attempt is used up by it.
    let finished = Finished { slot: slot("07:10:00"), outcome: Outcome::NotStarted };
    assert_eq!(blob.record().finished, Some(finished));
}

#[test]
fn a_service_that_refuses_is_told_of_and_does_not_hold_the_caller_up() {
    for (refused, course) in [
        ("read blob", Course::Unanswered),
        ("acquire lease", Course::Undecided),
        ("write record", Course::Undecided),
    ] {
        let mut blob = Blob { refused: Some(refused), ..Blob::with_record(before()) };
        let mut invocation = Invocation::at(seconds(601), 1, EVERY_10M);
        let turned = invocation.all(&mut blob);
        assert_eq!(turned.course, course, "{refused}");
        assert!(!turned.problems.is_empty(), "{refused}");
        assert!(invocation.now < seconds(601 + 20), "{refused}");
        assert!(!turned.ran);
        assert_eq!(blob.holder(invocation.now), None, "{refused}");
    }
}

#[test]
fn any_number_at_once_run_a_slot_once() {
    for seed in 0..300 {
        let mut chance = Counter(seed);
        let new = seed % 3 == 0;
        let mut blob = if new { Blob::default() } else { Blob::with_record(before()) };
        let start = |n: u64| Invocation::at(seconds(601) + millis(7 * n), seed * 10 + n, EVERY_10M);
        let mut all: Vec<_> = (0..10).map(start).collect();
        // Whoever is behind in time goes on; sometimes another one.
        while all.iter().any(|one| one.result.is_none()) {
            let behind = all.iter_mut().filter(|one| one.result.is_none());
            let mut behind: Vec<_> = behind.collect();
            behind.sort_by_key(|one| one.now);
            let pick = if chance.bits().is_multiple_of(4) {
                chance.bits() as usize % behind.len()
            } else {
                0
            };
            behind[pick].go(&mut blob);
        }
        let ran: Vec<_> = all.iter().flat_map(|one| &one.ran).map(|turn| turn.slot).collect();
        // A new election begins with the next slot.
        let expected = usize::from(!new);
        assert_eq!(ran.len(), expected, "seed {seed}: {ran:?}");
        let courses: Vec<_> = all.iter().filter_map(|one| one.result.as_ref()).collect();
        let succeeded = courses.iter().filter(|one| one.course == Course::Succeeded).count();
        assert_eq!(succeeded, expected, "seed {seed}");
        let fine = |course| !matches!(course, Course::Undecided | Course::Unanswered);
        assert!(courses.iter().all(|one| fine(one.course)), "seed {seed}: {courses:?}");
    }
}

#[test]
fn without_a_timer_an_invocation_has_no_use() {
    let variables = [
        (variable::ELECTION, "leases/leader"),
        (variable::CONNECTION_STRING, "UseDevelopmentStorage=true"),
    ];
    let get = |name: &str| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
    };
    let complaints = Settings::one_shot(get).unwrap_err();
    assert_eq!(
        complaints.iter().map(|c| c.setting.variable()).collect::<Vec<_>>(),
        [variable::EVERY]
    );
    assert!(Settings::read(get).is_ok());
}

#[test]
fn what_needs_a_candidate_that_lasts_is_refused() {
    let get = |name: &str| match name {
        variable::ELECTION => Some("leases/leader".to_string()),
        variable::CONNECTION_STRING => Some("UseDevelopmentStorage=true".to_string()),
        variable::EVERY => Some("5s".to_string()),
        variable::MAX_TENURE => Some("1h".to_string()),
        _ => None,
    };
    let complaints = Settings::one_shot(get).unwrap_err();
    let settings: Vec<_> =
        complaints.iter().map(|complaint| complaint.setting.variable()).collect();
    assert_eq!(settings, [variable::MAX_TENURE]);
}

#[test]
fn a_lease_does_not_last_longer_because_the_wall_clock_went_back() {
    let mut blob = Blob::with_record(before());
    let mut invocation = Invocation::at(Moment::ZERO, 1, EVERY_10M);
    // Set forward by an hour when it begins, and back while the handler runs for ten minutes.
    let mut time = OwnTime::begin(Duration::ZERO, instant(seconds(0)));
    invocation.now = time.read(millis(1), instant(seconds(3_600)));
    invocation.turn = OneTurn::begin(invocation.settings, invocation.now);
    let ended = time.read(seconds(600), instant(seconds(600)));
    invocation.work.0 = ended.saturating_sub(invocation.now);
    let turned = invocation.all(&mut blob);
    assert_eq!(turned.course, Course::Overran, "{turned:?}");
}

/// The time by which the lease is judged moves with it; that of the slots does not.
#[test]
fn a_wall_clock_that_is_set_forward_claims_no_slot_early() {
    for (after, by) in [("read blob", 25), ("acquire lease", 25), ("write record", 12)] {
        let mut blob = Blob::with_record(before());
        let mut invocation = Invocation::at(seconds(11), 1, &[(variable::EVERY, "10s")]);
        invocation.set = (after, seconds(by));
        let turned = invocation.all(&mut blob);
        let slots: Vec<_> = invocation.ran.iter().map(|turn| turn.slot).collect();
        assert_eq!((turned.course, slots), (Course::Succeeded, vec![slot("07:00:10")]), "{after}");
    }
}
