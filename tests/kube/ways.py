"""What somebody tries who may do all in his namespace, as attempts and whose words refuse them."""

from tests.kube.polling import eventually
from tests.kube.tenant import NODES, manifest
from topology.kube import names


def refused_pod(rule, **pod):
    """A pod that the rule of that name refuses."""
    return lambda t: t.mighty.ask("POST", t.pods, manifest(**pod)), ("muster-pods", rule)


def on_held(rule, act):
    """What is done to a pod of his own that waits at the gate."""

    def attempt(tenant):
        tenant.mighty.create(tenant.pods, manifest(gpus=1))
        return act(tenant, f"{tenant.pods}/a")

    return attempt, ("muster-pods", rule)


def on_running(rules, rule, act):
    """What is done to a member of a job that runs on two GPUs."""

    def attempt(tenant):
        member, _gang = tenant.running()
        return act(tenant, f"{tenant.pods}/{member.pod_name}")

    return attempt, (rules, rule)


def on_job(rule, act, *, rules="muster-jobs"):
    """What is done to Muster's Job of two members, which is suspended."""

    def attempt(tenant):
        gang = tenant.gang(members=2)
        tenant.gateway.ensure_gang(gang)
        return act(tenant, f"{tenant.group('batch/v1/jobs')}/{gang.key.name}")

    return attempt, (rules, rule)


def without_gate(tenant, path):
    pod = tenant.mighty.get(path)
    pod["spec"].pop("schedulingGates")
    return tenant.mighty.ask("PUT", path, pod)


def bind(pod_name, path):
    """Somebody's pod without GPUs, put on a node of the pool where its image would show them."""

    def attempt(tenant):
        tenant.mighty.create(tenant.pods, manifest("a", schedulerName="nobody"))
        target = {"apiVersion": "v1", "kind": "Node", "name": NODES[0]}
        body = {"metadata": {"name": pod_name}, "target": target}
        return tenant.mighty.ask("POST", path(tenant), body)

    return attempt, ("muster-bindings", "scheduler-binds")


def bind_as(tenant, account):
    """As `bind`, by an account that RBAC lets do it."""
    tenant.mighty.create(tenant.pods, manifest("a", schedulerName="nobody"))
    target = {"apiVersion": "v1", "kind": "Node", "name": NODES[0]}
    body = {"metadata": {"name": "a"}, "target": target}
    return let(tenant, account).ask("POST", f"{tenant.pods}/a/binding", body)


def let(tenant, account):
    """Somebody whom RBAC refuses nothing in the namespace either: what is left are the policies."""
    rights = tenant.group("rbac.authorization.k8s.io/v1/rolebindings")
    subject = {"kind": "User", "name": account, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "mighty", "apiGroup": "rbac.authorization.k8s.io"}
    metadata = {"name": account.replace(":", "-")}
    tenant.admin.ask("POST", rights, {"metadata": metadata, "roleRef": role, "subjects": [subject]})
    him = tenant.admin.acting_as(account)
    eventually(lambda: him.ask("GET", tenant.pods)[0] == 200, within=30)
    return him


def debug(tenant, path, **how):
    container = {"name": "d", "image": "nvidia/cuda:13", "targetContainerName": "main", **how}
    patch = {"spec": {"ephemeralContainers": [container]}}  # merged by name
    return tenant.mighty.patch(f"{path}/ephemeralcontainers", patch)


def debug_own(rule, **how):
    """A debugger in a pod of his own without GPUs, which is allowed if it is a plain one."""

    def attempt(tenant):
        tenant.mighty.create(tenant.pods, manifest())
        assert debug(tenant, f"{tenant.pods}/a")[0] == 200
        return debug(tenant, f"{tenant.pods}/a", **how, name="e")

    return attempt, ("muster-debuggers", rule)


def evict(tenant, path):
    name = path.rpartition("/")[2]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        "deleteOptions": {"gracePeriodSeconds": 86400},
    }
    return tenant.mighty.ask("POST", f"{path}/eviction", body)


def resize(tenant):
    """Before it is bound: simulated nodes know no resizing."""
    member, _gang = tenant.held(cpu_milli=500, memory_mib=64)
    more = {"requests": {"cpu": "9"}, "limits": {"cpu": "9"}}
    spec = {"containers": [{"name": names.MAIN, "resources": more}]}
    return tenant.mighty.patch(f"{tenant.pods}/{member.pod_name}/resize", {"spec": spec})


def patched(body, *, kind="merge", part=""):
    return lambda tenant, path: tenant.mighty.patch(f"{path}{part}", body, kind=kind)


def deleted(**how):
    return lambda tenant, path: tenant.mighty.delete(path, **how)


def more_gpus(tenant, path):
    """A suspended Job's resources may be changed: the plan would be for fewer than it then asks."""
    limits = {"limits": {names.GPU: "8"}, "requests": {names.GPU: "8"}}
    more = {"containers": [{"name": "main", "image": "busybox", "resources": limits}]}
    return tenant.mighty.patch(path, {"spec": {"template": {"spec": more}}})
