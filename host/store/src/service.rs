//! The service: one function from a request to an answer.
//!
//! What is checked, in this order:
//!
//! 1. the signature and its age, or the shared access signature and its time,
//! 2. what every request has (version, `timeout`, length), then the operation, whether all that the request asks of it
//!    is played, and whether it is permitted,
//! 3. its own headers,
//! 4. whether container and blob exist,
//! 5. for a lease operation the conditions, then the lease; for any other the lease, then the conditions.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tenure_azure::http_date;

use super::account::{Account, AccountError, KeyName};
use super::address::Address;
use super::auth::{self, Access};
use super::blob::{Blob, Container};
use super::code::{Code, Failure};
use super::containers::Place;
use super::generator::{Generator, precise};
use super::headers::{common, version};
use super::lease::State;
use super::log::{Entry, Log, Verb};
use super::operation::{Call, Operation};
use super::wire::{Now, Request, Response};

/// The largest body of a request, in bytes: 64 MiB. The service takes more.
pub const MAX_BODY: usize = 64 * 1024 * 1024;

/// The oldest `x-ms-version` answered; every later one is. The service knows older ones; they sign otherwise.
pub const OLDEST_VERSION: &str = "2016-05-31";

const SERVER: &str = "Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0";

/// The blob service of some accounts, all of its state in memory.
///
/// `tenure store --help` lists what is played. Takes Shared Key, and shared access signatures by an account's key. What
/// is real and not played is refused with 501: nothing is ignored that has an effect on the service.
#[derive(Clone, Debug)]
pub struct Service {
    pub(super) accounts: Vec<Account>,
    pub(super) containers: BTreeMap<Place, Container>,
    /// Names of deleted containers, and until when they stay taken.
    pub(super) deleting: BTreeMap<Place, Duration>,
    pub(super) generator: Generator,
    log: Log,
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
        let known = self.accounts.iter_mut().find(|known| known.name() == account);
        known.ok_or(AccountError::Unknown)?.replace_key(name, key)
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
    pub fn forget(&mut self, seed: u64) {
        self.generator = Generator::new(seed);
        self.log = Log::default();
    }

    /// Handles one request, now. `now` must not go back from one call to the next.
    pub fn handle(&mut self, now: Now, request: &Request) -> Response {
        let address = Address::of(request, &self.accounts);
        let operation = Operation::of(&address, request);
        let admitted = auth::check(now, request, &address, &self.accounts).and_then(|access| {
            let version = version(request, access.version())?.to_owned();
            common(request, &address)?;
            Ok((access, version))
        });
        let version = admitted.as_ref().ok().map(|(_, version)| version.clone());
        let verb = operation.as_ref().map_or(Verb::Other, |operation| operation.verb);
        let outcome = admitted.and_then(|(access, _)| {
            let operation = operation?;
            operation.judge(&address, request, &access)?;
            access.permit(operation)?;
            self.perform(now, &address, &access, operation, request)
        });
        let id = self.generator.guid().to_string();
        let (answer, code) = match outcome {
            Ok(answer) => (answer, None),
            Err(failure) => {
                let answer = failure.answer(request.method == "HEAD", &id, &precise(now.wall));
                (answer, Some(failure.code.name()))
            }
        };
        let (container, blob) = address.names();
        self.log.add(Entry {
            at: now.elapsed,
            method: request.method.clone(),
            verb,
            container: container.to_owned(),
            blob: blob.to_owned(),
            status: answer.status,
            code,
            account: address.account,
        });
        dressed(answer, now, &id, request, version)
    }

    fn perform(
        &mut self,
        now: Now,
        address: &Address,
        access: &Access,
        operation: &Operation,
        request: &Request,
    ) -> Result<Response, Failure> {
        let (container, name) = address.names();
        let place = (address.account.clone(), container.to_owned());
        // Not documented: whether a condition of the request is judged before this. Rights come first everywhere.
        let overwrites =
            matches!(operation.verb, Verb::PutBlob | Verb::PutBlock | Verb::PutBlockList);
        if overwrites && self.blob(&place, name).is_ok() {
            access.permit_overwrite()?;
        }
        (operation.run)(self, &Call { now, request, address, access, place, name })
    }

    pub(super) fn blob(&self, place: &Place, name: &str) -> Result<&Blob, Code> {
        let container = self.containers.get(place).ok_or(Code::ContainerNotFound)?;
        container.blobs.get(name).ok_or(Code::BlobNotFound)
    }

    pub(super) fn blob_mut(&mut self, place: &Place, name: &str) -> Result<&mut Blob, Code> {
        let container = self.containers.get_mut(place).ok_or(Code::ContainerNotFound)?;
        container.blobs.get_mut(name).ok_or(Code::BlobNotFound)
    }
}

/// Adds what every answer has. The version only where the service got so far as to know it.
fn dressed(
    answer: Response,
    now: Now,
    id: &str,
    request: &Request,
    version: Option<String>,
) -> Response {
    let bodyless = answer.header("content-length").is_none()
        && request.method != "HEAD"
        && answer.status != 304;
    let mut answer = answer
        .with("Server", SERVER)
        .with("x-ms-request-id", id)
        .with("Date", http_date::format(now.wall));
    if bodyless {
        answer = answer.with("Content-Length", "0");
    }
    if let Some(version) = version {
        answer = answer.with("x-ms-version", version);
    }
    match request.header("x-ms-client-request-id") {
        Some(own) if own.len() <= 1024 && own.bytes().all(|byte| byte.is_ascii_graphic()) => {
            answer.with("x-ms-client-request-id", own)
        }
        _ => answer,
    }
}
