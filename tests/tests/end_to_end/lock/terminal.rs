//! A lock in a terminal: which process reads it, receives its keys, and owns it afterwards.

use super::{PATIENT_TIMINGS, Stage, TIMEOUT, text};
use crate::PROGRAM;
use tenure_tests::needs;
use tokio::process::Command;
use tokio::time::timeout;

/// Script of the test's pseudo-terminal. Its arguments are the scene, the shell, the shell's
/// script, and the script's arguments.
const PTY_SCRIPT: &str = r#"
import os, pty, select, signal, sys, time
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[2], [sys.argv[2], "-c", sys.argv[3], "sh"] + sys.argv[4:])
seen = b""
def until(word):
    global seen
    end = time.monotonic() + 600
    while word not in seen:
        assert select.select([terminal], [], [], max(0, end - time.monotonic()))[0], (word, seen)
        seen += os.read(terminal, 4096)
    before, seen = seen.split(word, 1)
    return before
def answer(text):
    os.write(terminal, text)
def stopped(process):
    end = time.monotonic() + 600
    while open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
        assert time.monotonic() < end
        time.sleep(0.01)
exec(sys.argv[1])
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("all was well")
"#;

/// Runs a scene in a terminal in which a shell runs the script. The script's arguments are the lock
/// with its command.
async fn play(stage: &Stage, scene: &str, shell: &str, script: &str, work: &str) {
    let mut command = Command::new("python3");
    command.args(["-c", PTY_SCRIPT, scene, shell, script]);
    command.args([PROGRAM, "lock", &stage.lock, "--", "sh", "-c", work]);
    command
        .env("AZURE_STORAGE_CONNECTION_STRING", stage.store.connection_string())
        .envs(PATIENT_TIMINGS);
    let ended = timeout(2 * TIMEOUT, command.kill_on_drop(true).output()).await.unwrap().unwrap();
    let output_text = format!("{}{}", text(&ended.stdout), text(&ended.stderr));
    assert!(output_text.contains("all was well"), "{shell}: {output_text}");
}

/// The command reads the terminal and receives Ctrl-C, and Ctrl-Z does not stop it. The next
/// process gets the terminal back.
async fn command_has_terminal_and_returns_it() {
    const SCENE: &str = r#"
until(b"first?"); answer(b"one\n")
until(b"got:one"); answer(b"\x1a")
answer(b"two\n")
until(b"got:two"); answer(b"\x03")
until(b"interrupted"); until(b"code=7")
answer(b"three\n")
until(b"after:three")
"#;
    const WORK: &str = "trap 'echo interrupted; exit 7' INT; echo first?; read a; echo got:$a; read b; \
                        echo got:$b; while :; do sleep 0.05; done";
    let script = "\"$@\"; echo code=$?; read c; echo after:$c";
    play(&Stage::new().await, SCENE, "sh", script, WORK).await;
}

needs!(Python => async fn command_has_terminal_and_returns_it);

/// Without the terminal, the command and its children get Ctrl-C from the lock. A shell that runs a
/// script ignores a SIGINT sent to it alone.
async fn command_with_redirected_output_gets_keyboard_signals() {
    let scene = r#"until(b"up"); answer(b"\x03"); until(b"code=130")"#;
    let work = "exec bash -c 'echo up >/dev/tty; sleep 600; :'";
    let script = "trap : INT; \"$@\" >/dev/null; echo code=$?";
    play(&Stage::new().await, scene, "sh", script, work).await;
}

needs!(Bash, Python => async fn command_with_redirected_output_gets_keyboard_signals);

/// Reads like `less`.
async fn reader_of_command_output_can_read_terminal() {
    let stage = Stage::new().await;
    let scene = r#"until(b"heard:up"); answer(b"one\n"); until(b"answered:one"); until(b"code=0")"#;
    let script =
        "\"$@\" | { read a; echo heard:$a; read b </dev/tty; echo answered:$b; }; echo code=$?";
    play(&stage, scene, "sh", script, "while echo up; do sleep 0.05; done 2>/dev/null").await;
    // The command gets the terminal when it reads from it.
    let scene = r#"until(b"first?"); answer(b"one\n"); until(b"got:one"); until(b"code=0")"#;
    play(&stage, scene, "sh", "\"$@\" | cat; echo code=$?", "echo first?; read a; echo got:$a")
        .await;
}

needs!(Python => async fn reader_of_command_output_can_read_terminal);

/// Some shells send SIGCONT to a job that was only partly stopped, and others do not.
#[cfg(target_os = "linux")]
async fn a_command_that_waited_for_the_terminal_goes_on_in_the_foreground() {
    const SCENE: &str = r#"
until(b"up:"); stopped(int(until(b":"))); answer(b"go\n")
answer(b"two\n")
until(b"got:two"); until(b"code=3")
"#;
    let stage = Stage::new().await;
    for shell in ["sh", "bash"] {
        let script = "set -m; \"$@\" & read x; fg; echo code=$?";
        play(&stage, SCENE, shell, script, "echo up:$$:; read a; echo got:$a; exit 3").await;
    }
}

needs!(Bash, Python => async fn a_command_that_waited_for_the_terminal_goes_on_in_the_foreground);

#[cfg(target_os = "linux")]
async fn command_waiting_for_terminal_can_be_terminated() {
    const SCENE: &str = r#"
until(b"lock:"); lock = int(until(b":"))
until(b"up:"); stopped(int(until(b":")))
os.kill(lock, signal.SIGTERM); answer(b"go\n")
until(b"code=143")
"#;
    let script = "set -m; \"$@\" & echo lock:$!:; read x; wait $!; echo code=$?";
    play(&Stage::new().await, SCENE, "sh", script, "echo up:$$:; read a; echo got:$a").await;
}

needs!(Python => async fn command_waiting_for_terminal_can_be_terminated);

/// Also kills the command's supervisor, which would have returned the terminal.
#[cfg(target_os = "linux")]
async fn a_lock_whose_processes_are_killed_gives_the_terminal_back() {
    let scene = r#"until(b"code=76"); answer(b"three\n"); until(b"after:three")"#;
    let script = "\"$@\"; echo code=$?; read c; echo after:$c";
    let work = "read a b c runner d </proc/$PPID/stat; kill -9 $runner $PPID; while :; do sleep 0.05; done";
    play(&Stage::new().await, scene, "sh", script, work).await;
}

needs!(Python => async fn a_lock_whose_processes_are_killed_gives_the_terminal_back);
