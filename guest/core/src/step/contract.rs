//! Conversions between the types of this crate and those of the WIT package `tenure:election`,
//! which correspond one to one. The macro serves the component and its host, each with its own
//! bindings.

/// Implements `Convert` between the types of this crate and the types that a binding generator
/// derived from `wit/types.wit`. The argument is the module of those types.
#[macro_export]
macro_rules! convert_contract {
    ($wit:path) => {
        use $crate as core_types;
        use $crate::contract::parts::{Duration, String, Vec, take};
        use $wit as wit;

        /// Conversion from a core type to its WIT type, or back.
        pub(crate) trait Convert<T> {
            /// Returns the same value in the other type.
            fn convert(self) -> T;
        }

        impl Convert<u64> for Duration {
            fn convert(self) -> u64 {
                u64::try_from(self.as_nanos()).unwrap_or(u64::MAX)
            }
        }

        impl Convert<Duration> for u64 {
            fn convert(self) -> Duration {
                Duration::from_nanos(self)
            }
        }

        impl Convert<u64> for core_types::Timestamp {
            fn convert(self) -> u64 {
                self.0
            }
        }

        impl Convert<core_types::Timestamp> for u64 {
            fn convert(self) -> core_types::Timestamp {
                core_types::Timestamp(self)
            }
        }

        impl Convert<Vec<u8>> for core_types::State {
            fn convert(self) -> Vec<u8> {
                self.into_bytes()
            }
        }

        impl Convert<core_types::State> for Vec<u8> {
            fn convert(self) -> core_types::State {
                self.into()
            }
        }

        impl Convert<wit::Request> for core_types::Request {
            fn convert(mut self) -> wit::Request {
                wit::Request {
                    method: take(&mut self.method),
                    url: take(&mut self.url),
                    headers: take(&mut self.headers),
                    body: take(&mut self.body),
                    timeout: self.timeout.convert(),
                }
            }
        }

        impl Convert<core_types::Request> for wit::Request {
            fn convert(self) -> core_types::Request {
                let wit::Request { method, url, headers, body, timeout } = self;
                core_types::Request { method, url, headers, body, timeout: timeout.convert() }
            }
        }

        impl<A: Convert<B>, B> Convert<Option<B>> for Option<A> {
            fn convert(self) -> Option<B> {
                self.map(A::convert)
            }
        }

        impl<A: Convert<B>, B> Convert<Vec<B>> for Vec<A> {
            fn convert(self) -> Vec<B> {
                self.into_iter().map(A::convert).collect()
            }
        }

        impl<A: Convert<B>, B, C: Convert<D>, D> Convert<(B, D)> for (A, C) {
            fn convert(self) -> (B, D) {
                (self.0.convert(), self.1.convert())
            }
        }

        impl<A: Convert<B>, B, E: Convert<F>, F> Convert<Result<B, F>> for Result<A, E> {
            fn convert(self) -> Result<B, F> {
                self.map(A::convert).map_err(E::convert)
            }
        }

        $crate::contract::convert!(@same bool, u8, u16, u32, u64, String);

        $crate::contract::convert!(@records
            Needs { origins, credential, notes }
            Leadership { term, valid_for }
            Incumbent { name, term, since, address, coordinates }
            Ending { term, reason }
            Share { index, count }
            Turn {
                election, key, term, slot, trigger, attempt, past_due, missed, valid_for, time_limit, share
            }
            TurnResult { outcome, reason }
            Response { status, headers, body }
            Failure { kind, detail }
            Problem { class, detail }
            Exchange { what, result, took }
            Listed { name, address, ready, failover, seen_at }
            Report {
                state, role, wins_within, ending, renewed, last_will, wind_down, wind_down_limit, successor,
                promise, turns, candidates, run, background, problems, exchanges, service_time, again_in
            }
            LastSlot { slot, attempt }
            Finished { slot, outcome }
            Triggered { id, slot, attempt, outcome }
            End { outcome, at, took }
            Ended { slot, triggered, end }
            FailureDetail { at, candidate, reason }
            MissedSlots { slot, count }
            NextTurn { slot, at }
            Turns {
                schedule, last_slot, finished, triggered, last_success, last_failure, failure_detail, missed,
                next
            }
        );

        $crate::contract::convert!(@choices
            Role { Leading(leadership), Following(incumbent), Undecided, Left }
            EndingReason { ValidityEnded, LeaseLost, Left, WorkFailed, Resigned, HandedOver }
            Outcome { Succeeded, Failed, Trapped, TimedOut, CutOff, Abandoned, NotStarted }
            FailureKind { Timeout, Name, Connect, Reset, Tls, Denied, Other }
            ProblemClass {
                Configuration, UnusableBlob, ForeignLease, Refused, Clock, Unreachable, Unavailable, Nonsense,
                LeaseLost, Schedule, Work, Order
            }
            RequestKind {
                ReadBlob, CreateContainer, CreateBlob, AcquireLease, RenewLease, ChangeLease, ReleaseLease,
                BreakLease, WriteRecord, ReadAnnouncement, Announce, ReadCandidates, WriteCandidates,
                ReadOrders, WriteOrders, DeleteBlob, ReadAccount, ReadContent, WriteContent, ListBlobs,
                RequestToken
            }
            ExchangeResult { Done, Declined, Refused, Unavailable, Nonsense, Unanswered }
        );
    };
    (@same $($type:ty),*) => {$(
        impl Convert<$type> for $type {
            fn convert(self) -> $type {
                self
            }
        }
    )*};
    (@records $($name:ident { $($field:ident),* })*) => {$(
        impl Convert<wit::$name> for core_types::$name {
            fn convert(self) -> wit::$name {
                let core_types::$name { $($field),* } = self;
                wit::$name { $($field: $field.convert()),* }
            }
        }

        impl Convert<core_types::$name> for wit::$name {
            fn convert(self) -> core_types::$name {
                let wit::$name { $($field),* } = self;
                core_types::$name { $($field: $field.convert()),* }
            }
        }
    )*};
    (@choices $($name:ident { $($variant:ident $(($value:ident))?),* })*) => {$(
        impl Convert<wit::$name> for core_types::$name {
            fn convert(self) -> wit::$name {
                match self {
                    $(core_types::$name::$variant $(($value))? => wit::$name::$variant $(($value.convert()))?),*
                }
            }
        }

        impl Convert<core_types::$name> for wit::$name {
            fn convert(self) -> core_types::$name {
                match self {
                    $(wit::$name::$variant $(($value))? => core_types::$name::$variant $(($value.convert()))?),*
                }
            }
        }
    )*};
}

pub use convert_contract as convert;

/// Types and functions that the macro uses. They exist with and without the standard library.
#[doc(hidden)]
pub mod parts {
    pub use core::mem::take;
    pub use core::time::Duration;
    pub use tenure_base::prelude::{String, Vec};
}
