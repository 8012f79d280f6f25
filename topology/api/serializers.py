from typing import Any

from rest_framework import serializers

from topology.models import Gpu, Node


class GpuSerializer(serializers.ModelSerializer[Gpu]):
    """One device. GPUs of one island are joined by NVLink; a `numa` of -1 is not known."""

    is_free = serializers.BooleanField(read_only=True, help_text="No job holds it.")

    class Meta:
        model = Gpu
        fields = (
            "index",
            "uuid",
            "model",
            "memory_mib",
            "island",
            "numa",
            "is_healthy",
            "is_free",
        )
        read_only_fields = fields


class NodeSerializer(serializers.ModelSerializer[Node]):
    """A machine with its devices. Amounts are what jobs may use."""

    cluster = serializers.CharField(source="cluster.slug", read_only=True)
    flavor = serializers.SlugRelatedField[Any](slug_field="name", read_only=True, allow_null=True)
    rack = serializers.SlugRelatedField[Any](slug_field="name", read_only=True, allow_null=True)
    fabric = serializers.SlugRelatedField[Any](slug_field="name", read_only=True, allow_null=True)
    nvlink_domain = serializers.SlugRelatedField[Any](
        slug_field="name", read_only=True, allow_null=True
    )
    is_open = serializers.BooleanField(read_only=True, help_text="It may take new members.")
    gpus = GpuSerializer(many=True, read_only=True)

    class Meta:
        model = Node
        fields = (
            "cluster",
            "name",
            "flavor",
            "rack",
            "fabric",
            "nvlink_domain",
            "cpu_milli",
            "memory_mib",
            "gpu_count",
            "is_ready",
            "is_cordoned",
            "is_open",
            "seen_at",
            "gpus",
        )
        read_only_fields = fields
