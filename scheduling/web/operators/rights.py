import yaml

from topology.kube.rights import access_objects

ACCOUNT = "muster/muster"  # that pages speak of; `manage.py cluster_access` takes any other


def role_text(*, manages: bool) -> str:
    """The role of Muster's account as YAML, to be applied by an administrator of the cluster."""
    return yaml.safe_dump_all(access_objects(ACCOUNT, manages=manages), sort_keys=False, width=100)
