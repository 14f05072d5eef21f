//! Tests that need more than Rust and a C compiler. [`needs!`](crate::needs) registers them, and
//! the test program `with_tools` runs them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Trial};

/// Variable that turns a missing tool into a failure when it is `all`.
const TESTS_VARIABLE: &str = "TENURE_TESTS";

/// Tool that some tests need, and that a machine with Rust may lack.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Tool {
    /// The shell.
    Bash,
    /// The builder of images, without a service.
    Buildah,
    /// Chromium with its driver.
    Chromium,
    /// The program.
    Curl,
    /// The shell.
    Fish,
    /// The program.
    Git,
    /// The toolchain.
    Go,
    /// The formatter of manual pages.
    Groff,
    /// The JDK, whose `java` compiles a source file.
    Java,
    /// The program.
    Jq,
    /// The checker of manual pages.
    Mandoc,
    /// Node.js with npm, which installs Azurite, jco and the SDK.
    Node,
    /// `promtool` of Prometheus.
    Prometheus,
    /// Python with pip, which installs wasmtime, componentize-py and the SDK.
    Python,
    /// Root user with the right to mount, with `unshare` and `setpriv`.
    Root,
    /// Root user who can start systemd in namespaces of its own.
    RootAndSystemd,
    /// `systemd-analyze` of systemd.
    Systemd,
    /// The checker of shell scripts.
    Shellcheck,
    /// The shell.
    Zsh,
}

impl Tool {
    /// Returns a command that succeeds if the tool is installed, and the tool's name in messages.
    fn probe_command(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Bash => (&["bash", "--version"], "bash"),
            Self::Buildah => (&["buildah", "--version"], "buildah"),
            Self::Chromium => (&["chromedriver", "--version"], "Chromium with chromedriver"),
            Self::Curl => (&["curl", "--version"], "curl"),
            Self::Fish => (&["fish", "--version"], "fish"),
            Self::Git => (&["git", "--version"], "git"),
            Self::Go => (&["go", "version"], "go"),
            Self::Groff => (&["groff", "--version"], "groff"),
            Self::Java => (&["javac", "--version"], "a JDK"),
            Self::Jq => (&["jq", "--version"], "jq"),
            Self::Mandoc => (&["mandoc", "/dev/null"], "mandoc"),
            // npm is a script of Node.js.
            Self::Node => (&["npm", "--version"], "Node.js with npm"),
            Self::Prometheus => (&["promtool", "--version"], "promtool of Prometheus"),
            Self::Python => (&["python3", "-m", "pip", "--version"], "Python with pip"),
            Self::Root => (
                &["unshare", "--mount", "setpriv", "--version"],
                "root with unshare and setpriv of util-linux",
            ),
            Self::Shellcheck => (&["shellcheck", "--version"], "shellcheck"),
            // The mounts are those of `tests/deploy/systemd` that a container may refuse.
            Self::RootAndSystemd => (
                &[
                    "unshare",
                    "--mount",
                    "--pid",
                    "--fork",
                    "--cgroup",
                    "--net",
                    "sh",
                    "-ec",
                    "mount -t cgroup2 none /mnt; test -w /mnt/cgroup.procs; mount -t tmpfs none /media; \
                     mkdir /media/u /media/w; \
                     mount -t overlay none -o lowerdir=/,upperdir=/media/u,workdir=/media/w /mnt; \
                     test -x /usr/lib/systemd/systemd",
                ],
                "systemd, and root with the right to mount cgroups and overlays",
            ),
            Self::Systemd => (&["systemd-analyze", "--version"], "systemd-analyze of systemd"),
            Self::Zsh => (&["zsh", "--version"], "zsh"),
        }
    }

    fn is_installed(self) -> bool {
        /// Cache of the checks, so that each tool is only probed once.
        static INSTALLED: Mutex<BTreeMap<Tool, bool>> = Mutex::new(BTreeMap::new());
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        *installed.entry(self).or_insert_with(|| {
            let [program, arguments @ ..] = self.probe_command().0 else { return false };
            let mut probe = Command::new(program);
            probe.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            probe.status().is_ok_and(|status| status.success())
        })
    }
}

/// A registered test.
#[derive(Debug)]
pub struct Registered {
    /// Names of its module and function.
    pub name: &'static str,
    /// Tools that must all be installed.
    pub tools: &'static [Tool],
    /// Function that panics if the test fails.
    pub run: fn(),
}

inventory::collect!(Registered);

/// Registers a test that needs tools: `needs!(Node, Python => async fn name);` after the function.
#[macro_export]
macro_rules! needs {
    ($($tool:ident),+ => async fn $test:ident) => {
        $crate::needs!(@ [$($tool),+], $test, || $crate::trials::block_on($test()));
    };
    ($($tool:ident),+ => fn $test:ident) => {
        $crate::needs!(@ [$($tool),+], $test, $test);
    };
    (@ [$($tool:ident),+], $test:ident, $run:expr) => {
        $crate::trials::inventory::submit! {
            $crate::trials::Registered {
                name: concat!(module_path!(), "::", stringify!($test)),
                tools: &[$($crate::trials::Tool::$tool),+],
                run: $run,
            }
        }
    };
}

pub use inventory;

/// Runs a test to completion.
pub fn block_on(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

/// Runs the registered tests with the interface and arguments of `cargo test`. Tests with missing
/// tools are listed as ignored with the reason and counted at the end; with `TENURE_TESTS=all` they
/// fail.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = Arguments::from_args();
    let requires_all = std::env::var_os(TESTS_VARIABLE).is_some_and(|value| value == "all");
    let skipped = Arc::new(Mutex::new(BTreeMap::new()));
    let trials = inventory::iter::<Registered>.into_iter().map(|test| {
        let skipped = Arc::clone(&skipped);
        // Removes the name of this program.
        let name = test.name.split_once("::").map_or(test.name, |(_, name)| name);
        Trial::ignorable_test(name, move || {
            let missing = test.tools.iter().copied().filter(|tool| !tool.is_installed());
            let missing: Vec<_> = missing.map(|tool| tool.probe_command().1).collect();
            if missing.is_empty() {
                (test.run)();
                return Ok(Completion::Completed);
            }
            let reason = format!("needs {}", missing.join(" and "));
            if requires_all {
                return Err(format!("{reason}, which {TESTS_VARIABLE}=all demands").into());
            }
            let mut skipped = skipped.lock().unwrap_or_else(PoisonError::into_inner);
            *skipped.entry(reason.clone()).or_insert(0_u32) += 1;
            Ok(Completion::ignored_with(reason))
        })
    });
    let mut trials: Vec<_> = trials.collect();
    trials.sort_by(|first, second| first.name().cmp(second.name()));
    let conclusion = libtest_mimic::run(&arguments, trials);
    print!("{}", Skipped(&skipped.lock().unwrap_or_else(PoisonError::into_inner)));
    conclusion.exit_code()
}

/// Number of skipped tests by reason.
struct Skipped<'a>(&'a BTreeMap<String, u32>);

impl Display for Skipped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(reasons) = self;
        if reasons.is_empty() {
            return Ok(());
        }
        writeln!(f, "skipped {} tests for missing tools:", reasons.values().sum::<u32>())?;
        for (reason, count) in *reasons {
            writeln!(f, "{count:>5}  {reason}")?;
        }
        writeln!(f, "{TESTS_VARIABLE}=all turns each of them into a failure.\n")
    }
}
