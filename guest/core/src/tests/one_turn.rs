//! Invocations that are one whole turn, with a blob that keeps all writes.

use super::*;

const EVERY_10M: &[(&str, &str)] = &[(variable::EVERY, "10m")];

/// The blob and its lease.
#[derive(Default)]
pub(super) struct Blob {
    metadata: Option<Metadata>,
    etag: u32,
    /// The holder of the lease, and its end.
    lease: Option<(LeaseId, Moment)>,
    requests: Vec<&'static str>,
    /// Requests of this name are refused.
    refused: Option<&'static str>,
}

impl Blob {
    /// Creates a blob that had a leader, whose newest slot was claimed long ago.
    fn with_record(record: Record) -> Self {
        Self { metadata: Some(record.to_metadata()), etag: 1, ..Self::default() }
    }

    fn holder(&self, at: Moment) -> Option<LeaseId> {
        self.lease.filter(|(_, until)| at < *until).map(|(lease, _)| lease)
    }

    pub(super) fn answer(&mut self, operation: &Operation, at: Moment) -> Reply {
        self.requests.push(operation.name());
        if self.refused == Some(operation.name()) {
            return error_answer(operation, at, 403, "AuthorizationFailure");
        }
        let holder = self.holder(at);
        let tag = format!("\"{}\"", self.etag);
        let done = |status, lease: &LeaseId| {
            answer(operation, at, status, &[("x-ms-lease-id", &lease.to_string()), ("etag", &tag)])
        };
        match operation {
            Operation::Read { .. } => match (&self.metadata, holder) {
                (None, _) => error_answer(operation, at, 404, "BlobNotFound"),
                (Some(metadata), None) => self.blob_answer(operation, at, "available", metadata),
                (Some(metadata), Some(_)) => self.blob_answer(operation, at, "leased", metadata),
            },
            Operation::CreateBlob if self.metadata.is_none() => {
                (self.metadata, self.etag) = (Some(Metadata::default()), 1);
                answer(operation, at, 201, &[("etag", "\"1\"")])
            }
            Operation::CreateBlob => error_answer(operation, at, 409, "BlobAlreadyExists"),
            Operation::Acquire { if_match: Some(etag), .. } if etag.0 != tag => {
                error_answer(operation, at, 412, "ConditionNotMet")
            }
            Operation::Acquire { lease, seconds: length, .. } if holder.is_none() => {
                self.lease = Some((*lease, at + seconds((*length).into())));
                done(201, lease)
            }
            Operation::Acquire { .. } => error_answer(operation, at, 409, "LeaseAlreadyPresent"),
            Operation::WriteMetadata { lease, .. } if holder != Some(*lease) => {
                error_answer(operation, at, 412, "LeaseIdMismatchWithBlobOperation")
            }
            Operation::WriteMetadata { if_match, .. } if if_match.0 != tag => {
                error_answer(operation, at, 412, "ConditionNotMet")
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
                error_answer(operation, at, 409, "LeaseIdMismatch")
            }
            Operation::ReadSideBlob(_) => error_answer(operation, at, 404, "BlobNotFound"),
            other => panic!("{other:?}"),
        }
    }

    fn blob_answer(
        &self,
        operation: &Operation,
        at: Moment,
        state: &str,
        metadata: &Metadata,
    ) -> Reply {
        let Ok(mut answer) = blob_answer(operation, at, state, metadata) else { panic!() };
        answer.etag = Some(tenure_azure::operation::ETag(format!("\"{}\"", self.etag)));
        Ok(answer)
    }

    pub(super) fn record(&self) -> Record {
        Record::from_metadata(self.metadata.as_ref().unwrap()).unwrap().unwrap()
    }
}

/// Returns the record of a former leader that claimed the slots up to 07:00.
fn claimed_record() -> Record {
    Record {
        term: 9,
        leader: "there".into(),
        nonce: 1,
        last_slot: Some(LastSlot { slot: Timestamp::parse(ORIGIN).unwrap(), attempt: 1 }),
        ..Record::default()
    }
}

/// An invocation that can be suspended at any request and continued later.
struct Invocation {
    settings: &'static Settings,
    now: Moment,
    chance: Counter,
    turn: OneTurn<'static>,
    /// Its elapsed time, by the two clocks of its machine.
    clock: ElapsedClock,
    /// Amount by which the wall clock is set forward, and the request after which that happens.
    wall_set_forward: (&'static str, Duration),
    /// A step in progress, and its start.
    step: Option<(Step<'static>, StepStart)>,
    result: Option<OneTurnResult>,
    /// Turns that were run.
    ran: Vec<Turn>,
    /// Duration and result of the handler.
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
            turn: OneTurn::new(settings, now),
            clock: ElapsedClock::new(Duration::ZERO, instant(Duration::ZERO)),
            wall_set_forward: ("", Duration::ZERO),
            step: None,
            result: None,
            ran: Vec::new(),
            work: (millis(50), Ok(())),
        }
    }

    /// Performs one action; each request takes 10 ms.
    fn act(&mut self, blob: &mut Blob) {
        if let Some(step) = self.step.take() {
            return self.continue_step(step, blob);
        }
        let start = self.time().step_start();
        match self.turn.next(start.at) {
            OneTurnAction::Read => {
                let Ok(reply) = blob.answer(&Operation::Read { lease: None }, self.now) else {
                    panic!()
                };
                let wall = instant(self.now);
                self.now += millis(10);
                let now = self.time().step_start().at;
                self.turn.on_read(Inspection::from_answer(&reply, self.settings, wall), now);
            }
            OneTurnAction::Step(event) => {
                let state = self.turn.state();
                let step = Step::new(self.settings, state, start, event, &mut self.chance);
                self.step = Some((step, start));
            }
            OneTurnAction::Wait(until) => {
                assert!(until > start.at, "a wait that ends");
                self.now += until - start.at;
            }
            OneTurnAction::Run(turn) => {
                self.ran.push(turn);
                self.now += self.work.0;
                let now = self.time().step_start().at;
                self.turn.on_handler_done(self.work.1.clone(), now);
            }
            OneTurnAction::Done(result) => self.result = Some(*result),
        }
    }

    /// Returns the present by its own clock.
    fn time(&mut self) -> ElapsedClock {
        let (after, by) = self.wall_set_forward;
        let set = if after.is_empty() { by } else { Duration::ZERO };
        self.clock.read(self.now, instant(self.now + set));
        self.clock
    }

    fn continue_step(&mut self, (mut step, start): (Step<'static>, StepStart), blob: &mut Blob) {
        let sent = self.time().elapsed_in_step(start);
        match step.next(sent) {
            StepAction::Done(report) => {
                let (prospect, now) = (step.progress(), self.time().step_start().at);
                self.turn.on_step(*report, prospect, start.at, now);
            }
            StepAction::Fetch(_) => panic!("no token is needed"),
            StepAction::Send(ask) => {
                let reply = blob.answer(&ask.operation, self.now);
                self.now += millis(10);
                if self.wall_set_forward.0 == ask.operation.name() {
                    self.wall_set_forward.0 = "";
                }
                let (now, wall) = (
                    self.time().elapsed_in_step(start),
                    instant(self.now + self.wall_set_forward.1),
                );
                step.on_answer(sent, now, wall, reply, &mut self.chance);
                self.step = Some((step, start));
            }
        }
    }

    fn run_to_end(&mut self, blob: &mut Blob) -> OneTurnResult {
        for _ in 0..1000 {
            self.act(blob);
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
    let mut blob = Blob::with_record(claimed_record());
    let mut invocation = Invocation::at(seconds(601), 1, EVERY_10M);
    let turned = invocation.run_to_end(&mut blob);
    assert_eq!(turned.outcome, OneTurnOutcome::Succeeded);
    assert_eq!(turned.turn.as_ref().unwrap().slot, slot("07:10:00"));
    assert_eq!((turned.term, turned.outcome_recorded), (Some(ORIGIN_SECONDS + 602), Some(true)));
    assert_eq!(turned.next, Some(slot("07:20:00")));
    assert_eq!(turned.problems, []);
    assert!(invocation.ran[0].valid_for > seconds(47), "60 s less a fifth: {turned:?}");
    let finished = Finished { slot: slot("07:10:00"), outcome: Outcome::Succeeded };
    assert_eq!(blob.record().finished, Some(finished));
    assert_eq!(blob.lease, None);
    let again = Invocation::at(seconds(602), 2, EVERY_10M).run_to_end(&mut blob);
    assert_eq!(
        (again.outcome, again.handler_called, again.term),
        (OneTurnOutcome::NothingDue, false, None)
    );
}

#[test]
fn nothing_is_written_when_nothing_is_due_or_another_leads() {
    let mut blob = Blob::with_record(claimed_record());
    let turned = Invocation::at(seconds(300), 1, EVERY_10M).run_to_end(&mut blob);
    assert_eq!((turned.outcome, turned.next), (OneTurnOutcome::NothingDue, Some(slot("07:10:00"))));
    blob.lease = Some((LeaseId::from_random([5; 16]), seconds(700)));
    let turned = Invocation::at(seconds(601), 1, EVERY_10M).run_to_end(&mut blob);
    assert_eq!(turned.outcome, OneTurnOutcome::Followed);
    assert_eq!(turned.leader.unwrap().name, "there");
    assert_eq!(blob.requests, ["read blob"; 2]);
}

#[test]
fn a_turn_that_is_due_in_a_moment_is_waited_for() {
    let mut blob = Blob::with_record(claimed_record());
    let turned = Invocation::at(millis(598_500), 1, EVERY_10M).run_to_end(&mut blob);
    assert_eq!(turned.outcome, OneTurnOutcome::Succeeded);
    let mut blob = Blob::with_record(claimed_record());
    let turned = Invocation::at(millis(597_900), 1, EVERY_10M).run_to_end(&mut blob);
    assert_eq!(turned.outcome, OneTurnOutcome::NothingDue);
}

/// Answers have whole seconds.
#[test]
fn a_turn_that_is_due_within_a_second_is_waited_for_too() {
    let settings = &[(variable::EVERY, "10m"), (variable::JITTER, "1s")];
    for at in (599_000..600_000).step_by(50) {
        let mut blob = Blob::with_record(claimed_record());
        let turned = Invocation::at(millis(at), 1, settings).run_to_end(&mut blob);
        assert_eq!(turned.outcome, OneTurnOutcome::Succeeded, "at {at}: {turned:?}");
    }
}

#[test]
fn the_first_invocation_of_all_begins_the_count() {
    let mut blob = Blob::default();
    let turned = Invocation::at(seconds(100), 1, EVERY_10M).run_to_end(&mut blob);
    assert_eq!((turned.outcome, turned.handler_called), (OneTurnOutcome::NothingDue, false));
    assert_eq!(turned.next, Some(slot("07:10:00")));
    assert_eq!(blob.record().last_slot, Some(LastSlot { slot: slot("07:00:00"), attempt: 0 }));
    assert_eq!(blob.lease, None);
}

#[test]
fn a_failed_turn_is_on_record_and_comes_again_only_where_that_is_the_rule() {
    for (delivery, attempts) in [("at-most-once", 1), ("at-least-once", 2)] {
        let settings = &[(variable::EVERY, "10m"), (variable::DELIVERY, delivery)];
        let mut blob = Blob::with_record(Record {
            finished: Some(Finished { slot: slot("07:00:00"), outcome: Outcome::Succeeded }),
            ..claimed_record()
        });
        let mut ran = Vec::new();
        for (seed, work) in [Err("no".to_string()), Ok(()), Ok(())].into_iter().enumerate() {
            let mut invocation = Invocation::at(seconds(601 + seed as u64), seed as u64, settings);
            invocation.work.1 = work;
            let turned = invocation.run_to_end(&mut blob);
            let courses =
                [OneTurnOutcome::Failed, OneTurnOutcome::Succeeded, OneTurnOutcome::NothingDue];
            let expected = courses[if ran.len() < attempts { seed } else { 2 }];
            assert_eq!(turned.outcome, expected, "{delivery}, {turned:?}");
            ran.extend(invocation.ran.iter().map(|turn| (turn.slot, turn.attempt)));
        }
        let expected = [(slot("07:10:00"), 1), (slot("07:10:00"), 2)];
        assert_eq!(ran, expected[..attempts], "{delivery}");
    }
}

#[test]
fn turn_that_outlasts_the_leadership_has_overrun() {
    for (lasts, recorded) in [(seconds(50), true), (seconds(70), false)] {
        let mut blob = Blob::with_record(claimed_record());
        let mut invocation = Invocation::at(seconds(601), 1, EVERY_10M);
        invocation.work.0 = lasts;
        let turned = invocation.run_to_end(&mut blob);
        assert_eq!((turned.outcome, turned.handler_called), (OneTurnOutcome::Overran, true));
        // Only while the lease is held: the service ensures that.
        assert_eq!(turned.outcome_recorded, Some(recorded), "{lasts:?}");
        assert_eq!(blob.record().finished.is_some(), recorded, "{lasts:?}");
        assert_eq!(blob.record().last_slot.unwrap().slot, slot("07:10:00"));
        assert_eq!(blob.holder(invocation.now), None);
    }
}

#[test]
fn a_freeze_between_the_claim_and_the_turn_keeps_it_from_running() {
    let mut blob = Blob::with_record(claimed_record());
    let mut invocation = Invocation::at(seconds(601), 1, EVERY_10M);
    while invocation.step.is_some() || blob.record().last_slot.unwrap().slot != slot("07:10:00") {
        invocation.act(&mut blob);
    }
    invocation.now += seconds(49);
    let turned = invocation.run_to_end(&mut blob);
    assert_eq!((turned.outcome, turned.handler_called), (OneTurnOutcome::Overran, false));
    assert!(invocation.ran.is_empty());
    // So it uses up no attempt.
    let finished = Finished { slot: slot("07:10:00"), outcome: Outcome::NotStarted };
    assert_eq!(blob.record().finished, Some(finished));
}

#[test]
fn refusals_are_reported_without_delaying_the_caller() {
    for (refused, expected) in [
        ("read blob", OneTurnOutcome::Unanswered),
        ("acquire lease", OneTurnOutcome::Undecided),
        ("write record", OneTurnOutcome::Undecided),
    ] {
        let mut blob = Blob { refused: Some(refused), ..Blob::with_record(claimed_record()) };
        let mut invocation = Invocation::at(seconds(601), 1, EVERY_10M);
        let turned = invocation.run_to_end(&mut blob);
        assert_eq!(turned.outcome, expected, "{refused}");
        assert!(!turned.problems.is_empty(), "{refused}");
        assert!(invocation.now < seconds(601 + 20), "{refused}");
        assert!(!turned.handler_called);
        assert_eq!(blob.holder(invocation.now), None, "{refused}");
    }
}

#[test]
fn any_number_at_once_run_a_slot_once() {
    for seed in 0..300 {
        let mut chance = Counter(seed);
        let new = seed % 3 == 0;
        let mut blob = if new { Blob::default() } else { Blob::with_record(claimed_record()) };
        let start = |n: u64| Invocation::at(seconds(601) + millis(7 * n), seed * 10 + n, EVERY_10M);
        let mut all: Vec<_> = (0..10).map(start).collect();
        // The invocation that lags in time continues; sometimes another one.
        while all.iter().any(|one| one.result.is_none()) {
            let behind = all.iter_mut().filter(|one| one.result.is_none());
            let mut behind: Vec<_> = behind.collect();
            behind.sort_by_key(|one| one.now);
            let pick = if chance.bits().is_multiple_of(4) {
                chance.bits() as usize % behind.len()
            } else {
                0
            };
            behind[pick].act(&mut blob);
        }
        let ran: Vec<_> = all.iter().flat_map(|one| &one.ran).map(|turn| turn.slot).collect();
        // A new election begins with the next slot.
        let expected = usize::from(!new);
        assert_eq!(ran.len(), expected, "seed {seed}: {ran:?}");
        let courses: Vec<_> = all.iter().filter_map(|one| one.result.as_ref()).collect();
        let succeeded =
            courses.iter().filter(|one| one.outcome == OneTurnOutcome::Succeeded).count();
        assert_eq!(succeeded, expected, "seed {seed}");
        let fine =
            |expected| !matches!(expected, OneTurnOutcome::Undecided | OneTurnOutcome::Unanswered);
        assert!(courses.iter().all(|one| fine(one.outcome)), "seed {seed}: {courses:?}");
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
fn settings_of_long_running_candidates_are_refused() {
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
    let mut blob = Blob::with_record(claimed_record());
    let mut invocation = Invocation::at(Moment::ZERO, 1, EVERY_10M);
    // Set forward by an hour at the start, and back while the handler runs for ten minutes.
    let mut time = ElapsedClock::new(Duration::ZERO, instant(seconds(0)));
    invocation.now = time.read(millis(1), instant(seconds(3_600)));
    invocation.turn = OneTurn::new(invocation.settings, invocation.now);
    let ended = time.read(seconds(600), instant(seconds(600)));
    invocation.work.0 = ended.saturating_sub(invocation.now);
    let turned = invocation.run_to_end(&mut blob);
    assert_eq!(turned.outcome, OneTurnOutcome::Overran, "{turned:?}");
}

/// The lease clock moves with it; the slot clock does not.
#[test]
fn a_wall_clock_that_is_set_forward_claims_no_slot_early() {
    for (after, by) in [("read blob", 25), ("acquire lease", 25), ("write record", 12)] {
        let mut blob = Blob::with_record(claimed_record());
        let mut invocation = Invocation::at(seconds(11), 1, &[(variable::EVERY, "10s")]);
        invocation.wall_set_forward = (after, seconds(by));
        let turned = invocation.run_to_end(&mut blob);
        let slots: Vec<_> = invocation.ran.iter().map(|turn| turn.slot).collect();
        assert_eq!(
            (turned.outcome, slots),
            (OneTurnOutcome::Succeeded, vec![slot("07:00:10")]),
            "{after}"
        );
    }
}
