//! Installation, configuration and supervision of the program: `tenure.toml`, several elections in
//! one process, systemd, signals, completions and manual pages.

mod check;
mod file;
mod greeting;
mod inspect;
#[cfg(target_os = "linux")]
mod lists;
mod manual;
#[cfg(target_os = "linux")]
mod several_elections;
mod sighup;
mod stage;
#[cfg(target_os = "linux")]
mod supervision;
