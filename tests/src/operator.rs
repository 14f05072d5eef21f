//! Operator commands, run with the program.

use std::process::Stdio;

use anyhow::Result;
use tokio::process::Command;

use crate::{Candidate, Group};

/// Runs the program with these arguments, as an operator does. Returns its exit code and its
/// output.
///
/// # Errors
/// The program cannot be started.
pub async fn run_command(group: &Group, arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let mut command = Command::new(&group.program);
    command.args(arguments);
    group.access.apply(&mut command);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let output_bytes = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&output_bytes).into_owned()))
}

/// Returns the running candidate that was elected last.
#[must_use]
pub fn current_leader(seats: &[Candidate]) -> Option<usize> {
    let leading_term = |seat: &Candidate| {
        let lines = seat.lines();
        let last_change =
            lines.iter().rfind(|line| ["elected", "stood-down"].contains(&line.name()))?;
        (last_change.name() == "elected").then(|| last_change.term())
    };
    let terms =
        seats.iter().enumerate().filter_map(|(index, seat)| Some((leading_term(seat)?, index)));
    terms.max().map(|(_, index)| index)
}
