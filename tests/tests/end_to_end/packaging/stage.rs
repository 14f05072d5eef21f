//! Helpers of the packaging tests.

use crate::PROGRAM;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

pub const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Creates a folder that contains this file.
pub fn write_settings(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

/// Runs the program in an otherwise empty environment.
pub fn tenure(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_clear().envs(variables.iter().copied()).stdin(Stdio::null());
    command.output().unwrap()
}

pub fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Returns the error of `tenure run`, which must not have contacted the store.
pub fn run_refused(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let store =
        format!("AccountName=a;AccountKey=c2VjcmV0LWtleQ==;BlobEndpoint=http://{address}/a");
    let variables = [variables, &[("AZURE_STORAGE_CONNECTION_STRING", &store)]].concat();
    let output = tenure(&[&["run"][..], arguments].concat(), &variables);
    let output_text = text(&output);
    assert_eq!(output.status.code(), Some(2), "{output_text}");
    assert!(!output_text.contains("c2VjcmV0"), "{output_text}");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    output_text
}
