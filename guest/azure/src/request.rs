//! A complete request: to the Blob service, to a token endpoint, or to a webhook.

use core::fmt;

use super::secret::Secret;
use tenure_base::prelude::*;

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// HEAD.
    Head,
    /// PUT.
    Put,
    /// GET.
    Get,
    /// POST, for tokens and webhooks only.
    Post,
    /// DELETE.
    Delete,
}

impl Method {
    /// Returns the method on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Head => "HEAD",
            Method::Put => "PUT",
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        }
    }
}

/// A complete request, to be sent unchanged.
///
/// A signed request is valid for 15 minutes after its date. `Debug` prints no query, header value
/// or body: they may hold signatures, tokens and lease ids.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Scheme, host and port, such as `https://name.blob.core.windows.net`.
    pub origin: String,
    /// Path and query exactly as sent; changing them breaks the signature.
    pub path_and_query: String,
    /// All headers except `Host`, which the transport sets. Names in lower case, with
    /// `content-length` on every PUT.
    pub headers: Vec<(String, String)>,
    /// The body; empty for most requests to the Blob service.
    pub body: Secret,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Request({} {}{}, headers:",
            self.method.as_str(),
            self.origin,
            self.path_and_query.split('?').next().unwrap_or_default()
        )?;
        for (name, _) in &self.headers {
            write!(f, " {name}")?;
        }
        f.write_str(")")
    }
}
