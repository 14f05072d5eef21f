//! Limits of a guest: its memory and tables, and the host memory behind its handles, such as unsent
//! data.

use http::HeaderMap;
use std::any::Any;
use std::collections::HashSet;
use tenure::engine::Budget;
use wasmtime::component::ResourceTable;
use wasmtime::{Error, ResourceLimiter, Result, format_err};
use wasmtime_wasi_http::FieldMap;
use wasmtime_wasi_http::p2::bindings::http::types::Method;
use wasmtime_wasi_http::p2::body::HostFutureTrailers;
use wasmtime_wasi_http::p2::types::{
    HostFutureIncomingResponse, HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse,
};

/// Maximum number of instances, of memories and of tables of one guest. A composed guest has
/// several.
const MAX_INSTANCES: usize = 64;

/// Maximum number of elements in all tables of a guest together.
const MAX_ELEMENTS: usize = 1_000_000;

/// Number of calls of host functions between two counts of the held memory. One call adds less than
/// a MiB.
const CALLS_PER_COUNT: u8 = 8;

/// Counts all memories and tables of a guest together. A guest that exceeds the limit traps, with a
/// text that explains it.
pub(super) struct Limits {
    /// Maximum size of all memories, in bytes.
    memory_limit: usize,
    /// Size of all memories, in bytes.
    memory_used: usize,
    elements_used: usize,
}

impl Limits {
    pub(super) fn new(memory_limit: usize) -> Self {
        Self { memory_limit, memory_used: 0, elements_used: 0 }
    }

    /// Returns the size of all memories, in bytes.
    pub(super) fn used(&self) -> usize {
        self.memory_used
    }
}

/// Adds the growth of one memory or table to `used` if the sum is within the limit. Returns false
/// if the growth exceeds the guest's own maximum.
fn grow(
    used: &mut usize,
    limit: usize,
    (current, desired): (usize, usize),
    maximum: Option<usize>,
    too_much: impl FnOnce() -> Error,
) -> Result<bool> {
    // Such growth fails on any host, so the guest is prepared for it.
    if maximum.is_some_and(|maximum| desired > maximum) {
        return Ok(false);
    }
    let wanted = used.saturating_add(desired.saturating_sub(current));
    if wanted > limit {
        return Err(too_much());
    }
    *used = wanted;
    Ok(true)
}

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        let limit = self.memory_limit;
        grow(&mut self.memory_used, limit, (current, desired), maximum, || {
            format_err!("it needs more memory than its limit, {} MiB", limit / (1024 * 1024))
        })
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        grow(&mut self.elements_used, MAX_ELEMENTS, (current, desired), maximum, || {
            format_err!("its tables need more than {MAX_ELEMENTS} elements")
        })
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        MAX_INSTANCES
    }

    fn memories(&self) -> usize {
        MAX_INSTANCES
    }
}

/// Count of the host's memory behind a guest's handles. When this memory exceeds the budget, the
/// guest loses its handles.
pub(super) struct HostMemory {
    budget: Budget,
    /// Number of calls of host functions until the next count.
    calls_until_count: u8,
    /// An empty table that replaces the guest's own once the budget is used up. Every further call
    /// of the guest then traps.
    empty_table: Option<ResourceTable>,
}

impl HostMemory {
    pub(super) fn new(budget: Budget) -> Self {
        Self { budget, calls_until_count: 0, empty_table: None }
    }

    /// Returns the table for the guest's next call of a host function.
    pub(super) fn table<'a>(
        &'a mut self,
        guest_table: &'a mut ResourceTable,
    ) -> &'a mut ResourceTable {
        if self.empty_table.is_none() && !self.budget.is_unlimited() {
            self.count(guest_table);
        }
        self.empty_table.as_mut().unwrap_or(guest_table)
    }

    /// Returns the reason why the guest traps, if it has exceeded its budget.
    pub(super) fn termination_reason(&self) -> Option<String> {
        self.empty_table.as_ref()?;
        let limit = self.budget.limit();
        Some(format!(
            "it used more than {limit} of the host's memory for headers, requests and bodies"
        ))
    }

    fn count(&mut self, table: &mut ResourceTable) {
        if self.calls_until_count > 0 {
            self.calls_until_count -= 1;
            return;
        }
        self.calls_until_count = CALLS_PER_COUNT;
        let mut counted = HashSet::new();
        let total = table.iter_mut().map(|entry| held_bytes(entry, &mut counted)).sum();
        if !self.budget.set_handle_bytes(total) {
            let mut empty = ResourceTable::new();
            empty.set_max_capacity(0);
            self.empty_table = Some(empty);
        }
    }
}

/// Returns the number of bytes behind one handle. `counted` has the headers that several handles
/// share and that are counted already.
fn held_bytes(entry: &(dyn Any + Send), counted: &mut HashSet<*const HeaderMap>) -> usize {
    let mut weigh_once = |headers: &HeaderMap| match counted.insert(headers) {
        true => Budget::weight(headers),
        false => 0,
    };
    if let Some(fields) = entry.downcast_ref::<FieldMap>() {
        return weigh_once(fields);
    }
    if let Some(request) = entry.downcast_ref::<HostOutgoingRequest>() {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let method = match &request.method {
            Method::Other(name) => name.len(),
            _ => 0,
        };
        let body = request.body.as_ref().map_or(0, |_| Budget::OPEN_BODY);
        let line = method + text(&request.authority) + text(&request.path_with_query);
        return weigh_once(&request.headers) + line + body;
    }
    if let Some(response) = entry.downcast_ref::<HostOutgoingResponse>() {
        let body = response.body.as_ref().map_or(0, |_| Budget::OPEN_BODY);
        return weigh_once(&response.headers) + body;
    }
    if let Some(response) = entry.downcast_ref::<HostIncomingResponse>() {
        return weigh_once(&response.headers);
    }
    if let Some(HostFutureIncomingResponse::Ready(Ok((head, _)))) = entry.downcast_ref() {
        return weigh_once(head.headers());
    }
    if let Some(HostFutureTrailers::Done(Ok(Some(trailers)))) = entry.downcast_ref() {
        return weigh_once(trailers);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http_body_util::{BodyExt as _, Full};

    fn fields(bytes: usize) -> FieldMap {
        let mut fields = FieldMap::new_mutable(usize::MAX);
        let value = HeaderValue::from_maybe_shared(vec![b'x'; bytes]).unwrap();
        fields.append_raw("x".parse().unwrap(), value).unwrap();
        fields
    }

    #[test]
    fn a_guest_over_its_budget_loses_its_handles() {
        let budget = Budget::new(1024 * 1024);
        let mut host_memory = HostMemory::new(budget.clone());
        let mut table = ResourceTable::new();
        for _ in 0..2 * usize::from(CALLS_PER_COUNT) {
            host_memory.table(&mut table).push(fields(100)).unwrap();
        }
        assert_eq!(host_memory.termination_reason(), None);
        // Requests leave a quarter of the budget to handles.
        let _charge = budget.charge(780_000).unwrap();
        let large = table.push(fields(200_000)).unwrap();
        for _ in 0..=CALLS_PER_COUNT {
            host_memory.table(&mut table);
        }
        assert_eq!(host_memory.termination_reason(), None);
        table.push(fields(100_000)).unwrap();
        for _ in 0..=CALLS_PER_COUNT {
            host_memory.table(&mut table);
        }
        assert!(host_memory.termination_reason().unwrap().contains("more than 1 MiB"));
        assert!(host_memory.table(&mut table).get(&large).is_err());
        assert!(host_memory.table(&mut table).push(0).is_err());
    }

    #[test]
    fn shared_headers_are_counted_once() {
        let budget = Budget::new(1024 * 1024);
        let mut host_memory = HostMemory::new(budget);
        let mut table = ResourceTable::new();
        let shared = fields(600_000);
        table.push(shared.clone()).unwrap();
        table.push(shared).unwrap();
        assert!(host_memory.table(&mut table).push(0).is_ok());
        table.push(fields(600_000)).unwrap();
        for _ in 0..=CALLS_PER_COUNT {
            host_memory.table(&mut table);
        }
        assert!(host_memory.termination_reason().is_some());
    }

    #[test]
    fn unsent_responses_count() {
        let mut table = ResourceTable::new();
        let answer =
            |headers, body| HostOutgoingResponse { status: http::StatusCode::OK, headers, body };
        let body = || Full::default().map_err(|never| match never {}).boxed_unsync();
        table.push(answer(fields(1000), None)).unwrap();
        table.push(answer(FieldMap::new_mutable(0), Some(body()))).unwrap();
        let mut counted = HashSet::new();
        let counts: Vec<_> =
            table.iter_mut().map(|entry| held_bytes(entry, &mut counted)).collect();
        assert_eq!(counts, [Budget::weight(&fields(1000)), Budget::OPEN_BODY]);
    }

    #[test]
    fn memories_are_counted_together() {
        let mut limits = Limits::new(1024 * 1024);
        assert!(limits.memory_growing(0, 600_000, None).unwrap());
        assert!(limits.memory_growing(0, 400_000, None).unwrap());
        let error = limits.memory_growing(400_000, 500_000, None).unwrap_err();
        assert_eq!(error.to_string(), "it needs more memory than its limit, 1 MiB");
        assert!(limits.memory_growing(400_000, 440_000, None).unwrap());
    }

    #[test]
    fn tables_are_counted_together() {
        let mut limits = Limits::new(0);
        assert!(limits.table_growing(0, MAX_ELEMENTS / 2, None).unwrap());
        assert!(limits.table_growing(0, MAX_ELEMENTS / 2 + 1, None).is_err());
    }

    #[test]
    fn growth_beyond_the_guests_own_maximum_is_no_trap() {
        let mut limits = Limits::new(1024);
        assert!(!limits.memory_growing(0, 2048, Some(1024)).unwrap());
        assert!(!limits.table_growing(0, 2, Some(1)).unwrap());
    }
}
