//! A store, an endpoint for the built-in webhook, and the clock of both.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::{HeaderMap, Method, StatusCode};
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use tenure_store::{Account, Now, Service, Store, system_clock};
use tenure_tests::Platform;
use tenure_tests::platform::{ClockOffset, HttpResponse};
use tenure_wasmtime::compose::UNIVERSAL_COMPONENT;
use tokio::net::TcpListener;

pub const TOKEN: &str = "a-long-random-token";
pub const BEARER: &str = "Bearer a-long-random-token";

pub struct World {
    pub store: Store,
    /// Offset of all clocks: those of the store and of the platforms.
    pub time: ClockOffset,
    pub endpoint: Endpoint,
    platform: Platform,
}

impl World {
    /// Creates a world with `tenure.wasm`, and these variables in addition to the usual ones.
    pub async fn new(extra_variables: &[(&str, &str)]) -> Self {
        Self::with_component(UNIVERSAL_COMPONENT, extra_variables).await
    }

    pub async fn with_component(component: &[u8], extra_variables: &[(&str, &str)]) -> Self {
        let time = ClockOffset::default();
        // Starts ten minutes past an hour, so that a jump of a minute never meets the next slot.
        let seconds_past_hour = u64::try_from(system_clock().wall.timestamp()).unwrap() % 3600;
        time.advance(Duration::from_secs((3600 + 600 - seconds_past_hour) % 3600));
        let shift = time.clone();
        let clock = move || {
            let Now { elapsed, wall } = system_clock();
            Now { elapsed: elapsed + shift.get(), wall: wall + shift.get() }
        };
        let service = Service::new(vec![Account::emulator()], 1);
        let listen_address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let store =
            Store::start_with_clock(Arc::new(clock), listen_address, service).await.unwrap();
        let endpoint = Endpoint::start().await;
        let connection_string = store.connection_string();
        let mut env = vec![
            ("TENURE_ELECTION", "leases/universal"),
            ("AZURE_STORAGE_CONNECTION_STRING", &connection_string),
            ("TENURE_EVERY", "1h"),
            ("TENURE_TICK_TOKEN", TOKEN),
            ("TENURE_HANDLER_URL", &endpoint.url),
        ];
        env.retain(|(name, _)| extra_variables.iter().all(|(other, _)| other != name));
        env.extend(extra_variables);
        let platform = Platform::new(component, &env, time.clone()).unwrap();
        Self { store, time, endpoint, platform }
    }

    /// Returns a replica, whose clocks can be advanced separately.
    pub fn replica(&self, name: &str) -> Platform {
        self.platform.with_variable("TENURE_NAME", name)
    }

    /// Runs the first turn, from which slots count, and waits until a slot is due.
    pub async fn start_first_slot(&self) {
        let (succeeded, first) = self.platform.run().await.unwrap();
        assert!(succeeded && first.contains("nothing-due"), "{first}");
        self.time.advance(Duration::from_secs(3600));
    }
}

pub async fn tick(platform: &Platform) -> HttpResponse {
    platform.request(Method::POST, "/tick", Some(BEARER), "").await.unwrap()
}

pub async fn get(platform: &Platform, path: &str) -> HttpResponse {
    platform.request(Method::GET, path, None, "").await.unwrap()
}

/// Records calls and answers them.
#[derive(Clone)]
pub struct Endpoint {
    pub url: String,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    calls: Vec<(HeaderMap, Value)>,
    status: StatusCode,
    on_call: Box<dyn Fn() + Send>,
}

impl Endpoint {
    async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}/work?key=S3CRET", listener.local_addr().unwrap());
        let inner =
            Inner { calls: Vec::new(), status: StatusCode::NO_CONTENT, on_call: Box::new(|| {}) };
        let inner = Arc::new(Mutex::new(inner));
        let receive = async |State(inner): State<Arc<Mutex<Inner>>>, headers: HeaderMap, json| {
            let Json(json): Json<Value> = json;
            // Long enough to detect concurrent calls.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let mut inner = inner.lock().unwrap();
            inner.calls.push((headers, json));
            (inner.on_call)();
            inner.status
        };
        let router = Router::new().route("/work", post(receive)).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, inner }
    }

    pub fn calls(&self) -> Vec<(HeaderMap, Value)> {
        self.inner.lock().unwrap().calls.clone()
    }

    pub fn answer_with(&self, status: StatusCode) {
        self.inner.lock().unwrap().status = status;
    }

    /// Sets the action during each call.
    pub fn on_call(&self, callback: impl Fn() + Send + 'static) {
        self.inner.lock().unwrap().on_call = Box::new(callback);
    }
}
