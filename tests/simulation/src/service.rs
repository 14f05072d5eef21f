//! The service: the embedded store, its clock, and the records for the oracle.

use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use tenure_azure::blob::SideBlob;
use tenure_azure::credential::AuthSource;
use tenure_azure::{API_VERSION, Account, BlobName, Metadata, Operation, encoding};
use tenure_core::{
    OrderStep, Settings, SignedRequest, TransferOrder, TransferState, TriggerState, variable,
};
use tenure_store::{Account as StoreAccount, Now, Request, Response, Service as Store};

use super::dice::Dice;
use super::history::{Answer, CandidateId};
use super::plan::{Beginning, Class, Plan};
use super::step_classifier::parse_lease_id;
use super::world::Millis;
use super::{hostile, token};

/// Election of all candidates.
pub const ELECTION: &str = "leases/leader";

/// Field of a future version.
pub const LATER_FIELD: (&str, &str) = ("tenurelater", "kept%20so");

/// The store, and the leader by its accepted writes.
pub struct Service {
    store: Store,
    seed: u64,
    epoch: u64,
    /// Advance of the lease clock, in milliseconds.
    lease_clock_ahead: Millis,
    /// Offset of the wall clock, in milliseconds.
    wall_offset_ms: i64,
    /// Period of frozen dates: responses have the date of its start, to the second.
    frozen_dates: Option<(Millis, Millis)>,
    account: Account,
    blob: BlobName,
    /// Settings of an operator's command.
    settings: Settings,
    /// Candidate that raised the newest term, and its lease, until the release.
    pub leader: Option<(CandidateId, u128)>,
    /// Written records, for outsiders that restore one.
    saved_records: Option<Vec<Vec<(String, String)>>>,
    /// Orders that commands placed, for outsiders that restore some.
    saved_orders: Vec<Metadata>,
    /// Id of the trigger that was claimed last.
    pub last_trigger_id: Option<String>,
}

impl Service {
    /// Creates a service with its initial contents.
    #[must_use]
    pub fn new(seed: u64, plan: &Plan) -> Self {
        let account = Account::from_connection_string("UseDevelopmentStorage=true");
        let mut service = Self {
            store: Store::new(vec![StoreAccount::emulator()], seed),
            seed,
            epoch: plan.epoch * 1_000_000,
            lease_clock_ahead: 0,
            wall_offset_ms: 0,
            frozen_dates: None,
            account: account.expect("the emulator's"),
            blob: BlobName::parse(ELECTION).expect("a good name"),
            settings: Settings::read(|name: &str| match name {
                variable::ELECTION => Some(ELECTION.to_owned()),
                variable::CONNECTION_STRING => Some("UseDevelopmentStorage=true".to_owned()),
                _ => None,
            })
            .expect("good settings"),
            leader: None,
            saved_records: (plan.class == Class::WithoutA3).then(Vec::new),
            saved_orders: Vec::new(),
            last_trigger_id: None,
        };
        if plan.beginning != Beginning::Nothing {
            service.on_container(0, "PUT");
        }
        if plan.beginning == Beginning::Record {
            let record = [
                ("x-ms-blob-type", "BlockBlob"),
                ("x-ms-meta-tenureformat", "1"),
                ("x-ms-meta-tenureterm", "1794000000"),
                ("x-ms-meta-tenureleader", "another%20version"),
                ("x-ms-meta-tenurenonce", "00000000000000ff"),
                ("x-ms-meta-tenuresince", "2026-11-01T00:00:00Z"),
                ("x-ms-meta-tenurelater", LATER_FIELD.1),
            ];
            service.on_blob(0, "PUT", "", &record);
        }
        service
    }

    /// Returns the service's wall clock at the start, in nanoseconds since 1970.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    fn clock(&self, at: Millis) -> Now {
        let wall =
            (self.epoch + at * 1_000_000).saturating_add_signed(self.wall_offset_ms * 1_000_000);
        let nanos = i64::try_from(wall).unwrap_or(i64::MAX);
        let elapsed = Duration::from_millis(at + self.lease_clock_ahead);
        Now { elapsed, wall: DateTime::from_timestamp_nanos(nanos) }
    }

    /// Returns the time of the service's clock, formatted as a date header.
    #[must_use]
    pub fn date(&self, at: Millis) -> String {
        encoding::format_http_date(self.clock(at).wall)
    }

    /// Steps the wall clock by this many milliseconds.
    pub fn step_clock(&mut self, by: i64) {
        self.wall_offset_ms += by;
    }

    /// Freezes the dates of responses.
    pub fn freeze_dates(&mut self, from: Millis, until: Millis) {
        self.frozen_dates = Some((from, until));
    }

    /// Returns the date of a response while dates are frozen.
    #[must_use]
    pub fn frozen_date(&self, at: Millis) -> Option<String> {
        let (from, _) = self.frozen_dates.filter(|(_, until)| at < *until)?;
        Some(self.date(from))
    }

    /// Returns a date that is wrong by a minute or more: ahead or behind, by up to a day or by up
    /// to decades.
    pub fn wrong_date(&self, at: Millis, dice: &mut Dice) -> String {
        let most = dice.pick(&[86_400, 86_400, 2_500_000_000]);
        let offset = TimeDelta::seconds(i64::try_from(dice.between(60, most)).unwrap_or(60));
        let now = self.clock(at).wall;
        let wrong = if dice.once_in(2) { now + offset } else { now - offset };
        encoding::format_http_date(wrong.max(DateTime::UNIX_EPOCH))
    }

    /// Handles a candidate's request.
    pub fn handle(&mut self, at: Millis, request: &Request) -> (Response, Answer) {
        let signed_request = match token::expiry_of(request) {
            Some(until) if at >= until => return token::expired_response(&self.date(at)),
            Some(_) => Some(token::sign_as_account(&self.account, request, &self.date(at))),
            None => None,
        };
        let request = signed_request.as_ref().unwrap_or(request);
        let response = self.store.handle(self.clock(at), request);
        let code = self.store.log().entries().next_back().and_then(|entry| entry.code);
        let answer = Answer {
            status: response.status,
            code: code.unwrap_or(""),
            lease: response.header("x-ms-lease-id").and_then(parse_lease_id),
        };
        (response, answer)
    }

    /// Saves a record for outsiders that restore one.
    pub fn save_record(&mut self, request: &Request) {
        if let Some(records) = &mut self.saved_records {
            let fields = request.headers.iter().filter(|(name, _)| name.starts_with("x-ms-meta-"));
            records.push(fields.cloned().collect());
        }
    }

    /// Ends every lease earlier by this time.
    pub fn end_leases_early(&mut self, by: Millis) {
        self.lease_clock_ahead += by;
    }

    /// Breaks the lease as an outsider: after its remaining time, or at once.
    pub fn break_lease(&mut self, at: Millis, at_once: bool) {
        let action = ("x-ms-lease-action", "break");
        match at_once {
            true => {
                let headers = [action, ("x-ms-lease-break-period", "0")];
                self.on_blob(at, "PUT", "comp=lease", &headers)
            }
            false => self.on_blob(at, "PUT", "comp=lease", &[action]),
        };
    }

    /// Deletes the blob as an outsider.
    pub fn delete_blob(&mut self, at: Millis) {
        self.on_blob(at, "DELETE", "", &[]);
    }

    /// Deletes the container and its contents as an outsider.
    pub fn delete_container(&mut self, at: Millis) {
        self.on_container(at, "DELETE");
    }

    /// Removes the record as an outsider.
    pub fn wipe_record(&mut self, at: Millis) {
        self.on_blob(at, "PUT", "comp=metadata", &[]);
    }

    /// Restores an older record as an outsider: the n-th of the written records, in turn.
    pub fn restore_record(&mut self, at: Millis, n: u64) {
        let records = self.saved_records.take().unwrap_or_default();
        let count = records.len() as u64;
        if count > 0 {
            let fields = &records[usize::try_from(n % count).unwrap_or(0)];
            let headers: Vec<_> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            self.on_blob(at, "PUT", "comp=metadata", &headers);
        }
        self.saved_records = Some(records);
    }

    /// Writes a record that no candidate writes, as an outsider: the n-th kind of them.
    pub fn hostile_record(&mut self, at: Millis, n: u64, term: u64) {
        let record = hostile::record(n, term);
        let headers: Vec<_> = record.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        self.on_blob(at, "PUT", "comp=metadata", &headers);
    }

    /// Writes a side blob as an outsider. Returns true if the store accepted it.
    pub fn write_side_blob(&mut self, at: Millis, n: u64, name: &str, term: u64) -> bool {
        let (side_blob, fields) = match n % 3 {
            0 => {
                self.hostile_orders(at, n / 3).unwrap_or_else(|| hostile::side_blob(n, name, term))
            }
            _ => hostile::side_blob(n, name, term),
        };
        let path = self.blob.side_blob_path(side_blob);
        let mut headers = vec![("x-ms-blob-type", "BlockBlob")];
        headers.extend(fields.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        self.send_as_outsider(at, "PUT", &path, "", &headers) < 300
    }

    /// Returns earlier orders, or a claimed trigger as if it were new.
    fn hostile_orders(&self, at: Millis, n: u64) -> Option<(SideBlob, hostile::Fields)> {
        let saved =
            self.saved_orders.get(usize::try_from(n).ok()? % self.saved_orders.len().max(1));
        let fields = match (n % 2, &self.last_trigger_id) {
            (0, Some(id)) => {
                let now = self.clock(at).wall.timestamp_millis();
                let triggers = format!("{id}@{now}");
                hostile::fields(&[("tenurewriter", "m0"), ("tenuretriggers", &triggers)])
            }
            _ => saved?.iter().map(|(n, v)| (format!("x-ms-meta-{n}"), v.to_string())).collect(),
        };
        Some((SideBlob::Orders, fields))
    }

    /// Returns the response to an operator's command.
    pub fn run_operation(&mut self, at: Millis, operation: &Operation) -> tenure_azure::Answer {
        let (operation, timeout) = (operation.clone(), Duration::from_secs(3));
        let operation_request = SignedRequest { operation, timeout, auth: AuthSource::Credential };
        let signed = operation_request.to_http(&self.settings, self.clock(at).wall);
        let request = Request {
            method: signed.method.as_str().into(),
            target: signed.path_and_query,
            headers: signed.headers,
            ..Request::default()
        };
        let response = self.store.handle(self.clock(at), &request);
        let headers = response.headers.into_iter();
        let headers: Vec<_> = headers.map(|(name, value)| (name, value.into_bytes())).collect();
        let answer = tenure_azure::Answer::from_parts(
            &operation_request.operation,
            response.status,
            &headers,
        );
        if let (tenure_azure::Class::Done, Operation::WriteSideBlob { metadata, .. }) =
            (answer.class, &operation_request.operation)
        {
            self.saved_orders.push(metadata.clone());
        }
        answer
    }

    /// Returns the next operation of a command for a trigger.
    pub fn trigger(
        &self,
        at: Millis,
        id: &str,
        orders: &tenure_azure::Answer,
        election: &tenure_azure::Answer,
    ) -> Option<OrderStep<TriggerState>> {
        let wall = self.clock(at).wall;
        tenure_core::trigger((id, true), (orders, election), &self.settings, wall).ok()
    }

    /// Returns the next step of a command that places a transfer.
    pub fn transfer(
        &self,
        at: Millis,
        order: &TransferOrder,
        orders: &tenure_azure::Answer,
        election: &tenure_azure::Answer,
    ) -> Option<OrderStep<TransferState>> {
        let wall = self.clock(at).wall;
        tenure_core::transfer((order, true), (orders, election), &self.settings, wall).ok()
    }

    /// Restarts the store without its state.
    pub fn lose_state(&mut self) {
        self.seed = self.seed.wrapping_add(1);
        self.store = Store::new(vec![StoreAccount::emulator()], self.seed);
    }

    fn on_container(&mut self, at: Millis, method: &str) -> u16 {
        let path = self.blob.container_path();
        self.send_as_outsider(at, method, &path, "restype=container", &[])
    }

    fn on_blob(&mut self, at: Millis, method: &str, query: &str, headers: &[(&str, &str)]) -> u16 {
        let path = self.blob.path();
        self.send_as_outsider(at, method, &path, query, headers)
    }

    fn send_as_outsider(
        &mut self,
        at: Millis,
        method: &str,
        path: &str,
        query: &str,
        headers: &[(&str, &str)],
    ) -> u16 {
        let path = format!("{}{path}", self.account.prefix());
        let fixed_headers = [("x-ms-version", API_VERSION), ("content-length", "0")];
        let headers = fixed_headers.iter().chain(headers);
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        let request = Request { method: method.into(), target, headers, ..Request::default() };
        let request = token::sign_as_account(&self.account, &request, &self.date(at));
        self.store.handle(self.clock(at), &request).status
    }
}
