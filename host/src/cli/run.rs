//! `tenure run`: candidates until a signal.

use super::args::RunArguments;
use super::candidacy::Candidacy;
use super::complaint;
use super::configuration::Configuration;
use super::file::{Elections, Told};
use super::log::Log;
use super::signals::{Signals, StatusSignal};
use super::supervisor;
use super::{UNUSABLE, control_token, fail, standing};
use crate::clock::BootClock;
use crate::component::Engine;
use crate::server::{Board, Hosts, Server};
use crate::settings::names;
use clap::ArgMatches;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::select;
use tokio::sync::{Notify, watch};

/// A second signal did not wait for the lease to be released.
const IMPATIENT: u8 = 1;

/// Signals that follow the first within this time mean the same.
const REPEATED: Duration = Duration::from_secs(1);

/// `given` is what `arguments` were made of.
pub(super) async fn run(arguments: RunArguments, given: &ArgMatches) -> ExitCode {
    // Before anything is sent: a signal in between must not leave a lease behind.
    let (mut signals, mut status) = match (Signals::new(), StatusSignal::new()) {
        (Ok(signals), Ok(status)) => (signals, status),
        (Err(error), _) | (_, Err(error)) => {
            return fail(format_args!("signals cannot be handled: {error}"));
        }
    };
    let engine = match Engine::new() {
        Ok(engine) => engine,
        Err(error) => return fail(format_args!("WebAssembly cannot be run here: {error:#}")),
    };
    let clock = BootClock::new();
    let mut elections = Elections::of(arguments, given);
    let told = std::mem::take(&mut elections.told);
    let Some(first) = told.first() else { return refuse(&elections) };
    // What holds for the process is the same in each of them.
    let of_process = &first.arguments;
    let format = of_process.log;

    let mut configurations: Vec<_> =
        told.iter().map(|told| Configuration::of_run(&told.arguments)).collect();
    let (log, written) = match Log::start(format) {
        Ok(started) => started,
        Err(error) => return fail(format_args!("the log cannot be written: {error}")),
    };
    let logs = logs(&log, &configurations);
    drop(log);
    let (mut listener, mut probes, mut control) = (None, None, None);
    let mut hosts = Hosts::default();
    if let Some(first) = configurations.first_mut() {
        listener = first.listener(of_process.listen.as_deref()).await;
        probes = first.health_listener(of_process.health_listen.as_deref()).await;
        hosts = first.hosts(of_process.listen_host.as_deref(), listener.is_some());
        let token = of_process.control_token_file.as_deref();
        control = first.control_token(token, listener.is_some());
    }
    configurations.iter().filter_map(Configuration::host_on_record).for_each(|h| hosts.add(&h));
    let mut candidacies = Vec::new();
    for ((Told { arguments, origins }, mut configuration), log) in
        told.iter().zip(configurations).zip(logs)
    {
        configuration.default_address(listener.as_ref());
        match Candidacy::judge(&engine, &clock, arguments, &mut configuration, log).await {
            Ok(candidacy) => candidacies.extend(candidacy),
            Err(problem) => return fail(problem),
        }
        elections.complain(origins, configuration.complaints);
    }
    // One that cannot begin means that none does.
    if !elections.complaints.is_empty() || candidacies.len() < told.len() {
        return refuse(&elections);
    }

    let boards: Vec<Arc<Board>> = candidacies.iter().map(|c| c.board.clone()).collect();
    let shown = candidacies.iter().map(|c| (c.board.clone(), c.control(control.as_ref())));
    let serve = |listener| Server::serve_all(listener, shown.collect(), &clock, hosts);
    let answer = |listener| Server::probes(listener, boards.clone(), &clock);
    let served = (listener.map(serve).transpose(), probes.map(answer).transpose());
    let (server, probes) = match served {
        (Ok(server), Ok(probes)) => (server, probes),
        (Err(error), _) | (_, Err(error)) => return fail(error),
    };
    let at = |server: &Option<Server>, words| {
        server.as_ref().map(|server| format!("{words} on http://{}", server.address()))
    };
    let mut also: Vec<String> = engine.uncached().map(str::to_owned).into_iter().collect();
    also.extend(control_token::exposed(of_process.control_token_file.as_deref()));
    also.extend(at(&server, "listening"));
    also.extend(at(&probes, "answering probes"));
    let changed = Arc::new(Notify::new());
    let mut contenders = Vec::new();
    for candidacy in candidacies {
        candidacy.begin(&std::mem::take(&mut also));
        contenders.push(candidacy.contender(clock.clone(), &changed));
    }
    let asked = watch::Sender::new(false);
    let insisted = async {
        signals.next().await;
        asked.send_replace(true);
        changed.notify_one();
        // The same request may arrive more than once, from a supervisor and from the terminal.
        let heard = Instant::now();
        while heard.elapsed() < REPEATED {
            signals.next().await;
        }
    };
    let candidates = contenders.iter_mut().map(|contender| {
        let mut asked = asked.subscribe();
        let leave = async move {
            // The sender outlives it.
            let _ = asked.wait_for(|asked| *asked).await;
        };
        Box::pin(contender.run(leave)) as Pin<Box<dyn Future<Output = ()>>>
    });
    let code = select! {
        () = all(candidates.collect()) => ExitCode::SUCCESS,
        () = insisted => ExitCode::from(IMPATIENT),
        () = standing::on_signal(&mut status, &boards, &clock, format) => ExitCode::SUCCESS,
        () = supervisor::keep_informed(&boards, &clock, &changed, &asked) => ExitCode::SUCCESS,
    };
    drop((server, probes));
    // The last clones of the log go with them.
    for contender in contenders {
        contender.end().await;
    }
    written.wait();
    code
}

fn refuse(elections: &Elections) -> ExitCode {
    complaint::print(complaint::report(&elections.complaints));
    ExitCode::from(UNUSABLE)
}

/// A log for each candidate. Where there are several, their lines say which.
fn logs(log: &Log, configurations: &[Configuration]) -> Vec<Log> {
    let setting = |c: &Configuration, name| c.settings.get(name).unwrap_or_default().to_owned();
    let elections = configurations.iter().map(|c| setting(c, names::ELECTION));
    let elections: Vec<_> = elections.filter(|_| configurations.len() > 1).collect();
    let candidates = configurations.iter().map(|c| setting(c, names::NAME));
    log.shared(&candidates.collect::<Vec<_>>(), &elections)
}

/// Ends when all of them have ended.
async fn all(mut futures: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_have_ended_when_the_last_one_has() {
        let (first, second) = (Notify::new(), Notify::new());
        first.notify_one();
        let futures: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> =
            vec![Box::pin(first.notified()), Box::pin(second.notified())];
        let mut both = std::pin::pin!(all(futures));
        assert!(std::future::poll_fn(|c| Poll::Ready(both.as_mut().poll(c).is_pending())).await);
        second.notify_one();
        both.await;
    }
}
