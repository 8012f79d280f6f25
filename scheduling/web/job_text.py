"""A new job as text: YAML that is made of the form and fills it in, and the same as a call."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.forms import ModelChoiceField
from django.utils.translation import gettext as _

from scheduling.reports.spec import as_yaml
from scheduling.services.feeding import RUN_SECONDS
from scheduling.web.forms import HOUR, SHARE, JobForm
from topology.layouts.documents import read_document
from topology.layouts.faults import RefusedError

LONGEST = 64_000  # characters
Words = dict[str, Any]


class BadText(ValueError):
    """What is wrong with a text, for the person who wrote it."""


def spec_of_form(form: JobForm) -> Words:
    """What the form says, named as the API names it; what makes no sense yet is left out."""
    said = {name: form[name].value() for name in form.fields}
    walltime = _number(said["max_hours"], _seconds)
    found = {
        "tenant": said["tenant"],
        "cluster": said["cluster"],
        "name": said["name"],
        "members": _number(said["members"], int),
        **_devices(_number(said["gpus_per_member"], int), said.get("device")),
        **_times(_number(said["tasks"], int), _number(said["at_once"], int)),
        "gpu": _model(form, said["flavor"]),
        "walltime_seconds": walltime,
        "priority": _named(form.fields["priority"], said["priority"]),
        "image": said["image"],
        "command": _command(said["command"]),
        "environment": _pairs(said["environment"]),
        "annotations": _annotations(said.get("run_seconds")),
    }
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def yaml_of(form: JobForm) -> str:
    return as_yaml(spec_of_form(form))


def curl_of(form: JobForm, *, address: str) -> str:
    """The call that submits the same. address: of the API."""
    said = spec_of_form(form)
    body = json.dumps(said, indent=2, ensure_ascii=False)
    kind = "arrays" if "tasks" in said else "jobs"
    return (
        f"curl {address}/{kind} \\\n"
        '  -H "Authorization: Bearer $MUSTER_TOKEN" \\\n'
        '  -H "Content-Type: application/json" \\\n'
        f"  -d {shlex.quote(body)}"
    )


def values_of(text: str, form: JobForm) -> Words:
    """What the form's fields hold to say the same as `text`. BadText where they cannot."""
    said = _parsed(text)
    unknown = sorted(said.keys() - _READERS.keys())
    if unknown:
        raise BadText(
            _("The form has no field for: %(names)s. Submit this by the API instead.")
            % {"names": ", ".join(unknown)}
        )
    values: Words = {}
    for name, value in said.items():
        try:
            values |= _READERS[name](value, form)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            words = _("This says nothing that is understood: %(name)s.")
            raise BadText(words % {"name": name}) from error
    return values


def _parsed(text: str) -> Words:
    if len(text) > LONGEST:
        raise BadText(_("This is too long for a job."))
    try:
        said = read_document(text)
    except RefusedError as error:
        where = error.problem.values
        raise BadText(_("This is no YAML: look at line %(line)d.") % where) from error
    if not isinstance(said, dict):
        raise BadText(_("Write names and values, as in name: train."))
    return said


def _plain(field: str) -> Callable[[Any, JobForm], Words]:
    def read(value: Any, _form: JobForm) -> Words:
        if isinstance(value, dict | list | bool):
            raise TypeError
        return {field: "" if value is None else str(value)}

    return read


def _devices(count: int | None, device: str | None) -> Words:
    if not device or not count:
        return {"gpus_per_member": count}
    if device == SHARE:
        return {"shares_per_member": count}
    return {"slice_profile": device, "slices_per_member": count}


def _times(tasks: int | None, at_once: int | None) -> Words:
    if tasks is None or tasks == 1:
        return {}
    return {"tasks": tasks, "at_once": at_once}


def _read_profile(value: Any, form: JobForm) -> Words:
    return {_offered("device", form): str(value)}


def _read_shares(value: Any, form: JobForm) -> Words:
    return {_offered("device", form): SHARE, "gpus_per_member": str(value)}


def _offered(field: str, form: JobForm) -> str:
    """The field of that name. KeyError where nothing is to choose."""
    if field not in form.fields:
        raise KeyError(field)
    return field


def _read_gpu(value: Any, form: JobForm) -> Words:
    model = value["model"]
    if value.keys() - {"model"}:
        raise KeyError
    flavors = form.fields["flavor"].queryset
    found = flavors.filter(name__iexact=str(model)).values_list("pk", flat=True).first()
    return {"flavor": found or str(model)}


def _read_priority(value: Any, form: JobForm) -> Words:
    if not isinstance(value, str):
        raise TypeError
    found = form.fields["priority"].queryset.filter(name=value).values_list("pk", flat=True)
    return {"priority": found.first() or value}


def _read_walltime(value: Any, _form: JobForm) -> Words:
    return {"max_hours": f"{float(value) / HOUR:.6g}"}


def _read_command(value: Any, _form: JobForm) -> Words:
    if isinstance(value, str):
        return {"command": value}
    return {"command": shlex.join(str(word) for word in value)}


def _read_environment(value: Any, _form: JobForm) -> Words:
    lines = [f"{name}={_one_line(text)}" for name, text in value.items()]
    return {"environment": "\n".join(lines)}


def _one_line(value: Any) -> str:
    text = str(value)
    if isinstance(value, dict | list) or "\n" in text:
        raise TypeError
    return text


def _read_annotations(value: Any, _form: JobForm) -> Words:
    if value.keys() - {RUN_SECONDS}:
        raise KeyError
    return {"run_seconds": str(value[RUN_SECONDS])} if value else {}


_READERS: dict[str, Callable[[Any, JobForm], Words]] = {
    "tenant": _plain("tenant"),
    "cluster": _plain("cluster"),
    "name": _plain("name"),
    "members": _plain("members"),
    "gpus_per_member": _plain("gpus_per_member"),
    "slice_profile": _read_profile,
    "slices_per_member": _plain("gpus_per_member"),
    "shares_per_member": _read_shares,
    "tasks": _plain("tasks"),
    "at_once": _plain("at_once"),
    "image": _plain("image"),
    "gpu": _read_gpu,
    "priority": _read_priority,
    "walltime_seconds": _read_walltime,
    "command": _read_command,
    "environment": _read_environment,
    "annotations": _read_annotations,
}


def _number(said: Any, kind: Callable[[Any], Any]) -> Any:
    try:
        return kind(said)
    except (TypeError, ValueError, OverflowError):
        return None


def _seconds(hours: Any) -> int:
    return round(float(hours) * HOUR)


def _named(field: ModelChoiceField, said: Any) -> str | None:
    """The name of the row that a choice holds by its key."""
    key = _number(said, int)
    rows = field.queryset.filter(pk=key) if key is not None else field.queryset.none()
    return rows.values_list("name", flat=True).first()


def _model(form: JobForm, said: Any) -> Words:
    name = _named(form.fields["flavor"], said)
    return {"model": name} if name else {}


def _command(said: Any) -> list[str]:
    try:
        return shlex.split(said or "")
    except ValueError:
        return []


def _pairs(said: Any) -> dict[str, str]:
    return dict(_split(said or ""))


def _split(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and name:
            yield name, value


def _annotations(run_seconds: Any) -> Mapping[str, str]:
    return {RUN_SECONDS: str(run_seconds)} if run_seconds else {}
