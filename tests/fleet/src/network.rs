//! What becomes of a request on its way.

use fastrand::Rng;
use tenure_shares::StoreRequest;

/// Something that is wrong for a while.
#[derive(Clone, Debug)]
pub struct ActiveFault {
    /// What.
    pub fault: Fault,
    /// Until then, in true time.
    pub until: u64,
}

impl ActiveFault {
    /// Returns true if this process is cut off by it.
    #[must_use]
    pub fn cuts_off(&self, process: usize) -> bool {
        matches!(&self.fault, Fault::Cut(those, _) if those.contains(&process))
    }
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// These processes are cut off: all that they send is lost, or only what they are answered.
    Cut(Vec<usize>, bool),
    /// So many of a thousand requests are refused, since there are too many.
    Throttled(u64),
    /// Requests are up to so many milliseconds late.
    Slow(u64),
    /// No request is answered.
    Down,
    /// Signs of these processes are lost, and nothing else.
    SignsLost(Vec<usize>),
    /// Plans of these processes are refused, and nothing else.
    PlanWritesRefused(Vec<usize>),
    /// These processes cannot read the plan, and nothing else is wrong.
    PlanReadsLost(Vec<usize>),
    /// Blobs cannot be written, and leases can be held.
    ReadOnly,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It comes to the store after so long, and its answer goes back in so long, or is lost.
    Delivered(u64, Option<u64>),
    /// It is lost.
    Lost,
    /// It is refused after so long, for a while, and not done.
    Throttled(u64),
    /// It is refused after so long.
    Refused(u64),
}

/// The network between all processes and the account.
#[derive(Debug)]
pub struct Network {
    rng: Rng,
    /// Milliseconds that one way takes at most.
    pub max_latency: u64,
    /// Once in so many requests something goes wrong; 0: never.
    pub fault_interval: u64,
    /// What is wrong.
    pub active_faults: Vec<ActiveFault>,
}

impl Network {
    /// One without troubles.
    #[must_use]
    pub fn new(seed: u64, max_latency: u64, fault_interval: u64) -> Self {
        Self { rng: Rng::with_seed(seed), max_latency, fault_interval, active_faults: Vec::new() }
    }

    /// What becomes of a request that this process sends `now`.
    pub fn outcome(&mut self, process: usize, ask: Option<&StoreRequest>, now: u64) -> RequestOutcome {
        let (mut request_delay, mut reply_delay) = (self.rng.u64(1..=self.max_latency), Some(self.rng.u64(1..=self.max_latency)));
        self.active_faults.retain(|fault| fault.until > now);
        for fault in &self.active_faults {
            match &fault.fault {
                Fault::Cut(processes, _) if !processes.contains(&process) => {}
                Fault::Cut(_, true) => reply_delay = None,
                Fault::Cut(_, false) | Fault::Down => return RequestOutcome::Lost,
                Fault::Throttled(permille) if self.rng.u64(..1_000) < *permille => {
                    return RequestOutcome::Throttled(request_delay * 2);
                }
                Fault::Slow(max_delay) => request_delay += self.rng.u64(..=*max_delay),
                Fault::ReadOnly if matches!(ask, Some(StoreRequest::WriteSign(_) | StoreRequest::WritePlan(..))) => {
                    return RequestOutcome::Refused(request_delay * 2);
                }
                Fault::SignsLost(processes)
                    if processes.contains(&process) && matches!(ask, Some(StoreRequest::WriteSign(_))) =>
                {
                    return RequestOutcome::Lost;
                }
                Fault::PlanWritesRefused(processes)
                    if processes.contains(&process) && matches!(ask, Some(StoreRequest::WritePlan(..))) =>
                {
                    return RequestOutcome::Refused(request_delay * 2);
                }
                Fault::PlanReadsLost(processes)
                    if processes.contains(&process) && matches!(ask, Some(StoreRequest::ReadPlan(_))) =>
                {
                    return RequestOutcome::Lost;
                }
                _ => {}
            }
        }
        if self.fault_interval > 0 && self.rng.u64(..self.fault_interval) == 0 {
            match self.rng.u64(..3) {
                0 => return RequestOutcome::Lost,
                1 => reply_delay = None,
                _ => request_delay += self.rng.u64(..10_000),
            }
        }
        RequestOutcome::Delivered(request_delay, reply_delay)
    }
}
