//! Name lookups for handlers, on their own threads and limited in number, and the policy for the
//! addresses that a name may resolve to.
//!
//! The platform's resolver cannot be cancelled: a lookup continues after its caller gave up.
//! Therefore the running lookups are limited, not the waiting callers. A handler has at most four
//! at a time for all its turns, and callers of the same name share one lookup. Requests of
//! elections use the runtime's own threads, which no handler can exhaust.

use super::error::LookupError;
use super::turn::{RequestSlot, current_slot};
use crate::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use std::collections::{HashMap, hash_map};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower_service::Service;

/// Maximum simultaneous lookups of one handler, each of a different name.
pub(super) const MAX_LOOKUPS: usize = 4;

/// Source of names and addresses. Its calls may block and are not interrupted.
pub(super) trait Directory: Send + Sync + 'static {
    /// Returns the addresses of a name.
    fn addresses(&self, name: &str) -> io::Result<Vec<SocketAddr>>;

    /// Returns the addresses of this machine's own interfaces.
    fn local_addresses(&self) -> io::Result<Vec<IpAddr>>;
}

/// Resolver and interfaces of this machine.
pub(super) struct SystemDirectory;

impl Directory for SystemDirectory {
    fn addresses(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        Ok((name, 0).to_socket_addrs()?.collect())
    }

    fn local_addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(if_addrs::get_if_addrs()?.iter().map(if_addrs::Interface::ip).collect())
    }
}

type LookupResult = Result<Vec<SocketAddr>, LookupError>;

/// Lookups of one handler. Clones share them.
#[derive(Clone)]
pub(super) struct Lookups(Arc<Shared>);

struct Shared {
    directory: Box<dyn Directory>,
    names: NamePolicy,
    lookup_permits: Arc<Semaphore>,
    in_flight: Mutex<HashMap<String, InFlightLookup>>,
}

/// A running lookup.
struct InFlightLookup {
    result: watch::Receiver<Option<LookupResult>>,
    /// Request slots of all its callers, including those that gave up.
    request_slots: Vec<RequestSlot>,
}

impl InFlightLookup {
    /// Adds a waiting caller.
    fn join(&mut self, request_slot: Option<RequestSlot>) -> watch::Receiver<Option<LookupResult>> {
        self.request_slots.extend(request_slot);
        self.result.clone()
    }
}

impl Lookups {
    pub(super) fn new(names: NamePolicy, directory: impl Directory) -> Self {
        Self(Arc::new(Shared {
            directory: Box::new(directory),
            names,
            lookup_permits: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            in_flight: Mutex::default(),
        }))
    }

    /// Looks `name` up, for a request that keeps its slot until the lookup has ended.
    pub(super) async fn find(
        &self,
        name: &str,
        mut request_slot: Option<RequestSlot>,
    ) -> LookupResult {
        let mut receiver = match self.join(name, &mut request_slot) {
            Some(receiver) => receiver,
            None => {
                // A caller that gives up here leaves nothing behind. The semaphore is never closed.
                let permit = self.0.lookup_permits.clone().acquire_owned().await;
                let permit = permit.map_err(|closed| unresolved(&closed))?;
                self.start(name, request_slot, permit)
            }
        };
        let result = receiver.wait_for(Option::is_some).await;
        match result.as_deref() {
            Ok(Some(result)) => result.clone(),
            // The sender was dropped: the thread could not start, or it panicked.
            _ => Err(unresolved(&"the look-up was cancelled")),
        }
    }

    /// Joins a running lookup of the same name, if there is one.
    fn join(
        &self,
        name: &str,
        request_slot: &mut Option<RequestSlot>,
    ) -> Option<watch::Receiver<Option<LookupResult>>> {
        self.0.in_flight().get_mut(name).map(|lookup| lookup.join(request_slot.take()))
    }

    /// Starts a lookup, unless one of the same name is running.
    fn start(
        &self,
        name: &str,
        request_slot: Option<RequestSlot>,
        lookup_permit: OwnedSemaphorePermit,
    ) -> watch::Receiver<Option<LookupResult>> {
        let (sender, receiver) = watch::channel(None);
        match self.0.in_flight().entry(name.to_owned()) {
            // Another caller has started it meanwhile.
            hash_map::Entry::Occupied(mut lookup) => return lookup.get_mut().join(request_slot),
            hash_map::Entry::Vacant(vacant) => {
                let request_slots = request_slot.into_iter().collect();
                vacant.insert(InFlightLookup { result: receiver.clone(), request_slots });
            }
        }
        let guard =
            LookupGuard { shared: self.0.clone(), name: name.to_owned(), _permit: lookup_permit };
        let look_up = move || {
            let result = guard.shared.look_up(&guard.name);
            // Callers from here on start a new lookup.
            drop(guard);
            sender.send_replace(Some(result));
        };
        // If the thread cannot start, the closure is dropped, and with it the sender.
        let _ = thread::Builder::new().name("tenure-name".to_owned()).spawn(look_up);
        receiver
    }
}

impl Shared {
    fn look_up(&self, name: &str) -> LookupResult {
        let addresses = self.directory.addresses(name).map_err(|error| unresolved(&error))?;
        let local = match self.names {
            NamePolicy::Any => Vec::new(),
            NamePolicy::RemoteOnly => self.directory.local_addresses().map_err(|error| {
                unresolved(&format!("this machine's own addresses cannot be read: {error}"))
            })?,
        };
        self.names.filter_addresses(name, addresses, &local)
    }

    fn in_flight(&self) -> MutexGuard<'_, HashMap<String, InFlightLookup>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unresolved(reason: &impl ToString) -> LookupError {
    LookupError::Unresolved(reason.to_string())
}

/// Ends a lookup, even on a panic: frees the request slots of its callers, and its own permit.
struct LookupGuard {
    shared: Arc<Shared>,
    name: String,
    _permit: OwnedSemaphorePermit,
}

impl Drop for LookupGuard {
    fn drop(&mut self) {
        self.shared.in_flight().remove(&self.name);
    }
}

impl Service<Name> for Lookups {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = LookupError;
    type Future = BoxFuture<'static, Result<Self::Response, LookupError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LookupError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (lookups, request_slot) = (self.clone(), current_slot());
        Box::pin(async move { Ok(lookups.find(name.as_str(), request_slot).await?.into_iter()) })
    }
}

/// Azure's wire server. Every virtual machine can reach it, but its data are meant only for the
/// machine's agent.
const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Policy for the addresses that a name may resolve to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamePolicy {
    /// Only addresses outside this machine, its link and the platform's own services.
    ///
    /// This is for code that chooses its URLs. Otherwise an allowed name could point to the
    /// machine's identity endpoint, or to a port that only the machine itself can reach.
    RemoteOnly,
    /// Any address. This is for URLs that an operator configured.
    Any,
}

impl NamePolicy {
    /// Removes prohibited addresses from those that `name` resolved to. Fails if all of them are
    /// prohibited; an empty list passes. `local` contains the addresses of this machine. The
    /// allow-list checks addresses in URLs instead.
    fn filter_addresses(
        self,
        name: &str,
        addresses: Vec<SocketAddr>,
        local: &[IpAddr],
    ) -> Result<Vec<SocketAddr>, LookupError> {
        let is_prohibited =
            |address: &SocketAddr| self == Self::RemoteOnly && is_local(address.ip(), local);
        let (prohibited, permitted): (Vec<_>, Vec<_>) =
            addresses.into_iter().partition(is_prohibited);
        match prohibited.first() {
            Some(address) if permitted.is_empty() => {
                Err(LookupError::Prohibited { name: name.to_owned(), address: address.ip() })
            }
            _ => Ok(permitted),
        }
    }
}

/// Returns true if the address belongs to this machine, its link or the platform's own service, or
/// may be translated into such an address. Names must not resolve to it.
pub(super) fn is_local(address: IpAddr, local: &[IpAddr]) -> bool {
    local.contains(&address)
        || match address {
            IpAddr::V4(v4) => {
                v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || v4 == WIRE_SERVER
            }
            IpAddr::V6(v6) => {
                v6.is_loopback()
                    || v6.is_unicast_link_local()
                    || v6.is_unspecified()
                    || may_embed_any_address(v6)
                    || embedded(v6).is_some_and(|v4| is_local(v4.into(), local))
            }
        }
}

/// Returns true for 6to4 addresses, and for addresses of a NAT64 of the local network.
///
/// 6to4 is deprecated, so all its addresses are refused. In an address of a local NAT64, the
/// position of the IPv4 address depends on the network.
fn may_embed_any_address(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0x2002, ..] | [0x64, 0xff9b, 1, ..])
}

fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    // ::a.b.c.d, ::ffff:a.b.c.d, and addresses that NAT64 translates.
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            let [.., a, b, c, d] = address.octets();
            Some([a, b, c, d].into())
        }
        _ => address.to_ipv4(),
    }
}

#[cfg(test)]
mod name_policy_tests {
    use super::*;

    fn filtered(address: &str, local: &[&str]) -> Result<Vec<SocketAddr>, LookupError> {
        let local: Vec<_> = local.iter().map(|address| address.parse().unwrap()).collect();
        let addresses = vec![SocketAddr::new(address.parse().unwrap(), 0)];
        NamePolicy::RemoteOnly.filter_addresses("name", addresses, &local)
    }

    #[test]
    fn names_do_not_reach_this_machine_its_link_or_the_platforms_own_services() {
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "0.0.0.0",
            "::1",
            "::",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "::127.0.0.1",
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "64:ff9b::a83f:8110",
            // 6to4, for any embedded address: 127.0.0.1, 20.60.1.1.
            "2002:7f00:1::",
            "2002:143c:101::1",
            "64:ff9b:1::7f00:1",
            "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
        ] {
            assert!(filtered(text, &[]).is_err(), "{text}");
        }
        for text in [
            "10.0.0.1",
            "20.60.1.1",
            "168.63.129.17",
            "2001::1",
            "2003::1",
            "2603:1030::1",
            "64:ff9b::143c:101",
            "64:ff9b:2::1",
            "::ffff:20.60.1.1",
            "fd00::1",
        ] {
            assert!(filtered(text, &[]).is_ok(), "{text}");
        }
    }

    #[test]
    fn names_do_not_reach_the_addresses_of_this_machines_interfaces() {
        let local = ["10.0.0.4", "203.0.113.9", "fd00::4"];
        for text in ["10.0.0.4", "203.0.113.9", "fd00::4", "::ffff:10.0.0.4", "64:ff9b::a00:4"] {
            assert!(filtered(text, &local).is_err(), "{text}");
        }
        for text in ["10.0.0.5", "203.0.113.8", "fd00::5"] {
            assert!(filtered(text, &local).is_ok(), "{text}");
        }
    }

    #[test]
    fn only_prohibited_addresses_are_removed() {
        let addresses =
            ["10.0.0.4", "20.60.1.1"].map(|text| SocketAddr::new(text.parse().unwrap(), 0));
        let local = ["10.0.0.4".parse().unwrap()];
        assert_eq!(
            NamePolicy::RemoteOnly.filter_addresses("name", addresses.to_vec(), &local).unwrap(),
            addresses[1..]
        );
        assert_eq!(
            NamePolicy::Any.filter_addresses("name", addresses.to_vec(), &local).unwrap(),
            addresses
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts lookups, and returns once the test has released the lock.
    #[derive(Clone, Default)]
    struct CountingDirectory(Arc<(AtomicUsize, Mutex<()>)>);

    impl Directory for CountingDirectory {
        fn addresses(&self, _: &str) -> io::Result<Vec<SocketAddr>> {
            self.0.0.fetch_add(1, Ordering::SeqCst);
            drop(self.0.1.lock());
            Ok(Vec::new())
        }

        fn local_addresses(&self) -> io::Result<Vec<IpAddr>> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn concurrent_lookups_of_a_name_share_one() {
        let directory = CountingDirectory::default();
        let lookups = Lookups::new(NamePolicy::Any, directory.clone());
        let lock = directory.0.1.lock().unwrap();
        let permit = || lookups.0.lookup_permits.clone().try_acquire_owned().unwrap();
        let both = [(); 2].map(|()| lookups.start("a.test", None, permit()));
        drop(lock);
        for mut receiver in both {
            receiver.wait_for(Option::is_some).await.unwrap();
        }
        assert_eq!(directory.0.0.load(Ordering::SeqCst), 1);
        assert_eq!(lookups.0.lookup_permits.available_permits(), MAX_LOOKUPS);
        assert!(lookups.0.in_flight().is_empty());
    }
}
