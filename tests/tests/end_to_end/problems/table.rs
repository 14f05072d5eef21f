//! The table: what is wrong, and the words by which each of those who are asked names it.

/// What is wrong before anybody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// These requests (all: `*`) are answered with this status and code.
    Code(&'static [&'static str], u16, &'static str),
    /// These are answered with somebody else's lease.
    AnotherLease(&'static [&'static str], u16),
    /// Something answers that is no Blob service.
    Page(u16),
    /// These are never answered.
    Silence(&'static [&'static str]),
    /// Connections are reset.
    Reset,
    /// Nobody listens.
    Refused,
    /// The name of the endpoint cannot be resolved.
    NoName,
    /// The endpoint's certificate is of an authority that nobody trusts.
    NoTrust,
    /// The endpoint speaks no TLS.
    NoTls,
    /// The key is that of another account.
    WrongKey,
    /// The SAS has expired.
    ExpiredSas,
    /// There is no container, and the SAS may not make one.
    ContainerMissing,
    /// This machine's clock is so many minutes behind.
    Behind(i64),
    /// The blob holds something else.
    ForeignBlob,
    /// A candidate led before, and something else holds the lease without an end.
    InfiniteLease,
    /// Nothing: the service is sound.
    Nothing,
}

/// One problem, while nobody leads.
pub struct Asked {
    pub cause: Cause,
    /// What `status` says; none where a look shows nothing of it, and it can but name `tenure check`.
    pub status: Option<&'static str>,
    /// The finding of `check` that fails, and its words.
    pub check: (&'static str, &'static str),
    /// The class of the `problem` that a candidate logs, and its words, which `/readyz` has too.
    pub problem: (&'static str, &'static str),
    /// The exit code of `lock --wait` and its words.
    pub lock: Option<(i32, &'static str)>,
    /// Whether a candidate is ready all the same.
    pub ready: bool,
}

const ALL: &[&str] = &["*"];
const MAKING: &[&str] = &["create-container"];

const fn row(
    cause: Cause,
    status: Option<&'static str>,
    check: (&'static str, &'static str),
    problem: (&'static str, &'static str),
) -> Asked {
    Asked { cause, status, check, problem, lock: None, ready: false }
}

const fn code(status: u16, code: &'static str, class: &'static str, words: &'static str) -> Asked {
    row(Cause::Code(ALL, status, code), Some(words), ("read blob", words), (class, words))
}

#[rustfmt::skip]
pub const ASKED: &[Asked] = &[
    // Who asks is refused.
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
    // One request is refused, which a look does not show.
    row(Cause::Code(&["acquire"], 403, "AuthorizationPermissionMismatch"), None, ("acquire lease", "containers/blobs/write"), ("refused", "acquire lease")),
    row(Cause::Code(&["acquire"], 400, "InvalidHeaderValue"), None, ("acquire lease", "does not accept a value"), ("refused", "does \
                                                                                                                             not \
                                                                                                                             accept \
                                                                                                                             a \
                                                                                                                             value")),
    row(Cause::Code(&["write"], 403, "AuthorizationPermissionMismatch"), None, ("write record", "containers/blobs/write"), ("refused", "write record")),
    row(Cause::Code(&["write"], 409, "BlobImmutableDueToPolicy"), None, ("write record", "immutability policy"), ("configuration", "immutability policy")),
    row(Cause::Code(&["create-blob"], 403, "AuthorizationPermissionMismatch"), None, ("create blob", "c or w"), ("refused", "create blob")),
    // The container.
    Asked {
        lock: Some((125, "the container problems does not exist")),
        ..row(Cause::ContainerMissing, Some("this SAS cannot create it"), ("election", "this SAS cannot create it"), ("refused", "the container problems does not exist"))
    },
    row(Cause::Code(MAKING, 409, "ContainerBeingDeleted"), None, ("create container", "wait a minute"), ("unavailable", "wait a minute")),
    Asked {
        lock: Some((125, "the container problems does not exist")),
        ..row(Cause::Code(MAKING, 403, "AuthorizationFailure"), None, ("create container", "the container problems is missing"), ("refused", "the container problems does not exist"))
    },
    row(Cause::Code(ALL, 404, "ResourceNotFound"), None, ("create container", "the account was not found"), ("refused", "the account was not found")),
    Asked {
        lock: Some((125, "metadata that is not Tenure's")),
        ..row(Cause::ForeignBlob, Some("metadata that is not Tenure's"), ("election", "metadata that is not Tenure's"), ("unusable-blob", "metadata that is not Tenure's"))
    },
    Asked {
        lock: Some((75, "something other than a candidate holds the lease")),
        ..row(Cause::InfiniteLease, Some("something other than a candidate holds the lease"), ("election", "tenure break problems/report"), ("foreign-lease", "tenure break problems/report"))
    },
    // The service cannot.
    code(429, "", "unavailable", "throttling"),
    code(503, "ServerBusy", "unavailable", "throttling"),
    code(500, "InternalError", "unavailable", "the service failed"),
    code(500, "OperationTimedOut", "unavailable", "timed out"),
    code(502, "", "unavailable", "cannot be reached"),
    code(408, "", "unavailable", "timed out"),
    row(Cause::Code(&["acquire"], 503, "ServerBusy"), None, ("acquire lease", "throttling"), ("unavailable", "throttling")),
    // Something else answers.
    row(Cause::Page(200), Some("not an answer of the Blob service"), ("read blob", "no proxy answers in its place"), ("nonsense", "not an answer of the Blob service")),
    row(Cause::Page(302), Some("not an answer of the Blob service"), ("read blob", "not an answer of the Blob service"), ("nonsense", "not an answer of the Blob service")),
    row(Cause::Page(407), Some("a proxy asks for a login"), ("read blob", "a proxy asks for a login"), ("refused", "a proxy asks for a login")),
    row(Cause::AnotherLease(&["acquire"], 201), None, ("acquire lease", "a different lease"), ("nonsense", "a different lease")),
    // Nobody answers.
    row(Cause::Silence(ALL), Some("did not answer in time"), ("read blob", "did not answer in time"), ("unreachable", "did not answer in time")),
    row(Cause::Silence(&["acquire"]), None, ("acquire lease", "did not answer in time"), ("unreachable", "did not answer in time")),
    row(Cause::Reset, Some("closed the connection"), ("read blob", "closed the connection"), ("unreachable", "closed the connection")),
    row(Cause::Refused, Some("does not accept a connection"), ("connection", "firewalls"), ("unreachable", "does not \
                                                                                                      accept a \
                                                                                                      connection")),
    row(Cause::NoName, Some("cannot be resolved"), ("connection", "cannot be resolved"), ("unreachable", "cannot be resolved")),
    row(Cause::NoTrust, Some("--ca-file"), ("connection", "--ca-file"), ("unreachable", "--ca-file")),
    row(Cause::NoTls, Some("TLS"), ("connection", "does not speak TLS"), ("unreachable", "TLS")),
    // The clock.
    Asked { ready: true, ..row(Cause::Behind(20), Some("20m behind"), ("clock", "20m behind"), ("clock", "clock")) },
];

/// What happens to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// Somebody breaks the lease.
    Broken,
    /// Somebody deletes the blob.
    Deleted,
    /// Somebody deletes the container.
    ContainerDeleted,
    /// The key is regenerated.
    KeyReplaced,
    /// As with what is wrong from the beginning.
    Cause(Cause),
}

/// One blow to a leader, and how its log names it: class and words.
pub struct Held {
    pub blow: Blow,
    pub problem: (&'static str, &'static str),
    /// How the leadership ends.
    pub ends: &'static str,
}

const fn held(blow: Blow, class: &'static str, words: &'static str, ends: &'static str) -> Held {
    Held { blow, problem: (class, words), ends }
}

const RENEWING: &[&str] = &["renew"];

#[rustfmt::skip]
pub const HELD: &[Held] = &[
    held(Blow::Broken, "lease-lost", "somebody broke the lease", "lease-lost"),
    held(Blow::Deleted, "lease-lost", "somebody deleted it", "lease-lost"),
    held(Blow::ContainerDeleted, "lease-lost", "the container does not exist", "lease-lost"),
    held(Blow::KeyReplaced, "refused", "not regenerated", "validity-ended"),
    held(Blow::Cause(Cause::Code(RENEWING, 409, "LeaseIdMismatchWithLeaseOperation")), "lease-lost", "the lease is lost", "lease-lost"),
    held(Blow::Cause(Cause::Code(RENEWING, 409, "LeaseIsBrokenAndCannotBeRenewed")), "lease-lost", "somebody broke the lease", "lease-lost"),
    held(Blow::Cause(Cause::Code(RENEWING, 412, "LeaseLost")), "lease-lost", "the lease has expired or was broken", "lease-lost"),
    held(Blow::Cause(Cause::Code(RENEWING, 404, "BlobNotFound")), "lease-lost", "somebody deleted it", "lease-lost"),
    held(Blow::Cause(Cause::Code(RENEWING, 404, "ContainerNotFound")), "lease-lost", "the container does not exist", "lease-lost"),
    held(Blow::Cause(Cause::AnotherLease(RENEWING, 200)), "lease-lost", "different", "lease-lost"),
    held(Blow::Cause(Cause::Code(ALL, 400, "InvalidHeaderValue")), "refused", "does not accept a value", "validity-ended"),
    held(Blow::Cause(Cause::Code(ALL, 401, "NoAuthenticationInformation")), "refused", "no credential that it \
                                                                                        accepts", "validity-ended"),
    held(Blow::Cause(Cause::Code(ALL, 403, "AuthorizationFailure")), "refused", "a network rule of the account", "validity-ended"),
    held(Blow::Cause(Cause::Code(ALL, 403, "AuthorizationPermissionMismatch")), "refused", "containers/blobs/write", "validity-ended"),
    held(Blow::Cause(Cause::Code(ALL, 403, "AccountIsDisabled")), "refused", "the account is disabled", "validity-ended"),
    held(Blow::Cause(Cause::Code(ALL, 429, "")), "unavailable", "throttling", "validity-ended"),
    held(Blow::Cause(Cause::Code(ALL, 503, "ServerBusy")), "unavailable", "throttling", "validity-ended"),
    held(Blow::Cause(Cause::Code(ALL, 500, "InternalError")), "unavailable", "the service failed", "validity-ended"),
    held(Blow::Cause(Cause::Page(200)), "nonsense", "not an answer of the Blob service", "validity-ended"),
    held(Blow::Cause(Cause::Silence(ALL)), "unreachable", "did not answer in time", "validity-ended"),
    held(Blow::Cause(Cause::Reset), "unreachable", "closed the connection", "validity-ended"),
];
