//! Files that are replaced, and steps that cannot run.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::{Environment, FileError};
use tenure_azure::secret::Secret;

/// Variables, and files by their paths.
struct Place {
    variables: Vec<(&'static str, &'static str)>,
    files: Rc<RefCell<BTreeMap<&'static str, &'static str>>>,
}

impl Environment for &Place {
    fn variable(&self, name: &str) -> Option<String> {
        let all = [(variable::ELECTION, "leases/leader"), (variable::NAME, "here")];
        let mut all = all.iter().chain(&self.variables);
        all.find(|(n, _)| *n == name).map(|(_, value)| value.to_string())
    }

    fn file(&self, path: &str) -> Result<Secret, FileError> {
        let files = self.files.borrow();
        files.get(path).map(|text| Secret::from(*text)).ok_or(FileError::Missing)
    }
}

impl Place {
    fn new(variables: &[(&'static str, &'static str)]) -> Self {
        Self { variables: variables.to_vec(), files: Rc::default() }
    }

    fn write(&self, path: &'static str, text: &'static str) {
        self.files.borrow_mut().insert(path, text);
    }

    /// Runs one step like the component.
    fn step(
        &self,
        state: Option<&[u8]>,
        now: Moment,
        event: Option<Event>,
        service: impl Fn(&Operation, Moment) -> Reply,
    ) -> (Report, Vec<&'static str>) {
        let mut chance = Counter(now.as_secs());
        let (settings, complaints) = match Settings::reread(self, state) {
            Ok(read) => read,
            Err(complaints) => {
                return (Report::invalid_settings(state, event, &complaints), Vec::new());
            }
        };
        let mut step = Step::new(&settings, state, now, event, &mut chance);
        step.report_complaints(&complaints, now);
        let mut requests = Vec::new();
        loop {
            match step.next(now) {
                StepAction::Done(report) => return (*report, requests),
                StepAction::Fetch(_) => panic!("no token is needed"),
                StepAction::Send(ask) => {
                    requests.push(ask.operation.name());
                    let reply = service(&ask.operation, now);
                    step.on_answer(now, now, instant(now), reply, &mut chance);
                }
            }
        }
    }
}

const ACCOUNT: (&str, &str) = (variable::ACCOUNT, "tenure");
const STRING_FILE: (&str, &str) = ("AZURE_STORAGE_CONNECTION_STRING_FILE", "/run/string");
const GOOD: &str = "AccountName=tenure;AccountKey=a2V5b25l";

/// The candidate was granted the origins of its account at the start.
#[test]
fn a_file_that_leads_to_another_account_needs_a_restart_and_the_leader_leads_on() {
    let place = Place::new(&[STRING_FILE]);
    place.write("/run/string", GOOD);
    let (mut report, _) = place.step(None, seconds(100), None, available);
    for (n, other) in [
        "AccountName=another;AccountKey=a2V5b25l",
        "AccountName=tenure;AccountKey=a2V5b25l;BlobEndpoint=https://10.0.0.5/tenure",
        "AccountName=tenure;AccountKey=a2V5b25l;EndpointSuffix=core.example",
    ]
    .into_iter()
    .enumerate()
    {
        place.write("/run/string", other);
        let now = seconds(104 + 2 * n as u64);
        let (next, _) = place.step(Some(report.state.as_bytes()), now, None, available);
        assert!(matches!(next.role, Role::Leading(_)), "{other}: {next:?}");
        let problem = &next.problems[0];
        assert_eq!(problem.class, ProblemClass::Configuration);
        for words in [STRING_FILE.0, "restart this process", "The former settings stay in use"] {
            assert!(problem.detail.contains(words), "{problem:?}");
        }
        assert!(!problem.detail.contains("a2V5"), "{problem:?}");
        report = next;
    }
    // Another key of the same account is used.
    place.write("/run/string", "AccountName=tenure;AccountKey=a2V5dHdv");
    let (next, _) = place.step(Some(report.state.as_bytes()), seconds(171), None, available);
    assert_eq!(next.problems, []);
}

/// Each file alone is valid, but the settings as a whole are not.
#[test]
fn contradictory_files_keep_last_content_and_leader_leads_on() {
    let other = "AccountName=another;AccountKey=a2V5b25l";
    let place = Place::new(&[ACCOUNT, STRING_FILE, (variable::EVERY, "5s")]);
    place.write("/run/string", GOOD);
    let (mut report, _) = place.step(None, seconds(100), None, available);
    assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
    let mut now = seconds(104);
    let mut ran = 0;
    place.write("/run/string", other);
    for _ in 0..60 {
        let event = (ran > 0).then_some(Event::TurnEnded(Outcome::Succeeded.into()));
        let (next, _) = place.step(Some(report.state.as_bytes()), now, event, available);
        assert!(matches!(next.role, Role::Leading(_)), "at {now:?}: {next:?}");
        ran += u32::from(next.run.is_some());
        for problem in &next.problems {
            assert_eq!(problem.class, ProblemClass::Configuration);
            assert!(problem.detail.contains("AZURE_STORAGE_ACCOUNT"), "{problem:?}");
            assert!(problem.detail.contains("The former settings stay in use"), "{problem:?}");
        }
        now += next.again_in.max(millis(10));
        report = next;
    }
    assert!(ran > 5 && now > seconds(130), "{ran} turns");
    place.write("/run/string", "AccountName=tenure;AccountKey=a2V5dHdv");
    let (next, _) = place.step(Some(report.state.as_bytes()), now + seconds(61), None, available);
    assert_eq!(next.problems, []);
}

/// The key was rotated: the file has the new one soon after the first refusal.
#[test]
fn a_leader_looks_for_triggers_again_when_its_file_has_another_key() {
    let place = Place::new(&[ACCOUNT, STRING_FILE, (variable::EVERY, "24h")]);
    place.write("/run/string", GOOD);
    let rotated = |o: &Operation, at| match o {
        Operation::ReadSideBlob(_) => error_answer(o, at, 403, "AuthenticationFailed"),
        _ => available(o, at),
    };
    let (mut report, mut requests) = place.step(None, seconds(100), None, rotated);
    let mut now = seconds(100);
    while !requests.contains(&"read orders") {
        now += report.again_in;
        (report, requests) = place.step(Some(report.state.as_bytes()), now, None, rotated);
    }
    place.write("/run/string", "AccountName=tenure;AccountKey=a2V5dHdv");
    requests.clear();
    while now < seconds(130) && !requests.contains(&"read orders") {
        now += report.again_in;
        (report, requests) = place.step(Some(report.state.as_bytes()), now, None, available);
    }
    assert!(requests.contains(&"read orders"), "{now:?}: {requests:?}");
}

/// A candidate that starts with invalid files has no former content.
#[test]
fn a_step_that_cannot_be_made_keeps_its_event() {
    let place = Place::new(&[ACCOUNT, STRING_FILE]);
    let (report, _) = place.step(None, seconds(100), Some(Event::Ready(false)), available);
    assert_eq!(report.problems[0].class, ProblemClass::Configuration);
    // Called early, for other events, and by the clock.
    let (report, _) = place.step(
        Some(report.state.as_bytes()),
        seconds(101),
        Some(Event::Ready(true)),
        available,
    );
    let (report, _) = place.step(
        Some(report.state.as_bytes()),
        seconds(102),
        Some(Event::Ready(false)),
        available,
    );
    let (mut report, _) = place.step(Some(report.state.as_bytes()), seconds(103), None, available);
    place.write("/run/string", GOOD);
    for second in 104..120 {
        let (next, requests) =
            place.step(Some(report.state.as_bytes()), seconds(second), None, available);
        assert!(!requests.contains(&"acquire lease"), "paused, and yet it contends");
        report = next;
    }
    let event = Some(Event::Ready(true));
    let (mut report, _) = place.step(Some(report.state.as_bytes()), seconds(120), event, available);
    for second in 121..130 {
        report = place.step(Some(report.state.as_bytes()), seconds(second), None, available).0;
    }
    assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
}

#[test]
fn candidate_without_state_leaves_at_once() {
    let place = Place::new(&[ACCOUNT, STRING_FILE]);
    let (report, _) = place.step(None, seconds(100), None, available);
    assert_eq!(report.role, Role::Undecided);
    let event = Some(Event::Leave(None));
    let (report, _) = place.step(Some(report.state.as_bytes()), seconds(101), event, available);
    assert_eq!(report.role, Role::Left);
}

/// A host that repeats its wish to leave does not report the end of the turn again.
#[test]
fn a_wish_to_leave_that_is_repeated_does_not_lose_the_outcome_of_the_turn() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    let mut report = candidate.lead();
    for _ in 0..10 {
        if report.run.is_some() {
            break;
        }
        candidate.now += seconds(1);
        report = candidate.step(None, available);
    }
    assert!(report.run.is_some(), "{report:?}");
    for outcome in [Some(Outcome::Succeeded), None] {
        let event = Some(Event::Leave(outcome.map(Into::into)));
        candidate.state = Some(
            Report::invalid_settings(candidate.state.as_deref(), event, &[]).state.into_bytes(),
        );
    }
    candidate.step(None, available);
    assert_eq!(candidate.verbs(), ["write record", "release lease"]);
    let finished = written_record(&candidate.requests[0]).finished;
    assert_eq!(finished.map(|finished| finished.outcome), Some(Outcome::Succeeded));
}

#[test]
fn many_events_of_steps_that_cannot_be_made_take_no_endless_room() {
    let place = Place::new(&[ACCOUNT, STRING_FILE]);
    let mut state = None;
    for second in 0..10_000 {
        let event = if second % 2 == 0 { Event::Ready(false) } else { Event::Ready(true) };
        let (report, _) = place.step(
            state.as_ref().map(State::as_bytes),
            seconds(second),
            Some(event),
            available,
        );
        state = Some(report.state);
    }
    assert!(state.unwrap().as_bytes().len() < 4_096);
}
