"""Reads YAML as strictly as a file deserves that cuts up somebody's node, and writes it plainly."""

import re
from collections.abc import Hashable, Mapping
from typing import Any, Final, cast

import yaml

from topology.layouts.faults import Fault, Problem, RefusedError

_LONGEST: Final = 1 << 20  # a ConfigMap holds no more
_MOST_BITS: Final = 63
_UNKEPT: Final = re.compile("[\0\ud800-\udfff]")  # NUL, and halves of characters


class _StrictLoader(yaml.SafeLoader):
    """Refuses aliases, and a key that stands twice, where YAML loaders keep the last one.

    Aliases make a text of a page a thing of gigabytes; tags make PyYAML fail in ways of its own.
    Keys are texts as they are written: a configuration named off is not named False.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = cast("Any", self).peek_event()
        problem = _unread(event)
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_whole(self, node: yaml.ScalarNode) -> int:
        number: int = self.construct_yaml_int(node)
        if number.bit_length() > _MOST_BITS:
            problem = "the number is too large"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return number

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: ARG002, FBT001, FBT002 -- as in PyYAML
    ) -> dict[Hashable, Any]:
        found: dict[Hashable, Any] = {}
        for key, value in node.value:
            problem = None
            if not isinstance(key, yaml.ScalarNode):
                problem = "a key is no text"
            elif key.value in found:
                problem = f"the key {key.value} stands twice"
            if problem:
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            found[key.value] = self.construct_object(value, deep=True)
        return found


_StrictLoader.add_constructor("tag:yaml.org,2002:int", _StrictLoader.construct_whole)


def _unread(event: Any) -> str:
    """Why what begins with `event` is not read; empty if it is."""
    if isinstance(event, yaml.AliasEvent):
        return "aliases are not read"
    if getattr(event, "tag", None) is not None:
        return "tags are not read"
    if isinstance(event, yaml.ScalarEvent) and _UNKEPT.search(event.value):
        return "a character that no text can have"
    return ""


def read_document(text: str) -> Any:
    """What a text of one YAML document says. Raises RefusedError with the line."""
    if len(text) > _LONGEST:
        raise _refuse(1, "the text is longer than a ConfigMap can be")
    try:
        return yaml.load(text, _StrictLoader)  # noqa: S506 -- a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _refuse(line, error.problem or "this is no YAML") from error
    except yaml.reader.ReaderError as error:
        raise _refuse(text.count("\n", 0, error.position) + 1, error.reason) from error
    except (ValueError, RecursionError) as error:
        raise _refuse(1, "this is no YAML that can be read") from error


def _refuse(line: int, why: str) -> RefusedError:
    return RefusedError(Problem("", Fault.NOT_YAML, {"line": line, "why": why}))


def config_map_data(document: Any) -> Mapping[str, str] | None:
    """The texts of a ConfigMap by key; None if the document is none."""
    if not isinstance(document, dict) or document.get("kind") != "ConfigMap":
        return None
    data = document.get("data")
    if not isinstance(data, dict) or not all(isinstance(own, str) for own in data.values()):
        raise RefusedError(Problem("data", Fault.NO_MAPPING))
    return {str(key): text for key, text in data.items()}


class _PlainDumper(yaml.SafeDumper):
    """Writes no aliases, and texts of several lines as such."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_PlainDumper.add_representer(str, _text)


def write_document(document: Mapping[str, Any]) -> str:
    """The document as YAML, keys in their order."""
    return yaml.dump(document, Dumper=_PlainDumper, sort_keys=False, width=100)


def config_map(name: str, namespace: str, data: Mapping[str, str]) -> dict[str, Any]:
    """A ConfigMap with `data`."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": dict(data),
    }
