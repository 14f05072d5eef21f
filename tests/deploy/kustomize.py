"""Renders the overlays of `deploy/kubernetes` as people would, and judges how their resources fit together."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import settings
import yaml

CHECK = "tests/deploy/kustomize.py"

PARTS = "components:\n  - ../../components/pod-monitor\n"


def rendered(kubernetes, page):
    """Each overlay, and that of the page, by itself and with the other parts: its name, its documents, and what kubectl
    complains about.
    """
    programs = next(path for path in sys.path if Path(path, "bin/kubectl").exists()) + "/bin"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "deploy/kubernetes")
        shutil.copytree(kubernetes, copy)
        follow(page, folder, programs)
        for overlay in sorted(path for path in copy.glob("overlays/*") if path.is_dir()):
            file = overlay / "kustomization.yaml"
            alone = file.read_text()
            for parts in ["", PARTS]:
                file.write_text(alone + parts)
                command = [f"{programs}/kubectl", "kustomize", overlay]
                made = subprocess.run(command, capture_output=True, text=True)
                name = f"overlays/{overlay.name}{', with all parts' if parts else ''}"
                yield name, list(yaml.safe_load_all(made.stdout)), made.stderr.splitlines()


def follow(page, folder, programs):
    """Runs the commands of the page that need neither an account nor a cluster. What they render is judged later."""
    blocks = re.findall(rf"^<!-- checked by: {CHECK} -->\n```console\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    commands = re.sub(r"^\$ ", "", "".join(blocks), flags=re.MULTILINE)
    env = {"PATH": f"{programs}:/usr/bin:/bin", "CLIENT_ID": settings.IDENTITY["AZURE_CLIENT_ID"]}
    subprocess.run(["sh", "-uc", commands], cwd=folder, env=env, capture_output=True)


def fits(documents):
    """What names something that is not there, or is missing for more than one candidate."""
    of = {document["kind"]: document for document in documents}
    for kind in ("Deployment", "Service", "PodDisruptionBudget", "ServiceAccount"):
        if kind not in of:
            yield f"has no {kind}"
    deployment = of.get("Deployment")
    if not deployment:
        return
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"].items()
    sidecars = pod["spec"].get("initContainers", [])
    containers = sidecars + pod["spec"]["containers"]
    ports = {port[key] for c in containers for port in c.get("ports", []) for key in ("name", "containerPort")}
    if len(settings.candidates(pod)) != 1:
        yield "not one container is called tenure"
    for sidecar in sidecars:
        if sidecar.get("restartPolicy") != "Always":
            yield f"the application waits for the end of {sidecar['name']}, which is no sidecar"
        stream = f"http://127.0.0.1:{sidecar['ports'][0]['containerPort']}/watch"
        read = [entry.get("value") for c in pod["spec"]["containers"] for entry in c.get("env", [])]
        if stream not in read:
            yield f"no application reads {stream}"

    def selects(what, selector):
        if not selector.items() <= labels:
            yield f"{what} selects {selector}, which no pod has"

    for spread in pod["spec"].get("topologySpreadConstraints", []):
        yield from selects("a spread constraint", spread["labelSelector"]["matchLabels"])
    keys = {c["topologyKey"] for c in pod["spec"].get("topologySpreadConstraints", [])}
    if keys != {"topology.kubernetes.io/zone", "kubernetes.io/hostname"}:
        yield "does not spread over zones and machines"
    for kind in ("PodDisruptionBudget", "PodMonitor"):
        if kind in of:
            yield from selects(kind, of[kind]["spec"]["selector"]["matchLabels"])
    if "Service" in of:
        yield from selects("Service", of["Service"]["spec"]["selector"])
    named = [port["targetPort"] for port in of.get("Service", {}).get("spec", {}).get("ports", [])]
    named += [end["port"] for end in of.get("PodMonitor", {}).get("spec", {}).get("podMetricsEndpoints", [])]
    for container in containers:
        named += [container[probe]["httpGet"]["port"] for probe in container if probe.endswith("Probe")]
    for port in sorted(set(named) - ports, key=str):
        yield f"{port} is no port of a container"
    account = pod["spec"].get("serviceAccountName")
    if account != of.get("ServiceAccount", {}).get("metadata", {}).get("name"):
        yield f"the service account {account} is not made"
    if pod["metadata"]["labels"].get("azure.workload.identity/use") == "true":
        notes = of.get("ServiceAccount", {}).get("metadata", {}).get("annotations", {})
        if "azure.workload.identity/client-id" not in notes:
            yield "the service account names no identity"
