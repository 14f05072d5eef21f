//! Notifications to the service manager that started this program, such as systemd. See
//! sd_notify(3) and sd_watchdog_enabled(3).

#[cfg(target_os = "linux")]
pub(crate) use linux::{ServiceManager, watchdog_limit};
#[cfg(not(target_os = "linux"))]
pub(crate) use none::{ServiceManager, watchdog_limit};

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::ffi::{OsStr, OsString};
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
    use std::thread;
    use std::time::Duration;

    /// Time limit for a service manager to accept a message.
    const SEND_TIMEOUT: Duration = Duration::from_secs(1);

    /// Pause before a message that could not be sent is sent again.
    const RETRY_PAUSE: Duration = Duration::from_secs(1);

    /// Connection to the service manager. A thread sends the messages, so that a service manager
    /// that does not read blocks no caller.
    pub(crate) struct ServiceManager {
        /// None after the last message.
        messages: Option<Sender<String>>,
        /// Closed when all messages are sent.
        sent: Receiver<()>,
    }

    impl ServiceManager {
        pub(crate) fn is_present() -> bool {
            socket_address().is_some()
        }

        pub(crate) fn from_env() -> Option<Self> {
            Self::connect(socket_address()?)
        }

        fn connect(address: SocketAddr) -> Option<Self> {
            let socket = UnixDatagram::unbound().ok()?;
            // Blocks while the service manager does not read, because one-time messages like
            // READY=1 must not be lost.
            socket.set_write_timeout(Some(SEND_TIMEOUT)).ok()?;
            let (messages, waiting) = channel::<String>();
            let (sending, sent) = channel::<()>();
            let send = move || {
                let _sending = sending;
                let send = |message: &str| socket.send_to_addr(message.as_bytes(), &address);
                send_all(&waiting, |message| send(message).is_ok());
            };
            thread::Builder::new().name("tenure-notify".to_owned()).spawn(send).ok()?;
            Some(Self { messages: Some(messages), sent })
        }

        pub(crate) fn send(&self, message: String) {
            let _ = self.messages.as_ref().map(|messages| messages.send(message));
        }
    }

    /// Waits until the last messages are sent, but no longer than `SEND_TIMEOUT`.
    impl Drop for ServiceManager {
        fn drop(&mut self) {
            self.messages = None;
            let _ = self.sent.recv_timeout(SEND_TIMEOUT);
        }
    }

    /// Passes the messages to `send` until the last one. If `send` returns false, passes the
    /// variables again after a pause, or with the next message.
    fn send_all(messages: &Receiver<String>, mut send: impl FnMut(&str) -> bool) {
        let mut unsent = BTreeMap::new();
        loop {
            let received = match unsent.is_empty() {
                true => messages.recv().map_err(RecvTimeoutError::from),
                false => messages.recv_timeout(RETRY_PAUSE),
            };
            if received == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            // Merges the waiting messages: the newest value of each variable counts.
            for message in received.into_iter().chain(messages.try_iter()) {
                let assignments = message.lines().filter_map(|line| line.split_once('='));
                unsent.extend(assignments.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            let lines: Vec<_> =
                unsent.iter().map(|(name, value)| format!("{name}={value}")).collect();
            if send(&lines.join("\n")) {
                unsent.clear();
            }
        }
    }

    fn socket_address() -> Option<SocketAddr> {
        parse_address(&std::env::var_os("NOTIFY_SOCKET")?)
    }

    /// Parses a path, or an abstract name that begins with `@`.
    fn parse_address(name: &OsStr) -> Option<SocketAddr> {
        match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            [b'/', ..] => SocketAddr::from_pathname(name).ok(),
            _ => None,
        }
    }

    /// Returns the watchdog's time limit if it applies to the process `main_pid`.
    pub(crate) fn watchdog_limit(main_pid: u32) -> Option<Duration> {
        let variable = |name| std::env::var_os(name).map(OsString::into_string)?.ok();
        let (limit, process) = (variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
        limit_for(main_pid, limit.as_deref(), process.as_deref())
    }

    fn limit_for(
        main_pid: u32,
        microseconds: Option<&str>,
        process: Option<&str>,
    ) -> Option<Duration> {
        let process = process.map(|process| process.parse() == Ok(main_pid));
        let limit = Duration::from_micros(microseconds?.parse().ok()?);
        (process.unwrap_or(true) && !limit.is_zero()).then_some(limit)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_the_intended_process_is_watched() {
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
            let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
            let listeners = [
                (path.as_os_str().to_owned(), UnixDatagram::bind(&path).unwrap()),
                (format!("@{name}").into(), UnixDatagram::bind_addr(&abstract_address).unwrap()),
            ];
            for (name, listener) in listeners {
                let manager = ServiceManager::connect(parse_address(&name).unwrap()).unwrap();
                manager.send("READY=1".to_owned());
                drop(manager);
                listener.set_nonblocking(true).unwrap();
                let mut buffer = [0; 64];
                let length = listener.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], b"READY=1");
            }
            assert!(parse_address("vsock:2:1234".as_ref()).is_none());
        }

        #[test]
        fn unsent_message_is_repeated_without_another_one() {
            let (messages, waiting) = channel();
            let (sent, tries) = channel();
            let sender = thread::spawn(move || {
                let mut fails = true;
                send_all(&waiting, |message| {
                    sent.send(message.to_owned()).unwrap();
                    !std::mem::take(&mut fails)
                });
            });
            messages.send("READY=1\nSTATUS=starts".to_owned()).unwrap();
            let next_try = || tries.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!([next_try(), next_try()], ["READY=1\nSTATUS=starts"; 2]);
            messages.send("STATUS=leads".to_owned()).unwrap();
            assert_eq!(next_try(), "STATUS=leads", "what was sent is not repeated");
            drop(messages);
            sender.join().unwrap();
        }

        #[test]
        fn a_message_waits_until_there_is_room_for_it() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("notify");
            let listener = UnixDatagram::bind(&path).unwrap();
            let others = UnixDatagram::unbound().unwrap();
            others.set_nonblocking(true).unwrap();
            while others.send_to(b"STATUS=busy", &path).is_ok() {}
            let manager =
                ServiceManager::connect(parse_address(path.as_os_str()).unwrap()).unwrap();
            // Sending never blocks, however many messages there are.
            manager.send("READY=1".to_owned());
            for number in 0..=1_000 {
                manager.send(format!("STATUS={number}"));
            }
            listener.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let (mut received, mut buffer) = (String::new(), [0; 64]);
            while !(received.contains("READY=1") && received.contains("STATUS=1000")) {
                let length = listener.recv(&mut buffer).unwrap();
                received += std::str::from_utf8(&buffer[..length]).unwrap();
            }
        }
    }
}

/// Replacement on systems without a service manager.
#[cfg(not(target_os = "linux"))]
mod none {
    use std::time::Duration;

    /// Connection to a service manager. `from_env` never returns one.
    pub(crate) struct ServiceManager;

    impl ServiceManager {
        pub(crate) fn is_present() -> bool {
            false
        }

        pub(crate) fn from_env() -> Option<Self> {
            None
        }

        pub(crate) fn send(&self, _: String) {}
    }

    pub(crate) fn watchdog_limit(_: u32) -> Option<Duration> {
        None
    }
}
