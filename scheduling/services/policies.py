from dataclasses import fields
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, NotFound, Refused
from scheduling.engine import policy as engine
from scheduling.engine.codec import from_plain, to_plain
from scheduling.models import Policy
from tenants.access import require_operator
from tenants.models import User
from topology.models import Cluster
from topology.services.cycle_request import ask_for_cycle

DEFAULT = engine.Policy(order=engine.Order.EXPANSION)
_MAY_BE_NONE = {"default_walltime", "across"}


def policy_in_force(cluster: Cluster) -> engine.Policy:
    """The knobs that `cluster` is planned with; the defaults where nobody set any. One query."""
    row = newest_policy(cluster)
    return DEFAULT if row is None else from_plain(row.values, engine.Policy)


def newest_policy(cluster: Cluster) -> Policy | None:
    """The row in force, None while the defaults are."""
    return Policy.objects.filter(cluster=cluster).order_by("-number").first()


@transaction.atomic
def set_policy(
    cluster: Cluster, changes: dict[str, Any], *, by: User, seen: int, note: str = ""
) -> Policy:
    """The policy in force with `changes`, as a new row that the next cycle plans with.

    seen: number of the row that the operator looked at, 0 for the defaults. Raises NotAllowed,
    Refused with the knob as its field, Conflict when another row has come meanwhile.
    """
    require_operator(by)
    before = to_plain(policy_in_force(cluster))
    values = before | {name: _checked(name, value) for name, value in changes.items()}
    try:
        with transaction.atomic():
            row = Policy.objects.create(
                cluster=cluster, number=_next(cluster, seen), values=values, note=note, by=by
            )
    except IntegrityError as error:
        raise _moved() from error
    audit.record("set_policy", row, by=by, before=before, after=values, reason=note)
    ask_for_cycle(cluster.pk)
    return row


@transaction.atomic
def restore_policy(cluster: Cluster, number: int, *, by: User, seen: int) -> Policy:
    """An earlier policy of `cluster` once more, as a new row; number 0 is the defaults.

    seen: as in set_policy. Raises NotAllowed, NotFound for a number that there never was, Refused
    where it would change nothing, Conflict when another row has come meanwhile.
    """
    require_operator(by)
    policy = policy_of(cluster, number)
    if policy is None:
        raise NotFound(_("There is no such policy of this cluster."))
    if policy == policy_in_force(cluster):
        raise Refused(_("These very knobs are in force."))
    note = _("Back to policy %(number)d.") if number else _("Back to the defaults.")
    return set_policy(cluster, to_plain(policy), by=by, seen=seen, note=note % {"number": number})


def policy_of(cluster: Cluster, number: int) -> engine.Policy | None:
    """The knobs of the policy of that number, the defaults for 0; None where there is none."""
    if not number:
        return DEFAULT
    row = Policy.objects.filter(cluster=cluster, number=number).first()
    return None if row is None else from_plain(row.values, engine.Policy)


def _next(cluster: Cluster, seen: int) -> int:
    row = newest_policy(cluster)
    if seen != (row.number if row else 0):
        raise _moved()
    return seen + 1


def _moved() -> Conflict:
    return Conflict(_("Somebody else changed the policy in the meantime; look at theirs first."))


def _checked(name: str, value: Any) -> Any:
    """`value` as the policy keeps it. Refused for an unknown knob or a value it cannot have."""
    if name not in {field.name for field in fields(engine.Policy)}:
        raise Refused(_("There is no knob named %s.") % name[:40], field=name)
    if value is None and name in _MAY_BE_NONE:
        return None
    kind = type(getattr(DEFAULT, name)) if name not in _MAY_BE_NONE else int
    if kind is bool and not isinstance(value, bool):
        raise Refused(_("%s is on or off: true or false.") % name, field=name)
    try:
        kept = kind(value)
    except (TypeError, ValueError) as error:
        raise Refused(_("%s cannot be that.") % name, field=name) from error
    if isinstance(kept, int) and (kept != value or kept < 0) and name != "across":
        raise Refused(_("%s must be a whole number, 0 or more.") % name, field=name)
    return to_plain(kept)
