"""What docs/install.md has an operator do, as far as it can be done without a cluster."""

import re

import pytest
from django.core.management import call_command
from django.db.migrations.loader import MigrationLoader

from tenants.models import User
from tests.deploy.dockerfile import ROOT

TEXT = (ROOT / "docs" / "install.md").read_text()


def command(name):
    """The words after `manage.py NAME` where the page has them first."""
    return re.search(rf"manage\.py {name} ([^\n]*)", TEXT)[1].split()


@pytest.mark.django_db
def test_the_first_operator_signs_in_by_a_link_and_reaches_the_back_office(client, capsys):
    call_command("createsuperuser", *command("createsuperuser"))
    call_command("sign_in_link", *command("sign_in_link"))
    link = re.search(r"https?://[^/]+(/\S+)", capsys.readouterr().out)[1]

    client.get(link)
    ada = User.objects.get()
    page = client.get(f"/backoffice/tenants/user/{ada.pk}/change/")

    assert page.status_code == 200
    assert 'name="is_operator"' in page.text


def test_every_migration_can_be_taken_back():
    apps = {"core", "topology", "tenants", "scheduling"}
    ours = {k: m for k, m in MigrationLoader(None).disk_migrations.items() if k[0] in apps}

    final = [
        (key, operation)
        for key, migration in ours.items()
        for operation in migration.operations
        if not operation.reversible
    ]
    assert final == []
    assert {app for app, _name in ours} == apps


def test_what_the_page_names_is_there():
    paths = re.findall(r"deploy/[a-z0-9./-]*[a-z0-9]", TEXT)
    named = {path for path in paths if path != "deploy/kubeconfigs" and "muster-" not in path}

    assert [path for path in named if not (ROOT / path).exists()] == []
    overlays = {path.name for path in (ROOT / "deploy/kustomize/overlays").iterdir()}
    table = TEXT[TEXT.index("| overlay |") : TEXT.index("## The first operator")]
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", table, re.MULTILINE)) == overlays
