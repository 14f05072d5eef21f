//! Credentials of every kind on a third-party host: jco, against Azurite over TLS. There the host
//! configures the trusted authorities (`NODE_EXTRA_CA_CERTS`).

use std::time::Duration;

use serde_json::Value;
use tenure_tests::identity::{Endpoint, Expected, Proof};
use tenure_tests::{Access, Credential, Outsider, Reports, Store, examples, foreign, needs};
use tokio::process::Command;
use tokio::task::spawn_blocking;

const TIMEOUT: Duration = tenure_tests::PATIENCE;
const CONTAINER: &str = "tenure-test";

/// Runs one turn of `tenure.wasm` on `jco run`, which must lead and succeed.
async fn run_one_turn(kind: &str, store: &Store, reports: &Reports, access: &Access) {
    let component = examples::components().unwrap().join("tenure.wasm");
    let made = spawn_blocking(move || foreign::jco_command("run", &component)).await;
    let mut jco: Command = made.unwrap().unwrap();
    jco.env("TENURE_ELECTION", format!("{CONTAINER}/{kind}"))
        .env("TENURE_EVERY", "1s")
        .env("TENURE_HANDLER_URL", reports.url())
        .env("NODE_EXTRA_CA_CERTS", store.ca_file().unwrap());
    access.set_variables(&mut jco);
    // The first slot of a new election is in the future.
    loop {
        let output = tokio::time::timeout(TIMEOUT, jco.output()).await.unwrap().unwrap();
        let [out, err] =
            [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b).into_owned());
        assert!(output.status.success(), "{kind}: {out}{err}");
        assert!(!access.leaks_in(&format!("{out}{err}")), "{kind}");
        let report: Value = serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap();
        match report["outcome"].as_str() {
            Some("succeeded") => break,
            outcome => assert_eq!(outcome, Some("nothing-due"), "{kind}: {out}{err}"),
        }
    }
}

async fn every_credential_leads_on_jco() {
    let (store, reports) = (Store::azurite_tls().await.unwrap(), Reports::start().await.unwrap());
    let connection_string = store.connection_string();
    let outsider = Outsider::new(&connection_string, &format!("{CONTAINER}/any"));
    let outsider = outsider.trusting(&store.ca_file().unwrap());
    outsider.create_container().await.unwrap();
    for (kind, credential) in [
        ("key", Credential::SharedKey),
        ("account-sas", Credential::AccountSas),
        ("service-sas", Credential::ServiceSas),
        ("bearer", Credential::Bearer),
    ] {
        run_one_turn(kind, &store, &reports, &credential.access(&connection_string, CONTAINER))
            .await;
    }

    let endpoint =
        connection_string.split("BlobEndpoint=").nth(1).unwrap().trim_end_matches(';').to_owned();
    let account = [
        ("AZURE_STORAGE_ACCOUNT", "devstoreaccount1".to_owned()),
        ("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint),
    ];
    let access_with = |variables: &[(&'static str, &str)]| {
        let owned_variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned()));
        Access::from_variables(account.iter().cloned().chain(owned_variables).collect())
    };
    let app = Expected::AppService {
        path: "/msi/token".into(),
        header: "1eaked-header".into(),
        client_id: None,
    };
    let app = Endpoint::start(app).await.unwrap();
    let url = app.url();
    let access = access_with(&[("IDENTITY_ENDPOINT", &url), ("IDENTITY_HEADER", "1eaked-header")]);
    run_one_turn("identity-endpoint", &store, &reports, &access).await;

    let Store::Azurite(azurite) = &store else { panic!("Azurite") };
    let secret = "Q8~leaked+secret&";
    let entra = Expected::Entra {
        tenant: "a-tenant".into(),
        client_id: "a-client".into(),
        proof: Proof::Secret(secret.into()),
    };
    let entra = Endpoint::start_tls(entra, azurite.certificates().unwrap()).await.unwrap();
    let origin = entra.origin();
    let access = access_with(&[
        ("AZURE_AUTHORITY_HOST", &origin),
        ("AZURE_TENANT_ID", "a-tenant"),
        ("AZURE_CLIENT_ID", "a-client"),
        ("AZURE_CLIENT_SECRET", secret),
    ]);
    run_one_turn("client-secret", &store, &reports, &access).await;

    for endpoint in [app, entra] {
        assert_eq!(endpoint.complaints(), [""; 0]);
        assert_eq!(endpoint.requests().len(), 1, "one token for a whole turn");
    }
    assert_eq!(reports.turns().len(), 6, "{:?}", reports.turns());
}

needs!(Node => async fn every_credential_leads_on_jco);
