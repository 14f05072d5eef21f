//! Table of problems, with the expected words in each command.

/// Cause that exists before the commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The service answers these requests (all: `*`) with this status and code.
    Code(&'static [&'static str], u16, &'static str),
    /// These requests are answered with another holder's lease.
    AnotherLease(&'static [&'static str], u16),
    /// A server other than a Blob service answers.
    Page(u16),
    /// These requests are never answered.
    Silence(&'static [&'static str]),
    /// Connections are reset.
    Reset,
    /// The port has no listener.
    Refused,
    /// The name of the endpoint cannot be resolved.
    UnresolvableName,
    /// An untrusted authority issued the endpoint's certificate.
    UntrustedCertificate,
    /// The endpoint does not speak TLS.
    NoTls,
    /// The key belongs to another account.
    WrongKey,
    /// The SAS has expired.
    ExpiredSas,
    /// The container does not exist, and the SAS does not permit its creation.
    ContainerMissing,
    /// This machine's clock is this many minutes behind.
    ClockBehind(i64),
    /// The blob belongs to another application.
    ForeignBlob,
    /// A candidate led before, and another client holds an infinite lease.
    InfiniteLease,
    /// No problem: the service works.
    Nothing,
}

/// One problem, without a leader.
pub struct ProblemRow {
    pub cause: Cause,
    /// Words in `status`, or `None` if a read does not show the problem, so that `status` suggests
    /// `tenure check`.
    pub status: Option<&'static str>,
    /// Failing finding of `check`, and its words.
    pub check: (&'static str, &'static str),
    /// Class of the candidate's `problem`, and its words, which also appear in `/readyz`.
    pub problem: (&'static str, &'static str),
    /// Exit code of `lock --wait`, and its words.
    pub lock: Option<(i32, &'static str)>,
    /// True if a candidate is ready despite the problem.
    pub ready: bool,
}

const ALL_REQUESTS: &[&str] = &["*"];
const CREATE_CONTAINER: &[&str] = &["create-container"];

const fn row(
    cause: Cause,
    status: Option<&'static str>,
    check: (&'static str, &'static str),
    problem: (&'static str, &'static str),
) -> ProblemRow {
    ProblemRow { cause, status, check, problem, lock: None, ready: false }
}

const fn code(
    status: u16,
    code: &'static str,
    class: &'static str,
    words: &'static str,
) -> ProblemRow {
    row(Cause::Code(ALL_REQUESTS, status, code), Some(words), ("read blob", words), (class, words))
}

#[rustfmt::skip]
pub const PROBLEMS: &[ProblemRow] = &[
    // The caller's credential is rejected.
    row(Cause::WrongKey, Some("the account key is this account's key"), ("read blob", "the account key is this account's key"), ("refused", "the account key is this account's key")),
    row(Cause::ExpiredSas, Some("the SAS has expired"), ("credential", "the SAS has expired"), ("refused", "the SAS has expired")),
    code(401, "NoAuthenticationInformation", "refused", "no credential that it accepts"),
    code(401, "InvalidAuthenticationInfo", "refused", "no credential that it accepts"),
    code(400, "InvalidAuthenticationInfo", "refused", "does not accept the credential"),
    code(400, "InvalidHeaderValue", "refused", "does not accept a value"),
    code(400, "InvalidUri", "refused", "did not understand the request"),
    code(403, "AuthorizationFailure", "refused", "a network rule of the account"),
    code(403, "AuthorizationSourceIPMismatch", "refused", "not valid for this machine's address"),
    code(403, "AuthorizationProtocolMismatch", "refused", "https only"),
    code(403, "AuthorizationResourceTypeMismatch", "refused", "not valid for blobs"),
    code(403, "KeyBasedAuthenticationNotPermitted", "refused", "refuses its own keys"),
    code(403, "AccountIsDisabled", "refused", "the account is disabled"),
    code(403, "AuthorizationPermissionMismatch", "refused", "containers/blobs/read"),
    // One request is rejected, which a read does not show.
    row(Cause::Code(&["acquire"], 403, "AuthorizationPermissionMismatch"), None, ("acquire lease", "containers/blobs/write"), ("refused", "acquire lease")),
    row(Cause::Code(&["acquire"], 400, "InvalidHeaderValue"), None, ("acquire lease", "does not accept a value"), ("refused", "does \
                                                                                                                             not \
                                                                                                                             accept \
                                                                                                                             a \
                                                                                                                             value")),
    row(Cause::Code(&["write"], 403, "AuthorizationPermissionMismatch"), None, ("write record", "containers/blobs/write"), ("refused", "write record")),
    row(Cause::Code(&["write"], 409, "BlobImmutableDueToPolicy"), None, ("write record", "immutability policy"), ("configuration", "immutability policy")),
    row(Cause::Code(&["create-blob"], 403, "AuthorizationPermissionMismatch"), None, ("create blob", "c or w"), ("refused", "create blob")),
    // Problems of the container.
    ProblemRow {
        lock: Some((125, "the container problems does not exist")),
        ..row(Cause::ContainerMissing, Some("this SAS cannot create it"), ("election", "this SAS cannot create it"), ("refused", "the container problems does not exist"))
    },
    row(Cause::Code(CREATE_CONTAINER, 409, "ContainerBeingDeleted"), None, ("create container", "wait a minute"), ("unavailable", "wait a minute")),
    ProblemRow {
        lock: Some((125, "the container problems does not exist")),
        ..row(Cause::Code(CREATE_CONTAINER, 403, "AuthorizationFailure"), None, ("create container", "the container problems is missing"), ("refused", "the container problems does not exist"))
    },
    row(Cause::Code(ALL_REQUESTS, 404, "ResourceNotFound"), None, ("create container", "the account was not found"), ("refused", "the account was not found")),
    ProblemRow {
        lock: Some((125, "metadata that is not Tenure's")),
        ..row(Cause::ForeignBlob, Some("metadata that is not Tenure's"), ("election", "metadata that is not Tenure's"), ("unusable-blob", "metadata that is not Tenure's"))
    },
    ProblemRow {
        lock: Some((75, "something other than a candidate holds the lease")),
        ..row(Cause::InfiniteLease, Some("something other than a candidate holds the lease"), ("election", "tenure break problems/report"), ("foreign-lease", "tenure break problems/report"))
    },
    // The service is unavailable.
    code(429, "", "unavailable", "throttling"),
    code(503, "ServerBusy", "unavailable", "throttling"),
    code(500, "InternalError", "unavailable", "the service failed"),
    code(500, "OperationTimedOut", "unavailable", "timed out"),
    code(502, "", "unavailable", "cannot be reached"),
    code(408, "", "unavailable", "timed out"),
    row(Cause::Code(&["acquire"], 503, "ServerBusy"), None, ("acquire lease", "throttling"), ("unavailable", "throttling")),
    // A different server answers.
    row(Cause::Page(200), Some("not an answer of the Blob service"), ("read blob", "no proxy answers in its place"), ("nonsense", "not an answer of the Blob service")),
    row(Cause::Page(302), Some("not an answer of the Blob service"), ("read blob", "not an answer of the Blob service"), ("nonsense", "not an answer of the Blob service")),
    row(Cause::Page(407), Some("a proxy asks for a login"), ("read blob", "a proxy asks for a login"), ("refused", "a proxy asks for a login")),
    row(Cause::AnotherLease(&["acquire"], 201), None, ("acquire lease", "a different lease"), ("nonsense", "a different lease")),
    // No server answers.
    row(Cause::Silence(ALL_REQUESTS), Some("did not answer in time"), ("read blob", "did not answer in time"), ("unreachable", "did not answer in time")),
    row(Cause::Silence(&["acquire"]), None, ("acquire lease", "did not answer in time"), ("unreachable", "did not answer in time")),
    row(Cause::Reset, Some("closed the connection"), ("read blob", "closed the connection"), ("unreachable", "closed the connection")),
    row(Cause::Refused, Some("does not accept a connection"), ("connection", "firewalls"), ("unreachable", "does not \
                                                                                                      accept a \
                                                                                                      connection")),
    row(Cause::UnresolvableName, Some("cannot be resolved"), ("connection", "cannot be resolved"), ("unreachable", "cannot be resolved")),
    row(Cause::UntrustedCertificate, Some("--ca-file"), ("connection", "--ca-file"), ("unreachable", "--ca-file")),
    row(Cause::NoTls, Some("TLS"), ("connection", "does not speak TLS"), ("unreachable", "TLS")),
    // The clock is wrong.
    ProblemRow { ready: true, ..row(Cause::ClockBehind(20), Some("20m behind"), ("clock", "20m behind"), ("clock", "clock")) },
];

/// Fault of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderFault {
    /// Another client breaks the lease.
    LeaseBroken,
    /// Another client deletes the blob.
    BlobDeleted,
    /// Another client deletes the container.
    ContainerDeleted,
    /// The key is regenerated.
    KeyReplaced,
    /// Same cause as before the start.
    Cause(Cause),
}

/// One fault of a leader, and the class and words in its log.
pub struct LeaderRow {
    pub fault: LeaderFault,
    pub problem: (&'static str, &'static str),
    /// Reason for the end of the leadership.
    pub stand_down_reason: &'static str,
}

const fn leader_row(
    fault: LeaderFault,
    class: &'static str,
    words: &'static str,
    stand_down_reason: &'static str,
) -> LeaderRow {
    LeaderRow { fault, problem: (class, words), stand_down_reason }
}

const RENEW: &[&str] = &["renew"];

#[rustfmt::skip]
pub const LEADER_PROBLEMS: &[LeaderRow] = &[
    leader_row(LeaderFault::LeaseBroken, "lease-lost", "the lease was broken", "lease-lost"),
    leader_row(LeaderFault::BlobDeleted, "lease-lost", "it was deleted", "lease-lost"),
    leader_row(LeaderFault::ContainerDeleted, "lease-lost", "the container does not exist", "lease-lost"),
    leader_row(LeaderFault::KeyReplaced, "refused", "not regenerated", "validity-ended"),
    leader_row(LeaderFault::Cause(Cause::Code(RENEW, 409, "LeaseIdMismatchWithLeaseOperation")), "lease-lost", "the lease is lost", "lease-lost"),
    leader_row(LeaderFault::Cause(Cause::Code(RENEW, 409, "LeaseIsBrokenAndCannotBeRenewed")), "lease-lost", "the lease was broken", "lease-lost"),
    leader_row(LeaderFault::Cause(Cause::Code(RENEW, 412, "LeaseLost")), "lease-lost", "the lease has expired or was broken", "lease-lost"),
    leader_row(LeaderFault::Cause(Cause::Code(RENEW, 404, "BlobNotFound")), "lease-lost", "it was deleted", "lease-lost"),
    leader_row(LeaderFault::Cause(Cause::Code(RENEW, 404, "ContainerNotFound")), "lease-lost", "the container does not exist", "lease-lost"),
    leader_row(LeaderFault::Cause(Cause::AnotherLease(RENEW, 200)), "lease-lost", "different", "lease-lost"),
    leader_row(LeaderFault::Cause(Cause::Code(ALL_REQUESTS, 400, "InvalidHeaderValue")), "refused", "does not accept a value", "validity-ended"),
    leader_row(LeaderFault::Cause(Cause::Code(ALL_REQUESTS, 401, "NoAuthenticationInformation")), "refused", "no credential that it \
                                                                                        accepts", "validity-ended"),
    leader_row(LeaderFault::Cause(Cause::Code(ALL_REQUESTS, 403, "AuthorizationFailure")), "refused", "a network rule of the account", "validity-ended"),
    leader_row(LeaderFault::Cause(Cause::Code(ALL_REQUESTS, 403, "AuthorizationPermissionMismatch")), "refused", "containers/blobs/write", "validity-ended"),
    leader_row(LeaderFault::Cause(Cause::Code(ALL_REQUESTS, 403, "AccountIsDisabled")), "refused", "the account is disabled", "validity-ended"),
    leader_row(LeaderFault::Cause(Cause::Code(ALL_REQUESTS, 429, "")), "unavailable", "throttling", "validity-ended"),
    leader_row(LeaderFault::Cause(Cause::Code(ALL_REQUESTS, 503, "ServerBusy")), "unavailable", "throttling", "validity-ended"),
    leader_row(LeaderFault::Cause(Cause::Code(ALL_REQUESTS, 500, "InternalError")), "unavailable", "the service failed", "validity-ended"),
    leader_row(LeaderFault::Cause(Cause::Page(200)), "nonsense", "not an answer of the Blob service", "validity-ended"),
    leader_row(LeaderFault::Cause(Cause::Silence(ALL_REQUESTS)), "unreachable", "did not answer in time", "validity-ended"),
    leader_row(LeaderFault::Cause(Cause::Reset), "unreachable", "closed the connection", "validity-ended"),
];
