"""What of a flavor is promised to whom, day by day: read once, then asked in memory."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from django.db.models import Count, F, Max, Q, Sum

from tenants.models import Quota, QuotaGrant
from tenants.states import PROMISED
from topology.models import Gpu, ResourceFlavor

A_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """GPUs guaranteed to one tenant by one request, from `first` to `last`, both included."""

    request_id: int
    tenant: str
    gpus: int
    first: date
    last: date

    def holds_on(self, day: date) -> bool:
        return self.first <= day <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """installed: healthy GPUs of present nodes. standing: guaranteed without an end."""

    flavor: ResourceFlavor
    installed: int
    standing: int
    promises: tuple[Promise, ...]

    def promised_on(self, day: date) -> int:
        """GPUs that are guaranteed to somebody on that day."""
        return self.standing + sum(each.gpus for each in self.promises if each.holds_on(day))

    def free_on(self, day: date) -> int:
        """GPUs that nobody is guaranteed on that day; negative where more is promised than is."""
        return self.installed - self.promised_on(day)

    def tightest(self, first: date, last: date) -> date:
        """The earliest day of [first, last] on which the fewest GPUs are free."""
        return max(self.profile(first, last), key=lambda row: row[1])[0]

    def profile(self, first: date, last: date) -> list[tuple[date, int]]:
        """(day, GPUs guaranteed from then on): `first`, and each day up to `last` with a change."""
        changes: Counter[date] = Counter()
        for each in self.promises:
            changes[each.first] += each.gpus
            changes[each.last + A_DAY] -= each.gpus
        level = self.standing + sum(n for day, n in changes.items() if day <= first)
        rows = [(first, level)]
        for day in sorted(day for day in changes if first < day <= last):
            level += changes[day]
            rows.append((day, level))
        return rows


def read_calendars(
    flavors: list[ResourceFlavor], *, without: int | None = None
) -> dict[int, Calendar]:
    """The calendar of each flavor, by its key. Three queries for any number of them.

    without: a request whose grant is left out, as another is to replace it.
    """
    installed = dict(
        Gpu.objects.filter(_serving(flavors)).values_list("node__flavor_id").annotate(n=Count("pk"))
    )
    standing = dict(
        Quota.objects.filter(flavor__in=flavors)
        .values_list("flavor_id")
        .annotate(n=Sum(F("nominal") - F("granted")))
    )
    promises: dict[int, list[Promise]] = {flavor.pk: [] for flavor in flavors}
    for flavor_id, promise in _promises(flavors, without=without):
        promises[flavor_id].append(promise)
    return {
        flavor.pk: Calendar(
            flavor=flavor,
            installed=installed.get(flavor.pk, 0),
            standing=standing.get(flavor.pk, 0),
            promises=tuple(promises[flavor.pk]),
        )
        for flavor in flavors
    }


def read_calendar(flavor: ResourceFlavor, *, without: int | None = None) -> Calendar:
    """As `read_calendars`, of one flavor."""
    return read_calendars([flavor], without=without)[flavor.pk]


def _serving(flavors: list[ResourceFlavor]) -> Q:
    """A cordoned node counts: what is under repair this week is promised for next month."""
    return Q(node__flavor__in=flavors, node__gone_at__isnull=True, is_healthy=True)


def _promises(
    flavors: list[ResourceFlavor], *, without: int | None
) -> Iterator[tuple[int, Promise]]:
    """A grant that another replaces is promised up to the day before that one begins."""
    taken_over = Q(request__replacements__state__in=PROMISED)
    grants = (
        QuotaGrant.objects.filter(flavor__in=flavors, request__state__in=PROMISED)
        .exclude(request_id=without)
        .annotate(next_on=Max("request__replacements__grant__starts_on", filter=taken_over))
        .select_related("request__tenant")
        .order_by("starts_on", "pk")
    )
    for grant in grants:
        last = grant.ends_on if grant.next_on is None else min(grant.ends_on, grant.next_on - A_DAY)
        if last >= grant.starts_on:
            yield (
                grant.flavor_id,
                Promise(
                    request_id=grant.request_id,
                    tenant=grant.request.tenant.slug,
                    gpus=grant.gpus,
                    first=grant.starts_on,
                    last=last,
                ),
            )
