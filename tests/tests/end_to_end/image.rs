//! The image of `deploy/Dockerfile`, and one that `docs/kubernetes.md` makes of it. buildah builds
//! them from this debug build. They run as in a pod: as process 1, not as root, without privileges,
//! on a read-only root file system.

use super::PROGRAM;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tenure_supervisor::children_of;
use tenure_tests::credential::PATIENT_TIMINGS;
use tenure_tests::{BEAT_HANDLER, Candidate, Certificates, Store, examples, needs, tools};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_rustls::TlsAcceptor;

/// Limit of waits without a specific bound, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Folders with the libraries of a debug build. The program of a release is static.
const LIBRARIES: [&str; 2] = ["/lib", "/lib64"];

/// Variable that names a finished image to run instead, such as `oci:build/release/oci:tenure:0.1.0`.
const IMAGE_VARIABLE: &str = "TENURE_IMAGE";

/// Prepares the root file system `$1` for a container, and executes the remaining arguments. The id
/// of this process is 1.
const CONTAINER: &str = r#"
root=$1; shift
mount --bind "$root" "$root"
for folder in /lib /lib64; do [ ! -d "$root$folder" ] || mount --bind "$folder" "$root$folder"; done
mount -t proc proc "$root/proc" && mount -o remount,bind,ro "$root" && exec setpriv --no-new-privs "$@"
"#;

/// Images in their own storage, which is deleted when this is dropped.
struct Images {
    folder: TempDir,
}

impl Images {
    fn buildah(&self, arguments: &[&str]) -> String {
        let mut buildah = std::process::Command::new("buildah");
        buildah.args(["--storage-driver", "vfs", "--root"]).arg(self.folder.path().join("storage"));
        buildah.arg("--runroot").arg(self.folder.path().join("run")).args(arguments);
        tools::run_command(&mut buildah).unwrap().trim().to_owned()
    }

    /// Builds an image. What it runs finds the libraries of this machine.
    fn build(&self, name: &str, dockerfile: &Path, context: &Path, options: &[&str]) {
        let libraries = LIBRARIES.into_iter().filter(|folder| Path::new(folder).is_dir());
        let volumes: Vec<_> =
            libraries.map(|folder| format!("--volume={folder}:{folder}:ro")).collect();
        let (dockerfile, context) = (dockerfile.to_str().unwrap(), context.to_str().unwrap());
        let mut arguments = vec!["build", "--isolation", "chroot", "--file", dockerfile];
        arguments.extend(["--tag", name].iter().chain(options));
        arguments.extend(volumes.iter().map(String::as_str));
        arguments.push(context);
        self.buildah(&arguments);
    }

    /// Provides the image of the project as `tenure`.
    fn tenure(&self) {
        if let Ok(image) = std::env::var(IMAGE_VARIABLE) {
            let id = self.buildah(&["pull", &image]);
            self.buildah(&["tag", &id, "tenure"]);
            return;
        }
        let stage = self.folder.path().join("stage");
        let (program, handler) = (stage.join("tenure"), examples::components().unwrap());
        fs::create_dir(&stage).unwrap();
        // A debug build is large, most of all its symbols.
        let mut strip = std::process::Command::new("strip");
        tools::run_command(strip.arg(PROGRAM).arg("-o").arg(&program)).unwrap();
        let script = tools::repository().join(".ci/release/image-files");
        let mut files = std::process::Command::new(script);
        files.arg(&program).arg(handler.join("report.wasm")).arg(stage.join("image"));
        tools::run_command(&mut files).unwrap();
        let dockerfile = tools::repository().join("deploy/Dockerfile");
        let build = format!("--build-context=build={}", stage.display());
        self.build("tenure", &dockerfile, &stage, &[&build]);
    }

    /// Builds the first image of the page, on top of `tenure`.
    fn of_the_page(&self) -> Image {
        let page = fs::read_to_string(tools::repository().join("docs/kubernetes.md")).unwrap();
        let dockerfile = page.split("```dockerfile\n").nth(1).unwrap().split("```").next().unwrap();
        let context = self.folder.path().join("context");
        fs::create_dir(&context).unwrap();
        fs::copy(BEAT_HANDLER, context.join("nightly.wasm")).unwrap();
        fs::write(context.join("Dockerfile"), dockerfile).unwrap();
        self.build(
            "nightly",
            &context.join("Dockerfile"),
            &context,
            &["--build-arg=TENURE=tenure"],
        );
        let container = self.buildah(&["from", "nightly"]);
        let root = PathBuf::from(self.buildah(&["mount", &container]));
        let config: Value = serde_json::from_str(&self.buildah(&["inspect", &container])).unwrap();
        fs::create_dir_all(root.join("proc")).unwrap();
        Image { root, config: config["OCIv1"]["config"].clone() }
    }
}

/// An image that is ready to run.
struct Image {
    root: PathBuf,
    config: Value,
}

impl Image {
    /// Starts a container with these variables, besides those of the image.
    fn start(&self, name: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Candidate {
        let texts = |key: &str| -> Vec<&str> {
            self.config[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
        };
        let user = self.config["User"].as_str().unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", CONTAINER, "sh"]);
        command.arg(&self.root).args(["env", "-i"]).args(texts("Env"));
        command.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.args(["/usr/sbin/chroot", "--groups=", &format!("--userspec={user}")]);
        command.arg(&self.root).args(texts("Entrypoint")).args(arguments);
        Candidate::spawn(name, command).unwrap()
    }

    /// Starts a candidate with a handler of the image.
    fn candidate(&self, name: &str, store: &Store, handler: &str) -> Candidate {
        let connection_string = store.connection_string();
        let account = [("AZURE_STORAGE_CONNECTION_STRING", connection_string.as_str())];
        let variables = [&account, &PATIENT_TIMINGS[..]].concat();
        let arguments = [
            "run",
            "jobs/report",
            "--log=json",
            "--every=1s",
            "--name",
            name,
            "--handler",
            handler,
        ];
        self.start(name, &variables, &arguments)
    }
}

/// Returns process 1 of a container, with its id outside of the container.
fn first_process(container: &Candidate) -> Pid {
    let [process] = children_of(container.id().unwrap())[..] else { panic!("no single process") };
    process
}

/// Returns the runner of a container.
fn runner_of(container: &Candidate) -> Pid {
    let [runner] = children_of(first_process(container))[..] else { panic!("no single runner") };
    runner
}

/// Starts a process in a container whose parent ends, and waits until its own end leaves no zombie.
async fn leave_orphan(first: Pid) {
    let runner = children_of(first);
    let orphans = || {
        let children = children_of(first);
        children.into_iter().filter(|child| !runner.contains(child)).collect::<Vec<_>>()
    };
    let mut enter = Command::new("nsenter");
    enter.args(["--pid", "--target", &first.as_raw_nonzero().to_string()]);
    enter.args(["sh", "-c", "sleep 600 </dev/null >/dev/null 2>&1 &"]);
    assert!(enter.status().await.unwrap().success());
    let [orphan] = orphans()[..] else { panic!("{:?}", orphans()) };
    kill_process(orphan, Signal::KILL).unwrap();
    let reaped = async {
        while !orphans().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, reaped).await.expect("it is reaped");
}

/// Returns a line of `/proc/ID/status`.
fn status(process: Pid, key: &str) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.split_whitespace().map(str::to_owned).collect()
}

/// Returns the notes about components that had to be compiled.
fn compile_notes(container: &Candidate) -> Vec<String> {
    let lines = container.lines();
    let notes = lines.iter().filter(|line| line.name() == "note");
    let details = notes.map(|line| line.event["detail"].as_str().unwrap().to_owned());
    details.filter(|detail| detail.contains("compiled")).collect()
}

async fn image_elects_and_hands_over() {
    let images = Images { folder: tempfile::tempdir().unwrap() };
    images.tenure();
    let image = images.of_the_page();
    // With one more section, and so without compiled code.
    let other = [fs::read(BEAT_HANDLER).unwrap(), b"\0\x02\x01x".to_vec()].concat();
    fs::write(image.root.join("handlers/other.wasm"), other).unwrap();

    let store = Store::embedded().await.unwrap();
    let mut leader = image.candidate("ada", &store, "/handlers/report.wasm");
    leader.event("elected", TIMEOUT).await;
    assert_eq!(compile_notes(&leader), [""; 0]);
    let process = first_process(&leader);
    assert_eq!(status(process, "NSpid:").last().unwrap(), "1");
    assert_eq!(status(process, "Uid:")[0], "65532");
    assert_eq!(status(process, "CapEff:"), ["0000000000000000"]);

    let follower = image.candidate("ben", &store, "/handlers/nightly.wasm");
    follower.event("following", TIMEOUT).await;
    assert_eq!(compile_notes(&follower), [""; 0], "the image was built with its code");
    kill_process(process, Signal::TERM).unwrap();
    assert!(leader.end(TIMEOUT).await.unwrap().success(), "{}", leader.transcript());
    assert_eq!(leader.event("stood-down", TIMEOUT).await.event["reason"], "left");
    follower.event("elected", TIMEOUT).await;

    // A runner that dies leaves its lease to process 1, which also reaps what others leave behind.
    leave_orphan(first_process(&follower)).await;
    kill_process(runner_of(&follower), Signal::KILL).unwrap();
    let released = follower.event("problem", TIMEOUT).await;
    let detail = released.event["detail"].as_str().unwrap();
    assert!(detail.contains("was released"), "{detail}");

    let mut candidate = image.candidate("cleo", &store, "/handlers/other.wasm");
    candidate.event("elected", TIMEOUT).await;
    let [note] = &compile_notes(&candidate)[..] else { panic!("{}", candidate.transcript()) };
    assert!(note.starts_with("1 of 2 components are compiled at each start: "), "{note}");
    // `--kill-child` does not end it: the kernel drops that signal when a process changes its user.
    kill_process(first_process(&candidate), Signal::TERM).unwrap();
    assert!(candidate.end(TIMEOUT).await.unwrap().success(), "{}", candidate.transcript());

    trusts_its_certificates(&image).await;
}

/// Replaces the certificates of the image, and waits until the program trusts a server for them.
async fn trusts_its_certificates(image: &Image) {
    let certificates = Certificates::generate().unwrap();
    let file = image.root.join("etc/ssl/certs/ca-certificates.crt");
    assert!(fs::read_to_string(&file).unwrap().contains("BEGIN CERTIFICATE"));
    fs::copy(certificates.ca(), file).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(certificates.server().unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/store", listener.local_addr().unwrap());
    let account = format!("AccountName=store;AccountKey=bXk=;BlobEndpoint={url}");
    let account = [("AZURE_STORAGE_CONNECTION_STRING", account.as_str())];
    let check = image.start("check", &account, &["check", "jobs/report"]);
    let (stream, _) = listener.accept().await.unwrap();
    acceptor.accept(stream).await.expect("the certificate is accepted");
    let has_time = |text: &str| text.contains(", TLS ");
    check.line("TLS", 0, TIMEOUT, |line| line.event.as_str().is_some_and(has_time)).await;
}

needs!(Buildah, Root => async fn image_elects_and_hands_over);
