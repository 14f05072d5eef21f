//! Error codes and the format of an error (REST reference: *Status and error codes*, *Blob service
//! error codes*).

use super::wire::Response;

/// Defines the codes, each with its status and text. The texts follow the reference; clients must
/// not parse them.
macro_rules! codes {
    ($($code:ident $status:literal $text:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Code { $($code,)* }

        impl Code {
            pub(super) fn name(self) -> &'static str {
                match self { $(Code::$code => stringify!($code),)* }
            }

            pub(super) fn status(self) -> u16 {
                match self { $(Code::$code => $status,)* }
            }

            fn text(self) -> &'static str {
                match self { $(Code::$code => $text,)* }
            }
        }
    };
}

codes! {
    AuthenticationFailed 403 "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
    AuthorizationFailure 403 "This request is not authorized to perform this operation.",
    AuthorizationPermissionMismatch 403 "This request is not authorized to perform this operation using this permission.",
    AuthorizationProtocolMismatch 403 "This request is not authorized to perform this operation using this protocol.",
    AuthorizationResourceTypeMismatch 403 "This request is not authorized to perform this operation using this resource type.",
    AuthorizationServiceMismatch 403 "This request is not authorized to perform this operation using this service.",
    UnauthorizedBlobOverwrite 403 "This request is not authorized to perform blob overwrites.",
    InvalidAuthenticationInfo 400 "The authentication information was not provided in the correct format. Verify the value of Authorization header.",
    NoAuthenticationInformation 401 "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
    InvalidHeaderValue 400 "The value for one of the HTTP headers is not in the correct format.",
    Md5Mismatch 400 "The MD5 value specified in the request did not match with the MD5 value calculated by the server.",
    InvalidMd5 400 "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64-encoded.",
    ConditionHeadersNotSupported 400 "Condition headers are not supported.",
    MultipleConditionHeadersNotSupported 400 "Multiple condition headers are not supported.",
    UnsatisfiableCondition 400 "The request includes an unsatisfiable condition for this operation.",
    OutOfRangeQueryParameterValue 400 "One of the query parameters specified in the request URI is outside the permissible range.",
    MissingRequiredHeader 400 "An HTTP header that's mandatory for this request is not specified.",
    InvalidQueryParameterValue 400 "Value for one of the query parameters specified in the request URI is invalid.",
    InvalidUri 400 "The requested URI does not represent any resource on the server.",
    InvalidResourceName 400 "The specified resource name contains invalid characters.",
    InvalidMetadata 400 "The metadata specified is invalid. It has characters that are not permitted.",
    EmptyMetadataKey 400 "The key for one of the metadata key-value pairs is empty.",
    MetadataTooLarge 400 "The size of the specified metadata exceeds the maximum size permitted.",
    MissingContentLengthHeader 411 "The Content-Length header was not specified.",
    RequestBodyTooLarge 413 "The request body is too large and exceeds the maximum permissible limit.",
    UnsupportedHttpVerb 405 "The resource doesn't support specified Http OperationKind.",
    ContainerNotFound 404 "The specified container does not exist.",
    BlobNotFound 404 "The specified blob does not exist.",
    ContainerAlreadyExists 409 "The specified container already exists.",
    ContainerBeingDeleted 409 "The specified container is being deleted. Try operation later.",
    BlobAlreadyExists 409 "The specified blob already exists.",
    ConditionNotMet 412 "The condition specified using HTTP conditional header(s) is not met.",
    LeaseAlreadyPresent 409 "There is already a lease present.",
    LeaseIdMismatchWithLeaseOperation 409 "The lease ID specified did not match the lease ID for the blob.",
    LeaseNotPresentWithLeaseOperation 409 "There is currently no lease on the blob.",
    LeaseIsBreakingAndCannotBeAcquired 409 "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken.",
    LeaseIsBreakingAndCannotBeChanged 409 "The lease ID matched, but the lease is currently in breaking state and cannot be changed.",
    LeaseIsBrokenAndCannotBeRenewed 409 "The lease ID matched, but the lease has been broken explicitly and cannot be renewed.",
    LeaseIdMissing 412 "There is currently a lease on the blob and no lease ID was specified in the request.",
    LeaseIdMismatchWithBlobOperation 412 "The lease ID specified did not match the lease ID for the blob.",
    LeaseNotPresentWithBlobOperation 412 "There is currently no lease on the blob.",
    LeaseLost 412 "A lease ID was specified, but the lease for the blob has expired.",
    InvalidRange 416 "The range specified is invalid for the current size of the resource.",
    NotImplemented 501 "The requested operation is not implemented on the specified resource.",
}

/// The refusal of a request: the code, and additions to the body.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) code: Code,
    /// True for a read of an unchanged blob: the status is 304 instead of the code's own.
    is_not_modified: bool,
    /// An additional sentence in the message.
    extra_message: String,
    /// Additional elements of the body: names and texts.
    details: Vec<(&'static str, String)>,
    /// `Content-Range` with the length of the blob, if the requested range is beyond its end.
    content_range: Option<String>,
}

impl From<Code> for Failure {
    fn from(code: Code) -> Failure {
        Failure {
            code,
            is_not_modified: false,
            extra_message: String::new(),
            details: Vec::new(),
            content_range: None,
        }
    }
}

impl Failure {
    /// Creates the failure of a read whose client has the current version: 304 without a body.
    pub(super) fn not_modified() -> Failure {
        Failure { is_not_modified: true, ..Failure::from(Code::ConditionNotMet) }
    }

    /// Creates the failure for an invalid value of the header `name`.
    pub(super) fn header(name: &str, value: &str) -> Failure {
        Failure::from(Code::InvalidHeaderValue)
            .with_detail("HeaderName", name)
            .with_detail("HeaderValue", value)
    }

    /// Creates the failure for a missing header.
    pub(super) fn missing(name: &str) -> Failure {
        Failure::from(Code::MissingRequiredHeader).with_detail("HeaderName", name)
    }

    /// Creates the failure for an invalid query parameter.
    pub(super) fn query(name: &str, value: &str) -> Failure {
        Failure::from(Code::InvalidQueryParameterValue)
            .with_detail("QueryParameterName", name)
            .with_detail("QueryParameterValue", value)
    }

    /// Creates the failure for an unsupported operation, header or parameter of the service.
    pub(super) fn unsupported(feature: &str) -> Failure {
        let extra_message = format!(
            " The embedded store does not support {feature}. `tenure store --help` lists what it supports."
        );
        Failure { extra_message, ..Failure::from(Code::NotImplemented) }
    }

    /// Creates the failure for a range that begins after the end of a blob of this length.
    pub(super) fn range(length: u64) -> Failure {
        let content_range = Some(format!("bytes */{length}"));
        Failure { content_range, ..Failure::from(Code::InvalidRange) }
    }

    /// Adds an element to the body.
    pub(super) fn with_detail(mut self, element: &'static str, text: &str) -> Failure {
        self.details.push((element, text.to_owned()));
        self
    }

    /// Returns the response without the common headers. The response to a HEAD has no body, only
    /// the code in a header.
    pub(super) fn response(&self, is_head: bool, request_id: &str, time: &str) -> Response {
        let status = if self.is_not_modified { 304 } else { self.code.status() };
        let mut response = Response::new(status).with("x-ms-error-code", self.code.name());
        if self.code == Code::NoAuthenticationInformation {
            // In the service, this header directs clients to the issuer of Entra tokens. The store
            // accepts no such tokens; the header only has the form that clients parse.
            let challenge = "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize \
                             resource_id=https://storage.azure.com";
            response = response.with("WWW-Authenticate", challenge);
        }
        if let Some(content_range) = &self.content_range {
            response = response.with("Content-Range", content_range.as_str());
        }
        if is_head || self.is_not_modified {
            return response;
        }
        response.with_xml(self.xml(request_id, time))
    }

    /// Returns the body. It starts with a byte order mark, like the service's.
    fn xml(&self, request_id: &str, time: &str) -> String {
        let (name, text) = (self.code.name(), self.code.text());
        let extra_message = escape_xml(&self.extra_message);
        let mut xml = format!(
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\
             <Error><Code>{name}</Code><Message>{text}{extra_message}\nRequestId:{request_id}\nTime:{time}</Message>"
        );
        for (element, text) in &self.details {
            xml.push_str(&format!("<{element}>{}</{element}>", escape_xml(text)));
        }
        xml.push_str("</Error>");
        xml
    }
}

/// Escapes text for XML. A body may repeat a client's text, which must not become markup.
pub(super) fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // XML 1.0 does not allow most other control characters, not even escaped.
            letter if letter.is_control() && !matches!(letter, '\n' | '\t') => {
                escaped.push('\u{fffd}')
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_xml_behind_a_byte_order_mark() {
        let answer =
            Failure::header("x-ms-lease-duration", "<14>\u{1}").response(false, "id", "time");
        let body = std::str::from_utf8(&answer.body).unwrap();
        assert!(answer.body.starts_with(b"\xef\xbb\xbf<?xml"));
        assert!(body.contains("<HeaderName>x-ms-lease-duration</HeaderName>"), "{body}");
        assert!(body.contains("<HeaderValue>&lt;14&gt;\u{fffd}</HeaderValue>"), "{body}");
        assert!(body.contains("\nRequestId:id\nTime:time</Message>"), "{body}");
        assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()));
        assert_eq!(answer.header("content-type"), Some("application/xml"));
    }

    #[test]
    fn a_head_response_has_only_the_code() {
        let answer = Failure::from(Code::BlobNotFound).response(true, "id", "time");
        assert_eq!((answer.status, answer.code()), (404, Some("BlobNotFound")));
        assert!(answer.body.is_empty());
        assert_eq!(answer.header("content-length"), None);
    }
}
