//! Three calls of `wasi:http` that may fail, with as much of its `error-code` as is told to people: which
//! case it is, and what the host says about it.
//!
//! The generated functions make a value of all that the 39 cases can carry, wherever one of them is
//! called: 20 KB of component. These follow the canonical ABI by hand, of which three rules are enough:
//! a variant (option and result are some) is a byte for its case and then, aligned, what the case
//! carries; an error code is aligned to 8, since some cases carry a `u64`; a string, which is a
//! pointer and a length, belongs to the component.

#![expect(unsafe_code, reason = "raw imports, and the handles and strings that they return")]

use core::ptr::with_exposed_provenance_mut;

use wasip2::http::types::{
    FutureIncomingResponse, IncomingResponse, OutgoingBody, OutgoingRequest, RequestOptions,
};

use tenure_base::prelude::*;

// The version is the one of the crate `wasip2`, whose world has these functions; with any other the
// component cannot be linked.
#[link(wasm_import_module = "wasi:http/types@0.2.12")]
unsafe extern "C" {
    #[link_name = "[method]future-incoming-response.get"]
    fn response_get(answer: u32, returned: *mut Returned);
    #[link_name = "[static]outgoing-body.finish"]
    fn body_finish(body: u32, has_trailers: u32, trailers: u32, returned: *mut Returned);
}

#[link(wasm_import_module = "wasi:http/outgoing-handler@0.2.12")]
unsafe extern "C" {
    #[link_name = "handle"]
    fn request_handle(request: u32, has_options: u32, options: u32, returned: *mut Returned);
}

/// An `error-code`.
pub struct Code {
    /// The place of the case in `wasi:http/types`, from 0.
    pub case: u8,
    /// What the host says, in the cases that carry a text.
    pub detail: String,
}

/// Hands a request to the host.
pub fn send(
    request: &OutgoingRequest,
    options: &RequestOptions,
) -> Result<FutureIncomingResponse, Code> {
    let mut returned = Returned([0; 56]);
    // SAFETY: takes both handles, and writes a result<own<future>, error-code>.
    unsafe {
        request_handle(request.take_handle(), 1, options.take_handle(), &raw mut returned);
        match returned.byte(0) {
            0 => Ok(FutureIncomingResponse::from_handle(returned.word(8))),
            _ => Err(returned.code(8)),
        }
    }
}

/// The answer; none when it is not there, or was taken already.
pub fn take(answer: &FutureIncomingResponse) -> Option<Result<IncomingResponse, Code>> {
    let mut returned = Returned([0; 56]);
    // SAFETY: borrows the handle, and writes an option<result<result<own<response>, error-code>>>.
    unsafe {
        response_get(answer.handle(), &raw mut returned);
        match [0, 8, 16].map(|at| returned.byte(at)) {
            [1, 0, 0] => Some(Ok(IncomingResponse::from_handle(returned.word(24)))),
            [1, 0, _] => Some(Err(returned.code(24))),
            _ => None,
        }
    }
}

/// Ends a body, without trailers. Whether the host took all of it.
pub fn finish(body: &OutgoingBody) -> bool {
    let mut returned = Returned([0; 56]);
    // SAFETY: takes the handle, and writes a result<_, error-code>.
    unsafe {
        body_finish(body.take_handle(), 0, 0, &raw mut returned);
        returned.byte(0) == 0 || {
            drop(returned.code(8));
            false
        }
    }
}

/// What a call returns: an error code of 32 bytes, after as many as 24 that say whether there is one.
#[repr(C, align(8))]
struct Returned([u8; 56]);

impl Returned {
    fn byte(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or_default()
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.copied().map_or(0, u32::from_le_bytes)
    }

    /// # Safety
    /// At `at` there is an error code, and nothing of it was taken.
    unsafe fn code(&self, at: usize) -> Code {
        let (case, carried) = (self.byte(at), at + 8);
        let text = match case {
            // DNS-error, HTTP-response-transfer-coding, HTTP-response-content-coding, internal-error;
            // HTTP-request-trailer-size and HTTP-response-header-size, -trailer-size: the text is first.
            1 | 24 | 27 | 30..=32 | 38 => Some(carried),
            // TLS-alert-received: after an option<u8>.
            14 => Some(carried + 4),
            // HTTP-request-header-size: in another option.
            22 if self.byte(carried) == 1 => Some(carried + 4),
            _ => None,
        };
        let text = text.filter(|at| self.byte(*at) == 1);
        let bytes = text.map(|at| {
            let [place, length] = [self.word(at + 4), self.word(at + 8)].map(|word| word as usize);
            // SAFETY: an option<string> that is some: the host got its memory from `cabi_realloc`.
            unsafe { Vec::from_raw_parts(with_exposed_provenance_mut(place), length, length) }
        });
        Code { case, detail: String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default() }
    }
}
