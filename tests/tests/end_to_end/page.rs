//! The page in a real browser, for the demo and for single candidates.

mod nightly;
mod overview;

use crate::PROGRAM;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tenure_tests::{Browser, Candidate, Group, ProcessGroup, Sink, Store, needs};
use tokio::process::Command;

const TIMEOUT: Duration = tenure_tests::PATIENCE;
const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';

/// Script that returns the accessibility problems of the displayed page.
const PAGE_CHECKS: &str = include_str!("page/manners.js");
const LEADER: &str = "return document.getElementById('leader').textContent";
/// The same text as an expression.
const LEADER_NOW: &str = "document.getElementById('leader').textContent";

/// Starts a demo, and returns it with the address of its page, including the token.
async fn demo() -> (ProcessGroup, String) {
    let mut demo = ProcessGroup::spawn(Command::new(PROGRAM).args(["demo", "--page"])).unwrap();
    let url = demo.line("Open ").await.unwrap();
    (demo, url)
}

fn client() -> reqwest::Client {
    // reqwest is built without a default crypto provider. A second call has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn text(browser: &Browser, script: &str) -> String {
    browser.run(script, json!([])).await.unwrap().as_str().unwrap().to_owned()
}

/// Returns the address at which a candidate listens.
async fn address(candidate: &Candidate) -> String {
    let listening =
        |line: &tenure_tests::Line| line.event["detail"].to_string().contains("listening");
    let line = candidate.line("address", 0, TIMEOUT, listening).await;
    line.event["detail"].as_str().unwrap().trim_start_matches("listening on ").to_owned()
}

fn button(action: &str, name: &str) -> String {
    format!("button[aria-label='{action} {name}']")
}

/// Returns an expression for the lane of `name` in this state.
fn lane_selector(name: &str, class: &str) -> String {
    format!("document.querySelector('.lane.{class}[aria-label={name}]')")
}

/// Returns an expression for the state of a candidate in the table.
fn state(name: &str) -> String {
    format!(
        "[...document.querySelectorAll('#figures tr')]\
         .find(line => line.cells[0].textContent === '{name}').cells[1].textContent"
    )
}

async fn leader_killed_next_one_shown() {
    let ((demo, url), browser) = (demo().await, Browser::start().await.unwrap());
    browser.open(&url).await.unwrap();
    browser.until("document.querySelector('.lane.leads')", TIMEOUT).await.unwrap();
    let first = text(&browser, LEADER).await;
    browser.until(&lane_selector(&first, "leads"), TIMEOUT).await.unwrap();
    browser.until("document.querySelector('.lane.leads .tick.succeeded')", TIMEOUT).await.unwrap();

    browser.click(&button("Kill machine", &first)).await.unwrap();
    browser.until(&lane_selector(&first, "gone"), TIMEOUT).await.unwrap();
    browser.until(&format!("{} === 'killed'", state(&first)), TIMEOUT).await.unwrap();
    let next = format!("{LEADER_NOW} !== '{first}' && document.querySelector('.lane.leads')");
    browser.until(&next, TIMEOUT).await.unwrap();
    let second = text(&browser, LEADER).await;
    browser.until(&format!("{} === 'leads'", state(&second)), TIMEOUT).await.unwrap();
    let announcement =
        text(&browser, "return document.getElementById('announcer').textContent").await;
    assert!(announcement.starts_with(&format!("{second} leads, with term ")), "{announcement}");
    let changes = text(&browser, "return document.getElementById('changes').textContent").await;
    assert!(changes.contains(&format!("{second} takes over ")), "{changes}");
    assert!(changes.contains(" after the leader's machine died"), "{changes}");
    // The page shows the takeover time next to the current leader, and in general.
    let text_script = |id: &str| format!("return document.getElementById('{id}').textContent");
    let takeover = text(&browser, &text_script("takeover")).await;
    assert!(takeover.ends_with("s after the leader's machine died"), "{takeover}");
    let failover = text(&browser, &text_script("failover")).await;
    assert!(failover.starts_with("A machine that dies is replaced within about 3s;"), "{failover}");

    // The same button, which has kept the focus.
    browser
        .until(&format!("document.querySelector(\"{}\")", button("Start", &first)), TIMEOUT)
        .await
        .unwrap();
    let focused = text(&browser, "return document.activeElement.getAttribute('aria-label')").await;
    assert_eq!(focused, format!("Start {first}"));
    browser.click(&button("Start", &first)).await.unwrap();
    browser.until(&format!("{} === 'follows'", state(&first)), TIMEOUT).await.unwrap();

    // The supervisor of a dead process releases the lease for it.
    browser.click(&button("Kill process", &second)).await.unwrap();
    browser
        .until(&format!("!['{second}', 'No leader'].includes({LEADER_NOW})"), TIMEOUT)
        .await
        .unwrap();
    browser
        .until(
            "document.getElementById('takeover').textContent.endsWith(\"s after the leader's process died\")",
            TIMEOUT,
        )
        .await
        .unwrap();
    let start = format!("document.querySelector(\"{}\")", button("Start", &second));
    browser.until(&start, TIMEOUT).await.unwrap();
    browser.click(&button("Start", &second)).await.unwrap();
    browser.until(&format!("{} === 'follows'", state(&second)), TIMEOUT).await.unwrap();
    let second = text(&browser, LEADER).await;

    // The candidate releases the lease, and keeps running.
    browser.click(&button("Resign", &second)).await.unwrap();
    browser.until(&format!("{} === 'follows'", state(&second)), TIMEOUT).await.unwrap();
    browser
        .until(&format!("!['{second}', 'No leader'].includes({LEADER_NOW})"), TIMEOUT)
        .await
        .unwrap();
    let second = text(&browser, LEADER).await;
    let changes = text(&browser, "return document.getElementById('changes').textContent").await;
    assert!(changes.contains("after the leader resigned"), "{changes}");

    // Freezes the leader: its validity ends meanwhile, and it detects that when it resumes.
    browser.click(&button("Freeze", &second)).await.unwrap();
    let third = format!("!['{second}', 'No leader'].includes({LEADER_NOW})");
    browser.until(&third, TIMEOUT).await.unwrap();
    browser.until(&format!("{} === 'expired, frozen'", state(&second)), TIMEOUT).await.unwrap();
    browser.click(&button("Thaw", &second)).await.unwrap();
    browser.until(&format!("{} === 'follows'", state(&second)), TIMEOUT).await.unwrap();

    browser.click(&button("Cut off", &second)).await.unwrap();
    browser.until(&format!("{} === 'follows, cut off'", state(&second)), TIMEOUT).await.unwrap();
    browser
        .until(
            "document.getElementById('problems').textContent.includes('did not answer in time')",
            TIMEOUT,
        )
        .await
        .unwrap();
    browser.click(&button("Reconnect", &second)).await.unwrap();

    let overlapping =
        text(&browser, "return document.getElementById('overlapping').textContent").await;
    assert!(overlapping.starts_with("0,"), "{overlapping}");
    let (status, output_text) = demo.interrupt().await.unwrap();
    assert!(status.success(), "{output_text}");
    assert!(output_text.contains("overlapping turns             0"), "{output_text}");
    browser.until("document.body.classList.contains('lost')", TIMEOUT).await.unwrap();
    let connection =
        text(&browser, "return document.getElementById('connection').textContent").await;
    assert!(connection.starts_with("Disconnected."), "{connection}");
}

needs!(Chromium => async fn leader_killed_next_one_shown);

async fn page_without_token_is_read_only_and_accessible() {
    let ((_demo, url), browser) = (demo().await, Browser::start().await.unwrap());
    let (page, token) = url.split_once("#token=").unwrap();
    browser.open(page).await.unwrap();
    browser.until("document.querySelector('.lane.leads')", TIMEOUT).await.unwrap();
    let leader = text(&browser, LEADER).await;
    browser.click(&button("Kill machine", &leader)).await.unwrap();
    browser
        .until("document.getElementById('answer').textContent.includes('token')", TIMEOUT)
        .await
        .unwrap();

    // The server also rejects another page of the same browser that knows the token, and this page
    // with a wrong token.
    let client = client();
    let path = format!("{page}candidates/{leader}/kill-machine");
    let page_origin = page.trim_end_matches('/');
    for (origin, token) in [(page_origin, "wrong"), ("http://evil.example", token)] {
        let request = client.post(&path).header("origin", origin).bearer_auth(token);
        assert_eq!(request.send().await.unwrap().status(), 403, "{origin}");
    }
    let script = "const done = arguments[1]; fetch(arguments[0], { method: 'POST' }).then((answer) => done(answer.status))";
    let status = browser.run_async(script, json!([path])).await.unwrap();
    assert_eq!(status, 403, "its own page, without the token");
    // The page has received turns since, and no candidate was killed.
    browser
        .until("document.querySelectorAll('.lane.leads .tick.succeeded').length > 1", TIMEOUT)
        .await
        .unwrap();
    let candidate_state = text(&browser, &format!("return {}", state(&leader))).await;
    assert!(!candidate_state.contains("killed"), "{candidate_state}");

    for (width, height) in [(1280, 800), (360, 740)] {
        for scheme in ["light", "dark"] {
            browser.emulate_window(width, height, scheme).await.unwrap();
            let violations = browser.run(PAGE_CHECKS, json!([])).await.unwrap();
            assert_eq!(violations, json!([]), "{width} {scheme}");
        }
    }
    // Uses the keyboard from the heading on: each button in turn shows its focus.
    let heading = "const at = document.querySelector('h1'); at.tabIndex = -1; at.focus()";
    browser.run(heading, json!([])).await.unwrap();
    let labels = "return [...document.querySelectorAll('button')].map((button) => button.getAttribute('aria-label'))";
    let all = browser.run(labels, json!([])).await.unwrap();
    assert_eq!(all.as_array().unwrap().len(), 15, "{all}");
    for label in all.as_array().unwrap() {
        browser.press(TAB).await.unwrap();
        let focus = "const at = document.activeElement; return [at.getAttribute('aria-label'), getComputedStyle(at).outlineStyle]";
        assert_eq!(browser.run(focus, json!([])).await.unwrap(), json!([label, "solid"]));
    }
}

needs!(Chromium => async fn page_without_token_is_read_only_and_accessible);

async fn names_are_escaped_and_page_is_self_contained() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let names = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>"];
    let listen = ["--listen", "127.0.0.1:0"];
    let mut leader = group.start(names[0], &listen).unwrap();
    leader.event("elected", TIMEOUT).await;
    let follower = group.start(names[1], &listen).unwrap();
    follower.event("following", TIMEOUT).await;
    let url = address(&follower).await;

    // All connections are in use at first.
    let client = client();
    let mut viewers = Vec::new();
    for _ in 0..32 {
        let viewer = client.get(format!("{url}/events")).send().await.unwrap();
        assert_eq!(viewer.status(), 200);
        viewers.push(viewer);
    }
    let browser = Browser::start().await.unwrap();
    browser.open(&url).await.unwrap();
    browser.until("document.body.classList.contains('lost')", TIMEOUT).await.unwrap();
    drop(viewers);
    browser.until(&format!("{LEADER_NOW} === '{}'", names[0]), TIMEOUT).await.unwrap();
    let lanes =
        "return [...document.querySelectorAll('.lane .name')].map((name) => name.textContent)";
    assert_eq!(browser.run(lanes, json!([])).await.unwrap(), json!([names[1], names[0]]));
    let elements = "return [document.scripts.length, document.images.length, document.querySelectorAll('button').length]";
    assert_eq!(browser.run(elements, json!([])).await.unwrap(), json!([1, 0, 2]));

    // The page made no request to another host, and cannot make one.
    let own_url = format!("{url}/");
    let foreign_urls = "return performance.getEntries().map((entry) => entry.name).filter((name) => name.includes('://') && !name.startsWith(arguments[0]))";
    assert_eq!(browser.run(foreign_urls, json!([own_url])).await.unwrap(), json!([]));
    let fetch_script = "const done = arguments[1];
        addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));
        fetch(arguments[0]).then(() => done('it was asked'), () => {});";
    let other = format!("http://{}/", sink.host());
    assert_eq!(browser.run_async(fetch_script, json!([other])).await.unwrap(), "connect-src");
    let inline_script = "const done = arguments[1];
        addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));
        const script = document.createElement('script');
        script.textContent = arguments[0];
        document.body.append(script);
        if (window.ran) done('it ran');";
    let blocked = browser.run_async(inline_script, json!(["window.ran = true"])).await.unwrap();
    assert_eq!(blocked, "script-src-elem");

    // The candidate's changes appear without a reload.
    leader.kill().await.unwrap();
    browser.until(&format!("{LEADER_NOW} === '{}'", names[1]), TIMEOUT).await.unwrap();
    browser
        .until("document.getElementById('left').textContent.endsWith(' s')", TIMEOUT)
        .await
        .unwrap();
    // The page reports a lost connection.
    let connection = "document.getElementById('connection').textContent";
    follower.signal(Signal::STOP).unwrap();
    browser.until(&format!("{connection}.startsWith('No updates')"), TIMEOUT).await.unwrap();
    follower.signal(Signal::CONT).unwrap();
    browser.until(&format!("{connection} === 'Live'"), TIMEOUT).await.unwrap();
    drop(follower);
    browser.until("document.body.classList.contains('lost')", TIMEOUT).await.unwrap();
}

needs!(Chromium => async fn names_are_escaped_and_page_is_self_contained);
