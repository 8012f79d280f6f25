from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from topology.states import Mishap, RolloutState, Step


class Layout(models.Model):
    """A wanted way to cut up and share the GPUs of nodes that are alike; its versions say how."""

    cluster = models.ForeignKey(
        "topology.Cluster", on_delete=models.CASCADE, related_name="layouts"
    )
    slug = models.SlugField(max_length=40)
    name = models.CharField(max_length=80)
    gpu_model = models.CharField(max_length=40)  # key in the catalogue
    gpu_count = models.PositiveSmallIntegerField()  # of each node

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "slug"], name="layout_slug_once"),
            models.CheckConstraint(condition=Q(gpu_count__gte=1), name="layout_of_some_gpu"),
        ]

    def __str__(self) -> str:
        return self.name


class LayoutVersion(models.Model):
    """What a layout asked for from one save to the next. It is never changed.

    cuts: for each GPU the number of instances by profile, or null where MIG is off.
    """

    layout = models.ForeignKey(Layout, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    cuts = models.JSONField()
    strategy = models.CharField(max_length=8)  # topology.layouts.node.MigStrategy
    sharing = models.CharField(max_length=16, blank=True)  # a SharingMode; empty for none
    replicas = models.PositiveSmallIntegerField(default=1)
    rename = models.BooleanField(default=False)
    refuse_many = models.BooleanField(default=False)
    note = models.CharField(max_length=200, blank=True)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["layout", "number"], name="layout_version_once"),
            models.CheckConstraint(condition=Q(replicas__gte=1), name="layout_replicas_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.layout} {self.number}"

    @property
    def config_name(self) -> str:
        """Of its configurations in the cluster, and the value of the labels that name them."""
        return f"muster-{self.layout.slug}-v{self.number}"


class Rollout(models.Model):
    """A version of a layout brought to nodes, wave by wave. Times are the cluster's clock."""

    cluster = models.ForeignKey(
        "topology.Cluster", on_delete=models.CASCADE, related_name="rollouts"
    )
    version = models.ForeignKey(LayoutVersion, on_delete=models.PROTECT, related_name="rollouts")
    state = models.CharField(
        max_length=12, choices=RolloutState.choices, default=RolloutState.RUNNING
    )
    max_unavailable = models.PositiveSmallIntegerField(default=1)  # nodes at a time
    evict_after_seconds = models.PositiveIntegerField(null=True, blank=True)  # null: wait for ends
    node_limit_seconds = models.PositiveIntegerField(default=900)  # once the node is empty
    begun_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    begun_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(max_unavailable__gte=1), name="rollout_changes_some_node"
            ),
            models.CheckConstraint(
                condition=Q(node_limit_seconds__gte=1), name="rollout_gives_a_node_time"
            ),
            models.CheckConstraint(
                condition=Q(state__in=RolloutState.values), name="rollout_state_known"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("begun_at")),
                name="rollout_ends_after_it_begins",
            ),
        ]

    def __str__(self) -> str:
        return f"rollout {self.pk} of {self.version}"


class NodeChange(models.Model):
    """The change of one node in a rollout. Times are the cluster's clock.

    before: what was confirmed of the node before anything was touched; empty until then.
    is_backward: on its way back to that. is_claimed: no other rollout may touch the node.
    numbers: what belongs to `mishap`, for the sentence that says it.
    """

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="changes")
    node = models.ForeignKey("topology.Node", on_delete=models.PROTECT, related_name="changes")
    wave = models.PositiveSmallIntegerField()  # from 1
    step = models.CharField(max_length=12, choices=Step.choices, default=Step.WAITING)
    is_backward = models.BooleanField(default=False)
    is_claimed = models.BooleanField(default=True)
    before = models.JSONField(default=dict, blank=True)
    since = models.DateTimeField()  # in this step
    working_since = models.DateTimeField(null=True, blank=True)  # emptied, and being changed
    mishap = models.CharField(max_length=16, choices=Mishap.choices, blank=True)
    numbers = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rollout", "node"], name="node_once_in_a_rollout"),
            models.UniqueConstraint(
                fields=["node"], condition=Q(is_claimed=True), name="node_in_one_open_rollout"
            ),
            models.CheckConstraint(condition=Q(step__in=Step.values), name="change_step_known"),
        ]

    def __str__(self) -> str:
        return f"{self.node_id} in rollout {self.rollout_id}"


class RolloutEvent(models.Model):
    """One move of a rollout, or of a node in it: the audit line written with the move itself."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="events")
    change = models.ForeignKey(
        NodeChange, null=True, blank=True, on_delete=models.CASCADE, related_name="events"
    )
    was = models.CharField(max_length=12, blank=True)
    became = models.CharField(max_length=12)
    why = models.CharField(max_length=300, blank=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    at = models.DateTimeField()  # cluster clock

    class Meta:
        indexes = [models.Index(fields=["rollout", "-id"], name="rollout_events_newest")]

    def __str__(self) -> str:
        return f"{self.rollout_id}: {self.was or 'new'} → {self.became}"
