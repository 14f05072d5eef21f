//! Faults, and the protocol steps at which they occur.

/// Protocol step in which a request is sent (protocol.md §4 to §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Poll (protocol.md §4.1).
    Poll,
    /// Creation of a missing container (protocol.md §4.1).
    CreateContainer,
    /// Creation of a missing blob (protocol.md §4.1).
    CreateBlob,
    /// Acquisition of the lease (protocol.md §4.2).
    Acquire,
    /// Raise of the term (protocol.md §4.3).
    Raise,
    /// Read of the outcome of an uncertain write (protocol.md §4.3 and §5).
    ReadBack,
    /// Renewal while holding the lease.
    Renew,
    /// Claim of a slot (protocol.md §6).
    Claim,
    /// Outcome of a turn, written alone (protocol.md §6).
    Outcome,
    /// Release of the lease (protocol.md §7.1).
    Release,
    /// Change of the lease to a successor (protocol.md §7.2).
    HandOver,
    /// Beat: a leader writes the record as a sign of life (protocol.md §13).
    Beat,
    /// Break: a follower ends the lease of a leader whose promise has ended (protocol.md §13).
    Break,
    /// Request about an announcement or triggers; not a step of the protocol.
    SideBlob,
    /// Read or write of the list of candidates (protocol.md §7.4); not a step of the protocol.
    List,
    /// Last will: the supervisor of a dead process releases its lease (protocol.md §7.3).
    Will,
}

impl Step {
    /// Steps of the protocol, in order.
    pub const PROTOCOL: [Self; 13] = [
        Self::Poll,
        Self::CreateContainer,
        Self::CreateBlob,
        Self::Acquire,
        Self::Raise,
        Self::ReadBack,
        Self::Renew,
        Self::Claim,
        Self::Outcome,
        Self::Release,
        Self::HandOver,
        Self::Beat,
        Self::Break,
    ];

    /// Returns the name for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Poll => "look",
            Self::CreateContainer => "container",
            Self::CreateBlob => "blob",
            Self::Acquire => "acquire",
            Self::Raise => "raise",
            Self::ReadBack => "read back",
            Self::Renew => "renew",
            Self::Claim => "claim",
            Self::Outcome => "outcome",
            Self::Release => "release",
            Self::HandOver => "hand over",
            Self::Beat => "beat",
            Self::Break => "break",
            Self::SideBlob => "side blob",
            Self::List => "list",
            Self::Will => "last will",
        }
    }
}

/// Kind of a fault: the part that it affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A single request.
    Request,
    /// All requests of one candidate, or of all, for a time.
    Network,
    /// One candidate.
    Process,
    /// The service, within A1.
    Service,
    /// The lease or the record, against A3.
    Outsider,
    /// A condition that lasts for minutes and can affect any step.
    Condition,
}

macro_rules! faults {
    ($($fault:ident, $kind:ident, $name:literal;)*) => {
        /// One kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $(#[doc = $name] $fault,)* }

        impl Fault {
            /// All faults, in table order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$fault),*];

            /// Returns the name for tables and traces.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$fault => $name),* }
            }

            /// Returns the kind: the part that the fault affects.
            #[must_use]
            pub fn kind(self) -> Kind {
                match self { $(Self::$fault => Kind::$kind),* }
            }
        }
    };
}

faults! {
    RequestLost, Request, "request lost";
    AnswerLost, Request, "answer lost";
    Delayed, Request, "delayed, in time";
    AnsweredLate, Request, "answered too late";
    AppliedLate, Request, "applied late";
    Duplicated, Request, "duplicated";
    Forbidden, Request, "403 instead";
    NotFound, Request, "404 instead";
    Conflict, Request, "409 instead";
    Precondition, Request, "412 instead";
    TooMany, Request, "429 instead";
    Internal, Request, "500 instead";
    Busy, Request, "503 instead";
    Nonsense, Request, "nonsense answer";
    WrongLease, Request, "another's lease id";
    Reset, Request, "reset";
    DateOff, Request, "a date far off";
    PartitionOne, Network, "partition of one";
    PartitionAll, Network, "partition of all";
    StoreRestart, Network, "store restart";
    PauseWithin, Process, "pause within a step";
    PauseBetween, Process, "pause between steps";
    Kill, Process, "kill and restart";
    Leave, Process, "leave and restart";
    Resign, Process, "told to resign";
    HandOver, Process, "told to hand over";
    NotReady, Process, "not ready for a while";
    StepFails, Process, "a step fails";
    WallJump, Process, "wall clock jumps";
    LeaseEndsEarly, Service, "lease ends 2 s early";
    BreakRest, Service, "broken, rest runs out";
    BreakNow, Outsider, "broken at once";
    DeleteBlob, Outsider, "blob deleted";
    DeleteContainer, Outsider, "container deleted";
    WipeRecord, Outsider, "record wiped";
    RestoreRecord, Outsider, "record restored";
    StateLost, Outsider, "store loses its state";
    HostileRecord, Outsider, "hostile record";
    SlowTrips, Condition, "slow round trips";
    WritesFail, Condition, "record writes fail";
    LeasesFail, Condition, "lease requests fail";
    LooksFail, Condition, "looks fail";
    SideBlobsFail, Condition, "side blobs fail";
    TokensFail, Condition, "tokens fail";
    ClockSteps, Condition, "service's clock steps";
    DatesStand, Condition, "dates stand still";
    HostileSideBlobs, Condition, "hostile side blobs";
    SecretSpoilt, Condition, "secret file spoilt";
    SettingsSpoilt, Condition, "settings unusable";
}

impl Fault {
    /// Number of faults that wait for a step; they come first.
    pub const AT_STEPS: usize = Self::SlowTrips as usize;

    /// Returns true if it makes requests of this step fail while it lasts.
    #[must_use]
    pub fn affects(self, step: Step) -> bool {
        use Step::{
            Acquire, Beat, Break, Claim, CreateBlob, CreateContainer, HandOver, List, Outcome,
            Poll, Raise, ReadBack, Release, Renew, SideBlob, Will,
        };
        match self {
            Self::WritesFail => matches!(step, Raise | Claim | Outcome | Beat),
            Self::LeasesFail => {
                matches!(step, Acquire | Renew | Release | HandOver | Break | Will)
            }
            Self::LooksFail => matches!(step, Poll | ReadBack | CreateBlob | CreateContainer),
            Self::SideBlobsFail => matches!(step, SideBlob | List),
            _ => false,
        }
    }

    /// Returns true if it removes the record, or its newest writes.
    #[must_use]
    pub fn loses_record(self) -> bool {
        self.kind() == Kind::Outsider && self != Self::BreakNow
    }
}
