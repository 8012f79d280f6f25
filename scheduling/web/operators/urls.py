from django.urls import path

from scheduling.reports.upcoming import BLOCK, WINDOW
from scheduling.web.operators import (
    budgets,
    clusters,
    cohorts,
    helm,
    maintenance,
    namespaces,
    policy,
    priorities,
)

KEPT = {"windows": WINDOW, "blocks": BLOCK}

urlpatterns = [
    path("admin/policies/", policy.policy_page, name="policies"),
    path("admin/policies/restore/", policy.restore, name="policy-restore"),
    path("tenants/<slug:slug>/budget/", budgets.budget, name="budget"),
    path("admin/clusters/", clusters.clusters, name="clusters"),
    path("admin/clusters/connect/", clusters.connect, name="cluster-connect"),
    path("admin/clusters/of/<slug:cluster>/", clusters.cluster_page, name="cluster"),
    path("admin/clusters/of/<slug:cluster>/look/", clusters.look_again, name="cluster-look"),
    path("admin/clusters/of/<slug:cluster>/access/", clusters.access, name="cluster-access"),
    path("admin/clusters/of/<slug:cluster>/renew/", clusters.renew, name="cluster-renew"),
    path("admin/clusters/of/<slug:cluster>/helm/", helm.operator_values, name="operator-values"),
    path(
        "admin/clusters/of/<slug:cluster>/namespaces/<slug:name>/",
        namespaces.namespace,
        name="namespace",
    ),
    path(
        "admin/clusters/of/<slug:cluster>/namespaces/<slug:name>/return/",
        namespaces.give_back,
        name="namespace-return",
    ),
    path("admin/cohorts/", cohorts.cohorts, name="cohorts"),
    path("admin/cohorts/new/", cohorts.new, name="cohort-new"),
    path("admin/cohorts/of/<slug:cohort>/", cohorts.edit, name="cohort"),
    path("admin/cohorts/of/<slug:cohort>/remove/", cohorts.remove, name="cohort-remove"),
    path("admin/cohorts/of/<slug:cohort>/limits/", cohorts.limits, name="cohort-limits"),
    path("tenants/<slug:slug>/cohort/", cohorts.tenant_cohort, name="tenant-cohort"),
    path("tenants/<slug:slug>/limits/", cohorts.tenant_limits, name="tenant-limits"),
    path("admin/priorities/", priorities.priorities, name="priorities"),
    path("admin/priorities/new/", priorities.new, name="priority-new"),
    path("admin/priorities/of/<slug:priority>/", priorities.edit, name="priority"),
    path("admin/priorities/of/<slug:priority>/retire/", priorities.retire, name="priority-retire"),
    path("cluster/maintenance/", maintenance.maintenance, name="maintenance"),
    *(
        path(f"cluster/maintenance/{word}/{rest}", view, {"kind": kind}, name=f"{kind}-{name}")
        for word, kind in KEPT.items()
        for rest, view, name in (
            ("new/", maintenance.new, "new"),
            ("<int:entry>/", maintenance.edit, "edit"),
            ("<int:entry>/cancel/", maintenance.cancel, "cancel"),
        )
    ),
]
