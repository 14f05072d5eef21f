//! The page of a nightly job.

use super::*;
use tenure_core::{Schedule, Timestamp};
use tenure_tests::Outsider;
use tenure_tests::needs;

const NIGHTLY: &str = "cron 0 2 * * * Europe/Berlin";
/// Returns the slots of the past nights, newest first.
fn nights() -> Vec<Timestamp> {
    let (schedule, _) = Schedule::from_description(NIGHTLY).unwrap();
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    let now = Timestamp(u64::try_from(since.as_nanos()).unwrap());
    let before = |slot: &Timestamp| schedule.newest(Timestamp(slot.0 - 1));
    std::iter::successors(before(&now), before).take(10).collect()
}

/// Returns the end of a turn as it appears in the record, `seconds` after its slot.
fn turn_end(slot: Timestamp, seconds: u64, outcome: &str) -> String {
    let at = Timestamp(slot.0 + seconds * 1_000_000_000);
    format!("{}/{}/{}/{outcome}", slot.to_rfc3339(), at.to_rfc3339(), seconds * 1_000)
}

/// Writes the record of a nightly job that failed last night, and succeeded three days earlier
/// after a trigger.
async fn seed_nightly_record(group: &Group) {
    let mut command = group.command("anna", &[], &["/bin/true"]);
    command.env("TENURE_TIME_ZONE", "Europe/Berlin");
    let mut before = Candidate::spawn("anna", command).unwrap();
    before.event("elected", TIMEOUT).await;
    before.terminate(TIMEOUT).await.unwrap();
    let outsider = group.outsider();
    let nights = nights();
    let (last, good) = (nights[0], Timestamp(nights[3].0 + 9 * 3_600_000_000_000));
    let replaced = [
        ("tenureslot", last.to_rfc3339()),
        ("tenureattempt", "1".to_owned()),
        ("tenureoutcomeslot", last.to_rfc3339()),
        ("tenureoutcome", "failed".to_owned()),
        ("tenuresuccess", turn_end(good, 161, "succeeded/trigger")),
        ("tenurefailure", turn_end(last, 42, "failed")),
    ];
    let lines = outsider.metadata().await.unwrap();
    let unchanged = lines.iter().filter_map(|line| line.split_once('='));
    let unchanged = unchanged.filter(|(name, _)| replaced.iter().all(|(other, _)| other != name));
    let all: Vec<_> =
        unchanged.chain(replaced.iter().map(|(name, value)| (*name, value.as_str()))).collect();
    outsider.put_metadata(&all).await.unwrap();
}

async fn nightly_job_page_shows_nights() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.timer = ["--cron", "0 2 * * *"];
    group.warm_up().await.unwrap();
    seed_nightly_record(&group).await;
    let mut command = group.command("ben", &["--listen", "127.0.0.1:0"], &["/bin/true"]);
    command.env("TENURE_TIME_ZONE", "Europe/Berlin");
    let ben = Candidate::spawn("ben", command).unwrap();
    let url = address(&ben).await;
    let browser = Browser::start().await.unwrap();
    browser.emulate_window(1280, 800, "light").await.unwrap();
    browser.open(&url).await.unwrap();
    browser.until("document.querySelectorAll('.turn').length === 4", TIMEOUT).await.unwrap();

    let text_of = async |id: &str| {
        let script = format!("return document.getElementById('{id}').textContent");
        text(&browser, &script).await
    };
    assert_eq!(text_of("schedule").await, "every day at 02:00 Europe/Berlin");
    assert_eq!(text_of("lanes-title").await, "The last 12 days");
    let axis =
        "return [...document.querySelectorAll('#axis span')].map((mark) => mark.textContent)";
    let axis = browser.run(axis, json!([])).await.unwrap();
    assert_eq!(axis, json!(["12 days", "9 days", "6 days", "3 days", "now"]));
    let last = text_of("last").await;
    assert!(
        last.starts_with("failed, 42.0 s slot ") && last.ends_with(" 02:00 Europe/Berlin"),
        "{last}"
    );
    let (failed, succeeded) = (text_of("failed").await, text_of("succeeded").await);
    assert!(failed.contains(" 02:00 Europe/Berlin, 42.0 s"), "{failed}");
    assert!(
        succeeded.contains(" triggered at ")
            && succeeded.ends_with(":00 Europe/Berlin, 2 min 41 s"),
        "{succeeded}"
    );
    let next = text_of("next").await;
    assert!(next.ends_with(" 02:00 Europe/Berlin"), "{next}");
    let wait = text_of("wait").await;
    assert!(wait.starts_with("in ") && wait.ends_with(" min") || wait.ends_with(" s"), "{wait}");
    // The newest first, as far back as the record goes; turns that this process cannot know stay
    // unknown.
    let outcomes =
        "return [...document.querySelectorAll('.turn .how')].map((how) => how.textContent)";
    let outcomes = browser.run(outcomes, json!([])).await.unwrap();
    assert_eq!(outcomes, json!(["failed", "unknown", "unknown", "succeeded"]));
    // A visible label marks triggered turns, not only a tooltip.
    let triggered_turns = "return [...document.querySelectorAll('.turn .triggered')].map((word) =>
        [[...word.closest('ol').children].indexOf(word.closest('li')), word.textContent, word.checkVisibility()])";
    assert_eq!(
        browser.run(triggered_turns, json!([])).await.unwrap(),
        json!([[3, "triggered", true]])
    );
    for (place, night) in nights().iter().take(3).enumerate() {
        let title = format!("return document.querySelectorAll('.turn')[{place}].title");
        let title_text = text(&browser, &title).await;
        assert!(
            title_text.contains("T02:00:00+") && title_text.ends_with("[Europe/Berlin]"),
            "{title_text} {night:?}"
        );
    }
    let visibility_script = "return ['unknown-turns', 'unseen'].map((id) => document.getElementById(id).checkVisibility())";
    assert_eq!(browser.run(visibility_script, json!([])).await.unwrap(), json!([true, true]));

    for (width, height, name) in [(1280, 800, "nightly"), (390, 844, "nightly-phone")] {
        for scheme in ["light", "dark"] {
            browser.emulate_window(width, height, scheme).await.unwrap();
            let violations = browser.run(PAGE_CHECKS, json!([])).await.unwrap();
            assert_eq!(violations, json!([]), "{width} {scheme}");
            browser.picture(&format!("{name}-{scheme}")).await.unwrap();
        }
    }
}

needs!(Chromium => async fn nightly_job_page_shows_nights);

/// Adds ben and cleo to the list of candidates, with the current time.
async fn seed_candidate_list(group: &Group) {
    group.outsider().create_container().await.unwrap();
    let list = Outsider::new(&group.connection_string, &format!("{}.candidates", group.election));
    list.put_foreign_blob().await.unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let entries = ["ben%20o%27hara", "cleo"].map(|name| format!("{name},{now},contends,,"));
    let fields = [("tenurewriter", "cleo"), ("tenurecandidates", &entries.join(" "))];
    list.put_metadata(&fields).await.unwrap();
}

async fn page_shows_commands_to_copy() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let mut group = Group::new(PROGRAM, &store, &sink);
    group.timer = ["--cron", "0 2 * * *"];
    group.warm_up().await.unwrap();
    seed_candidate_list(&group).await;
    let more = ["--listen", "127.0.0.1:0", "--poll", "1s", "--renew", "3s"];
    let start =
        |name: &str| Candidate::spawn(name, group.command(name, &more, &["/bin/true"])).unwrap();
    let ada = start("ada");
    ada.event("elected", TIMEOUT).await;
    let ben = start("ben o'hara");
    ben.event("following", TIMEOUT).await;
    let browser = Browser::start().await.unwrap();
    let election = &group.election;
    let names =
        "[...document.querySelectorAll('#successor option')].map((option) => option.value).join()";
    let text_expression = |id: &str| format!("document.getElementById('{id}').textContent");

    // A leader is no successor. Both pages know ben and cleo from their first read of the list of
    // candidates.
    browser.open(&address(&ben).await).await.unwrap();
    browser.until(&format!("{names} === \",ben o'hara,cleo\""), TIMEOUT).await.unwrap();
    browser.open(&address(&ada).await).await.unwrap();
    browser.until(&format!("{names} === \",ben o'hara,cleo\""), TIMEOUT).await.unwrap();
    let transfer = text(&browser, &format!("return {}", text_expression("transfer"))).await;
    assert_eq!(transfer, format!("tenure transfer {election}"));
    let trigger = text(&browser, &format!("return {}", text_expression("trigger"))).await;
    assert_eq!(trigger, format!("tenure trigger {election}"));
    // No night has passed: the page shows no nights, not even unknown ones.
    let visibility_script = "return ['past', 'unknown-turns'].map((id) => document.getElementById(id).checkVisibility())";
    assert_eq!(browser.run(visibility_script, json!([])).await.unwrap(), json!([false, false]));

    let choose = "const at = document.getElementById('successor');
        at.value = \"ben o'hara\"; at.dispatchEvent(new Event('input'))";
    browser.run(choose, json!([])).await.unwrap();
    let transfer = text(&browser, &format!("return {}", text_expression("transfer"))).await;
    assert_eq!(transfer, format!("tenure transfer {election} '--to=ben o'\\''hara'"));
    browser.click("[data-copies=transfer]").await.unwrap();
    browser.until(&format!("{} === 'Copied.'", text_expression("copied")), TIMEOUT).await.unwrap();
    browser.picture("commands").await.unwrap();
    // The copied commands work.
    let mut shell = tokio::process::Command::new("sh");
    let program = format!("tenure() {{ '{PROGRAM}' \"$@\"; }}; {transfer}");
    shell.args(["-c", &program]).kill_on_drop(true);
    group.access.apply(&mut shell);
    let output = shell.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    browser.until(&format!("{LEADER_NOW} === \"ben o'hara\""), TIMEOUT).await.unwrap();
    browser.until(&format!("{names} === ',ada,cleo'"), TIMEOUT).await.unwrap();

    for scheme in ["light", "dark"] {
        browser.emulate_window(390, 844, scheme).await.unwrap();
        assert_eq!(browser.run(PAGE_CHECKS, json!([])).await.unwrap(), json!([]), "{scheme}");
    }
}

needs!(Chromium => async fn page_shows_commands_to_copy);
