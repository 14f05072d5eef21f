//! What every demo has: a store, a sink, and candidates that can be started and given orders.

use super::candidate::{Order, Setup};
use super::heard::Heard;
use super::sink::Sink;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use tempfile::NamedTempFile;
use tenure::handler::EXAMPLE_HANDLER;
use tenure_store::{self as store, Store};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What the candidates contend for.
pub(super) const ELECTION: &str = "demo/report";

pub(super) struct Stage {
    pub setup: Setup,
    pub store: Store,
    pub sink: Sink,
    pub heard: mpsc::UnboundedReceiver<Heard>,
    pub listener: mpsc::UnboundedSender<Heard>,
    orders: Vec<Option<mpsc::UnboundedSender<Order>>>,
    /// It lives as long as the candidates.
    _handler: NamedTempFile,
}

impl Stage {
    /// For so many candidates, none of them started. All of it runs in tasks of `tasks`.
    pub(super) async fn build(candidates: usize, tasks: &mut JoinSet<()>) -> io::Result<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let store = store::run(any, Vec::new()).await?;
        let (sink, address) = Sink::start(tasks).await?;
        let mut handler =
            tempfile::Builder::new().prefix("tenure-demo-").suffix(".wasm").tempfile()?;
        handler.write_all(EXAMPLE_HANDLER)?;
        handler.flush()?;
        let setup = Setup {
            program: std::env::current_exe()?,
            handler: handler.path().to_owned(),
            connection_strings: vec![store.connection_string(); candidates],
            control_token: None,
            election: ELECTION,
            sink: address,
            lease: "15s",
            every: "2s",
        };
        let (listener, heard) = mpsc::unbounded_channel();
        let orders = vec![None; candidates];
        Ok(Self { setup, store, sink, heard, listener, orders, _handler: handler })
    }

    /// Starts the candidate `name`.
    pub(super) fn start(
        &mut self,
        who: usize,
        name: &str,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<()> {
        let orders = self.setup.start(who, name, self.listener.clone(), tasks)?;
        if let Some(place) = self.orders.get_mut(who) {
            *place = Some(orders);
        }
        Ok(())
    }

    pub(super) fn order(&self, who: usize, order: Order) {
        if let Some(Some(orders)) = self.orders.get(who) {
            // It may have ended by itself, which is heard of.
            let _ = orders.send(order);
        }
    }
}
