//! The commands `run` and `observe`.

pub(crate) mod candidacy;
pub(crate) mod command;
pub(crate) mod election_lists;
pub(crate) mod engine;
pub(crate) mod handler;
pub(crate) mod member;
pub(crate) mod process;
pub(crate) mod ready;
#[cfg_attr(not(target_os = "linux"), path = "run/service_manager/none.rs")]
pub(crate) mod service_manager;
pub(crate) mod startup;
pub(crate) mod systemd;
