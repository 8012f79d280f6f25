"""Each model has a factory, and a scope: what a person may see of it, or why everybody may."""

import pytest
from django.apps import apps

from tenants.querysets import TenantScopedQuerySet
from tests import factories

APPS = ("core", "tenants", "topology", "scheduling")

# Models that `visible_to` does not guard, each with its reason.
UNSCOPED = {
    "core.AuditEvent": "shown by reports, each to those who may see its object",
    "core.IdempotencyKey": "looked up by its own user alone",
    "tenants.User": "people are named to each other; their rows open to themselves and operators",
    "tenants.Announcement": "everybody shall read it",
    "tenants.Cohort": "the tree of tenants is no secret",
    "tenants.PriorityClass": "everybody may know what may be asked for",
    "tenants.MailTimes": "read and written by its own user alone",
    "tenants.Notification": "shown to its own user alone, by `shown_to`",
    "tenants.NotificationChoice": "as MailTimes",
    "tenants.Webhook": "listed through its own user, or its tenant for leads",
    "tenants.WebhookNotice": "never listed; read by what sends it alone",
    "tenants.ApiToken": "listed through its own user alone",
    "tenants.SignInLink": "never listed; found by its digest alone",
    "tenants.StarterRule": "everybody may know what is approved at once",
    "topology.Cluster": "everybody who is signed in may see what there is",
    "topology.ClusterCheck": "of the whole cluster: pages for operators show it",
    "topology.Fabric": "as Cluster",
    "topology.Gpu": "as Cluster",
    "topology.MigInstance": "as Cluster",
    "topology.Node": "as Cluster",
    "topology.NvlinkDomain": "as Cluster",
    "topology.Rack": "as Cluster",
    "topology.ResourceFlavor": "as Cluster",
    "topology.Layout": "as Cluster",
    "topology.LayoutVersion": "as Cluster",
    "topology.MaintenanceWindow": "as Cluster",
    "topology.NodeChange": "of the whole cluster: pages for operators show it",
    "topology.Rollout": "as NodeChange",
    "topology.RolloutEvent": "as NodeChange",
    "scheduling.BlockPart": "as CapacityBlock",
    "scheduling.CapacityBlock": "everybody may see what is promised to whom, as they see it taken",
    "scheduling.LayoutRequest": "of the whole cluster: pages for operators show it",
    "scheduling.Cycle": "of the whole cluster: pages for operators show it",
    "scheduling.QueueOrder": "of the whole cluster: reports say whose job stands where",
    "scheduling.SavedView": "shown to its own user alone",
    "scheduling.Policy": "of the whole cluster: pages for operators show it",
}
# Written by one piece of code and read by the same; no test needs one of its own.
WITHOUT_FACTORY = {"core.AuditEvent", "core.IdempotencyKey"}

MODELS = [model for app in APPS for model in apps.get_app_config(app).get_models()]


def meta(thing):
    return thing._meta  # noqa: SLF001 - Django's and factory_boy's public name for it


def label(model):
    return meta(model).label


def rows(model):
    return model._default_manager.all()  # noqa: SLF001 - Django's public name for it


def test_every_model_has_a_factory():
    made = {
        label(meta(factory).model)
        for name, factory in vars(factories).items()
        if name.endswith("Factory")
    }

    assert {label(model) for model in MODELS} - WITHOUT_FACTORY == made


def test_every_model_has_a_scope_or_a_reason():
    scoped = {label(model) for model in MODELS if isinstance(rows(model), TenantScopedQuerySet)}

    assert scoped | set(UNSCOPED) == {label(model) for model in MODELS}
    assert scoped & set(UNSCOPED) == set()


@pytest.mark.parametrize("model", [m for m in MODELS if label(m) not in UNSCOPED], ids=label)
def test_the_scope_of_every_model_leads_to_a_tenant(db, model):
    user = factories.MembershipFactory().user

    visible = rows(model).visible_to(user)

    assert "tenants_membership" in str(visible.query)
    assert not visible.exists() or label(model) in {"tenants.Membership", "tenants.Tenant"}


@pytest.mark.parametrize("model", MODELS, ids=label)
def test_every_constraint_and_index_has_a_name_that_says_its_rule(model):
    names = [rule.name for rule in (*meta(model).constraints, *meta(model).indexes)]

    assert [name for name in names if name.endswith(("_idx", "_uniq"))] == []
