//! Which addresses a name may stand for.

use super::error::{Prohibited, Unresolved};
use crate::handler::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};
use tower_service::Service;

/// Whom names may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Nobody on this machine or its link: for code that chooses its URLs. Else an allowed name could
    /// be pointed at the machine's identity endpoint.
    OfOthers,
    /// Anybody: for the URL of an operator.
    OfAll,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let names = *self;
        let prohibits = move |found: &SocketAddr| names == Self::OfOthers && is_local(found.ip());
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(Unresolved)?;
            let (local, public): (Vec<_>, Vec<_>) = found.partition(prohibits);
            if public.is_empty() && !local.is_empty() {
                return Err(Prohibited { name: name.as_str().to_owned() }.into());
            }
            Ok(public.into_iter())
        })
    }
}

/// Loopback, link-local or unspecified, also inside of IPv6.
fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_unspecified()
                || embedded(v6).is_some_and(|v4| is_local(v4.into()))
        }
    }
}

fn embedded(address: Ipv6Addr) -> Option<std::net::Ipv4Addr> {
    // ::a.b.c.d and ::ffff:a.b.c.d, and what NAT64 translates.
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            let [.., a, b, c, d] = address.octets();
            Some([a, b, c, d].into())
        }
        _ => address.to_ipv4(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses() {
        let local = |text: &str| is_local(text.parse().unwrap());
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "0.0.0.0",
            "::1",
            "::",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "::127.0.0.1",
        ] {
            assert!(local(text), "{text}");
        }
        for text in ["10.0.0.1", "20.60.1.1", "2603:1030::1", "::ffff:20.60.1.1", "fd00::1"] {
            assert!(!local(text), "{text}");
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_refused_unless_an_operator_gave_it() {
        let localhost = || "localhost".parse::<Name>().unwrap();
        let Err(error) = Names::OfOthers.call(localhost()).await else {
            panic!("localhost must be refused");
        };
        assert!(error.is::<Prohibited>(), "{error}");
        let found = Names::OfAll.call(localhost()).await.unwrap();
        assert!(found.map(|found| found.ip()).any(is_local));
    }
}
