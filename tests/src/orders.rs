//! Orders of operators by the program.

use std::process::Stdio;

use anyhow::Result;
use tokio::process::Command;

use crate::{Candidate, Group};

/// Runs the program with these arguments as an operator does. Returns its exit code and its output.
///
/// # Errors
/// The program cannot be started.
pub async fn operate(group: &Group, arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let mut command = Command::new(&group.program);
    command.args(arguments);
    group.access.give(&mut command);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
}

/// Returns the candidate that was elected last of those that run.
#[must_use]
pub fn leader(seats: &[Candidate]) -> Option<usize> {
    let newest = |seat: &Candidate| {
        let lines = seat.lines();
        let last = lines.iter().rfind(|line| ["elected", "stood-down"].contains(&line.name()))?;
        (last.name() == "elected").then(|| last.term())
    };
    let terms = seats.iter().enumerate().filter_map(|(index, seat)| Some((newest(seat)?, index)));
    terms.max().map(|(_, index)| index)
}
