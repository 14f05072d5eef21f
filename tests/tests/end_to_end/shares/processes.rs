//! Processes of `tenure run --shares`: they come, die and leave, and the commands run for each share once at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tenure_store::{Entry, Verb};
use tenure_tests::{Candidate, Group, Line, Sink, Store, needs};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::PROGRAM;

/// For what has no bound of its own, on a busy machine.
const SOON: Duration = tenure_tests::PATIENCE;

pub(super) const SHARES: u32 = 8;

/// A busy machine stands still for a while. A member that is silent is missed after 3 S, which is as long.
const LEASE: Duration = Duration::from_secs(60);

/// Writes at its begin and before its end: who, of which share, under which term. Without shares it is 0 of 0.
const WORK: &str = "tell() { echo \"$WHO ${TENURE_SHARE_INDEX:-0} ${TENURE_SHARE_COUNT:-0} $TENURE_TERM\" >> \"$PLACE\"; }; \
                    tell; sleep 0.3; tell";

pub(super) struct Stage {
    pub(super) group: Group,
    /// The request time-out is a fifth of it.
    pub(super) lease: Duration,
    /// What the commands wrote, in the order in which they did.
    pub(super) place: PathBuf,
    _folder: tempfile::TempDir,
    _sink: Sink,
}

/// One line that a command wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beat {
    who: String,
    /// Of how many, and which.
    pub(super) share: (u32, u32),
    term: u64,
}

impl Stage {
    pub(super) async fn of(store: &Store) -> Self {
        let sink = Sink::start().await.unwrap();
        let mut group = Group::new(PROGRAM, store, &sink);
        group.timer = ["--every", "1s"];
        group.warm_up().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("beats");
        Self { group, lease: LEASE, place, _folder: folder, _sink: sink }
    }

    pub(super) fn start(&self, name: &str, more: &[&str]) -> Candidate {
        self.start_plain(name, &[&["--shares", &SHARES.to_string()], more].concat())
    }

    /// One without shares.
    pub(super) fn start_plain(&self, name: &str, more: &[&str]) -> Candidate {
        Candidate::spawn(name, self.plain(name, more)).unwrap()
    }

    /// One whose requests go to a proxy.
    pub(super) fn start_behind(&self, proxied: &str, name: &str) -> Candidate {
        let mut command = self.plain(name, &["--shares", &SHARES.to_string()]);
        command.env("AZURE_STORAGE_CONNECTION_STRING", proxied);
        Candidate::spawn(name, command).unwrap()
    }

    fn plain(&self, name: &str, more: &[&str]) -> Command {
        let lease = format!("{}s", self.lease.as_secs());
        let (who, place) = (format!("WHO={name}"), format!("PLACE={}", self.place.display()));
        let request_timeout = format!("{}s", self.lease.as_secs() / 5);
        let timings = ["--lease", &lease, "--request-timeout", &request_timeout];
        let own = [&timings[..], &["--env", &who, "--env", &place]].concat();
        let more = own.iter().chain(more).copied().collect::<Vec<_>>();
        self.group.command(name, &more, &["sh", "-c", WORK])
    }

    pub(super) async fn command(&self, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.arg(words[0]).arg(&self.group.election).args(&words[1..]);
        self.group.access.give(&mut command);
        timeout(SOON, command.output()).await.unwrap().unwrap()
    }

    /// Until each of so many shares is planned for these members evenly, and held and worked for by whom it is planned
    /// for. What `tenure status` says of them then.
    pub(super) async fn balanced(&self, members: &[&str], shares: u32) -> Value {
        let asked = async {
            loop {
                let before = beats(&self.place);
                assert_eq!(wrong(&before), [""; 0]);
                let output = self.command(&["status", "--json"]).await;
                let status: Value = serde_json::from_slice(&output.stdout).unwrap();
                let told = status["shares"].clone();
                let planned = planned(&told);
                let even =
                    shares as usize / members.len()..=(shares as usize).div_ceil(members.len());
                let held = |name: &&str| planned.values().filter(|who| *who == name).count();
                let is_held = judge_holders(&told, &planned, &before);
                if planned.len() == shares as usize && told["count"] == shares {
                    let unread = |share: &Value| !share["problem"].is_null();
                    let code =
                        match told["each"].as_array().is_some_and(|all| all.iter().any(unread)) {
                            true => 2,
                            false if is_held && !status["leader"].is_null() => 0,
                            false => 1,
                        };
                    assert_eq!(output.status.code(), Some(code), "{output:?}");
                    // Whoever beats from now on.
                    if is_held
                        && members.iter().all(|name| even.contains(&held(name)))
                        && self.is_worked_for(&planned, shares, before.len()).await
                    {
                        return told;
                    }
                }
                sleep(Duration::from_millis(200)).await;
            }
        };
        let waited = timeout(SOON, asked).await;
        waited.unwrap_or_else(|_| panic!("{members:?}: {:?}", beats(&self.place)))
    }

    /// Waits for beats of all shares behind so many lines; false when it is another one's.
    async fn is_worked_for(
        &self,
        planned: &BTreeMap<u32, String>,
        shares: u32,
        from: usize,
    ) -> bool {
        let mut worked = BTreeMap::new();
        let until = tokio::time::Instant::now() + Duration::from_secs(20);
        while tokio::time::Instant::now() < until {
            for Beat { who, share: (count, index), .. } in &beats(&self.place)[from..] {
                if *count == shares {
                    worked.insert(*index, who.clone());
                }
            }
            if worked == *planned {
                return true;
            }
            sleep(Duration::from_millis(100)).await;
        }
        false
    }
}

/// Who should hold what, by `tenure status --json`.
fn planned(told: &Value) -> BTreeMap<u32, String> {
    let mut planned = BTreeMap::new();
    for member in told["members"].as_array().into_iter().flatten() {
        for share in member["planned"].as_array().into_iter().flatten() {
            let index = u32::try_from(share.as_u64().unwrap()).unwrap();
            planned.insert(index, member["name"].as_str().unwrap().to_owned());
        }
    }
    planned
}

/// Whether each share is held by whom it is planned for, by `tenure status --json`, which has to agree with itself, and
/// with what was worked `before` it was asked.
fn judge_holders(told: &Value, planned: &BTreeMap<u32, String>, before: &[Beat]) -> bool {
    let mut held: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let (count, mut as_planned) = (told["count"].as_u64(), true);
    for (number, share) in (0..).zip(told["each"].as_array().into_iter().flatten()) {
        assert_eq!(share["index"], number, "{told}");
        assert_eq!(share["planned"].as_str(), planned.get(&number).map(String::as_str), "{told}");
        as_planned &= share["holder"] == share["planned"];
        let Some(holder) = share["holder"].as_str() else { continue };
        held.entry(holder).or_default().push(&share["index"]);
        let since = share["since"].as_str().unwrap_or_default();
        assert!(since.ends_with('Z'), "{share}");
        let term = share["term"].as_u64().unwrap();
        let of_share = |beat: &&Beat| count == Some(beat.share.0.into()) && beat.share.1 == number;
        let newest = before.iter().rfind(of_share);
        assert!(newest.is_none_or(|beat| beat.term <= term), "{share} after {newest:?}");
    }
    for member in told["members"].as_array().into_iter().flatten() {
        let own = held.remove(member["name"].as_str().unwrap()).unwrap_or_default();
        let fits = own.is_empty() == member["since"].is_null();
        let holds = member["holds"].as_array().map(|all| all.iter().collect::<Vec<_>>());
        assert!(holds.unwrap_or_default() == own && fits, "{told}");
    }
    assert_eq!(held.len(), 0, "each holder is a row: {told}");
    as_planned
}

/// All lines that are whole.
pub(super) fn beats(place: &Path) -> Vec<Beat> {
    let text = read_to_string(place).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let beat = |line: &str| {
        let words = line.split(' ').collect::<Vec<_>>();
        let [who, index, count, term] = words.as_slice() else { panic!("{line}") };
        let (index, count) = (index.parse().unwrap(), count.parse().unwrap());
        Beat { who: (*who).to_owned(), share: (count, index), term: term.parse().unwrap() }
    };
    whole.lines().map(beat).collect()
}

/// What is wrong with these: a beat after one of a later term of its share, two holders under one term, or a beat of
/// one split among those of another.
pub(super) fn wrong(beats: &[Beat]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut newest: BTreeMap<(u32, u32), &Beat> = BTreeMap::new();
    let mut counts = Vec::new();
    for beat in beats {
        let before = newest.insert(beat.share, beat);
        let is_wrong = |before: &&Beat| {
            before.term > beat.term || (before.term == beat.term && before.who != beat.who)
        };
        wrong.extend(before.filter(is_wrong).map(|before| format!("{beat:?} after {before:?}")));
        if beat.share.0 > 0 && counts.last() != Some(&beat.share.0) {
            counts.push(beat.share.0);
        }
    }
    if counts.iter().collect::<BTreeSet<_>>().len() != counts.len() {
        wrong.push(format!("numbers of shares alternate: {counts:?}"));
    }
    wrong
}

/// How many shares it was ordered to hand over.
fn handed_over(member: &Candidate) -> usize {
    let is_order = |line: &tenure_tests::Line| {
        let order = line.event["order"].as_str().unwrap_or_default();
        line.name() == "ordered" && order.starts_with("hand over to")
    };
    let orders = member.lines().into_iter().filter(is_order);
    orders.map(|line| line.event["election"].to_string()).collect::<BTreeSet<_>>().len()
}

async fn processes_come_and_go(store: Store) {
    let stage = Stage::of(&store).await;
    let none = stage.command(&["status"]).await;
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    let mut ada = stage.start("ada", &[]);
    stage.balanced(&["ada"], SHARES).await;
    let mut ben = stage.start("ben", &[]);
    stage.balanced(&["ada", "ben"], SHARES).await;
    assert_eq!(handed_over(&ada), 4, "a join: {}", ada.transcript());
    let mut cleo = stage.start("cleo", &[]);
    stage.balanced(&["ada", "ben", "cleo"], SHARES).await;

    ben.kill().await.unwrap();
    let told = stage.balanced(&["ada", "cleo"], SHARES).await;
    let of_cleo = planned(&told).values().filter(|who| *who == "cleo").count();
    let before = handed_over(&cleo);
    let status = cleo.terminate(SOON).await.unwrap();
    assert!(status.success(), "{}", cleo.transcript());
    assert_eq!(handed_over(&cleo) - before, of_cleo, "a graceful leave: {}", cleo.transcript());
    stage.balanced(&["ada"], SHARES).await;

    let text = stage.command(&["status"]).await;
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("\n\n8 shares\n") && text.contains("  0–7    "), "{text}");
    assert!(text.contains(" ago\n") && !text.contains("moves"), "{text}");
    let told = stage.command(&["status", "--json"]).await;
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let shares = &told["shares"];
    assert_eq!((&shares["count"], &shares["next_count"]), (&8.into(), &Value::Null), "{told}");

    let refused = stage.command(&["reshare", "--shares", "5"]).await;
    assert_eq!(refused.status.code(), Some(2), "nobody agreed: {refused:?}");
    let done = stage.command(&["reshare", "--shares", "5", "--yes"]).await;
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    stage.balanced(&["ada"], 5).await;
    let again = stage.command(&["reshare", "--shares", "5", "--yes"]).await;
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(again.status.success() && said.contains("already"), "{again:?}");

    ada.kill().await.unwrap();
    let moves = async {
        loop {
            let output = stage.command(&["status"]).await;
            assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if text.ends_with("\nshare  moves\n0–4    nobody → ada\n") {
                return;
            }
            sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(SOON, moves).await.unwrap();

    let all = beats(&stage.place);
    assert_eq!(wrong(&all), [""; 0]);
    let seen = all.iter().map(|beat| beat.share).collect::<BTreeSet<_>>();
    let of = |count: u32| (0..count).map(move |index| (count, index));
    assert_eq!(seen, of(SHARES).chain(of(5)).collect::<BTreeSet<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_come_and_go_in_the_embedded_store() {
    processes_come_and_go(Store::embedded().await.unwrap()).await;
}

async fn processes_come_and_go_in_azurite() {
    processes_come_and_go(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn processes_come_and_go_in_azurite);

/// What the store was asked about the blob whose name ends so, and did.
fn done(store: &Store, ends: &str, verb: Verb) -> Vec<Entry> {
    let Store::Embedded(store) = store else { panic!("it has no such log") };
    store.with(|service| {
        let of = |entry: &&Entry| entry.verb == verb && entry.blob.ends_with(ends);
        service.log().entries().filter(of).filter(|e| e.status < 300).cloned().collect()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shares_of_a_process_that_is_killed_are_taken_over_before_it_would_be_missed() {
    let store = Store::embedded().await.unwrap();
    let stage = Stage::of(&store).await;
    let ada = stage.start("ada", &[]);
    stage.balanced(&["ada"], SHARES).await;
    let mut ben = stage.start("ben", &[]);
    let told = stage.balanced(&["ada", "ben"], SHARES).await;
    let held = planned(&told).into_iter().filter(|(_, who)| who == "ben").map(|(share, _)| share);
    let held = held.collect::<Vec<_>>();
    assert_eq!(held.len(), 4, "{told}");

    kill_process(ben.runner().unwrap(), Signal::KILL).unwrap();
    assert_eq!(ben.end(SOON).await.unwrap().code(), Some(128 + 9));
    let lines = ben.all_lines().await;
    let of_process = lines.iter().filter(|line| line.event["class"] == "process");
    let of_process = of_process.map(|line| &line.event).collect::<Vec<_>>();
    let [told] = of_process.as_slice() else { panic!("{of_process:?}") };
    assert_eq!(told["election"], stage.group.election.as_str(), "{told}");
    let text = told["detail"].as_str().unwrap();
    assert!(text.contains("was killed by SIGKILL; nothing of its work runs any more; "), "{text}");
    assert!(
        text.contains("; the leases of shares ") && text.contains(" were released; "),
        "{text}"
    );
    assert!(text.ends_with("deleted, so the others take over its shares at once"), "{text}");

    stage.balanced(&["ada"], SHARES).await;
    let sign = ".member.ben";
    let last = done(&store, sign, Verb::PutBlob).pop().unwrap().at;
    let deleted = done(&store, sign, Verb::DeleteBlob);
    let [deleted] = deleted.as_slice() else { panic!("{deleted:?}") };
    for share in held {
        let acquired = done(&store, &format!(".{share}-of-{SHARES}"), Verb::Acquire).pop().unwrap();
        assert!(acquired.at > deleted.at, "{acquired:?} before {deleted:?}");
        let after = acquired.at - last;
        assert!(
            after < LEASE,
            "share {share}, {after:?} after the last sign: {}",
            ada.transcript()
        );
    }
    assert_eq!(wrong(&beats(&stage.place)), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_not_ready_is_no_member() {
    let store = Store::embedded().await.unwrap();
    let stage = Stage::of(&store).await;
    let [ready, asked] = ["ready", "asked"].map(|file| stage.place.with_extension(file));
    let command = format!("echo >> {}; test -e {}", asked.display(), ready.display());
    let ada = stage.start("ada", &["--ready-cmd", &command]);
    let _ben = stage.start("ben", &[]);
    stage.balanced(&["ben"], SHARES).await;
    // It has been there for long enough to count.
    let long = async {
        while read_to_string(&asked).unwrap_or_default().lines().count() < 4 {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(SOON, long).await.unwrap();
    assert_eq!(done(&store, ".member.ada", Verb::PutBlob), []);

    std::fs::write(&ready, "").unwrap();
    stage.balanced(&["ada", "ben"], SHARES).await;
    // Its shares do not ask again.
    let told = |line: &&Line| {
        line.event["detail"].as_str().is_some_and(|detail| detail.starts_with("ready, so"))
    };
    assert_eq!(ada.lines().iter().filter(told).count(), 1, "{}", ada.transcript());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_component_is_told_which_share_its_turn_is_for() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let ada = group.start("ada", &["--shares", "3"]).unwrap();
    for index in 0..3 {
        let (election, told) =
            (format!("{}.share.1.{index}-of-3", group.election), format!("share {index} of 3"));
        let is_it = |line: &tenure_tests::Line| {
            line.event["election"] == election.as_str() && line.event.to_string().contains(&told)
        };
        ada.line(&told, 0, SOON, is_it).await;
    }
}
