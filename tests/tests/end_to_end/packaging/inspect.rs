//! Commands that inspect elections: a named one, and all of a file.

use serde_json::Value;
use tenure_tests::{Candidate, Group, Line, Sink, Store};
use tokio::process::Command;

use crate::PROGRAM;

use super::stage::{TIMEOUT, tenure, text, write_settings};

struct Scene {
    store: Store,
    group: Group,
    container: String,
    _sink: Sink,
}

impl Scene {
    async fn new() -> Self {
        let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
        let group = Group::new(PROGRAM, &store, &sink);
        group.warm_up().await.unwrap();
        let container = group.election.split_once('/').unwrap().0.to_owned();
        Self { store, group, container, _sink: sink }
    }

    fn election_name(&self, blob: &str) -> String {
        format!("{}/{blob}", self.container)
    }

    /// Returns the path of a file with these elections.
    fn file(&self, blobs: &[&str]) -> String {
        let election = |blob: &&str| {
            format!("[[election]]\nelection = \"{}\"\nevery = \"2s\"\n", self.election_name(blob))
        };
        blobs.iter().map(election).collect()
    }

    async fn run(&self, election: &str, command: &str) -> Candidate {
        let mut run = Command::new(PROGRAM);
        run.args(["run", "--log", "json", election, "--name", "ada", "--every", "2s"]);
        run.args(["--max-failures", "0", "--", "/bin/sh", "-c", command]);
        self.group.access.apply(&mut run);
        Candidate::spawn("ada", run).unwrap()
    }

    /// Runs a command, and returns its exit code, standard output and standard error.
    async fn ask(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(PROGRAM);
        command.args(arguments);
        self.group.access.apply(&mut command);
        let output = command.output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_of_file_is_one_table_with_failures_first() {
    let scene = Scene::new().await;
    let (_folder, file) = write_settings(&scene.file(&["good", "bad", "idle"]));
    let file = file.to_str().unwrap();
    let good = scene.run(&scene.election_name("good"), "true").await;
    let bad = scene.run(&scene.election_name("bad"), "exit 3").await;
    // The record shows the end of a turn with the next claim.
    for candidate in [&good, &bad] {
        let ended = candidate.event("turn-ended", TIMEOUT).await;
        let after = candidate.lines().iter().filter(|line| line.name() == "turn-ended").count();
        assert!(after > 0, "{ended:?}");
        let second = |line: &Line| {
            line.name() == "turn-started" && line.event["slot"] != ended.event["slot"]
        };
        candidate.line("second turn", 0, TIMEOUT, second).await;
    }
    let (code, out, err) = scene.ask(&["status", "--config", file]).await;
    assert_eq!((code, err.as_str()), (Some(1), ""), "nobody leads one of them: {out}");
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(lines[0].starts_with("election ") && lines[0].contains("last turn"), "{out}");
    for (line, [blob, leader, last]) in lines[1..].iter().zip([
        ["idle", "none", "-"],
        ["bad", "ada", "failed, "],
        ["good", "ada", "succeeded, "],
    ]) {
        assert!(line.starts_with(&scene.election_name(blob)), "{blob}: {out}");
        assert!(line.contains(leader) && line.contains(last), "{blob}: {out}");
    }
    let (code, out, _) = scene.ask(&["status", "--config", file, "--json"]).await;
    let status_json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, status_json["elections"].as_array().map(Vec::len)),
        (Some(1), Some(3)),
        "{out}"
    );
    assert_eq!(status_json["elections"][0]["leader"]["name"], "ada");

    // Selects one election by name, with its settings from the file.
    let (code, out, _) =
        scene.ask(&["status", "--config", file, &scene.election_name("good")]).await;
    assert_eq!(code, Some(0), "{out}");
    assert!(out.starts_with(&format!("election     {}\n", scene.election_name("good"))), "{out}");
    assert!(!out.contains("the settings here say"), "the schedule is the file's: {out}");
    let (code, out, err) =
        scene.ask(&["status", "--config", file, &scene.election_name("godo")]).await;
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(
        err.contains(&format!(
            "\n  {}\n    the file has no such election",
            scene.election_name("godo")
        )),
        "{err}"
    );
    assert!(err.contains(&scene.election_name("good")), "{err}");

    let (code, out, _) = scene.ask(&["status", "--history", "--config", file]).await;
    assert_eq!(code, Some(1), "{out}");
    assert!(out.starts_with("election "), "the table comes first: {out}");
    assert!(
        out.contains(&format!("\n\n{}\nNo leader yet.\n", scene.election_name("idle"))),
        "{out}"
    );
    assert!(out.contains(&format!("\n{}\nterm ", scene.election_name("bad"))), "{out}");
    let (_, out, _) = scene.ask(&["status", "--history", "--config", file, "--json"]).await;
    let status_json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status_json["elections"][1]["last_leader"]["name"], "ada", "{out}");

    let work = scene
        .file(&["good", "bad", "idle"])
        .replace("[[election]]\n", "[[election]]\ncommand = [\"true\"]\n");
    std::fs::write(file, work).unwrap();
    let (code, out, _) = scene.ask(&["check", "--config", file, "--json"]).await;
    let check_json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &check_json["verdict"]), (Some(0), &"ok".into()), "{out}");
    let all = check_json["elections"].as_array().unwrap();
    assert_eq!(all[2]["election"], scene.election_name("idle"), "{out}");
    let finding_counts = |election: &Value| {
        let findings = election["findings"].as_array().unwrap();
        let count =
            |check: &str| findings.iter().filter(|finding| finding["check"] == check).count();
        (count("election"), count("acquire lease"), count("connection"))
    };
    // The check tests the requests once per container.
    assert_eq!(
        all.iter().map(finding_counts).collect::<Vec<_>>(),
        [(1, 1, 1), (1, 0, 0), (1, 0, 0)],
        "{out}"
    );
    let (code, out, _) = scene.ask(&["check", "--config", file]).await;
    assert_eq!(code, Some(0), "{out}");
    let heading = format!("\n\n{}\nok       connection ", scene.election_name("good"));
    assert!(out.contains(&heading) && out.contains("\nelection "), "{out}");
    for candidate in [good, bad] {
        drop(candidate);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_of_file_shows_each_election() {
    let scene = Scene::new().await;
    let (_folder, file) = write_settings(&scene.file(&["one", "two"]));
    let mut watch = Command::new(PROGRAM);
    watch.args(["status", "--watch", "--json", "--interval", "200ms", "--config"]).arg(&file);
    scene.group.access.apply(&mut watch);
    let watch = Candidate::spawn("watch", watch).unwrap();
    for blob in ["one", "two"] {
        let election = scene.election_name(blob);
        let is_no_leader =
            |line: &Line| line.name() == "no-leader" && line.event["election"] == *election;
        watch.line("no-leader", 0, TIMEOUT, is_no_leader).await;
    }
    let two = scene.election_name("two");
    let candidate = scene.run(&two, "true").await;
    let leader = watch.event("leader", TIMEOUT).await;
    assert_eq!((&leader.event["election"], &leader.event["name"]), (&two.into(), &"ada".into()));
    drop((watch, candidate));
    drop(scene.store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_election_comes_first_with_reason() {
    let scene = Scene::new().await;
    let settings = format!(
        "{}[[election]]\nelection = \"{}\"\nevery = \"2s\"\nconnection-string-file = \"other\"\n",
        scene.file(&["here"]),
        scene.election_name("there")
    );
    let (folder, file) = write_settings(&settings);
    let unreachable = "AccountName=a;AccountKey=c2VjcmV0LWtleQ==;BlobEndpoint=http://127.0.0.1:1/a";
    std::fs::write(folder.path().join("other"), unreachable).unwrap();
    // A variable takes precedence over the file, so the file's account is also in the variable's
    // file.
    let connection_file = folder.path().join("own");
    std::fs::write(&connection_file, scene.store.connection_string()).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("connection-string-file = \"own\"\n{text}")).unwrap();
    let output = tenure(
        &["status", "--config", file.to_str().unwrap()],
        &[("TENURE_REQUEST_TIMEOUT", "1s")],
    );
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{}", super::stage::text(&output));
    let lines: Vec<_> = stdout.lines().collect();
    assert!(
        lines[1].starts_with(&scene.election_name("there")) && lines[1].contains("unreachable"),
        "{stdout}"
    );
    assert!(
        lines[2].starts_with(&scene.election_name("here")) && lines[2].contains("none"),
        "{stdout}"
    );
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors
            .contains(&format!("{} could not be read (unreachable)", scene.election_name("there"))),
        "{errors}"
    );
}

#[test]
fn election_must_be_named_once() {
    let two_elections = tenure(&["status", "jobs/a", "jobs/b"], &[]);
    assert_eq!(two_elections.status.code(), Some(2));
    assert!(
        text(&two_elections).contains("unexpected argument 'jobs/b'"),
        "{}",
        text(&two_elections)
    );
    let invalid = tenure(&["status", "--history", "Jobs"], &[]);
    assert!(text(&invalid).contains("\n  Jobs\n    \"Jobs\": "), "{}", text(&invalid));
    let (_folder, file) = write_settings(
        "[[election]]\nelection = \"jobs/a\"\n[[election]]\nelection = \"jobs/b\"\n",
    );
    let ambiguous = tenure(&["break", "--yes", "--config", file.to_str().unwrap()], &[]);
    assert!(text(&ambiguous).contains("name one of them: jobs/a, jobs/b"), "{}", text(&ambiguous));
}
