//! What can go wrong, and where in the protocol.

/// Where in the protocol a request is sent. protocol.md §4 to §7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// protocol.md §4.1.
    Poll,
    /// protocol.md §4.1, where there is no container.
    CreateContainer,
    /// protocol.md §4.1, where there is no blob.
    CreateBlob,
    /// protocol.md §4.2.
    Acquire,
    /// protocol.md §4.3.
    Raise,
    /// protocol.md §4.3 and §5: what a write of unknown outcome came to.
    ReadBack,
    /// Holding.
    Renew,
    /// protocol.md §6.
    Claim,
    /// protocol.md §6: the outcome of a turn, by itself.
    Outcome,
    /// protocol.md §7.1.
    Release,
    /// protocol.md §7.2: the lease is given to a successor.
    HandOver,
    /// protocol.md §13: a leader writes the record as a sign of life.
    Beat,
    /// protocol.md §13: a follower ends the lease of a leader whose promise has ended.
    Break,
    /// A request about an announcement or triggers: no step of the protocol.
    SideBlob,
    /// protocol.md §7.4: the list of candidates is read or written: no step of the protocol either.
    List,
    /// protocol.md §7.3: the supervisor of a process that died releases its lease.
    Will,
}

impl Step {
    /// Those of the protocol, in its order.
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

    /// For tables.
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

/// Whom a fault befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One request.
    Request,
    /// All requests of one candidate, or of all, for a time.
    Network,
    /// One candidate.
    Process,
    /// The service, as A1 allows it.
    Service,
    /// The lease or the record, against A3.
    Outsider,
    /// What it meets for minutes: no step of the protocol is spared.
    Condition,
}

macro_rules! faults {
    ($($fault:ident, $kind:ident, $name:literal;)*) => {
        /// One kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $(#[doc = $name] $fault,)* }

        impl Fault {
            /// All of them, as the tables show them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$fault),*];

            /// For tables and traces.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$fault => $name),* }
            }

            /// Whom it befalls.
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
    /// How many there are that wait for a step; they come first.
    pub const AT_STEPS: usize = Self::SlowTrips as usize;

    /// Whether it makes requests of this step fail as long as it lasts.
    #[must_use]
    pub fn affects(self, step: Step) -> bool {
        use Step::{
            Acquire, Beat, Break, Claim, CreateBlob, CreateContainer, HandOver, List, Poll,
            Outcome, Raise, ReadBack, Release, Renew, SideBlob, Will,
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

    /// Whether the record, or its newest writes, are gone afterwards.
    #[must_use]
    pub fn loses_record(self) -> bool {
        self.kind() == Kind::Outsider && self != Self::BreakNow
    }
}
