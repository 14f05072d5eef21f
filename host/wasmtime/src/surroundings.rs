//! What the election component perceives of the world, where a simulation supplies it.

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

/// The largest body of a request, in bytes. The component sends none.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// Time of day, randomness and network of a component, for simulations and tests: with these and
/// a [`Clock`](tenure_clock::Clock) of its own, a run can be repeated exactly.
#[derive(Clone)]
pub struct Surroundings {
    /// The time of day, as the time since 1970-01-01T00:00:00Z.
    pub wall: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// Sixty-four random bits.
    pub random: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Carries the requests.
    pub network: Arc<dyn Network>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

/// Carries the requests of a component, in place of this machine's network.
pub trait Network: Send + Sync {
    /// Sends a request. The returned future is dropped when the component waits no longer.
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Bytes>, NetworkFailure>>;
}

/// Why a [`Network`] has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkFailure {
    /// Nobody listens there.
    ConnectionRefused,
    /// The connection ended before the answer.
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
    /// Puts time of day and randomness in place of this machine's.
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
        // The upper half, which is the better one of most generators.
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

/// A [`Network`] as the engine asks for it.
pub(super) struct Carrier(pub Arc<dyn Network>);

type Answer = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for Carrier {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Answer, Error>> + Send> {
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
