//! Installation, configuration and supervision of the program: `tenure.toml`, several elections in
//! one process, systemd, signals, completions and manual pages.

mod check;
mod file;
mod first_words;
mod hang_up;
#[cfg(target_os = "linux")]
mod lists;
mod looks;
mod manual;
#[cfg(target_os = "linux")]
mod several;
mod stage;
#[cfg(target_os = "linux")]
mod supervision;
