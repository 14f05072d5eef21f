//! The list of candidates: protocol.md §7.4.

use super::*;
use std::cell::RefCell;
use tenure_azure::blob::SideBlob;
use tenure_azure::operation::ETag;

const READ: &str = "read candidates";
const WRITE: &str = "write candidates";
const MARK: &str = "tenurewriter";
const LIST: &str = "tenurecandidates";

/// A service in which another candidate leads or none does, with its list of candidates.
struct Service {
    list: RefCell<Option<(u32, Metadata)>>,
    led: bool,
}

impl Service {
    fn new(led: bool) -> Self {
        Self { list: RefCell::default(), led }
    }

    /// Creates a service with these entries on the list.
    fn with(entries: &str) -> Self {
        let service = Self::new(true);
        let fields = [(MARK, "there"), (LIST, entries)];
        *service.list.borrow_mut() = Some((1, Metadata::from_iter(fields)));
        service
    }

    fn answer(&self, o: &Operation, at: Moment) -> Reply {
        let mut list = self.list.borrow_mut();
        match (o, &mut *list) {
            (Operation::ReadSideBlob(SideBlob::Candidates), Some((version, list))) => {
                let reply = blob_answer(o, at, "available", list);
                reply.map(|answer| Answer { etag: Some(tag(*version)), ..answer })
            }
            (
                Operation::WriteSideBlob { blob: SideBlob::Candidates, replaces: over, metadata },
                list,
            ) => {
                let version = list.as_ref().map(|(version, _)| *version);
                match (over, version) {
                    (None, Some(_)) => return error_answer(o, at, 409, "BlobAlreadyExists"),
                    (Some(over), version) if Some(over) != version.map(tag).as_ref() => {
                        return error_answer(o, at, 412, "ConditionNotMet");
                    }
                    _ => {}
                }
                *list = Some((version.unwrap_or(0) + 1, metadata.clone()));
                answer(o, at, 201, &[("etag", "\"x\"")])
            }
            (Operation::Read { .. }, _) if self.led => blob_answer(o, at, "leased", &incumbent(5)),
            _ => available(o, at),
        }
    }

    /// Returns the names on the list.
    fn names(&self) -> Vec<String> {
        let list = self.list.borrow();
        let Some(text) = list.as_ref().and_then(|(_, list)| list.get(LIST)) else {
            return Vec::new();
        };
        text.split(' ').map(|entry| entry.split(',').next().unwrap().to_owned()).collect()
    }
}

fn tag(version: u32) -> ETag {
    ETag(format!("\"l{version}\""))
}

/// Returns a candidate that takes part in the list.
fn lister(more: &[(&str, &str)]) -> Candidate {
    Candidate { lists: true, ..Candidate::new(more) }
}

/// Runs the candidate for this span. Returns its requests about the list, and the reported lists.
fn live(
    candidate: &mut Candidate,
    time: Duration,
    service: impl Fn(&Operation, Moment) -> Reply,
) -> (Vec<SentRequest>, Vec<Listed>) {
    let (mut requests, mut reported) = (Vec::new(), Vec::new());
    let until = candidate.now + time;
    while candidate.now < until {
        let began = candidate.now;
        let report = candidate.step(None, &service);
        let of_list = |request: &SentRequest| [READ, WRITE].contains(&request.operation.name());
        requests.extend(candidate.requests.drain(..).filter(of_list));
        reported = report.candidates.unwrap_or(reported);
        candidate.now = candidate.now.max(began + report.again_in);
    }
    (requests, reported)
}

fn verbs(requests: &[SentRequest]) -> Vec<&'static str> {
    requests.iter().map(|request| request.operation.name()).collect()
}

/// Returns an entry that was written this many seconds before second 100, when candidates here
/// start.
fn entry(name: &str, before: u64) -> String {
    format!("{name},{},contends,,", ORIGIN_SECONDS + 100 - before)
}

#[test]
fn leaders_and_followers_are_on_it_within_20_seconds_and_cost_twelve_requests_an_hour() {
    for led in [false, true] {
        let service = Service::new(led);
        let mut candidate = lister(&[(variable::ADDRESS, "http://10.0.0.4")]);
        let (requests, reported) = live(&mut candidate, seconds(21), |o, at| service.answer(o, at));
        assert_eq!(verbs(&requests), [READ, WRITE], "led: {led}");
        assert_eq!(service.names(), ["here"]);
        assert_eq!((reported.len(), reported[0].address.as_deref()), (1, Some("http://10.0.0.4")));
        let (requests, _) = live(&mut candidate, seconds(3600), |o, at| service.answer(o, at));
        assert!((10..=12).contains(&requests.len()), "led: {led}, {:?}", verbs(&requests));
        assert!(requests.iter().all(|request| request.timeout <= seconds(1)));
    }
}

#[test]
fn beating_leader_writes_the_list_in_background() {
    let service = Service::new(false);
    let mut candidate = lister(&[(variable::FAILOVER, "3s")]);
    let (requests, _) = live(&mut candidate, seconds(30), |o, at| service.answer(o, at));
    assert_eq!(verbs(&requests), [""; 0], "no step waits for that");
}

#[test]
fn recent_entries_stay_on_the_list() {
    let lines = [entry("ada", 60), entry("old", 1_801), entry("here", 300), entry("ben", 1_700)];
    let service = Service::with(&(lines.join(" ") + " garbage x,y,z,, ,1,contends,,"));
    let mut candidate = lister(&[]);
    let (_, reported) = live(&mut candidate, seconds(21), |o, at| service.answer(o, at));
    assert_eq!(service.names(), ["here", "ada", "ben"]);
    let names: Vec<_> = reported.iter().map(|listed| listed.name.as_str()).collect();
    assert_eq!(names, ["here", "ada", "ben"]);
}

/// Such an entry would stay forever, and precede all others.
#[test]
fn entries_from_the_future_are_dropped() {
    let service = Service::with(&entry("eve", 100).replace(",17", ",37"));
    live(&mut lister(&[]), seconds(21), |o, at| service.answer(o, at));
    assert_eq!(service.names(), ["here"]);
}

#[test]
fn newest_entries_are_kept_if_the_list_is_full() {
    let entries: Vec<_> = (0..150).map(|n| entry(&format!("{n:0>40}"), n)).collect();
    let service = Service::with(&entries.join(" "));
    live(&mut lister(&[]), seconds(21), |o, at| service.answer(o, at));
    let names = service.names();
    assert!((80..150).contains(&names.len()), "{}", names.len());
    assert_eq!((names[0].as_str(), names[1].parse()), ("here", Ok(0)));
    let list = service.list.borrow();
    let size: usize = list.as_ref().unwrap().1.iter().map(|(n, v)| n.len() + v.len()).sum();
    assert!(size < 7 * 1024, "{size}");
}

#[test]
fn candidate_that_lost_the_race_rereads_and_keeps_all_entries() {
    let service = Service::with(&entry("ada", 1));
    let quicker = RefCell::new(2);
    let mut candidate = lister(&[]);
    let answer = |o: &Operation, at: Moment| {
        let writes = matches!(o, Operation::WriteSideBlob { .. });
        if writes && *quicker.borrow() > 0 {
            // Another candidate writes between the read and the write.
            *quicker.borrow_mut() -= 1;
            let mut list = service.list.borrow_mut();
            let (version, list) = list.as_mut().unwrap();
            *version += 1;
            let name = format!("other{version}");
            let text = format!("{} {}", list.get(LIST).unwrap(), entry(&name, 0));
            list.insert(LIST.into(), text);
        }
        service.answer(o, at)
    };
    let (requests, _) = live(&mut candidate, seconds(70), answer);
    assert_eq!(verbs(&requests), [READ, WRITE, READ, WRITE, READ, WRITE]);
    let mut names = service.names();
    names.sort_unstable();
    assert_eq!(names, ["ada", "here", "other2", "other3"]);
}

#[test]
fn a_candidate_that_is_always_slower_waits_for_its_next_time() {
    let mut candidate = lister(&[]);
    let service = Service::with(&entry("ada", 1));
    let answer = |o: &Operation, at: Moment| match o {
        Operation::WriteSideBlob { .. } => error_answer(o, at, 412, "ConditionNotMet"),
        _ => service.answer(o, at),
    };
    let (requests, _) = live(&mut candidate, seconds(590), answer);
    assert_eq!(requests.len(), 8, "{:?}", verbs(&requests));
}

#[test]
fn refused_list_requests_wait_for_the_next_interval() {
    for (led, refused) in [(false, READ), (false, WRITE), (true, READ), (true, WRITE)] {
        let service = Service::new(led);
        let mut candidate = lister(&[]);
        let answer = |o: &Operation, at: Moment| match o.name() == refused {
            true => error_answer(o, at, 403, "AuthorizationPermissionMismatch"),
            false => service.answer(o, at),
        };
        let (requests, _) = live(&mut candidate, seconds(3_600), answer);
        assert_eq!(verbs(&requests).last(), Some(&refused));
        assert!((5..=12).contains(&requests.len()), "{:?}", verbs(&requests));
        let report = candidate.step(None, |o, at| service.answer(o, at));
        assert_eq!(matches!(report.role, Role::Leading(_)), !led, "{report:?}");
        assert!(report.problems.is_empty(), "{report:?}");
        // Its role has arrived.
        live(&mut candidate, seconds(13 * 60), |o, at| service.answer(o, at));
        assert_eq!(service.names(), ["here"]);
    }
}

#[test]
fn foreign_blob_is_untouched_and_failed_requests_wait() {
    let foreign = |o: &Operation, at: Moment| match o {
        Operation::ReadSideBlob(_) => {
            blob_answer(o, at, "available", &Metadata::from_iter([("owner", "payroll")]))
        }
        _ => available(o, at),
    };
    let busy = |o: &Operation, at: Moment| match o {
        Operation::ReadSideBlob(_) => error_answer(o, at, 503, "ServerBusy"),
        _ => available(o, at),
    };
    let silent = |o: &Operation, at: Moment| match o {
        Operation::ReadSideBlob(_) => failure(FailureKind::Timeout),
        _ => available(o, at),
    };
    for request in [
        live(&mut lister(&[]), seconds(590), foreign).0,
        live(&mut lister(&[]), seconds(590), busy).0,
        live(&mut lister(&[]), seconds(590), silent).0,
    ] {
        assert_eq!(verbs(&request), [READ]);
    }
}

#[test]
fn failed_hand_over_names_the_known_candidates() {
    let service = Service::new(false);
    let mut candidate = lister(&[]);
    live(&mut candidate, seconds(21), |o, at| service.answer(o, at));
    *service.list.borrow_mut() =
        Some((7, Metadata::from_iter([(MARK, "x"), (LIST, &entry("ada", 0))])));
    live(&mut candidate, seconds(12 * 60), |o, at| service.answer(o, at));
    candidate.step(Some(Event::HandOver("adda".into())), |o, at| service.answer(o, at));
    let mut detail = String::new();
    let until = candidate.now + seconds(80);
    while candidate.now < until && detail.is_empty() {
        let began = candidate.now;
        let report = candidate.step(None, |o, at| service.answer(o, at));
        detail = report.problems.first().map(|problem| problem.detail.clone()).unwrap_or_default();
        candidate.now = candidate.now.max(began + report.again_in);
    }
    assert!(detail.ends_with("The candidates seen lately are ada"), "{detail}");
}

#[test]
fn paused_and_resumed_candidate_updates_its_entry_at_once() {
    for led in [false, true] {
        let service = Service::new(led);
        let mut candidate = lister(&[]);
        live(&mut candidate, seconds(21), |o, at| service.answer(o, at));
        for (event, state) in [(Event::Ready(false), ",unready,"), (Event::Ready(true), ",ready,")]
        {
            candidate.step(Some(event), |o, at| service.answer(o, at));
            live(&mut candidate, seconds(10), |o, at| service.answer(o, at));
            let list = service.list.borrow();
            let text = list.as_ref().unwrap().1.get(LIST).unwrap();
            assert!(text.starts_with("here,") && text.contains(state), "led: {led}, {text}");
        }
    }
}

#[test]
fn an_observer_reads_it_and_writes_nothing() {
    for (service, names) in [(Service::with(&entry("ada", 60)), 1), (Service::new(true), 0)] {
        let mut observer = lister(&[(variable::OBSERVE, "true")]);
        let (requests, reported) = live(&mut observer, seconds(60), |o, at| service.answer(o, at));
        assert_eq!((verbs(&requests), reported.len()), (vec![READ], names));
        let (requests, _) = live(&mut observer, seconds(3_600), |o, at| service.answer(o, at));
        assert!((4..=6).contains(&requests.len()), "{:?}", verbs(&requests));
        assert!(requests.iter().all(|request| request.operation.name() == READ));
    }
}

#[test]
fn a_long_name_of_an_election_leaves_it_alone() {
    let long = format!("leases/{}", "x".repeat(1_020));
    let service = Service::new(true);
    let mut candidate = lister(&[(variable::ELECTION, long.as_str())]);
    let (requests, _) = live(&mut candidate, seconds(60), |o, at| service.answer(o, at));
    assert_eq!(verbs(&requests), [""; 0]);
}

#[test]
fn no_turn_waits_for_the_list() {
    // A slot is due each second, and each turn ends at once.
    let mut candidate = lister(&[(variable::EVERY, "1s")]);
    candidate.lead();
    let silent = |o: &Operation, at: Moment| match o {
        Operation::ReadSideBlob(SideBlob::Candidates) => failure(FailureKind::Timeout),
        _ => available(o, at),
    };
    let (mut reads, until) = (0, candidate.now + seconds(1500));
    while candidate.now < until {
        let began = candidate.now;
        let event = (candidate.now.subsec_millis() > 300)
            .then_some(Event::TurnEnded(Outcome::Succeeded.into()));
        let report = candidate.step(event, silent);
        for request in candidate.requests.iter().filter(|request| request.operation.name() == READ)
        {
            reads += 1;
            assert!(report.run.is_none(), "a turn waits for it: {report:?}");
            let next = began + report.again_in;
            assert!(request.sent + request.timeout <= next, "{request:?}, {report:?}");
        }
        candidate.now = candidate.now.max(began + report.again_in);
    }
    assert_eq!(reads, 3);
}

#[test]
fn a_leader_whose_renewal_is_not_answered_leaves_the_list_alone() {
    let mut candidate = lister(&[]);
    candidate.lead();
    // From second 108 to 118, across the time of the first read.
    let faulty = |o: &Operation, at: Moment| match o {
        Operation::Renew { .. } if (108..118).contains(&at.as_secs()) => {
            error_answer(o, at, 503, "ServerBusy")
        }
        _ => available(o, at),
    };
    let mut requests = Vec::new();
    while candidate.now < seconds(125) {
        let began = candidate.now;
        let report = candidate.step(None, faulty);
        requests.append(&mut candidate.requests);
        candidate.now = candidate.now.max(began + report.again_in);
    }
    let read = requests.iter().position(|request| request.operation.name() == READ).unwrap();
    assert!(requests[read].sent >= seconds(118), "{:?}", requests[read]);
    assert_eq!(requests[read - 1].operation.name(), "renew lease");
}
