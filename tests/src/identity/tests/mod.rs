//! Tests of the fakes.

mod replies;
mod shapes;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::Value;

use super::{Endpoint, Expected, Proof};
use crate::certificates::client;

const RESOURCE: &str = "resource=https%3A%2F%2Fstorage.azure.com";
const IMDS: &str = "/metadata/identity/oauth2/token?api-version=2018-02-01&";
const APP_SERVICE: &str = "/msi/token?api-version=2019-08-01&";
const ENTRA: &str = "/contoso/oauth2/v2.0/token";
const SECRET: &str = "p~s+w=r/d %";

fn imds() -> Expected {
    Expected::Imds { client_id: None }
}

fn app_service() -> Expected {
    Expected::AppService { path: "/msi/token".into(), header: SECRET.into(), client_id: None }
}

fn entra(proof: Proof) -> Expected {
    Expected::Entra { tenant: "contoso".into(), client_id: "an-app".into(), proof }
}

/// A test request whose details can be changed one at a time.
#[derive(Clone)]
struct TestRequest {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
}

impl TestRequest {
    fn get(path: &str, query: &str, header: (&'static str, &'static str)) -> Self {
        let path = format!("{path}{query}");
        Self { method: "GET", path, headers: vec![header], body: String::new() }
    }

    fn post(proof: &str) -> Self {
        let body = format!(
            "client_id=an-app&scope=https%3A%2F%2Fstorage.azure.com%2F.default&{proof}\
             &grant_type=client_credentials"
        );
        let headers = vec![("content-type", "application/x-www-form-urlencoded")];
        Self { method: "POST", path: ENTRA.into(), headers, body }
    }

    fn replacing(&self, from: &str, to: &str) -> Self {
        let (path, body) = (self.path.replacen(from, to, 1), self.body.replacen(from, to, 1));
        assert!(path != self.path || body != self.body, "{from} is not in it");
        Self { path, body, ..self.clone() }
    }

    fn header(&self, name: &'static str, value: &'static str) -> Self {
        let mut headers = self.headers.clone();
        headers.push((name, value));
        Self { headers, ..self.clone() }
    }

    fn request(&self, endpoint: &Endpoint, client: &reqwest::Client) -> RequestBuilder {
        let url = format!("{}{}", endpoint.origin(), self.path);
        let method = reqwest::Method::from_bytes(self.method.as_bytes()).unwrap();
        let headers = self.headers.iter();
        let request = headers.fold(client.request(method, url), |request, (name, value)| {
            request.header(*name, *value)
        });
        match self.body.as_str() {
            "" => request,
            body => request.body(body.to_owned()),
        }
    }

    async fn send_to(&self, endpoint: &Endpoint) -> (StatusCode, Value) {
        let answer = self.request(endpoint, &client(None).unwrap()).send().await.unwrap();
        let status = answer.status();
        (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default())
    }
}

fn imds_request() -> TestRequest {
    TestRequest::get(IMDS, RESOURCE, ("Metadata", "true"))
}

fn app_service_request() -> TestRequest {
    TestRequest::get(APP_SERVICE, RESOURCE, ("X-IDENTITY-HEADER", SECRET))
}

fn entra_request() -> TestRequest {
    TestRequest::post("client_secret=p~s%2Bw%3Dr%2Fd+%25")
}
