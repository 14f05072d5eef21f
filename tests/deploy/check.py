"""Judges what is in `deploy/` as far as that is possible without the platforms themselves.

    check.py DEPLOY REPOSITORY TENURE HANDLER

DEPLOY is the folder, REPOSITORY the root of this repository, TENURE the program, and HANDLER a component. Prints
every complaint, and ends with 1 when there is one.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import bicep
import jsonschema
import kubernetes_validate
import kustomize
import settings
import yaml
from resources import SCHEMAS
from yamllint import linter
from yamllint.config import YamlLintConfig

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

KUBERNETES = "1.34"
YAML_RULES = "{extends: default, rules: {document-start: disable, line-length: {max: 120}}}"


def template(file, text):
    """Whether it parses, and has the fields of its resources. Expressions are the Bicep compiler's business."""
    tree = bicep.tree(text)
    lines = list(bicep.mistakes(tree))
    yield from (f"does not parse at line {line}" for line in lines)
    for kind, content in [] if lines else bicep.resources(tree):
        if kind not in SCHEMAS:
            yield f"the fields of {kind} are not known here"
            continue
        for error in jsonschema.Draft202012Validator(SCHEMAS[kind]).iter_errors(content):
            yield f"{kind}, {error.json_path}: {error.message}"
    if re.search(r"storage\.list(Keys|AccountSas)", text):
        yield "takes the account's key where there is an identity"
    yield from settings.refused(PROGRAM, HANDLER, *settings.of_bicep(text))


def manifests(file, text):
    for problem in linter.run(text, YamlLintConfig(YAML_RULES)):
        yield f"line {problem.line}: {problem.desc}"
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        yield str(error)
        return
    # What makes manifests of others is judged by what it makes.
    yield from resources(d for d in documents if d["kind"] not in ("Kustomization", "Component"))
    for deployment in (d for d in documents if d["kind"] == "Deployment" and file.parent.name == "runwasi"):
        for _, env, _ in settings.of_pod(pod_of(deployment), {}):
            yield from settings.refused(PROGRAM, HANDLER, ["run"], env)


def resources(documents):
    for document in documents:
        kind = document["kind"]
        try:
            if kind in SCHEMAS:
                jsonschema.validate(document, SCHEMAS[kind])
            else:
                kubernetes_validate.validate(document, KUBERNETES, strict=True)
        except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
            yield f"{kind}: {error.message}"
        if kind == "Deployment":
            yield from probes(document)
        if kind == "WorkloadDeployment":
            yield from workload(document)
        if kind in ("Deployment", "CronJob"):
            yield from names(pod_of(document))


def pod_of(document):
    job = document["spec"].get("jobTemplate", document)
    return job["spec"]["template"]


def names(pod):
    """Each candidate has a name of its own: that of its pod."""
    for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
        env = {entry["name"]: entry for entry in container.get("env", [])}
        field = env.get("TENURE_NAME", {}).get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        if any(name.startswith(("TENURE_", "AZURE_")) for name in env) and field != "metadata.name":
            yield f"{container['name']} takes no TENURE_NAME from its pod"


def overlays(kubernetes):
    """Each overlay as it is rendered: all that is applied, together."""
    for name, documents, complaints in kustomize.rendered(kubernetes, PAGE):
        accounts = [d["metadata"] for d in documents if d["kind"] == "ServiceAccount"]
        account = accounts[0].get("annotations", {}) if accounts else {}
        found = [*complaints, *resources(documents), *kustomize.fits(documents)]
        for deployment in (d for d in documents if d["kind"] == "Deployment"):
            for args, env, files in settings.of_pod(deployment["spec"]["template"], account):
                found += settings.refused(PROGRAM, HANDLER, args, env, files)
        yield from (f"{name}: {complaint}" for complaint in found)


def probes(deployment):
    """An account that does not answer must restart nothing: those probes ask whether the process runs."""
    for container in settings.candidates(deployment["spec"]["template"]):
        for probe in ("livenessProbe", "startupProbe"):
            if container.get(probe, {}).get("httpGet", {}).get("path") != "/healthz":
                yield f"{probe} does not ask /healthz"


def dockerfile(file, text):
    hadolint = next(path for path in sys.path if Path(path, "bin/hadolint").exists())
    command = [f"{hadolint}/bin/hadolint", "--no-color", "-"]
    linted = subprocess.run(command, input=text, capture_output=True, text=True)
    yield from (linted.stdout + linted.stderr).splitlines()


def toml(file, text):
    """The runner's own file is judged by the runner, in the tests of packaging."""
    try:
        manifest = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        yield str(error)
        return
    if file.name == "spin.toml":
        yield from spin(manifest)
        if file.parent.name == "spinkube" and "cron" in manifest.get("trigger", {}):
            yield "SpinKube's shim refuses an application with [[trigger.cron]]"
    if file.name == "wrangler.toml":
        yield from wrangler(manifest)


def spin(manifest):
    if manifest.get("spin_manifest_version") != 2:
        yield "is no manifest of version 2"
    components = manifest.get("component", {})
    for kind, triggers in manifest.get("trigger", {}).items():
        if kind not in ("http", "cron", "command"):
            yield f"[[trigger.{kind}]] cannot start the component"
        for trigger in triggers:
            if trigger.get("component") not in components:
                yield f"[[trigger.{kind}]] names no component"
        if kind == "cron" and any(len(t.get("cron_expression", "").split()) != 6 for t in triggers):
            yield "a cron expression has six fields, seconds first"
    for name, component in components.items():
        hosts = component.get("allowed_outbound_hosts", [])
        if not hosts:
            yield f"{name} reaches nothing"
        for host in hosts:
            if not re.fullmatch(r"https?://[a-z0-9.-]+(:\d+)?", host):
                yield f"{host} is no host that can be allowed"
        variables = component.get("variables", {})
        for undeclared in {f"{{{{ {name} }}}}" for name in manifest.get("variables", {})} ^ set(variables.values()):
            yield f"{undeclared} is not both declared and used"
        env = component.get("environment", {}) | {name.upper(): value for name, value in variables.items()}
        yield from candidate(name, env)
        yield from unreachable(name, env, hosts)


def wrangler(manifest):
    """Checks what wrangler accepts in any worker. That it bundles this one is checked in another test."""
    crons = manifest.get("triggers", {}).get("crons", [])
    if not crons or any(len(cron.split()) != 5 for cron in crons):
        yield "a cron trigger has five fields"
    yield from candidate("worker", manifest.get("vars", {}))


def workload(deployment):
    """Components of wasmCloud. Those with an election are candidates."""
    for component in deployment["spec"]["template"]["spec"]["components"]:
        name, resources = component["name"], component["localResources"]
        env = resources["environment"]["config"]
        if "TENURE_ELECTION" in env:
            yield from candidate(name, env)
        yield from unreachable(name, env, resources["allowedHosts"])


def candidate(name, env):
    """A candidate that has no pod to take its name from."""
    if "TENURE_NAME" not in env:
        yield f"{name} has no TENURE_NAME"
    handler = [] if "TENURE_HANDLER_URL" in env else ["--handler=/report.wasm"]
    yield from settings.refused(PROGRAM, HANDLER, ["run", *handler], env | settings.AN_ACCOUNT)


def unreachable(name, env, hosts):
    """Addresses in the variables that the platform does not let the component reach."""
    for variable, value in env.items():
        if value.startswith("https://") and not any(value.startswith(f"{host}/") for host in hosts):
            yield f"{name} may not reach its {variable}"


def dashboard(file, text):
    """Its queries are judged by promtool, in a test of their own."""
    if file.parent.name != "grafana":
        return
    try:
        panels = json.loads(text)["panels"]
    except (KeyError, ValueError) as error:
        yield f"is no dashboard: {error}"
        return
    ids = [panel["id"] for panel in panels]
    yield from (f"panel {id} is there twice" for id in set(ids) if ids.count(id) > 1)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        rows, columns = (range(place[at], place[at] + place[size]) for at, size in ("yh", "xw"))
        cells = {(row, column) for row in rows for column in columns}
        if max(columns) >= 24 or cells & taken:
            yield f"{panel['title']} has no room"
        taken |= cells


def anything(file, text):
    """What holds for all of them."""
    header = "\n".join(line for line in text.splitlines() if line.startswith(("#", "//")))
    if file.suffix not in (".md", ".js", ".json", ".dockerignore") and "Not run:" not in header:
        yield "does not say what was not run"
    for variable in sorted(set(re.findall(r"\bTENURE_[A-Z_]+", text)) - VARIABLES):
        yield f"{variable} is no variable of tenure"
    for option in sorted(set(re.findall(r"^\W*'?(--[a-z-]+)=", text, re.MULTILINE)) - OPTIONS):
        yield f"{option} is no option of `tenure run`"
    if re.search(r"AccountKey=(?!\$\{)\w", text):
        yield "holds a key"


CHECKS = {".yaml": manifests, ".json": dashboard, ".toml": toml, ".bicep": template, "": dockerfile}


def variables(repository):
    sources = [file for folder in ("guest", "host") for file in (repository / folder).rglob("*.rs")]
    found = (re.findall(r'"(TENURE_[A-Z_]+)"', file.read_text()) for file in sources)
    return {name for names in found for name in names}


def options(program):
    text = subprocess.run([program, "run", "--help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"--[a-z-]+", text.stdout))


if __name__ == "__main__":
    deploy, repository, PROGRAM, HANDLER = Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
    VARIABLES, OPTIONS = variables(repository), options(PROGRAM)
    PAGE = (repository / "docs/kubernetes.md").read_text()
    complaints, judged = 0, 0
    for file in sorted(path for path in deploy.rglob("*") if path.is_file()):
        text = file.read_text()
        check = CHECKS.get(file.suffix, lambda file, text: [])
        judged += file.suffix in CHECKS
        for complaint in [*check(file, text), *anything(file, text)]:
            complaints += 1
            print(f"{file.relative_to(deploy)}: {complaint}")
    for image in re.findall(r"^```dockerfile\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        for complaint in dockerfile(None, image):
            complaints += 1
            print(f"docs/kubernetes.md: {complaint}")
    if (deploy / "kubernetes/overlays").exists():
        for complaint in overlays(deploy / "kubernetes"):
            complaints += 1
            print(f"kubernetes/{complaint}")
    print(f"{judged} files judged, {complaints} complaints")
    sys.exit(1 if complaints or judged < len(CHECKS) else 0)
