import pytest
from rest_framework.test import APIClient

from tests.factories import ClusterFactory, MembershipFactory, NodeFactory, TenantFactory


@pytest.fixture
def member(db):
    """A researcher of the tenant `vision`."""
    return MembershipFactory(user__username="ada", tenant__slug="vision")


@pytest.fixture
def api(member):
    """What the researcher asks with, in a session."""
    client = APIClient()
    client.force_login(member.user)
    return client


@pytest.fixture
def stranger(db):
    """Somebody signed in, of another tenant."""
    membership = MembershipFactory(tenant=TenantFactory(slug="speech"))
    client = APIClient()
    client.force_login(membership.user)
    return client


@pytest.fixture
def cluster(db):
    """The one cluster, with two nodes of eight GPUs: an H100-SXM and an L40S."""
    cluster = ClusterFactory(slug="main")
    for name, model in (("h100-sxm", "NVIDIA-H100-80GB-HBM3"), ("l40s", "NVIDIA-L40S")):
        NodeFactory(
            cluster=cluster,
            name=f"node-{name}",
            flavor__name=name,
            flavor__gpu_model=model,
            gpus=8,
        )
    return cluster
