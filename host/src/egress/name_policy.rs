//! Policy for the addresses that a name may resolve to.

use super::error::LookupError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Azure's wire server. Every virtual machine can reach it, but its data are meant only for the
/// machine's agent.
const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Policy for the addresses that a name may resolve to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamePolicy {
    /// Only addresses outside this machine, its link and the platform's own services.
    ///
    /// This is for code that chooses its URLs. Otherwise an allowed name could point to the
    /// machine's identity endpoint, or to a port that only the machine itself can reach.
    RemoteOnly,
    /// Any address. This is for URLs that an operator configured.
    Any,
}

impl NamePolicy {
    /// Removes prohibited addresses from those that `name` resolved to. `local` has the addresses
    /// of this machine. Addresses in URLs are checked by the allow-list instead.
    pub(super) fn filter_addresses(
        self,
        name: &str,
        addresses: Vec<SocketAddr>,
        local: &[IpAddr],
    ) -> Result<Vec<SocketAddr>, LookupError> {
        let is_prohibited =
            |address: &SocketAddr| self == Self::RemoteOnly && is_local(address.ip(), local);
        let (near, far): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_prohibited);
        match near.first() {
            Some(address) if far.is_empty() => {
                Err(LookupError::Prohibited { name: name.to_owned(), address: address.ip() })
            }
            _ => Ok(far),
        }
    }
}

/// Returns true if the address belongs to this machine, its link or the platform's own service, or
/// may be translated into such an address. Names must not resolve to it.
pub(super) fn is_local(address: IpAddr, local: &[IpAddr]) -> bool {
    local.contains(&address)
        || match address {
            IpAddr::V4(v4) => {
                v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || v4 == WIRE_SERVER
            }
            IpAddr::V6(v6) => {
                v6.is_loopback()
                    || v6.is_unicast_link_local()
                    || v6.is_unspecified()
                    || may_embed_any_address(v6)
                    || embedded(v6).is_some_and(|v4| is_local(v4.into(), local))
            }
        }
}

/// Returns true for addresses that are translated into unknown IPv4 addresses, by 6to4 or by a
/// NAT64 of the local network.
fn may_embed_any_address(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0x2002, ..] | [0x64, 0xff9b, 1, ..])
}

fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    // ::a.b.c.d, ::ffff:a.b.c.d, and addresses that NAT64 translates.
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

    fn filtered(address: &str, local: &[&str]) -> Result<Vec<SocketAddr>, LookupError> {
        let local: Vec<_> = local.iter().map(|address| address.parse().unwrap()).collect();
        let addresses = vec![SocketAddr::new(address.parse().unwrap(), 0)];
        NamePolicy::RemoteOnly.filter_addresses("name", addresses, &local)
    }

    #[test]
    fn names_do_not_reach_this_machine_its_link_or_the_platforms_own_services() {
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
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "64:ff9b::a83f:8110",
            // 6to4, for any embedded address: 127.0.0.1, 20.60.1.1.
            "2002:7f00:1::",
            "2002:143c:101::1",
            "64:ff9b:1::7f00:1",
            "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
        ] {
            assert!(filtered(text, &[]).is_err(), "{text}");
        }
        for text in [
            "10.0.0.1",
            "20.60.1.1",
            "168.63.129.17",
            "2001::1",
            "2003::1",
            "2603:1030::1",
            "64:ff9b::143c:101",
            "64:ff9b:2::1",
            "::ffff:20.60.1.1",
            "fd00::1",
        ] {
            assert!(filtered(text, &[]).is_ok(), "{text}");
        }
    }

    #[test]
    fn names_do_not_reach_the_addresses_of_this_machines_interfaces() {
        let local = ["10.0.0.4", "203.0.113.9", "fd00::4"];
        for text in ["10.0.0.4", "203.0.113.9", "fd00::4", "::ffff:10.0.0.4", "64:ff9b::a00:4"] {
            assert!(filtered(text, &local).is_err(), "{text}");
        }
        for text in ["10.0.0.5", "203.0.113.8", "fd00::5"] {
            assert!(filtered(text, &local).is_ok(), "{text}");
        }
    }

    #[test]
    fn only_prohibited_addresses_are_removed() {
        let addresses =
            ["10.0.0.4", "20.60.1.1"].map(|text| SocketAddr::new(text.parse().unwrap(), 0));
        let local = ["10.0.0.4".parse().unwrap()];
        assert_eq!(
            NamePolicy::RemoteOnly.filter_addresses("name", addresses.to_vec(), &local).unwrap(),
            addresses[1..]
        );
        assert_eq!(
            NamePolicy::Any.filter_addresses("name", addresses.to_vec(), &local).unwrap(),
            addresses
        );
    }
}
