//! Turns of `tenure.wasm`.

use std::time::Duration;

use ::http::StatusCode;
use serde_json::{Value, json};

use super::world::{World, get, tick};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_run_once_by_ten_ticks_at_once_in_three_replicas() {
    let world = World::new(&[]).await;
    world.start_first_slot().await;
    for round in 1..=2 {
        let replicas = ["a", "b", "c"].map(|name| world.replica(name));
        let ticks: Vec<_> = (0..10)
            .map(|n| {
                let replica = replicas[n % 3].clone();
                tokio::spawn(async move { tick(&replica).await })
            })
            .collect();
        let mut succeeded = 0;
        for answer in ticks {
            let answer = answer.await.unwrap();
            let outcome = answer.json["outcome"].as_str().unwrap().to_owned();
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(["succeeded", "followed", "nothing-due"].contains(&outcome.as_str()));
            assert_eq!(answer.json["ran"], json!(outcome == "succeeded"), "{answer:?}");
            assert_eq!(answer.stdout, "", "an answer to some hosts");
            succeeded += usize::from(outcome == "succeeded");
        }
        assert_eq!((succeeded, world.endpoint.calls().len()), (1, round));
        world.time.advance(Duration::from_secs(3600));
    }
}

#[tokio::test]
async fn turn_is_reported_to_endpoint_and_caller() {
    let world = World::new(&[]).await;
    world.start_first_slot().await;
    let answer = tick(&world.replica("a")).await;
    assert_eq!((answer.status, &answer.json["outcome"]), (200, &json!("succeeded")), "{answer:?}");
    let (headers, body) = world.endpoint.calls().pop().unwrap();
    for member in ["term", "slot", "attempt", "past_due", "missed"] {
        assert_eq!(body[member], answer.json[member], "{member}");
    }
    assert_eq!(headers["tenure-term"], answer.json["term"].to_string());
    assert_eq!(headers["tenure-election"], "leases/universal");
    let key =
        format!("devstoreaccount1/leases/universal/{}", answer.json["slot"].as_str().unwrap());
    assert_eq!(headers["idempotency-key"], key.as_str());
    assert_eq!(headers["content-type"], "application/json");
    let valid_for = body["valid_for_ms"].as_u64().unwrap();
    assert!((40_000..=48_000).contains(&valid_for), "60 s less a fifth: {valid_for}");
    assert_eq!(answer.json["leading"], true);
    assert_eq!(answer.json["recorded"], true);
    assert!(answer.json["next"].as_str() > answer.json["slot"].as_str());
    let leader = get(&world.replica("b"), "/leader").await;
    assert_eq!(
        (&leader.json["lease"], &leader.json["leader"]),
        (&json!("available"), &json!(null))
    );
    assert_eq!(leader.json["last_leader"]["name"], "a");
    assert_eq!(leader.json["last_leader"]["term"], answer.json["term"]);
}

#[tokio::test]
async fn while_a_turn_runs_the_others_follow() {
    let world = World::new(&[]).await;
    world.start_first_slot().await;
    let leader = world.replica("a");
    let turn = tokio::spawn(async move { tick(&leader).await });
    let other = world.replica("b");
    let mut followed = None;
    while !turn.is_finished() {
        let leader_status = get(&other, "/leader").await;
        if leader_status.json["leader"]["name"] == "a" {
            followed = Some(tick(&other).await);
        }
    }
    assert_eq!(turn.await.unwrap().json["outcome"], "succeeded");
    let followed = followed.expect("a turn of 100 ms is seen");
    assert!(!followed.json["ran"].as_bool().unwrap(), "{followed:?}");
    assert_eq!(world.endpoint.calls().len(), 1);
}

#[tokio::test]
async fn failed_turn_is_a_server_error_repeated_by_delivery_rule() {
    for (delivery, calls) in [("at-most-once", 1), ("at-least-once", 2)] {
        let world = World::new(&[("TENURE_DELIVERY", delivery)]).await;
        world.start_first_slot().await;
        world.endpoint.answer_with(StatusCode::BAD_GATEWAY);
        let answer = tick(&world.replica("a")).await;
        assert_eq!((answer.status, &answer.json["outcome"]), (500, &json!("failed")), "{answer:?}");
        assert_eq!(answer.json["error"], "the webhook answered 502");
        world.endpoint.answer_with(StatusCode::OK);
        let again = tick(&world.replica("b")).await;
        assert_eq!(again.status, 200, "{again:?}");
        assert_eq!(world.endpoint.calls().len(), calls, "{delivery}");
        let last = tick(&world.replica("b")).await;
        assert_eq!(last.json["outcome"], "nothing-due");
    }
}

#[tokio::test]
async fn a_turn_that_outlasts_its_validity_has_overrun() {
    let world = World::new(&[("TENURE_DELIVERY", "at-least-once")]).await;
    world.start_first_slot().await;
    let replica = world.replica("a");
    let shift = world.time.clone();
    // Later than 48 s, earlier than 60 s.
    world.endpoint.on_call(move || shift.advance(Duration::from_secs(50)));
    let answer = tick(&replica).await;
    assert_eq!((answer.status, &answer.json["outcome"]), (500, &json!("overran")), "{answer:?}");
    assert_eq!((&answer.json["ran"], &answer.json["recorded"]), (&json!(true), &json!(true)));
    world.endpoint.on_call(|| {});
    let again = tick(&world.replica("b")).await;
    assert_eq!(again.json["outcome"], "nothing-due", "it succeeded, and that is on record");
}

#[tokio::test]
async fn work_that_cannot_be_done_costs_no_slot() {
    let world = World::new(&[("TENURE_DELIVERY", "at-most-once")]).await;
    world.start_first_slot().await;
    let replica = world.replica("a");
    let request_total = || world.store.with(|service| service.log().total());
    let before = request_total();
    for (setting, value) in [
        ("TENURE_HANDLER_URL", " "),
        ("TENURE_HANDLER_URL", "http://user:S3CRET@sink.example"),
        ("TENURE_HANDLER_URL", "http://sink.example/<S3CRET>"),
        ("TENURE_HANDLER_URL", "http://sink.example:65536/S3CRET"),
        ("TENURE_HANDLER_TIMEOUT", "soon"),
    ] {
        let misconfigured = replica.with_variable(setting, value);
        let answer = tick(&misconfigured).await;
        assert_eq!(answer.status, 503, "{setting}={value}: {answer:?}");
        let (succeeded, stdout) = misconfigured.run().await.unwrap();
        assert!(!succeeded, "{setting}={value}: {stdout}");
        let ran: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(ran, answer.json, "the same in both entries");
        let complaints = ran["complaints"].as_array().unwrap();
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert_eq!(complaints[0]["setting"], setting);
        assert!(!stdout.contains("S3CRET"), "{stdout}");
        assert_eq!(get(&misconfigured, "/healthz").await.status, 503);
    }
    assert_eq!(request_total(), before, "nothing was sent");
    assert!(world.endpoint.calls().is_empty());
    let answer = tick(&replica).await;
    assert_eq!((answer.status, &answer.json["outcome"]), (200, &json!("succeeded")), "{answer:?}");
    assert_eq!(world.endpoint.calls().len(), 1, "the slot was still there");
}

#[tokio::test]
async fn slow_endpoint_times_out() {
    let world = World::new(&[("TENURE_HANDLER_TIMEOUT", "20ms")]).await;
    world.start_first_slot().await;
    let answer = tick(&world.replica("a")).await;
    assert_eq!((answer.status, &answer.json["outcome"]), (500, &json!("failed")));
    assert_eq!(answer.json["error"], "the webhook did not answer within 20 ms");
}

#[tokio::test]
async fn unreachable_service_is_reported() {
    let world = World::new(&[]).await;
    let replica = world.replica("a");
    let connection_string = world.store.connection_string();
    world.store.stop().await;
    let answer = tick(&replica).await;
    assert_eq!((answer.status, &answer.json["outcome"]), (503, &json!("unanswered")), "{answer:?}");
    assert_eq!(answer.json["problems"][0]["class"], "unreachable");
    let key = connection_string.split("AccountKey=").nth(1).unwrap().split(';').next().unwrap();
    assert!(!answer.json.to_string().contains(key));
    assert_eq!(get(&replica, "/leader").await.status, 503);
}
