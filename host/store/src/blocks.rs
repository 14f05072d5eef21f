//! Blob content put in blocks: Put Block, Put Block List, Get Block List. Clients upload so what is large.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use quick_xml::Reader;
use quick_xml::events::Event;

use super::blob::{Block, Body, Container, Properties, stamped};
use super::call::Call;
use super::checksum;
use super::code::{Code, Failure, escaped};
use super::headers::{LEASE_ID, lease_id, metadata};
use super::service::Service;
use super::wire::{MAX_BODY, Response};

/// The longest id of a block before it is encoded, in bytes.
const MAX_ID: usize = 64;

/// How many blocks a blob may have, put and not yet in it included (the service's limits are 50 000 and 100 000).
const MAX_BLOCKS: usize = 50_000;

/// The largest blob made of blocks. One list may name a block many times, so it needs a limit.
const MAX_BLOB: usize = 16 * MAX_BODY;

/// Where a block list takes a block from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Committed,
    Uncommitted,
    /// The blocks that were put, then those of the blob.
    Latest,
}

impl Service {
    pub(super) fn put_block(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        let lease = lease_id(call.request, LEASE_ID)?;
        let block = call.address.parameter("blockid");
        let block = block.filter(|id| !id.is_empty()).ok_or(Code::MissingRequiredQueryParameter)?;
        match STANDARD.decode(block) {
            Ok(bytes) if (1..=MAX_ID).contains(&bytes.len()) => {}
            _ => return Err(Code::InvalidBlockId.into()),
        }
        if call.request.header("content-length").is_none() {
            return Err(Code::MissingContentLengthHeader.into());
        }
        // Seen of the service in adlfs #71: there is no empty block.
        if call.request.body.is_empty() {
            return Err(Failure::header("content-length", "0"));
        }
        checksum::check(call.request, "content-md5", &call.request.body)?;
        let container = self.containers.get_mut(&call.place).ok_or(Code::ContainerNotFound)?;
        match container.blobs.get(call.name) {
            Some(blob) => {
                blob.lease.admits_write(call.now.elapsed, lease)?;
                if !matches!(blob.current.body, Body::Block(..)) {
                    return Err(Code::InvalidBlobType.into());
                }
            }
            None if lease.is_some() => return Err(Code::LeaseNotPresentWithBlobOperation.into()),
            None => {}
        }
        let staged = container.staged.entry(call.name.to_owned()).or_default();
        // All ids of blocks that are not in the blob yet are of one length.
        let is_other = staged.first().is_some_and(|(id, _)| id.len() != block.len());
        if is_other || staged.len() >= MAX_BLOCKS {
            return Err(Code::InvalidBlobOrBlock.into());
        }
        staged.retain(|(id, _)| id != block);
        staged.push((block.to_owned(), call.request.body.clone()));
        Ok(Response::new(201)
            .with("Content-MD5", checksum::of(&call.request.body))
            .with("x-ms-request-server-encrypted", "true"))
    }

    pub(super) fn put_block_list(&mut self, call: &Call<'_>) -> Result<Response, Failure> {
        checksum::check(call.request, "content-md5", &call.request.body)?;
        let wanted = read_list(&call.request.body)?;
        let (properties, metadata) = (Properties::of_set(call.request)?, metadata(call.request)?);
        let answer = self.replace_blob(call, properties, metadata, |container| {
            assembled(container, call.name, &wanted)
        })?;
        // Of the list (REST reference): the checksum of the content is the client's.
        Ok(answer.with("Content-MD5", checksum::of(&call.request.body)))
    }

    pub(super) fn get_block_list(&self, call: &Call<'_>) -> Result<Response, Failure> {
        const KIND: &str = "blocklisttype";
        let lease = lease_id(call.request, LEASE_ID)?;
        let (committed, uncommitted) = match call.address.parameter(KIND).unwrap_or("committed") {
            "committed" => (true, false),
            "uncommitted" => (false, true),
            "all" => (true, true),
            other => return Err(Failure::query(KIND, other)),
        };
        let container = self.containers.get(&call.place).ok_or(Code::ContainerNotFound)?;
        let (blob, staged) = (container.blobs.get(call.name), container.staged.get(call.name));
        if blob.is_none() && staged.is_none() {
            return Err(Code::BlobNotFound.into());
        }
        let mut response = Response::new(200);
        let mut blocks = Vec::new();
        if let Some(blob) = blob {
            blob.lease.admits_read(call.now.elapsed, lease)?;
            let Body::Block(_, of_blob) = &blob.current.body else {
                return Err(Code::InvalidBlobType.into());
            };
            blocks.clone_from(of_blob);
            response = stamped(200, &blob.current.etag, blob.current.modified)
                .with("x-ms-blob-content-length", blob.current.body.length().to_string());
        }
        let mut xml = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>".to_owned();
        let mut list = |element: &str, blocks: &mut dyn Iterator<Item = (&str, usize)>| {
            xml.push_str(&format!("<{element}>"));
            for (id, length) in blocks {
                let id = escaped(id);
                xml.push_str(&format!("<Block><Name>{id}</Name><Size>{length}</Size></Block>"));
            }
            xml.push_str(&format!("</{element}>"));
        };
        if committed {
            let blocks = blocks.iter().map(|(id, length)| (id.as_str(), *length));
            list("CommittedBlocks", &mut { blocks });
        }
        if uncommitted {
            let staged = staged.into_iter().flatten();
            list("UncommittedBlocks", &mut staged.map(|(id, bytes)| (id.as_str(), bytes.len())));
        }
        xml.push_str("</BlockList>");
        Ok(response.with_xml(xml))
    }
}

/// The content that a block list describes.
fn assembled(
    container: &Container,
    name: &str,
    wanted: &[(Source, String)],
) -> Result<Body, Failure> {
    let staged: &[Block] = container.staged.get(name).map_or(&[], Vec::as_slice);
    let of_blob: Vec<Block> = match container.blobs.get(name).map(|blob| &blob.current.body) {
        None => Vec::new(),
        Some(Body::Pages(_)) => return Err(Code::InvalidBlobType.into()),
        Some(Body::Block(bytes, blocks)) => {
            let mut rest = bytes.clone();
            let block = |(id, length): &(String, usize)| (id.clone(), rest.split_to(*length));
            blocks.iter().map(block).collect()
        }
    };
    let (staged, of_blob) = (by_id(staged), by_id(&of_blob));
    let (mut bytes, mut blocks) = (BytesMut::new(), Vec::new());
    for (from, id) in wanted {
        let block = match from {
            Source::Committed => of_blob.get(id.as_str()),
            Source::Uncommitted => staged.get(id.as_str()),
            Source::Latest => staged.get(id.as_str()).or_else(|| of_blob.get(id.as_str())),
        };
        let block = block.ok_or(Code::InvalidBlockList)?;
        bytes.extend_from_slice(block);
        blocks.push((id.clone(), block.len()));
        if bytes.len() > MAX_BLOB {
            return Err(Code::RequestBodyTooLarge.into());
        }
    }
    Ok(Body::Block(bytes.freeze(), blocks))
}

/// A list may name each of very many. Of two with one id, the first counts.
fn by_id(blocks: &[Block]) -> HashMap<&str, &Bytes> {
    blocks.iter().rev().map(|(id, bytes)| (id.as_str(), bytes)).collect()
}

/// `<BlockList><Latest>ID</Latest>…</BlockList>`.
fn read_list(body: &[u8]) -> Result<Vec<(Source, String)>, Failure> {
    let wrong = || Failure::from(Code::InvalidXmlDocument);
    let text = std::str::from_utf8(body).map_err(|_| wrong())?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let (mut list, mut path, mut id) = (Vec::new(), Vec::new(), String::new());
    let mut seen = false;
    loop {
        match reader.read_event().map_err(|_| wrong())? {
            Event::Start(element) => {
                let name = String::from_utf8_lossy(element.name().as_ref()).into_owned();
                let expected = match path.len() {
                    0 => !seen && name == "BlockList",
                    1 => matches!(name.as_str(), "Committed" | "Uncommitted" | "Latest"),
                    _ => false,
                };
                if !expected {
                    return Err(wrong());
                }
                (seen, id) = (true, String::new());
                path.push(name);
            }
            Event::Empty(element) if path.is_empty() && !seen => {
                if element.name().as_ref() != b"BlockList" {
                    return Err(wrong());
                }
                seen = true;
            }
            Event::Text(text) => {
                id.push_str(&String::from_utf8_lossy(&text));
                if path.len() != 2 && !id.trim().is_empty() {
                    return Err(wrong());
                }
            }
            Event::End(_) => {
                let from = match path.pop().as_deref() {
                    Some("Committed") => Some(Source::Committed),
                    Some("Uncommitted") => Some(Source::Uncommitted),
                    Some("Latest") => Some(Source::Latest),
                    _ => None,
                };
                let id = std::mem::take(&mut id).trim().to_owned();
                list.extend(from.map(|from| (from, id)));
                if list.len() > MAX_BLOCKS {
                    return Err(Code::InvalidBlockList.into());
                }
            }
            Event::Decl(_) | Event::Comment(_) => {}
            Event::Eof if seen && path.is_empty() => return Ok(list),
            _ => return Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(Source, String)>, Code> {
        read_list(text.as_bytes()).map_err(|failure| failure.code)
    }

    #[test]
    fn a_list_names_blocks_and_where_they_are_from() {
        let text = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<BlockList>\n \
            <Latest>YQ==</Latest><Committed> Yg== </Committed><Uncommitted>Yw==</Uncommitted>\n</BlockList>";
        let expected = [
            (Source::Latest, "YQ==".to_owned()),
            (Source::Committed, "Yg==".to_owned()),
            (Source::Uncommitted, "Yw==".to_owned()),
        ];
        assert_eq!(read(text).unwrap(), expected);
        assert_eq!(read("<BlockList/>").unwrap(), []);
        assert_eq!(read("<BlockList></BlockList>").unwrap(), []);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "",
            "a",
            "<BlockList>",
            "<BlockList><Latest>YQ==</BlockList>",
            "<BlockList><Other>YQ==</Other></BlockList>",
            "<BlockList>YQ==</BlockList>",
            "<BlockList/><BlockList/>",
            "<List/>",
            "<!DOCTYPE a><BlockList/>",
            "<BlockList><Latest>&x;</Latest></BlockList>",
        ] {
            assert_eq!(read(text), Err(Code::InvalidXmlDocument), "{text}");
        }
    }
}
