//! One election of `tenure run`, with validated settings.

use super::handler::{self, WorkDescription};
use super::ready;
use crate::configuration::{Configuration, Split, expiry};
use crate::output::VERSION;
use crate::output::log::{Log, LogContext};
use crate::output::telemetry::CandidateTelemetry;
use crate::output::times::schedule_zone;
use crate::settings::ResolvedSettings;
use crate::settings::table::{GRACE, READY_CMD};
use crate::supervisor::Link;
use chrono::Utc;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::{CandidateSettings, Election, Elector as _, Order, Runner};
use tenure::handler::{Handler, from_fn};
use tenure::status::TakeoverTime;
use tenure::{Event, RootCertificates};
use tenure_base::duration::format_duration;
use tenure_clock::{BootClock, Clock as _};
use tenure_core::{Needs, Role, Settings};
use tenure_members::{
    CandidateContext, LEAVE_WITHIN, MemberSettings, ShareHandler, resign_for_shares,
};
use tenure_server::{Board, Watcher};
use tenure_shares::{Sign, SignTiming};
use tenure_wasmtime::{CheckError, ElectionComponent, Engine};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

/// Capacity of the queue of orders.
const ORDERS: usize = 8;

/// The visible state of a candidate, and the queue of its orders. It exists before the settings are
/// validated, so that the listener answers while components are compiled.
pub(crate) struct CandidateFront {
    pub board: Arc<Board>,
    order: mpsc::Sender<Order>,
    orders: mpsc::Receiver<Order>,
}

/// A validated candidate that has not started yet.
pub(crate) struct Candidacy {
    elector: ElectionComponent,
    handler: Box<dyn Handler>,
    grace: Option<Duration>,
    ready_cmd: Option<String>,
    ready: watch::Sender<bool>,
    /// The file of the authorities that a supervisor trusts when it sends the last will.
    ca_file: Option<OsString>,
    pub settings: Settings,
    pub work: WorkDescription,
    /// Description of the credential, and the reason why it is used.
    pub credential: String,
    /// The origins that receive requests of the election.
    pub origins: Vec<String>,
    /// Notes to log at the start.
    pub notes: Vec<String>,
    log: Log,
    /// True if this candidate watches the leader, because it has an address itself or observes.
    watches_leader: bool,
    pub board: Arc<Board>,
    /// Sender of orders to this candidate.
    pub order: mpsc::Sender<Order>,
    orders: mpsc::Receiver<Order>,
    /// Set for the coordinating election: the work is split into shares.
    pub coordination: Option<Coordination>,
    /// The election, for finding members with shares. This candidate runs all of the work when it
    /// leads, so it resigns for them. None with `--shares`, or if this candidate observes.
    member_lookup: Option<Election>,
}

/// State that the coordinating candidate needs for the shares of the work.
pub(crate) struct Coordination {
    /// The settings that each share's settings derive from.
    pub resolved: ResolvedSettings,
    /// For requests outside the candidate's steps.
    pub election: Arc<Election>,
    pub membership: MemberSettings,
    /// True if a supervisor deletes the member's blob when this process has died.
    pub leaves_wills: bool,
}

impl Coordination {
    /// `read` has the validated settings of the candidate, and `grace` is the grace of its turns.
    fn new(
        election: Election,
        configuration: &Configuration,
        split: Split,
        read: &Settings,
        grace: Option<Duration>,
    ) -> Self {
        let timings = &read.timings;
        let timing = SignTiming::from_failover(
            timings.failover.map_or(timings.lease, |failover| failover.within),
        );
        let sign = Sign {
            member: read.name.clone(),
            weight: split.capacity,
            max_shares: split.max_shares,
            timing,
        };
        let membership = MemberSettings {
            sign,
            count: split.count,
            break_after: 2 * timings.lease + grace.unwrap_or_default(),
            leave_within: LEAVE_WITHIN,
        };
        Self {
            resolved: configuration.resolved.clone(),
            election: Arc::new(election),
            membership,
            leaves_wills: configuration.settings.options.last_will == Some(true),
        }
    }
}

/// The loop of a candidate, with its background tasks.
pub(crate) struct Contender {
    runner: Runner<ElectionComponent, BootClock>,
    orders: mpsc::Receiver<Order>,
    /// Tasks that run the readiness check, watch the leader, and look for members with shares.
    background: JoinSet<()>,
}

impl CandidateFront {
    pub(crate) fn new(configuration: &Configuration, clock: &BootClock) -> Self {
        let board = Arc::new(new_board(configuration, clock));
        board.delay_start();
        let (order, orders) = mpsc::channel(ORDERS);
        Self { board, order, orders }
    }
}

impl Candidacy {
    /// Validates the settings and creates the candidate. Sends nothing. Returns none if there are
    /// complaints. The candidate derives from `component`. Its background requests use the
    /// connections of `election`.
    ///
    /// # Errors
    ///
    /// Returns the reason if there can be no candidate, whatever the settings are.
    pub(crate) async fn prepare(
        engine: &Engine,
        (component, election): (&ElectionComponent, &Election),
        clock: &BootClock,
        configuration: &mut Configuration,
        log: Log,
        front: CandidateFront,
    ) -> Result<Option<Self>, String> {
        let grace = configuration.duration(&GRACE);
        // A member starts the candidates of shares only after `--ready-cmd` has succeeded.
        let ready_cmd =
            configuration.resolved.text(&READY_CMD).filter(|_| configuration.part.is_none());
        let ca_file = configuration.resolved.ca_file();
        let settings = configuration.settings.clone();
        let authorities = configuration.authorities.clone();
        let base = CandidateBase { component, election, clock, authorities };
        let mut elector = base.elector(settings.clone());
        let (_, mut read) = configuration.resolve_election(election);
        if read.is_some() && !passes_component_check(&elector, configuration).await? {
            read = None;
        }
        // This comes after the quick checks, because compiling a component may take long.
        let work =
            handler::from_configuration(engine, clock, configuration, &log, &front.board).await;
        let observes = configuration.observes();
        // An observer never leads, so its death needs no takeover.
        let replacement = configuration.settings.takeover_time().filter(|_| !observes);
        let watches = observes || configuration.settings.options.address.is_some();
        let CandidateFront { board, order, orders } = front;
        let Some((work, read)) = work.zip(read) else { return Ok(None) };
        let Needs { origins, credential, mut notes } = read.needs(Utc::now());
        notes.extend(orders_note(&read));
        notes.extend(configuration.file_permission_warnings());
        notes.extend(replacement.map(|value| replacement_note(value, configuration)));
        notes.extend(work.description.notes());
        let (mut handler, mut coordination) = (work.handler, None);
        let grace = grace.or(work.grace);
        if let Some(split) = configuration.split {
            let settings = configuration.coordination_settings();
            elector = base.elector(settings.clone());
            // The check grants the component the access that these settings need.
            elector.check().await.map_err(|error| error.to_string())?;
            let election = base.election(settings)?;
            coordination = Some(Coordination::new(election, configuration, split, &read, grace));
            notes.push(split.note(&read.name));
            handler = no_work(split.count);
        }
        if let Some((part, settings)) = &configuration.part {
            let coordinating = base.election(settings.clone())?;
            handler = Box::new(ShareHandler::new(*part, handler, Arc::new(coordinating)));
        }
        let runs_all = coordination.is_none() && configuration.part.is_none() && !observes;
        let member_lookup = if runs_all { Some(base.election(settings)?) } else { None };
        let log = log.in_zone(schedule_zone(read.agenda.schedule.as_ref()));
        Ok(Some(Self {
            settings: read,
            work: work.description,
            credential,
            origins,
            elector,
            handler,
            grace,
            ready: watch::Sender::new(ready_cmd.is_none()),
            ready_cmd,
            ca_file,
            notes,
            log,
            watches_leader: watches,
            board,
            order,
            orders,
            coordination,
            member_lookup,
        }))
    }

    /// Returns a receiver that becomes true when `--ready-cmd` has succeeded. It is true from the
    /// start without that option.
    pub(crate) fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Describes the storage account by its name and origin.
    pub(crate) fn account(&self) -> String {
        format!("{} at {}", self.settings.account.name(), self.settings.account.origin())
    }

    /// Logs the start of this candidate, its notes, and `shared_notes`.
    pub(crate) fn log_start(&self, shared_notes: &[String]) {
        let Settings { election, name, agenda, timings, .. } = &self.settings;
        self.log.event(&Event::Starting {
            version: VERSION.to_owned(),
            candidate: name.clone(),
            election: election.to_string(),
            elector: self.elector.kind(),
            schedule: agenda.description(),
            work: (!matches!(self.work, WorkDescription::Nothing)).then(|| self.work.to_string()),
            lease: timings.lease,
            failover: timings.failover.map(|failover| failover.within),
            account: self.account(),
            credential: self.credential.clone(),
        });
        for detail in self.notes.iter().chain(shared_notes) {
            self.log.note_once(detail);
        }
    }

    /// Prepares the candidate to contend. `changed` is notified of each change of the visible
    /// state. `supervisor` receives the last will; the number identifies the candidate there.
    /// `watcher` watches the leader if this candidate has an address or observes. `telemetry`
    /// observes reports and events for a collector. `member_side` connects a share's candidate or
    /// the coordinating candidate with its member.
    pub(crate) fn into_contender(
        self,
        clock: BootClock,
        changed: &Arc<Notify>,
        watcher: &Arc<Watcher>,
        supervisor: Option<(Arc<Link>, usize)>,
        telemetry: CandidateTelemetry,
        member_side: Option<&CandidateContext>,
    ) -> Contender {
        let report_to_member = member_side.map(CandidateContext::report_observer);
        let (log, note_log) = (self.log.clone(), self.log);
        let (step_clock, event_clock) = (clock.handle(), clock.handle());
        let ca_file = self.ca_file;
        let (step_board, event_board) = (self.board.clone(), self.board.clone());
        let (step_notify, event_notify) = (changed.clone(), changed.clone());
        let handler = telemetry.wrap(self.handler);
        let mut background = JoinSet::new();
        let led_term = watch::Sender::new(None);
        if let Some(election) = self.member_lookup {
            let election = Arc::new(election);
            let (event_log, order) = (note_log.clone(), self.order.clone());
            let poll = self.settings.timings.poll;
            let events = move |event| event_log.event(&event);
            let leading = led_term.subscribe();
            background.spawn(resign_for_shares(election, poll, leading, order, events));
        }
        let step_telemetry = telemetry.clone();
        let mut runner = Runner::new(self.elector, handler, clock)
            .run_turns_on(Handle::current())
            .on_report(move |report, taken_at| {
                let now = step_clock.now();
                if let Some((link, number)) = &supervisor {
                    let ago = now.saturating_sub(taken_at);
                    link.on_step(*number, report, ago, ca_file.as_ref());
                }
                step_board.on_step(report, taken_at, now);
                step_telemetry.on_report(report);
                let term = match &report.role {
                    Role::Leading(leading) => Some(leading.term),
                    _ => None,
                };
                led_term.send_if_modified(|known| std::mem::replace(known, term) != term);
                if let Some(report_to_member) = &report_to_member {
                    report_to_member(report, taken_at);
                }
                step_notify.notify_one();
            })
            .on_event(move |event| {
                event_board.on_event(&event, event_clock.now());
                telemetry.on_event(&event);
                log.event(&event);
                event_notify.notify_one();
            });
        if let Some(grace) = self.grace {
            runner = runner.grace(grace);
        }
        if let Some(member_side) = member_side {
            runner = runner.hold_until_stopped(member_side.work_guard());
        }
        let hints = self.board.hints();
        runner = runner.with_hints(hints.clone());
        if self.ready_cmd.is_some() {
            self.board.when_ready(self.ready.subscribe());
        }
        if self.watches_leader {
            let (watcher, board, log) = (watcher.clone(), self.board, note_log.clone());
            let log_note = move |detail| log.event(&Event::Note { detail });
            background.spawn(async move { watcher.run(board, hints, log_note).await });
        }
        if let Some(command) = self.ready_cmd {
            runner = runner.when_ready(self.ready.subscribe());
            let readiness_check =
                ready::wait(command, self.ready, move |event| note_log.event(&event));
            background.spawn(readiness_check);
        }
        Contender { runner, orders: self.orders, background }
    }
}

impl Contender {
    /// Contends until `leave` completes, and returns when the candidate has left.
    pub(crate) async fn run(&mut self, leave: impl Future<Output = ()>) {
        self.runner.run_with(leave, &mut self.orders).await;
    }

    /// Stops the background tasks, which hold clones of the log.
    pub(crate) async fn end(mut self) {
        self.background.shutdown().await;
    }
}

/// The component and the election that candidates derive from. They share connections.
struct CandidateBase<'a> {
    component: &'a ElectionComponent,
    election: &'a Election,
    clock: &'a BootClock,
    authorities: RootCertificates,
}

impl CandidateBase<'_> {
    fn elector(&self, settings: CandidateSettings) -> ElectionComponent {
        self.component.for_candidate(settings, self.clock).trusting(self.authorities.clone())
    }

    fn election(&self, settings: CandidateSettings) -> Result<Election, String> {
        let election = self.election.with_settings(settings);
        let election = election.with_root_certificates(self.authorities.clone());
        let checked = election.check();
        checked.map_err(|invalid| invalid.to_string()).map(|_| election)
    }
}

/// Lets the component check the settings. Returns false if there are complaints, which are added to
/// the configuration.
async fn passes_component_check(
    elector: &ElectionComponent,
    configuration: &mut Configuration,
) -> Result<bool, String> {
    match elector.check().await {
        Ok(_) => Ok(true),
        Err(CheckError::Settings(complaints)) => {
            configuration.add_component_complaints(&complaints);
            Ok(false)
        }
        Err(CheckError::Component(error)) => Err(error.to_string()),
    }
}

/// Returns a note if the name of the election's blob leaves no room for the name of a blob of
/// orders.
fn orders_note(read: &Settings) -> Option<String> {
    let lacks_blob = read.orders.is_some() && !read.election.may_have_side_blobs();
    lacks_blob.then(|| {
        "the name of the election's blob is too long: no suffix for the blob of orders fits, so \
         this candidate takes no orders (tenure transfer, tenure trigger); use a shorter name"
            .to_owned()
    })
}

/// Returns the handler of the coordinating election, which has no turns.
fn no_work(shares: u32) -> Box<dyn Handler> {
    let message = format!(
        "nothing was run: the work is split into {shares} shares; trigger the election of one, \
         BLOB.share.SPLIT.INDEX-of-COUNT"
    );
    Box::new(from_fn(move |_, _| std::future::ready(Err(message.clone().into()))))
}

/// Describes how soon this candidate is replaced if it dies as leader, and why.
fn replacement_note(replacement: TakeoverTime, configuration: &Configuration) -> String {
    let timings =
        configuration.settings.options.timings().filter(|_| replacement.promise.is_some());
    let beats = timings.map(|timings| {
        format!(
            ". As leader it writes a beat every {}, and stops its work {} after the last successful one",
            format_duration(timings.renewal_interval()),
            format_duration(timings.validity()),
        )
    });
    format!("{replacement}{}", beats.unwrap_or_default())
}

/// Creates the board with the visible state of this candidate.
fn new_board(configuration: &Configuration, clock: &BootClock) -> Board {
    let LogContext { election, candidate } = configuration.log_context();
    let board = Board::new(&election, &candidate, clock.now());
    let settings = configuration.settings.clone();
    // The file with the SAS may be replaced.
    let board = match expiry(&settings) {
        Some(_) => board.with_expiry(move || expiry(&settings)),
        None => board,
    };
    match configuration.settings.takeover_time() {
        _ if configuration.observes() => board.for_observer(),
        Some(replacement) => board.with_replacement(replacement),
        None => board,
    }
}
