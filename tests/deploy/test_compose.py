"""compose.yaml against what it stands for: the settings, and the same processes in a cluster."""

import re

import pytest
import yaml

from portal.settings.base import env
from tests.deploy.dockerfile import ROOT
from tests.deploy.manifests import programs

TEXT = (ROOT / "deploy" / "compose.yaml").read_text()
COMPOSE = yaml.safe_load(TEXT)
OURS = {name: it for name, it in COMPOSE["services"].items() if it["image"].startswith("muster:")}
NOT_READ_BY_US = {"DJANGO_SETTINGS_MODULE"}


def test_every_variable_is_one_that_the_settings_read():
    said = {name for service in OURS.values() for name in service["environment"]}

    assert said - NOT_READ_BY_US - set(env.scheme) == set()
    assert {"MUSTER_SECRET_KEY", "DATABASE_URL", "REDIS_URL", "MUSTER_ALLOWED_HOSTS"} <= said


@pytest.mark.parametrize("name", OURS)
def test_each_process_is_started_as_in_a_cluster(name):
    [container] = programs()[name]["containers"]

    assert OURS[name]["command"] == container["command"]
    assert OURS[name]["image"] == container["image"]


def test_all_processes_of_a_cluster_are_there_but_the_agent():
    assert set(programs()) - set(OURS) == {"agent"}


@pytest.mark.parametrize("name", OURS)
def test_each_process_has_nothing_that_it_does_not_need(name):
    service = OURS[name]

    assert (service["read_only"], service["cap_drop"], service["user"]) == (
        True,
        ["ALL"],
        "10001:10001",
    )
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in service


def test_only_what_ends_tls_is_reached_from_outside():
    assert [name for name, it in COMPOSE["services"].items() if "ports" in it] == ["proxy"]


def test_no_secret_has_a_value_and_each_is_said_to_be_missing():
    secrets = re.findall(r"\$\{(MUSTER_SECRET_KEY|MUSTER_DATABASE_PASSWORD)([^}]*)\}", TEXT)

    assert {rest for _name, rest in secrets} == {":?is missing in .env"}
    assert len(secrets) == 3


def test_what_is_asked_for_is_what_the_head_says():
    asked = set(re.findall(r"\$\{(MUSTER_[A-Z_]+)", TEXT))
    head = TEXT.partition("name: muster")[0]

    assert set(re.findall(r"#     (MUSTER_[A-Z_]+)", head)) == asked


def test_what_is_depended_on_is_there_and_says_when_it_is_ready():
    services = COMPOSE["services"]
    needed = {
        (wanted, how["condition"])
        for service in OURS.values()
        for wanted, how in service["depends_on"].items()
    }

    assert needed == {
        ("database", "service_healthy"),
        ("broker", "service_healthy"),
        ("migrations", "service_completed_successfully"),
    }
    assert all("healthcheck" in services[wanted] for wanted in ("database", "broker"))
