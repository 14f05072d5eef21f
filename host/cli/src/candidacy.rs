//! One election of `tenure run`, judged and ready to begin.

use super::configuration::{Configuration, expiry};
use super::handler::{self, Found};
use super::log::{Log, Whose};
use super::ready;
use super::settings::Given;
use super::settings::table::{GRACE, READY_CMD};
use super::supervisor::Link;
use super::telemetry::Witness;
use super::times::zone_in;
use super::version::VERSION;
use chrono::Utc;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use tenure::Event;
use tenure::engine::{Election, Elector as _, Order, Runner};
use tenure::handler::{Handler, from_fn};
use tenure::status::Replacement;
use tenure_base::duration::format_duration;
use tenure_clock::{BootClock, Clock as _};
use tenure_core::{Needs, Role, Settings};
use tenure_members::{LEAVE_WITHIN, Membership, OfShare, Place, make_way};
use tenure_server::{Board, Watcher};
use tenure_shares::{Pace, Sign};
use tenure_wasmtime::{CheckError, ElectionComponent, Engine};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

/// Capacity of the queue of orders.
const ORDERS: usize = 8;

/// What others see of a candidate, and the queue of its orders. Exists before its settings are judged, which takes time when
/// components have to be compiled.
pub(super) struct Front {
    pub board: Arc<Board>,
    order: mpsc::Sender<Order>,
    orders: mpsc::Receiver<Order>,
}

/// A candidate that contends as soon as it is told to.
pub(super) struct Candidacy {
    elector: ElectionComponent,
    handler: Box<dyn Handler>,
    grace: Option<Duration>,
    ready_cmd: Option<String>,
    ready: watch::Sender<bool>,
    /// Whom a supervisor trusts that sends the last will.
    ca_file: Option<OsString>,
    pub settings: Settings,
    pub work: Found,
    /// Which kind of credential is used, and why this one.
    pub credential: String,
    /// Where requests of the election go.
    pub origins: Vec<String>,
    /// What people should know at the start.
    pub notes: Vec<String>,
    log: Log,
    /// It watches the leader: it has an address itself, or observes.
    watches: bool,
    pub board: Arc<Board>,
    /// By which it is given orders.
    pub order: mpsc::Sender<Order>,
    orders: mpsc::Receiver<Order>,
    /// Its election is the coordinating one: the work is split into shares.
    pub coordination: Option<Coordination>,
    /// Lists the members with shares while it leads, since it runs all of the work then. None: its work is split, or it
    /// observes.
    lists_members: Option<Election>,
}

/// What the coordinating candidate needs for the shares that the work is split into.
pub(super) struct Coordination {
    /// The settings that each share is made of.
    pub given: Given,
    /// Sends requests beside the election.
    pub election: Arc<Election>,
    pub membership: Membership,
    /// True if a supervisor deletes the sign of life when this process has died.
    pub leaves_wills: bool,
}

/// The loop of a candidate, and what goes with it.
pub(super) struct Contender {
    runner: Runner<ElectionComponent, BootClock>,
    orders: mpsc::Receiver<Order>,
    /// Asks whether this process can work, and watches the leader.
    beside: JoinSet<()>,
}

impl Front {
    pub(super) fn new(configuration: &Configuration, clock: &BootClock) -> Self {
        let board = Arc::new(board(configuration, clock));
        board.waits();
        let (order, orders) = mpsc::channel(ORDERS);
        Self { board, order, orders }
    }
}

impl Candidacy {
    /// Judges the settings; none when there is something to complain about. Sends nothing. The
    /// candidate is another one on `component`, and reads beside its steps over the connections of `election`.
    ///
    /// # Errors
    ///
    /// Why there can be no candidate, whatever the settings are.
    pub(super) async fn judge(
        engine: &Engine,
        (component, election): (&ElectionComponent, &Election),
        clock: &BootClock,
        configuration: &mut Configuration,
        log: Log,
        front: Front,
    ) -> Result<Option<Self>, String> {
        let grace = configuration.duration(&GRACE);
        // The member that begins the candidate of a share is ready.
        let ready_cmd =
            configuration.given.text(&READY_CMD).filter(|_| configuration.part.is_none());
        let ca_file = configuration.given.ca_file();
        let settings = configuration.settings.clone();
        let authorities = configuration.authorities.clone();
        let of = |settings| component.for_candidate(settings, clock).trusting(authorities.clone());
        let reach = |settings| {
            let election = election.with_settings(settings).trusting(authorities.clone());
            let checked = election.check();
            checked.map_err(|invalid| invalid.to_string()).map(|_| election)
        };
        let mut elector = of(settings.clone());
        let (_, mut read) = configuration.reach(election);
        if read.is_some() {
            match elector.check().await {
                Ok(_) => {}
                Err(CheckError::Settings(complaints)) => {
                    configuration.refused(&complaints);
                    read = None;
                }
                Err(CheckError::Component(error)) => return Err(error.to_string()),
            }
        }
        // A component may have to be compiled, which takes long.
        let work = handler::of_run(engine, clock, configuration, &log, &front.board).await;
        let observes = configuration.observes();
        // An observer is nobody's concern when it dies.
        let replacement = configuration.settings.replacement().filter(|_| !observes);
        let watches = observes || configuration.settings.options.address.is_some();
        let Front { board, order, orders } = front;
        let Some((work, read)) = work.zip(read) else { return Ok(None) };
        let Needs { origins, credential, mut notes } = read.needs(Utc::now());
        if read.orders.is_some() && !read.election.may_have_side_blobs() {
            let detail = "the name of the election's blob is too long for a second blob beside it, so this candidate takes \
                          no orders (tenure transfer, tenure trigger); use a shorter name";
            notes.push(detail.to_owned());
        }
        notes.extend(configuration.exposed());
        notes.extend(replacement.map(|told| told_of(told, configuration)));
        notes.extend(work.found.notes());
        let (mut handler, mut coordination) = (work.handler, None);
        if let Some(split) = configuration.split {
            let settings = configuration.of_coordination();
            elector = of(settings.clone());
            // It is granted what it needs.
            elector.check().await.map_err(|error| error.to_string())?;
            let election = reach(settings.clone())?;
            notes.push(split.note(&read.name));
            handler = no_work(split.count);
            let timings = &read.timings;
            let pace = Pace::of(timings.failover.map_or(timings.lease, |failover| failover.within));
            let sign =
                Sign { member: read.name.clone(), weight: split.capacity, most: split.most, pace };
            let membership = Membership {
                sign,
                count: split.count,
                patience: 2 * timings.lease + grace.or(work.grace).unwrap_or_default(),
                leave_within: LEAVE_WITHIN,
            };
            coordination = Some(Coordination {
                given: configuration.given.clone(),
                election: Arc::new(election),
                membership,
                leaves_wills: settings.options.last_will == Some(true),
            });
        }
        if let Some((part, settings)) = &configuration.part {
            let coordinating = reach(settings.clone())?;
            handler = Box::new(OfShare::new(*part, handler, Arc::new(coordinating)));
        }
        let runs_all = coordination.is_none() && configuration.part.is_none() && !observes;
        let lists_members = if runs_all { Some(reach(settings)?) } else { None };
        let log = log.in_zone(zone_in(read.agenda.schedule.as_ref()));
        Ok(Some(Self {
            settings: read,
            work: work.found,
            credential,
            origins,
            elector,
            handler,
            grace: grace.or(work.grace),
            ready: watch::Sender::new(ready_cmd.is_none()),
            ready_cmd,
            ca_file,
            notes,
            log,
            watches,
            board,
            order,
            orders,
            coordination,
            lists_members,
        }))
    }

    /// Whether this process can work, by `--ready-cmd`.
    pub(super) fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Returns the name of the storage account, and where it is.
    pub(super) fn account(&self) -> String {
        format!("{} at {}", self.settings.account.name(), self.settings.account.origin())
    }

    /// Tells of itself, and what concerns all.
    pub(super) fn begin(&self, also: &[String]) {
        let Settings { election, name, agenda, timings, .. } = &self.settings;
        self.log.event(&Event::Starting {
            version: VERSION.to_owned(),
            candidate: name.clone(),
            election: election.to_string(),
            elector: self.elector.kind(),
            schedule: agenda.description(),
            work: (!matches!(self.work, Found::Nothing)).then(|| self.work.to_string()),
            lease: timings.lease,
            failover: timings.failover.map(|failover| failover.within),
            account: self.account(),
            credential: self.credential.clone(),
        });
        for detail in self.notes.iter().chain(also) {
            self.log.note_once(detail);
        }
    }

    /// Gets ready to contend. `changed` hears of everything that becomes different, and the supervisor, by
    /// the number that it knows the candidate by, of last wills. `watcher` watches the leader, if this candidate
    /// is to. `witness` sees what happens, for a collector, and so does a place among shares.
    pub(super) fn contender(
        self,
        clock: BootClock,
        changed: &Arc<Notify>,
        watcher: &Arc<Watcher>,
        supervisor: Option<(Arc<Link>, usize)>,
        witness: Witness,
        place: Option<&Place>,
    ) -> Contender {
        let shows = place.map(Place::shows);
        let (log, noted) = (self.log.clone(), self.log);
        let (reading, told_at) = (clock.reading(), clock.reading());
        let ca_file = self.ca_file;
        let (stepped, happened) = (self.board.clone(), self.board.clone());
        let (reported, told) = (changed.clone(), changed.clone());
        let handler = witness.around(self.handler);
        let mut beside = JoinSet::new();
        let leads = watch::Sender::new(None);
        if let Some(election) = self.lists_members {
            let election = Arc::new(election);
            let (tell, order) = (noted.clone(), self.order.clone());
            let poll = self.settings.timings.poll;
            let events = move |event| tell.event(&event);
            beside.spawn(make_way(election, poll, leads.subscribe(), order, events));
        }
        let seen = witness.clone();
        let mut runner = Runner::new(self.elector, handler, clock)
            .turns_on(Handle::current())
            .on_report(move |report, taken_at| {
                let now = reading.now();
                if let Some((link, number)) = &supervisor {
                    let ago = now.saturating_sub(taken_at);
                    link.stepped(*number, report, ago, ca_file.as_ref());
                }
                stepped.stepped(report, taken_at, now);
                seen.stepped(report);
                let term = match &report.role {
                    Role::Leading(now) => Some(now.term),
                    _ => None,
                };
                leads.send_if_modified(|known| std::mem::replace(known, term) != term);
                if let Some(shows) = &shows {
                    shows(report, taken_at);
                }
                reported.notify_one();
            })
            .on_event(move |event| {
                happened.happened(&event, told_at.now());
                witness.happened(&event);
                log.event(&event);
                told.notify_one();
            });
        if let Some(grace) = self.grace {
            runner = runner.grace(grace);
        }
        if let Some(place) = place {
            runner = runner.keeping(place.kept());
        }
        let hints = self.board.hints();
        runner = runner.with_hints(hints.clone());
        if self.ready_cmd.is_some() {
            self.board.when_ready(self.ready.subscribe());
        }
        if self.watches {
            let (watcher, board, log) = (watcher.clone(), self.board, noted.clone());
            let tell = move |detail| log.event(&Event::Note { detail });
            beside.spawn(async move { watcher.run(board, hints, tell).await });
        }
        if let Some(command) = self.ready_cmd {
            runner = runner.when_ready(self.ready.subscribe());
            let asking = ready::wait(command, self.ready, move |event| noted.event(&event));
            beside.spawn(asking);
        }
        Contender { runner, orders: self.orders, beside }
    }
}

impl Contender {
    /// Contends until `leave` completes, and has left.
    pub(super) async fn run(&mut self, leave: impl Future<Output = ()>) {
        self.runner.run_with(leave, &mut self.orders).await;
    }

    /// Lets go of the log.
    pub(super) async fn end(mut self) {
        self.beside.shutdown().await;
    }
}

/// The handler of the coordinating election, which has no turns.
fn no_work(shares: u32) -> Box<dyn Handler> {
    let told = format!(
        "nothing was run: the work is split into {shares} shares; trigger the election of one, \
         BLOB.share.SPLIT.INDEX-of-COUNT"
    );
    Box::new(from_fn(move |_, _| std::future::ready(Err(told.clone().into()))))
}

/// How soon this candidate is replaced if it dies as leader, and why.
fn told_of(replacement: Replacement, configuration: &Configuration) -> String {
    let timings =
        configuration.settings.options.timings().filter(|_| replacement.promise.is_some());
    let beats = timings.map(|timings| {
        format!(
            ". As leader it writes a beat every {}, and stops its work {} after the last successful one",
            format_duration(timings.renewal()),
            format_duration(timings.validity()),
        )
    });
    format!("{replacement}{}", beats.unwrap_or_default())
}

/// What this candidate shows of itself.
fn board(configuration: &Configuration, clock: &BootClock) -> Board {
    let Whose { election, candidate } = configuration.whose();
    let board = Board::new(&election, &candidate, clock.now());
    let settings = configuration.settings.clone();
    // The file that holds it may be replaced.
    let board = match expiry(&settings) {
        Some(_) => board.with_expiry(move || expiry(&settings)),
        None => board,
    };
    match configuration.settings.replacement() {
        _ if configuration.observes() => board.of_observer(),
        Some(replacement) => board.with_replacement(replacement),
        None => board,
    }
}
