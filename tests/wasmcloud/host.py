"""A wasmCloud host with a manifest of `deploy/wasmcloud`: `host.py MANIFEST SETTINGS`, in a folder of its own.

It does what wasmCloud's operator does for one replica: it sends the workload of the manifest to `wash host`, over NATS.
SETTINGS is JSON: for each component, and for `service`, its `file` and variables (`env`). Those take precedence over
the manifest's. If the manifest lists `allowedHosts`, the component may reach the origins on this machine that its
variables name, or those of `allowed`.
"""

import asyncio
import ctypes
import functools
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nats
import yaml

MANIFEST, SETTINGS = Path(sys.argv[1]), json.loads(sys.argv[2])
INSTALLED = Path(os.environ["PYTHONPATH"])
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
LIMIT = 600
PR_SET_PDEATHSIG = 1


class Registry(BaseHTTPRequestHandler):
    """A registry of images, each with a component as its only layer."""

    protocol_version = "HTTP/1.1"
    content = {"/v2/": ("application/json", b"{}")}

    def do_GET(self):
        kind, body = self.content.get(self.path, (None, b""))
        self.send_response(200 if kind else 404)
        self.send_header("content-type", kind or "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass

    @classmethod
    def publish(cls, name, component):
        def blob(kind, data):
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            cls.content[f"/v2/{name}/blobs/{digest}"] = (kind, data)
            return {"mediaType": kind, "digest": digest, "size": len(data)}

        config = {"created": "2026-11-29T00:00:00Z", "architecture": "wasm", "os": "wasip2", "layerDigests": []}
        image = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": blob("application/vnd.wasm.config.v0+json", json.dumps(config).encode()),
            "layers": [blob("application/wasm", component)],
        }
        cls.content[f"/v2/{name}/manifests/latest"] = (MANIFEST_TYPE, json.dumps(image).encode())


def start(program, *arguments, **options):
    """A process that ends with this one."""
    program.chmod(0o755)  # pip does not mark each program as executable.
    options |= {"env": {"HOME": os.getcwd(), "NO_COLOR": "1"}, "stderr": subprocess.STDOUT}
    libc = ctypes.CDLL(None)
    end_with_parent = functools.partial(libc.prctl, PR_SET_PDEATHSIG, signal.SIGKILL)
    return subprocess.Popen([program, *arguments], preexec_fn=end_with_parent, **options)


def workload(registry):
    """The workload of the manifest, as the operator sends it."""
    documents = yaml.safe_load_all(MANIFEST.read_text())
    document = next(document for document in documents if document["kind"] == "WorkloadDeployment")
    spec = document["spec"]["template"]["spec"]

    def part(name, declared):
        settings = SETTINGS[name]
        Registry.publish(name, Path(settings["file"]).read_bytes())
        resources = declared.get("localResources", {})
        environment = resources.get("environment", {}).get("config", {}) | settings.get("env", {})
        origins = re.findall(r"http://127\.0\.0\.1:\d+", json.dumps(environment))
        allowed = settings.get("allowed", origins) if resources.get("allowedHosts") else []
        return {
            "image": f"127.0.0.1:{registry}/{name}:latest",
            "localResources": {"environment": environment, "allowedHosts": allowed},
        }

    found = {
        "namespace": "default",
        "name": document["metadata"]["name"],
        "witWorld": {
            "components": [{"name": it["name"], **part(it["name"], it)} for it in spec["components"]],
            "hostInterfaces": spec.get("hostInterfaces", []),
        },
    }
    if service := spec.get("service"):
        found["service"] = {"maxRestarts": service["maxRestarts"], **part("service", service)}
    return found


async def main():
    registry = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=registry.serve_forever, daemon=True).start()
    server = start(
        INSTALLED / "bin/nats-server", "--addr", "127.0.0.1", "--port", "-1", stdout=subprocess.PIPE, text=True
    )
    address = next(line for line in server.stdout if "client connections on" in line).split()[-1]
    client = await nats.connect(address)
    heartbeats = await client.subscribe("runtime.operator.heartbeat.*")
    await client.flush()
    host = start(
        INSTALLED / "wash_cli/wash",
        *["host", "--non-interactive", "--http-addr", "127.0.0.1:0", "--allow-insecure-registries"],
        *["--scheduler-nats-url", f"nats://{address}", "--data-nats-url", f"nats://{address}"],
    )
    heartbeat = await heartbeats.next_msg(timeout=LIMIT)
    subject = f"runtime.host.{heartbeat.subject.rpartition('.')[2]}.workload.start"
    request = {"workloadId": "replica", "workload": workload(registry.server_port)}
    answer = json.loads((await client.request(subject, json.dumps(request).encode(), timeout=LIMIT)).data)
    status = answer["workloadStatus"]
    print(status["workloadState"], flush=True)
    if status["workloadState"] != "WORKLOAD_STATE_RUNNING":
        sys.exit(status["message"])
    host.wait()


asyncio.run(main())
