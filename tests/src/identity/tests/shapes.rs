//! Tests the accepted form for each service, and the rejection of all others.

use super::*;

/// Asserts that each request is rejected in the service's format, with one complaint.
async fn assert_refused(expected: Expected, cases: &[(TestRequest, &str)], error_field: &str) {
    for (request, complaint) in cases {
        let endpoint = Endpoint::start(expected.clone()).await.unwrap();
        let (status, body) = request.send_to(&endpoint).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{complaint}");
        let complaints = endpoint.complaints();
        assert_eq!(complaints, [*complaint]);
        assert!(body[error_field].as_str().unwrap().contains(complaint), "{body}");
        assert!(!format!("{endpoint:?}").contains(SECRET), "{endpoint:?}");
        assert!(endpoint.issued().is_empty());
    }
}

#[tokio::test]
async fn imds_accepts_only_its_request_format() {
    let valid = imds_request();
    let cases = [
        (TestRequest { method: "POST", ..valid.clone() }, "the method is POST, not GET"),
        (TestRequest { headers: vec![], ..valid.clone() }, "the header lacks metadata"),
        (
            TestRequest { headers: vec![("Metadata", "True")], ..valid.clone() },
            r#"the header has metadata "True", not "true""#,
        ),
        (valid.header("Metadata", "true"), "the header has metadata 2 times"),
        (
            valid.header("X-Forwarded-For", "10.0.0.1"),
            r#"the header has "x-forwarded-for", which nobody knows"#,
        ),
        (
            valid.replacing("/token", "/token/"),
            "the path is /metadata/identity/oauth2/token/, not /metadata/identity/oauth2/token",
        ),
        (
            valid.replacing("2018-02-01", "2019-08-01"),
            r#"the query has api-version "2019-08-01", not "2018-02-01""#,
        ),
        (valid.replacing("api-version=2018-02-01&", ""), "the query lacks api-version"),
        (
            valid.replacing("azure.com", "azure.com%2F"),
            r#"the query has resource "https://storage.azure.com/", not "https://storage.azure.com""#,
        ),
        (valid.replacing("%3A%2F%2F", "://"), "the query is not encoded as forms are"),
        (valid.replacing(RESOURCE, &[RESOURCE; 2].join("&")), "the query has resource 2 times"),
        (
            valid.replacing(RESOURCE, &format!("{RESOURCE}&client_id=me")),
            r#"the query has "client_id", which nobody knows"#,
        ),
        (
            TestRequest { body: "a=b".into(), ..valid.clone() },
            r#"the form has "a", which nobody knows"#,
        ),
    ];
    assert_refused(imds(), &cases, "error_description").await;
    let with_client_id = Expected::Imds { client_id: Some("me".into()) };
    assert_refused(with_client_id, &[(valid, "the query lacks client_id")], "error_description")
        .await;
}

#[tokio::test]
async fn app_service_accepts_only_its_request_format() {
    let valid = app_service_request();
    let another = vec![("X-IDENTITY-HEADER", "another")];
    let cases = [
        (TestRequest { headers: vec![], ..valid.clone() }, "the header lacks x-identity-header"),
        (
            TestRequest { headers: another, ..valid.clone() },
            "the header has a wrong x-identity-header",
        ),
        (valid.header("Metadata", "true"), r#"the header has "metadata", which nobody knows"#),
        (
            valid.replacing("2019-08-01", "2017-09-01"),
            r#"the query has api-version "2017-09-01", not "2019-08-01""#,
        ),
        (valid.replacing(&format!("&{RESOURCE}"), ""), "the query lacks resource"),
        (valid.replacing("/msi/", "/MSI/"), "the path is /MSI/token, not /msi/token"),
    ];
    assert_refused(app_service(), &cases, "message").await;
}

#[tokio::test]
async fn entra_accepts_only_its_request_format() {
    let valid = entra_request();
    let json = vec![("content-type", "application/json")];
    let cases = [
        (TestRequest { headers: vec![], ..valid.clone() }, "the header lacks content-type"),
        (
            TestRequest { headers: json, ..valid.clone() },
            r#"the header has content-type "application/json", not "application/x-www-form-urlencoded""#,
        ),
        (
            valid.replacing("contoso", "fabrikam"),
            "the path is /fabrikam/oauth2/v2.0/token, not /contoso/oauth2/v2.0/token",
        ),
        (
            valid.replacing("v2.0/token", "v2.0/token?a=b"),
            r#"the query has "a", which nobody knows"#,
        ),
        (
            valid.replacing("%2F.default", ""),
            r#"the form has scope "https://storage.azure.com", not "https://storage.azure.com/.default""#,
        ),
        (valid.replacing("&grant_type=client_credentials", ""), "the form lacks grant_type"),
        (valid.replacing("an-app", "another"), r#"the form has client_id "another", not "an-app""#),
        // An unencoded plus means a space.
        (valid.replacing("%2Bw", "+w"), "the form has a wrong client_secret"),
        (valid.replacing("%2Fd", "/d"), "the form is not encoded as forms are"),
        (valid.replacing("+%25", "+%"), "the form is not encoded as forms are"),
        (
            valid.replacing("client_id", "resource=x&client_id"),
            r#"the form has "resource", which nobody knows"#,
        ),
    ];
    assert_refused(entra(Proof::Secret(SECRET.into())), &cases, "error_description").await;
}

#[tokio::test]
async fn an_assertion_replaces_the_secret_and_can_change() {
    const KIND: &str =
        "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer";
    let assertion_request =
        |assertion: &str| TestRequest::post(&format!("{KIND}&client_assertion={assertion}"));
    let expected = |assertion: &str| entra(Proof::Assertion(assertion.into()));
    let endpoint = Endpoint::start(expected("first.of.them")).await.unwrap();
    assert_eq!(assertion_request("first.of.them").send_to(&endpoint).await.0, StatusCode::OK);
    endpoint.set_expected(expected("second.of.them"));
    assert_eq!(assertion_request("second.of.them").send_to(&endpoint).await.0, StatusCode::OK);
    assert!(endpoint.complaints().is_empty());
    assert_eq!(
        assertion_request("first.of.them").send_to(&endpoint).await.0,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(endpoint.complaints(), ["the form has a wrong client_assertion"]);
    let untyped = TestRequest::post("client_assertion=second.of.them");
    assert_eq!(untyped.send_to(&endpoint).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(endpoint.complaints()[1], "the form lacks client_assertion_type");
    endpoint.wait_for(4).await;
    let requests = endpoint.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[1].value("client_assertion").unwrap(), "second.of.them");
    assert!(!format!("{requests:?}{endpoint:?}").contains("of.them"), "{requests:?}");
}
