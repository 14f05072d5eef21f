//! The HTTP/1.1 server over TCP around a [`Service`]. It only adds transport and time.

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

/// Delay after a failed accept. The usual cause is a lack of file descriptors, which does not end
/// at once.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Maximum time for which [`Store::stop`] waits for requests in progress.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The origin of [`Now::elapsed`]. All servers of the process share it, so a [`Service`] keeps its
/// leases when another server continues with it.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the machine's time: a monotonic clock for leases, the wall clock for dates.
pub fn system_clock() -> Now {
    Now { elapsed: ORIGIN.elapsed(), wall: chrono::Utc::now() }
}

/// Serves `service` on `listener` until `shutdown` completes and requests in progress are answered.
///
/// `clock` is [`system_clock`], or a clock of a test, with which leases expire without waiting.
///
/// # Errors
///
/// Currently returns no error; errors of accepting are retried.
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
                // A response is one small write that must not wait for an acknowledgement.
                drop(socket.set_nodelay(true));
                return socket;
            }
            // The client has already disconnected.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

/// Starts a store on `listen` (port 0 picks a free one) for `accounts`, or for the emulator's
/// account if there are none. The command `tenure store` runs this.
///
/// # Errors
///
/// Returns an error if it cannot listen on the address.
pub async fn run(listen: SocketAddr, mut accounts: Vec<Account>) -> io::Result<Store> {
    if accounts.is_empty() {
        accounts.push(Account::emulator());
    }
    // Each start has other ETags, so the ETags of an earlier start do not match.
    let seed = UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    Store::start(listen, Service::new(accounts, seed)).await
}

/// A store that runs in the background. When it is dropped, it closes idle connections and ends
/// after the requests in progress.
#[derive(Debug)]
#[must_use = "the store ends when it is dropped"]
pub struct Store {
    address: SocketAddr,
    service: Arc<Mutex<Service>>,
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl Store {
    /// Serves `service` on `listen` (port 0 picks a free one).
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot listen on the address.
    pub async fn start(listen: SocketAddr, service: Service) -> io::Result<Store> {
        Store::start_with_clock(Arc::new(system_clock), listen, service).await
    }

    /// Starts like [`Store::start`], with another clock.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Store::start`].
    pub async fn start_with_clock(
        clock: Clock,
        listen: SocketAddr,
        service: Service,
    ) -> io::Result<Store> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let service = Arc::new(Mutex::new(service));
        let (shutdown, receiver) = oneshot::channel::<()>();
        // Completes when the sender is dropped, by `stop` or with the store.
        let shutdown_requested = async move { drop(receiver.await) };
        let task = tokio::spawn(serve_with_clock(
            clock,
            listener,
            Arc::clone(&service),
            shutdown_requested,
        ));
        Ok(Store { address, service, shutdown, task })
    }

    /// Returns the address on which the store listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the connection string of the first account for clients on this machine. It contains
    /// the key: a secret, except for the emulator's account.
    pub fn connection_string(&self) -> String {
        let host = self.reachable_address();
        self.with(|service| {
            service.accounts().first().map(|account| account.connection_string(host))
        })
        .unwrap_or_default()
    }

    /// Returns the connection string of the account of that name, if it exists.
    pub fn connection_string_of(&self, account: &str) -> Option<String> {
        self.with(|service| {
            let account = service.accounts().iter().find(|known| known.name() == account)?;
            Some(account.connection_string(self.reachable_address()))
        })
    }

    /// Returns an address that clients can use. For a wildcard address this is the loopback
    /// address.
    fn reachable_address(&self) -> SocketAddr {
        let ip = match self.address.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        SocketAddr::new(ip, self.address.port())
    }

    /// Returns the service; tests read its log. A clone of this `Arc` holds an empty service after
    /// [`stop`](Store::stop).
    pub fn service(&self) -> &Arc<Mutex<Service>> {
        &self.service
    }

    /// Runs `action` on the service between two requests.
    pub fn with<T>(&self, action: impl FnOnce(&mut Service) -> T) -> T {
        action(&mut self.service.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops the store: accepts no more connections, closes idle ones, and waits up to 2 s for
    /// requests in progress. Returns the service with its whole state, which can be started again.
    pub async fn stop(self) -> Service {
        let Self { service, shutdown, mut task, .. } = self;
        drop(shutdown);
        if tokio::time::timeout(STOP_TIMEOUT, &mut task).await.is_err() {
            task.abort();
        }
        let mut service = service.lock().unwrap_or_else(PoisonError::into_inner);
        // A request that is still in progress finds an empty service, which refuses it. Otherwise
        // the client might get a lease that the returned service does not have.
        std::mem::replace(&mut *service, Service::new(Vec::new(), 0))
    }
}
