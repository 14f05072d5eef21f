//! Command that resists termination: it beats at the sink `BEAT_AT` every 20 ms, ignores SIGTERM,
//! and can start processes that do the same.
//!
//! The number of each beat identifies its process: 0 for the command, 1 for its child, 2 for a
//! child that left the process group.
//!
//! Arguments: `kin` starts the child; `stray` also starts the child outside the process group.
//! `leave` exits after a few beats and leaves the children running; `moves` joins the process group
//! of its parent.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chrono::DateTime;
use rustix::process::{getpgid, getppid, setpgid};
use tokio::signal::unix::{SignalKind, signal};

const BEAT_INTERVAL: Duration = Duration::from_millis(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    // Catches the signal and ignores it.
    let _ignored_sigterm = signal(SignalKind::terminate())?;
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let has_argument = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let beat = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(0);
    let program = std::env::current_exe()?;
    if has_argument("moves") {
        setpgid(None, Some(getpgid(getppid())?))?;
    }
    if has_argument("kin") || has_argument("stray") {
        Command::new(&program).arg("1").spawn()?;
    }
    if has_argument("stray") {
        Command::new(&program).arg("2").process_group(0).spawn()?;
    }
    let mut beats_left = if has_argument("leave") { 20 } else { u64::MAX };
    while beats_left > 0 {
        post_beat(beat)?;
        beats_left -= 1;
        tokio::time::sleep(BEAT_INTERVAL).await;
    }
    Ok(())
}

fn post_beat(beat: u64) -> Result<()> {
    let variable = |name: &'static str| std::env::var(name).context(name);
    let slot = DateTime::parse_from_rfc3339(&variable("TENURE_SLOT")?)?;
    let slot = slot.timestamp_nanos_opt().context("a slot of this time")?;
    let (term, pid) = (variable("TENURE_TERM")?, std::process::id());
    let body = format!(r#"{{"term":{term},"slot":{slot},"beat":{beat},"pid":{pid}}}"#);
    let sink_address = variable("BEAT_AT")?;
    let mut sink = TcpStream::connect(&sink_address)?;
    write!(
        sink,
        "POST / HTTP/1.1\r\nhost: {sink_address}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    sink.read_to_end(&mut Vec::new())?;
    Ok(())
}
