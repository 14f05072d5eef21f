//! Candidates with failover and a distant account, and hosts with two clocks. protocol.md §13.

use super::*;
use crate::{BackgroundReply, BackgroundRequest, Response, StepStart};

/// A host with background requests: a request about a side blob is answered one round trip later.
struct Host {
    candidate: Candidate,
    round_trip: Duration,
    /// The lead of its faster clock before.
    ahead: Duration,
    background: Option<(Operation, Moment)>,
    /// The announcements that were written.
    announced: Vec<Moment>,
}

impl Host {
    fn new(within: &str, round_trip: Duration) -> Self {
        Self::set(&[(variable::FAILOVER, within)], round_trip)
    }

    fn set(variables: &[(&'static str, &str)], round_trip: Duration) -> Self {
        let candidate = Candidate::new(variables);
        let (ahead, background, announced) = (Duration::ZERO, None, Vec::new());
        Self { candidate, round_trip, ahead, background, announced }
    }

    /// A request that takes longer than its time-out gets no answer.
    fn step(
        &mut self,
        event: Option<Event>,
        mut service: impl FnMut(&Operation, Moment) -> Reply,
    ) -> Report {
        let event = event.or_else(|| self.answer_background());
        let candidate = &mut self.candidate;
        candidate.requests.clear();
        candidate.step_started = candidate.now;
        let state = candidate.state.take();
        let start = StepStart { at: candidate.now, clock_lead: self.ahead };
        let chance = &mut candidate.chance;
        let mut step = Step::new(&candidate.settings, state.as_deref(), start, event, chance);
        loop {
            match step.next(candidate.now) {
                StepAction::Done(report) => {
                    candidate.state = Some(report.state.clone().into_bytes());
                    if let Some(BackgroundRequest::Send(ask)) = step.take_background() {
                        self.background = Some((ask.operation, candidate.now));
                    }
                    return *report;
                }
                StepAction::Fetch(_) => panic!("no token is needed"),
                StepAction::Send(SignedRequest { operation, timeout, .. }) => {
                    let sent = candidate.now;
                    candidate.now += timeout.min(self.round_trip);
                    let reply = match timeout < self.round_trip {
                        true => failure(FailureKind::Timeout),
                        false => service(&operation, sent),
                    };
                    candidate.requests.push(SentRequest { operation, timeout, sent });
                    let wall = instant(candidate.now);
                    step.on_answer(sent, candidate.now, wall, reply, &mut candidate.chance);
                }
            }
        }
    }

    fn answer_background(&mut self) -> Option<Event> {
        let (now, round_trip) = (self.candidate.now, self.round_trip);
        let (operation, _) = self.background.take_if(|(_, sent)| *sent + round_trip <= now)?;
        let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let (status, special) = match operation {
            Operation::WriteSideBlob { .. } => {
                self.announced.push(now);
                (201, header("etag", "\"3\""))
            }
            _ => (404, header("x-ms-error-code", "BlobNotFound")),
        };
        let headers = vec![special, header("x-ms-request-id", "1")];
        let raw = Response { status, headers, body: Default::default() };
        let at = Timestamp::from_date(instant(now));
        Some(Event::BackgroundReply(BackgroundReply { result: Ok(raw), received_at: at }))
    }

    /// Waits until the next step is due, or until a background answer arrives.
    fn wait(&mut self, report: &Report) {
        let due = self.candidate.step_started + report.again_in;
        let answered = self.background.as_ref().map(|(_, sent)| *sent + self.round_trip);
        let next = answered.map_or(due, |answered| answered.min(due));
        self.candidate.now = self.candidate.now.max(next);
    }

    /// Returns the time of the first request of this kind before `end`.
    fn until(
        &mut self,
        end: Moment,
        wanted: impl Fn(&Operation) -> bool,
        mut service: impl FnMut(&Operation, Moment) -> Reply,
    ) -> Option<Moment> {
        while self.candidate.now < end {
            let report = self.step(None, &mut service);
            if let Some(request) = self.candidate.requests.iter().find(|a| wanted(&a.operation)) {
                return Some(request.sent);
            }
            self.wait(&report);
        }
        None
    }
}

const PROMISE: Duration = Duration::from_millis(2_100);

/// Returns the record of a leader at this beat, with its successor.
fn leader(number: u64, promise: Duration, successor: Option<&str>) -> Metadata {
    let beat = Some(Beat { number, promise });
    let before = Record::from_metadata(&incumbent(9)).unwrap().unwrap();
    Record { beat, successor: successor.map(Into::into), ..before }.to_metadata()
}

fn breaks(operation: &Operation) -> bool {
    matches!(operation, Operation::Break { .. })
}

fn reads_by_id(operation: &Operation) -> bool {
    matches!(operation, Operation::Read { lease: Some(_) })
}

/// Returns the service's answer while this record has the newest beat.
fn led(o: &Operation, at: Moment, record: &Metadata) -> Reply {
    match o {
        Operation::Read { lease: Some(_) } => {
            error_answer(o, at, 412, "LeaseIdMismatchWithBlobOperation")
        }
        Operation::Read { .. } => blob_answer(o, at, "leased", record),
        _ => available(o, at),
    }
}

/// Without time between renewals and beats, a leader still reads orders, in the background.
#[test]
fn a_leader_that_always_has_something_due_reads_orders() {
    let mut host = Host::new("10s", millis(950));
    host.candidate = Candidate::new(&[
        (variable::FAILOVER, "10s"),
        (variable::RENEW, "1s"),
        (variable::EVERY, "1h"),
    ]);
    let mut read_count = 0;
    let end = host.candidate.now + seconds(200);
    while host.candidate.now < end {
        let before = host.background.clone();
        let report = host.step(None, available);
        let sent = host.background.as_ref().filter(|sent| Some(*sent) != before.as_ref());
        read_count += u32::from(sent.is_some_and(|(operation, _)| *operation == ORDERS));
        host.wait(&report);
    }
    assert!((16..=20).contains(&read_count), "one in ten seconds and a round trip: {read_count}");
}

/// Polls continue while the announcement is in flight, whose answer is not mistaken for another
/// one.
#[test]
fn a_successor_polls_by_its_lease_id_however_far_away_the_account_is() {
    for (within, promise, round_trip) in [
        ("1s", 700, 20),
        ("1s", 700, 90),
        ("3s", 2_100, 200),
        ("3s", 2_100, 260),
        ("3s", 2_100, 480),
    ] {
        let mut host = Host::new(within, millis(round_trip));
        let (began, beat) = (host.candidate.now, promise / 5);
        let service = |o: &Operation, at: Moment| {
            let number = u64::try_from(at.as_millis()).unwrap() / beat;
            led(o, at, &leader(number, millis(promise), Some("here")))
        };
        let polled = host.until(began + seconds(30), reads_by_id, service);
        let polled = polled.map(|at| at - began);
        assert!(polled.is_some_and(|at| at < seconds(4)), "{within} {round_trip}: {polled:?}");
        host.until(began + seconds(30), breaks, service);
        let often = host.announced.windows(2).any(|pair| pair[1] - pair[0] < seconds(4));
        assert!(!often && host.announced.len() > 3, "{within} {round_trip}: {:?}", host.announced);
    }
}

/// A named successor polls for its lease and for the leader in turn.
#[test]
fn a_named_successor_sees_the_leader_die() {
    for phase in 0..16 {
        let mut host = Host::new("3s", millis(10));
        let began = host.candidate.now;
        let dies = began + seconds(5) + millis(phase * 300);
        let broken = host.until(began + seconds(30), breaks, |o, at| {
            let number = u64::try_from(at.min(dies).as_millis()).unwrap() / 500;
            led(o, at, &leader(number, PROMISE, Some("here")))
        });
        let took = broken.unwrap() - dies;
        assert!(took <= PROMISE * 17 / 16 + millis(600), "{phase}: {took:?}");
    }
}

/// The lead of the clock before the beat was observed does not matter.
#[test]
fn a_promise_is_counted_by_one_clock() {
    for ahead in [0, 60] {
        let mut host = Host { ahead: seconds(ahead), ..Host::new("3s", millis(10)) };
        let began = host.candidate.now;
        let dead = leader(4, PROMISE, None);
        let broken = host.until(began + seconds(120), breaks, |o, at| led(o, at, &dead));
        let took = broken.unwrap() - began;
        assert!((PROMISE..PROMISE * 17 / 16 + millis(50)).contains(&took), "{ahead}: {took:?}");
    }
}

#[test]
fn a_candidate_that_was_paused_after_its_look_breaks_nothing() {
    let mut host = Host::new("3s", millis(10));
    let (began, dead) = (host.candidate.now, leader(4, PROMISE, None));
    assert_eq!(host.until(began + PROMISE, breaks, |o, at| led(o, at, &dead)), None);
    host.candidate.now = began + PROMISE - millis(1);
    host.step(Some(Event::Ready(false)), |o, at| led(o, at, &dead));
    let end = began + seconds(10);
    assert_eq!(host.until(end, breaks, |o, at| led(o, at, &dead)), None);
}

/// After an unanswered break, neither its result nor the next holder of the lease is known.
#[test]
fn after_a_break_that_was_not_answered_comes_a_look() {
    let mut host = Host::new("3s", millis(10));
    let (began, dead) = (host.candidate.now, leader(4, PROMISE, None));
    let mut sent = Vec::new();
    host.until(
        began + seconds(4),
        |_| false,
        |o, at| {
            if at > began + PROMISE {
                sent.push(o.name());
            }
            match o {
                Operation::Break { .. } => failure(FailureKind::Timeout),
                _ => led(o, at, &dead),
            }
        },
    );
    let first = sent.iter().position(|name| *name == "break lease").unwrap();
    assert_eq!(sent[first..first + 3], ["break lease", "read blob", "break lease"], "{sent:?}");
}

/// Holds while the account answers within `H`, and within 0.11 s at 1 s.
#[test]
fn a_leader_far_away_has_its_lease_renewed() {
    for (within, round_trip) in [("1s", 40), ("1s", 110), ("2s", 320), ("3s", 490), ("10s", 1_600)]
    {
        let mut host = Host::new(within, millis(round_trip));
        let (began, mut renewed) = (host.candidate.now, 0);
        while host.candidate.now < began + seconds(150) {
            let report = host.step(None, available);
            renewed += u32::from(report.renewed);
            assert_eq!(report.ending, None, "{within} {round_trip}");
            host.wait(&report);
        }
        assert!(renewed > 5, "{within} {round_trip}: {renewed}");
    }
}

/// The rest of the lease is not shared with beats: a renewal extends it.
#[test]
fn a_short_lease_is_renewed_in_time_between_beats() {
    let settings = [
        (variable::LEASE, "15s"),
        (variable::MARGIN, "4900ms"),
        (variable::RENEW, "5900ms"),
        (variable::REQUEST_TIMEOUT, "1600ms"),
        (variable::FAILOVER, "10s"),
    ];
    for round_trip in [40, 800, 1_200, 1_400, 1_590] {
        let mut host = Host::set(&settings, millis(round_trip));
        let began = host.candidate.now;
        while host.candidate.now < began + seconds(150) {
            let report = host.step(None, available);
            assert_eq!(report.ending, None, "{round_trip}");
            host.wait(&report);
        }
    }
}

/// The clock of a host outside Linux shows a later time after its wall clock was set.
#[test]
fn a_clock_that_was_set_forward_does_not_shorten_the_wait_without_a_record() {
    let mut host = Host::set(&[], Duration::from_millis(10));
    let no_record = |operation: &Operation, at| match operation {
        Operation::Read { .. } => blob_answer(operation, at, "available", &Metadata::default()),
        _ => available(operation, at),
    };
    host.step(None, no_record);
    assert_eq!(host.candidate.verbs(), ["read blob", "acquire lease"]);
    let acquired_at = host.candidate.now;
    let jump = seconds(5);
    host.ahead = jump;
    host.candidate.now += jump;
    let report = host.step(None, no_record);
    assert_eq!(host.candidate.verbs(), [""; 0]);
    host.candidate.now += report.again_in;
    host.step(None, no_record);
    assert_eq!(host.candidate.verbs(), ["write record"]);
    let waited = host.candidate.requests[0].sent - jump - acquired_at;
    assert!(waited >= Duration::from_millis(1_020), "{waited:?}");
}
