//! The pooled HTTP clients of the election component.

use super::{Authorities, tls};
use std::sync::OnceLock;
use std::time::Duration;

/// A connection that could not be made for this long is given up. Guests set shorter limits.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// What requests say who sends them, unless they say something else.
pub(super) const USER_AGENT: &str = concat!("tenure/", env!("CARGO_PKG_VERSION"));

/// Unused connections are kept for this long: longer than any interval between renewals.
const IDLE: Duration = Duration::from_secs(90);

/// So many of them to one host: each election sends one request at a time, and so many steps there
/// are at a time.
const IDLE_PER_HOST: usize = 64;

/// One pool of connections, whose TLS half is made when it is first needed.
#[derive(Default)]
pub struct Clients {
    authorities: Authorities,
    plain: OnceLock<reqwest::Client>,
    tls: OnceLock<reqwest::Client>,
}

impl Clients {
    /// Trusts `authorities` beside the platform's.
    pub fn for_component(authorities: Authorities) -> Self {
        Self { authorities, ..Self::default() }
    }

    /// Whether they trust nobody but `authorities` beside whom the platform trusts, and all of these.
    pub fn trust(&self, authorities: &Authorities) -> bool {
        self.authorities == *authorities
    }

    /// The client for a scheme. What went wrong is tried again the next time: the platform's certificates may be there
    /// by then.
    pub fn get(&self, scheme: &str) -> Result<&reqwest::Client, String> {
        let (client, secure) = match scheme {
            "https" => (&self.tls, true),
            _ => (&self.plain, false),
        };
        if let Some(client) = client.get() {
            return Ok(client);
        }
        let built = build(if secure { tls::trusting(&self.authorities) } else { tls::none() })?;
        Ok(client.get_or_init(|| built))
    }
}

/// The whole body of an answer, of `most` bytes at most.
pub async fn whole(mut response: reqwest::Response, most: usize) -> Result<Vec<u8>, Unread> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Unread::Failed)? {
        if body.len() + chunk.len() > most {
            return Err(Unread::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Why there is no body of an answer.
#[derive(Debug)]
pub enum Unread {
    /// It broke off.
    Failed(reqwest::Error),
    /// It is longer than it may be.
    TooLong,
}

fn build(config: Result<rustls::ClientConfig, rustls::Error>) -> Result<reqwest::Client, String> {
    reqwest::Client::builder()
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .user_agent(USER_AGENT)
        .tcp_nodelay(true)
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .tls_backend_preconfigured(config.map_err(|error| format!("TLS: {error}"))?)
        .build()
        .map_err(|error| error.to_string())
}
