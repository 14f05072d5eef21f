//! Transfers through the account: protocol.md §7.2, §7.5.

use super::handing_over::{Scene, candidate_named, scene};
use super::*;

/// A command that places a transfer, or reads its state.
struct Command {
    id: &'static str,
    to: Option<&'static str>,
    term: Option<u64>,
    settings: Settings,
}

impl Command {
    fn new(id: &'static str, to: Option<&'static str>) -> Self {
        Self { id, to, term: None, settings: Candidate::new(&[]).settings }
    }

    /// Runs one round: both reads, and the write that follows.
    fn round(&mut self, scene: &mut Scene, place: bool) -> Result<TransferState, Problem> {
        let now = scene.now();
        let mut ask = |operation: &Operation| scene.service.answer(operation, now).unwrap();
        let (orders, election) = (ask(&ORDERS), ask(&Operation::Read { lease: None }));
        let (id, to) = (self.id.to_string(), self.to.map(Into::into));
        let order = TransferOrder { id, to, term: self.term };
        let state =
            match transfer((&order, place), (&orders, &election), &self.settings, instant(now))? {
                OrderStep::Known(state) => state,
                OrderStep::Create(operation) => panic!("{operation:?}"),
                OrderStep::Write(operation, state) => {
                    assert_eq!(ask(&operation).status, 201);
                    state
                }
            };
        if let TransferState::Waiting(term) = state {
            self.term = Some(term);
        }
        Ok(state)
    }

    fn place(&mut self, scene: &mut Scene) {
        let state = self.round(scene, true).unwrap();
        assert!(matches!(state, TransferState::Waiting(_)), "{state:?}");
    }

    fn state(&mut self, scene: &mut Scene) -> TransferState {
        self.round(scene, false).unwrap()
    }
}

fn leads(scene: &Scene, name: &str) {
    assert_eq!(scene.leader().as_deref(), Some(name), "{:?}", scene.problems);
}

#[test]
fn named_successor_leads_and_the_command_reports_it() {
    let mut scene = scene(["first", "second", "third"]);
    let mut command = Command::new("a", Some("third"));
    command.place(&mut scene);
    scene.run(seconds(20));
    leads(&scene, "third");
    let state = command.state(&mut scene);
    assert!(matches!(&state, TransferState::Done(leader) if leader.name == "third"), "{state:?}");
    assert_eq!(scene.service.lease_ids.len(), 2, "the lease was never free");
}

/// With addresses, a command hints at the order.
#[test]
fn a_leader_reads_at_once_after_a_hint() {
    let mut scene = scene(["first", "second", "third"]);
    Command::new("a", Some("second")).place(&mut scene);
    scene.step(0, Some(Event::Hint));
    scene.run(seconds(6));
    leads(&scene, "second");
}

#[test]
fn without_a_name_the_leader_resigns_though_it_cannot_write() {
    let mut scene = scene(["first", "second", "third"]);
    let mut command = Command::new("a", None);
    command.place(&mut scene);
    scene.service.loses_writes = true;
    scene.run(seconds(10));
    assert_eq!(scene.endings[0].1.reason, EndingReason::Resigned);
    scene.service.loses_writes = false;
    scene.run(seconds(20));
    assert_ne!(scene.leader().as_deref(), Some("first"));
    let state = command.state(&mut scene);
    assert!(matches!(state, TransferState::Done(_)), "{state:?}");
}

#[test]
fn a_failed_transfer_is_on_record_and_is_not_begun_again() {
    let mut scene = scene(["first", "second", "third"]);
    let mut command = Command::new("a", Some("nobody"));
    command.place(&mut scene);
    scene.run(seconds(100));
    leads(&scene, "first");
    let TransferState::Failed(reason) = command.state(&mut scene) else { panic!() };
    assert!(reason.contains("no candidate of that name"), "{reason}");
    assert_eq!(scene.problems.len(), 1, "{:?}", scene.problems);
    let record = Record::from_metadata(&scene.service.record).unwrap().unwrap();
    assert_eq!(record.successor, None);
    // The record of the next term does not have it.
    scene.step(0, Some(Event::Resign));
    scene.run(seconds(20));
    let record = Record::from_metadata(&scene.service.record).unwrap().unwrap();
    assert_eq!(record.refusal, None);
}

#[test]
fn a_refused_transfer_is_on_record() {
    let every = [(variable::EVERY, "1s")];
    let mut scene =
        Scene::new(vec![candidate_named("first", &every), candidate_named("second", &every)]);
    let mut first = Command::new("a", Some("second"));
    first.place(&mut scene);
    // The turn of the first leader does not end, so that the handover waits for it.
    scene.run(seconds(20));
    let mut second = Command::new("b", Some("elsewhere"));
    second.place(&mut scene);
    scene.run(seconds(12));
    let TransferState::Refused(reason) = second.state(&mut scene) else { panic!() };
    assert!(reason.contains("already giving up"), "{reason}");
    // The first one is under way, although its order is no longer on the blob.
    assert!(matches!(first.state(&mut scene), TransferState::Waiting(_)));
}

#[test]
fn a_newer_transfer_replaces_one_that_has_not_begun() {
    let mut scene = scene(["first", "second", "third"]);
    let (mut first, mut second) =
        (Command::new("a", Some("second")), Command::new("b", Some("third")));
    first.place(&mut scene);
    second.place(&mut scene);
    assert_eq!(first.state(&mut scene), TransferState::Replaced);
    scene.run(seconds(20));
    leads(&scene, "third");
    let state = first.state(&mut scene);
    assert!(matches!(&state, TransferState::Changed(l) if l.name == "third"), "{state:?}");
}

/// The record does not show that the leader is obeying it.
#[test]
fn a_resignation_that_was_replaced_is_not_reported_as_void() {
    let mut scene = scene(["first", "second", "third"]);
    let (mut first, mut second) = (Command::new("a", None), Command::new("b", Some("third")));
    first.place(&mut scene);
    second.place(&mut scene);
    assert!(matches!(first.state(&mut scene), TransferState::Waiting(_)));
}

/// A host of shares does this when the plan changes.
#[test]
fn a_transfer_that_its_host_overrides_has_failed_on_record() {
    let mut scene = scene(["first", "second", "third"]);
    let mut command = Command::new("a", Some("nobody"));
    command.place(&mut scene);
    scene.run(seconds(12));
    scene.hand_over("also-nobody");
    scene.run(seconds(6));
    let TransferState::Failed(reason) = command.state(&mut scene) else { panic!() };
    assert!(reason.contains("took its place"), "{reason}");
}

/// A leader in a process with very many elections reads seldom.
#[test]
fn a_leader_that_reads_seldom_obeys_older_transfers() {
    let seldom = (variable::ORDERS, "200s");
    let mut scene =
        Scene::new(vec![candidate_named("first", &[seldom]), candidate_named("second", &[])]);
    Command::new("a", None).place(&mut scene);
    scene.run(seconds(210));
    assert_eq!(scene.endings.len(), 1);
}

/// The order stays on the blob, and the next leader has another term.
#[test]
fn a_transfer_is_for_one_term() {
    let mut scene = scene(["first", "second", "third"]);
    Command::new("a", None).place(&mut scene);
    scene.run(seconds(120));
    assert_eq!(scene.endings.len(), 1, "{:?}", scene.endings);
}

#[test]
fn an_old_transfer_is_not_obeyed() {
    let mut scene = scene(["first", "second", "third"]);
    let mut command = Command::new("a", None);
    command.place(&mut scene);
    let orders = scene.service.orders.take();
    scene.run(seconds(75));
    scene.service.orders = orders;
    scene.run(seconds(30));
    assert_eq!(scene.endings, []);
    assert!(matches!(command.state(&mut scene), TransferState::Waiting(_)));
}

#[test]
fn a_command_that_repeats_itself_writes_once() {
    let mut scene = scene(["first", "second", "third"]);
    let mut command = Command::new("a", Some("second"));
    command.place(&mut scene);
    let (_, tag) = scene.service.orders.clone().unwrap();
    command.place(&mut scene);
    assert_eq!(scene.service.orders.as_ref().unwrap().1, tag);
}

/// Triggers of other commands, and fields of later versions.
#[test]
fn order_commands_keep_foreign_orders() {
    let mut scene = scene(["first", "second", "third"]);
    let mut orders = triggers::waiting(&[("live", 100)]);
    orders.insert("tenurelater".into(), "x".into());
    scene.service.orders = Some((orders, 1));
    Command::new("a", Some("second")).place(&mut scene);
    let (orders, _) = scene.service.orders.clone().unwrap();
    assert!(orders.get("tenuretriggers").unwrap().starts_with("live@"));
    assert_eq!((orders.get("tenuretransfer"), orders.get("tenurelater")), (Some("a"), Some("x")));
    // A trigger keeps the transfer of the current term, and drops that of an earlier one.
    let every = [(variable::EVERY, "1s")];
    let mut scene =
        Scene::new(vec![candidate_named("first", &every), candidate_named("second", &every)]);
    Command::new("a", Some("second")).place(&mut scene);
    let settings = Candidate::new(&[]).settings;
    let place = |scene: &mut Scene, id: &str| {
        let now = scene.now();
        let mut ask = |operation: &Operation| scene.service.answer(operation, now).unwrap();
        let (orders, election) = (ask(&ORDERS), ask(&Operation::Read { lease: None }));
        let answers = (&orders, &election);
        match trigger((id, true), answers, &settings, instant(now)).unwrap() {
            OrderStep::Write(operation, _) => assert_eq!(ask(&operation).status, 201),
            other => panic!("{other:?}"),
        }
        let (orders, _) = scene.service.orders.clone().unwrap();
        orders.get("tenuretransfer").is_some()
    };
    assert!(place(&mut scene, "t1"));
    let mut record = Record::from_metadata(&scene.service.record).unwrap().unwrap();
    record.term += 1;
    record.orders_term = Some(record.term);
    scene.service.record = record.to_metadata();
    assert!(!place(&mut scene, "t2"));
}

#[test]
fn an_order_that_no_leader_would_take_is_refused_with_the_reason() {
    let refusal = |scene: &mut Scene, id, to| {
        let problem = Command::new(id, to).round(scene, true).unwrap_err();
        assert_eq!(scene.service.orders, None);
        problem.detail
    };
    let mut scene = scene(["first", "second", "third"]);
    assert!(refusal(&mut scene, "a b", None).contains("1 to 64 letters"));
    assert!(refusal(&mut scene, "a", Some("first")).contains("leads already"));
    assert!(refusal(&mut scene, "a", Some("\n")).contains("no candidate can have"));
    let holder = scene.service.holder.take();
    assert!(refusal(&mut scene, "a", None).contains("has no leader now"));
    scene.service.holder = holder;
    let mut record = Record::from_metadata(&scene.service.record).unwrap().unwrap();
    record.orders_term = None;
    scene.service.record = record.to_metadata();
    assert!(refusal(&mut scene, "a", None).contains("takes no orders"));
    scene.service.record = Metadata::default();
    assert!(refusal(&mut scene, "a", None).contains("no candidate of"));
}

/// Other programs may be permitted to write side blobs.
#[test]
fn orders_that_no_command_writes_count_as_absent() {
    for fields in [
        &[("tenuretransfer", "a b"), ("tenuretransferterm", "1")][..],
        &[("tenuretransfer", "a")],
        &[("tenuretransfer", "a"), ("tenuretransferterm", "x")],
        &[("tenuretriggers", "a@b")],
    ] {
        let mut scene = scene(["first", "second", "third"]);
        let mut orders = Metadata::from_iter(fields.iter().copied());
        orders.insert("tenurewriter".into(), "x".into());
        scene.service.orders = Some((orders, 1));
        scene.run(seconds(30));
        assert_eq!(scene.endings, []);
        let problem = Command::new("b", None).round(&mut scene, true).unwrap_err();
        assert!(problem.detail.contains("left untouched"), "{problem:?}");
    }
}

/// Work that has one turn a term, work without a timer, and a coordinator.
#[test]
fn every_leader_obeys() {
    for setting in [(variable::WHILE_LEADING, "true"), (variable::COORDINATES, "true")] {
        let both = [candidate_named("first", &[setting]), candidate_named("second", &[setting])];
        let mut scene = Scene::new(both.into());
        Command::new("a", Some("second")).place(&mut scene);
        scene.run(seconds(20));
        scene.step(0, Some(Event::TurnEnded(Outcome::CutOff.into())));
        scene.run(seconds(8));
        leads(&scene, "second");
    }
}
