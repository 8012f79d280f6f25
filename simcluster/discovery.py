"""What the API says about itself: versions, groups, resources and a little OpenAPI."""

from simcluster.objects import Obj
from simcluster.resources import RESOURCES, Resource

VERSION = "v1.34.0+simcluster"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_PART_KINDS = {
    "binding": ("Binding", "", "v1", ["create"]),
    "eviction": ("Eviction", "policy", "v1", ["create"]),
    "log": ("Pod", "", "", ["get"]),
    "finalize": ("Namespace", "", "", ["update"]),
}


def document(path: str, *, address: str) -> Obj | None:
    """The discovery document at `path`; None when there is none."""
    found = _documents(address).get(path.rstrip("/"))
    return found if found is not None else _openapi(path)


def _documents(address: str) -> dict[str, Obj]:
    served = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    groups = {r.group for r in RESOURCES if r.group}
    documents: dict[str, Obj] = {
        "/version": _version(),
        "/api": {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": served,
        },
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(name) for name in sorted(groups)],
        },
        "/api/v1": _resource_list("", "v1"),
    }
    for group in sorted(groups):
        documents[f"/apis/{group}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}
        documents[f"/apis/{group}/v1"] = _resource_list(group, "v1")
    return documents


def _version() -> Obj:
    return {
        "major": "1",
        "minor": "34",
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def _group(name: str) -> Obj:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resource_list(group: str, version: str) -> Obj:
    entries: list[Obj] = []
    for resource in RESOURCES:
        if (resource.group, resource.version) == (group, version):
            entries.append(_entry(resource))
            entries += [_part_entry(resource, part) for part in resource.subresources]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": entries,
    }


def _entry(resource: Resource) -> Obj:
    entry = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
        "shortNames": list(resource.short),
        "categories": ["all"] if resource.in_all else [],
    }
    return {key: value for key, value in entry.items() if value != []}


def _part_entry(resource: Resource, part: str) -> Obj:
    writes = ["get", "patch", "update"]
    kind, group, version, verbs = _PART_KINDS.get(part, (resource.kind, "", "", writes))
    entry = {
        "name": f"{resource.plural}/{part}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": verbs,
    }
    if group:
        entry |= {"group": group, "version": version}
    return entry


def _openapi(path: str) -> Obj | None:
    """Just enough OpenAPI v3 for kubectl to leave the checking of fields to the server."""
    versions = {(r.group, r.version) for r in RESOURCES}
    paths = {(f"apis/{g}/{v}" if g else f"api/{v}"): (g, v) for g, v in sorted(versions)}
    if path == "/openapi/v3":
        return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}"} for name in paths}}
    group_version = paths.get(path.removeprefix("/openapi/v3/"))
    if group_version is None or not path.startswith("/openapi/v3/"):
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "simcluster", "version": VERSION},
        "paths": {
            _path_of(resource): {"patch": _patch_operation(resource)}
            for resource in RESOURCES
            if (resource.group, resource.version) == group_version
        },
        "components": {"schemas": {}},
    }


def _path_of(resource: Resource) -> str:
    base = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    inside = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"{base}{inside}/{resource.plural}/{{name}}"


def _patch_operation(resource: Resource) -> Obj:
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    parameters = [{"name": n, "in": "query", "schema": {"type": "string"}} for n in names]
    kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    return {
        "operationId": f"patch{resource.kind}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind,
    }
