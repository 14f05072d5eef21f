//! Contenders of the comparison, and how their candidates are started.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command as Recipe;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use tenure_store::sas::Scope;
use tokio::process::Command;
use tokio::task::spawn_blocking;

use super::server::Server;
use crate::credential::with_sas;
use crate::{Access, BEAT_HANDLER, Group, Outsider, baseline, sdk, tools};

/// Contender of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Contender {
    /// `tenure run` with its defaults: a lease of 15 s, and a supervisor that releases it
    Tenure,
    /// The same, with addresses at which candidates watch each other
    TenureWatch,
    /// `tenure run --failover`, by default 3 s
    TenureFailover,
    /// A lease loop on Azure's SDK for Rust
    SdkRust,
    /// A lease loop on Azure's SDK for Python
    SdkPython,
    /// A lease loop on Azure's SDK for JavaScript
    SdkJavascript,
    /// Microsoft's leader election sample, as in `chaos --baseline`
    Sample,
    /// `etcdctl lock` with a session of 2 s
    #[value(name = "etcd-2s")]
    Etcd2,
    /// `etcdctl lock` with a session of 15 s
    #[value(name = "etcd-15s")]
    Etcd15,
    /// The election of kazoo with a session of 2 s, at ticks of 0.5 s
    #[value(name = "zookeeper-2s")]
    Zookeeper2,
    /// The election of kazoo with a session of 15 s, at ticks of 2 s
    #[value(name = "zookeeper-15s")]
    Zookeeper15,
}

impl Contender {
    /// Returns its label in tables.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Tenure => "Tenure (15 s lease)",
            Self::TenureWatch => "Tenure, with addresses",
            Self::TenureFailover => "Tenure, `--failover`",
            Self::SdkRust => "Rust SDK loop (15 s lease)",
            Self::SdkPython => "Python SDK loop (15 s lease)",
            Self::SdkJavascript => "JavaScript SDK loop (15 s lease)",
            Self::Sample => "Microsoft's sample (15 s lease)",
            Self::Etcd2 => "etcd (2 s session)",
            Self::Etcd15 => "etcd (15 s session)",
            Self::Zookeeper2 => "ZooKeeper (2 s session)",
            Self::Zookeeper15 => "ZooKeeper (15 s session)",
        }
    }

    /// Returns true if a leader has a process that outlives it.
    #[must_use]
    pub fn is_supervised(self) -> bool {
        matches!(self, Self::Tenure | Self::TenureWatch | Self::TenureFailover)
    }

    /// Returns its interval between renewals: faults fall anywhere within it.
    pub(super) fn renewal_interval(self) -> Duration {
        match self {
            // A leader with failover also beats between two renewals.
            Self::Tenure | Self::TenureWatch | Self::TenureFailover => Duration::from_secs(4),
            Self::SdkRust | Self::SdkPython | Self::SdkJavascript => Duration::from_secs(5),
            Self::Sample => baseline::RENEW_INTERVAL,
            _ => self.session() / 3,
        }
    }

    /// Returns the poll interval of its followers: they start at random times within it, to spread
    /// their polls.
    pub(super) fn poll_interval(self) -> Duration {
        match self {
            Self::Tenure | Self::TenureWatch | Self::TenureFailover => Duration::from_secs(4),
            Self::SdkRust | Self::SdkPython | Self::SdkJavascript => Duration::from_secs(1),
            Self::Sample => baseline::RETRY_INTERVAL,
            // Their servers notify followers.
            Self::Etcd2 | Self::Etcd15 | Self::Zookeeper2 | Self::Zookeeper15 => Duration::ZERO,
        }
    }

    /// Returns the duration of its lease or session.
    fn session(self) -> Duration {
        match self {
            Self::Etcd2 | Self::Zookeeper2 => Duration::from_secs(2),
            _ => Duration::from_secs(15),
        }
    }

    /// Installs and starts the required software.
    ///
    /// # Errors
    /// Software is missing; the error says what, and how to install it.
    pub async fn prepare(self, setting: &Setting) -> Result<Ready> {
        let (version, start) = match self {
            Self::Tenure | Self::TenureWatch | Self::TenureFailover => {
                let version = format!("Tenure {}", env!("CARGO_PKG_VERSION"));
                (version, Start::Tenure)
            }
            Self::Sample => ("Microsoft's sample, played by this program".into(), Start::Sample),
            Self::SdkRust => {
                let version_label =
                    pinned_version("tests/sdk/rust/Cargo.toml", "azure_storage_blob");
                (version_label?, Start::Sdk(install_blocking(|| sdk::rust("elect")).await?))
            }
            Self::SdkPython => {
                let version_label =
                    pinned_version("tests/sdk/python/requirements.in", "azure-storage-blob");
                let make = || sdk::python("tests/compare/sdk.py");
                (version_label?, Start::Sdk(install_blocking(make).await?))
            }
            Self::SdkJavascript => {
                let version_label =
                    pinned_version("tests/sdk/javascript/package.json", "@azure/storage-blob");
                let make = || sdk::javascript("tests/compare/sdk.mjs");
                (version_label?, Start::Sdk(install_blocking(make).await?))
            }
            Self::Etcd2 | Self::Etcd15 => {
                let (server, version) = Server::etcd().await?;
                let recipe = tools::python("tests/compare/etcd.py", Path::new(""));
                (version, Start::Server(recipe, Box::new(server)))
            }
            Self::Zookeeper2 | Self::Zookeeper15 => {
                let tick = if self == Self::Zookeeper2 { 500 } else { 2_000 };
                let install = || {
                    let kazoo = tools::pip("compare", "tests/compare/requirements.txt")?;
                    Ok(tools::python("tests/compare/zookeeper.py", &kazoo))
                };
                let recipe = install_blocking(install).await?;
                let (server, version) = Server::zookeeper(tick).await?;
                let kazoo = pinned_version("tests/compare/requirements.in", "kazoo")?;
                (format!("{version}, {kazoo}"), Start::Server(recipe, Box::new(server)))
            }
        };
        Ok(Ready { contender: self, version, setting: setting.clone(), start })
    }
}

/// Environment of the contenders that use a blob.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Program that acts as `tenure` if its first argument is `run`, and as a baseline candidate if
    /// it is `baseline`.
    pub program: PathBuf,
    /// Connection string with the account's key.
    pub connection_string: String,
    /// Failover time for `tenure run --failover`, in seconds.
    pub failover: u8,
}

/// Contender that is ready to start candidates. Dropping it ends its servers.
#[derive(Debug)]
pub struct Ready {
    /// The contender.
    pub contender: Contender,
    /// Its software, with versions.
    pub version: String,
    setting: Setting,
    start: Start,
}

#[derive(Debug)]
enum Start {
    Tenure,
    Sample,
    Sdk(Recipe),
    Server(Recipe, Box<Server>),
}

/// Store of a candidate, in the terms of its proxy.
pub(super) enum Store<'a> {
    Blob(&'a str),
    Server(&'a Server),
}

impl Ready {
    pub(super) fn store(&self) -> Store<'_> {
        match &self.start {
            Start::Server(_, server) => Store::Server(server),
            _ => Store::Blob(&self.setting.connection_string),
        }
    }

    /// Prepares a new election, and returns its name.
    pub(super) async fn election(&self) -> Result<String> {
        let unique = uuid::Uuid::new_v4().simple();
        let election = format!("tenure-compare-{unique}/leader");
        if matches!(self.start, Start::Sdk(_)) {
            // The loops expect an existing blob, as in the guides.
            let outsider = Outsider::new(&self.setting.connection_string, &election);
            outsider.create_container().await?;
            outsider.put_foreign_blob().await?;
        }
        Ok(election)
    }

    /// Returns the command of a candidate that reaches its store at a connection string or address,
    /// and beats at `sink`.
    pub(super) fn command(
        &self,
        name: &str,
        election: &str,
        store_address: &str,
        sink: &str,
    ) -> Result<Command> {
        let group = || Group {
            program: self.setting.program.clone(),
            connection_string: self.setting.connection_string.clone(),
            access: Access::from_connection_string(store_address),
            election: election.to_owned(),
            sink: sink.to_owned(),
            // One turn lasts as long as the leadership and gets no grace period, because the other
            // contenders give none.
            timer: ["--while-leading", "--grace=0s"],
            turn_ms: 24 * 60 * 60 * 1_000,
            patient_timings: false,
        };
        let mut command = match &self.start {
            Start::Tenure => {
                let options = self.contender.options(self.setting.failover)?;
                let options: Vec<_> = options.iter().map(String::as_str).collect();
                group().component(
                    name,
                    &Access::from_connection_string(store_address),
                    BEAT_HANDLER.as_ref(),
                    &options,
                )
            }
            Start::Sample => {
                let mut command = Command::new(&self.setting.program);
                command.args(["baseline", "--name", name, "--election", election, "--sink", sink]);
                Access::from_connection_string(store_address).set_variables(&mut command);
                command
            }
            Start::Sdk(recipe) => {
                let mut command = clone_command(recipe);
                let access = match self.contender {
                    Contender::SdkRust => {
                        let scope = Scope::Account { services: "b".into(), types: "co".into() };
                        Access::from_connection_string(with_sas(store_address, scope, "rwc"))
                    }
                    _ => Access::from_connection_string(store_address),
                };
                access.set_variables(&mut command);
                command
            }
            Start::Server(recipe, _) => {
                let mut command = clone_command(recipe);
                let session = self.contender.session().as_secs().to_string();
                command.env("STORE", store_address).env("SESSION", session);
                command
            }
        };
        command.env("NAME", name).env("ELECTION", election).env("BEAT_AT", sink).process_group(0);
        Ok(command)
    }
}

impl Contender {
    /// Returns the options of `tenure run` in addition to the election and the work.
    fn options(self, failover: u8) -> Result<Vec<String>> {
        Ok(match self {
            Self::TenureFailover => vec![format!("--failover={failover}s")],
            Self::TenureWatch => {
                // Picks a free address, which the other candidates know before it listens.
                let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
                vec![format!("--listen={listen}"), format!("--address=http://{listen}")]
            }
            _ => Vec::new(),
        })
    }
}

/// Installs software on a blocking thread, which may take minutes.
async fn install_blocking(
    make: impl FnOnce() -> Result<Recipe> + Send + 'static,
) -> Result<Recipe> {
    spawn_blocking(make).await?
}

/// Returns a copy of the command.
fn clone_command(recipe: &Recipe) -> Command {
    let mut command = Command::new(recipe.get_program());
    command.args(recipe.get_args());
    for (name, value) in recipe.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(folder) = recipe.get_current_dir() {
        command.current_dir(folder);
    }
    command
}

/// Returns a package and its version in a file of the repository: the first number after the
/// package's name.
fn pinned_version(file: &str, package: &str) -> Result<String> {
    let text = std::fs::read_to_string(tools::repository().join(file))?;
    let names_package = |line: &&str| line.trim_start_matches(['"', ' ']).starts_with(package);
    let line = text.lines().find(names_package).with_context(|| format!("{file}: no {package}"))?;
    let version = &line[line.find(package).unwrap_or_default() + package.len()..];
    let version = version.trim_start_matches(|character: char| !character.is_ascii_digit());
    let end = version.find(|character: char| !character.is_ascii_digit() && character != '.');
    match &version[..end.unwrap_or(version.len())] {
        "" => bail!("{file}: no version of {package}"),
        version => Ok(format!("{package} {version}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_requirements() {
        let packages = [
            ("tests/sdk/rust/Cargo.toml", "azure_storage_blob"),
            ("tests/sdk/python/requirements.in", "azure-storage-blob"),
            ("tests/sdk/javascript/package.json", "@azure/storage-blob"),
            ("tests/compare/requirements.in", "kazoo"),
        ];
        for (file, package) in packages {
            let version = pinned_version(file, package).unwrap();
            let (name, version) = version.split_once(' ').unwrap();
            assert!(name == package && version.split('.').count() == 3, "{version}");
        }
        assert!(pinned_version("tests/compare/requirements.in", "nothing").is_err());
    }
}
