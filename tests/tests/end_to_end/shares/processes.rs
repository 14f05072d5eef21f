//! Processes of `tenure run --shares`: they join, die and leave, and the commands run once at a
//! time for each share.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tenure_store::{Entry, OperationKind};
use tenure_tests::{Candidate, Group, Line, Sink, Store, needs};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::PROGRAM;

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = tenure_tests::PATIENCE;

pub(super) const SHARES: u32 = 8;

/// Tolerates a busy machine that stalls for a while. A silent member counts as gone after `3 S`,
/// which is as long.
const LEASE: Duration = Duration::from_secs(60);

/// Work that prints its member, share, number of shares and term at its start and before its end.
/// Without shares it prints 0 of 0.
const WORK: &str = "tell() { echo \"$WHO ${TENURE_SHARE_INDEX:-0} ${TENURE_SHARE_COUNT:-0} $TENURE_TERM\" >> \"$PLACE\"; }; \
                    tell; sleep 0.3; tell";

pub(super) struct Stage {
    pub(super) group: Group,
    /// Lease; the request time-out is a fifth of it.
    pub(super) lease: Duration,
    /// File with the output of the commands, in order.
    pub(super) beats_file: PathBuf,
    _folder: tempfile::TempDir,
    _sink: Sink,
}

/// One line from a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beat {
    member: String,
    /// Number of shares, and the index of this one.
    pub(super) share: (u32, u32),
    term: u64,
}

impl Stage {
    pub(super) async fn new(store: &Store) -> Self {
        let sink = Sink::start().await.unwrap();
        let mut group = Group::new(PROGRAM, store, &sink);
        group.timer = ["--every", "1s"];
        group.warm_up().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("beats");
        Self { group, lease: LEASE, beats_file: place, _folder: folder, _sink: sink }
    }

    pub(super) fn start(&self, name: &str, extra_args: &[&str]) -> Candidate {
        self.start_without_shares(name, &[&["--shares", &SHARES.to_string()], extra_args].concat())
    }

    /// Starts a process without shares.
    pub(super) fn start_without_shares(&self, name: &str, extra_args: &[&str]) -> Candidate {
        Candidate::spawn(name, self.run_command(name, extra_args)).unwrap()
    }

    /// Starts a process whose requests go through a proxy.
    pub(super) fn start_through_proxy(&self, proxied: &str, name: &str) -> Candidate {
        let mut command = self.run_command(name, &["--shares", &SHARES.to_string()]);
        command.env("AZURE_STORAGE_CONNECTION_STRING", proxied);
        Candidate::spawn(name, command).unwrap()
    }

    fn run_command(&self, name: &str, extra_args: &[&str]) -> Command {
        let lease = format!("{}s", self.lease.as_secs());
        let (member_env, beats_file_env) =
            (format!("WHO={name}"), format!("PLACE={}", self.beats_file.display()));
        let request_timeout = format!("{}s", self.lease.as_secs() / 5);
        let timings = ["--lease", &lease, "--request-timeout", &request_timeout];
        let args = [&timings[..], &["--env", &member_env, "--env", &beats_file_env]].concat();
        let extra_args = args.iter().chain(extra_args).copied().collect::<Vec<_>>();
        self.group.command(name, &extra_args, &["sh", "-c", WORK])
    }

    pub(super) async fn command(&self, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.arg(words[0]).arg(&self.group.election).args(&words[1..]);
        self.group.access.apply(&mut command);
        timeout(TIMEOUT, command.output()).await.unwrap().unwrap()
    }

    /// Waits until `shares` shares are planned evenly for these members, and each share is held and
    /// worked for as planned. Returns the matching `tenure status`.
    pub(super) async fn balanced(&self, members: &[&str], shares: u32) -> Value {
        let polling = async {
            loop {
                let before = beats(&self.beats_file);
                assert_eq!(violations(&before), [""; 0]);
                let output = self.command(&["status", "--json"]).await;
                let status: Value = serde_json::from_slice(&output.stdout).unwrap();
                let shares_status = status["shares"].clone();
                let planned = planned_shares(&shares_status);
                let even_range =
                    shares as usize / members.len()..=(shares as usize).div_ceil(members.len());
                let planned_count =
                    |name: &&str| planned.values().filter(|member| *member == name).count();
                let all_held = check_holders(&shares_status, &planned, &before);
                if planned.len() == shares as usize && shares_status["count"] == shares {
                    let unread = |share: &Value| !share["problem"].is_null();
                    let code = match shares_status["each"]
                        .as_array()
                        .is_some_and(|all| all.iter().any(unread))
                    {
                        true => 2,
                        false if all_held && !status["leader"].is_null() => 0,
                        false => 1,
                    };
                    assert_eq!(output.status.code(), Some(code), "{output:?}");
                    // Counts beats from now on.
                    if all_held
                        && members.iter().all(|name| even_range.contains(&planned_count(name)))
                        && self.wait_until_worked_for(&planned, shares, before.len()).await
                    {
                        return shares_status;
                    }
                }
                sleep(Duration::from_millis(200)).await;
            }
        };
        let waited = timeout(TIMEOUT, polling).await;
        waited.unwrap_or_else(|_| panic!("{members:?}: {:?}", beats(&self.beats_file)))
    }

    /// Waits up to 20 s until the beats after the first `from` lines match the plan. Returns true
    /// if they do.
    async fn wait_until_worked_for(
        &self,
        planned: &BTreeMap<u32, String>,
        shares: u32,
        from: usize,
    ) -> bool {
        let mut worked = BTreeMap::new();
        let until = tokio::time::Instant::now() + Duration::from_secs(20);
        while tokio::time::Instant::now() < until {
            for Beat { member: who, share: (count, index), .. } in &beats(&self.beats_file)[from..]
            {
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

/// Returns the planned holder of each share, from `tenure status --json`.
fn planned_shares(shares_status: &Value) -> BTreeMap<u32, String> {
    let mut planned = BTreeMap::new();
    for member in shares_status["members"].as_array().into_iter().flatten() {
        for share in member["planned"].as_array().into_iter().flatten() {
            let index = u32::try_from(share.as_u64().unwrap()).unwrap();
            planned.insert(index, member["name"].as_str().unwrap().to_owned());
        }
    }
    planned
}

/// Returns true if each share has its planned holder in `tenure status --json`. The status must
/// agree with itself and with the beats `before` the request.
fn check_holders(shares_status: &Value, planned: &BTreeMap<u32, String>, before: &[Beat]) -> bool {
    let mut shares_by_holder: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let (count, mut as_planned) = (shares_status["count"].as_u64(), true);
    for (number, share) in (0..).zip(shares_status["each"].as_array().into_iter().flatten()) {
        assert_eq!(share["index"], number, "{shares_status}");
        assert_eq!(
            share["planned"].as_str(),
            planned.get(&number).map(String::as_str),
            "{shares_status}"
        );
        as_planned &= share["holder"] == share["planned"];
        let Some(holder) = share["holder"].as_str() else { continue };
        shares_by_holder.entry(holder).or_default().push(&share["index"]);
        let since = share["since"].as_str().unwrap_or_default();
        assert!(since.ends_with('Z'), "{share}");
        let term = share["term"].as_u64().unwrap();
        let of_share = |beat: &&Beat| count == Some(beat.share.0.into()) && beat.share.1 == number;
        let newest = before.iter().rfind(of_share);
        assert!(newest.is_none_or(|beat| beat.term <= term), "{share} after {newest:?}");
    }
    for member in shares_status["members"].as_array().into_iter().flatten() {
        let held_shares =
            shares_by_holder.remove(member["name"].as_str().unwrap()).unwrap_or_default();
        let fits = held_shares.is_empty() == member["since"].is_null();
        let reported = member["holds"].as_array().map(|all| all.iter().collect::<Vec<_>>());
        assert!(reported.unwrap_or_default() == held_shares && fits, "{shares_status}");
    }
    assert_eq!(shares_by_holder.len(), 0, "each holder is a row: {shares_status}");
    as_planned
}

/// Returns all complete lines.
pub(super) fn beats(path: &Path) -> Vec<Beat> {
    let text = read_to_string(path).unwrap_or_default();
    let complete_lines = text.rfind('\n').map_or("", |end| &text[..end]);
    let beat = |line: &str| {
        let fields = line.split(' ').collect::<Vec<_>>();
        let [member, index, count, term] = fields.as_slice() else { panic!("{line}") };
        let (index, count) = (index.parse().unwrap(), count.parse().unwrap());
        Beat { member: (*member).to_owned(), share: (count, index), term: term.parse().unwrap() }
    };
    complete_lines.lines().map(beat).collect()
}

/// Returns the violations: beats after one of a later term of the same share, two holders under one
/// term, or beats of mixed splits.
pub(super) fn violations(beats: &[Beat]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut newest: BTreeMap<(u32, u32), &Beat> = BTreeMap::new();
    let mut counts = Vec::new();
    for beat in beats {
        let before = newest.insert(beat.share, beat);
        let is_violation = |before: &&Beat| {
            before.term > beat.term || (before.term == beat.term && before.member != beat.member)
        };
        violations
            .extend(before.filter(is_violation).map(|before| format!("{beat:?} after {before:?}")));
        if beat.share.0 > 0 && counts.last() != Some(&beat.share.0) {
            counts.push(beat.share.0);
        }
    }
    if counts.iter().collect::<BTreeSet<_>>().len() != counts.len() {
        violations.push(format!("numbers of shares alternate: {counts:?}"));
    }
    violations
}

/// Returns the number of shares that it was ordered to hand over.
fn handed_over_count(member: &Candidate) -> usize {
    let is_order = |line: &tenure_tests::Line| {
        let order = line.event["order"].as_str().unwrap_or_default();
        line.name() == "ordered" && order.starts_with("hand over to")
    };
    let orders = member.lines().into_iter().filter(is_order);
    orders.map(|line| line.event["election"].to_string()).collect::<BTreeSet<_>>().len()
}

async fn processes_come_and_go(store: Store) {
    let stage = Stage::new(&store).await;
    let no_candidates = stage.command(&["status"]).await;
    assert_eq!(no_candidates.status.code(), Some(1), "{no_candidates:?}");
    let mut ada = stage.start("ada", &[]);
    stage.balanced(&["ada"], SHARES).await;
    let mut ben = stage.start("ben", &[]);
    stage.balanced(&["ada", "ben"], SHARES).await;
    assert_eq!(handed_over_count(&ada), 4, "a join: {}", ada.transcript());
    let mut cleo = stage.start("cleo", &[]);
    stage.balanced(&["ada", "ben", "cleo"], SHARES).await;

    ben.kill().await.unwrap();
    let shares_status = stage.balanced(&["ada", "cleo"], SHARES).await;
    let cleo_share_count =
        planned_shares(&shares_status).values().filter(|member| *member == "cleo").count();
    let before = handed_over_count(&cleo);
    let status = cleo.terminate(TIMEOUT).await.unwrap();
    assert!(status.success(), "{}", cleo.transcript());
    assert_eq!(
        handed_over_count(&cleo) - before,
        cleo_share_count,
        "a graceful leave: {}",
        cleo.transcript()
    );
    stage.balanced(&["ada"], SHARES).await;

    let text = stage.command(&["status"]).await;
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("\n\n8 shares\n") && text.contains("  0–7    "), "{text}");
    assert!(text.contains(" ago\n") && !text.contains("moves"), "{text}");
    let status_output = stage.command(&["status", "--json"]).await;
    let status_json: Value = serde_json::from_slice(&status_output.stdout).unwrap();
    let shares = &status_json["shares"];
    assert_eq!(
        (&shares["count"], &shares["next_count"]),
        (&8.into(), &Value::Null),
        "{status_json}"
    );

    let refused = stage.command(&["reshare", "--shares", "5"]).await;
    assert_eq!(refused.status.code(), Some(2), "nobody agreed: {refused:?}");
    let done = stage.command(&["reshare", "--shares", "5", "--yes"]).await;
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    stage.balanced(&["ada"], 5).await;
    let again = stage.command(&["reshare", "--shares", "5", "--yes"]).await;
    let stdout = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(again.status.success() && stdout.contains("already"), "{again:?}");

    ada.kill().await.unwrap();
    let moves = async {
        loop {
            let output = stage.command(&["status"]).await;
            assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if text.ends_with("\nshare  moves\n0–4    none → ada\n") {
                return;
            }
            sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(TIMEOUT, moves).await.unwrap();

    let all = beats(&stage.beats_file);
    assert_eq!(violations(&all), [""; 0]);
    let worked_shares = all.iter().map(|beat| beat.share).collect::<BTreeSet<_>>();
    let share_keys = |count: u32| (0..count).map(move |index| (count, index));
    assert_eq!(worked_shares, share_keys(SHARES).chain(share_keys(5)).collect::<BTreeSet<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_come_and_go_in_the_embedded_store() {
    processes_come_and_go(Store::embedded().await.unwrap()).await;
}

async fn processes_come_and_go_in_azurite() {
    processes_come_and_go(Store::shared_azurite(false).await.unwrap()).await;
}

needs!(Node => async fn processes_come_and_go_in_azurite);

/// Returns the store's successful requests for the blob whose name ends with `ends`.
fn store_entries(store: &Store, ends: &str, operation: OperationKind) -> Vec<Entry> {
    let Store::Embedded(store) = store else { panic!("it has no such log") };
    store.with(|service| {
        let matches = |entry: &&Entry| entry.operation == operation && entry.blob.ends_with(ends);
        service.log().entries().filter(matches).filter(|e| e.status < 300).cloned().collect()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shares_of_a_process_that_is_killed_are_taken_over_before_it_would_be_missed() {
    let store = Store::embedded().await.unwrap();
    let stage = Stage::new(&store).await;
    let ada = stage.start("ada", &[]);
    stage.balanced(&["ada"], SHARES).await;
    let mut ben = stage.start("ben", &[]);
    let shares_status = stage.balanced(&["ada", "ben"], SHARES).await;
    let ben_shares = planned_shares(&shares_status)
        .into_iter()
        .filter(|(_, member)| member == "ben")
        .map(|(share, _)| share);
    let ben_shares = ben_shares.collect::<Vec<_>>();
    assert_eq!(ben_shares.len(), 4, "{shares_status}");

    kill_process(ben.runner().unwrap(), Signal::KILL).unwrap();
    assert_eq!(ben.end(TIMEOUT).await.unwrap().code(), Some(128 + 9));
    let lines = ben.all_lines().await;
    let process_problems = lines.iter().filter(|line| line.event["class"] == "process");
    let process_problems = process_problems.map(|line| &line.event).collect::<Vec<_>>();
    let [problem] = process_problems.as_slice() else { panic!("{process_problems:?}") };
    assert_eq!(problem["election"], stage.group.election.as_str(), "{problem}");
    let text = problem["detail"].as_str().unwrap();
    assert!(text.contains("was killed by SIGKILL; all its processes have exited; "), "{text}");
    assert!(
        text.contains("; the leases of shares ") && text.contains(" were released; "),
        "{text}"
    );
    assert!(text.ends_with("deleted, so the other members take over its shares at once"), "{text}");

    stage.balanced(&["ada"], SHARES).await;
    let sign = ".member.ben";
    let last_sign_at = store_entries(&store, sign, OperationKind::PutBlob).pop().unwrap().at;
    let deleted = store_entries(&store, sign, OperationKind::DeleteBlob);
    let [deleted] = deleted.as_slice() else { panic!("{deleted:?}") };
    for share in ben_shares {
        let acquired =
            store_entries(&store, &format!(".{share}-of-{SHARES}"), OperationKind::Acquire)
                .pop()
                .unwrap();
        assert!(acquired.at > deleted.at, "{acquired:?} before {deleted:?}");
        let after = acquired.at - last_sign_at;
        assert!(
            after < LEASE,
            "share {share}, {after:?} after the last sign: {}",
            ada.transcript()
        );
    }
    assert_eq!(violations(&beats(&stage.beats_file)), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unready_process_is_no_member() {
    let store = Store::embedded().await.unwrap();
    let stage = Stage::new(&store).await;
    let [ready_file, probe_log] =
        ["ready", "asked"].map(|file| stage.beats_file.with_extension(file));
    let command = format!("echo >> {}; test -e {}", probe_log.display(), ready_file.display());
    let ada = stage.start("ada", &["--ready-cmd", &command]);
    let _ben = stage.start("ben", &[]);
    stage.balanced(&["ben"], SHARES).await;
    // The member has existed for long enough to count.
    let enough_probes = async {
        while read_to_string(&probe_log).unwrap_or_default().lines().count() < 4 {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(TIMEOUT, enough_probes).await.unwrap();
    assert_eq!(store_entries(&store, ".member.ada", OperationKind::PutBlob), []);

    std::fs::write(&ready_file, "").unwrap();
    stage.balanced(&["ada", "ben"], SHARES).await;
    // Its shares do not repeat the probe.
    let is_ready_note = |line: &&Line| {
        line.event["detail"].as_str().is_some_and(|detail| detail.starts_with("ready, so"))
    };
    assert_eq!(ada.lines().iter().filter(is_ready_note).count(), 1, "{}", ada.transcript());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn component_receives_the_share_of_its_turn() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let ada = group.start("ada", &["--shares", "3"]).unwrap();
    for index in 0..3 {
        let (election, expected) =
            (format!("{}.share.1.{index}-of-3", group.election), format!("share {index} of 3"));
        let matches = |line: &tenure_tests::Line| {
            line.event["election"] == election.as_str()
                && line.event.to_string().contains(&expected)
        };
        ada.line(&expected, 0, TIMEOUT, matches).await;
    }
}
