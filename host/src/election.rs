//! Elections in a blob, reached over HTTP: [`Election`].

use crate::egress::{AllowList, Clients, Gate, RootCertificates};
use crate::settings::{CandidateSettings, InvalidSettings};
use crate::token;
use chrono::{DateTime, Utc};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tenure_azure::operation::ETag;
use tenure_azure::request;
use tenure_clock::{Clock, ClockHandle};
use tenure_core::driver::{self, DriverIo, read_settings};
use tenure_core::{
    CredentialState, Event, Failure, FailureKind, Listed, Moment, Needs, Problem, ProblemClass,
    Report, Request, Response, Session, Settings, SideAnswer, SideRequest, Snapshot, State,
    StepStart, TransferOrder, TransferState, TriggerState,
};
use tokio::time::timeout;

/// An election with the settings of one candidate or observer.
///
/// A [`Runner`](crate::runner::Runner) contends through it. Its decisions come from the same code
/// as those of the election component.
///
/// It sends requests only to the origins that [`check`](Self::check) has allowed. Before that call
/// it sends nothing.
pub struct Election {
    settings: CandidateSettings,
    clock: ClockHandle,
    clients: Arc<Clients>,
    gate: OnceLock<Gate>,
    /// Encoded [`Session`] of the requests outside the steps. It holds a cached token, for example.
    side_session: Mutex<State>,
}

impl Election {
    /// Creates an election with these settings. `clock` is the clock of the runner.
    pub fn new(settings: impl Into<CandidateSettings>, clock: &impl Clock) -> Self {
        Self {
            settings: settings.into(),
            clock: clock.handle(),
            clients: Arc::new(Clients::with_env_proxies(RootCertificates::default())),
            gate: OnceLock::new(),
            side_session: Mutex::default(),
        }
    }

    /// Creates an election with other settings. It trusts the same servers and shares the
    /// connections of this one. It needs its own [`check`](Self::check).
    #[must_use]
    pub fn with_settings(&self, settings: impl Into<CandidateSettings>) -> Self {
        Self {
            settings: settings.into(),
            clock: self.clock.clone(),
            clients: self.clients.clone(),
            gate: OnceLock::new(),
            side_session: Mutex::default(),
        }
    }

    /// Creates the election in the blob `CONTAINER/BLOB.SUFFIX`, next to the blob of this one. It
    /// needs its own [`check`](Self::check).
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> Self {
        let mut settings = self.settings.clone();
        settings.options.election =
            settings.options.election.map(|name| format!("{name}.{suffix}"));
        self.with_settings(settings)
    }

    /// Trusts servers with these root certificates, in addition to those that the platform trusts.
    ///
    /// The election needs a new [`check`](Self::check) afterwards.
    #[must_use]
    pub fn with_root_certificates(mut self, root_certificates: RootCertificates) -> Self {
        self.clients = self.clients.clone().with_root_certificates(root_certificates);
        // The gate of an earlier check does not know the new certificates.
        self.gate = OnceLock::new();
        self
    }

    /// Validates the settings, and allows requests to the origins that they name. Sends nothing.
    ///
    /// # Errors
    ///
    /// Returns all complaints about the settings at once.
    pub fn check(&self) -> Result<Needs, InvalidSettings> {
        let settings = Settings::read_from(&self.settings).map_err(InvalidSettings)?;
        let mut needs = settings.needs(Utc::now());
        if self.settings.credential.tokens().is_some() {
            needs.credential = "tokens that the program issues".to_owned();
        }
        // A second check of the same settings allows the same requests.
        let _ =
            self.gate.set(Gate::for_election(AllowList::from_needs(&needs)?, self.clients.clone()));
        Ok(needs)
    }

    /// Runs [`check`](Self::check) unless it has already succeeded.
    pub(crate) fn ensure_checked(&self) -> Result<(), InvalidSettings> {
        if self.gate.get().is_none() {
            self.check()?;
        }
        Ok(())
    }

    pub(crate) fn settings(&self) -> &CandidateSettings {
        &self.settings
    }

    /// Runs one step, like the WIT's `election.step`.
    pub async fn step(
        &self,
        state: Option<&State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Report {
        let failure = match self.renew_token().await {
            Ok(failure) => failure,
            Err(problem) => {
                let failed_report =
                    Report::invalid_settings(state.map(State::as_bytes), event, &[]);
                return Report {
                    problems: vec![problem],
                    again_in: token::RETRY_PAUSE,
                    ..failed_report
                };
            }
        };
        let mut io = self.io();
        // Time since the caller read `elapsed`, for example in a freeze, counts against the lease.
        let late = io.started_at.saturating_sub(elapsed);
        io.started_at = elapsed + late;
        let start = StepStart { at: io.started_at, clock_lead: io.clock_lead };
        let state = state.map(State::as_bytes);
        let mut report = driver::step(&self.settings, state, start, event, &io).await;
        report.shift_to_earlier(late);
        report.problems.extend(failure);
        report
    }

    /// Returns the settings, with a current token, for requests outside the steps.
    async fn refreshed_settings(&self) -> Result<Settings, Problem> {
        self.renew_token().await?;
        read_settings(&self.settings)
    }

    /// Ensures that there is a token, if a provider issues them. Returns the provider's error if an
    /// earlier token remains.
    ///
    /// # Errors
    ///
    /// Fails if the provider has issued no token yet.
    async fn renew_token(&self) -> Result<Option<Problem>, Problem> {
        let problem = |error| Problem {
            class: ProblemClass::Unavailable,
            detail: format!("the token provider issued no token: {error}"),
        };
        let Some(tokens) = self.settings.credential.tokens() else { return Ok(None) };
        tokens.renew().await.map_err(problem)?;
        Ok(tokens.new_failure().map(problem))
    }

    /// Sends a request of a report. It may go to the same origins as the requests of steps.
    ///
    /// # Errors
    ///
    /// Returns the failure if there is no response.
    pub async fn send(&self, request: &Request) -> Result<Response, Failure> {
        match self.gate.get() {
            Some(gate) => gate.fetch(request).await,
            None => Err(Failure { kind: FailureKind::Denied, detail: String::new() }),
        }
    }

    /// Reads the state of the election without taking part.
    ///
    /// # Errors
    ///
    /// Fails if the storage service did not respond or refused, or if the blob holds no election.
    pub async fn inspect(&self) -> Result<Snapshot, Problem> {
        let settings = self.refreshed_settings().await?;
        let mut credential_state = CredentialState::default();
        let inspection = driver::inspect(&settings, &mut credential_state, &self.io()).await?;
        Ok(inspection.snapshot)
    }

    /// Returns the candidates that were recently active, the most recent first.
    ///
    /// # Errors
    ///
    /// Fails if the storage service did not respond or refused.
    pub async fn candidates(&self) -> Result<Vec<Listed>, Problem> {
        let settings = self.refreshed_settings().await?;
        driver::candidates(&settings, &self.io()).await
    }

    /// Returns the names of the elections in the container of this one. An election without a
    /// record, because no candidate has led it yet, is missing. Elections of shares are included.
    ///
    /// # Errors
    ///
    /// Fails if the storage service did not respond or refused.
    pub async fn elections_in_container(&self) -> Result<Vec<String>, Problem> {
        let settings = self.refreshed_settings().await?;
        driver::elections(&settings, &self.io()).await
    }

    /// Requests a turn outside the schedule, or returns the state of that request.
    ///
    /// If `submit` is true and the trigger does not exist, this places it. If `submit` is false,
    /// this only returns the state.
    ///
    /// `id` is the idempotency key of the trigger: 1 to 64 letters, digits, dots, hyphens and
    /// underscores. To retry, use the same id; a repeated id starts no second turn. Up to eight
    /// triggers can wait. A trigger that no leader claims within an hour expires.
    ///
    /// # Errors
    ///
    /// Fails if the trigger was not placed, or the storage service did not respond. It may have
    /// been placed despite an error of class `Unreachable`, `Unavailable` or `Nonsense`.
    pub async fn trigger(&self, id: &str, submit: bool) -> Result<TriggerState, Problem> {
        let settings = self.refreshed_settings().await?;
        driver::place_trigger(&settings, id, submit, &self.io()).await
    }

    /// Requests a transfer of leadership, or returns the state of that request.
    ///
    /// If `submit` is true and the transfer does not exist, this places it. If `submit` is false,
    /// this only returns the state. The first call passes an order without a term. It returns
    /// [`TransferState::Waiting`] with the term to set in further calls.
    ///
    /// # Errors
    ///
    /// Fails like [`trigger`](Self::trigger).
    pub async fn transfer(
        &self,
        order: &TransferOrder,
        submit: bool,
    ) -> Result<TransferState, Problem> {
        let settings = self.refreshed_settings().await?;
        driver::place_transfer(&settings, order.clone(), submit, &self.io()).await
    }

    /// Breaks the lease, regardless of its holder, after at most `period` (whole seconds, up to
    /// 60), or when it expires. Returns the time for which it is still held.
    ///
    /// Without a `period`, leaders never overlap. **With a `period` shorter than the remaining
    /// lease time, two leaders may act until the old leader's next renewal fails.**
    ///
    /// # Errors
    ///
    /// Fails if the storage service refused or did not respond. The lease may have been broken
    /// despite an error of class `Unreachable`, `Unavailable` or `Nonsense`.
    pub async fn break_lease(&self, period: Option<Duration>) -> Result<Duration, Problem> {
        let settings = self.refreshed_settings().await?;
        driver::break_lease(&settings, period, &self.io()).await
    }

    /// Sends a request about blobs next to the election's blob. It times out after `limit`. Without
    /// a `limit`, only the timeouts of its HTTP requests apply.
    ///
    /// # Errors
    ///
    /// Fails if the request was refused, or its outcome is unknown.
    pub async fn send_side_request(
        &self,
        request: SideRequest,
        limit: Option<Duration>,
    ) -> Result<SideAnswer, Problem> {
        let settings = self.refreshed_settings().await?;
        let mut session = self.load_session();
        let io = self.io();
        let exchange = driver::side_blob(settings, request, &mut session, &io);
        let answer = timeout(limit.unwrap_or(Duration::MAX), exchange).await;
        *self.side_session.lock().unwrap_or_else(PoisonError::into_inner) =
            session.to_bytes().into();
        answer.unwrap_or_else(|_| {
            let detail = "a request for a blob next to the election's blob timed out: the account \
                          answers too late";
            Err(Problem { class: ProblemClass::Unreachable, detail: detail.to_owned() })
        })
    }

    /// Returns the request that deletes the blob with that suffix if the blob still has the version
    /// `tag`. Another process sends the request after this one has ended. Returns `None` if no
    /// credential can authorise the request now.
    pub fn delete_request(&self, suffix: &str, tag: ETag) -> Option<Request> {
        let settings = read_settings(&self.settings).ok()?;
        driver::deletion(settings, suffix, tag, &self.load_session(), &self.io())
    }

    fn load_session(&self) -> Session {
        let stored = self.side_session.lock().unwrap_or_else(PoisonError::into_inner);
        Session::from_bytes(Some(stored.as_bytes()))
    }

    fn io(&self) -> StepIo<'_> {
        let (started_at, clock_lead) = self.clock.read();
        StepIo {
            election: self,
            started_at,
            clock_lead,
            steady_start: started_at.saturating_sub(clock_lead),
        }
    }
}

/// I/O of a step, or of a request outside the steps.
struct StepIo<'e> {
    election: &'e Election,
    /// Clock at the start.
    started_at: Moment,
    /// Time by which `started_at` may be ahead of the time that passed.
    clock_lead: Duration,
    /// Clock at the start, less `clock_lead`.
    steady_start: Moment,
}

impl DriverIo for StepIo<'_> {
    fn now(&self) -> Moment {
        // Within a step only differences count, and they never run ahead.
        let (now, clock_lead) = self.election.clock.read();
        let elapsed = now.saturating_sub(clock_lead).saturating_sub(self.steady_start);
        self.started_at + elapsed
    }

    fn wall_clock(&self) -> DateTime<Utc> {
        Utc::now()
    }

    #[expect(clippy::expect_used, reason = "without random numbers there is no TLS either")]
    fn bits(&self) -> u64 {
        getrandom::u64().expect("the operating system has random numbers")
    }

    async fn send(
        &self,
        request: request::Request,
        timeout: Duration,
        most: usize,
    ) -> Result<Response, Failure> {
        let request = Request::new(request, timeout);
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
