//! The page of a job that runs once a night.

use super::*;
use tempfile::NamedTempFile;
use tenure_core::{Schedule, Timestamp};
use tenure_tests::Outsider;
use tenure_tests::needs;

const NIGHTLY: &str = "cron 0 2 * * * Europe/Berlin";
const TOKEN: &str = "a-token-of-operators-0123456789";

/// The slots of the nights before now, the newest first.
fn nights() -> Vec<Timestamp> {
    let (schedule, _) = Schedule::described(NIGHTLY).unwrap();
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    let now = Timestamp(u64::try_from(since.as_nanos()).unwrap());
    let before = |slot: &Timestamp| schedule.newest(Timestamp(slot.0 - 1));
    std::iter::successors(before(&now), before).take(10).collect()
}

/// The end of a turn as the record has it, so long after its slot.
fn end(slot: Timestamp, seconds: u64, outcome: &str) -> String {
    let at = Timestamp(slot.0 + seconds * 1_000_000_000);
    format!("{}/{}/{}/{outcome}", slot.to_rfc3339(), at.to_rfc3339(), seconds * 1_000)
}

/// An election that a nightly job left in this state: it failed last night, and succeeded three days before, when
/// somebody asked for a turn.
async fn left_by_a_nightly_job(group: &Group) {
    let mut command = group.command("anna", &[], &["/bin/true"]);
    command.env("TENURE_TIME_ZONE", "Europe/Berlin");
    let mut before = Candidate::spawn("anna", command).unwrap();
    before.event("elected", SOON).await;
    before.terminate(SOON).await.unwrap();
    let outsider = group.outsider();
    let nights = nights();
    let (last, good) = (nights[0], Timestamp(nights[3].0 + 9 * 3_600_000_000_000));
    let replaced = [
        ("tenureslot", last.to_rfc3339()),
        ("tenureattempt", "1".to_owned()),
        ("tenureoutcomeslot", last.to_rfc3339()),
        ("tenureoutcome", "failed".to_owned()),
        ("tenuresuccess", end(good, 161, "succeeded/trigger")),
        ("tenurefailure", end(last, 42, "failed")),
    ];
    let lines = outsider.metadata().await.unwrap();
    let kept = lines.iter().filter_map(|line| line.split_once('='));
    let kept = kept.filter(|(name, _)| replaced.iter().all(|(other, _)| other != name));
    let all: Vec<_> =
        kept.chain(replaced.iter().map(|(name, value)| (*name, value.as_str()))).collect();
    outsider.put_metadata(&all).await.unwrap();
}

async fn the_page_of_a_nightly_job_tells_of_nights_and_not_of_minutes() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.timer = ["--cron", "0 2 * * *"];
    group.warm_up().await.unwrap();
    left_by_a_nightly_job(&group).await;
    let mut command = group.command("ben", &["--listen", "127.0.0.1:0"], &["/bin/true"]);
    command.env("TENURE_TIME_ZONE", "Europe/Berlin");
    let ben = Candidate::spawn("ben", command).unwrap();
    let url = address(&ben).await;
    let browser = Browser::start().await.unwrap();
    browser.play(1280, 800, "light").await.unwrap();
    browser.open(&url).await.unwrap();
    browser.until("document.querySelectorAll('.turn').length === 4", SOON).await.unwrap();

    let shown = async |id: &str| {
        let script = format!("return document.getElementById('{id}').textContent");
        text(&browser, &script).await
    };
    assert_eq!(shown("schedule").await, "every day at 02:00 Europe/Berlin");
    assert_eq!(shown("lanes-title").await, "The last 12 days");
    let axis =
        "return [...document.querySelectorAll('#axis span')].map((mark) => mark.textContent)";
    let axis = browser.run(axis, json!([])).await.unwrap();
    assert_eq!(axis, json!(["12 days", "9 days", "6 days", "3 days", "now"]));
    let last = shown("last").await;
    assert!(
        last.starts_with("failed, 42.0 s slot ") && last.ends_with(" 02:00 Europe/Berlin"),
        "{last}"
    );
    let (failed, succeeded) = (shown("failed").await, shown("succeeded").await);
    assert!(failed.contains(" 02:00 Europe/Berlin, 42.0 s"), "{failed}");
    assert!(
        succeeded.contains(" triggered at ")
            && succeeded.ends_with(":00 Europe/Berlin, 2 min 41 s"),
        "{succeeded}"
    );
    let next = shown("next").await;
    assert!(next.ends_with(" 02:00 Europe/Berlin"), "{next}");
    let wait = shown("wait").await;
    assert!(wait.starts_with("in ") && wait.ends_with(" min") || wait.ends_with(" s"), "{wait}");
    // The newest first, as far back as anything is known; what this process cannot know in between is not guessed.
    let outcomes =
        "return [...document.querySelectorAll('.turn .how')].map((how) => how.textContent)";
    let outcomes = browser.run(outcomes, json!([])).await.unwrap();
    assert_eq!(outcomes, json!(["failed", "unknown", "unknown", "succeeded"]));
    // Which of them somebody asked for can be read, and does not stand in a tooltip alone.
    let asked = "return [...document.querySelectorAll('.turn .triggered')].map((word) =>
        [[...word.closest('ol').children].indexOf(word.closest('li')), word.textContent, word.checkVisibility()])";
    assert_eq!(browser.run(asked, json!([])).await.unwrap(), json!([[3, "triggered", true]]));
    for (place, night) in nights().iter().take(3).enumerate() {
        let title = format!("return document.querySelectorAll('.turn')[{place}].title");
        let told = text(&browser, &title).await;
        assert!(
            told.contains("T02:00:00+") && told.ends_with("[Europe/Berlin]"),
            "{told} {night:?}"
        );
    }
    let visible = "return ['unknown-turns', 'unseen'].map((id) => document.getElementById(id).checkVisibility())";
    assert_eq!(browser.run(visible, json!([])).await.unwrap(), json!([true, true]));
    assert!(shown("no-orders").await.contains("no control token"));

    for (width, height, name) in [(1280, 800, "nightly"), (390, 844, "nightly-phone")] {
        for scheme in ["light", "dark"] {
            browser.play(width, height, scheme).await.unwrap();
            let wrong = browser.run(MANNERS, json!([])).await.unwrap();
            assert_eq!(wrong, json!([]), "{width} {scheme}");
            browser.picture(&format!("{name}-{scheme}")).await.unwrap();
        }
    }
}

needs!(Chromium => async fn the_page_of_a_nightly_job_tells_of_nights_and_not_of_minutes);

/// Leaves cleo on the list of candidates: she was seen just now, and never led.
async fn seen_lately(group: &Group) {
    group.outsider().create_container().await.unwrap();
    let list = Outsider::new(&group.connection_string, &format!("{}.candidates", group.election));
    list.put_foreign_blob().await.unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let cleo = format!("cleo,{now},contends,,http%3A%2F%2F10.0.0.6%3A8080");
    let fields = [("tenurewriter", "cleo"), ("tenurecandidates", cleo.as_str())];
    list.put_metadata(&fields).await.unwrap();
}

/// A leader and a follower of a nightly job that take orders, and their pages.
async fn steered(group: &Group, token: &NamedTempFile) -> [(Candidate, String); 2] {
    let more = ["--listen", "127.0.0.1:0", "--poll", "1s", "--renew", "3s"];
    let mut started = Vec::new();
    for (name, event) in [("ada", "elected"), ("ben o'hara", "following")] {
        let mut command = group.command(name, &more, &["/bin/true"]);
        command.env("TENURE_CONTROL_TOKEN_FILE", token.path());
        let mut candidate = Candidate::spawn(name, command).unwrap();
        candidate.event(event, SOON).await;
        let url = address(&candidate).await;
        assert!(candidate.is_alive());
        started.push((candidate, url));
    }
    started.try_into().unwrap()
}

async fn who_has_the_token_gives_orders_on_the_page_and_the_token_is_not_sent() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.timer = ["--cron", "0 2 * * *"];
    group.warm_up().await.unwrap();
    let token = NamedTempFile::new().unwrap();
    std::fs::write(token.path(), TOKEN).unwrap();
    seen_lately(&group).await;
    let [(ada, of_ada), (ben, of_ben)] = steered(&group, &token).await;
    let browser = Browser::start().await.unwrap();
    let command = "document.getElementById('command')?.textContent";
    let set = |id: &str, value: &str| {
        let value = json!(value);
        format!(
            "const at = document.getElementById('{id}'); at.value = {value}; at.dispatchEvent(new Event('input'))"
        )
    };
    let election = &group.election;

    // A follower cannot hand over: the command finds the leader.
    browser.open(&of_ben).await.unwrap();
    let finds = format!("{command} === 'tenure transfer {election} --to=ada'");
    browser.until(&finds, SOON).await.unwrap();
    let disabled = "return document.getElementById('send').getAttribute('aria-disabled')";
    assert_eq!(text(&browser, disabled).await, "true");
    browser.run(&set("order", "pause"), json!([])).await.unwrap();
    let own = of_ben.trim_end_matches('/');
    let paused = format!("{command} === 'tenure pause {election} --at {own}'");
    browser.until(&paused, SOON).await.unwrap();

    // No night is over: nothing is told of nights, not even that they are unknown.
    let nothing = "return ['past', 'unknown-turns'].map((id) => document.getElementById(id).checkVisibility())";
    assert_eq!(browser.run(nothing, json!([])).await.unwrap(), json!([false, false]));
    assert_eq!(
        text(&browser, "return document.getElementById('last').textContent").await.trim(),
        "none yet"
    );

    // The leader's page: a name as somebody typed it, a wrong token, and the right one.
    browser.open(&of_ada).await.unwrap();
    browser.until(&format!("Boolean({command})"), SOON).await.unwrap();
    browser.run(&set("chosen", "ben o'hara"), json!([])).await.unwrap();
    let typed = text(&browser, &format!("return {command}")).await;
    let at = of_ada.trim_end_matches('/');
    let expected = format!("tenure transfer {election} '--to=ben o'\\''hara' --at {at}");
    assert_eq!(typed, expected);
    let seen = "window.sent = []; const real = fetch;
        window.fetch = (path, more) => { sent.push(JSON.stringify([path, more])); return real(path, more); }";
    browser.run(seen, json!([])).await.unwrap();
    browser.run(&set("token", "another-token-of-operators"), json!([])).await.unwrap();
    browser.click("#send").await.unwrap();
    let said = "document.getElementById('ordered').textContent";
    browser
        .until(&format!("{said} === 'transfer: the control token is missing or wrong'"), SOON)
        .await
        .unwrap();
    browser.picture("orders").await.unwrap();
    browser.run(&set("token", TOKEN), json!([])).await.unwrap();
    browser.click("#send").await.unwrap();
    browser.until(&format!("{said}.startsWith('The order was accepted.')"), SOON).await.unwrap();
    ben.event("elected", SOON).await;
    let sent = browser.run("return sent", json!([])).await.unwrap().to_string();
    assert!(sent.contains("proof=") && !sent.contains(TOKEN), "{sent}");
    browser.until(&format!("{LEADER_NOW} === \"ben o'hara\""), SOON).await.unwrap();

    // Paused, and back.
    for (order, state) in [("pause", "Pause (it is paused)"), ("resume", "Pause")] {
        browser.run(&set("order", order), json!([])).await.unwrap();
        browser.click("#send").await.unwrap();
        let told =
            format!("document.querySelector('#order [value=pause]').textContent === '{state}'");
        browser.until(&told, SOON).await.unwrap();
        ada.line("ordered", 0, SOON, |line| line.event["order"] == order).await;
    }

    // Whoever never led can be chosen too, by the list of candidates, and is asked itself.
    let choices =
        "[...document.querySelectorAll('#choices option')].map((option) => option.value).join()";
    browser.until(&format!("{choices} === \"ada,ben o'hara,cleo\""), SOON).await.unwrap();
    browser.run(&set("order", "pause"), json!([])).await.unwrap();
    assert_eq!(text(&browser, "return document.getElementById('chosen').value").await, "ada");
    browser.run(&set("chosen", "cleo"), json!([])).await.unwrap();
    let asked = format!("tenure pause {election} --at http://10.0.0.6:8080");
    assert_eq!(text(&browser, &format!("return {command}")).await, asked);
    assert_eq!(text(&browser, disabled).await, "true");
    let why = text(&browser, "return document.getElementById('elsewhere').textContent").await;
    assert_eq!(why, "This order must go to cleo itself: use the command.");
    browser.run(&set("order", "transfer"), json!([])).await.unwrap();
    browser.until(&format!("{choices} === \"ben o'hara,cleo\""), SOON).await.unwrap();

    for scheme in ["light", "dark"] {
        browser.play(390, 844, scheme).await.unwrap();
        assert_eq!(browser.run(MANNERS, json!([])).await.unwrap(), json!([]), "{scheme}");
    }
}

needs!(Chromium => async fn who_has_the_token_gives_orders_on_the_page_and_the_token_is_not_sent);
