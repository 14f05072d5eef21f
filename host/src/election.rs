//! An election in a blob, reached over HTTP: [`Election`].

use crate::egress::direct::{response, to_http};
use crate::egress::{AllowList, Authorities, Clients, Gate};
use crate::settings::{CandidateSettings, InvalidSettings};
use crate::token;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tenure_azure::operation::ETag;
use tenure_azure::request;
use tenure_clock::{Clock, Reading};
use tenure_core::driver::{self, Surroundings, usable_settings};
use tenure_core::{
    Begins, CredentialState, Event, Failure, FailureKind, Listed, Moment, Needs, Problem,
    ProblemClass, Report, Request, Response, Session, Settings, SideAnswer, SideRequest, Snapshot,
    State, TransferOrder, TransferState, TriggerState,
};
use tokio::time::timeout;

/// An election with the settings of one candidate, or of whoever looks at it. As the elector of a
/// [`Runner`](crate::runner::Runner) it contends. It decides as the election component does, by the same code.
///
/// It may send requests to the origins that its [`check`](Self::check) named, so nothing is sent before that.
pub struct Election {
    settings: CandidateSettings,
    clock: Reading,
    clients: Arc<Clients>,
    granted: OnceLock<Gate>,
    /// What it remembers of its credential for side blobs.
    session: Mutex<State>,
}

impl Election {
    /// One with these settings. `clock` is the one that the runner uses.
    pub fn new(settings: impl Into<CandidateSettings>, clock: &impl Clock) -> Self {
        Self {
            settings: settings.into(),
            clock: clock.reading(),
            clients: Arc::new(Clients::for_component(Authorities::default())),
            granted: OnceLock::new(),
            session: Mutex::default(),
        }
    }

    /// Another one, with other settings. It trusts the same servers, and they share their connections.
    #[must_use]
    pub fn with_settings(&self, settings: impl Into<CandidateSettings>) -> Self {
        Self {
            settings: settings.into(),
            clock: self.clock.clone(),
            clients: self.clients.clone(),
            granted: OnceLock::new(),
            session: Mutex::default(),
        }
    }

    /// The election in the blob with that suffix. It needs a [`check`](Self::check) like a new one.
    #[must_use]
    pub fn for_suffix(&self, suffix: &str) -> Self {
        let mut settings = self.settings.clone();
        settings.options.election =
            settings.options.election.map(|name| format!("{name}.{suffix}"));
        self.with_settings(settings)
    }

    /// Trusts servers that `authorities` vouch for, beside those that the platform trusts. It
    /// needs a [`check`](Self::check) afterwards, like a new one.
    #[must_use]
    pub fn trusting(mut self, authorities: Authorities) -> Self {
        self.clients = self.clients.clone().trusting(authorities);
        // What was granted before does not know them.
        self.granted = OnceLock::new();
        self
    }

    /// Judges the settings, and allows requests to where they lead. Sends nothing.
    ///
    /// # Errors
    ///
    /// All complaints at once.
    pub fn check(&self) -> Result<Needs, InvalidSettings> {
        let settings = Settings::read_from(&self.settings).map_err(InvalidSettings)?;
        let mut needs = settings.needs(Utc::now());
        if self.settings.credential.tokens().is_some() {
            needs.credential = "tokens that the program issues".to_owned();
        }
        // A second check of the same settings needs the same.
        let _ = self.granted.set(Gate::of_election(AllowList::of(&needs)?, self.clients.clone()));
        Ok(needs)
    }

    /// Allows requests, where nobody has [checked](Self::check) the settings yet.
    pub(crate) fn grant(&self) -> Result<(), InvalidSettings> {
        if self.granted.get().is_none() {
            self.check()?;
        }
        Ok(())
    }

    pub(crate) fn settings(&self) -> &CandidateSettings {
        &self.settings
    }

    /// One step, as the WIT's `election.step`.
    pub async fn step(
        &self,
        state: Option<&State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Report {
        let failure = match self.renew_token().await {
            Ok(failure) => failure,
            Err(problem) => {
                let undone = Report::undone(state.map(State::as_bytes), event, &[]);
                return Report { problems: vec![problem], again_in: token::PAUSE, ..undone };
            }
        };
        let mut around = self.around();
        // A freeze since `elapsed` was read counts.
        let late = around.began.saturating_sub(elapsed);
        around.began = elapsed + late;
        let begins = Begins { at: around.began, ahead: around.ahead };
        let state = state.map(State::as_bytes);
        let mut report = driver::step(&self.settings, state, begins, event, &around).await;
        report.count_from_earlier(late);
        report.problems.extend(failure);
        report
    }

    /// The settings for requests beside the steps.
    async fn usable(&self) -> Result<Settings, Problem> {
        self.renew_token().await?;
        usable_settings(&self.settings)
    }

    /// Makes sure that there is a token, where a provider issues them. Returns the provider's error if there is an earlier
    /// token.
    ///
    /// # Errors
    ///
    /// There is no token yet.
    async fn renew_token(&self) -> Result<Option<Problem>, Problem> {
        let problem = |error| Problem {
            class: ProblemClass::Unavailable,
            detail: format!("the token provider issued no token: {error}"),
        };
        let Some(tokens) = self.settings.credential.tokens() else { return Ok(None) };
        tokens.renew().await.map_err(problem)?;
        Ok(tokens.new_failure().map(problem))
    }

    /// Sends a request of a report, to where steps may send requests themselves.
    ///
    /// # Errors
    ///
    /// Why there is no answer.
    pub async fn send(&self, request: &Request) -> Result<Response, Failure> {
        let other = |detail: String| Failure { kind: FailureKind::Other, detail };
        let within = request.timeout;
        let request = to_http(request).map_err(|error| other(error.to_string()))?;
        self.exchange(request, within).await
    }

    /// Looks at the election without taking part.
    ///
    /// # Errors
    ///
    /// The service could not be asked, or the blob is no election.
    pub async fn inspect(&self) -> Result<Snapshot, Problem> {
        let settings = self.usable().await?;
        let mut credential_state = CredentialState::default();
        let look = driver::look(&settings, &mut credential_state, &self.around()).await?;
        Ok(look.snapshot)
    }

    /// The candidates that were seen lately, those seen last first.
    ///
    /// # Errors
    ///
    /// The service could not be asked.
    pub async fn candidates(&self) -> Result<Vec<Listed>, Problem> {
        let settings = self.usable().await?;
        driver::candidates(&settings, &self.around()).await
    }

    /// Asks for a turn outside the schedule, by a trigger of that id, or tells what became of it. An `id` is 1 to 64
    /// letters, digits, dots, hyphens and underscores. The same one again does no harm: to retry, use the same. Eight may
    /// wait; one that is not claimed within an hour has no turn.
    ///
    /// # Errors
    ///
    /// It was not placed, or the service could not be asked. With class `Unreachable`, `Unavailable` or
    /// `Nonsense` it may have been placed all the same.
    pub async fn trigger(&self, id: &str, place: bool) -> Result<TriggerState, Problem> {
        let settings = self.usable().await?;
        driver::place_trigger(&settings, id, place, &self.around()).await
    }

    /// Places an order to give the leadership up, or says what became of it. The first call has no term, and places it; it
    /// returns [`TransferState::Waiting`]. Further calls have that term.
    ///
    /// # Errors
    ///
    /// As [`trigger`](Self::trigger).
    pub async fn transfer(
        &self,
        order: &TransferOrder,
        place: bool,
    ) -> Result<TransferState, Problem> {
        let settings = self.usable().await?;
        driver::place_transfer(&settings, order.clone(), place, &self.around()).await
    }

    /// Breaks the lease, whoever holds it, after at most `period` (whole seconds, up to 60), or
    /// when it expires. Returns how long it is still held.
    ///
    /// Without a `period` no two leaders overlap. **With one that is shorter than the rest of the lease, two may act until
    /// the next renewal of the old one fails.**
    ///
    /// # Errors
    ///
    /// The service refused or could not be asked. With class `Unreachable`, `Unavailable` or `Nonsense` it
    /// may have been broken all the same.
    pub async fn break_lease(&self, period: Option<Duration>) -> Result<Duration, Problem> {
        let settings = self.usable().await?;
        driver::break_lease(&settings, period, &self.around()).await
    }

    /// Sends a request about blobs beside the election's. When it has begun, it is given up after `limit`.
    ///
    /// # Errors
    ///
    /// It was refused, or nobody knows whether it was done.
    pub async fn side_blob(
        &self,
        request: SideRequest,
        limit: Option<Duration>,
    ) -> Result<SideAnswer, Problem> {
        let settings = self.usable().await?;
        let mut session = self.session();
        let around = self.around();
        let ask = driver::side_blob(settings, request, &mut session, &around);
        let answer = timeout(limit.unwrap_or(Duration::MAX), ask).await;
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session.written().into();
        answer.unwrap_or_else(|_| {
            let detail = "a request beside the election was given up: the account answers too late";
            Err(Problem { class: ProblemClass::Unreachable, detail: detail.to_owned() })
        })
    }

    /// The request that deletes the blob with that suffix if it is still that version, for a process that outlives this
    /// one. None: nothing authorises it now.
    pub fn deletion(&self, suffix: &str, tag: ETag) -> Option<Request> {
        let settings = usable_settings(&self.settings).ok()?;
        driver::deletion(settings, suffix, tag, &self.session(), &self.around())
    }

    fn session(&self) -> Session {
        let written = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        Session::read(Some(written.as_bytes()))
    }

    fn around(&self) -> Around<'_> {
        let (began, ahead) = self.clock.read();
        Around { election: self, began, ahead, steadily: began.saturating_sub(ahead) }
    }

    async fn exchange(
        &self,
        request: http::Request<Bytes>,
        within: Duration,
    ) -> Result<Response, Failure> {
        let Some(gate) = self.granted.get() else {
            return Err(Failure { kind: FailureKind::Denied, detail: String::new() });
        };
        gate.fetch(request, within).await.map(response)
    }
}

/// The surroundings of a step, or of a request outside an election.
struct Around<'e> {
    election: &'e Election,
    /// The clock when it began.
    began: Moment,
    /// By how much that may have run ahead.
    ahead: Duration,
    /// The clock then, without that.
    steadily: Moment,
}

impl Surroundings for Around<'_> {
    fn now(&self) -> Moment {
        // Within a step only differences count, and they never run ahead.
        let (now, ahead) = self.election.clock.read();
        let since = now.saturating_sub(ahead).saturating_sub(self.steadily);
        self.began + since
    }

    fn wall(&self) -> DateTime<Utc> {
        Utc::now()
    }

    #[expect(clippy::expect_used, reason = "without random numbers there is no TLS either")]
    fn bits(&self) -> u64 {
        getrandom::u64().expect("the operating system has random numbers")
    }

    async fn send(
        &self,
        request: &request::Request,
        timeout: Duration,
        most: usize,
    ) -> Result<Response, Failure> {
        let request = Request::of(request.clone(), timeout);
        let mut answer = self.election.send(&request).await?;
        answer.body.truncate(most);
        Ok(answer)
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("settings", &self.settings).finish_non_exhaustive()
    }
}
