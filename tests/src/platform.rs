//! Platform that runs components independently of this program: WASI 0.2 with its usual interfaces,
//! and a fresh instance for each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use wasmtime::component::{
    Component, ComponentType, InstancePre, Lift, Linker, Lower, ResourceTable,
};
use wasmtime::{
    Engine, Result, Store, StoreContextMut, StoreLimits, StoreLimitsBuilder, bail, format_err,
};
use wasmtime_wasi::p2::bindings::CommandPre;
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use wasmtime_wasi_http::p2::bindings::http::types::Scheme;
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

/// Largest amount of captured standard output, in bytes.
const MAX_OUTPUT: usize = 1024 * 1024;

/// Offset of a clock. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ClockOffset(Arc<AtomicU64>);

impl ClockOffset {
    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_nanos()).unwrap(), Ordering::SeqCst);
    }

    /// Returns the total offset.
    #[must_use]
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

/// Component with its environment, on a platform.
#[derive(Clone)]
pub struct Platform {
    engine: Engine,
    proxy: ProxyPre<State>,
    command: CommandPre<State>,
    instance: InstancePre<State>,
    env: Vec<(String, String)>,
    spin_variables: SpinVariables,
    client: reqwest::Client,
    /// Offset of both its clocks.
    pub clock_offset: ClockOffset,
    origin: Instant,
}

/// Metadata from Spin's cron trigger: the firing time, in seconds since 1970.
#[derive(ComponentType, Lower)]
#[component(record)]
struct CronMetadata {
    timestamp: u64,
}

/// Error that Spin's cron trigger receives when a turn did not succeed.
#[derive(ComponentType, Lift)]
#[component(variant)]
enum CronError {
    #[component(name = "other")]
    Other(String),
}

/// Variables of Spin, or the error of their provider.
type SpinVariables = Result<Vec<(String, String)>, ConfigError>;

/// Error of `wasi:config/store`.
#[derive(Clone, ComponentType, Lower)]
#[component(variant)]
enum ConfigError {
    #[component(name = "upstream")]
    Upstream(String),
    #[component(name = "io")]
    #[expect(dead_code, reason = "a case of the interface")]
    Io(String),
}

/// HTTP response of the component.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// Status.
    pub status: u16,
    /// Headers.
    pub headers: http::HeaderMap,
    /// Body, or `null` if there is none.
    pub json: Value,
    /// Captured standard output of the component.
    pub stdout: String,
}

impl Platform {
    /// Compiles `component`.
    ///
    /// # Errors
    /// The component is invalid, or does not export both entries.
    pub fn new(component: &[u8], env: &[(&str, &str)], clock_offset: ClockOffset) -> Result<Self> {
        let engine = Engine::default();
        let component = Component::from_binary(&engine, component)?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
        // Spin's version of this interface.
        linker
            .instance("wasi:config/store@0.2.0-draft-2024-09-27")?
            .func_wrap("get-all", |store: StoreContextMut<'_, State>, (): ()| {
                Ok((store.data().spin_variables.clone(),))
            })?;
        let instance = linker.instantiate_pre(&component)?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            proxy: ProxyPre::new(instance.clone())?,
            command: CommandPre::new(instance.clone())?,
            instance,
            engine,
            env: env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            spin_variables: Ok(Vec::new()),
            client: reqwest::Client::builder().no_proxy().build()?,
            clock_offset,
            origin: Instant::now(),
        })
    }

    /// Returns the same component with one variable added or changed.
    #[must_use]
    pub fn with_variable(&self, name: &str, value: &str) -> Self {
        let mut copy = self.clone();
        copy.env.retain(|(key, _)| key != name);
        copy.env.push((name.into(), value.into()));
        copy
    }

    /// Returns the same component with an empty environment. Its variables are Spin's, whose names
    /// are in lower case.
    #[must_use]
    pub fn with_spin_variables(&self) -> Self {
        let mut copy = self.clone();
        let variables = copy.env.drain(..).map(|(name, value)| (name.to_ascii_lowercase(), value));
        copy.spin_variables = Ok(variables.collect());
        copy
    }

    /// Returns the same component on a platform whose provider of Spin's variables fails.
    #[must_use]
    pub fn with_spin_error(&self) -> Self {
        let error = ConfigError::Upstream("the vault is sealed".to_owned());
        Self { spin_variables: Err(error), ..self.clone() }
    }

    fn store(&self, stdout: &MemoryOutputPipe) -> Store<State> {
        let mut wasi = WasiCtx::builder();
        wasi.envs(&self.env).stdout(stdout.clone()).inherit_stderr();
        wasi.monotonic_clock(Clock(self.clock_offset.clone(), self.origin));
        wasi.wall_clock(Clock(self.clock_offset.clone(), self.origin));
        let state = State {
            wasi: wasi.build(),
            http: WasiHttpCtx::new(),
            table: ResourceTable::new(),
            hooks: Hooks(self.client.clone()),
            limits: StoreLimits::default(),
            spin_variables: self.spin_variables.clone(),
        };
        Store::new(&self.engine, state)
    }

    /// Calls `wasi:cli/run`. Returns true if it succeeded, with its standard output.
    ///
    /// # Errors
    /// The component trapped.
    pub async fn run(&self) -> Result<(bool, String)> {
        let stdout = MemoryOutputPipe::new(MAX_OUTPUT);
        let mut store = self.store(&stdout);
        let command = self.command.instantiate_async(&mut store).await?;
        let result = command.wasi_cli_run().call_run(&mut store).await?;
        Ok((result.is_ok(), output_text(&stdout)))
    }

    /// Calls `wasi:cli/run` until it traps for lack of memory, and returns its standard error. Each
    /// memory is limited to `memory` bytes.
    ///
    /// # Errors
    /// The component did not trap.
    pub async fn run_out_of_memory(&self, memory: usize) -> Result<String> {
        let stderr = MemoryOutputPipe::new(MAX_OUTPUT);
        let mut store = self.store(&MemoryOutputPipe::new(MAX_OUTPUT));
        store.data_mut().limits = StoreLimitsBuilder::new().memory_size(memory).build();
        store.limiter(|state| &mut state.limits);
        let mut wasi = WasiCtx::builder();
        store.data_mut().wasi = wasi.envs(&self.env).stderr(stderr.clone()).build();
        let command = self.command.instantiate_async(&mut store).await?;
        match command.wasi_cli_run().call_run(&mut store).await {
            Ok(_) => bail!("it has memory enough"),
            Err(_) => Ok(output_text(&stderr)),
        }
    }

    /// Calls `handle-cron-event` like Spin's cron trigger. The function and its types have the same
    /// form in `fermyon:spin-cron@2.0.0` (plugin 0.3.0) and `spin:cron@3.0.0` (plugin 0.5.0).
    /// Neither version passes the component an instance for the types.
    ///
    /// # Errors
    /// The component trapped, or has no such function.
    pub async fn call_cron(&self) -> Result<Result<(), String>> {
        let mut store = self.store(&MemoryOutputPipe::new(MAX_OUTPUT));
        let instance = self.instance.instantiate_async(&mut store).await?;
        let handle = instance.get_typed_func::<(CronMetadata,), (Result<(), CronError>,)>(
            &mut store,
            "handle-cron-event",
        )?;
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let (result,) = handle.call_async(&mut store, (CronMetadata { timestamp },)).await?;
        Ok(result.map_err(|CronError::Other(message)| message))
    }

    /// Calls `wasi:http/incoming-handler` with one request.
    ///
    /// # Errors
    /// The component trapped.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        authorization: Option<&str>,
        body: impl Into<Bytes>,
    ) -> Result<HttpResponse> {
        let stdout = MemoryOutputPipe::new(MAX_OUTPUT);
        let mut store = self.store(&stdout);
        let mut request = Request::builder().method(method).uri(format!("http://platform{path}"));
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let body = Full::new(body.into()).map_err(|never| -> Error { match never {} });
        let request = request.body(body)?;
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let request = store.data_mut().http().new_incoming_request(Scheme::Http, request)?;
        let response_outparam = store.data_mut().http().new_response_outparam(sender)?;
        let proxy = self.proxy.instantiate_async(&mut store).await?;
        let handler_task = tokio::spawn(async move {
            proxy
                .wasi_http_incoming_handler()
                .call_handle(&mut store, request, response_outparam)
                .await
        });
        let response = match receiver.await {
            Ok(response) => response?,
            Err(_) => {
                handler_task.await??;
                bail!("it gave no answer");
            }
        };
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| format_err!("{error:?}"))?.to_bytes();
        handler_task.await??;
        let json = match body.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&body)?,
        };
        let (status, headers) = (parts.status.as_u16(), parts.headers);
        Ok(HttpResponse { status, headers, json, stdout: output_text(&stdout) })
    }
}

fn output_text(pipe: &MemoryOutputPipe) -> String {
    String::from_utf8_lossy(&pipe.contents()).into_owned()
}

struct State {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    table: ResourceTable,
    hooks: Hooks,
    limits: StoreLimits,
    spin_variables: SpinVariables,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.hooks }
    }
}

struct Clock(ClockOffset, Instant);

impl HostMonotonicClock for Clock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        u64::try_from((self.1.elapsed() + self.0.get()).as_nanos()).unwrap()
    }
}

impl HostWallClock for Clock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + self.0.get()
    }
}

/// Sends outgoing requests on pooled connections.
struct Hooks(reqwest::Client);

type SentResponse = (Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        _: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<SentResponse, Error>> + Send> {
        let client = self.0.clone();
        Box::new(async move {
            let (mut parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            parts.headers.remove(http::header::HOST);
            let url = reqwest::Url::parse(&parts.uri.to_string())
                .map_err(|_| Error::HttpRequestUriInvalid)?;
            let mut outgoing = reqwest::Request::new(parts.method, url);
            *outgoing.headers_mut() = parts.headers;
            *outgoing.body_mut() = (!body.is_empty()).then(|| body.into());
            let response =
                client.execute(outgoing).await.map_err(|_| Error::ConnectionTerminated)?;
            let mut answer = Response::builder().status(response.status());
            if let Some(headers) = answer.headers_mut() {
                *headers = response.headers().clone();
            }
            let body = response.bytes().await.map_err(|_| Error::ConnectionTerminated)?;
            let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
            let answer = answer.body(body).map_err(|_| Error::HttpProtocolError)?;
            let done: Box<dyn Future<Output = Result<(), Error>> + Send> =
                Box::new(std::future::ready(Ok(())));
            Ok((answer, done))
        })
    }
}
