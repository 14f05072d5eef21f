//! `tenure run`: a candidate until a signal.

use super::args::RunArguments;
use super::complaint;
use super::configuration::Configuration;
use super::handler;
use super::log::Log;
use super::signals::Signals;
use super::{UNUSABLE, fail, ready};
use crate::clock::{BootClock, Clock as _};
use crate::component::{CheckError, ElectionComponent, Engine};
use crate::runner::{Event, Order, Runner};
use crate::server::{Board, Control, Server};
use crate::settings::names;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::select;
use tokio::sync::{Notify, mpsc};

/// A second signal did not wait for the lease to be released.
const IMPATIENT: u8 = 1;

/// So many orders of operators may wait.
const ORDERS: usize = 8;

/// Signals that follow the first within this time mean the same.
const REPEATED: Duration = Duration::from_secs(1);

pub(super) async fn run(arguments: &RunArguments) -> ExitCode {
    // Before anything is sent: a signal in between must not leave a lease behind.
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(format_args!("signals cannot be handled: {error}")),
    };
    let engine = match Engine::new() {
        Ok(engine) => engine,
        Err(error) => return fail(format_args!("WebAssembly cannot be run here: {error:#}")),
    };
    let clock = BootClock::new();
    let mut configuration = Configuration::of_run(arguments);
    let candidate = configuration.settings.get(names::NAME).unwrap_or_default();
    let (log, written) = match Log::start(arguments.log, candidate) {
        Ok(started) => started,
        Err(error) => return fail(format_args!("the log cannot be written: {error}")),
    };

    let work = handler::of_run(&engine, &clock, arguments, &mut configuration, &log);
    let grace = configuration.grace(arguments.grace.as_deref());
    let listener = configuration.listener(arguments.listen.as_deref()).await;
    configuration.default_address(listener.as_ref());
    let token = arguments.control_token_file.as_deref();
    let token = configuration.control_token(token, listener.is_some());
    let ready_cmd = configuration.ready_cmd(arguments.ready_cmd.as_deref());
    let settings = configuration.settings.clone();
    let elector = match ElectionComponent::new(&engine, settings, &clock) {
        Ok(elector) => elector.trusting(configuration.authorities.clone()),
        Err(error) => return fail(error),
    };
    let mut notes = Vec::new();
    match elector.check().await {
        Ok(needs) => notes = needs.notes,
        Err(CheckError::Settings(complaints)) => configuration.add(complaints),
        Err(CheckError::Component(error)) => return fail(error),
    }
    let (Some(work), []) = (work, configuration.complaints.as_slice()) else {
        complaint::print(complaint::report(&configuration.complaints));
        return ExitCode::from(UNUSABLE);
    };

    for detail in notes {
        log.event(&Event::Note { detail });
    }
    let board = Arc::new(board(&configuration, &clock));
    let (order, mut orders) = mpsc::channel(ORDERS);
    let control = token.map(|token| Control { token, orders: order.clone() });
    let serve = |listener| Server::serve(listener, board.clone(), &clock, control);
    let server = match listener.map(serve).transpose() {
        Ok(server) => server,
        Err(error) => return fail(error),
    };
    if let Some(server) = &server {
        log.event(&Event::Note { detail: format!("listening on http://{}", server.address()) });
    }
    let noted = log.clone();
    let (stepped, happened) = (board.clone(), board);
    let (reading, told_at) = (clock.reading(), clock.reading());
    let mut runner = Runner::new(elector, work.handler, clock)
        .on_report(move |report, taken_at| stepped.stepped(report, taken_at, reading.now()))
        .on_event(move |event| {
            happened.happened(&event, told_at.now());
            log.event(&event);
        });
    if let Some(grace) = grace.or(work.grace) {
        runner = runner.grace(grace);
    }
    let readiness = ready_cmd.map(|command| {
        // Before the first step, so that it does not contend meanwhile.
        let _ = order.try_send(Order::Pause);
        tokio::spawn(ready::wait(command, order.clone(), move |event| noted.event(&event)))
    });
    let asked = Notify::new();
    let insisted = async {
        signals.next().await;
        asked.notify_one();
        // The same request may arrive more than once, from a supervisor and from the terminal.
        let heard = Instant::now();
        while heard.elapsed() < REPEATED {
            signals.next().await;
        }
    };
    let code = select! {
        () = runner.run_with(asked.notified(), &mut orders) => ExitCode::SUCCESS,
        () = insisted => ExitCode::from(IMPATIENT),
    };
    drop(server);
    if let Some(readiness) = readiness {
        // It holds a clone of the log, which is to end.
        readiness.abort();
        let _ = readiness.await;
    }
    // The last clones of the log go with it.
    drop(runner);
    written.wait();
    code
}

/// What this candidate shows of itself.
fn board(configuration: &Configuration, clock: &BootClock) -> Board {
    let setting = |name| configuration.settings.get(name).unwrap_or_default();
    Board::new(setting(names::ELECTION), setting(names::NAME), clock.now())
}
