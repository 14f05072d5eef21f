"""The fields of the custom resources that `deploy/` uses, as their definitions have them: of
spin-operator 0.6 (`core.spinkube.dev/v1alpha1`), of wasmCloud 2.10
(`runtime.wasmcloud.dev/v1alpha1`) and of prometheus-operator (`monitoring.coreos.com/v1`). Only what is used; a field that is not here is refused.
"""

TEXT = {"type": "string", "minLength": 1}
NUMBER = {"type": "integer", "minimum": 0}
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}


def record(required=(), **fields):
    return {
        "type": "object",
        "properties": fields,
        "required": list(required),
        "additionalProperties": False,
    }


def several(items):
    return {"type": "array", "items": items, "minItems": 1}


def resource(version, kind, spec):
    metadata = record(["name"], name=TEXT, namespace=TEXT, labels=TEXTS)
    fields = {"apiVersion": {"const": version}, "kind": {"const": kind}}
    return record([*fields, "metadata", "spec"], **fields, metadata=metadata, spec=spec)


NAMES = several(record(["name"], name=TEXT))
PROBE = record(["httpGet"], httpGet=record(["path"], path=TEXT))
LOCAL = record(
    # A host, with or without a scheme and a port; no path.
    allowedHosts=several({"type": "string", "pattern": r"^(\w+://)?(\*\.)?[\w.-]+(:\d+)?/?$"}),
    environment=record(config=TEXTS, configFrom=NAMES, secretFrom=NAMES),
)
WORKLOAD = record(
    ["components"],
    hostSelector=TEXTS,
    service=record(["image"], image=TEXT, maxRestarts=NUMBER, localResources=LOCAL),
    components=several(record(["name", "image"], name=TEXT, image=TEXT, localResources=LOCAL)),
)

SELECTOR = record(["matchLabels"], matchLabels=TEXTS)
ENDPOINT = record(["port"], port=TEXT, path=TEXT, interval={"type": "string", "pattern": r"^\d+(ms|s|m|h)$"})

SCHEMAS = {
    "PodMonitor": resource(
        "monitoring.coreos.com/v1",
        "PodMonitor",
        record(
            ["selector", "podMetricsEndpoints"],
            selector=SELECTOR,
            podMetricsEndpoints=several(ENDPOINT),
        ),
    ),
    "SpinApp": resource(
        "core.spinkube.dev/v1alpha1",
        "SpinApp",
        record(
            ["image", "executor"],
            image=TEXT,
            imagePullSecrets=NAMES,
            executor=TEXT,
            replicas=NUMBER,
            checks=record(liveness=PROBE, readiness=PROBE),
            resources=record(limits=TEXTS, requests=TEXTS),
        ),
    ),
    "WorkloadDeployment": resource(
        "runtime.wasmcloud.dev/v1alpha1",
        "WorkloadDeployment",
        record(
            ["template"], replicas=NUMBER, template=record(["spec"], labels=TEXTS, spec=WORKLOAD)
        ),
    ),
}
