//! Replacement on systems without a supervisor: they have no signals to forward, and no reliable
//! way to detect the end of all processes.

use super::output::log::{LogContext, Style};
use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Report, Request};

pub(super) enum ProcessRole {
    Other,
    #[allow(dead_code, reason = "the variants are the same on all systems")]
    Supervisor(ExitCode),
    Runner(Result<Supervised, String>),
}

impl ProcessRole {
    pub(super) fn detect(arguments: &mut Vec<OsString>) -> Self {
        match arguments.get(1).is_some_and(|command| command == "run") {
            true => Self::Runner(Err("not available on this system".to_owned())),
            false => Self::Other,
        }
    }
}

/// Connection to a supervisor, which cannot exist on this system.
pub(crate) struct Supervised(Infallible);

impl Supervised {
    pub(crate) fn supervisor(&self) -> u32 {
        match self.0 {}
    }
}

pub(crate) fn link(supervised: &Supervised, _: Style) -> Result<Arc<Link>, String> {
    match supervised.0 {}
}

pub(crate) fn add(link: &Link, _: &LogContext) -> usize {
    match link.0 {}
}

pub(crate) struct Link(Infallible);

impl Link {
    pub(crate) fn remove_candidate(&self, _: usize) {
        match self.0 {}
    }

    pub(crate) fn on_step(&self, _: usize, _: &Report, _: Duration, _: Option<&OsString>) {
        match self.0 {}
    }

    pub(crate) fn set_sign_of_life_will(&self, _: &str, _: Option<&Request>, _: Option<&OsString>) {
        match self.0 {}
    }

    #[allow(dead_code, reason = "no command runs on this system")]
    pub(crate) async fn end_orphans(&self) {
        match self.0 {}
    }

    pub(crate) fn notify(&self, _: &str) {
        match self.0 {}
    }
}
