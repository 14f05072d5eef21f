//! What every demo has: a store, a sink, and candidates that can be started and given orders.

use super::act::Act;
use super::candidate::Setup;
use super::heard::{Event, Heard, What, listens};
use super::link::Link;
use super::sink::Sink;
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use tempfile::NamedTempFile;
use tenure::handler::EXAMPLE_HANDLER;
use tenure::settings::{Replacement, Variables, names};
use tenure_store::{self as store, Store};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What the candidates contend for.
pub(super) const ELECTION: &str = "demo/report";

/// How soon a leader is replaced whose machine dies.
pub(super) const FAILOVER: &str = "3s";

/// How soon a leader is replaced, with these settings. Only on Linux can the demo find the process below a supervisor,
/// and kill it.
pub(super) fn replacement() -> io::Result<Replacement> {
    let mut settings = Variables::new().with(names::FAILOVER, FAILOVER);
    settings
        .set(names::ADDRESS, "http://127.0.0.1")
        .set(names::LAST_WILL, cfg!(target_os = "linux").to_string());
    settings
        .replacement()
        .ok_or_else(|| io::Error::other("the periods of the demo do not fit together"))
}

pub(super) struct Stage {
    pub setup: Setup,
    pub store: Store,
    pub sink: Sink,
    pub heard: mpsc::UnboundedReceiver<Heard>,
    pub listener: mpsc::UnboundedSender<Heard>,
    /// The ways to the candidates. Their addresses stay, whatever port a process listens on.
    pub faces: Vec<Link>,
    orders: HashMap<usize, mpsc::UnboundedSender<Act>>,
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
        let mut faces = Vec::new();
        for _ in 0..candidates {
            faces.push(Link::start(tasks).await?);
        }
        let setup = Setup {
            program: std::env::current_exe()?,
            handler: handler.path().to_owned(),
            connection_strings: vec![store.connection_string(); candidates],
            addresses: faces.iter().map(Link::address).collect(),
            election: ELECTION,
            sink: address,
            failover: FAILOVER,
            every: "2s",
        };
        let (listener, heard) = mpsc::unbounded_channel();
        Ok(Self {
            setup,
            store,
            sink,
            heard,
            listener,
            faces,
            orders: HashMap::new(),
            _handler: handler,
        })
    }

    /// What a candidate said or did next.
    pub(super) async fn hear(&mut self) -> Option<Heard> {
        let heard = self.heard.recv().await?;
        if let What::Event(Event::Note { detail }) = &heard.what
            && let Some(address) = listens(detail).and_then(|address| address.parse().ok())
            && let Some(face) = self.faces.get(heard.who)
        {
            face.lead_to(address);
        }
        Some(heard)
    }

    /// Does something to the candidate `name`; but it is asked to resign elsewhere.
    pub(super) fn act(
        &mut self,
        act: Act,
        who: usize,
        name: &str,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<()> {
        match act {
            Act::Start => {
                let orders = self.setup.start(who, name, self.listener.clone(), tasks)?;
                self.orders.insert(who, orders);
            }
            Act::Partition | Act::Heal => {
                if let Some(face) = self.faces.get(who) {
                    face.set_cut(act == Act::Partition);
                }
            }
            // It may have ended by itself, which is heard of.
            _ => drop(self.orders.get(&who).map(|orders| orders.send(act))),
        }
        Ok(())
    }
}
