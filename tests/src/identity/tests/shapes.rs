//! What each service takes, and that nothing else slips through.

use super::*;

/// Each of these is refused, in the words of the service, and told once.
async fn refused(expected: Expected, cases: &[(Sent, &str)], told: &str) {
    for (sent, complaint) in cases {
        let endpoint = Endpoint::start(expected.clone()).await.unwrap();
        let (status, body) = sent.to(&endpoint).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{complaint}");
        let complaints = endpoint.complaints();
        assert_eq!(complaints, [*complaint]);
        assert!(body[told].as_str().unwrap().contains(complaint), "{body}");
        assert!(!format!("{endpoint:?}").contains(SECRET), "{endpoint:?}");
        assert!(endpoint.issued().is_empty());
    }
}

#[tokio::test]
async fn imds_takes_one_shape_of_request() {
    let good = imds_request();
    let cases = [
        (Sent { method: "POST", ..good.clone() }, "the method is POST, not GET"),
        (Sent { headers: vec![], ..good.clone() }, "the header lacks metadata"),
        (
            Sent { headers: vec![("Metadata", "True")], ..good.clone() },
            r#"the header has metadata "True", not "true""#,
        ),
        (good.header("Metadata", "true"), "the header has metadata 2 times"),
        (
            good.header("X-Forwarded-For", "10.0.0.1"),
            r#"the header has "x-forwarded-for", which nobody knows"#,
        ),
        (
            good.with("/token", "/token/"),
            "the path is /metadata/identity/oauth2/token/, not /metadata/identity/oauth2/token",
        ),
        (
            good.with("2018-02-01", "2019-08-01"),
            r#"the query has api-version "2019-08-01", not "2018-02-01""#,
        ),
        (good.with("api-version=2018-02-01&", ""), "the query lacks api-version"),
        (
            good.with("azure.com", "azure.com%2F"),
            r#"the query has resource "https://storage.azure.com/", not "https://storage.azure.com""#,
        ),
        (good.with("%3A%2F%2F", "://"), "the query is not encoded as forms are"),
        (good.with(RESOURCE, &[RESOURCE; 2].join("&")), "the query has resource 2 times"),
        (
            good.with(RESOURCE, &format!("{RESOURCE}&client_id=me")),
            r#"the query has "client_id", which nobody knows"#,
        ),
        (Sent { body: "a=b".into(), ..good.clone() }, r#"the form has "a", which nobody knows"#),
    ];
    refused(imds(), &cases, "error_description").await;
    let of_several = Expected::Imds { client_id: Some("me".into()) };
    refused(of_several, &[(good, "the query lacks client_id")], "error_description").await;
}

#[tokio::test]
async fn app_service_takes_one_shape_of_request() {
    let good = app_service_request();
    let another = vec![("X-IDENTITY-HEADER", "another")];
    let cases = [
        (Sent { headers: vec![], ..good.clone() }, "the header lacks x-identity-header"),
        (Sent { headers: another, ..good.clone() }, "the header has a wrong x-identity-header"),
        (good.header("Metadata", "true"), r#"the header has "metadata", which nobody knows"#),
        (
            good.with("2019-08-01", "2017-09-01"),
            r#"the query has api-version "2017-09-01", not "2019-08-01""#,
        ),
        (good.with(&format!("&{RESOURCE}"), ""), "the query lacks resource"),
        (good.with("/msi/", "/MSI/"), "the path is /MSI/token, not /msi/token"),
    ];
    refused(app_service(), &cases, "message").await;
}

#[tokio::test]
async fn entra_takes_one_shape_of_request() {
    let good = entra_request();
    let json = vec![("content-type", "application/json")];
    let cases = [
        (Sent { headers: vec![], ..good.clone() }, "the header lacks content-type"),
        (
            Sent { headers: json, ..good.clone() },
            r#"the header has content-type "application/json", not "application/x-www-form-urlencoded""#,
        ),
        (
            good.with("contoso", "fabrikam"),
            "the path is /fabrikam/oauth2/v2.0/token, not /contoso/oauth2/v2.0/token",
        ),
        (good.with("v2.0/token", "v2.0/token?a=b"), r#"the query has "a", which nobody knows"#),
        (
            good.with("%2F.default", ""),
            r#"the form has scope "https://storage.azure.com", not "https://storage.azure.com/.default""#,
        ),
        (good.with("&grant_type=client_credentials", ""), "the form lacks grant_type"),
        (good.with("an-app", "another"), r#"the form has client_id "another", not "an-app""#),
        // A plus that was not encoded is a blank.
        (good.with("%2Bw", "+w"), "the form has a wrong client_secret"),
        (good.with("%2Fd", "/d"), "the form is not encoded as forms are"),
        (good.with("+%25", "+%"), "the form is not encoded as forms are"),
        (
            good.with("client_id", "resource=x&client_id"),
            r#"the form has "resource", which nobody knows"#,
        ),
    ];
    refused(entra(Proof::Secret(SECRET.into())), &cases, "error_description").await;
}

#[tokio::test]
async fn an_assertion_is_taken_instead_of_a_secret_and_can_change() {
    const KIND: &str =
        "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer";
    let sent = |assertion: &str| Sent::post(&format!("{KIND}&client_assertion={assertion}"));
    let expected = |assertion: &str| entra(Proof::Assertion(assertion.into()));
    let endpoint = Endpoint::start(expected("first.of.them")).await.unwrap();
    assert_eq!(sent("first.of.them").to(&endpoint).await.0, StatusCode::OK);
    endpoint.expect(expected("second.of.them"));
    assert_eq!(sent("second.of.them").to(&endpoint).await.0, StatusCode::OK);
    assert!(endpoint.complaints().is_empty());
    assert_eq!(sent("first.of.them").to(&endpoint).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(endpoint.complaints(), ["the form has a wrong client_assertion"]);
    let untyped = Sent::post("client_assertion=second.of.them");
    assert_eq!(untyped.to(&endpoint).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(endpoint.complaints()[1], "the form lacks client_assertion_type");
    endpoint.wait_for(4).await;
    let requests = endpoint.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[1].value("client_assertion").unwrap(), "second.of.them");
    assert!(!format!("{requests:?}{endpoint:?}").contains("of.them"), "{requests:?}");
}
