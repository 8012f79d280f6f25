"""Who may do what: from manifests, and from the calls that were made."""

import json
import re
from dataclasses import replace

from topology.kube.client import KubernetesWire

NAMESPACE = "muster"
MERGE = {"media_type": "application/merge-patch+json"}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PATH = re.compile(
    r"/apis?/((?P<group>[^/]*\.[^/]*|batch|apps|policy)/)?v[^/]+"
    r"(/namespaces/[^/]+(?=/[^/]+))?/(?P<resource>[^/]+)(/(?P<name>[^/]+)(/(?P<part>[^/]+))?)?$"
)


def granted(found, account, *, but=()):
    """What an account's roles, save those named in `but`, let it do: (verb, group/resource)."""
    roles = {
        (obj["kind"], obj["metadata"]["name"]): obj["rules"]
        for obj in found
        if obj["kind"] in {"ClusterRole", "Role"}
    }
    bound = [
        (obj["roleRef"]["kind"], obj["roleRef"]["name"])
        for obj in found
        if obj["kind"] in {"ClusterRoleBinding", "RoleBinding"}
        and obj["roleRef"]["name"] not in but
        and account in [subject["name"] for subject in obj["subjects"]]
    ]
    return {
        (verb, f"{group}/{resource}")
        for role in bound
        for rule in roles[role]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(request):
    """What a call needs: one that applies may have to make the object, too."""
    path = _PATH.match(request.path)
    if path is None or path["group"] == "authorization.k8s.io":
        return set()  # what everybody may ask: the version, his own rights
    part = f"/{path['part']}" if path["part"] else ""
    resource = f"{path['group'] or ''}/{path['resource']}{part}"
    if request.method != "GET":
        verbs = {_VERBS[request.method]}
        verbs |= {"create"} if request.kind.startswith("application/apply") else set()
    elif path["name"]:
        verbs = {"get"}
    else:
        verbs = {"watch" if request.query.get("watch") else "list"}
    return {(verb, resource) for verb in verbs}


class Noting(KubernetesWire):
    """A wire that keeps what was needed for the calls that went over it."""

    def __init__(self, kubeconfig_path):
        super().__init__(str(kubeconfig_path))
        self.needed = set()

    def ask(self, request):
        self.needed |= asked(request)
        return super().ask(request)

    def follow(self, request, *, quiet_seconds):
        self.needed |= asked(request)
        return super().follow(request, quiet_seconds=quiet_seconds)


class Account:
    """A ServiceAccount of the installation: its API, and a kubeconfig for our own client."""

    def __init__(self, plane, name, *, pod=None):
        """pod: the one that its token is bound to."""
        self.name = name
        bound = {}
        if pod is not None:
            of = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"]}
            bound = {"boundObjectRef": {**of, "uid": pod["metadata"]["uid"]}}
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token"
        made = plane.api.create(path, {"spec": {"expirationSeconds": 7200, **bound}})
        self.api = replace(plane.api, token=made["status"]["token"])
        self.kubeconfig = plane.folder / f"{name}.account.kubeconfig"
        known = json.loads(plane.kubeconfig().read_text())
        known["users"][0]["user"] = {"token": self.api.token}
        self.kubeconfig.write_text(json.dumps(known))

    @property
    def user(self):
        return f"system:serviceaccount:{NAMESPACE}:{self.name}"


class Installation:
    """What was applied, and the accounts that are there."""

    def __init__(self, plane, found):
        self.plane = plane
        self.found = found
        self.worker = Account(plane, "muster-worker")
        self.watcher = Account(plane, "muster-watcher")
        self.web = Account(plane, "muster-web")


def how(method):
    """What a call of our API says besides its body."""
    return MERGE if method == "PATCH" else {}
