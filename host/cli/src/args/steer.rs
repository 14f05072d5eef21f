//! Commands that change something in an election.

use super::ElectionArguments;
use clap::Args;
use std::path::PathBuf;

const STEER_HELP: &str = "\
The candidate must run with --listen and a control token; the same token is given here, by the \
variable TENURE_CONTROL_TOKEN or --control-token-file. Without --at, it goes to the leader at the \
address that it put on record (--address, an http:// or https:// URL of its listener).

Exit codes: 0 it is done; 1 it was ordered, but did not come about in time; 2 it was not ordered, \
and nothing has changed.";

const PAUSE_HELP: &str = "\
The candidate must run with --listen and a control token; the same token is given here, by the \
variable TENURE_CONTROL_TOKEN or --control-token-file. --election is needed where several \
elections are at the listener.

Exit codes: 0 it is done; 2 it was not ordered, and nothing has changed.";

#[derive(Args)]
#[command(after_help = STEER_HELP)]
pub(crate) struct SteerArguments {
    #[command(flatten)]
    pub target: TargetArguments,
}

#[derive(Args)]
#[command(after_help = STEER_HELP)]
pub(crate) struct TransferArguments {
    /// The name of the candidate that is to lead
    #[arg(long, value_name = "NAME")]
    pub to: String,
    #[command(flatten)]
    pub target: TargetArguments,
}

/// Any candidate may be meant, so that it must be said which.
#[derive(Args)]
#[command(after_help = PAUSE_HELP)]
#[command(mut_arg("at", |at| at.required(true).help("The listener of the candidate, like http://10.0.0.4:8080")))]
pub(crate) struct PauseArguments {
    #[command(flatten)]
    pub target: TargetArguments,
}

/// Which candidate is meant.
pub(crate) type TargetArguments = ElectionArguments<ListenerArguments>;

#[derive(Args)]
pub(crate) struct ListenerArguments {
    /// The listener of the candidate, like http://10.0.0.4:8080; default: the address of the leader
    #[arg(long, value_name = "URL")]
    pub at: Option<String>,
    /// A file with the control token, instead of TENURE_CONTROL_TOKEN
    /// [env: TENURE_CONTROL_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub control_token_file: Option<PathBuf>,
}

const BREAK_HELP: &str = "\
For a leader that nobody can reach any more. Without --period what is left of its lease runs out, \
so that it has stopped by then: no two leaders overlap. With a shorter period it leads on until \
its next renewal meets the broken lease, beside the next one.

Exit codes: 0 the lease is broken, or nobody held it; 1 it was not broken; 2 something was wrong \
with the settings, or nobody was there to agree.";

#[derive(Args)]
#[command(after_help = BREAK_HELP)]
pub(crate) struct BreakArguments {
    #[command(flatten)]
    pub target: ElectionArguments<PeriodArguments>,
    /// Does it without asking
    #[arg(long)]
    pub yes: bool,
}

#[derive(Args)]
pub(crate) struct PeriodArguments {
    /// How long the holder keeps it at most, 0s to 60s, rounded up to whole seconds; default: what is
    /// left of it
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub period: Option<String>,
}

const RESET_SLOT_HELP: &str = "\
A slot in the future is a problem that every leader reports: somebody wrote the record by hand, or \
the service's clock was wrong. Only a leader may write the record, so this takes the lease for a \
moment: the present leader loses it when its time has run out. Its turns of the timer wait \
anyway; one for --on-start would be cut off. Slots that were run while a clock was ahead run \
again when they come.

Exit codes: 0 there is no such slot any more; 1 it was not done; 2 something was wrong with the \
settings, there is no such election, or nobody was there to agree.";

#[derive(Args)]
#[command(after_help = RESET_SLOT_HELP)]
pub(crate) struct ResetSlotArguments {
    #[command(flatten)]
    pub target: ElectionArguments,
    /// Does it without asking
    #[arg(long)]
    pub yes: bool,
}
