//! List Containers and List Blobs: in pages, with an optional prefix and delimiter.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tenure_azure::encoding;

use super::address::Address;
use super::blob::{BLOB_TYPE, Blob, Container, PROPERTIES, lease_headers};
use super::code::{Code, Failure, escape_xml};
use super::headers::Metadata;
use super::service::{Call, Service};
use super::wire::{Now, Request, Response};

/// Maximum and default number of items in a page.
const MAX_PAGE: usize = 5000;

/// Values of `include` that the service accepts besides `metadata` (REST reference: *List
/// Containers*, *List Blobs*). The store refuses them with 501, except `copy`. Other values are
/// invalid, so it refuses them with 400.
const CONTAINER_DATASETS: &[&str] = &["deleted", "system"];
const BLOB_DATASETS: &[&str] = &[
    "copy",
    "deleted",
    "deletedwithversions",
    "immutabilitypolicy",
    "legalhold",
    "permissions",
    "snapshots",
    "tags",
    "uncommittedblobs",
    "versions",
];

/// Characters that are escaped in an encoded name.
const NAME_ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The parameters of a request.
struct ListParameters<'a> {
    prefix: &'a str,
    delimiter: &'a str,
    marker: Option<&'a str>,
    /// The first name of the page.
    start: String,
    max_results: Option<usize>,
    includes_metadata: bool,
}

/// An item of a page.
#[derive(Debug, PartialEq, Eq)]
enum Item<'a, T> {
    Entry(&'a str, &'a T),
    /// The common prefix of several names.
    Prefix(&'a str),
}

/// A page, and the first name of the next one.
type Page<'a, T> = (Vec<Item<'a, T>>, Option<&'a str>);

impl ListParameters<'_> {
    /// Parses the parameters. `datasets` are the values of `include` besides `metadata`.
    fn parse<'a>(address: &'a Address, datasets: &[&str]) -> Result<ListParameters<'a>, Failure> {
        let text = |name: &str| address.parameter(name).filter(|value| !value.is_empty());
        let mut parameters = ListParameters {
            prefix: text("prefix").unwrap_or_default(),
            delimiter: text("delimiter").unwrap_or_default(),
            marker: text("marker"),
            start: String::new(),
            max_results: None,
            includes_metadata: false,
        };
        if let Some(marker) = parameters.marker {
            let name = URL_SAFE_NO_PAD.decode(marker).ok();
            let name = name.and_then(|bytes| String::from_utf8(bytes).ok());
            parameters.start = name.ok_or_else(|| Failure::query("marker", marker))?;
        }
        if let Some(value) = text("maxresults") {
            match value.parse::<i64>() {
                Ok(number) if number > 0 => parameters.max_results = usize::try_from(number).ok(),
                Ok(_) => return Err(Code::OutOfRangeQueryParameterValue.into()),
                Err(_) => return Err(Failure::query("maxresults", value)),
            }
        }
        for dataset in text("include").unwrap_or_default().split(',').filter(|set| !set.is_empty())
        {
            match dataset {
                "metadata" => parameters.includes_metadata = true,
                _ if !datasets.contains(&dataset) => {
                    return Err(Failure::query("include", dataset));
                }
                // Azure's command line requests this dataset by default. It is always empty,
                // because no blob here is a copy.
                "copy" => {}
                _ => return Err(Failure::unsupported(&format!("include={dataset}"))),
            }
        }
        Ok(parameters)
    }

    /// Returns the requested page of `all`, which must be sorted by name.
    fn page<'a, T>(&self, all: impl Iterator<Item = (&'a str, &'a T)>) -> Page<'a, T> {
        let limit = self.max_results.unwrap_or(MAX_PAGE).min(MAX_PAGE);
        let mut items: Vec<Item<'a, T>> = Vec::new();
        for (name, value) in all {
            if name < self.start.as_str() || !name.starts_with(self.prefix) {
                continue;
            }
            if let Some(Item::Prefix(last)) = items.last()
                && name.starts_with(last)
            {
                continue;
            }
            if items.len() == limit {
                return (items, Some(name));
            }
            let suffix = &name[self.prefix.len()..];
            let delimiter_at =
                if self.delimiter.is_empty() { None } else { suffix.find(self.delimiter) };
            items.push(match delimiter_at {
                Some(position) => {
                    Item::Prefix(&name[..self.prefix.len() + position + self.delimiter.len()])
                }
                None => Item::Entry(name, value),
            });
        }
        (items, None)
    }

    /// Returns the XML before the items.
    fn xml_start(&self, root: &str) -> String {
        let mut xml = format!("\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>{root}");
        xml.push_str(&name_element("Prefix", self.prefix));
        if let Some(marker) = self.marker {
            xml.push_str(&element("Marker", marker));
        }
        if let Some(max_results) = self.max_results {
            xml.push_str(&element("MaxResults", &max_results.min(MAX_PAGE).to_string()));
        }
        if !self.delimiter.is_empty() {
            xml.push_str(&name_element("Delimiter", self.delimiter));
        }
        xml
    }
}

impl Service {
    pub(super) fn list_containers(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let parameters = ListParameters::parse(call.address, CONTAINER_DATASETS)?;
        let account_containers =
            self.containers.iter().filter(|((account, _), _)| *account == call.address.account);
        let (items, next) = parameters
            .page(account_containers.map(|((_, name), container)| (name.as_str(), container)));
        let endpoint = escape_xml(&endpoint(call.address, call.request));
        let mut xml =
            parameters.xml_start(&format!("<EnumerationResults ServiceEndpoint=\"{endpoint}\">"));
        xml.push_str("<Containers>");
        for item in items {
            if let Item::Entry(name, container) = item {
                xml.push_str(&container_entry(name, container, &parameters));
            }
        }
        xml.push_str("</Containers>");
        Ok(Response::new(200).with_xml(xml_end(xml, next)))
    }

    pub(super) fn list_blobs(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let parameters = ListParameters::parse(call.address, BLOB_DATASETS)?;
        let container = self.containers.get(&call.container_key).ok_or(Code::ContainerNotFound)?;
        let (items, next) =
            parameters.page(container.blobs.iter().map(|(name, blob)| (name.as_str(), blob)));
        let (endpoint, name) =
            (escape_xml(&endpoint(call.address, call.request)), escape_xml(&call.container_key.1));
        let mut xml = parameters.xml_start(&format!(
            "<EnumerationResults ServiceEndpoint=\"{endpoint}\" ContainerName=\"{name}\">"
        ));
        xml.push_str("<Blobs>");
        for item in items {
            match item {
                Item::Prefix(name) => {
                    let name = name_element("Name", name);
                    xml.push_str(&format!("<BlobPrefix>{name}</BlobPrefix>"));
                }
                Item::Entry(name, blob) => {
                    xml.push_str(&blob_entry(call.now, name, blob, &parameters))
                }
            }
        }
        xml.push_str("</Blobs>");
        Ok(Response::new(200).with_xml(xml_end(xml, next)))
    }
}

fn container_entry(name: &str, container: &Container, parameters: &ListParameters<'_>) -> String {
    let mut properties = element("Last-Modified", &encoding::format_http_date(container.modified));
    for (name, value) in [
        ("Etag", container.etag.as_str()),
        ("LeaseStatus", "unlocked"),
        ("LeaseState", "available"),
        ("HasImmutabilityPolicy", "false"),
        ("HasLegalHold", "false"),
    ] {
        properties.push_str(&element(name, value));
    }
    let metadata = if parameters.includes_metadata {
        metadata_element(&container.metadata)
    } else {
        String::new()
    };
    let name = element("Name", name);
    format!("<Container>{name}<Properties>{properties}</Properties>{metadata}</Container>")
}

fn blob_entry(now: Now, name: &str, blob: &Blob, parameters: &ListParameters<'_>) -> String {
    let content = &blob.content;
    let mut properties = String::new();
    let mut add = |name: &str, value: &str| properties.push_str(&element(name, value));
    add("Creation-Time", &encoding::format_http_date(content.created));
    add("Last-Modified", &encoding::format_http_date(content.modified));
    // The service omits the quotes here, but not for a container.
    add("Etag", content.etag.trim_matches('"'));
    add("Content-Length", &content.body.len().to_string());
    for name in PROPERTIES {
        let value = if name == "Content-Type" {
            Some(content.content_type())
        } else {
            content.properties.get(name)
        };
        add(name, value.unwrap_or_default());
    }
    add("BlobType", BLOB_TYPE);
    for (header, value) in lease_headers(&blob.lease, now.elapsed) {
        let name = match header {
            "x-ms-lease-status" => "LeaseStatus",
            "x-ms-lease-state" => "LeaseState",
            _ => "LeaseDuration",
        };
        add(name, value);
    }
    add("ServerEncrypted", "true");
    let metadata = if parameters.includes_metadata {
        metadata_element(&content.metadata)
    } else {
        String::new()
    };
    let name = name_element("Name", name);
    format!("<Blob>{name}<Properties>{properties}</Properties>{metadata}</Blob>")
}

/// Returns the element of the metadata. Its names are identifiers, so they are valid element names.
fn metadata_element(metadata: &Metadata) -> String {
    let entries: String = metadata.iter().map(|(name, value)| element(name, value)).collect();
    format!("<Metadata>{entries}</Metadata>")
}

fn element(name: &str, value: &str) -> String {
    format!("<{name}>{}</{name}>", escape_xml(value))
}

/// Returns an element with a blob's name or a part of one. A name with a character that XML cannot
/// carry is percent-encoded and marked (REST reference: *List Blobs*, `Encoded`).
fn name_element(element_name: &str, value: &str) -> String {
    let is_unencodable =
        |letter: char| letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}');
    if value.contains(is_unencodable) {
        let value = utf8_percent_encode(value, NAME_ESCAPED);
        return format!("<{element_name} Encoded=\"true\">{value}</{element_name}>");
    }
    element(element_name, value)
}

/// Ends the document with the marker of the next page, whose first name is `next`.
fn xml_end(mut xml: String, next: Option<&str>) -> String {
    let marker = next.map(|name| URL_SAFE_NO_PAD.encode(name)).unwrap_or_default();
    xml.push_str(&element("NextMarker", &marker));
    xml.push_str("</EnumerationResults>");
    xml
}

/// Returns the address of the account in the form of the client's request.
fn endpoint(address: &Address, request: &Request) -> String {
    let host = request.header("host").unwrap_or_default();
    if address.is_path_style {
        format!("http://{host}/{}/", address.account)
    } else {
        format!("http://{host}/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Returns the names of a page as `a b/`, and the first name of the next one.
    fn page(
        prefix: &str,
        delimiter: &str,
        start: &str,
        max_results: usize,
    ) -> (String, Option<String>) {
        let names = ["a", "b/1", "b/2", "b/3/x", "c/d/1", "c/e", "d"];
        let all: BTreeMap<&str, ()> = names.into_iter().map(|name| (name, ())).collect();
        let parameters = ListParameters {
            prefix,
            delimiter,
            marker: None,
            start: start.to_owned(),
            max_results: Some(max_results),
            includes_metadata: false,
        };
        let (items, next) = parameters.page(all.iter().map(|(name, value)| (*name, value)));
        let names = items.iter().map(|item| match item {
            Item::Entry(name, ()) | Item::Prefix(name) => *name,
        });
        (names.collect::<Vec<_>>().join(" "), next.map(str::to_owned))
    }

    #[test]
    fn a_list_can_have_a_prefix_and_a_delimiter() {
        assert_eq!(page("", "", "", 99), ("a b/1 b/2 b/3/x c/d/1 c/e d".to_owned(), None));
        assert_eq!(page("b/", "", "", 99), ("b/1 b/2 b/3/x".to_owned(), None));
        assert_eq!(page("", "/", "", 99), ("a b/ c/ d".to_owned(), None));
        assert_eq!(page("c/", "/", "", 99), ("c/d/ c/e".to_owned(), None));
        assert_eq!(page("b", "/", "", 99), ("b/".to_owned(), None));
        assert_eq!(page("none", "/", "", 99), (String::new(), None));
    }

    #[test]
    fn pages_follow_one_another_without_gap_or_repetition() {
        for max_results in 1..5 {
            let (mut names_seen, mut start) = (Vec::new(), String::new());
            while let (names, next) = page("", "/", &start, max_results)
                && !names.is_empty()
            {
                names_seen.extend(names.split(' ').map(str::to_owned).collect::<Vec<_>>());
                let Some(next) = next else { break };
                start = next;
            }
            assert_eq!(names_seen, ["a", "b/", "c/", "d"], "{max_results} each");
        }
    }

    #[test]
    fn a_name_that_xml_cannot_carry_is_encoded() {
        assert_eq!(name_element("Name", "a&b"), "<Name>a&amp;b</Name>");
        assert_eq!(
            name_element("Name", "a/\u{1}\u{ffff}"),
            "<Name Encoded=\"true\">a/%01%EF%BF%BF</Name>"
        );
    }
}
