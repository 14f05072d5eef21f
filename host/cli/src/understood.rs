//! What the settings of an election come to, for the first line of the log and for `tenure check`.

use super::handler::Found;
use super::version::VERSION;
use chrono::DateTime;
use std::time::Duration;
use tenure::runner::Event;
use tenure_core::{Agenda, Schedule, Settings, Zone};

/// How the note of the component begins that tells the credential.
const CREDENTIAL: &str = "credential: ";

/// One election as it is understood. Nothing in it is a secret.
pub(super) struct Understood {
    pub election: String,
    pub candidate: String,
    pub agenda: Agenda,
    pub lease: Duration,
    pub poll: Duration,
    /// How soon a leader that died is replaced, where that is to be sooner than its lease ends.
    pub failover: Option<Duration>,
    /// The name of the storage account, and where it is.
    pub account: String,
    /// Which kind of credential is used, and why this one.
    pub credential: String,
    /// Where requests of the election go.
    pub origins: Vec<String>,
    /// What else people should know.
    pub notes: Vec<String>,
    pub work: Found,
}

impl Understood {
    pub(super) fn of(settings: Settings, work: Found) -> Self {
        let needs = settings.needs(DateTime::from(std::time::SystemTime::now()));
        let mut credential = String::new();
        let mut notes = needs.notes;
        notes.retain(|note| match note.strip_prefix(CREDENTIAL) {
            Some(told) => {
                told.clone_into(&mut credential);
                false
            }
            None => true,
        });
        if settings.orders.is_some() && !settings.election.may_have_side_blobs() {
            let detail = "the name of the election's blob is too long for a second blob beside it, so this candidate takes \
                          no orders (tenure transfer, tenure trigger); use a shorter name";
            notes.push(detail.to_owned());
        }
        let (name, origin) = (settings.account.name(), settings.account.origin());
        Self {
            election: settings.election.to_string(),
            candidate: settings.name,
            lease: settings.timings.lease,
            poll: settings.timings.poll,
            failover: settings.timings.failover.map(|failover| failover.within),
            account: format!("{name} at {origin}"),
            credential,
            origins: needs.origins,
            notes,
            agenda: settings.agenda,
            work,
        }
    }

    /// When there are turns, in words.
    pub(super) fn schedule(&self) -> Option<String> {
        self.agenda.description()
    }

    /// The time zone of the schedule: that of a cron expression, else UTC.
    pub(super) fn zone(&self) -> Zone {
        match &self.agenda.schedule {
            Some(Schedule::Cron(_, zone)) => *zone,
            _ => Zone::UTC,
        }
    }

    /// The first line of the log.
    pub(super) fn event(&self) -> Event {
        Event::Starting {
            version: VERSION.to_owned(),
            candidate: self.candidate.clone(),
            election: self.election.clone(),
            schedule: self.schedule(),
            work: (!matches!(self.work, Found::Nothing)).then(|| self.work.to_string()),
            lease: self.lease,
            failover: self.failover,
            account: self.account.clone(),
            credential: self.credential.clone(),
        }
    }
}
