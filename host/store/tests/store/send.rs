//! Two transports to a store in virtual time: direct calls of the state machine, and one TCP
//! connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tenure_store::{Account, Now, Request, Response, Service, Store};

/// Sends requests to a store and controls its time.
pub trait Transport {
    fn send(&mut self, request: &Request) -> Response;
    fn now(&self) -> Now;
    fn wait(&mut self, time: Duration);
}

/// Friday, 2 January 2026, 03:04:05.25 GMT.
pub fn start_instant() -> Now {
    let wall = DateTime::<Utc>::from_timestamp(1_767_323_045, 250_000_000).unwrap();
    Now { elapsed: Duration::from_secs(1000), wall }
}

/// Direct calls of the state machine.
pub struct Direct {
    pub service: Service,
    now: Now,
}

impl Direct {
    pub fn new() -> Direct {
        Direct { service: Service::new(vec![Account::emulator()], 7), now: start_instant() }
    }
}

impl Transport for Direct {
    fn send(&mut self, request: &Request) -> Response {
        self.service.handle(self.now, request)
    }

    fn now(&self) -> Now {
        self.now
    }

    fn wait(&mut self, time: Duration) {
        self.now.elapsed += time;
        self.now.wall += time;
    }
}

/// One connection to a store with a manual clock.
pub struct Wire {
    pub store: Store,
    pub runtime: tokio::runtime::Runtime,
    pub connection: Connection,
    now: Arc<Mutex<Now>>,
}

impl Wire {
    pub fn new() -> Wire {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let now = Arc::new(Mutex::new(start_instant()));
        let clock_time = Arc::clone(&now);
        let clock = Arc::new(move || *clock_time.lock().unwrap());
        let service = Service::new(vec![Account::emulator()], 7);
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let store = runtime.block_on(Store::start_with_clock(clock, listen, service)).unwrap();
        let connection = Connection::open(store.address());
        Wire { store, runtime, connection, now }
    }
}

impl Transport for Wire {
    fn send(&mut self, request: &Request) -> Response {
        self.connection.send(request)
    }

    fn now(&self) -> Now {
        *self.now.lock().unwrap()
    }

    fn wait(&mut self, time: Duration) {
        let mut now = self.now.lock().unwrap();
        now.elapsed += time;
        now.wall += time;
    }
}

/// HTTP/1.1 by hand: inexact framing breaks the next response.
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    pub fn open(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
        Connection(BufReader::new(stream))
    }

    pub fn send(&mut self, request: &Request) -> Response {
        let mut bytes =
            format!("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n", request.method, request.target)
                .into_bytes();
        for (name, value) in &request.headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&request.body);
        self.write(&bytes);
        self.read(request.method == "HEAD")
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    pub fn read(&mut self, head: bool) -> Response {
        let status = self.line();
        let status =
            status.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("no answer but {status:?}"));
        let mut response = Response { status: status[..3].parse().unwrap(), ..Response::default() };
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            response.headers.push((name.to_owned(), value.trim().to_owned()));
        }
        if !head && response.status != 304 {
            let length = response
                .header("content-length")
                .expect("every answer has a length")
                .parse()
                .unwrap();
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).unwrap();
            response.body = body.into();
        }
        response
    }

    /// Returns true if the server has closed the connection without further data.
    pub fn is_closed(&mut self) -> bool {
        self.0.read(&mut [0]).unwrap() == 0
    }

    /// Reads the next line, which is not the start of a final response.
    pub fn status_line(&mut self) -> String {
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
