//! What the runner shows, and where it takes orders.

use super::{Configuration, host_setting};
use crate::complaint::{Complaint, shown};
use crate::control_token;
use reqwest::Url;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use tenure::server::{ControlToken, Hosts, Server};
use tenure::settings::names;
use tokio::net::TcpListener;

impl Configuration {
    /// Where to show what this candidate is.
    pub(crate) async fn listener(&mut self, flag: Option<&str>) -> Option<TcpListener> {
        self.bound("TENURE_LISTEN", "--listen", flag).await
    }

    /// Where to answer probes alone.
    pub(crate) async fn health_listener(&mut self, flag: Option<&str>) -> Option<TcpListener> {
        self.bound("TENURE_HEALTH_LISTEN", "--health-listen", flag).await
    }

    /// Listens at once, so that a port in use is known before anything begins.
    async fn bound(
        &mut self,
        variable: &str,
        option: &str,
        flag: Option<&str>,
    ) -> Option<TcpListener> {
        let (source, value) = host_setting(variable, option, flag)?;
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

    /// The names by which the listener may be asked: those that are given, and this machine's.
    pub(crate) fn hosts(&mut self, flag: Option<&str>, listens: bool) -> Hosts {
        let mut hosts = Hosts::default();
        if let Some((source, names)) = host_setting("TENURE_LISTEN_HOST", "--listen-host", flag) {
            if flag.is_some() && !listens {
                self.complaints.push(Complaint::new(
                    "--listen-host",
                    "nothing listens, so nobody asks by a name",
                    "add --listen, or leave it out",
                ));
            }
            for name in names.split(',').map(str::trim) {
                let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
                if name != "*" && (name.is_empty() || !name.chars().all(is_name)) {
                    let problem = format!("\"{}\" is no name of a host", shown(name));
                    let advice = "give names without a port, like tenure.example.com, or *";
                    self.complaints.push(Complaint::new(&source, problem, advice));
                }
                hosts.add(name);
            }
        }
        if let Some(machine) = hostname::get().ok().and_then(|name| name.into_string().ok()) {
            hosts.add(&machine);
        }
        hosts
    }

    /// The host of the address that is put on record.
    pub(crate) fn host_on_record(&self) -> Option<String> {
        let address = Url::parse(self.settings.get(names::ADDRESS)?).ok()?;
        address.host_str().map(str::to_owned)
    }

    /// Without another address, that of a listener which others can reach is put on record.
    pub(crate) fn default_address(&mut self, listener: Option<&TcpListener>) {
        let address = listener.and_then(|listener| listener.local_addr().ok());
        let reachable = address.filter(|a| !a.ip().is_unspecified() && !a.ip().is_loopback());
        if let (Some(address), None) = (reachable, self.settings.get(names::ADDRESS)) {
            self.settings.set(names::ADDRESS, format!("http://{address}"));
        }
    }

    /// The token by which operators may steer this candidate, over a listener.
    pub(crate) fn control_token(
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
