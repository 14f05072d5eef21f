//! A sink that records the arrival of each request as soon as the kernel delivers it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use tenure_clock::{BootClock, Clock};

const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

type Arrivals = Arc<Mutex<Vec<Duration>>>;

/// The sink. Its threads end with the program.
pub struct Sink {
    address: SocketAddr,
    arrivals: Arrivals,
}

impl Sink {
    pub fn start(clock: BootClock) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let arrivals = Arrivals::default();
        let shared_arrivals = arrivals.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (clock, shared_arrivals) = (clock.clone(), shared_arrivals.clone());
                thread::spawn(move || serve(stream, &clock, &shared_arrivals));
            }
        });
        Ok(Self { address, arrivals })
    }

    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn arrivals(&self) -> Vec<Duration> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn clear(&self) {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Serves one connection. A request is short and comes in one or two pieces: its head, and its body
/// `{…}`.
fn serve(mut stream: TcpStream, clock: &BootClock, arrivals: &Arrivals) {
    let mut buffer = [0; 4096];
    let mut partial = false;
    while let Ok(count) = stream.read(&mut buffer) {
        let at = clock.now();
        if count == 0 {
            return;
        }
        // Each request counts once, by its first piece.
        if !partial {
            arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(at);
        }
        partial = buffer[count - 1] != b'}';
        if !partial && stream.write_all(ANSWER).is_err() {
            return;
        }
    }
}
