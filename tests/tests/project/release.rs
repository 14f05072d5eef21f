//! The installation of a release, and the style of all scripts. `.ci/release/run` itself runs what
//! it builds.

use std::env::consts::ARCH;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use tempfile::TempDir;
use tenure_tests::{needs, tools};

/// A release whose program is a shell script, and an empty folder to install into.
struct Release {
    folder: TempDir,
    name: String,
}

impl Release {
    /// Packs a program that ends with this exit code.
    fn new(code: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("tenure-9.9.9-{ARCH}-unknown-linux-musl");
        let packed = folder.path().join(&name);
        for part in ["man", "completions", "../release"] {
            fs::create_dir_all(packed.join(part)).unwrap();
        }
        let program = format!("#!/bin/sh\necho tenure 9.9.9\nexit {code}\n");
        let files = ["man/tenure.1", "man/tenure-run.1"].into_iter();
        let shells = ["bash", "zsh", "fish"].map(|shell| format!("completions/tenure.{shell}"));
        for file in files.chain(shells.iter().map(String::as_str)) {
            fs::write(packed.join(file), file).unwrap();
        }
        fs::write(packed.join("tenure"), program).unwrap();
        let release = Self { folder, name };
        let mut tar = Command::new("tar");
        tar.arg("-czf")
            .arg(release.archive())
            .arg(&release.name)
            .current_dir(release.folder.path());
        tools::run_command(&mut tar).unwrap();
        release.write_checksums();
        release
    }

    /// Returns the folder that is published.
    fn published(&self) -> PathBuf {
        self.folder.path().join("release")
    }

    fn archive(&self) -> PathBuf {
        self.published().join(format!("{}.tar.gz", self.name))
    }

    fn prefix(&self) -> PathBuf {
        self.folder.path().join("prefix")
    }

    fn write_checksums(&self) {
        let script = tools::repository().join(".ci/release/checksums");
        tools::run_command(Command::new(script).arg(self.published())).unwrap();
    }

    /// Changes the last byte of the archive, and not its length.
    fn damage(&self) {
        let mut bytes = fs::read(self.archive()).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(self.archive(), bytes).unwrap();
    }

    fn install_command(&self, from: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg(tools::repository().join(".ci/release/install.sh"));
        command.arg(from).arg(self.prefix()).env("TMPDIR", self.folder.path());
        command
    }

    /// Installs from this address or folder, which must succeed.
    fn install(&self, from: &str) {
        let output = self.install_command(from).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert!(text(&output).contains("tenure 9.9.9 is installed"), "{}", text(&output));
    }

    /// Installs from this address or folder, which must fail with this message.
    fn refuse(&self, from: &str, message: &str) {
        let output = self.install_command(from).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains(message), "{message}: {}", text(&output));
    }

    /// Returns all installed files with their permissions.
    fn installed(&self) -> Vec<(String, u32)> {
        let mut folders = vec![self.prefix()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(self.prefix()).unwrap().to_str().unwrap();
                    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
                    files.push((name.to_owned(), mode));
                }
            }
        }
        files.sort();
        files
    }
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Serves the files of a folder over HTTP, and returns the address.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &folder);
        }
    });
    address
}

fn answer(mut stream: TcpStream, folder: &Path) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let request = lines.next().unwrap();
    assert!(lines.any(|line| line.is_empty()), "the request has no end");
    let name = request.split(' ').nth(1).unwrap().trim_start_matches('/');
    let (status, body) = match fs::read(folder.join(name)) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
        .unwrap();
    stream.write_all(&body).unwrap();
}

fn release_is_installed_from_folder_and_server() {
    let release = Release::new(0);
    let folder = release.published();
    let address = serve(folder.clone());
    for from in [folder.to_str().unwrap(), &address, &format!("{address}/")] {
        release.install(from);
        assert_eq!(
            release.installed(),
            [
                ("bin/tenure", 0o755),
                ("share/bash-completion/completions/tenure", 0o644),
                ("share/fish/vendor_completions.d/tenure.fish", 0o644),
                ("share/man/man1/tenure-run.1", 0o644),
                ("share/man/man1/tenure.1", 0o644),
                ("share/zsh/site-functions/_tenure", 0o644),
            ]
            .map(|(name, mode)| (name.to_owned(), mode))
        );
        fs::remove_dir_all(release.prefix().join("share")).unwrap();
    }
}

needs!(Curl => fn release_is_installed_from_folder_and_server);

fn damaged_release_is_not_installed() {
    let release = Release::new(0);
    let folder = release.published();
    let address = serve(folder.clone());
    release.damage();
    for from in [folder.to_str().unwrap(), &address] {
        release.refuse(from, "differs from its checksum in SHA256SUMS; nothing is installed");
        assert!(!release.prefix().exists());
    }
    // An installed program stays.
    fs::create_dir_all(release.prefix().join("bin")).unwrap();
    fs::write(release.prefix().join("bin/tenure"), "old").unwrap();
    release.refuse(&address, "differs from its checksum");
    assert_eq!(fs::read_to_string(release.prefix().join("bin/tenure")).unwrap(), "old");
    assert_eq!(release.installed().len(), 1);

    fs::remove_file(release.archive()).unwrap();
    release.refuse(&address, ".tar.gz cannot be read");
    fs::write(folder.join("SHA256SUMS"), "").unwrap();
    release.refuse(&address, "/SHA256SUMS names no program for ");
    fs::remove_file(folder.join("SHA256SUMS")).unwrap();
    release.refuse(&address, "/SHA256SUMS cannot be read");
}

needs!(Curl => fn damaged_release_is_not_installed);

#[test]
fn release_that_does_not_run_here_is_not_installed() {
    let release = Release::new(1);
    let folder = release.published();
    let folder = folder.to_str().unwrap();
    release.refuse(folder, "the program does not run here; nothing is installed");
    assert_eq!(release.installed(), []);

    let uname = release.folder.path().join("uname");
    fs::write(&uname, "#!/bin/sh\n[ $1 = -s ] && echo Plan9 || echo m68k\n").unwrap();
    fs::set_permissions(&uname, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", release.folder.path().display(), std::env::var("PATH").unwrap());
    let output = release.install_command(folder).env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("and this is Plan9 on m68k"), "{}", text(&output));
    assert_eq!(release.installed(), []);
}

#[test]
fn release_is_not_fetched_without_tls() {
    let release = Release::new(0);
    release.refuse("http://releases.example.com/1", "the address must begin with https://");
    release.refuse("file:///releases", "the address must begin with https://");
}

fn scripts_pass_shellcheck() {
    let root = tools::repository();
    let folders =
        [".ci", ".ci/release", "docs/model", "tests/deploy"].map(|folder| root.join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let is_shell_script = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.split(|byte| *byte == b'\n').next().is_some_and(|line| {
            line.starts_with(b"#!") && (line.ends_with(b"/sh") || line.ends_with(b"bash"))
        })
    };
    let scripts: Vec<_> = files.map(|file| file.unwrap().path()).filter(is_shell_script).collect();
    assert!(scripts.len() > 10, "{scripts:?}");
    tools::run_command(Command::new("shellcheck").args(scripts)).unwrap();
}

needs!(Shellcheck => fn scripts_pass_shellcheck);
