//! `tenure demo`: an election to watch. Real processes contend for a lease of the embedded store;
//! one leader is killed, the next one is stopped, and others take over.

mod candidate;
mod frame;
mod heard;
mod ink;
mod judge;
mod lane;
mod note;
mod picture;
mod plot;
mod screen;
#[cfg(test)]
mod script;
mod sink;
mod story;
mod summary;

use super::args::DemoArguments;
use super::complaint;
use super::fail;
use super::signals::Signals;
use crate::store::{self, Store};
use candidate::{Order, Setup};
use chrono::Utc;
use heard::Heard;
use plot::{Action, Plot};
use screen::Screen;
use sink::Sink;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;
use story::Story;
use tempfile::NamedTempFile;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// The handler that the leaders run: `examples/rust`.
const HANDLER: &[u8] = include_bytes!(env!("TENURE_EXAMPLE_HANDLER"));

/// The most that can be told apart at a glance, and have a name.
const NAMES: [&str; 9] = ["anna", "ben", "cleo", "dora", "emil", "finn", "gina", "hugo", "ida"];

/// The shortest lease that the service grants.
const LEASE: Duration = Duration::from_secs(15);

/// By then something is wrong that waiting does not mend. Usual are 25 s to 35 s.
const LIMIT: Duration = Duration::from_secs(56);

/// Between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// The demo did not show what it should.
const FAILED: u8 = 1;

/// As shells report the end by SIGINT.
const INTERRUPTED: u8 = 130;

/// How the performance ended.
enum End {
    Played,
    Interrupted,
    /// Something did not happen.
    Late(String),
}

pub(super) async fn demo(arguments: &DemoArguments) -> ExitCode {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(format_args!("signals cannot be handled: {error}")),
    };
    let mut tasks = JoinSet::new();
    let names = NAMES.get(..usize::from(arguments.candidates)).unwrap_or(&NAMES);
    let code = match Demo::prepare(names, &mut tasks).await {
        Ok(mut demo) => demo.perform(&mut signals, &mut tasks).await,
        Err(error) => return fail(format_args!("the demo could not be set up: {error}")),
    };
    // Kills what is left of the candidates.
    tasks.shutdown().await;
    code.unwrap_or_else(|error| {
        complaint::print(format_args!("tenure: the demo could not go on: {error}\n"));
        ExitCode::from(FAILED)
    })
}

struct Demo {
    setup: Setup,
    story: Story,
    screen: Screen,
    sink: Sink,
    heard: mpsc::UnboundedReceiver<Heard>,
    listener: mpsc::UnboundedSender<Heard>,
    orders: Vec<Option<mpsc::UnboundedSender<Order>>>,
    /// They live as long as the candidates.
    _store: Store,
    _handler: NamedTempFile,
}

impl Demo {
    async fn prepare(names: &[&'static str], tasks: &mut JoinSet<()>) -> io::Result<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let store = store::run(any, Vec::new()).await?;
        let (sink, address) = Sink::start(tasks).await?;
        let mut handler =
            tempfile::Builder::new().prefix("tenure-demo-").suffix(".wasm").tempfile()?;
        handler.write_all(HANDLER)?;
        handler.flush()?;
        let setup = Setup {
            program: std::env::current_exe()?,
            handler: handler.path().to_owned(),
            connection_string: store.connection_string(),
            sink: address,
            lease: "15s",
            every: "2s",
        };
        let (listener, heard) = mpsc::unbounded_channel();
        Ok(Self {
            setup,
            story: Story::new(Utc::now(), names, LEASE),
            screen: Screen::new(),
            sink,
            heard,
            listener,
            orders: names.iter().map(|_| None).collect(),
            _store: store,
            _handler: handler,
        })
    }

    async fn perform(
        &mut self,
        signals: &mut Signals,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<ExitCode> {
        let end = self.play(signals, tasks).await?;
        let now = self.story.at(Utc::now());
        self.screen.freeze(&self.story, now)?;
        if matches!(end, End::Interrupted) {
            complaint::print("\ntenure: interrupted; all candidates are ended\n");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        let overlapping = judge::overlapping(&self.story.turns, &self.sink.deliveries());
        self.screen.print(&summary::table(&self.story, overlapping))?;
        let problem = match end {
            End::Late(what) => {
                Some(format!("after {} s it still waited for {what}", LIMIT.as_secs()))
            }
            _ => summary::verdict(&self.story, overlapping).err(),
        };
        if let Some(problem) = problem {
            complaint::print(format_args!("\ntenure: the demo failed: {problem}\n"));
            return Ok(ExitCode::from(FAILED));
        }
        self.screen.print(&summary::farewell())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn play(&mut self, signals: &mut Signals, tasks: &mut JoinSet<()>) -> io::Result<End> {
        let mut plot = Plot::default();
        let mut frames = interval_at(Instant::now() + FRAME, FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let limit = Instant::now() + LIMIT;
        loop {
            let mut now = self.story.at(Utc::now());
            while let Some(action) = plot.next(&self.story, now) {
                self.act(action, now, tasks)?;
                now = self.story.at(Utc::now());
            }
            self.screen.show(&self.story, now)?;
            if plot.is_over() {
                return Ok(End::Played);
            }
            tokio::select! {
                biased;
                () = signals.next() => return Ok(End::Interrupted),
                () = tokio::time::sleep_until(limit) => {
                    return Ok(End::Late(plot.waits_for(&self.story)));
                }
                Some(heard) = self.heard.recv() => self.story.hear(heard),
                _ = frames.tick() => {}
            }
        }
    }

    fn act(&mut self, action: Action, now: Duration, tasks: &mut JoinSet<()>) -> io::Result<()> {
        match action {
            Action::Start(who) => {
                let name = self.story.name(who);
                let orders = self.setup.start(who, name, self.listener.clone(), tasks)?;
                if let Some(place) = self.orders.get_mut(who) {
                    *place = Some(orders);
                }
                self.story.start(now, who);
            }
            Action::Kill(who) => {
                self.story.kill(now, who);
                self.order(who, Order::Kill);
            }
            Action::Stop(who) => {
                self.story.stop(now, who);
                self.order(who, Order::Stop);
            }
            Action::Finish => self.story.finish(now),
            Action::Dismiss(who) => {
                self.story.dismiss(now, who);
                self.order(who, Order::Stop);
            }
        }
        Ok(())
    }

    fn order(&self, who: usize, order: Order) {
        if let Some(Some(orders)) = self.orders.get(who) {
            // It may have ended by itself, which is heard of.
            let _ = orders.send(order);
        }
    }
}
