//! Blobs beside an election that store its shares.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use tenure::RootCertificates;
use tenure::engine::{Clients, Election, Variables};
use tenure_clock::{BootClock, Clock};
use tenure_core::{Event, LeaseState, Report, Request, Role, variable};
use tenure_members::SharesStore;
use tenure_shares::{Plan, Share, Sign, SignTiming, StoreRequest, StoreResponse, Tag};
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
    fn new(connection_string: &str, election: &str) -> Self {
        let clock = BootClock::new();
        let settings = Variables::new()
            .with(variable::CONNECTION_STRING, connection_string)
            .with(variable::ELECTION, election)
            .with(variable::NAME, "ada")
            .with(variable::POLL, "500ms")
            // An overloaded machine answers late.
            .with(variable::LEASE, "60s")
            .with(variable::REQUEST_TIMEOUT, "15s")
            .with(variable::EVERY, "1h");
        let election = Election::new(settings, &clock);
        election.check().unwrap();
        Self { election: Arc::new(election), clock, report: None }
    }

    fn shares(&self, member: &str) -> SharesStore {
        SharesStore::new(self.election.clone(), member)
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

fn new_coordinating_election() -> String {
    format!("tenure-test-{}/jobs/of all", Uuid::new_v4().simple())
}

fn sign(member: &str) -> Sign {
    let pace = SignTiming::from_failover(Duration::from_secs(15));
    Sign { member: member.to_owned(), weight: 2, max_shares: Some(7), timing: pace }
}

async fn ask(store: &SharesStore, ask: &StoreRequest) -> StoreResponse {
    let response = store.send(ask).await;
    assert_eq!(response.problem, None, "{ask:?}");
    response.response
}

/// Writes a sign of life, and returns its tag.
async fn signed(store: &SharesStore, member: &str) -> Tag {
    match ask(store, &StoreRequest::WriteSign(sign(member))).await {
        StoreResponse::Signed(tag) => tag,
        other => panic!("{other:?}"),
    }
}

async fn signs(store: &SharesStore) -> Vec<(Sign, Tag)> {
    match ask(store, &StoreRequest::ListSigns).await {
        StoreResponse::Signs(signs) => {
            signs.into_iter().map(|listed| (listed.sign, listed.tag)).collect()
        }
        other => panic!("{other:?}"),
    }
}

async fn write_plan(store: &SharesStore, plan: &Plan, expected_tag: Option<Tag>) -> Tag {
    match ask(store, &StoreRequest::WritePlan(plan.clone(), expected_tag)).await {
        StoreResponse::Plan(written, tag) if written == *plan => tag,
        other => panic!("{other:?}"),
    }
}

async fn signs_come_and_go(store: Store) {
    let mut candidate = Candidate::new(&store.connection_string(), &new_coordinating_election());
    let (ada, ben) = (candidate.shares("ada"), candidate.shares("ä/ben."));
    // The container does not exist yet.
    assert_eq!(ask(&ada, &StoreRequest::WriteSign(sign("ada"))).await, StoreResponse::Refused);
    assert_eq!(signs(&ada).await, []);
    candidate.step(None).await;
    assert_eq!(signs(&ada).await, []);
    let tags = [signed(&ben, "ä/ben.").await, signed(&ada, "ada").await];
    let both = signs(&ada).await;
    let listed_signs = both.iter().map(|(sign, _)| sign.clone()).collect::<Vec<_>>();
    assert_eq!(listed_signs, [sign("ä/ben."), sign("ada")], "in the order of their encoded names");
    let [(_, ben_tag), (_, ada_tag)] = both.try_into().unwrap();
    assert_eq!([&ben_tag, &ada_tag], tags.each_ref(), "that is what was told");
    // Every sign is a new version, even with the same content.
    let newer = signed(&ada, "ada").await;
    assert_ne!(newer, ada_tag);
    assert_eq!(
        ask(&ben, &StoreRequest::RemoveSign("ada".into(), ada_tag)).await,
        StoreResponse::Refused
    );
    assert_eq!(
        ask(&ben, &StoreRequest::RemoveSign("ada".into(), newer.clone())).await,
        StoreResponse::Done
    );
    // Azurite reports a failed condition, and the service a missing blob.
    let repeated = ask(&ben, &StoreRequest::RemoveSign("ada".into(), newer)).await;
    assert!(matches!(repeated, StoreResponse::Done | StoreResponse::Refused), "{repeated:?}");
    assert_eq!(signs(&ada).await, [(sign("ä/ben."), ben_tag)]);
    assert_eq!(ask(&ben, &StoreRequest::WithdrawSign).await, StoreResponse::Done);
    assert_eq!(signs(&ada).await, []);
}

async fn signs_age_by_the_clock_of_the_store(store: Store) {
    let mut candidate = Candidate::new(&store.connection_string(), &new_coordinating_election());
    candidate.step(None).await;
    let ada = candidate.shares("ada");
    let oldest = async || match ask(&ada, &StoreRequest::ListSigns).await {
        StoreResponse::Signs(signs) => signs.into_iter().map(|listed| listed.age).max().unwrap(),
        other => panic!("{other:?}"),
    };
    for needed in [Duration::from_secs(2), Duration::ZERO] {
        let written = Instant::now();
        signed(&ada, "ada").await;
        loop {
            let age = oldest().await;
            // The dates have a resolution of one second.
            assert!(age <= written.elapsed() + Duration::from_secs(1), "{age:?}");
            if age >= needed {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Sends a request like a supervisor, which has no credential.
async fn send(mut request: Request) -> u16 {
    let clients = Arc::new(Clients::with_env_proxies(RootCertificates::default()));
    request.timeout = Duration::from_secs(30);
    clients.send(&request).await.unwrap().status
}

async fn a_last_will_deletes_one_sign(store: Store) {
    let mut candidate = Candidate::new(&store.connection_string(), &new_coordinating_election());
    candidate.step(None).await;
    let (ada, ben) = (candidate.shares("ä/ada."), candidate.shares("ben"));
    let first = signed(&ada, "ä/ada.").await;
    let first_deletion = ada.delete_request(&first).unwrap();
    let second = signed(&ada, "ä/ada.").await;
    let second_deletion = ada.delete_request(&second).unwrap();
    signed(&ben, "ben").await;
    assert_eq!(signs(&ben).await.len(), 2, "nothing was sent");
    assert_eq!(send(first_deletion).await, 412, "it is another one");
    assert_eq!(signs(&ben).await.len(), 2);
    assert!(
        second_deletion.timeout > Duration::ZERO
            && second_deletion.timeout <= Duration::from_secs(900)
    );
    assert_eq!(send(second_deletion.clone()).await, 202);
    let left = signs(&ben).await.into_iter().map(|(sign, _)| sign).collect::<Vec<_>>();
    assert_eq!(left, [sign("ben")]);
    // The request repeats, first with no blob, and later with a new process of that name.
    let repeated = send(second_deletion.clone()).await;
    assert!(matches!(repeated, 404 | 412), "{repeated}");
    signed(&ada, "ä/ada.").await;
    assert_eq!(send(second_deletion).await, 412);
    assert_eq!(signs(&ben).await.len(), 2);
}

async fn plan_is_written_over_last_read(store: Store) {
    let mut candidate = Candidate::new(&store.connection_string(), &new_coordinating_election());
    candidate.step(None).await;
    let (ada, ben) = (candidate.shares("ada"), candidate.shares("ben"));
    assert_eq!(ask(&ada, &StoreRequest::ReadPlan(None)).await, StoreResponse::NoPlan);
    // Exceeds the limit of an election's answers.
    let members = (0..1000).map(|number| format!("member-{number}")).collect::<Vec<_>>();
    let shares = (0..20_000).map(|share| Some(share % 1000)).collect();
    let first = Plan { members, shares, ..Plan::unassigned(0) };
    let tag = write_plan(&ada, &first, None).await;
    assert_eq!(
        ask(&ben, &StoreRequest::WritePlan(first.clone(), None)).await,
        StoreResponse::Refused
    );
    assert_eq!(
        ask(&ben, &StoreRequest::ReadPlan(None)).await,
        StoreResponse::Plan(first.clone(), tag.clone())
    );
    assert_eq!(
        ask(&ben, &StoreRequest::ReadPlan(Some(tag.clone()))).await,
        StoreResponse::PlanUnchanged
    );
    let second = Plan { version: 2, ..Plan::unassigned(3) };
    let newer = write_plan(&ben, &second, Some(tag.clone())).await;
    assert_eq!(
        ask(&ada, &StoreRequest::WritePlan(first, Some(tag.clone()))).await,
        StoreResponse::Refused
    );
    assert_eq!(
        ask(&ada, &StoreRequest::ReadPlan(Some(tag))).await,
        StoreResponse::Plan(second, newer)
    );
}

async fn a_list_has_more_than_one_page(store: Store) {
    let mut candidate = Candidate::new(&store.connection_string(), &new_coordinating_election());
    candidate.step(None).await;
    let mut expected = (0..1001).map(|number| format!("m-{number}")).collect::<Vec<_>>();
    let ada = candidate.shares("ada");
    for name in &expected {
        signed(&ada, name).await;
    }
    // Other elections exist whose names start alike.
    let plan = Plan::unassigned(1);
    write_plan(&ada, &plan, None).await;
    expected.sort();
    let listed = signs(&ada).await.into_iter().map(|(sign, _)| sign.member).collect::<Vec<_>>();
    assert_eq!(listed, expected);
}

/// Another program's lease on a blob that Tenure never leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_on_the_plan_or_on_a_sign_is_reported() {
    let store = Store::embedded().await.unwrap();
    let (connection_string, coordinating_election) =
        (store.connection_string(), new_coordinating_election());
    let mut candidate = Candidate::new(&connection_string, &coordinating_election);
    candidate.step(None).await;
    let ada = candidate.shares("ada");
    let plan = Plan::unassigned(2);
    let tag = write_plan(&ada, &plan, None).await;
    signed(&ada, "ada").await;
    for (suffix, ask) in [
        ("plan", StoreRequest::WritePlan(plan.reshare(3), Some(tag))),
        ("member.ada", StoreRequest::WriteSign(sign("ada"))),
        ("member.ada", StoreRequest::WithdrawSign),
    ] {
        let blob = format!("{coordinating_election}.{suffix}");
        let outsider = Outsider::new(&connection_string, &blob);
        outsider.acquire_forever().await.unwrap();
        let response = ada.send(&ask).await;
        assert_eq!(response.response, StoreResponse::Refused);
        let problem = response.problem.expect("it is reported");
        let expected = format!("name is that of the election's and .{suffix}. ");
        assert!(problem.detail.contains(&expected), "{}", problem.detail);
        outsider.break_lease().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_of_broken_lease_is_named_and_stops_renewing() {
    let store = Store::embedded().await.unwrap();
    let (connection_string, coordinating_election) =
        (store.connection_string(), new_coordinating_election());
    let mut candidate = Candidate::new(&connection_string, &coordinating_election);
    candidate.step(None).await;
    let share = Share { split: 1, index: 1 };
    let election = format!("{coordinating_election}.{}", share.suffix(2));
    let mut holder = Candidate::new(&connection_string, &election);
    holder.lead().await;
    let response =
        candidate.shares("ben").send(&StoreRequest::BreakLease { share, count: 2 }).await;
    assert_eq!(response.response, StoreResponse::Done);
    let problem = response.problem.expect("it is reported");
    let expected = "share 1 of 2 is held by ada, which does not release it";
    assert!(problem.detail.starts_with(expected), "{}", problem.detail);
    let status = holder.election.inspect().await.unwrap();
    assert_eq!(status.lease, LeaseState::Breaking);
}

async fn held_share_is_not_closed(store: Store) {
    let (connection_string, coordinating_election) =
        (store.connection_string(), new_coordinating_election());
    let mut candidate = Candidate::new(&connection_string, &coordinating_election);
    candidate.step(None).await;
    let ada = candidate.shares("ada");
    let (free_share, held_share) = (Share { split: 1, index: 0 }, Share { split: 1, index: 1 });
    let close = StoreRequest::CloseShares { shares: vec![free_share, held_share], count: 2 };
    let mut holder = Candidate::new(
        &connection_string,
        &format!("{coordinating_election}.{}", held_share.suffix(2)),
    );
    holder.lead().await;
    assert_eq!(ask(&ada, &close).await, StoreResponse::Closed(vec![free_share]));
    assert_eq!(holder.step(Some(Event::Leave(None))).await.role, Role::Left);
    assert_eq!(ask(&ada, &close).await, StoreResponse::Closed(vec![free_share, held_share]));
    for share in [free_share, held_share] {
        let election = format!("{coordinating_election}.{}", share.suffix(2));
        let mut late_candidate = Candidate::new(&connection_string, &election);
        for _ in 0..3 {
            let role = &late_candidate.step(None).await.role;
            assert!(!matches!(role, Role::Leading(_)), "{role:?}");
        }
        let error = late_candidate.election.inspect().await.unwrap_err();
        assert!(error.detail.contains("is closed for good"), "{}", error.detail);
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

/// Otherwise the next sign would be delayed, and the member would count as gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_without_an_answer_is_given_up_when_the_next_one_is_due() {
    // The listener accepts connections, but never answers.
    let silent_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/devstoreaccount1", silent_listener.local_addr().unwrap());
    let key = base64::engine::general_purpose::STANDARD.encode("key");
    let connection_string = format!(
        "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={key};BlobEndpoint={endpoint};"
    );
    let candidate = Candidate::new(&connection_string, &new_coordinating_election());
    let sign = Sign { timing: SignTiming::from_failover(Duration::from_secs(3)), ..sign("ada") };
    let response = candidate.shares("ada").send(&StoreRequest::WriteSign(sign)).await;
    assert_eq!(response.response, StoreResponse::Unknown);
    // The time-out of other requests would report that the account "did not answer in time".
    assert!(response.problem.unwrap().detail.contains("timed out"));
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
    plan_is_written_over_last_read(Store::embedded().await.unwrap()).await;
}

async fn a_plan_of_shares_is_kept_in_azurite() {
    plan_is_written_over_last_read(Store::shared_azurite(false).await.unwrap()).await;
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
    held_share_is_not_closed(Store::embedded().await.unwrap()).await;
}

async fn a_share_that_is_held_is_not_closed_in_azurite() {
    held_share_is_not_closed(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn a_share_that_is_held_is_not_closed_in_azurite);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_listing_names_missing_permission() {
    let (store, coordinating_election) =
        (Store::embedded().await.unwrap(), new_coordinating_election());
    let mut candidate = Candidate::new(&store.connection_string(), &coordinating_election);
    candidate.step(None).await;
    let container = coordinating_election.split_once('/').unwrap().0.to_owned();
    let allowed = |letters| {
        with_sas(&store.connection_string(), Scope::Container(container.clone()), letters)
    };
    let without_list = Candidate::new(&allowed("rcwd"), &coordinating_election).shares("ada");
    signed(&without_list, "ada").await;
    let response = without_list.send(&StoreRequest::ListSigns).await;
    assert_eq!(response.response, StoreResponse::Refused);
    let problem = response.problem.unwrap().detail;
    assert!(
        problem.contains("list blobs") && problem.contains("it needs a SAS with l"),
        "{problem}"
    );
    let with_list = Candidate::new(&allowed("rcwdl"), &coordinating_election).shares("ada");
    assert_eq!(signs(&with_list).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unanswered_request_has_unknown_outcome() {
    let store = Store::embedded().await.unwrap();
    let mut candidate = Candidate::new(&store.connection_string(), &new_coordinating_election());
    candidate.step(None).await;
    let ada = candidate.shares("ada");
    let stopped = store.stop().await.unwrap();
    for request in [
        StoreRequest::WriteSign(sign("ada")),
        StoreRequest::WithdrawSign,
        StoreRequest::ReadPlan(None),
        StoreRequest::ListSigns,
    ] {
        let response = ada.send(&request).await;
        assert_eq!(response.response, StoreResponse::Unknown, "{request:?}");
        assert!(response.problem.is_some(), "{request:?}");
    }
    let store = stopped.start().await.unwrap();
    signed(&ada, "ada").await;
    drop(store);
}
