//! The listener that serves the state of candidates.

use super::Configuration;
use crate::complaint::redacted_address;
use crate::settings::table::{LISTEN, LISTEN_HOST};
use reqwest::Url;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use tenure_server::{Hosts, Server};
use tokio::net::TcpListener;

/// Parses an address to listen on: IP and port, `localhost:PORT`, or `:PORT` for all IPv4
/// addresses.
pub(crate) fn listen_address(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    let (address, port) = match text.rsplit_once(':')? {
        ("", port) => (Ipv4Addr::UNSPECIFIED, port),
        (name, port) if name.eq_ignore_ascii_case("localhost") => (Ipv4Addr::LOCALHOST, port),
        _ => return text.parse().ok(),
    };
    format!("{address}:{port}").parse().ok()
}

impl Configuration {
    /// Binds the listener at once, so that a port in use is known before anything starts. With
    /// `in_use_notes`, a port in use is only a note, since a candidate with these settings may use
    /// it.
    pub(crate) async fn listener(
        &mut self,
        in_use_notes: Option<&mut Vec<String>>,
    ) -> Option<TcpListener> {
        let value = self.resolved.text(&LISTEN)?;
        let (problem, advice) = match listen_address(&value) {
            None => (
                format!("\"{}\" is not an address with a port", redacted_address(&value)),
                LISTEN.advice,
            ),
            Some(address) => match Server::bind(address).await {
                Ok(listener) => return Some(listener),
                Err(error) if error.kind() == ErrorKind::AddrInUse && in_use_notes.is_some() => {
                    let note = format!(
                        "{address} is in use already, perhaps by a candidate with these settings"
                    );
                    in_use_notes?.push(note);
                    return None;
                }
                Err(error) => (
                    format!("{address} cannot be listened on: {error}"),
                    match error.kind() {
                        ErrorKind::AddrNotAvailable => {
                            "choose an address of this machine, or 0.0.0.0 or [::] for all of them"
                        }
                        ErrorKind::PermissionDenied => "choose a port from 1024 on",
                        _ => "choose another port, or end the program that listens there",
                    },
                ),
            },
        };
        self.complain(&LISTEN, &problem, advice);
        None
    }

    /// Complains about options that need a listener. Call it only if `--listen` is not set.
    pub(crate) fn check_unused_options(&mut self) {
        // A variable, unlike an option or the file, may be meant for other processes.
        if self.resolved.is_written(&LISTEN_HOST) {
            let problem = "this needs a listener, and there is none";
            let advice = format!("add {}, or leave it out", self.display_name(&LISTEN));
            self.complain_of_use(&LISTEN_HOST, problem, &advice);
        }
    }

    /// Returns the host names by which clients may address the listener.
    pub(crate) fn hosts(&mut self) -> Hosts {
        let hosts = Hosts::default();
        let names = self.resolved.text(&LISTEN_HOST).unwrap_or_default();
        for name in names.split(',').map(str::trim).filter(|_| !names.is_empty()) {
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
            if name != "*" && (name.is_empty() || !name.chars().all(is_name)) {
                let problem = format!("\"{}\" is not the name of a host", redacted_address(name));
                self.complain(&LISTEN_HOST, &problem, LISTEN_HOST.advice);
            }
            hosts.add(name);
        }
        hosts
    }

    /// Returns the host in the candidate's address, which the record shows.
    pub(crate) fn recorded_host(&self) -> Option<String> {
        let address = Url::parse(self.settings.options.address.as_deref()?).ok()?;
        address.host_str().map(str::to_owned)
    }

    /// Puts the listener's address on record if other machines can reach it and no address is set.
    pub(crate) fn default_address(&mut self, address: Option<SocketAddr>) {
        let reachable = address.filter(|a| !a.ip().is_unspecified() && !a.ip().is_loopback());
        if let Some(address) = reachable {
            self.settings.options.address.get_or_insert_with(|| format!("http://{address}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_other_programs_are_accepted() {
        for (text, address) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:8080", "[::1]:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            (" LocalHost:0 ", "127.0.0.1:0"),
            (":8080", "0.0.0.0:8080"),
        ] {
            assert_eq!(listen_address(text), address.parse().ok(), "{text}");
        }
        for text in
            ["", ":", "8080", "localhost", "localhost:", ":x", ":65536", "::8080", "example.com:80"]
        {
            assert_eq!(listen_address(text), None, "{text}");
        }
    }
}
