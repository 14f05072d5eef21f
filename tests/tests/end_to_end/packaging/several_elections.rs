//! Several elections in one process.

use crate::PROGRAM;
use rustix::process::Signal;
use serde_json::Value;
use tenure_tests::{BEAT_HANDLER, Candidate, Group, Line, Sink, Store, operator};
use tokio::process::Command;

use super::stage::{TIMEOUT, write_settings};

fn event_of<'a>(election: &'a str, event: &'a str) -> impl Fn(&Line) -> bool + 'a {
    move |line| line.event["election"] == election && line.name() == event
}

async fn get(url: String) -> (u16, Value) {
    // reqwest is built without a default crypto provider. A second call has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.get(url).send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_election_has_own_candidate_and_all_stop_together() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let (container, _) = group.election.split_once('/').unwrap();
    let [first, second] = ["first", "second"].map(|blob| format!("{container}/{blob}"));
    let (_folder, file) = write_settings(&format!(
        "log = \"json\"\nlisten = \"127.0.0.1:0\"\nevery = \"1s\"\nname = \"ada\"\n\
         [[election]]\nelection = \"{first}\"\ncommand = [\"/bin/sh\", \"-c\", \"echo one\"]\n\
         [[election]]\nelection = \"{second}\"\nname = \"ben\"\nhandler = \"{BEAT_HANDLER}\"\n\
         allow-host = [\"{}\"]\nenv = {{ BEAT_URL = \"http://{0}/\", BEAT_FOR_MS = \"100\" }}\n",
        group.sink
    ));
    let mut command = Command::new(PROGRAM);
    command.arg("run").arg("--config").arg(&file);
    group.access.apply(&mut command);
    let mut process = Candidate::spawn("both", command).unwrap();

    let listening = |line: &Line| line.event["detail"].as_str().unwrap_or("").contains("listening");
    let address = process.line("address", 0, TIMEOUT, listening).await;
    let address = address.event["detail"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
    for (election, name, expected_event) in
        [(&first, "ada", "handler"), (&second, "ben", "turn-ended")]
    {
        let elected = process.line("elected", 0, TIMEOUT, event_of(election, "elected")).await;
        assert_eq!(elected.event["candidate"], name);
        process.line(expected_event, 0, TIMEOUT, event_of(election, expected_event)).await;
        let (status, body) = get(format!("{address}/leader?election={election}")).await;
        assert_eq!((status, &body["leader"]["name"]), (200, &Value::from(name)));
        assert_eq!(body["leader"]["term"], elected.term());
    }
    assert_eq!(get(format!("{address}/readyz")).await.0, 200);
    assert_eq!(get(format!("{address}/leader")).await.0, 400);
    assert_eq!(get(format!("{address}/?election=no/where")).await.0, 404);
    for path in ["events", "healthz", "readyz", "leader", "history", "metrics"] {
        let (status, body) = get(format!("{address}/{path}?election=no/where")).await;
        assert_eq!((status, &body["elections"][1]), (404, &Value::from(second.as_str())), "{path}");
    }

    // The process ignores the signal, even if none of its commands run.
    process.signal(Signal::USR1).unwrap();

    // An order only reaches the candidate of its election.
    let (code, output_text) = operator::run_command(&group, &["transfer", &first]).await.unwrap();
    assert_eq!(code, Some(0), "{output_text}");
    process.line("end", 0, TIMEOUT, event_of(&first, "stood-down")).await;
    assert!(
        !process.lines().iter().any(event_of(&second, "stood-down")),
        "{}",
        process.transcript()
    );

    let status = process.terminate(TIMEOUT).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", process.transcript());
    let lines = process.lines();
    let leaving = lines.iter().find(|line| event_of(&second, "leaving")(line)).unwrap();
    assert_eq!(leaving.event["grace_ms"], 1_000);
    let ended = lines.iter().find(|line| event_of(&second, "stood-down")(line)).unwrap();
    assert_eq!(ended.event["reason"], "left", "{}", process.transcript());
    for election in [&first, &second] {
        assert!(lines.iter().any(event_of(election, "stopped")), "{}", process.transcript());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn low_descriptor_limit_is_reported_and_suffices() {
    const MANY: usize = 40;
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let (container, _) = group.election.split_once('/').unwrap();
    let mut content = "log = \"json\"\nlog-level = \"debug\"\nevery = \"24h\"\nname = \"ada\"\n\
         lease = \"60s\"\nrenew = \"4s\"\nrequest-timeout = \"15s\"\nwebhook = \"http://127.0.0.1:9/\"\n"
        .to_owned();
    for number in 0..MANY {
        content += &format!("[[election]]\nelection = \"{container}/few-{number}\"\n");
    }
    let (_folder, file) = write_settings(&content);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -n 48 && exec \"$0\" run --config \"$1\"", PROGRAM]).arg(&file);
    group.access.apply(&mut command);
    let mut process = Candidate::spawn("few", command).unwrap();
    for number in 0..MANY {
        let election = format!("{container}/few-{number}");
        process.line("a renewal", 0, TIMEOUT, event_of(&election, "renewed")).await;
    }
    let lines = process.lines();
    let is_limit_note = |line: &Line| {
        let detail = line.event["detail"].as_str().unwrap_or_default();
        detail.contains("40 elections may need") && detail.contains("LimitNOFILE")
    };
    assert_eq!(
        lines.iter().filter(|line| is_limit_note(line)).count(),
        1,
        "{}",
        process.transcript()
    );
    let is_failure = |line: &&Line| ["problem", "stood-down"].contains(&line.name());
    assert_eq!(lines.iter().find(is_failure).map(|line| &line.event), None);
    assert!(process.terminate(TIMEOUT).await.unwrap().success(), "{}", process.transcript());
}
