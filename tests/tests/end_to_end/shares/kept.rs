//! What is kept beside an election for its shares.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use tenure::Authorities;
use tenure::engine::{Clients, Election, Variables};
use tenure_clock::{BootClock, Clock};
use tenure_core::{Event, LeaseState, Report, Request, Role, variable};
use tenure_members::SharesStore;
use tenure_shares::{Answer, Ask, Pace, Plan, Share, Sign, Tag};
use tenure_store::sas::Scope;
use tenure_tests::Store;
use tenure_tests::credential::with_sas;
use tenure_tests::needs;
use tenure_tests::outsider::Outsider;
use tokio::net::TcpListener;
use uuid::Uuid;

/// One election of a process, without a runner.
struct Candidate {
    election: Arc<Election>,
    clock: BootClock,
    report: Option<Report>,
}

impl Candidate {
    fn of(connection_string: &str, election: &str) -> Self {
        let clock = BootClock::new();
        let settings = Variables::new()
            .with(variable::CONNECTION_STRING, connection_string)
            .with(variable::ELECTION, election)
            .with(variable::NAME, "ada")
            .with(variable::POLL, "500ms")
            // A machine that has too much to do answers late.
            .with(variable::LEASE, "60s")
            .with(variable::REQUEST_TIMEOUT, "15s")
            .with(variable::EVERY, "1h");
        let election = Election::new(settings, &clock);
        election.check().unwrap();
        Self { election: Arc::new(election), clock, report: None }
    }

    fn shares(&self, member: &str) -> SharesStore {
        SharesStore::of(self.election.clone(), member)
    }

    async fn step(&mut self, event: Option<Event>) -> &Report {
        let state = self.report.as_ref().map(|report| &report.state);
        let report = self.election.step(state, self.clock.now(), event).await;
        assert_eq!(report.problems, []);
        self.report.insert(report)
    }

    async fn lead(&mut self) {
        while !matches!(self.step(None).await.role, Role::Leading(_)) {
            let again_in = self.report.as_ref().unwrap().again_in;
            self.clock.sleep_until(self.clock.now() + again_in).await;
        }
    }
}

fn coordinating() -> String {
    format!("tenure-test-{}/jobs/of all", Uuid::new_v4().simple())
}

fn sign(member: &str) -> Sign {
    let pace = Pace::of(Duration::from_secs(15));
    Sign { member: member.to_owned(), weight: 2, most: Some(7), pace }
}

async fn ask(store: &SharesStore, ask: &Ask) -> Answer {
    let told = store.ask(ask).await;
    assert_eq!(told.problem, None, "{ask:?}");
    told.answer
}

/// Writes a sign: the tag that it has.
async fn signed(store: &SharesStore, member: &str) -> Tag {
    match ask(store, &Ask::Sign(sign(member))).await {
        Answer::Signed(tag) => tag,
        other => panic!("{other:?}"),
    }
}

async fn signs(store: &SharesStore) -> Vec<(Sign, Tag)> {
    match ask(store, &Ask::List).await {
        Answer::Signs(signs) => signs.into_iter().map(|listed| (listed.sign, listed.tag)).collect(),
        other => panic!("{other:?}"),
    }
}

async fn write(store: &SharesStore, plan: &Plan, over: Option<Tag>) -> Tag {
    match ask(store, &Ask::WritePlan(plan.clone(), over)).await {
        Answer::Plan(written, tag) if written == *plan => tag,
        other => panic!("{other:?}"),
    }
}

async fn signs_come_and_go(store: Store) {
    let mut candidate = Candidate::of(&store.connection_string(), &coordinating());
    let (ada, ben) = (candidate.shares("ada"), candidate.shares("ä/ben."));
    // There is no container yet.
    assert_eq!(ask(&ada, &Ask::Sign(sign("ada"))).await, Answer::Refused);
    assert_eq!(signs(&ada).await, []);
    candidate.step(None).await;
    assert_eq!(signs(&ada).await, []);
    let tags = [signed(&ben, "ä/ben.").await, signed(&ada, "ada").await];
    let both = signs(&ada).await;
    let of_both = both.iter().map(|(sign, _)| sign.clone()).collect::<Vec<_>>();
    assert_eq!(of_both, [sign("ä/ben."), sign("ada")], "in the order of their encoded names");
    let [(_, of_ben), (_, of_ada)] = both.try_into().unwrap();
    assert_eq!([&of_ben, &of_ada], tags.each_ref(), "that is what was told");
    // Another sign is another version, also where it says the same.
    let newer = signed(&ada, "ada").await;
    assert_ne!(newer, of_ada);
    assert_eq!(ask(&ben, &Ask::Remove("ada".into(), of_ada)).await, Answer::Refused);
    assert_eq!(ask(&ben, &Ask::Remove("ada".into(), newer.clone())).await, Answer::Done);
    // Azurite calls that a condition which is not met, and the service a blob that is missing.
    let again = ask(&ben, &Ask::Remove("ada".into(), newer)).await;
    assert!(matches!(again, Answer::Done | Answer::Refused), "{again:?}");
    assert_eq!(signs(&ada).await, [(sign("ä/ben."), of_ben)]);
    assert_eq!(ask(&ben, &Ask::TakeBack).await, Answer::Done);
    assert_eq!(signs(&ada).await, []);
}

async fn signs_age_by_the_clock_of_the_store(store: Store) {
    let mut candidate = Candidate::of(&store.connection_string(), &coordinating());
    candidate.step(None).await;
    let ada = candidate.shares("ada");
    let oldest = async || match ask(&ada, &Ask::List).await {
        Answer::Signs(signs) => signs.into_iter().map(|listed| listed.age).max().unwrap(),
        other => panic!("{other:?}"),
    };
    for needed in [Duration::from_secs(2), Duration::ZERO] {
        let written = Instant::now();
        signed(&ada, "ada").await;
        loop {
            let age = oldest().await;
            // The dates are in whole seconds.
            assert!(age <= written.elapsed() + Duration::from_secs(1), "{age:?}");
            if age >= needed {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// As a supervisor sends it, which has no credential.
async fn send(request: Request) -> u16 {
    let clients = Arc::new(Clients::for_component(Authorities::default()));
    let request = tenure::engine::to_http(&request).unwrap();
    let answer = clients.send(request, Duration::from_secs(30)).await.unwrap();
    answer.status().as_u16()
}

async fn a_last_will_deletes_one_sign(store: Store) {
    let mut candidate = Candidate::of(&store.connection_string(), &coordinating());
    candidate.step(None).await;
    let (ada, ben) = (candidate.shares("ä/ada."), candidate.shares("ben"));
    let first = signed(&ada, "ä/ada.").await;
    let of_first = ada.deletion(&first).unwrap();
    let second = signed(&ada, "ä/ada.").await;
    let of_second = ada.deletion(&second).unwrap();
    signed(&ben, "ben").await;
    assert_eq!(signs(&ben).await.len(), 2, "nothing was sent");
    assert_eq!(send(of_first).await, 412, "it is another one");
    assert_eq!(signs(&ben).await.len(), 2);
    assert!(of_second.timeout > Duration::ZERO && of_second.timeout <= Duration::from_secs(900));
    assert_eq!(send(of_second.clone()).await, 202);
    let left = signs(&ben).await.into_iter().map(|(sign, _)| sign).collect::<Vec<_>>();
    assert_eq!(left, [sign("ben")]);
    // It comes a second time, when there is nothing, and when there is a process of that name again.
    let again = send(of_second.clone()).await;
    assert!(matches!(again, 404 | 412), "{again}");
    signed(&ada, "ä/ada.").await;
    assert_eq!(send(of_second).await, 412);
    assert_eq!(signs(&ben).await.len(), 2);
}

async fn one_plan_is_written_over_what_was_read(store: Store) {
    let mut candidate = Candidate::of(&store.connection_string(), &coordinating());
    candidate.step(None).await;
    let (ada, ben) = (candidate.shares("ada"), candidate.shares("ben"));
    assert_eq!(ask(&ada, &Ask::ReadPlan(None)).await, Answer::NoPlan);
    // Larger than what an answer of an election may have.
    let members = (0..1000).map(|number| format!("member-{number}")).collect::<Vec<_>>();
    let shares = (0..20_000).map(|share| Some(share % 1000)).collect();
    let first = Plan { members, shares, ..Plan::first(0) };
    let tag = write(&ada, &first, None).await;
    assert_eq!(ask(&ben, &Ask::WritePlan(first.clone(), None)).await, Answer::Refused);
    assert_eq!(ask(&ben, &Ask::ReadPlan(None)).await, Answer::Plan(first.clone(), tag.clone()));
    assert_eq!(ask(&ben, &Ask::ReadPlan(Some(tag.clone()))).await, Answer::SamePlan);
    let second = Plan { version: 2, ..Plan::first(3) };
    let newer = write(&ben, &second, Some(tag.clone())).await;
    assert_eq!(ask(&ada, &Ask::WritePlan(first, Some(tag.clone()))).await, Answer::Refused);
    assert_eq!(ask(&ada, &Ask::ReadPlan(Some(tag))).await, Answer::Plan(second, newer));
}

async fn a_list_has_more_than_one_page(store: Store) {
    let mut candidate = Candidate::of(&store.connection_string(), &coordinating());
    candidate.step(None).await;
    let mut expected = (0..1001).map(|number| format!("m-{number}")).collect::<Vec<_>>();
    let ada = candidate.shares("ada");
    for name in &expected {
        signed(&ada, name).await;
    }
    // Beside other elections, whose names begin alike.
    let plan = Plan::first(1);
    write(&ada, &plan, None).await;
    expected.sort();
    let listed = signs(&ada).await.into_iter().map(|(sign, _)| sign.member).collect::<Vec<_>>();
    assert_eq!(listed, expected);
}

/// A lease of another program on a blob where Tenure has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_on_the_plan_or_on_a_sign_is_reported() {
    let store = Store::embedded().await.unwrap();
    let (connection_string, coordinating) = (store.connection_string(), coordinating());
    let mut candidate = Candidate::of(&connection_string, &coordinating);
    candidate.step(None).await;
    let ada = candidate.shares("ada");
    let plan = Plan::first(2);
    let tag = write(&ada, &plan, None).await;
    signed(&ada, "ada").await;
    for (suffix, ask) in [
        ("plan", Ask::WritePlan(plan.reshare(3), Some(tag))),
        ("member.ada", Ask::Sign(sign("ada"))),
        ("member.ada", Ask::TakeBack),
    ] {
        let blob = format!("{coordinating}.{suffix}");
        let outsider = Outsider::new(&connection_string, &blob);
        outsider.acquire_forever().await.unwrap();
        let told = ada.ask(&ask).await;
        assert_eq!(told.answer, Answer::Refused);
        let problem = told.problem.expect("it is reported");
        let expected = format!("another program holds a lease on the blob that has .{suffix} ");
        assert!(problem.detail.contains(&expected), "{}", problem.detail);
        outsider.break_lease().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_lease_is_broken_is_named_and_renews_no_more() {
    let store = Store::embedded().await.unwrap();
    let (connection_string, coordinating) = (store.connection_string(), coordinating());
    let mut candidate = Candidate::of(&connection_string, &coordinating);
    candidate.step(None).await;
    let share = Share { split: 1, index: 1 };
    let election = format!("{coordinating}.{}", share.suffix(2));
    let mut holder = Candidate::of(&connection_string, &election);
    holder.lead().await;
    let told = candidate.shares("ben").ask(&Ask::Break { share, of: 2 }).await;
    assert_eq!(told.answer, Answer::Done);
    let problem = told.problem.expect("it is reported");
    let expected = "share 1 of 2 is held by ada, which does not give it up";
    assert!(problem.detail.starts_with(expected), "{}", problem.detail);
    let seen = holder.election.inspect().await.unwrap();
    assert_eq!(seen.lease, LeaseState::Breaking);
}

async fn what_is_held_is_not_closed(store: Store) {
    let (connection_string, coordinating) = (store.connection_string(), coordinating());
    let mut candidate = Candidate::of(&connection_string, &coordinating);
    candidate.step(None).await;
    let ada = candidate.shares("ada");
    let (free, held) = (Share { split: 1, index: 0 }, Share { split: 1, index: 1 });
    let close = Ask::Close { shares: vec![free, held], of: 2 };
    let mut holder =
        Candidate::of(&connection_string, &format!("{coordinating}.{}", held.suffix(2)));
    holder.lead().await;
    assert_eq!(ask(&ada, &close).await, Answer::Closed(vec![free]));
    assert_eq!(holder.step(Some(Event::Leave(None))).await.role, Role::Left);
    assert_eq!(ask(&ada, &close).await, Answer::Closed(vec![free, held]));
    for share in [free, held] {
        let election = format!("{coordinating}.{}", share.suffix(2));
        let mut late = Candidate::of(&connection_string, &election);
        for _ in 0..3 {
            let role = &late.step(None).await.role;
            assert!(!matches!(role, Role::Leading(_)), "{role:?}");
        }
        let looked = late.election.inspect().await.unwrap_err();
        assert!(looked.detail.contains("is closed for good"), "{}", looked.detail);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signs_come_and_go_in_the_embedded_store() {
    signs_come_and_go(Store::embedded().await.unwrap()).await;
}

async fn signs_come_and_go_in_azurite() {
    signs_come_and_go(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn signs_come_and_go_in_azurite);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signs_age_by_the_clock_of_the_embedded_store() {
    signs_age_by_the_clock_of_the_store(Store::embedded().await.unwrap()).await;
}

async fn signs_age_by_the_clock_of_azurite() {
    signs_age_by_the_clock_of_the_store(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn signs_age_by_the_clock_of_azurite);

/// The next one could not be sent meanwhile, and the member would be gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_without_an_answer_is_given_up_when_the_next_one_is_due() {
    // It accepts connections, and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/devstoreaccount1", mute.local_addr().unwrap());
    let key = base64::engine::general_purpose::STANDARD.encode("key");
    let connection_string = format!(
        "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={key};BlobEndpoint={endpoint};"
    );
    let candidate = Candidate::of(&connection_string, &coordinating());
    let sign = Sign { pace: Pace::of(Duration::from_secs(3)), ..sign("ada") };
    let told = candidate.shares("ada").ask(&Ask::Sign(sign)).await;
    assert_eq!(told.answer, Answer::Unknown);
    // Who waits for the time-out of other requests says that the account "did not answer in time".
    assert!(told.problem.unwrap().detail.contains("given up"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_will_deletes_one_sign_in_the_embedded_store() {
    a_last_will_deletes_one_sign(Store::embedded().await.unwrap()).await;
}

async fn a_last_will_deletes_one_sign_in_azurite() {
    a_last_will_deletes_one_sign(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn a_last_will_deletes_one_sign_in_azurite);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_of_shares_is_kept_in_the_embedded_store() {
    one_plan_is_written_over_what_was_read(Store::embedded().await.unwrap()).await;
}

async fn a_plan_of_shares_is_kept_in_azurite() {
    one_plan_is_written_over_what_was_read(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn a_plan_of_shares_is_kept_in_azurite);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signs_are_listed_page_by_page_by_the_embedded_store() {
    a_list_has_more_than_one_page(Store::embedded().await.unwrap()).await;
}

async fn signs_are_listed_page_by_page_by_azurite() {
    a_list_has_more_than_one_page(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn signs_are_listed_page_by_page_by_azurite);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_that_is_held_is_not_closed_in_the_embedded_store() {
    what_is_held_is_not_closed(Store::embedded().await.unwrap()).await;
}

async fn a_share_that_is_held_is_not_closed_in_azurite() {
    what_is_held_is_not_closed(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn a_share_that_is_held_is_not_closed_in_azurite);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_list_is_told_what_it_takes() {
    let (store, coordinating) = (Store::embedded().await.unwrap(), coordinating());
    let mut candidate = Candidate::of(&store.connection_string(), &coordinating);
    candidate.step(None).await;
    let container = coordinating.split_once('/').unwrap().0.to_owned();
    let allowed = |letters| {
        with_sas(&store.connection_string(), Scope::Container(container.clone()), letters)
    };
    let may_not = Candidate::of(&allowed("rcwd"), &coordinating).shares("ada");
    signed(&may_not, "ada").await;
    let told = may_not.ask(&Ask::List).await;
    assert_eq!(told.answer, Answer::Refused);
    let problem = told.problem.unwrap().detail;
    assert!(
        problem.contains("list blobs") && problem.contains("it needs a SAS with l"),
        "{problem}"
    );
    let may = Candidate::of(&allowed("rcwdl"), &coordinating).shares("ada");
    assert_eq!(signs(&may).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_knows_what_became_of_what_was_not_answered() {
    let store = Store::embedded().await.unwrap();
    let mut candidate = Candidate::of(&store.connection_string(), &coordinating());
    candidate.step(None).await;
    let ada = candidate.shares("ada");
    let stopped = store.stop().await.unwrap();
    for asked in [Ask::Sign(sign("ada")), Ask::TakeBack, Ask::ReadPlan(None), Ask::List] {
        let told = ada.ask(&asked).await;
        assert_eq!(told.answer, Answer::Unknown, "{asked:?}");
        assert!(told.problem.is_some(), "{asked:?}");
    }
    let store = stopped.start().await.unwrap();
    signed(&ada, "ada").await;
    drop(store);
}
