//! The service: accounts, containers with their blobs, a log, and a generator of ids.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tenure_azure::LeaseId;

use super::account::{Account, AccountError, KeyName};
use super::address::Address;
use super::blob::{Blob, Container, ContainerKey};
use super::code::Code;
use super::lease::State;
use super::wire::{Now, OperationKind, Request};

/// Maximum number of entries in the log.
const MAX_ENTRIES: usize = 10_000;

/// The blob service of some accounts, with all of its state in memory.
///
/// `tenure store --help` lists the supported operations. The service accepts Shared Key, and shared
/// access signatures by an account's key. It refuses features of Azure that it lacks with 501, and
/// ignores nothing that has an effect in Azure.
#[derive(Clone, Debug)]
pub struct Service {
    pub(super) accounts: Vec<Account>,
    pub(super) containers: BTreeMap<ContainerKey, Container>,
    /// Deleted containers whose name cannot be used yet, and the end of that period.
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
    /// service does not give the id to other clients.
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

    /// Returns a number that is equal for two services with equal containers, including ETags,
    /// dates and lease ids. The log and the generator do not count. State-space explorations use it
    /// to skip known states.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.containers, &self.deleting).hash(&mut hasher);
        hasher.finish()
    }

    /// Clears the log, and restarts the generator of ids and ETags with `seed`. After that,
    /// earlier requests matter only by their effect on containers, blobs and leases. A reused seed
    /// repeats ETags.
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

/// One handled request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The time of handling, by [`Now::elapsed`].
    pub at: Duration,
    /// The first 16 characters of the HTTP method.
    pub method: String,
    /// The operation.
    pub operation: OperationKind,
    /// The account; empty if it does not exist.
    pub account: String,
    /// The container; empty if the address has none.
    pub container: String,
    /// The blob; empty if the address has none.
    pub blob: String,
    /// The status of the response.
    pub status: u16,
    /// The error code of the response.
    pub code: Option<&'static str>,
}

/// The handled requests: the newest 10 000, and counts of all.
#[derive(Clone, Debug, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    counts: BTreeMap<(OperationKind, u16), u64>,
}

impl Log {
    /// Returns the remembered requests, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the number of requests of this operation, whatever the response.
    pub fn count(&self, operation: OperationKind) -> u64 {
        let matching = self.counts.iter().filter(|((known, _), _)| *known == operation);
        matching.map(|(_, count)| count).sum()
    }

    /// Returns the number of requests of this operation with this status.
    pub fn count_with_status(&self, operation: OperationKind, status: u16) -> u64 {
        self.counts.get(&(operation, status)).copied().unwrap_or(0)
    }

    /// Returns the number of handled requests.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(super) fn add(&mut self, entry: Entry) {
        *self.counts.entry((entry.operation, entry.status)).or_default() += 1;
        if self.entries.len() == MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }
}

/// An accepted request with its target and time, for an operation.
pub(super) struct Call<'a> {
    pub(super) now: Now,
    pub(super) request: &'a Request,
    pub(super) address: &'a Address,
    /// Account and container.
    pub(super) container_key: ContainerKey,
    /// The blob; empty if the address has none.
    pub(super) blob_name: &'a str,
}

/// Ids and ETags, generated from one seed.
#[derive(Clone, Debug)]
pub(super) struct Generator {
    state: u64,
    etag: u64,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Generator {
        let mut generator = Generator { state: seed, etag: 0 };
        // The first ETag depends on the seed, so a restarted service with another seed repeats
        // none.
        generator.etag = generator.next() >> 16;
        generator
    }

    /// Returns the next number of SplitMix64, which is random enough for names.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a GUID: a lease id for a request without a proposal, or a request id.
    pub(super) fn guid(&mut self) -> LeaseId {
        let bytes = (u128::from(self.next()) << 64) | u128::from(self.next());
        LeaseId::from_random(bytes.to_be_bytes())
    }

    /// Returns a new ETag in quotes, greater than all earlier ones.
    pub(super) fn etag(&mut self) -> String {
        self.etag += 1 + (self.next() >> 48);
        format!("\"0x8D{:013X}\"", self.etag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_entries_go_and_counts_stay() {
        let mut log = Log::default();
        for number in 0..MAX_ENTRIES as u64 + 5 {
            let status = if number % 2 == 0 { 201 } else { 409 };
            log.add(Entry {
                at: Duration::from_secs(number),
                method: "PUT".to_owned(),
                operation: OperationKind::Acquire,
                account: String::new(),
                container: String::new(),
                blob: String::new(),
                status,
                code: None,
            });
        }
        assert_eq!(log.entries().count(), MAX_ENTRIES);
        assert_eq!(log.entries().next().map(|entry| entry.at), Some(Duration::from_secs(5)));
        assert_eq!(log.count(OperationKind::Acquire), MAX_ENTRIES as u64 + 5);
        assert_eq!(log.count_with_status(OperationKind::Acquire, 409), MAX_ENTRIES as u64 / 2 + 2);
        assert_eq!(log.count(OperationKind::Renew), 0);
    }

    #[test]
    fn one_seed_makes_one_sequence() {
        let generate = |seed| {
            let mut generator = Generator::new(seed);
            (generator.guid().to_string(), generator.etag(), generator.etag())
        };
        assert_eq!(generate(7), generate(7));
        assert_ne!(generate(7), generate(8));
        assert_ne!(generate(7).1, generate(7).2);
    }
}
