//! `tenure run` where `/proc` hides the processes of other users. The tests mount such a `/proc`
//! themselves, so they need root, `unshare` and `setpriv`.

use super::PROGRAM;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tenure_store::OperationKind;
use tenure_tests::candidate::is_alive;
use tenure_tests::needs;
use tenure_tests::{Candidate, Group, Sink, Store};
use tokio::process::Command;

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Starts a process, then runs the remaining arguments as an ordinary user. `$1` is the mount
/// option, `$2` the folder with the program, `$3` the user of the first process.
const SCRIPT: &str = r#"
mount -t proc -o "hidepid=$1" proc /proc && mount --bind "$PROGRAM" "$2/tenure" || exit
before=$3; shift 3
drop='exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"'
start='sleep 600 </dev/null >/dev/null 2>&1 & echo $!'
case $before in root) eval "$start"; eval "$drop";; esac
set -- sh -c "$start"'; exec "$@"' sh "$@"; eval "$drop"
"#;

struct Scene {
    store: Store,
    _sink: Sink,
    folder: tempfile::TempDir,
    group: Group,
}

impl Scene {
    async fn new() -> Self {
        let store = Store::embedded().await.unwrap();
        let sink = Sink::start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("tenure"), "").unwrap();
        let program = folder.path().join("tenure");
        let mut group = Group::new(program.to_str().unwrap(), &store, &sink);
        group.timer = ["--every", "1s"];
        Self { store, _sink: sink, folder, group }
    }

    fn wrap_command(&self, hidepid: &str, before: &str, inner: &Command) -> Command {
        let inner = inner.as_std();
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", SCRIPT, "sh", hidepid]).arg(self.folder.path());
        command.arg(before).arg(inner.get_program()).args(inner.get_args());
        command.env("PROGRAM", PROGRAM);
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    fn start(&self, hidepid: &str, before: &str, work: &[&str]) -> Candidate {
        let inner = self.group.command("ada", &[], work);
        Candidate::spawn("ada", self.wrap_command(hidepid, before, &inner)).unwrap()
    }

    fn releases(&self) -> usize {
        let Store::Embedded(store) = &self.store else { panic!("it has no such log") };
        store.with(|service| {
            let entries = service.log().entries();
            entries
                .filter(|entry| entry.operation == OperationKind::Release && entry.status == 200)
                .count()
        })
    }
}

/// Returns the process that was started before the candidate.
async fn stranger(candidate: &Candidate) -> Pid {
    let number = candidate.line("number", 0, TIMEOUT, |line| line.event.is_i64()).await;
    Pid::from_raw(number.event.as_i64().unwrap().try_into().unwrap()).unwrap()
}

/// Returns the process whose id the command has printed, once it has executed its program.
async fn worker(candidate: &Candidate) -> Pid {
    let written = candidate.event("handler", TIMEOUT).await;
    let id = written.event["line"].as_str().unwrap().parse().unwrap();
    let name = format!("/proc/{id}/comm");
    let renamed = async {
        while fs::read_to_string(&name).unwrap() != "sleep\n" {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, renamed).await.expect("it becomes what it will be");
    Pid::from_raw(id).unwrap()
}

async fn supervisor_message(mut candidate: Candidate) -> String {
    candidate.event("renewed", TIMEOUT).await;
    kill_process(candidate.runner().unwrap(), Signal::KILL).unwrap();
    assert_eq!(candidate.end(TIMEOUT).await.unwrap().code(), Some(128 + 9));
    let problem = candidate.event("problem", TIMEOUT).await;
    problem.event["detail"].as_str().unwrap().to_owned()
}

async fn a_lease_is_not_released_while_hidden_work_runs() {
    let scene = Scene::new().await;
    let become_root = scene.folder.path().join("become");
    fs::copy(installed("setpriv"), &become_root).unwrap();
    fs::set_permissions(&become_root, Permissions::from_mode(0o4755)).unwrap();
    let script = format!(
        "{} --reuid=0 --regid=0 --clear-groups setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!; wait",
        become_root.display()
    );
    let candidate = scene.start("2", "user", &["sh", "-c", &script]);
    let (stranger, worker) = (stranger(&candidate).await, worker(&candidate).await);
    let detail = supervisor_message(candidate).await;
    let alive = [stranger, worker].map(is_alive);
    for process in [stranger, worker] {
        let _ = kill_process(process, Signal::KILL);
    }
    assert_eq!(alive, [true, true], "{detail}");
    assert_eq!(scene.releases(), 0, "{detail}");
    assert!(detail.contains("some of its work could not be stopped"), "{detail}");
}

needs!(Root => async fn a_lease_is_not_released_while_hidden_work_runs);

async fn work_is_found_and_killed_despite_hidepid() {
    let work = ["sh", "-c", "setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!; wait"];
    for hidepid in ["1", "2"] {
        let scene = Scene::new().await;
        let candidate = scene.start(hidepid, "root", &work);
        let (stranger, worker) = (stranger(&candidate).await, worker(&candidate).await);
        let detail = supervisor_message(candidate).await;
        let alive = [stranger, worker].map(is_alive);
        let _ = kill_process(stranger, Signal::KILL);
        assert_eq!(alive, [true, false], "hidepid={hidepid}: {detail}");
        assert!(detail.contains("was released"), "hidepid={hidepid}: {detail}");
        assert_eq!(scene.releases(), 1, "hidepid={hidepid}");
    }
}

needs!(Root => async fn work_is_found_and_killed_despite_hidepid);

/// Returns the path of an installed program.
fn installed(name: &str) -> std::path::PathBuf {
    let folders = std::env::var_os("PATH").unwrap();
    let file = std::env::split_paths(&folders).map(|folder| folder.join(name));
    { file }.find(|file: &std::path::PathBuf| Path::exists(file)).expect("it is installed")
}
