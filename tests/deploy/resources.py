"""The fields of the custom resources that `deploy/` uses, as their definitions have them: of wasmCloud 2.10
(`runtime.wasmcloud.dev/v1alpha1`) and of prometheus-operator (`monitoring.coreos.com/v1`); and those of Azure's
resources, by type and version. Only what is used; a field that is not here is refused.
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
LOCAL = record(
    # A host, with or without a scheme and a port; no path.
    allowedHosts=several({"type": "string", "pattern": r"^(\w+://)?(\*\.)?[\w.-]+(:\d+)?/?$"}),
    environment=record(config=TEXTS, configFrom=NAMES, secretFrom=NAMES),
)
# Without a host name, the interface for requests is not connected.
INTERFACE = record(
    ["namespace", "package", "interfaces", "config"],
    namespace=TEXT,
    package=TEXT,
    interfaces=several({"const": "incoming-handler"}),
    config=record(["host"], host=TEXT),
)
RESTARTS = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
WORKLOAD = record(
    ["components"],
    hostSelector=TEXTS,
    hostInterfaces=several(INTERFACE),
    service=record(["image", "maxRestarts"], image=TEXT, maxRestarts=RESTARTS, localResources=LOCAL),
    components=several(record(["name", "image"], name=TEXT, image=TEXT, localResources=LOCAL)),
)

SELECTOR = record(["matchLabels"], matchLabels=TEXTS)
ENDPOINT = record(["port"], port=TEXT, path=TEXT, interval={"type": "string", "pattern": r"^\d+(ms|s|m|h)$"})

# What another resource or a variable gives.
ANY = {}
CHECK = record(
    ["type", "httpGet"],
    type={"enum": ["Liveness", "Readiness", "Startup"]},
    httpGet=record(["path", "port"], path=TEXT, port=NUMBER),
    periodSeconds={"type": "integer", "minimum": 1, "maximum": 240},
    failureThreshold={"type": "integer", "minimum": 1, "maximum": 10},
)
CONTAINER = record(
    ["name", "image", "resources"],
    name=TEXT,
    image=TEXT,
    args=several(TEXT),
    env=several(record(["name", "value"], name=TEXT, value=TEXT)),
    probes=several(CHECK),
    resources=record(["cpu", "memory"], cpu=TEXT, memory={"type": "string", "pattern": r"^[\d.]+Gi$"}),
)
APP = record(
    ["environmentId", "configuration", "template"],
    environmentId=TEXT,
    configuration=record(["activeRevisionsMode"], activeRevisionsMode={"enum": ["Single", "Multiple"]}, registries=ANY),
    template=record(
        ["containers"],
        terminationGracePeriodSeconds={"type": "integer", "minimum": 0, "maximum": 600},
        containers=several(CONTAINER),
        scale=record(["minReplicas", "maxReplicas"], minReplicas={"minimum": 2}, maxReplicas={"minimum": 2}),
    ),
)
ROLE = record(
    ["principalId", "roleDefinitionId"],
    principalId=TEXT,
    principalType={"enum": ["ServicePrincipal"]},
    roleDefinitionId=TEXT,
)
LOGS = record(
    ["destination"],
    destination={"const": "log-analytics"},
    logAnalyticsConfiguration=record(["customerId", "sharedKey"], customerId=TEXT, sharedKey=TEXT),
)


def azure(**fields):
    return record(["name"], name=TEXT, **fields)


SCHEMAS = {
    "Microsoft.App/containerApps@2024-03-01": azure(
        location=TEXT,
        dependsOn=several(TEXT),
        identity=record(["type"], type={"const": "UserAssigned"}, userAssignedIdentities={"minProperties": 1}),
        properties=APP,
    ),
    "Microsoft.App/managedEnvironments@2024-03-01": azure(
        location=TEXT, properties=record(appLogsConfiguration=LOGS)
    ),
    "Microsoft.Authorization/roleAssignments@2022-04-01": azure(scope=TEXT, properties=ROLE),
    "Microsoft.ContainerRegistry/registries@2023-07-01": azure(),
    "Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31": azure(location=TEXT),
    "Microsoft.OperationalInsights/workspaces@2023-09-01": azure(
        location=TEXT, properties=record(sku=record(["name"], name=TEXT), retentionInDays=NUMBER)
    ),
    "Microsoft.Storage/storageAccounts@2023-05-01": azure(),
    "Microsoft.Storage/storageAccounts/blobServices@2023-05-01": azure(parent=TEXT),
    "Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01": azure(parent=TEXT),
    "PodMonitor": resource(
        "monitoring.coreos.com/v1",
        "PodMonitor",
        record(
            ["selector", "podMetricsEndpoints"],
            selector=SELECTOR,
            podMetricsEndpoints=several(ENDPOINT),
        ),
    ),
    "WorkloadDeployment": resource(
        "runtime.wasmcloud.dev/v1alpha1",
        "WorkloadDeployment",
        record(
            ["template"],
            replicas=NUMBER,
            kubernetes=record(["service"], service=record(["name"], name=TEXT)),
            template=record(["spec"], labels=TEXTS, spec=WORKLOAD),
        ),
    ),
}
