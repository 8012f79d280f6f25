"""What the simulated kubelets of KWOK do with the pods and nodes of a test, as its stages.

Pods start as soon as they are bound, and run until they are told to end. Annotations say otherwise:

- `kubelet.test/does`: "waits" keeps a bound pod from starting, until a test writes "runs";
  "ends" ends it; "rejects" fails it before it starts, as a kubelet without the devices does, and
  "lacks-cpu" as one that has promised its CPU to others.
- `kubelet.test/runs-for`: after how long it ends by itself, such as "2s".
- `kubelet.test/exit-code`: how it ends; 0 unless said.
- `kubelet.test/stops-in`: how long it takes to stop when it is deleted; no time unless said.
"""

DOES = "kubelet.test/does"
RUNS_FOR = "kubelet.test/runs-for"
EXIT_CODE = "kubelet.test/exit-code"
STOPS_IN = "kubelet.test/stops-in"

TERMINATED = 143  # the exit code of a process that ends when asked by SIGTERM


def stages():
    """KWOK's configuration: one stage for each thing that a kubelet does."""
    starts = _is_not(_note(DOES), "waits", "rejects", "lacks-cpu")
    return [
        _stage("node-ready", "Node", [_is_not(_READY, "True")], status=_NODE_READY),
        _stage("node-heartbeat", "Node", [_is(_READY, "True")], status=_HEARTBEAT, after=600_000),
        _stage("pod-rejected", "Pod", [*_PENDING, _is(_note(DOES), "rejects")], status=_REJECTED),
        _stage("pod-lacks", "Pod", [*_PENDING, _is(_note(DOES), "lacks-cpu")], status=_LACKING),
        _stage("pod-runs", "Pod", [*_PENDING, starts], status=_RUNNING),
        _stage("pod-ends", "Pod", [*_RUNS, _is(_note(DOES), "ends")], status=_ENDED),
        _stage("pod-has-run", "Pod", [*_RUNS, _RUNS_LONG], status=_ENDED, after_note=RUNS_FOR),
        _stage("pod-stops", "Pod", _STOPPING, status=_STOPPED, after_note=STOPS_IN),
        _stage("pod-goes", "Pod", [_exists(_DELETED), _is(_PHASE, "Succeeded", "Failed")]),
    ]


_PHASE = ".status.phase"
_DELETED = ".metadata.deletionTimestamp"
_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'


def _note(name):
    return f'.metadata.annotations["{name}"]'


def _is(key, *values):
    return {"key": key, "operator": "In", "values": list(values)}


def _is_not(key, *values):
    return {"key": key, "operator": "NotIn", "values": list(values)}


def _exists(key):
    return {"key": key, "operator": "Exists"}


_ALIVE = {"key": _DELETED, "operator": "DoesNotExist"}
_PENDING = [_ALIVE, _is(_PHASE, "Pending")]
_RUNS = [_ALIVE, _is(_PHASE, "Running")]
_RUNS_LONG = _exists(_note(RUNS_FOR))
_STOPPING = [_exists(_DELETED), _is(_PHASE, "Pending", "Running")]


def _stage(name, kind, selector, *, status="", after=0, after_note=""):
    """One stage, that many milliseconds later; without a status the object is removed.

    after_note: an annotation that says how much later instead.
    """
    delay = {"durationMilliseconds": after}
    if after_note:
        delay["durationFrom"] = {"expressionFrom": _note(after_note)}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": selector},
            "delay": delay,
            "next": {"statusTemplate": status} if status else {"delete": True},
        },
    }


_CONDITIONS = """
conditions:
- {{type: Ready, status: "{ready}", lastProbeTime: null, lastTransitionTime: {{{{ Now | Quote }}}}}}
- {{type: ContainersReady, status: "{ready}", lastProbeTime: null, lastTransitionTime: {{{{ Now | Quote }}}}}}
"""  # noqa: E501 - a line of a list

_RUNNING = (
    "phase: Running\n"
    "startTime: {{ Now | Quote }}\n"
    'hostIP: "10.0.0.1"\n'
    + _CONDITIONS.format(ready="True")
    + """
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ Now | Quote }}}}
{{ end }}
"""
)

# A container that never started has ended, too, when its pod is stopped.
_CONTAINERS_ENDED = """
containerStatuses:
{{ $now := Now }}
{{ $root := . }}
{{ range $index, $container := .spec.containers }}
{{ $started := $now }}
{{ with $root.status.containerStatuses }}
{{ with (index . $index).state.running }}{{ $started = .startedAt }}{{ end }}
{{ end }}
- name: {{ $container.name | Quote }}
  image: {{ $container.image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: {{ $code }}
      reason: {{ if eq $code "0" }}Completed{{ else }}Error{{ end }}
      startedAt: {{ $started | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
"""

_ENDED = (
    f'{{{{ $code := or ( index ( or .metadata.annotations dict ) "{EXIT_CODE}" ) "0" }}}}\n'
    'phase: {{ if eq $code "0" }}Succeeded{{ else }}Failed{{ end }}\n'
    + _CONDITIONS.format(ready="False")
    + _CONTAINERS_ENDED
)

_STOPPED = (
    f'{{{{ $code := "{TERMINATED}" }}}}\nphase: Failed\n'
    + _CONDITIONS.format(ready="False")
    + _CONTAINERS_ENDED
)

_REJECTED = """
phase: Failed
reason: UnexpectedAdmissionError
message: "Pod was rejected: Allocate failed due to requested number of devices unavailable"
"""

_LACKING = """
phase: Failed
reason: OutOfcpu
message: "Node didn't have enough resource: cpu, requested: 500, used: 95800, capacity: 96000"
"""

_NODE_READY = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
nodeInfo:
  architecture: amd64
  bootID: ""
  containerRuntimeVersion: simulated
  kernelVersion: simulated
  kubeProxyVersion: ""
  kubeletVersion: simulated
  machineID: ""
  operatingSystem: linux
  osImage: ""
  systemUUID: ""
"""

_HEARTBEAT = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
{{ end }}
"""
