"""Ways to meddle with the PodGroups that hold gangs together, for test_ways_to_a_gpu to try."""

from tests.kube.tenant import manifest
from topology.kube import podgroups
from topology.kube.values import PodGroupSpec

GROUPS = f"{podgroups.API}/{podgroups.PLURAL}"
ALONE = {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
_OURS = ("muster-pod-groups", "pod-groups-are-musters")


def _group(name, least):
    policy = {"gang": {"minCount": least}}
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}


def _join(tenant):
    """A pod without GPUs, which would be counted as one of the gang's."""
    group = {"podGroupName": podgroups.name_of("j-000001")}
    return tenant.mighty.ask("POST", tenant.pods, manifest(schedulingGroup=group))


def _make(tenant):
    """Before Muster makes its own, which it could then not be."""
    body = _group(podgroups.name_of("j-000001"), 500)
    return tenant.mighty.ask("POST", tenant.group(GROUPS), body)


def _to_a_gangs(act):
    def attempt(tenant):
        gang = tenant.gang(members=2, in_pod_group=True)
        owners = {gang.key.name: tenant.gateway.ensure_gang(gang)}
        spec = PodGroupSpec(
            namespace=gang.namespace, job=gang.job, attempt=1, least=2, owners=owners
        )
        tenant.gateway.ensure_pod_group(spec)
        return act(tenant, podgroups.path_of(gang.namespace, gang.job))

    return attempt, _OURS


WAYS = {
    "counts a pod of his own among a gang's": (_join, ("muster-pods", "no-group-of-a-gang")),
    "makes a gang's group before Muster does": (_make, _OURS),
    "has a gang bound one by one": _to_a_gangs(
        lambda tenant, path: tenant.mighty.patch(path, ALONE, kind="merge")
    ),
    "takes a gang's group away": _to_a_gangs(lambda tenant, path: tenant.mighty.delete(path)),
}
