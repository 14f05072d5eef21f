//! The service: accounts, containers with their blobs, and a log.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::account::{Account, AccountError, KeyName};
use super::blob::{Blob, Container, ContainerKey};
use super::code::Code;
use super::generator::Generator;
use super::lease::State;
use super::log::Log;

/// The blob service of some accounts, all of its state in memory.
///
/// `tenure store --help` lists what is played. Takes Shared Key, and shared access signatures by an account's key. What
/// is real and not played is refused with 501: nothing is ignored that has an effect on the service.
#[derive(Clone, Debug)]
pub struct Service {
    pub(super) accounts: Vec<Account>,
    pub(super) containers: BTreeMap<ContainerKey, Container>,
    /// Names of deleted containers, and until when they stay taken.
    pub(super) deleting: BTreeMap<ContainerKey, Duration>,
    pub(super) generator: Generator,
    pub(super) log: Log,
}

impl Service {
    /// An empty service. All that it makes up (ETags, ids) follows from `seed`.
    pub fn new(accounts: Vec<Account>, seed: u64) -> Service {
        Service {
            accounts,
            containers: BTreeMap::new(),
            deleting: BTreeMap::new(),
            generator: Generator::new(seed),
            log: Log::default(),
        }
    }

    /// The accounts, in the order given.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Replaces a key of an account, as `az storage account keys renew` does, or gives it a second one. `key` is base64.
    /// From the next request on, whatever the old key signed is refused: requests, and shared access signatures however
    /// long they were to be valid. What the other key signed stays good. Of a running [`Store`](super::Store):
    /// `store.with(|service| service.replace_key(…))`.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`] and [`AccountError::Key`]; then nothing has changed.
    pub fn replace_key(
        &mut self,
        account: &str,
        name: KeyName,
        key: &str,
    ) -> Result<(), AccountError> {
        let found = self.accounts.iter_mut().find(|known| known.name() == account);
        found.ok_or(AccountError::Unknown)?.replace_key(name, key)
    }

    /// What was handled.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The state of a blob's lease and, unless it is available, the id that holds or last held it; `None` when there
    /// is no such blob. For tests and simulations, which may know what no client can ask.
    pub fn lease(
        &self,
        elapsed: Duration,
        account: &str,
        container: &str,
        blob: &str,
    ) -> Option<(State, Option<String>)> {
        let lease = self.blob(&(account.to_owned(), container.to_owned()), blob).ok()?.lease;
        Some((lease.state(elapsed), lease.id().map(|id| id.to_string())))
    }

    /// A number that is the same for two services with the same blobs and leases, whatever led to them. For
    /// explorations, which look at no state twice.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.containers, &self.deleting).hash(&mut hasher);
        hasher.finish()
    }

    /// Empties the log, and lets ids and ETags to come follow from `seed` as in a new service, so that requests which
    /// changed nothing leave no trace. A seed that was used before repeats ETags.
    pub fn reset(&mut self, seed: u64) {
        self.generator = Generator::new(seed);
        self.log = Log::default();
    }

    pub(super) fn blob(&self, key: &ContainerKey, name: &str) -> Result<&Blob, Code> {
        let container = self.containers.get(key).ok_or(Code::ContainerNotFound)?;
        container.blobs.get(name).ok_or(Code::BlobNotFound)
    }

    pub(super) fn blob_mut(&mut self, key: &ContainerKey, name: &str) -> Result<&mut Blob, Code> {
        let container = self.containers.get_mut(key).ok_or(Code::ContainerNotFound)?;
        container.blobs.get_mut(name).ok_or(Code::BlobNotFound)
    }
}
