//! The election component's surroundings in a simulation: time, randomness and network.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tenure::handler::BoxFuture;
use tenure_core::{Failure, FailureKind};
use wasmtime_wasi::{HostWallClock, WasiCtxBuilder};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

/// Maximum size of a request body, in bytes. Most requests of the component have no body.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// Time of day, randomness and network of a component, for simulations and tests. With these and
/// its own [`Clock`](tenure_clock::Clock), a run can be repeated exactly.
#[derive(Clone)]
pub struct Surroundings {
    /// Returns the time of day, as the time since 1970-01-01T00:00:00Z.
    pub wall: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// Returns 64 random bits.
    pub random: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Carries the requests.
    pub network: Arc<dyn Network>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

/// A network that replaces this machine's for the requests of a component.
pub trait Network: Send + Sync {
    /// Sends a request. The returned future is dropped when the component stops waiting.
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Bytes>, NetworkFailure>>;
}

/// The reason why a [`Network`] has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkFailure {
    /// The connection was refused.
    ConnectionRefused,
    /// The connection ended before the response.
    ConnectionReset,
    /// The name could not be resolved.
    UnknownHost,
}

impl NetworkFailure {
    fn to_wasi_error(self) -> Error {
        match self {
            Self::ConnectionRefused => Error::ConnectionRefused,
            Self::ConnectionReset => Error::ConnectionTerminated,
            Self::UnknownHost => Error::DnsError { rcode: None, info_code: None },
        }
    }
}

impl From<NetworkFailure> for Failure {
    fn from(failure: NetworkFailure) -> Self {
        let kind = match failure {
            NetworkFailure::ConnectionRefused => FailureKind::Connect,
            NetworkFailure::ConnectionReset => FailureKind::Reset,
            NetworkFailure::UnknownHost => FailureKind::Name,
        };
        Self { kind, detail: String::new() }
    }
}

impl Surroundings {
    /// Replaces this machine's time of day and randomness.
    pub(super) fn apply(&self, wasi: &mut WasiCtxBuilder) {
        wasi.wall_clock(Wall(self.wall.clone()))
            .secure_random(Random(self.random.clone()))
            .insecure_random(Random(self.random.clone()))
            .insecure_random_seed(0);
    }
}

struct Wall(Arc<dyn Fn() -> Duration + Send + Sync>);

impl HostWallClock for Wall {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        (self.0)()
    }
}

struct Random(Arc<dyn Fn() -> u64 + Send + Sync>);

impl rand_core::TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        // The upper half, whose bits are more random in most generators.
        Ok(u32::try_from((self.0)() >> 32).unwrap_or_default())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok((self.0)())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(size_of::<u64>()) {
            chunk.copy_from_slice(&(self.0)().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// Sends a component's requests through a [`Network`].
pub(super) struct NetworkHooks(pub Arc<dyn Network>);

type SentResponse = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for NetworkHooks {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<SentResponse, Error>> + Send> {
        let network = self.0.clone();
        Box::new(async move {
            let (head, body) = request.into_parts();
            let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await;
            let body = body.map_err(|error| Error::InternalError(Some(error.to_string())))?;
            let request = http::Request::from_parts(head, body.to_bytes());
            let response = network.send(request).await;
            let response = response.map_err(NetworkFailure::to_wasi_error)?;
            let response = response
                .map(|bytes| Full::new(bytes).map_err(|never| match never {}).boxed_unsync());
            let done: Box<dyn Future<Output = Result<(), Error>> + Send> =
                Box::new(std::future::ready(Ok(())));
            Ok((response, done))
        })
    }
}
