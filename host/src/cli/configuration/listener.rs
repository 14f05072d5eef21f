//! What the runner shows, and where it takes orders.

use super::{Configuration, host_setting};
use crate::cli::complaint::{Complaint, shown};
use crate::cli::control_token;
use crate::server::{ControlToken, Server};
use crate::settings::names;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use tokio::net::TcpListener;

/// The variable of `--listen`.
const LISTEN: &str = "TENURE_LISTEN";

impl Configuration {
    /// Where to show what this candidate is. Listens at once, so that a port in use is known before
    /// anything begins.
    pub(in crate::cli) async fn listener(&mut self, flag: Option<&str>) -> Option<TcpListener> {
        let (source, value) = host_setting(LISTEN, "--listen", flag)?;
        let (problem, advice) = match value.trim().parse::<SocketAddr>() {
            Err(_) => (
                format!("\"{}\" is no address with a port", shown(&value)),
                "give one like 0.0.0.0:8080, [::]:8080 or 127.0.0.1:8080",
            ),
            Ok(address) => match Server::bind(address).await {
                Ok(listener) => return Some(listener),
                Err(error) => (
                    format!("{address} cannot be listened on: {error}"),
                    match error.kind() {
                        ErrorKind::AddrNotAvailable => {
                            "choose an address of this machine, or 0.0.0.0 or [::] for all of them"
                        }
                        ErrorKind::PermissionDenied => "choose a port from 1024 on",
                        _ => "choose another port, or end what listens there",
                    },
                ),
            },
        };
        self.complaints.push(Complaint::new(source, problem, advice));
        None
    }

    /// Without another address, that of a listener which others can reach is put on record.
    pub(in crate::cli) fn default_address(&mut self, listener: Option<&TcpListener>) {
        let address = listener.and_then(|listener| listener.local_addr().ok());
        let reachable = address.filter(|a| !a.ip().is_unspecified() && !a.ip().is_loopback());
        if let (Some(address), None) = (reachable, self.settings.get(names::ADDRESS)) {
            self.settings.set(names::ADDRESS, format!("http://{address}"));
        }
    }

    /// The token by which operators may steer this candidate, over a listener.
    pub(in crate::cli) fn control_token(
        &mut self,
        flag: Option<&Path>,
        listens: bool,
    ) -> Option<ControlToken> {
        if flag.is_some() && !listens {
            self.complaints.push(Complaint::new(
                "--control-token-file",
                "nothing listens, so nobody could use the token",
                "add --listen, or leave it out",
            ));
        }
        match control_token::read(flag) {
            Ok(token) => token,
            Err(complaint) => {
                self.complaints.push(complaint);
                None
            }
        }
    }
}
