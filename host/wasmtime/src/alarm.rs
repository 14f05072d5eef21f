//! An alarm that one thread waits for and other threads set. Setting it wakes no thread.

pub(super) use system::Alarm;

#[cfg(target_os = "linux")]
mod system {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use std::io;
    use std::os::fd::OwnedFd;
    use std::thread;
    use std::time::Duration;

    /// A timer of the kernel.
    pub(crate) struct Alarm(OwnedFd);

    impl Alarm {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?))
        }

        /// Sets it to go off once after this time, or not at all with `None`. Replaces the earlier
        /// setting.
        pub(crate) fn set(&self, within: Option<Duration>) {
            // Zero would disarm the timer.
            let within = within.map(|within| within.max(Duration::from_nanos(1)));
            let within = within.unwrap_or_default();
            let once = Itimerspec {
                it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: Timespec {
                    tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: within.subsec_nanos().into(),
                },
            };
            // The descriptor and the arguments are valid.
            let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once);
        }

        /// Waits until it goes off.
        pub(crate) fn wait(&self) {
            while let Err(error) = rustix::io::read(&self.0, &mut [0; 8]) {
                if error != rustix::io::Errno::INTR {
                    thread::sleep(Duration::from_millis(10));
                    return;
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::{Duration, Instant};

    /// The instant at which it goes off. Setting it wakes the thread on this system.
    pub(crate) struct Alarm(Mutex<Option<Instant>>, Condvar);

    impl Alarm {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self(Mutex::default(), Condvar::new()))
        }

        /// Sets it to go off once after this time, or not at all with `None`. Replaces the earlier
        /// setting.
        pub(crate) fn set(&self, within: Option<Duration>) {
            let at = within.map(|within| Instant::now() + within);
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
            if at.is_some() {
                self.1.notify_one();
            }
        }

        /// Waits until it goes off.
        pub(crate) fn wait(&self) {
            let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let left = at.map(|at| at.saturating_duration_since(Instant::now()));
                at = match left {
                    Some(Duration::ZERO) => {
                        *at = None;
                        return;
                    }
                    Some(left) => {
                        let waited = self.1.wait_timeout(at, left);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                    None => self.1.wait(at).unwrap_or_else(PoisonError::into_inner),
                };
            }
        }
    }
}
