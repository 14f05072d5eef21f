//! Outcome of requests on the network.

use fastrand::Rng;
use tenure_shares::StoreRequest;

/// A temporary fault.
#[derive(Clone, Debug)]
pub struct ActiveFault {
    /// Kind of the fault.
    pub fault: Fault,
    /// End of the fault, in true time.
    pub until: u64,
}

impl ActiveFault {
    /// Returns true if this process is cut off by it.
    #[must_use]
    pub fn cuts_off(&self, process: usize) -> bool {
        matches!(&self.fault, Fault::Cut(those, _) if those.contains(&process))
    }
}

/// Kind of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// These processes are cut off: their requests are lost, or only the replies.
    Cut(Vec<usize>, bool),
    /// Requests per thousand that are refused for throttling.
    Throttled(u64),
    /// Requests are up to this many milliseconds late.
    Slow(u64),
    /// Requests get no reply.
    Down,
    /// Only signs of these processes are lost.
    SignsLost(Vec<usize>),
    /// Only plans of these processes are refused.
    PlanWritesRefused(Vec<usize>),
    /// Only plan reads of these processes fail.
    PlanReadsLost(Vec<usize>),
    /// Blobs cannot be written, but leases can be held.
    ReadOnly,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Delivered after the first delay; its reply takes the second delay, or is lost.
    Delivered(u64, Option<u64>),
    /// Lost on the way.
    Lost,
    /// Refused after this delay by throttling, and not applied.
    Throttled(u64),
    /// Refused after this delay.
    Refused(u64),
}

/// The network between all processes and the account.
#[derive(Debug)]
pub struct Network {
    rng: Rng,
    /// Maximum one-way latency, in milliseconds.
    pub max_latency: u64,
    /// Average number of requests between random faults; 0 for none.
    pub fault_interval: u64,
    /// Faults that are active now.
    pub active_faults: Vec<ActiveFault>,
}

impl Network {
    /// Creates a network without active faults.
    #[must_use]
    pub fn new(seed: u64, max_latency: u64, fault_interval: u64) -> Self {
        Self { rng: Rng::with_seed(seed), max_latency, fault_interval, active_faults: Vec::new() }
    }

    /// Returns the outcome of a request that this process sends `now`.
    pub fn outcome(
        &mut self,
        process: usize,
        ask: Option<&StoreRequest>,
        now: u64,
    ) -> RequestOutcome {
        let (mut request_delay, mut reply_delay) =
            (self.rng.u64(1..=self.max_latency), Some(self.rng.u64(1..=self.max_latency)));
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
                Fault::ReadOnly
                    if matches!(
                        ask,
                        Some(StoreRequest::WriteSign(_) | StoreRequest::WritePlan(..))
                    ) =>
                {
                    return RequestOutcome::Refused(request_delay * 2);
                }
                Fault::SignsLost(processes)
                    if processes.contains(&process)
                        && matches!(ask, Some(StoreRequest::WriteSign(_))) =>
                {
                    return RequestOutcome::Lost;
                }
                Fault::PlanWritesRefused(processes)
                    if processes.contains(&process)
                        && matches!(ask, Some(StoreRequest::WritePlan(..))) =>
                {
                    return RequestOutcome::Refused(request_delay * 2);
                }
                Fault::PlanReadsLost(processes)
                    if processes.contains(&process)
                        && matches!(ask, Some(StoreRequest::ReadPlan(_))) =>
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
