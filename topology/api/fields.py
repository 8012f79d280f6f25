from django.db.models import QuerySet
from django.utils.translation import gettext as _
from rest_framework import serializers

from portal.core.api.fields import NamedField
from topology.models import Cluster


class ClusterField(NamedField):
    def rows(self) -> QuerySet[Cluster]:
        return Cluster.objects.all()


def only_cluster() -> Cluster:
    """The cluster that a body may leave unnamed. ValidationError unless there is exactly one."""
    clusters = list(Cluster.objects.all()[:2])
    if len(clusters) != 1:
        message = _("Name the cluster: there is not exactly one.")
        raise serializers.ValidationError({"cluster": message}, code="required")
    return clusters[0]
