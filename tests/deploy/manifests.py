"""What the manifests say, read as they are written by tools/manifests."""

import yaml

from tests.deploy.dockerfile import ROOT

BASE = ROOT / "deploy" / "kustomize" / "base" / "chart"
SECRETS = {
    "secret-key": "k" * 30 + "abcdefghijklmnopqrstuvwxyz0123456789",
    "database-url": "postgresql://muster:secret@database/muster",
    "redis-url": "redis://broker:6379/0",
}
POD_IP = "10.1.2.3"


def programs():
    """The one pod template of each component that has any."""
    found = {}
    for path in sorted(BASE.glob("*.yaml")):
        for obj in yaml.safe_load_all(path.read_text()):
            if obj and "template" in obj.get("spec", {}):
                found[path.stem] = obj["spec"]["template"]["spec"]
    return found


def environment():
    """The variables of the web's container, as the kubelet makes them of the manifests."""
    configuration = yaml.safe_load((BASE / "configuration.yaml").read_text())["data"]
    told = dict(configuration)
    for said in programs()["web"]["containers"][0]["env"]:
        text = said.get("value") or _value_of(said["valueFrom"], configuration)
        for name, value in told.items():
            text = text.replace(f"$({name})", value)
        told[said["name"]] = text
    return told


def _value_of(source, configuration):
    if "fieldRef" in source:
        return POD_IP
    if "secretKeyRef" in source:
        return SECRETS[source["secretKeyRef"]["key"]]
    return configuration[source["configMapKeyRef"]["key"]]
