from typing import Self

from django.db import models


class NodeQuerySet(models.QuerySet):
    def present(self) -> Self:
        """Still in the cluster."""
        return self.filter(gone_at__isnull=True)

    def largest_gpu_count(self) -> int:
        """The most GPUs that one present node has; 0 without nodes."""
        return self.present().aggregate(most=models.Max("gpu_count"))["most"] or 0

    def gpu_total(self) -> int:
        """The GPUs of all these nodes together."""
        return self.aggregate(total=models.Sum("gpu_count"))["total"] or 0

    def in_name_order(self) -> Self:
        return self.order_by("name", "pk")
