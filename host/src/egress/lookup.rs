//! Look-ups of names for handlers: on threads of their own, and few at a time.
//!
//! The platform's resolver cannot be told to stop: a look-up goes on when whoever asked for it has
//! long given up. So each is bounded where it runs, not where it is waited for: a handler has a few
//! at a time, of all its turns together, and those who ask for one name share one look-up. The
//! election's requests use the runtime's own threads, which no handler can fill.

use super::error::NotFound;
use super::names::Names;
use super::place::{Place, place};
use crate::future::{BoxError, BoxFuture};
use hyper_util::client::legacy::connect::dns::Name;
use std::collections::{HashMap, hash_map};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower_service::Service;

/// Look-ups of one handler that are under way at a time, each of another name.
pub(super) const LOOKUPS: usize = 4;

/// What is asked about names and addresses. It may take its time, and is not interrupted.
pub(super) trait Directory: Send + Sync + 'static {
    /// The addresses that a name stands for.
    fn addresses(&self, name: &str) -> io::Result<Vec<SocketAddr>>;

    /// The addresses of this machine's own interfaces.
    fn own(&self) -> io::Result<Vec<IpAddr>>;
}

/// The resolver and the interfaces of this machine.
pub(super) struct Machine;

impl Directory for Machine {
    fn addresses(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        Ok((name, 0).to_socket_addrs()?.collect())
    }

    fn own(&self) -> io::Result<Vec<IpAddr>> {
        Ok(if_addrs::get_if_addrs()?.iter().map(if_addrs::Interface::ip).collect())
    }
}

type Found = Result<Vec<SocketAddr>, NotFound>;

/// The look-ups of one handler. Clones share them.
#[derive(Clone)]
pub(super) struct Lookups(Arc<Shared>);

struct Shared {
    directory: Box<dyn Directory>,
    names: Names,
    slots: Arc<Semaphore>,
    under_way: Mutex<HashMap<String, UnderWay>>,
}

/// A look-up that has begun.
struct UnderWay {
    found: watch::Receiver<Option<Found>>,
    /// Of all who asked for it, those who gave up included.
    places: Vec<Place>,
}

impl UnderWay {
    /// Lets one more wait for it.
    fn join(&mut self, place: Option<Place>) -> watch::Receiver<Option<Found>> {
        self.places.extend(place);
        self.found.clone()
    }
}

impl Lookups {
    pub(super) fn new(names: Names, directory: impl Directory) -> Self {
        Self(Arc::new(Shared {
            directory: Box::new(directory),
            names,
            slots: Arc::new(Semaphore::new(LOOKUPS)),
            under_way: Mutex::default(),
        }))
    }

    /// Looks `name` up, for a request that keeps `place` until the look-up has ended.
    pub(super) async fn find(&self, name: &str, mut place: Option<Place>) -> Found {
        let mut found = match self.join(name, &mut place) {
            Some(found) => found,
            None => {
                // Who gives up while waiting here leaves nothing behind. Never closed.
                let slot = self.0.slots.clone().acquire_owned().await;
                let slot = slot.map_err(|closed| unresolved(&closed))?;
                self.begin(name, place, slot)
            }
        };
        let ended = found.wait_for(Option::is_some).await;
        let ended = ended.map_err(|closed| unresolved(&closed))?;
        ended.clone().unwrap_or_else(|| Err(unresolved(&"the look-up was cancelled")))
    }

    /// Waits for a look-up of the same name that is under way, if there is one.
    fn join(
        &self,
        name: &str,
        place: &mut Option<Place>,
    ) -> Option<watch::Receiver<Option<Found>>> {
        self.0.under_way().get_mut(name).map(|lookup| lookup.join(place.take()))
    }

    /// Begins a look-up, unless one of the same name is under way.
    fn begin(
        &self,
        name: &str,
        place: Option<Place>,
        slot: OwnedSemaphorePermit,
    ) -> watch::Receiver<Option<Found>> {
        let (tell, found) = watch::channel(None);
        match self.0.under_way().entry(name.to_owned()) {
            // Somebody else has begun meanwhile.
            hash_map::Entry::Occupied(mut lookup) => return lookup.get_mut().join(place),
            hash_map::Entry::Vacant(vacant) => {
                let places = place.into_iter().collect();
                vacant.insert(UnderWay { found: found.clone(), places });
            }
        }
        let entry = Entry { shared: self.0.clone(), name: name.to_owned(), _slot: slot };
        let look_up = move || {
            let answer = entry.shared.look_up(&entry.name);
            // Whoever asks from here on begins anew.
            drop(entry);
            tell.send_replace(Some(answer));
        };
        // One that cannot be started is dropped, and with it what would tell.
        let _ = thread::Builder::new().name("tenure-name".to_owned()).spawn(look_up);
        found
    }
}

impl Shared {
    fn look_up(&self, name: &str) -> Found {
        let found = self.directory.addresses(name).map_err(|error| unresolved(&error))?;
        let own = match self.names {
            Names::OfAll => Vec::new(),
            Names::OfOthers => self.directory.own().map_err(|error| {
                unresolved(&format!("this machine's own addresses cannot be read: {error}"))
            })?,
        };
        self.names.judge(name, found, &own)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<String, UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unresolved(why: &impl ToString) -> NotFound {
    NotFound::Unresolved(why.to_string())
}

/// Ends a look-up, however it ends: frees the places of those who asked, and its own.
struct Entry {
    shared: Arc<Shared>,
    name: String,
    _slot: OwnedSemaphorePermit,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.under_way().remove(&self.name);
    }
}

impl Service<Name> for Lookups {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (lookups, place) = (self.clone(), place());
        Box::pin(async move { Ok(lookups.find(name.as_str(), place).await?.into_iter()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts who asks, and answers when nobody else has the lock.
    #[derive(Clone, Default)]
    struct Counted(Arc<(AtomicUsize, Mutex<()>)>);

    impl Directory for Counted {
        fn addresses(&self, _: &str) -> io::Result<Vec<SocketAddr>> {
            self.0.0.fetch_add(1, Ordering::SeqCst);
            drop(self.0.1.lock());
            Ok(Vec::new())
        }

        fn own(&self) -> io::Result<Vec<IpAddr>> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn two_who_begin_at_once_share_a_look_up() {
        let directory = Counted::default();
        let lookups = Lookups::new(Names::OfAll, directory.clone());
        let held = directory.0.1.lock().unwrap();
        let slot = || lookups.0.slots.clone().try_acquire_owned().unwrap();
        let both = [(); 2].map(|()| lookups.begin("a.test", None, slot()));
        drop(held);
        for mut found in both {
            found.wait_for(Option::is_some).await.unwrap();
        }
        assert_eq!(directory.0.0.load(Ordering::SeqCst), 1);
        assert_eq!(lookups.0.slots.available_permits(), LOOKUPS);
        assert!(lookups.0.under_way().is_empty());
    }
}
