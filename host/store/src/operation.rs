//! The supported operations: one row for each, with every part of a request that it supports.
//!
//! A request is checked against its row before any lookup. Parts that might have an effect but are
//! not in the row are refused with 501. If they were ignored, a client would believe that they took
//! effect. The documentation and `tenure store --help` are generated from the same rows.

use super::address::{Address, Resource};
use super::blobs::{acquire, break_lease, change, release, renew};
use super::code::{Code, Failure};
use super::service::{Call, Service};
use super::wire::{OperationKind, Request, Response};

/// The target of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Account,
    Container,
    Blob,
}

/// A supported operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) kind: OperationKind,
    /// The title in the REST reference.
    title: &'static str,
    target: Target,
    methods: &'static [&'static str],
    /// The parameter `comp`; empty if absent.
    comp: &'static str,
    /// The header `x-ms-lease-action`; empty if absent.
    action: &'static str,
    /// Supported parameters besides [`COMMON_PARAMETERS`].
    parameters: &'static [&'static str],
    /// Supported headers besides [`COMMON_HEADERS`], in groups. A `*` at the end matches any
    /// suffix.
    headers: &'static [&'static [&'static str]],
    /// The right that an account SAS needs: a resource type (`srt`), and one of these permissions
    /// (`sp`). A service SAS needs the same permission, for operations on blobs and for listing
    /// them.
    pub(super) required_right: (char, &'static str),
    /// The implementation.
    pub(super) run: fn(&mut Service, &Call<'_>) -> Result<Response, Failure>,
}

const CONDITIONS: &[&str] =
    &["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"];
const LEASE_ID: &[&str] = &["x-ms-lease-id"];
const METADATA: &[&str] = &["x-ms-meta-*"];
/// Properties of a blob. If one of these headers is absent, the header without the prefix
/// `x-ms-blob-` applies.
const PROPERTIES: &[&str] = &[
    "x-ms-blob-cache-control",
    "x-ms-blob-content-disposition",
    "x-ms-blob-content-encoding",
    "x-ms-blob-content-language",
    "x-ms-blob-content-md5",
    "x-ms-blob-content-type",
];
const LEASE: &[&str] = &[
    "x-ms-lease-action",
    "x-ms-lease-break-period",
    "x-ms-lease-duration",
    "x-ms-lease-id",
    "x-ms-proposed-lease-id",
];

/// Parameters of every operation. They select the operation, or [`super::auth`] or
/// [`super::headers`] checks them.
const COMMON_PARAMETERS: &[&str] =
    &["timeout", "restype", "comp", "sv", "ss", "srt", "sr", "sp", "st", "se", "spr", "sig"];

/// `x-ms-` headers of every operation. [`super::auth`] or [`super::headers`] checks them, or they
/// have no effect.
const COMMON_HEADERS: &[&str] = &[
    "x-ms-date",
    "x-ms-version",
    "x-ms-client-request-id",
    "x-ms-return-client-request-id",
    "x-ms-correlation-request-id",
    "x-ms-useragent",
];

const GET: &[&str] = &["GET"];
const READ: &[&str] = &["GET", "HEAD"];
const PUT: &[&str] = &["PUT"];

/// Defaults of the rows, by target.
const ACCOUNT: Operation = Operation {
    kind: OperationKind::Other,
    title: "",
    target: Target::Account,
    methods: GET,
    comp: "",
    action: "",
    parameters: &[],
    headers: &[],
    required_right: ('s', ""),
    run: |_, _| Err(Code::UnsupportedHttpVerb.into()),
};
const CONTAINER: Operation =
    Operation { target: Target::Container, required_right: ('c', ""), ..ACCOUNT };
const BLOB: Operation =
    Operation { target: Target::Blob, methods: PUT, required_right: ('o', "w"), ..ACCOUNT };
const LEASE_BLOB: Operation = Operation { comp: "lease", headers: &[LEASE, CONDITIONS], ..BLOB };

/// All supported operations.
const OPERATIONS: &[Operation] = &[
    Operation {
        kind: OperationKind::GetAccount,
        title: "Get Account Information",
        methods: READ,
        comp: "properties",
        run: |_, _| Ok(account_information()),
        ..ACCOUNT
    },
    Operation {
        kind: OperationKind::ListContainers,
        title: "List Containers",
        comp: "list",
        parameters: &["prefix", "marker", "maxresults", "include"],
        required_right: ('s', "l"),
        run: |service, call| service.list_containers(call),
        ..ACCOUNT
    },
    Operation {
        kind: OperationKind::CreateContainer,
        title: "Create Container",
        methods: PUT,
        headers: &[METADATA],
        required_right: ('c', "cw"),
        run: Service::create_container,
        ..CONTAINER
    },
    Operation {
        kind: OperationKind::GetContainer,
        title: "Get Container Properties",
        methods: READ,
        required_right: ('c', "r"),
        run: |service, call| service.get_container(call),
        ..CONTAINER
    },
    Operation {
        kind: OperationKind::DeleteContainer,
        title: "Delete Container",
        methods: &["DELETE"],
        headers: &[&["If-Modified-Since", "If-Unmodified-Since"]],
        required_right: ('c', "d"),
        run: Service::delete_container,
        ..CONTAINER
    },
    Operation {
        kind: OperationKind::ListBlobs,
        title: "List Blobs",
        comp: "list",
        parameters: &["prefix", "delimiter", "marker", "maxresults", "include"],
        required_right: ('c', "l"),
        run: |service, call| service.list_blobs(call),
        ..CONTAINER
    },
    Operation {
        kind: OperationKind::PutBlob,
        title: "Put Blob",
        headers: &[&["Content-MD5", "x-ms-blob-type"], PROPERTIES, METADATA, LEASE_ID, CONDITIONS],
        required_right: ('o', "cw"),
        run: Service::put_blob,
        ..BLOB
    },
    Operation {
        kind: OperationKind::GetBlob,
        title: "Get Blob",
        methods: GET,
        headers: &[&["Range", "x-ms-range"], LEASE_ID, CONDITIONS],
        required_right: ('o', "r"),
        run: |service, call| service.read_blob(call),
        ..BLOB
    },
    Operation {
        kind: OperationKind::HeadBlob,
        title: "Get Blob Properties",
        methods: &["HEAD"],
        headers: &[LEASE_ID, CONDITIONS],
        required_right: ('o', "r"),
        run: |service, call| service.read_blob(call),
        ..BLOB
    },
    Operation {
        kind: OperationKind::GetMetadata,
        title: "Get Blob Metadata",
        methods: READ,
        comp: "metadata",
        headers: &[LEASE_ID, CONDITIONS],
        required_right: ('o', "r"),
        run: |service, call| service.read_metadata(call),
        ..BLOB
    },
    Operation {
        kind: OperationKind::DeleteBlob,
        title: "Delete Blob",
        methods: &["DELETE"],
        headers: &[LEASE_ID, CONDITIONS],
        required_right: ('o', "d"),
        run: Service::delete_blob,
        ..BLOB
    },
    Operation {
        kind: OperationKind::SetMetadata,
        title: "Set Blob Metadata",
        comp: "metadata",
        headers: &[METADATA, LEASE_ID, CONDITIONS],
        run: Service::set_metadata,
        ..BLOB
    },
    Operation {
        kind: OperationKind::Acquire,
        title: "Lease Blob: acquire",
        action: "acquire",
        run: acquire,
        ..LEASE_BLOB
    },
    Operation {
        kind: OperationKind::Renew,
        title: "Lease Blob: renew",
        action: "renew",
        run: renew,
        ..LEASE_BLOB
    },
    Operation {
        kind: OperationKind::Change,
        title: "Lease Blob: change",
        action: "change",
        run: change,
        ..LEASE_BLOB
    },
    Operation {
        kind: OperationKind::Release,
        title: "Lease Blob: release",
        action: "release",
        run: release,
        ..LEASE_BLOB
    },
    Operation {
        kind: OperationKind::Break,
        title: "Lease Blob: break",
        action: "break",
        run: break_lease,
        required_right: ('o', "dw"),
        ..LEASE_BLOB
    },
];

/// Returns the account information. It is the same for all accounts: the most common kind.
fn account_information() -> Response {
    Response::new(200)
        .with("x-ms-sku-name", "Standard_LRS")
        .with("x-ms-account-kind", "StorageV2")
        .with("x-ms-is-hns-enabled", "false")
}

/// Operations of the service that the store does not support: target, `comp`, title.
const UNSUPPORTED: &[(Target, &str, &str)] = &[
    (Target::Account, "batch", "Blob Batch"),
    (Target::Account, "blobs", "Find Blobs by Tags"),
    (Target::Account, "properties", "Get and Set Blob Service Properties"),
    (Target::Account, "stats", "Get Blob Service Stats"),
    (Target::Account, "userdelegationkey", "Get User Delegation Key"),
    (Target::Container, "acl", "Get and Set Container ACL"),
    (Target::Container, "batch", "Blob Batch"),
    (Target::Container, "blobs", "Find Blobs by Tags"),
    (Target::Container, "lease", "Lease Container"),
    (Target::Container, "metadata", "Get and Set Container Metadata"),
    (Target::Container, "rename", "Rename Container"),
    (Target::Container, "undelete", "Restore Container"),
    (Target::Blob, "appendblock", "Append Block"),
    (Target::Blob, "block", "Put Block"),
    (Target::Blob, "blocklist", "Get and Put Block List"),
    (Target::Blob, "copy", "Abort Copy Blob"),
    (Target::Blob, "expiry", "Set Blob Expiry"),
    (Target::Blob, "immutabilityPolicies", "Set Blob Immutability Policy"),
    (Target::Blob, "incrementalcopy", "Incremental Copy Blob"),
    (Target::Blob, "legalhold", "Set Blob Legal Hold"),
    (Target::Blob, "page", "Put Page"),
    (Target::Blob, "pagelist", "Get Page Ranges"),
    (Target::Blob, "properties", "Set Blob Properties"),
    (Target::Blob, "query", "Query Blob Contents"),
    (Target::Blob, "seal", "Append Blob Seal"),
    (Target::Blob, "snapshot", "Snapshot Blob"),
    (Target::Blob, "tags", "Get and Set Blob Tags"),
    (Target::Blob, "tier", "Set Blob Tier"),
    (Target::Blob, "undelete", "Undelete Blob"),
];

impl OperationKind {
    /// Returns the title in the REST reference.
    pub fn name(self) -> &'static str {
        OPERATIONS.iter().find(|row| row.kind == self).map_or("other", |row| row.title)
    }
}

impl std::fmt::Display for OperationKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Operation {
    /// Returns the operation of a request.
    pub(super) fn find(
        address: &Address,
        request: &Request,
    ) -> Result<&'static Operation, Failure> {
        let comp = address.parameter("comp").unwrap_or_default();
        let restype = address.parameter("restype").unwrap_or_default();
        let target = match address.resource.as_ref().map_err(|code| *code)? {
            // Account information can be requested with the path of the account or of a container.
            _ if restype == "account" => Target::Account,
            Resource::Account => Target::Account,
            Resource::Container(_) => Target::Container,
            Resource::Blob(..) => Target::Blob,
        };
        let matching_rows =
            || OPERATIONS.iter().filter(|row| row.target == target && row.comp == comp);
        let is_supported = matching_rows().next().is_some();
        let is_restype_valid = match (target, comp) {
            (Target::Account, "properties") => restype == "account",
            (Target::Container, _) => restype == "container",
            (Target::Account | Target::Blob, _) => restype.is_empty(),
        };
        let unsupported = UNSUPPORTED
            .iter()
            .find(|(row_target, known, _)| *row_target == target && *known == comp);
        match unsupported {
            Some((_, _, title)) if !is_supported || !is_restype_valid => {
                return Err(Failure::unsupported(title));
            }
            _ if !is_restype_valid => {
                return Err(Failure::unsupported(&format!("restype={restype} here")));
            }
            None if comp.is_empty() && target == Target::Account => {
                return Err(Code::InvalidUri.into());
            }
            None if !is_supported => return Err(Failure::query("comp", comp)),
            _ => {}
        }
        let method = request.method.as_str();
        let row = matching_rows()
            .find(|row| row.methods.contains(&method))
            .ok_or(Code::UnsupportedHttpVerb)?;
        // All lease actions have the same target, `comp` and method.
        if row.action.is_empty() { Ok(row) } else { lease_operation(request) }
    }

    /// Refuses parameters and headers with an unsupported effect, and conditions on operations that
    /// take none.
    pub(super) fn check(&self, address: &Address, request: &Request) -> Result<(), Failure> {
        let title = self.title;
        for (name, _) in &address.query {
            let is_known = contains(COMMON_PARAMETERS, name) || contains(self.parameters, name);
            if !is_known && !name.is_empty() {
                return Err(Failure::unsupported(&format!("the parameter {name} of {title}")));
            }
        }
        for (name, _) in &request.headers {
            let name = name.to_ascii_lowercase();
            let is_condition = contains(CONDITIONS, &name);
            let has_effect = is_condition || name.starts_with("x-ms-");
            let is_known = contains(COMMON_HEADERS, &name)
                || self.headers.iter().any(|group| contains(group, &name));
            if has_effect && !is_known {
                return Err(if is_condition {
                    Failure::from(Code::ConditionHeadersNotSupported)
                        .with_detail("HeaderName", &name)
                } else {
                    Failure::unsupported(&format!("the header {name} of {title}"))
                });
            }
        }
        Ok(())
    }
}

/// Returns true if `name` is among `names`, ignoring case. A `*` at the end of a known name matches
/// any suffix.
fn contains(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| match known.strip_suffix('*') {
        Some(prefix) => {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        }
        None => known.eq_ignore_ascii_case(name),
    })
}

/// Returns the operation of `x-ms-lease-action`. Case is ignored, as in the service's other headers
/// of this kind; the reference does not say so for actions.
fn lease_operation(request: &Request) -> Result<&'static Operation, Failure> {
    const NAME: &str = "x-ms-lease-action";
    let action = request.header(NAME).ok_or_else(|| Failure::missing(NAME))?;
    OPERATIONS
        .iter()
        .find(|row| !row.action.is_empty() && row.action.eq_ignore_ascii_case(action))
        .ok_or_else(|| Failure::header(NAME, action))
}

/// Returns the text of `tenure store --help` below the options.
pub fn help() -> String {
    let mut titles: Vec<_> = OPERATIONS.iter().map(|row| strip_action(row.title)).collect();
    // The rows of Lease Blob are consecutive.
    titles.dedup();
    let titles = titles.join(", ");
    format!(
        "The store has one account, that of the emulators: clients reach it on port 10000 with the \
         connection string UseDevelopmentStorage=true. All data is lost when the store ends.\n\n\
         It supports: {titles}.\n\n\
         Everything else of the Blob service is refused with 501 NotImplemented, and the message names it: block \
         lists, snapshots, copies, tags, versions, append and page blobs, leases of containers, and others. An SDK \
         uploads a large blob as a block list, so upload small ones. docs/store.md lists all headers and parameters \
         that are supported."
    )
}

/// Returns the title of an operation without the action of a lease.
fn strip_action(title: &str) -> &str {
    title.split(':').next().unwrap_or(title)
}

/// Returns the table of `docs/store.md`.
#[cfg(test)]
fn table() -> String {
    let target_name = |target: Target| match target {
        Target::Account => "account",
        Target::Container => "container",
        Target::Blob => "blob",
    };
    let code_spans = |names: &mut dyn Iterator<Item = &str>| {
        names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
    };
    let mut text = "| Operation | Request | Parameters | Headers |\n|---|---|---|---|\n".to_owned();
    for row in OPERATIONS.iter().filter(|row| matches!(row.action, "" | "acquire")) {
        let title = strip_action(row.title);
        let methods = row.methods.join(", ");
        let comp =
            if row.comp.is_empty() { String::new() } else { format!(" `comp={}`", row.comp) };
        let (parameters, headers) = (
            code_spans(&mut row.parameters.iter().copied()),
            code_spans(&mut row.headers.iter().copied().flatten().copied()),
        );
        let target = target_name(row.target);
        text.push_str(&format!(
            "| {title} | {methods} {target}{comp} | {parameters} | {headers} |\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/store.md");
        let text = std::fs::read_to_string(page).expect("docs/store.md");
        let table = table();
        assert!(text.contains(&table), "docs/store.md must contain:\n\n{table}");
    }

    #[test]
    fn help_names_every_operation_once() {
        let help = help();
        for title in [" Get Blob,", "Lease Blob.", "List Containers,", "Put Blob,"] {
            assert_eq!(help.matches(title).count(), 1, "{title} in {help}");
        }
    }

    #[test]
    fn no_two_rows_are_for_one_request() {
        for (index, one) in OPERATIONS.iter().enumerate() {
            for other in &OPERATIONS[index + 1..] {
                let overlaps = one.target == other.target
                    && one.comp == other.comp
                    && one.action == other.action
                    && one.methods.iter().any(|method| other.methods.contains(method));
                assert!(!overlaps, "{} and {}", one.title, other.title);
            }
        }
    }

    #[test]
    fn supported_operations_are_not_listed_as_unsupported() {
        for (target, comp, title) in UNSUPPORTED {
            let is_supported =
                OPERATIONS.iter().any(|row| row.target == *target && row.comp == *comp);
            // The properties of the account and of its Blob service differ only in `restype`.
            assert!(!is_supported || *comp == "properties", "{title}");
        }
    }
}
