//! A real browser: headless Chromium, driven over WebDriver.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::{PATIENCE, tools};

const INSTALL_ADVICE: &str = "on Debian, as root: apt-get install -y chromium chromium-driver";

/// Key of an element in WebDriver's JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Last message of chromedriver when it needs another port.
const PORT_TAKEN: &str = "IPv4 port not available. Exiting...";

/// Interval between two checks of a page.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A process and all its descendants. Dropping it ends them all.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl ProcessGroup {
    /// Starts a process whose standard output is read by [`line`](Self::line).
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().context("no standard output")?;
        Ok(Self { child, lines: BufReader::new(stdout).lines() })
    }

    /// Returns the rest of the next line with this prefix. Skips other lines.
    ///
    /// # Errors
    /// The process ends before it prints such a line.
    pub async fn line(&mut self, prefix: &str) -> Result<String> {
        let mut last = String::new();
        while let Some(line) = self.lines.next_line().await? {
            if let Some(suffix) = line.strip_prefix(prefix) {
                return Ok(suffix.to_owned());
            }
            last = line;
        }
        bail!("it ended before it said \"{prefix}\", with: {last}")
    }

    /// Sends SIGINT to the process itself, and returns the rest of its output.
    ///
    /// # Errors
    /// The process cannot be signalled, or its output cannot be read.
    pub async fn interrupt(mut self) -> Result<(ExitStatus, String)> {
        kill_process(self.id()?, Signal::INT)?;
        let mut remaining = String::new();
        while let Some(line) = self.lines.next_line().await? {
            remaining.push_str(&line);
            remaining.push('\n');
        }
        Ok((self.child.wait().await?, remaining))
    }

    fn id(&self) -> Result<Pid> {
        let id = self.child.id().context("it has ended")?;
        Pid::from_raw(i32::try_from(id)?).context("no process id")
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Ok(id) = self.id() {
            // All of them may have exited.
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}

/// Window of Chromium with its own profile.
#[derive(Debug)]
pub struct Browser {
    client: reqwest::Client,
    session: String,
    _driver: ProcessGroup,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser.
    ///
    /// # Errors
    /// Chromium is not installed, or does not start.
    pub async fn start() -> Result<Self> {
        tools::require_tool("chromedriver", INSTALL_ADVICE)?;
        let (driver, port) = loop {
            let mut command = Command::new("chromedriver");
            let mut driver = ProcessGroup::spawn(command.arg("--port=0").stderr(Stdio::null()))?;
            match driver.line("ChromeDriver was started successfully on port ").await {
                Ok(port) => break (driver, port),
                // Another process uses the kernel's port for ::1 on 127.0.0.1.
                Err(error) if error.to_string().ends_with(PORT_TAKEN) => {}
                Err(error) => return Err(error),
            }
        };
        let origin = format!("http://127.0.0.1:{}", port.trim_end_matches('.'));

        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        let profile = TempDir::new()?;
        // Disables the sandbox, which needs rights that containers and root lack. The browser only
        // loads these pages.
        let arguments = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--window-size=1280,800",
            format!("--user-data-dir={}", profile.path().display()),
        ]);
        let options = json!({ "goog:chromeOptions": { "args": arguments } });
        let capabilities = json!({ "capabilities": { "alwaysMatch": options } });
        let started = send(&client, format!("{origin}/session"), &capabilities).await;
        let started =
            started.with_context(|| format!("Chromium does not start: {INSTALL_ADVICE}"))?;
        let session = started["sessionId"].as_str().context("no session")?;
        let session = format!("{origin}/session/{session}");
        Ok(Self { client, session, _driver: driver, _profile: profile })
    }

    /// Navigates to a page.
    ///
    /// # Errors
    /// The page cannot be loaded.
    pub async fn open(&self, url: &str) -> Result<()> {
        self.post("url", &json!({ "url": url })).await.map(drop)
    }

    /// Returns the result of a function body that runs in the page. The body sees `arguments`.
    ///
    /// # Errors
    /// The script throws.
    pub async fn run(&self, script: &str, arguments: Value) -> Result<Value> {
        self.post("execute/sync", &json!({ "script": script, "args": arguments })).await
    }

    /// Returns the value that the script passes to the last of its `arguments`, a callback.
    ///
    /// # Errors
    /// The script throws, or never calls the callback.
    pub async fn run_async(&self, script: &str, arguments: Value) -> Result<Value> {
        self.post("execute/async", &json!({ "script": script, "args": arguments })).await
    }

    /// Waits until an expression is true in the page.
    ///
    /// # Errors
    /// The expression stays false for `limit`; the error holds the text of the page.
    pub async fn until(&self, expression: &str, limit: Duration) -> Result<()> {
        let script = format!("return Boolean({expression})");
        let condition = async {
            while self.run(&script, json!([])).await? != json!(true) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            anyhow::Ok(())
        };
        if let Ok(result) = tokio::time::timeout(limit, condition).await {
            return result;
        }
        let page = self.run("return document.body.innerText", json!([])).await?;
        bail!("not within {limit:?}: {expression}\n{}", page.as_str().unwrap_or_default())
    }

    /// Clicks like a user: the element must be visible and unobstructed.
    ///
    /// # Errors
    /// The element does not exist, or cannot be clicked.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let locator = json!({ "using": "css selector", "value": selector });
        let element = self.post("element", &locator).await?;
        let id = element[ELEMENT].as_str().with_context(|| format!("no {selector}"))?;
        self.post(&format!("element/{id}/click"), &json!({})).await.map(drop)
    }

    /// Presses a key, given as its WebDriver code: U+E004 is Tab.
    ///
    /// # Errors
    /// The browser rejects the key.
    pub async fn press(&self, key: char) -> Result<()> {
        let [down, up] =
            ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }));
        let keys = json!({ "type": "key", "id": "keyboard", "actions": [down, up] });
        self.post("actions", &json!({ "actions": [keys] })).await.map(drop)
    }

    /// Emulates a window of this size for a user who prefers `dark` or `light`.
    ///
    /// # Errors
    /// The browser rejects the settings.
    pub async fn emulate_window(&self, width: u32, height: u32, scheme: &str) -> Result<()> {
        let is_phone = width < 500;
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone });
        let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        for (command, parameters) in
            [("Emulation.setDeviceMetricsOverride", size), ("Emulation.setEmulatedMedia", scheme)]
        {
            let command = json!({ "cmd": command, "params": parameters });
            self.post("goog/cdp/execute", &command).await?;
        }
        Ok(())
    }

    /// Saves a screenshot of the page, from its top, to the folder in the variable `PICTURES` for
    /// manual review. Does nothing without that variable.
    ///
    /// # Errors
    /// The browser takes no screenshot, or it cannot be written.
    pub async fn picture(&self, name: &str) -> Result<()> {
        let Some(folder) = std::env::var_os("PICTURES") else { return Ok(()) };
        let size = "return [innerWidth, Math.min(document.documentElement.scrollHeight, 2600)]";
        let size = self.run(size, json!([])).await?;
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1 });
        let screenshot_options =
            json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let command = json!({ "cmd": "Page.captureScreenshot", "params": screenshot_options });
        let picture = self.post("goog/cdp/execute", &command).await?;
        let picture = STANDARD.decode(picture["data"].as_str().context("no picture")?)?;
        std::fs::write(Path::new(&folder).join(name).with_extension("png"), picture)?;
        Ok(())
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        send(&self.client, format!("{}/{path}", self.session), body).await
    }
}

async fn send(client: &reqwest::Client, url: String, body: &Value) -> Result<Value> {
    let text = body.to_string();
    let answer = client.post(url).body(text).send().await?;
    let status = answer.status();
    let response: Value = serde_json::from_str(&answer.text().await?)?;
    ensure!(status.is_success(), "{}", response["value"]["message"]);
    Ok(response["value"].clone())
}
