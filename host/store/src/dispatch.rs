//! Handles a request: maps it to a response.
//!
//! The checks have this order:
//!
//! 1. the signature and its age, or the shared access signature and its time,
//! 2. the common parts of a request (version, `timeout`, length), then its operation, unsupported
//!    parameters and headers, and its permission,
//! 3. the other headers of the operation,
//! 4. the existence of container and blob,
//! 5. for a lease operation the conditions, then the lease; for any other the lease, then the
//!    conditions.

use chrono::{DateTime, Utc};
use tenure_azure::encoding;

use super::account::Account;
use super::address::Address;
use super::auth::{self, Access};
use super::code::Failure;
use super::headers::{check_common, version};
use super::operation::Operation;
use super::service::{Call, Entry, Service};
use super::wire::{Now, OperationKind, Request, Response};

const SERVER: &str = "Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0";

/// Maximum number of characters of a method in the log.
const MAX_METHOD_LENGTH: usize = 16;

impl Service {
    /// Handles one request. `now` must not decrease from one call to the next.
    pub fn handle(&mut self, now: Now, request: &Request) -> Response {
        let address = Address::from_request(request, &self.accounts);
        let operation = Operation::find(&address, request);
        let admitted = auth::check(now, request, &address, &self.accounts).and_then(|access| {
            let version = version(request, access.version())?.to_owned();
            check_common(request, &address)?;
            Ok((access, version))
        });
        let version = admitted.as_ref().ok().map(|(_, version)| version.clone());
        let kind = operation.as_ref().map_or(OperationKind::Other, |operation| operation.kind);
        let outcome = admitted.and_then(|(access, _)| {
            let operation = operation?;
            operation.check(&address, request)?;
            access.authorize(operation.kind, operation.required_right)?;
            self.perform(now, &address, &access, operation, request)
        });
        let request_id = self.generator.guid().to_string();
        let (response, code) = match outcome {
            Ok(response) => (response, None),
            Err(failure) => {
                let is_head = request.method == "HEAD";
                let response = failure.response(is_head, &request_id, &format_precise(now.wall));
                (response, Some(failure.code.name()))
            }
        };
        let (container, blob) = address.names();
        // The log has the names of known accounts only, so unknown names cannot fill the memory.
        let account = self.accounts.iter().map(Account::name).find(|name| *name == address.account);
        let method = request.method.chars().take(MAX_METHOD_LENGTH).collect();
        self.log.add(Entry {
            at: now.elapsed,
            method,
            operation: kind,
            container: container.to_owned(),
            blob: blob.to_owned(),
            status: response.status,
            code,
            account: account.unwrap_or_default().to_owned(),
        });
        with_common_headers(response, now, &request_id, request, version)
    }

    /// Performs an operation whose common parts and rights have been checked.
    fn perform(
        &mut self,
        now: Now,
        address: &Address,
        access: &Access,
        operation: &Operation,
        request: &Request,
    ) -> Result<Response, Failure> {
        let (container, name) = address.names();
        let container_key = (address.account.clone(), container.to_owned());
        // The service's order of this check and the conditions is not documented. Rights come first
        // here, as everywhere.
        if operation.kind == OperationKind::PutBlob && self.blob(&container_key, name).is_ok() {
            access.authorize_overwrite()?;
        }
        (operation.run)(self, &Call { now, request, address, container_key, blob_name: name })
    }
}

/// Adds the common headers. `version` is `None` if the request was refused before its version was
/// known.
fn with_common_headers(
    mut response: Response,
    now: Now,
    request_id: &str,
    request: &Request,
    version: Option<String>,
) -> Response {
    let needs_length = response.header("content-length").is_none()
        && request.method != "HEAD"
        && response.status != 304;
    response = response
        .with("Server", SERVER)
        .with("x-ms-request-id", request_id)
        .with("Date", encoding::format_http_date(now.wall));
    if needs_length {
        response = response.with("Content-Length", "0");
    }
    if let Some(version) = version {
        response = response.with("x-ms-version", version);
    }
    match request.header("x-ms-client-request-id") {
        Some(client_id)
            if client_id.len() <= 1024 && client_id.bytes().all(|byte| byte.is_ascii_graphic()) =>
        {
            response.with("x-ms-client-request-id", client_id)
        }
        _ => response,
    }
}

/// Formats the service's time in bodies, with seven digits of a second.
fn format_precise(time: DateTime<Utc>) -> String {
    format!("{}.{:07}Z", time.format("%Y-%m-%dT%H:%M:%S"), time.timestamp_subsec_nanos() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_bodies_have_seven_digits_of_a_second() {
        let wall = DateTime::from_timestamp(1_767_323_045, 123_456_789).unwrap();
        assert_eq!(format_precise(wall), "2026-01-02T03:04:05.1234567Z");
    }
}
