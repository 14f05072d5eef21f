//! The overview page for the elections of a process.

use super::*;
use tenure_tests::needs;

/// Number of elections of a team that runs all its jobs in one process.
const ELECTIONS: usize = 300;

/// Returns the displayed elections, in order.
const NAMES: &str =
    "return [...document.querySelectorAll('#lines a')].map((link) => link.textContent)";

async fn names(browser: &Browser) -> Vec<String> {
    let names = browser.run(NAMES, json!([])).await.unwrap();
    names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Replaces the text in the search box.
async fn search(browser: &Browser, words: &str) {
    let script = "const box = document.getElementById('search'); box.value = arguments[0];
        box.dispatchEvent(new Event('input'))";
    browser.run(script, json!([words])).await.unwrap();
}

/// Starts a process with these elections, and returns it with its page.
async fn process(
    group: &Group,
    folder: &tempfile::TempDir,
    elections: &str,
) -> (Candidate, String) {
    let file = format!("log = \"json\"\nlisten = \"127.0.0.1:0\"\nname = \"ada\"\n{elections}");
    std::fs::write(folder.path().join("tenure.toml"), file).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("run").arg("--config").arg(folder.path().join("tenure.toml"));
    group.access.apply(&mut command);
    let process = Candidate::spawn("all", command).unwrap();
    let url = address(&process).await;
    (process, url)
}

async fn overview_lists_300_elections_with_failing_first() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let (container, _) = group.election.split_once('/').unwrap();
    // Two elections have had a turn, and one of these failed. Another application owns the blob of
    // a third.
    let mut outsider = group.clone();
    outsider.election = format!("{container}/job-250");
    let outsider = outsider.outsider();
    outsider.create_container().await.unwrap();
    outsider.put_foreign_blob().await.unwrap();
    for number in [200, 201] {
        let mut trigger = Command::new(PROGRAM);
        trigger.args(["trigger", &format!("{container}/job-{number}")]);
        group.access.apply(&mut trigger);
        assert!(trigger.status().await.unwrap().success(), "{number}");
    }
    let mut file =
        "cron = \"0 2 * * *\"\ntime-zone = \"Europe/Berlin\"\nlease = \"60s\"\n".to_owned();
    for number in 1..=ELECTIONS {
        file += &format!("[[election]]\nelection = '{container}/job-{number}'\n");
        file += match number {
            200 => "command = [\"/bin/false\"]\n",
            _ => "command = [\"/bin/true\"]\n",
        };
    }
    let folder = tempfile::tempdir().unwrap();
    let (process, url) = process(&group, &folder, &file).await;
    let browser = Browser::start().await.unwrap();
    browser.emulate_window(1280, 800, "light").await.unwrap();
    browser.open(&url).await.unwrap();
    let summary = "document.getElementById('summary').textContent";
    let settled = format!("{summary} === '1 not ready, 1 with a failed last turn, 298 healthy'");
    browser.until(&settled, 4 * TIMEOUT).await.unwrap();
    // The end of a turn appears once it is in the record.
    let aged = "[1, 201].every((i) => document.querySelectorAll('#lines tr')[i].querySelector('.ago').textContent)";
    browser.until(aged, 4 * TIMEOUT).await.unwrap();

    let job = |number: usize| format!("{container}/job-{number}");
    let all = names(&browser).await;
    assert_eq!(all.len(), ELECTIONS);
    assert_eq!(all[..3], [job(250), job(200), job(1)], "the failing ones, then by name");
    assert_eq!(all[3..].iter().position(|name| *name == job(10)), Some(8), "numbers by value");
    let line = "return [...document.querySelectorAll('#lines tr')].filter((line, i) => [0, 1, 201].includes(i))
        .map((line) => [...line.cells].slice(1, 5).map((cell) => cell.textContent.replace(/term \\d+|\\d+ (s|min) ago/g, '…')))";
    let lines = browser.run(line, json!([])).await.unwrap();
    let reason = lines[0][0].as_str().unwrap();
    assert!(reason.starts_with("not readyunusable-blob: "), "{reason}");
    assert_eq!(
        lines[0].as_array().unwrap()[1..],
        [json!("undecided"), json!("not known"), json!("–")]
    );
    assert_eq!(lines[1], json!(["last turn failed", "leads", "ada, …", "failed…"]));
    assert_eq!(lines[2], json!(["healthy", "leads", "ada, …", "succeeded…"]), "{}", all[201]);
    let next = "return [...document.querySelectorAll('#lines .wait')].at(-1).textContent";
    let next = text(&browser, next).await;
    assert!(next.starts_with("in "), "{next}");
    browser.picture("overview").await.unwrap();

    // The page requested only one stream, and is small.
    let requests_script = "return performance.getEntriesByType('resource').map((entry) => new URL(entry.name).pathname + new URL(entry.name).search)";
    let requested_paths = browser.run(requests_script, json!([])).await.unwrap();
    assert!(
        requested_paths.as_array().unwrap().iter().all(|path| path == "/events?overview"),
        "{requested_paths}"
    );
    let page = client().get(&url).send().await.unwrap().text().await.unwrap();
    assert!(page.len() < 30_000, "{}", page.len());
    let elements = "return document.querySelectorAll('*').length";
    let elements = browser.run(elements, json!([])).await.unwrap().as_u64().unwrap();
    assert!(elements < 15 * ELECTIONS as u64, "{elements}");

    for (width, height) in [(1280, 800), (390, 844)] {
        for scheme in ["light", "dark"] {
            browser.emulate_window(width, height, scheme).await.unwrap();
            let violations = browser.run(PAGE_CHECKS, json!([])).await.unwrap();
            assert_eq!(violations, json!([]), "{width} {scheme}");
        }
    }
    browser.picture("overview-phone-dark").await.unwrap();
    browser.emulate_window(1280, 800, "light").await.unwrap();

    search(&browser, "job-25 healthy").await;
    assert_eq!(names(&browser).await.len(), 10, "25, and 251 to 259");
    let count = text(&browser, "return document.getElementById('count').textContent").await;
    assert_eq!(count, "10 of 300 elections match");
    search(&browser, "failed").await;
    assert_eq!(names(&browser).await, [job(200)]);
    // Navigates by keyboard from the search to the line, and to its own page.
    browser.run("document.getElementById('search').focus()", json!([])).await.unwrap();
    browser.press(TAB).await.unwrap();
    let focus = "const at = document.activeElement; return [at.textContent, getComputedStyle(at).outlineStyle]";
    assert_eq!(browser.run(focus, json!([])).await.unwrap(), json!([job(200), "solid"]));
    browser.press(ENTER).await.unwrap();
    browser.until(&format!("{LEADER_NOW} === 'ada'"), TIMEOUT).await.unwrap();
    let election_text =
        text(&browser, "return document.getElementById('election').textContent").await;
    assert_eq!(election_text, job(200));
    // Navigates back, where the search is unchanged.
    browser.run("history.back()", json!([])).await.unwrap();
    browser.until("document.querySelectorAll('#lines a').length === 1", TIMEOUT).await.unwrap();
    let search_text = text(&browser, "return document.getElementById('search').value").await;
    assert_eq!(search_text, "failed");
    // A user who opens the link sees the same search.
    let page_url = text(&browser, "return location.href").await;
    browser.open("about:blank").await.unwrap();
    browser.open(&page_url).await.unwrap();
    browser.until("document.querySelectorAll('#lines a').length === 1", TIMEOUT).await.unwrap();
    drop(process);
    browser.until("document.body.classList.contains('lost')", TIMEOUT).await.unwrap();
}

needs!(Chromium => async fn overview_lists_300_elections_with_failing_first);

async fn overview_line_follows_election_and_keeps_focus() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let (container, _) = group.election.split_once('/').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let switch = folder.path().join("fails");
    let work = format!("test ! -e {}", switch.display());
    let file = format!(
        "every = \"2s\"\n[[election]]\nelection = '{container}/a'\ncommand = [\"/bin/true\"]\n\
         [[election]]\nelection = '{container}/b'\ncommand = [\"/bin/sh\", \"-c\", '{work}']\n"
    );
    let (_process, url) = process(&group, &folder, &file).await;
    let browser = Browser::start().await.unwrap();
    browser.open(&url).await.unwrap();
    let healthy_condition = "document.getElementById('summary').textContent === '2 healthy' && document.querySelectorAll('.outcome')[1].textContent === 'succeeded'";
    browser.until(healthy_condition, TIMEOUT).await.unwrap();
    let focus = "const link = document.querySelectorAll('#lines a')[1]; link.focus(); return link.textContent";
    let second = text(&browser, focus).await;
    assert_eq!(second, format!("{container}/b"));

    std::fs::write(&switch, "").unwrap();
    // After several failures in a row the leader resigns.
    let first = format!(
        "document.querySelector('#lines a').textContent === '{second}' && \
         ['last turn failed', 'no leader'].includes(document.querySelector('#lines .word').textContent)"
    );
    browser.until(&first, TIMEOUT).await.unwrap();
    let focused = text(&browser, "return document.activeElement.textContent").await;
    assert_eq!(focused, second, "it has moved, and has the focus");
    std::fs::remove_file(&switch).unwrap();
    browser.until(healthy_condition, 4 * TIMEOUT).await.unwrap();
}

needs!(Chromium => async fn overview_line_follows_election_and_keeps_focus);

async fn overview_line_links_to_election_with_any_name() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let (container, _) = group.election.split_once('/').unwrap();
    let blobs = ["nightly", "<script>alert(1)</script>", "a long & windy name of a job-\u{fc}"];
    let elections = blobs.map(|blob| format!("{container}/{blob}"));
    let folder = tempfile::tempdir().unwrap();
    let mut file = "every = \"1h\"\n".to_owned();
    for (number, election) in elections.iter().enumerate() {
        file += &format!("[[election]]\nelection = '{election}'\nname = '<b>{number}</b>'\n");
        file += "command = [\"/bin/true\"]\n";
    }
    let (_process, url) = process(&group, &folder, &file).await;

    let browser = Browser::start().await.unwrap();
    browser.open(&url).await.unwrap();
    let healthy_condition = "document.getElementById('summary').textContent === '3 healthy'";
    browser.until(healthy_condition, TIMEOUT).await.unwrap();
    let [last, first, second] = elections;
    assert_eq!(names(&browser).await, [&*first, &second, &last], "by name, as text");
    // Uses the keyboard: the second line shows the focus, and its link works.
    browser.run("document.getElementById('search').focus()", json!([])).await.unwrap();
    browser.press(TAB).await.unwrap();
    browser.press(TAB).await.unwrap();
    let focus = "const at = document.activeElement; return [at.textContent, getComputedStyle(at).outlineStyle]";
    assert_eq!(browser.run(focus, json!([])).await.unwrap(), json!([second, "solid"]));
    browser.press(ENTER).await.unwrap();
    browser.until(&format!("{LEADER_NOW} === '<b>2</b>'"), TIMEOUT).await.unwrap();
    let election_text =
        text(&browser, "return document.getElementById('election').textContent").await;
    assert_eq!(election_text, second);
    assert_eq!(browser.run("return document.scripts.length", json!([])).await.unwrap(), 1);
    for (width, height) in [(1280, 800), (375, 740)] {
        for scheme in ["light", "dark"] {
            browser.emulate_window(width, height, scheme).await.unwrap();
            let violations = browser.run(PAGE_CHECKS, json!([])).await.unwrap();
            assert_eq!(violations, json!([]), "{width} {scheme}");
        }
    }
    // The page's link also leads to data of this election.
    let leader = text(&browser, "return document.querySelector('footer a').href").await;
    let leader_text = client().get(leader).send().await.unwrap().text().await.unwrap();
    let leader_json: serde_json::Value = serde_json::from_str(&leader_text).unwrap();
    assert_eq!(leader_json["election"], second);
    browser.click("nav a").await.unwrap();
    browser.until(healthy_condition, TIMEOUT).await.unwrap();
}

needs!(Chromium => async fn overview_line_links_to_election_with_any_name);
