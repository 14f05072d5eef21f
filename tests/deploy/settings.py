"""Has the program judge the arguments and the variables that manifests give it, as `tenure run` does."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

# What a pod is told by the cluster.
DOWNWARD = {"metadata.name": "tenure-6d5f7c9b8-x2x7q", "status.podIP": "10.244.1.17"}

# What the webhook of workload identity adds.
IDENTITY = {
    "AZURE_CLIENT_ID": "00000000-0000-0000-0000-000000000000",
    "AZURE_TENANT_ID": "00000000-0000-0000-0000-000000000000",
    "AZURE_FEDERATED_TOKEN_FILE": "/var/run/secrets/azure/tokens/azure-identity-token",
    "AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/",
}

# What secrets hold, by their keys.
SECRETS = {
    "connection-string": "AccountName=mystore;AccountKey=bXk=;EndpointSuffix=core.windows.net",
    "token": "a-long-random-token",
}

# What is given by hand where the platform has no identity.
AN_ACCOUNT = {"AZURE_STORAGE_CONNECTION_STRING": SECRETS["connection-string"]}

# Keeps the program from contending. That it is complained of shows that the rest was judged.
MISTAKE = ["--poll", "never"]


def refused(program, handler, args, env, files=()):
    """What the program complains about, in its own words. `files` are the content of those that it is given, by path."""
    with tempfile.TemporaryDirectory() as root:
        places = {**dict(files), **{a.partition("=")[2]: None for a in args if a.startswith("--handler=")}}
        for path, text in places.items():
            file = Path(root + path)
            file.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                file.write_bytes(Path(handler).read_bytes())
            else:
                file.write_text(text)

        def here(value):
            for path in places:
                value = value.replace(path, root + path)
            # Tests listen for themselves alone.
            return re.sub(r"^(--listen=)?0\.0\.0\.0:\d+$", r"\g<1>127.0.0.1:0", value)

        command = [program, *map(here, args), *MISTAKE]
        given = {name: here(value) for name, value in env.items()}
        given |= {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        told = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120)
    complaints = re.findall(r"^  (\S.*)\n    (.*)", told.stderr, re.MULTILINE)
    expected = [(source, problem) for source, problem in complaints if source.startswith("--poll")]
    if told.returncode != 2 or len(expected) != 1:
        yield f"tenure does not judge it: {told.returncode}: {told.stderr}"
    for source, problem in complaints:
        if (source, problem) not in expected:
            yield f"{source}: {problem}"


def candidates(pod):
    """The containers of a pod that run the program; sidecars are init containers."""
    containers = pod["spec"].get("initContainers", []) + pod["spec"]["containers"]
    return [container for container in containers if container["name"] == "tenure"]


def of_pod(pod, account):
    """Arguments, variables and files of each candidate of a pod."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
    for container in candidates(pod):
        env = {}
        for entry in container.get("env", []):
            source = entry.get("valueFrom", {})
            if "fieldRef" in source:
                value = DOWNWARD[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                value = SECRETS[source["secretKeyRef"]["key"]]
            else:
                value = entry["value"]
            env[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda name: env[name[1]], value)
        if pod["metadata"]["labels"].get("azure.workload.identity/use") == "true":
            env |= {**IDENTITY, "AZURE_CLIENT_ID": account.get("azure.workload.identity/client-id", "")}
        files = {}
        for mount in container.get("volumeMounts", []):
            for item in volumes[mount["name"]].get("secret", {}).get("items", []):
                files[f"{mount['mountPath']}/{item['path']}"] = SECRETS[item["key"]]
        if "AZURE_FEDERATED_TOKEN_FILE" in env:
            files[env["AZURE_FEDERATED_TOKEN_FILE"]] = "eyJ0.e30.c2ln"
        yield container.get("args", []), env, files


def of_bicep(text):
    """The same of a container app; what only a deployment knows is made up."""
    known = dict(re.findall(r"^param (\w+) \w+ = '([^']*)'", text, re.MULTILINE))

    def literal(words):
        words = words.strip()
        if not words.startswith("'"):
            return known.get(words, "mystore" if words == "storage.name" else IDENTITY["AZURE_CLIENT_ID"])
        return re.sub(r"\$\{(\w+)\}", lambda name: known.get(name[1], "example.com"), words.strip("'"))

    args = re.search(r"^ +args: \[\n(.*?)\n +\]", text, re.MULTILINE | re.DOTALL)[1].splitlines()
    env = re.search(r"^ +env: \[\n(.*?)\n +\]", text, re.MULTILINE | re.DOTALL)[1]
    env = re.findall(r"name: '(\w+)'\n +value: (.*)", env)
    return [literal(word) for word in args], {name: literal(value) for name, value in env}
