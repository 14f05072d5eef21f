//! Cloudflare Workers: the worker of `deploy/cloudflare`, bundled by wrangler and run by workerd.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{examples, tools};

/// Configuration of workerd. A second worker turns `/scheduled` into an event of the cron trigger,
/// as Cloudflare calls a worker without a request.
const CONFIG: &str = r#"using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "caller", worker = .caller),
    (name = "tenure", worker = .tenure),
    (name = "internet", network = (allow = ["local"])),
  ],
  sockets = [(name = "http", http = (), service = "caller")],
);
const caller :Workerd.Worker = (
  modules = [(name = "caller.js", esModule = embed "caller.js")],
  compatibilityDate = .date,
  compatibilityFlags = ["service_binding_extra_handlers"],
  bindings = [(name = "TENURE", service = "tenure")],
);
const tenure :Workerd.Worker = (
  modules = .modules,
  compatibilityDate = .date,
  bindings = .bindings,
);
"#;

const CALLER: &str = r#"export default {
  async fetch(request, { TENURE }) {
    if (new URL(request.url).pathname !== "/scheduled") return TENURE.fetch(request);
    const event = { cron: "* * * * *", scheduledTime: new Date() };
    const { outcome } = await TENURE.scheduled(event);
    return Response.json({ outcome }, { status: outcome === "ok" ? 200 : 500 });
  },
};
"#;

/// The worker, bundled with `tenure.wasm`.
#[derive(Debug)]
pub struct Worker {
    folder: TempDir,
}

impl Worker {
    /// Bundles the worker as `wrangler deploy` does.
    ///
    /// # Errors
    /// A tool cannot be installed, or the worker cannot be bundled.
    pub fn bundle() -> Result<Self> {
        let installed = tools::npm("cloudflare", "deploy/cloudflare")?;
        let source = tools::repository().join("deploy/cloudflare");
        let folder = tempfile::tempdir()?;
        let path = folder.path();
        for file in ["package.json", "wrangler.toml", "worker.js"] {
            fs::copy(source.join(file), path.join(file))?;
        }
        fs::copy(examples::components()?.join("tenure.wasm"), path.join("tenure.wasm"))?;
        std::os::unix::fs::symlink(installed.join("node_modules"), path.join("node_modules"))?;
        let mut wrangler = std::process::Command::new("node");
        // wrangler's other program refuses Node.js 20, which suffices for bundling.
        wrangler.arg("node_modules/wrangler/wrangler-dist/cli.js");
        wrangler.args(["deploy", "--dry-run", "--outdir", "dist"]).current_dir(path);
        wrangler.env("WRANGLER_SEND_METRICS", "false").env("XDG_CONFIG_HOME", path.join("config"));
        tools::run_command(&mut wrangler)?;
        fs::write(path.join("caller.js"), CALLER)?;
        Ok(Self { folder })
    }

    /// Returns the command that runs the worker, with these variables of the environment.
    ///
    /// # Errors
    /// The configuration cannot be written.
    pub fn command<'a>(
        &self,
        port: u16,
        variables: impl Iterator<Item = &'a str>,
    ) -> Result<Command> {
        let folder = self.folder.path();
        let manifest = fs::read_to_string(folder.join("wrangler.toml"))?;
        let date = manifest.lines().find_map(|line| line.strip_prefix("compatibility_date = "));
        let date = date.context("the manifest has no compatibility date")?;
        let mut config = format!("{CONFIG}const date :Text = {date};\n");
        config += "const modules :List(Workerd.Worker.Module) = [\n";
        config += "  (name = \"worker.js\", esModule = embed \"dist/worker.js\"),\n";
        for entry in fs::read_dir(folder.join("dist"))? {
            let name = entry?.file_name().display().to_string();
            if name.ends_with(".wasm") {
                writeln!(config, "  (name = \"{name}\", wasm = embed \"dist/{name}\"),")?;
            }
        }
        config += "];\nconst bindings :List(Workerd.Worker.Binding) = [\n";
        for name in variables {
            writeln!(config, "  (name = \"{name}\", fromEnvironment = \"{name}\"),")?;
        }
        fs::write(folder.join("config.capnp"), config + "];\n")?;
        let mut workerd = Command::new(folder.join("node_modules/workerd/bin/workerd"));
        // The call of a worker's event handler by another worker is experimental.
        workerd.args(["serve", "--experimental", "config.capnp"]).current_dir(folder);
        workerd.args(["--socket-addr", &format!("http=127.0.0.1:{port}")]);
        Ok(workerd)
    }
}
