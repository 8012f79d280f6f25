from django.utils.translation import gettext as _

from portal.core.errors import Refused
from scheduling.models import SavedView
from tenants.models import User

MOST = 20


def save_view(user: User, *, name: str, query: str) -> SavedView:
    """Keep a view of `user` under a name; one of that name shows this from now on.

    Refused without a name, and beyond the twentieth.
    """
    name = name.strip()[:40]
    if not name:
        raise Refused(_("Give the view a name."), field="name")
    others = SavedView.objects.filter(user=user).exclude(name=name)
    if others.count() >= MOST:
        raise Refused(_("You have %d views already: remove one first.") % MOST, field="name")
    view, _made = SavedView.objects.update_or_create(
        user=user, name=name, defaults={"query": query[:500]}
    )
    return view


def remove_view(view: SavedView) -> None:
    view.delete()
