//! The commands that look at elections: at one that is named, and at all of a file.

use serde_json::Value;
use tenure_tests::{Candidate, Group, Line, Sink, Store};
use tokio::process::Command;

use crate::PROGRAM;

use super::stage::{SOON, file, tenure, text};

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

    fn of(&self, blob: &str) -> String {
        format!("{}/{blob}", self.container)
    }

    /// A file with all of them.
    fn file(&self, blobs: &[&str]) -> String {
        let election = |blob: &&str| {
            format!("[[election]]\nelection = \"{}\"\nevery = \"2s\"\n", self.of(blob))
        };
        blobs.iter().map(election).collect()
    }

    async fn run(&self, election: &str, command: &str) -> Candidate {
        let mut run = Command::new(PROGRAM);
        run.args(["run", "--log", "json", election, "--name", "ada", "--every", "2s"]);
        run.args(["--max-failures", "0", "--", "/bin/sh", "-c", command]);
        self.group.access.give(&mut run);
        Candidate::spawn("ada", run).unwrap()
    }

    /// Exit code, standard output, standard error.
    async fn ask(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(PROGRAM);
        command.args(arguments);
        self.group.access.give(&mut command);
        let output = command.output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_elections_of_a_file_are_one_table_the_failures_first() {
    let scene = Scene::new().await;
    let (_folder, file) = file(&scene.file(&["good", "bad", "idle"]));
    let file = file.to_str().unwrap();
    let good = scene.run(&scene.of("good"), "true").await;
    let bad = scene.run(&scene.of("bad"), "exit 3").await;
    // The end of a turn is on record with the next claim.
    for candidate in [&good, &bad] {
        let ended = candidate.event("turn-ended", SOON).await;
        let after = candidate.lines().iter().filter(|line| line.name() == "turn-ended").count();
        assert!(after > 0, "{ended:?}");
        let second = |line: &Line| {
            line.name() == "turn-started" && line.event["slot"] != ended.event["slot"]
        };
        candidate.line("second turn", 0, SOON, second).await;
    }
    let (code, out, err) = scene.ask(&["status", "--config", file]).await;
    assert_eq!((code, err.as_str()), (Some(1), ""), "nobody leads one of them: {out}");
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(lines[0].starts_with("election ") && lines[0].contains("last turn"), "{out}");
    for (line, [blob, leader, last]) in lines[1..].iter().zip([
        ["idle", "nobody", "-"],
        ["bad", "ada", "failed, "],
        ["good", "ada", "succeeded, "],
    ]) {
        assert!(line.starts_with(&scene.of(blob)), "{blob}: {out}");
        assert!(line.contains(leader) && line.contains(last), "{blob}: {out}");
    }
    let (code, out, _) = scene.ask(&["status", "--config", file, "--json"]).await;
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, told["elections"].as_array().map(Vec::len)), (Some(1), Some(3)), "{out}");
    assert_eq!(told["elections"][0]["leader"]["name"], "ada");

    // One of them by its name, with what the file says of it.
    let (code, out, _) = scene.ask(&["status", "--config", file, &scene.of("good")]).await;
    assert_eq!(code, Some(0), "{out}");
    assert!(out.starts_with(&format!("election     {}\n", scene.of("good"))), "{out}");
    assert!(!out.contains("the settings here say"), "the schedule is the file's: {out}");
    let (code, out, err) = scene.ask(&["status", "--config", file, &scene.of("godo")]).await;
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(
        err.contains(&format!("\n  {}\n    the file has no such election", scene.of("godo"))),
        "{err}"
    );
    assert!(err.contains(&scene.of("good")), "{err}");

    let (code, out, _) = scene.ask(&["status", "--history", "--config", file]).await;
    assert_eq!(code, Some(1), "{out}");
    assert!(out.starts_with("election "), "the table comes first: {out}");
    assert!(out.contains(&format!("\n\n{}\nNobody has led yet.\n", scene.of("idle"))), "{out}");
    assert!(out.contains(&format!("\n{}\nterm ", scene.of("bad"))), "{out}");
    let (_, out, _) = scene.ask(&["status", "--history", "--config", file, "--json"]).await;
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["elections"][1]["last_leader"]["name"], "ada", "{out}");

    let work = scene
        .file(&["good", "bad", "idle"])
        .replace("[[election]]\n", "[[election]]\ncommand = [\"true\"]\n");
    std::fs::write(file, work).unwrap();
    let (code, out, _) = scene.ask(&["check", "--config", file, "--json"]).await;
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["verdict"]), (Some(0), &"ok".into()), "{out}");
    let all = told["elections"].as_array().unwrap();
    assert_eq!(all[2]["election"], scene.of("idle"), "{out}");
    let tried = |election: &Value| {
        let findings = election["findings"].as_array().unwrap();
        let of = |check: &str| findings.iter().filter(|finding| finding["check"] == check).count();
        (of("election"), of("acquire lease"), of("connection"))
    };
    // In one container, the requests are tried once.
    assert_eq!(
        all.iter().map(tried).collect::<Vec<_>>(),
        [(1, 1, 1), (1, 0, 0), (1, 0, 0)],
        "{out}"
    );
    let (code, out, _) = scene.ask(&["check", "--config", file]).await;
    assert_eq!(code, Some(0), "{out}");
    let heading = format!("\n\n{}\nok       connection ", scene.of("good"));
    assert!(out.contains(&heading) && out.contains("\nelection "), "{out}");
    for candidate in [good, bad] {
        drop(candidate);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_a_file_tells_of_each_election() {
    let scene = Scene::new().await;
    let (_folder, file) = file(&scene.file(&["one", "two"]));
    let mut watch = Command::new(PROGRAM);
    watch.args(["status", "--watch", "--json", "--interval", "200ms", "--config"]).arg(&file);
    scene.group.access.give(&mut watch);
    let watch = Candidate::spawn("watch", watch).unwrap();
    for blob in ["one", "two"] {
        let election = scene.of(blob);
        let nobody = |line: &Line| line.name() == "nobody" && line.event["election"] == *election;
        watch.line("nobody", 0, SOON, nobody).await;
    }
    let two = scene.of("two");
    let leads = scene.run(&two, "true").await;
    let leader = watch.event("leader", SOON).await;
    assert_eq!((&leader.event["election"], &leader.event["name"]), (&two.into(), &"ada".into()));
    drop((watch, leads));
    drop(scene.store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_comes_first_and_is_explained() {
    let scene = Scene::new().await;
    let elsewhere = format!(
        "{}[[election]]\nelection = \"{}\"\nevery = \"2s\"\nconnection-string-file = \"other\"\n",
        scene.file(&["here"]),
        scene.of("there")
    );
    let (folder, file) = file(&elsewhere);
    let nobody = "AccountName=a;AccountKey=c2VjcmV0LWtleQ==;BlobEndpoint=http://127.0.0.1:1/a";
    std::fs::write(folder.path().join("other"), nobody).unwrap();
    // A variable wins over the file, so the other account is named there too.
    let own = folder.path().join("own");
    std::fs::write(&own, scene.store.connection_string()).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("connection-string-file = \"own\"\n{text}")).unwrap();
    let output = tenure(
        &["status", "--config", file.to_str().unwrap()],
        &[("TENURE_REQUEST_TIMEOUT", "1s")],
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{}", super::stage::text(&output));
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[1].starts_with(&scene.of("there")) && lines[1].contains("unreachable"), "{said}");
    assert!(lines[2].starts_with(&scene.of("here")) && lines[2].contains("nobody"), "{said}");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors.contains(&format!("{} could not be read (unreachable)", scene.of("there"))),
        "{errors}"
    );
}

#[test]
fn an_election_is_named_once() {
    let twice = tenure(&["status", "jobs/a", "jobs/b"], &[]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice).contains("unexpected argument 'jobs/b'"), "{}", text(&twice));
    let wrong = tenure(&["status", "--history", "Jobs"], &[]);
    assert!(text(&wrong).contains("\n  Jobs\n    \"Jobs\": "), "{}", text(&wrong));
    let (_folder, file) =
        file("[[election]]\nelection = \"jobs/a\"\n[[election]]\nelection = \"jobs/b\"\n");
    let which = tenure(&["break", "--yes", "--config", file.to_str().unwrap()], &[]);
    assert!(text(&which).contains("name one of them: jobs/a, jobs/b"), "{}", text(&which));
}
