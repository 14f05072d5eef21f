//! The worker of `deploy/cloudflare` on workerd, the runtime of Cloudflare Workers.

use axum::response::Redirect;
use axum::routing::post as on_post;
use serde_json::Value;
use tenure_tests::cloudflare::Worker;
use tenure_tests::foreign::Server;
use tenure_tests::{PATIENCE, needs};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::foreign_hosts::{Scene, TOKEN, over_http, post};

/// Fires the cron trigger until a turn is reported or an event fails. Returns the event's outcome.
async fn fire(scene: &Scene, server: &Server) -> Value {
    let turn_count = scene.assert_reported_once();
    let fired = async {
        loop {
            let (_, mut response) = post(server.url("/scheduled"), Some(TOKEN)).await;
            if response["outcome"] != "ok" || scene.assert_reported_once() > turn_count {
                return response["outcome"].take();
            }
        }
    };
    timeout(PATIENCE, fired).await.unwrap()
}

async fn worker_takes_turns_by_http_and_by_its_cron_trigger() {
    let scene = Scene::new("1s").await;
    let worker = spawn_blocking(Worker::bundle).await.unwrap().unwrap();
    let server = scene.serve_by_workerd(&worker, &scene.reports.url()).await;
    over_http(&scene, &server).await;
    assert_eq!(fire(&scene, &server).await, "ok");

    // A turn whose webhook is redirected fails, and so does its event.
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let redirecting = format!("http://{}/", listener.local_addr().unwrap());
    let reports = scene.reports.url();
    let redirect = on_post(async move || Redirect::temporary(&reports));
    let router = axum::Router::new().route("/", redirect);
    let redirector = tokio::spawn(async move { axum::serve(listener, router).await });
    let turn_count = scene.assert_reported_once();
    let server = scene.serve_by_workerd(&worker, &redirecting).await;
    assert_eq!(fire(&scene, &server).await, "exception");
    assert_eq!(scene.assert_reported_once(), turn_count);
    redirector.abort();
}

needs!(Node => async fn worker_takes_turns_by_http_and_by_its_cron_trigger);
