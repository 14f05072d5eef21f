//! A small script language, so that a case is one line. Steps are separated by `;`. A step is an
//! operation with `key=value` options.
//!
//! ```text
//! put; acquire id=A for=15; wait 16; renew id=B
//! ```
//!
//! Every step except the last must succeed, unless it begins with `!`. `A`, `B`, `C` are lease ids,
//! and `A^` is `A` in upper case. `sas=TOKEN` sends a shared access signature instead of signing.
//! `@NAME` is a shared prelude.

use std::time::Duration;

use chrono::TimeDelta;
use tenure_azure::encoding;
use tenure_azure::shared_key::{Key, authorization, decoded_query, string_to_sign};
use tenure_store::sas::SAS_VERSION;
use tenure_store::{EMULATOR_ACCOUNT, EMULATOR_KEY, Request, Response};

use super::send::Transport;

const PRELUDES: [(&str, &str); 6] = [
    ("@leased", "put; acquire id=A for=60"),
    ("@infinite", "put; acquire id=A for=-1"),
    ("@breaking", "put; acquire id=A for=60; break in=50"),
    ("@broken", "put; acquire id=A; break in=0"),
    ("@released", "put; acquire id=A; release id=A"),
    ("@expired", "put; acquire id=A for=15; wait 15"),
];

/// A blob in its own container, and the state between two steps.
pub struct Scene<'a> {
    wire: &'a mut dyn Transport,
    container: String,
    etag: String,
    stamp: (String, String),
}

impl Scene<'_> {
    pub fn new<'a>(wire: &'a mut dyn Transport, container: &str) -> Scene<'a> {
        let mut scene = Scene {
            wire,
            container: container.to_owned(),
            etag: String::new(),
            stamp: Default::default(),
        };
        scene.run("mkcontainer");
        scene
    }

    /// Runs a script and returns the response to its last step. Checks the common properties of
    /// every response.
    pub fn run(&mut self, script: &str) -> Response {
        let script = PRELUDES
            .iter()
            .fold(script.to_owned(), |text, (name, steps)| text.replace(name, steps));
        let steps: Vec<&str> = script.split(';').map(str::trim).collect();
        let mut last = Response::default();
        for (index, step) in steps.iter().enumerate() {
            if let Some(seconds) = step.strip_prefix("wait ") {
                self.wire
                    .wait(Duration::from_millis((seconds.parse::<f64>().unwrap() * 1000.0) as u64));
                continue;
            }
            let step = step.strip_prefix('!').unwrap_or(step);
            last = self.step(step);
            let may_fail = index + 1 == steps.len() || steps[index].starts_with('!');
            assert!(
                may_fail || last.status < 300,
                "{step} in {script}: {} {:?}",
                last.status,
                last.code()
            );
        }
        last
    }

    /// Returns true if ETag and Last-Modified equal those of the previous response that had them.
    pub fn is_unchanged(&self, answer: &Response) -> bool {
        stamp(answer) == self.stamp
    }

    fn step(&mut self, step: &str) -> Response {
        let mut tokens = step.split(' ').filter(|word| !word.is_empty());
        let verb = tokens.next().unwrap();
        let options: Vec<(&str, &str)> =
            tokens.map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
        let request = self.request(verb, &options);
        let answer = self.wire.send(&request);
        self.check(&request, &answer);
        if matches!(verb, "put" | "meta") && answer.status < 300 {
            self.stamp = stamp(&answer);
            self.etag.clone_from(&self.stamp.0);
        }
        answer
    }

    fn request(&self, verb: &str, options: &[(&str, &str)]) -> Request {
        let option =
            |key: &str| options.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let container = option("box")
            .map_or(self.container.clone(), |suffix| format!("{}-{suffix}", self.container));
        let mut blob =
            format!("/{EMULATOR_ACCOUNT}/{container}/{}", option("at").unwrap_or("blob"));
        let mut container_target = format!("/{EMULATOR_ACCOUNT}/{container}?restype=container");
        let mut headers: Vec<(&str, String)> = Vec::new();
        let mut add = |name, value: &str| headers.push((name, value.to_owned()));
        let (method, comp) = match verb {
            "mkcontainer" => ("PUT", ""),
            "rmcontainer" => ("DELETE", ""),
            "headcontainer" => ("HEAD", ""),
            "put" => ("PUT", ""),
            "get" => ("GET", ""),
            "head" => ("HEAD", ""),
            "delete" => ("DELETE", ""),
            "meta" => ("PUT", "metadata"),
            _ => ("PUT", "lease"),
        };
        let body = if verb == "put" { option("body").unwrap_or("x") } else { "" };
        match verb {
            "put" => add("x-ms-blob-type", "BlockBlob"),
            _ if verb.eq_ignore_ascii_case("acquire") => match option("for") {
                None => add("x-ms-lease-duration", "15"),
                Some("nothing") => {}
                Some(seconds) => add("x-ms-lease-duration", seconds),
            },
            _ => {}
        }
        if comp == "lease" && verb != "no-action" {
            add("x-ms-lease-action", verb);
        }
        for (name, value) in options {
            match *name {
                "id" if verb.eq_ignore_ascii_case("acquire") => {
                    add("x-ms-proposed-lease-id", &id(value))
                }
                "id" => add("x-ms-lease-id", &id(value)),
                "to" => add("x-ms-proposed-lease-id", &id(value)),
                "in" => add("x-ms-lease-break-period", value),
                "for" if verb != "acquire" => add("x-ms-lease-duration", value),
                "match" => add("If-Match", &self.tag(value)),
                "none" => add("If-None-Match", &self.tag(value)),
                "modified-since" => add("If-Modified-Since", &self.date(value)),
                "unmodified-since" => add("If-Unmodified-Since", &self.date(value)),
                "meta" => add("x-ms-meta-term", value),
                "type" => add("x-ms-blob-content-type", value),
                _ => {}
            }
        }
        let mut query: Vec<String> = Vec::new();
        if !comp.is_empty() {
            query.push(format!("comp={comp}"));
        }
        query.extend(option("timeout").map(|seconds| format!("timeout={seconds}")));
        query.extend(option("sas").map(str::to_owned));
        if !query.is_empty() {
            blob = format!("{blob}?{}", query.join("&"));
        }
        if let Some(token) = option("sas") {
            container_target = format!("{container_target}&{token}");
        }
        let mut request = Request::new(
            method,
            if verb.ends_with("container") { &container_target } else { &blob },
        );
        if method == "PUT" {
            request = request.with("Content-Length", &body.len().to_string());
        }
        request.body = body.to_owned().into();
        match option("version") {
            None => request = request.with("x-ms-version", "2021-12-02"),
            Some("nothing") => {}
            Some(version) => request = request.with("x-ms-version", version),
        }
        match option("date") {
            None if option("sas").is_some() => {}
            None => request = request.with("x-ms-date", &self.date("0")),
            Some("nothing") => {}
            Some("garbage") => request = request.with("x-ms-date", "yesterday"),
            Some(offset) => request = request.with("x-ms-date", &self.date(offset)),
        }
        request = options
            .iter()
            .filter(|(name, _)| *name == "plain-date")
            .fold(request, |request, (_, offset)| request.with("Date", &self.date(offset)));
        for (name, value) in headers {
            request = request.with(name, &value);
        }
        match option("auth") {
            Some("nothing") => request,
            Some("malformed") => request.with("Authorization", "SharedKey"),
            Some("bearer") => request.with("Authorization", "Bearer abc.def.ghi"),
            Some("lite") => signed(request, EMULATOR_KEY, EMULATOR_ACCOUNT, "SharedKeyLite"),
            Some("nobody") => signed(request, EMULATOR_KEY, "nobody", "SharedKey"),
            None if option("sas").is_some() => request,
            Some("wrong-key") => signed(request, "AAEC", EMULATOR_ACCOUNT, "SharedKey"),
            _ => signed(request, EMULATOR_KEY, EMULATOR_ACCOUNT, "SharedKey"),
        }
    }

    fn tag(&self, value: &str) -> String {
        match value {
            "right" => self.etag.clone(),
            "wrong" => "\"0x8D0000000000000\"".to_owned(),
            other => other.to_owned(),
        }
    }

    /// Returns the date this many minutes from now.
    fn date(&self, minutes: &str) -> String {
        let minutes: i64 = match minutes {
            "past" => -60,
            "future" => 60,
            minutes => minutes.parse().unwrap(),
        };
        encoding::format_http_date(self.wire.now().wall + TimeDelta::minutes(minutes))
    }

    /// Checks the common properties of every response.
    fn check(&self, request: &Request, answer: &Response) {
        let header = |name: &str| answer.header(name).unwrap_or_default();
        assert_eq!(header("server"), "Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0");
        assert_eq!(header("date"), encoding::format_http_date(self.wire.now().wall));
        assert_eq!(header("x-ms-request-id").len(), 36);
        let body = String::from_utf8_lossy(&answer.body);
        if answer.status < 300 {
            assert_eq!(answer.code(), None);
            let version = request
                .header("x-ms-version")
                .or(request.target.contains("sig=").then_some(SAS_VERSION));
            assert_eq!(answer.header("x-ms-version"), version);
        } else if request.method == "HEAD" || answer.status == 304 {
            assert!(answer.code().is_some() && body.is_empty(), "{body}");
        } else {
            let code = answer.code().unwrap();
            assert!(body.starts_with("\u{feff}<?xml"), "{body}");
            assert!(body.contains(&format!("<Code>{code}</Code>")), "{body}");
            assert_eq!(header("content-type"), "application/xml");
        }
        if request.method != "HEAD" && answer.status != 304 {
            assert_eq!(header("content-length"), answer.body.len().to_string());
        }
        if request.target.contains("comp=lease") && answer.status < 300 {
            assert_eq!(header("content-length"), "0");
            assert!(
                self.is_unchanged(answer),
                "lease operations leave ETag and Last-Modified alone"
            );
        }
    }
}

fn stamp(answer: &Response) -> (String, String) {
    let header = |name: &str| answer.header(name).unwrap_or_default().to_owned();
    (header("etag"), header("last-modified"))
}

/// Returns the lease id of a letter.
pub fn id(name: &str) -> String {
    match name {
        "A" => "aaaaaaaa-0000-4000-8000-00000000000a".to_owned(),
        "B" => "bbbbbbbb-0000-4000-8000-00000000000b".to_owned(),
        "C" => "cccccccc-0000-4000-8000-00000000000c".to_owned(),
        "A^" => id("A").to_uppercase(),
        other => other.to_owned(),
    }
}

pub fn signed(request: Request, key: &str, account: &str, scheme: &str) -> Request {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let text =
        string_to_sign(&request.method, path, &decoded_query(query), &request.headers, account);
    let value = authorization(account, &Key::from_base64(key).unwrap(), &text);
    request.with("Authorization", &value.replacen("SharedKey", scheme, 1))
}
