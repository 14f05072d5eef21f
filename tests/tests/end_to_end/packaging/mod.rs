//! Installation, configuration and supervision of the program: `tenure.toml`, several elections in
//! one process, systemd, signals, completions and manual pages.

mod check;
mod file;
#[cfg(target_os = "linux")]
mod lists;
mod manual;
mod stage;
#[cfg(target_os = "linux")]
mod supervision;
mod greeting;
mod sighup;
mod inspect;
#[cfg(target_os = "linux")]
mod several_elections;
