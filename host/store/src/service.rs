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

/// The blob service of some accounts, with all of its state in memory.
///
/// `tenure store --help` lists the supported operations. It accepts Shared Key, and shared access
/// signatures by an account's key. It refuses unsupported features of the service with 501, and
/// ignores nothing that has an effect there.
#[derive(Clone, Debug)]
pub struct Service {
    pub(super) accounts: Vec<Account>,
    pub(super) containers: BTreeMap<ContainerKey, Container>,
    /// Names of deleted containers, and the end of their reservation.
    pub(super) deleting: BTreeMap<ContainerKey, Duration>,
    pub(super) generator: Generator,
    pub(super) log: Log,
}

impl Service {
    /// Creates an empty service. The ETags and ids that it generates follow from `seed`.
    pub fn new(accounts: Vec<Account>, seed: u64) -> Service {
        Service {
            accounts,
            containers: BTreeMap::new(),
            deleting: BTreeMap::new(),
            generator: Generator::new(seed),
            log: Log::default(),
        }
    }

    /// Returns the accounts, in the order given.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Replaces a key of an account, as `az storage account keys renew` does, or adds a second one.
    /// `key` is base64.
    ///
    /// From the next request on, signatures of the old key are refused, including shared access
    /// signatures that have not expired. Signatures of the other key stay valid. For a running
    /// [`Store`](super::Store), use `store.with(|service| service.replace_key(…))`.
    ///
    /// # Errors
    ///
    /// Returns [`AccountError::Unknown`] or [`AccountError::InvalidKey`]; the service is then
    /// unchanged.
    pub fn replace_key(
        &mut self,
        account: &str,
        name: KeyName,
        key: &str,
    ) -> Result<(), AccountError> {
        let found = self.accounts.iter_mut().find(|known| known.name() == account);
        found.ok_or(AccountError::Unknown)?.replace_key(name, key)
    }

    /// Returns the log of handled requests.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the state of a blob's lease and, unless it is available, the id of its present or
    /// last holder. Returns `None` if the blob does not exist. For tests and simulations only: the
    /// service does not reveal the id to clients.
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

    /// Returns a number that is equal for two services with the same blobs and leases, whatever
    /// their history. State-space explorations use it to skip known states.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.containers, &self.deleting).hash(&mut hasher);
        hasher.finish()
    }

    /// Clears the log, and derives further ids and ETags from `seed` as in a new service. So
    /// requests without an effect leave no trace. A reused seed repeats ETags.
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
