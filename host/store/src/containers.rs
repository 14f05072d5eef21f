//! Operations on containers, except listing. Container leases are not supported.

use std::time::Duration;

use super::blob::{Container, with_etag};
use super::call::Call;
use super::code::{Code, Failure};
use super::condition::Conditions;
use super::headers::metadata;
use super::service::Service;
use super::wire::Response;

/// Time for which a deleted container's name stays reserved. The reference says "at least 30
/// seconds".
const DELETION_PERIOD: Duration = Duration::from_secs(30);

impl Service {
    pub(super) fn create_container(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        let metadata = metadata(call.request)?;
        self.deleting.retain(|_, until| call.now.elapsed < *until);
        if self.deleting.contains_key(&call.container_key) {
            return Err(Code::ContainerBeingDeleted.into());
        }
        if self.containers.contains_key(&call.container_key) {
            return Err(Code::ContainerAlreadyExists.into());
        }
        let container = Container {
            etag: self.generator.etag(),
            modified: call.now.wall,
            metadata,
            ..Container::default()
        };
        let response = with_etag(201, &container.etag, container.modified);
        self.containers.insert(call.container_key.clone(), container);
        Ok(response)
    }

    /// Deletes the container with all its blobs. A lease on a blob does not protect its container.
    pub(super) fn delete_container(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        let conditions = Conditions::for_write(call.request)?;
        let container = self.containers.get(&call.container_key).ok_or(Code::ContainerNotFound)?;
        conditions.check_write(&container.etag, container.modified)?;
        self.containers.remove(&call.container_key);
        self.deleting.insert(call.container_key.clone(), call.now.elapsed + DELETION_PERIOD);
        Ok(Response::new(202))
    }

    pub(super) fn get_container(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let container = self.containers.get(&call.container_key).ok_or(Code::ContainerNotFound)?;
        let response = with_etag(200, &container.etag, container.modified)
            .with("x-ms-lease-status", "unlocked")
            .with("x-ms-lease-state", "available")
            .with("x-ms-has-immutability-policy", "false")
            .with("x-ms-has-legal-hold", "false");
        Ok(response.with_metadata(&container.metadata))
    }
}
