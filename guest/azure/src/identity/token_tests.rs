use super::*;
use proptest::prelude::*;

fn read(status: u16, body: &str) -> Result<Token, TokenError> {
    Token::from_response(status, body.as_bytes(), DateTime::from_timestamp(1_000_000, 0).unwrap())
}

#[test]
fn every_way_to_tell_the_end_is_understood() {
    for (ends, expected) in [
        (r#""expires_in":3599"#, 3599),
        (r#""expires_in":"3599""#, 3599),
        (r#""expires_on":1000090"#, 90),
        (r#""expires_on":"1000061""#, 61),
        (r#""expires_on":999"#, 60),
        (r#""expires_in":"10","expires_on":"1000060""#, 10),
        (r#""expires_in":999999999"#, 86_400),
        (r#""expires_in":"3599.0""#, 3599),
        (r#""expires_in":3599.99"#, 3599),
        (r#""expires_in":null,"expires_on":"1000090""#, 90),
        (r#""expires_on":1000090.5"#, 90),
        (r#""expires_on":"1000090.0""#, 90),
        // The instant 1,000,090 is 1970-01-12T13:48:10Z.
        (r#""expires_on":"1970-01-12T13:48:10Z""#, 90),
        (r#""expires_on":"1970-01-12T15:48:10.25+02:00""#, 90),
        (r#""expires_on":"1970-01-12 13:48:10+00:00""#, 90),
        (r#""expires_on":"01/12/1970 13:48:10 +00:00""#, 90),
        (r#""expires_on":"1/12/1970 1:48:10 PM +00:00""#, 90),
        (r#""expires_on":"01/12/1970 03:48:10 PM +02:00""#, 90),
        (r#""expires_on":"1/13/1970 12:48:10 AM +11:00""#, 90),
    ] {
        for mark in ["", "\u{feff}"] {
            let body = format!(r#"{mark}{{"access_token":"ey","token_type":"Bearer",{ends}}}"#);
            assert_eq!(
                read(200, &body).map(|token| token.valid_for.as_secs()),
                Ok(expected),
                "{body}"
            );
        }
    }
}

#[test]
fn error_text_is_one_line() {
    let expected = "401 invalid_client: AADSTS7000215: Invalid client secret provided.";
    for numbers in [" Trace ID: 1 Correlation ID: 2", "\\r\\nTrace ID: 1\\r\\nCorrelation ID: 2"] {
        let description = "AADSTS7000215: Invalid client secret provided.";
        let body =
            format!(r#"{{"error":"invalid_client","error_description":"{description}{numbers}"}}"#);
        assert_eq!(read(401, &body), Err(TokenError::Refused(expected.into())));
    }
    // The times differ at each try.
    let late = r#"{"error_description":"Assertion is not within its valid time range. Current time: 2026"}"#;
    let expected = "400 Assertion is not within its valid time range.";
    assert_eq!(read(400, late), Err(TokenError::Refused(expected.into())));
    assert_eq!(read(403, "<html>"), Err(TokenError::Refused("403".into())));
    assert_eq!(
        read(400, r#"{"statusCode":400,"message":"No managed identity found."}"#),
        Err(TokenError::Refused("400 No managed identity found.".into()))
    );
}

#[test]
fn answers_without_token_are_classified() {
    for status in [404, 408, 410, 429, 500, 503] {
        assert_eq!(read(status, "{}"), Err(TokenError::Unavailable(status)));
    }
    for (status, body) in [
        (200, "<html>"),
        (200, "{}"),
        (200, r#"{"access_token":"ey"}"#),
        (200, r#"{"access_token":"","expires_in":1}"#),
        (200, r#"{"access_token":"a b","expires_in":1}"#),
        (200, r#"{"access_token":"a\r\nx: y","expires_in":1}"#),
        (200, r#"{"access_token":"ey","expires_in":0}"#),
        (200, r#"{"access_token":"ey","expires_in":"soon"}"#),
        (200, r#"{"access_token":"ey","expires_in":-1}"#),
        (302, r#"{"access_token":"ey","expires_in":1}"#),
    ] {
        assert!(matches!(read(status, body), Err(TokenError::Nonsense(_))), "{status} {body}");
    }
}

#[test]
fn an_end_that_cannot_be_read_is_not_called_absent() {
    for end in
        ["soon", "", "-1", "13/12/1970 13:48:10 +00:00", "1/12/1970 13:48:10 PM +00:00", "1e400"]
    {
        let body = format!(r#"{{"access_token":"ey","expires_on":"{end}"}}"#);
        let Err(TokenError::Nonsense(error)) = read(200, &body) else { panic!("{body}") };
        assert!(error.contains("cannot be read"), "{end}: {error}");
    }
}

proptest! {
    #[test]
    fn an_end_in_any_form_does_not_panic(end in "[0-9/: TZ+.-]{0,30}( ?[AaPp][Mm])?|\\PC{0,20}") {
        let body = serde_json::json!({"access_token": "ey", "expires_on": end}).to_string();
        let _ = read(200, &body);
    }

    #[test]
    fn from_response_never_panics(status: u16, body in any::<Vec<u8>>()) {
        let _ = Token::from_response(status, &body, DateTime::UNIX_EPOCH);
    }

    #[test]
    fn error_text_is_one_short_line(error in any::<String>(), more in any::<String>()) {
        let body = serde_json::json!({"error": error, "error_description": more}).to_string();
        let Err(TokenError::Refused(shown)) = read(400, &body) else { panic!("refused") };
        prop_assert!(!shown.contains(char::is_control));
        prop_assert!(shown.chars().count() <= MAX_SHOWN + 4);
    }
}
