//! A page of a list of blobs in the service's XML (REST: *List Blobs*).

use super::http_date;
use super::metadata::Metadata;
use super::operation::ETag;
use super::percent;
use chrono::{DateTime, Utc};
use core::time::Duration;
use roxmltree::{Document, Node};
use tenure_base::prelude::*;

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The blobs, in the order of their names.
    pub blobs: Vec<Entry>,
    /// Start of the next page, if there is one.
    pub next: Option<String>,
}

/// A blob in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name inside the container.
    pub name: String,
    /// Its version, as in an answer about the blob itself.
    pub etag: ETag,
    /// Time between its last write and the answer, by the service's clock, in whole seconds. Zero
    /// if the answer does not state it.
    pub age: Duration,
    /// True if its lease is held, or if the answer does not state that it is free.
    pub leased: bool,
    /// Its metadata; names in lower case.
    pub metadata: Metadata,
}

impl Page {
    /// Parses the body of an answer of that `date`. None if it is not such a page, or if it is
    /// incomplete.
    pub fn parse(body: &[u8], date: Option<DateTime<Utc>>) -> Option<Self> {
        let text = core::str::from_utf8(body).ok()?;
        let document = Document::parse(text.trim_start_matches('\u{feff}')).ok()?;
        let root = document.root_element();
        if root.tag_name().name() != "EnumerationResults" {
            return None;
        }
        let blobs = child(root, "Blobs")?.children().filter(|node| node.has_tag_name("Blob"));
        let next = child(root, "NextMarker").map(node_text).filter(|marker| !marker.is_empty());
        let blobs = blobs.map(|blob| Entry::parse(blob, date)).collect::<Option<_>>()?;
        Some(Self { blobs, next })
    }
}

impl Entry {
    fn parse(blob: Node<'_, '_>, date: Option<DateTime<Utc>>) -> Option<Self> {
        let name = child(blob, "Name")?;
        let encoded = name.attribute("Encoded").is_some_and(|value| value == "true");
        let name = if encoded { percent::decode_text(&node_text(name)) } else { node_text(name) };
        let properties = child(blob, "Properties")?;
        let modified = child(properties, "Last-Modified").map(node_text);
        let modified = modified.and_then(|modified| http_date::parse(&modified));
        let age =
            date.zip(modified).map(|(date, modified)| date.timestamp() - modified.timestamp());
        let age = age.and_then(|seconds| u64::try_from(seconds).ok());
        let etag = node_text(child(properties, "Etag")?);
        // A list leaves the quotes out.
        let etag = ETag::parse(&format!("\"{}\"", etag.trim_matches('"')))?;
        let state = child(properties, "LeaseState").map(node_text);
        let free_states = ["available", "expired", "broken"];
        let leased = !state.is_some_and(|state| free_states.contains(&state.as_str()));
        let metadata =
            child(blob, "Metadata").into_iter().flat_map(|metadata_node| metadata_node.children());
        let metadata = metadata.filter(|node| node.is_element());
        let metadata =
            metadata.map(|field| (field.tag_name().name().to_ascii_lowercase(), node_text(field)));
        Some(Self {
            name,
            etag,
            age: Duration::from_secs(age.unwrap_or(0)),
            leased,
            metadata: metadata.collect(),
        })
    }
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn node_text(node: Node<'_, '_>) -> String {
    node.text().unwrap_or_default().into()
}

#[cfg(test)]
mod tests;
