"""A Kubernetes API as tests speak to it: plain requests, and refusals as answers."""

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

MEDIA_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True)
class Api:
    """An API server, and whom we are to it. ca: whose certificates count; None for plain HTTP."""

    url: str
    token: str
    ca: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def acting_as(self, user, group=""):
        """The same API, asked as somebody else; we must be allowed to pass for him."""
        who = {"Impersonate-User": user} | ({"Impersonate-Group": group} if group else {})
        return replace(self, headers=who)

    def ask(self, method, path, body=None, *, media_type="application/json", **query):
        """The code and the JSON of one answer; its text where a refusal is no JSON.

        A path that is not served yet, as that of a definition just made, is refused in plain text.
        """
        try:
            with self._open(method, path, body, media_type, query) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                said = refusal.read().decode()
            try:
                return refusal.code, json.loads(said)
            except json.JSONDecodeError:
                return refusal.code, said

    def code_of(self, path):
        """The code alone, of an answer that may be no JSON."""
        try:
            with self._open("GET", path, None, "application/json", {}) as answer:
                return answer.status
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code

    def get(self, path, **query):
        """The JSON of what must be there."""
        code, answer = self.ask("GET", path, **query)
        assert code == 200, answer
        return answer

    def create(self, path, body, **query):
        """What was made of `body`, which must be accepted."""
        code, made = self.ask("POST", path, body, **query)
        assert code == 201, made
        return made

    def patch(self, path, body, *, kind="strategic", **query):
        """The code and the JSON of a patch, of a kind in MEDIA_TYPES."""
        return self.ask("PATCH", path, body, media_type=MEDIA_TYPES[kind], **query)

    def delete(self, path, body=None, **query):
        """The code and the JSON of a deletion."""
        return self.ask("DELETE", path, body, **query)

    def follow(self, path, *, seconds=5, **query):
        """The events of a watch as they come, until the server ends it after `seconds`."""
        asked = {"watch": "true", "timeoutSeconds": str(seconds), **query}
        with self._open("GET", path, None, "application/json", asked) as lines:
            for line in lines:
                yield json.loads(line)

    def _open(self, method, path, body, media_type, query):
        question = f"?{urllib.parse.urlencode(query)}" if query else ""
        request = urllib.request.Request(
            self.url + path + question,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": media_type,
                **self.headers,
            },
        )
        return urllib.request.urlopen(request, timeout=60, context=self._context)

    @cached_property
    def _context(self):
        return None if self.ca is None else ssl.create_default_context(cafile=self.ca)
