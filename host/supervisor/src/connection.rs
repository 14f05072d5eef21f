//! Socket between a runner and a supervisor. Messages are lines of JSON.
//!
//! A child process gets its end as its standard input, because it could inherit another descriptor
//! only with unsafe code. The real standard input can be sent over the socket.

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;

/// Returns this process's end, and the end for the standard input of a child. With `stdin`, the
/// child can [receive](inherited_with_stdin) the standard input of this process.
pub(super) fn pair(stdin: bool) -> io::Result<(UnixStream, Stdio)> {
    let (ours, theirs) = UnixStream::pair()?;
    if stdin {
        send_stdin(&ours)?;
    }
    ours.set_nonblocking(true)?;
    Ok((ours, OwnedFd::from(theirs).into()))
}

/// Returns the socket that is the standard input of this process.
pub(super) fn inherited_socket() -> io::Result<UnixStream> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Returns the socket that is the standard input of this process, and the standard input that was
/// sent over it.
pub(super) fn inherited_with_stdin() -> io::Result<(UnixStream, OwnedFd)> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let stdin = receive_stdin(&socket)?;
    socket.set_nonblocking(true)?;
    Ok((socket, stdin))
}

fn send_stdin(to: &UnixStream) -> io::Result<()> {
    let stdin = io::stdin();
    let descriptors = [stdin.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    message.push(SendAncillaryMessage::ScmRights(&descriptors));
    // A descriptor must be sent with at least one byte.
    sendmsg(to, &[IoSlice::new(b"\n")], &mut message, SendFlags::empty())?;
    Ok(())
}

fn receive_stdin(from: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut message, RecvFlags::empty())?;
    let received = message.drain().find_map(|received| match received {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let stdin = received.ok_or_else(|| io::Error::other("no standard input was sent"))?;
    // Children get it as their standard input, and under no other number.
    rustix::io::fcntl_setfd(&stdin, rustix::io::FdFlags::CLOEXEC)?;
    Ok(stdin)
}

/// Formats a message as a line, including the line end.
pub fn to_line(message: &impl Serialize) -> String {
    let mut line = serde_json::to_string(message).unwrap_or_default();
    line.push('\n');
    line
}

/// Parses a message. Returns `None` for an invalid line: the sender may have died while writing.
pub fn from_line<M: DeserializeOwned>(line: &str) -> Option<M> {
    serde_json::from_str(line).ok()
}

/// Returns the file that this process runs, even if it was replaced since.
///
/// # Errors
///
/// Fails if the system does not provide it.
pub(super) fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_is_handed_over() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_stdin(&ours).unwrap();
        let received = receive_stdin(&theirs).unwrap();
        let file_id = |file: std::os::fd::BorrowedFd<'_>| {
            let stat = rustix::fs::fstat(file).unwrap();
            (stat.st_dev, stat.st_ino)
        };
        assert_eq!(file_id(received.as_fd()), file_id(io::stdin().as_fd()));
    }
}
