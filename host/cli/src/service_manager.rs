//! The service manager that started this program, such as systemd, and what it wants to be told. See sd_notify(3)
//! and sd_watchdog_enabled(3).

use std::ffi::{OsStr, OsString};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long a service manager may take to make room for a message.
const PATIENCE: Duration = Duration::from_secs(1);

/// Who started this program, and waits for its messages.
pub(super) struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl ServiceManager {
    pub(super) fn from_env() -> Option<Self> {
        Self::at(address(&std::env::var_os("NOTIFY_SOCKET")?)?)
    }

    fn at(address: SocketAddr) -> Option<Self> {
        let socket = UnixDatagram::unbound().ok()?;
        // One that does not read for a while is waited for: what it is told once, like READY=1, would be lost.
        socket.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(Self { socket, address })
    }

    pub(super) fn tell(&self, message: &str) {
        // Nobody reading it does not concern the election.
        let _ = self.socket.send_to_addr(message.as_bytes(), &self.address);
    }
}

/// A path, or a name that begins with `@` where no file is.
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        _ => None,
    }
}

/// How long it waits for a sign of life of the process of that number, which must be the one that is
/// meant.
pub(super) fn watchdog(main: u32) -> Option<Duration> {
    let variable = |name| std::env::var_os(name).map(OsString::into_string)?.ok();
    let (limit, process) = (variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
    limit_for(main, limit.as_deref(), process.as_deref())
}

fn limit_for(main: u32, microseconds: Option<&str>, process: Option<&str>) -> Option<Duration> {
    let process = process.map(|process| process.parse() == Ok(main));
    let limit = Duration::from_micros(microseconds?.parse().ok()?);
    (process.unwrap_or(true) && !limit.is_zero()).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_is_meant_is_watched() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(limit_for(4711, Some("1000000"), None), second);
        assert_eq!(limit_for(4711, Some("1000000"), Some("4711")), second);
        for (limit, process) in [
            (Some("1000000"), Some("1")),
            (Some("0"), None),
            (Some("soon"), None),
            (None, Some("4711")),
        ] {
            assert_eq!(limit_for(4711, limit, process), None, "{limit:?} {process:?}");
        }
    }

    #[test]
    fn a_message_arrives_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("tenure-test-{}", std::process::id());
        let there = SocketAddr::from_abstract_name(&name).unwrap();
        let listeners = [
            (path.as_os_str().to_owned(), UnixDatagram::bind(&path).unwrap()),
            (format!("@{name}").into(), UnixDatagram::bind_addr(&there).unwrap()),
        ];
        for (name, listener) in listeners {
            let manager = ServiceManager::at(address(&name).unwrap()).unwrap();
            manager.tell("READY=1");
            listener.set_nonblocking(true).unwrap();
            let mut buffer = [0; 64];
            let length = listener.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1");
        }
        assert!(address("vsock:2:1234".as_ref()).is_none());
    }

    #[test]
    fn a_message_waits_until_there_is_room_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        let others = UnixDatagram::unbound().unwrap();
        others.set_nonblocking(true).unwrap();
        while others.send_to(b"STATUS=busy", &path).is_ok() {}
        let manager = ServiceManager::at(address(path.as_os_str()).unwrap()).unwrap();
        let telling = std::thread::spawn(move || manager.tell("READY=1"));
        listener.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut buffer = [0; 64];
        while listener.recv(&mut buffer).unwrap() != b"READY=1".len() {}
        telling.join().unwrap();
    }
}
