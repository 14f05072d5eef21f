//! The face: HTTP/1.1 over TCP around a [`Service`]. It moves bytes and time and decides nothing.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::account::Account;
use super::connection::{ServerContext, serve_connection};
use super::service::Service;
use super::wire::{Clock, Now};

/// How long nobody is accepted after accepting failed: what is missing then, a descriptor mostly, is not there at once.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long [`Store::stop`] waits for requests under way.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// One origin for the whole process: leases survive the move of a [`Service`] from one server to the next.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The machine's time: a monotonic clock for the leases, the wall clock for dates.
pub fn system_clock() -> Now {
    Now { elapsed: ORIGIN.elapsed(), wall: chrono::Utc::now() }
}

/// Serves `service` to everybody who connects, by `clock`, until `shutdown` is done and requests under way are answered.
/// [`system_clock`] is the machine's; by one that a test sets, a lease expires without waiting.
///
/// # Errors
///
/// None today; those of accepting are waited out.
pub async fn serve_with_clock(
    clock: Clock,
    listener: TcpListener,
    service: Arc<Mutex<Service>>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (shutdown_sender, shutdown_receiver) = watch::channel(false);
    let context = ServerContext { clock, service };
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            socket = accept(&listener) => {
                connections.spawn(serve_connection(socket, context.clone(), shutdown_receiver.clone()));
            }
        }
    }
    drop(listener);
    shutdown_sender.send_replace(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                // An answer is one small write; held back it would wait for an acknowledgement.
                drop(socket.set_nodelay(true));
                return socket;
            }
            // Of one client that went away again.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

/// Starts a store on `listen` (port 0: the system picks one) for `accounts`, or for the emulator's account when there
/// are none: what `tenure store` does.
///
/// # Errors
///
/// The address cannot be listened on.
pub async fn run(listen: SocketAddr, mut accounts: Vec<Account>) -> io::Result<Store> {
    if accounts.is_empty() {
        accounts.push(Account::emulator());
    }
    // Another start, other ETags: those of the last one must not match again.
    let seed = UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    Store::start(listen, Service::new(accounts, seed)).await
}

/// A store that runs in the background. Dropped, it closes what is idle and ends when requests under way are answered.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Store {
    address: SocketAddr,
    service: Arc<Mutex<Service>>,
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl Store {
    /// Serves `service` on `listen` (port 0: the system picks one).
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub async fn start(listen: SocketAddr, service: Service) -> io::Result<Store> {
        Store::start_with_clock(Arc::new(system_clock), listen, service).await
    }

    /// As [`Store::start`], by another clock.
    ///
    /// # Errors
    ///
    /// As [`Store::start`].
    pub async fn start_with_clock(clock: Clock, listen: SocketAddr, service: Service) -> io::Result<Store> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let service = Arc::new(Mutex::new(service));
        let (shutdown, receiver) = oneshot::channel::<()>();
        // A dropped sender ends it as well.
        let requested = async move { drop(receiver.await) };
        let task = tokio::spawn(serve_with_clock(clock, listener, Arc::clone(&service), requested));
        Ok(Store { address, service, shutdown, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How a client on this machine reaches the first account. Contains its key: a secret, unless it is the emulator's.
    pub fn connection_string(&self) -> String {
        let host = self.reachable_address();
        self.with(|service| {
            service.accounts().first().map(|account| account.connection_string(host))
        })
        .unwrap_or_default()
    }

    /// How a client reaches the account of that name, if there is one.
    pub fn connection_string_of(&self, account: &str) -> Option<String> {
        self.with(|service| {
            let account = service.accounts().iter().find(|known| known.name() == account)?;
            Some(account.connection_string(self.reachable_address()))
        })
    }

    /// Whoever listens on every address is reached by the loopback one.
    fn reachable_address(&self) -> SocketAddr {
        let loopback = match self.address.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        SocketAddr::new(loopback, self.address.port())
    }

    /// The service, to look at its log. Empty once the store has [stopped](Store::stop).
    pub fn service(&self) -> &Arc<Mutex<Service>> {
        &self.service
    }

    /// Looks at the service, or changes it, between two requests.
    pub fn with<T>(&self, action: impl FnOnce(&mut Service) -> T) -> T {
        action(&mut self.service.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends it: accepts nothing more, closes what is idle, waits 2 s at most for requests under way. Returns the
    /// service with all of its state, which may be started again.
    pub async fn stop(self) -> Service {
        let Self { service, shutdown, mut task, .. } = self;
        drop(shutdown);
        if tokio::time::timeout(STOP_TIMEOUT, &mut task).await.is_err() {
            task.abort();
        }
        let mut service = service.lock().unwrap_or_else(PoisonError::into_inner);
        // A request that comes to its end even now is refused, and not granted and lost.
        std::mem::replace(&mut *service, Service::new(Vec::new(), 0))
    }
}
