//! `--ready-cmd`: keeps a candidate out of the race until a command says that it can work.

use crate::handler::secrets::is_ours;
use crate::runner::{Event, Order};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::mpsc;

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until the answer is yes, then lets the candidate contend.
pub(super) async fn wait(command: String, orders: mpsc::Sender<Order>, tell: impl Fn(Event)) {
    let mut told = None;
    loop {
        let Some(why) = refusal(&command).await else { break };
        // Once for each reason.
        if told.as_ref() != Some(&why) {
            let detail = format!("not ready yet, and so out of the race: the command {why}");
            tell(Event::Note { detail });
            told = Some(why);
        }
        tokio::time::sleep(PAUSE).await;
    }
    // Nobody listens: the candidate has left.
    let _ = orders.send(Order::Resume).await;
}

/// Why the answer is not yes.
async fn refusal(command: &str) -> Option<String> {
    let mut shell = shell(command);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    // It is no business of the command's what the candidate may do.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
        shell.env_remove(name);
    }
    match tokio::time::timeout(PATIENCE, shell.status()).await {
        Err(_) => Some(format!("gave no answer within {PATIENCE:?}")),
        Ok(Err(error)) => Some(format!("could not be started: {error}")),
        Ok(Ok(status)) => (!status.success()).then(|| format!("ended with {status}")),
    }
}

#[cfg(unix)]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]);
    shell
}

#[cfg(not(unix))]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd");
    shell.args(["/C", command]);
    shell
}
