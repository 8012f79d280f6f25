from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from portal.core import clock
from portal.core.api.doors import Listing, Reading
from portal.core.api.idempotency import IDEMPOTENCY_KEY, once
from scheduling.api.serializers import ArraySerializer
from scheduling.api.submission import SubmitArraySerializer
from scheduling.models import JobArray
from scheduling.reports.search import arrays_seen_by
from scheduling.services.arrays import cancel_array, submit_array


class ArrayDoor(Listing, Reading):
    """Arrays of the caller's tenants."""

    scope = "jobs"
    serializer_class = ArraySerializer
    default_order = "-submitted_at"
    lookup_field = "public_id"
    lookup_url_kwarg = "array_id"
    lookup_value_regex = "a-[0-9a-z]{1,10}"

    def get_queryset(self) -> QuerySet[JobArray]:
        return arrays_seen_by(self.request.user)

    @extend_schema(
        parameters=[IDEMPOTENCY_KEY],
        request=SubmitArraySerializer,
        responses={201: ArraySerializer},
    )
    def create(self, request: Request) -> Response:
        """Put one job in its tenant's queue so many times, each told its number."""
        return once(request, lambda: self._submit(request))

    def _submit(self, request: Request) -> Response:
        form = SubmitArraySerializer(data=request.data, context=self.get_serializer_context())
        form.is_valid(raise_exception=True)
        tenant, asked = form.to_array()
        at = clock.now(asked.job.cluster)
        array = submit_array(asked, tenant=tenant, by=request.user, at=at)
        data = self.get_serializer(self.get_queryset().get(pk=array.pk)).data
        return self.created(data, self.reverse_action("detail", args=[array.public_id]))

    @extend_schema(request=None, responses=ArraySerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, **kwargs: Any) -> Response:
        """End all of its tasks that have not ended."""
        cancel_array(self.thing, by=request.user, at=clock.now(self.thing.cluster))
        return self.one(self.get_object())
