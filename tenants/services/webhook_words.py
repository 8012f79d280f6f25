"""What a webhook is sent: the words of a notice in the JSON that its chat understands."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tenants.models import Webhook

Style = Webhook.Style


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """A notice in words. link: the full address of what it is about."""

    key: str
    kind: str
    says: str
    link: str
    happened_at: datetime
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Letter:
    url: str
    body: bytes
    headers: dict[str, str]


def letter_of(webhook: Webhook, saying: Saying, *, at: datetime) -> Letter:
    """The POST that tells `webhook` of `saying`. at: wall clock, of the signature."""
    write = _WRITERS[Style(webhook.style)]
    return write(webhook, saying, at)


def _slack(webhook: Webhook, saying: Saying, _at: datetime) -> Letter:
    return _letter(webhook.url, {"text": _text(saying)})


def _feishu(webhook: Webhook, saying: Saying, at: datetime) -> Letter:
    body: dict[str, Any] = {"msg_type": "text", "content": {"text": _text(saying)}}
    if webhook.secret:
        stamp = str(int(at.timestamp()))
        mark = hmac.new(f"{stamp}\n{webhook.secret}".encode(), b"", hashlib.sha256).digest()
        body |= {"timestamp": stamp, "sign": base64.b64encode(mark).decode()}
    return _letter(webhook.url, body)


def _dingtalk(webhook: Webhook, saying: Saying, at: datetime) -> Letter:
    url = webhook.url
    if webhook.secret:
        stamp = str(int(at.timestamp() * 1000))
        message = f"{stamp}\n{webhook.secret}".encode()
        mark = hmac.new(webhook.secret.encode(), message, hashlib.sha256).digest()
        sign = quote(base64.b64encode(mark), safe="")
        url += f"{'&' if '?' in url else '?'}timestamp={stamp}&sign={sign}"
    return _letter(url, {"msgtype": "text", "text": {"content": _text(saying)}})


def _wecom(webhook: Webhook, saying: Saying, _at: datetime) -> Letter:
    return _letter(webhook.url, {"msgtype": "text", "text": {"content": _text(saying)}})


def _generic(webhook: Webhook, saying: Saying, at: datetime) -> Letter:
    """Signed over the time and the body, so that an old letter cannot be sent again later."""
    letter = _letter(
        webhook.url,
        {
            "id": saying.key,
            "kind": saying.kind,
            "says": saying.says,
            "link": saying.link,
            "tenant": saying.tenant,
            "happened_at": saying.happened_at.isoformat(),
        },
    )
    stamp = str(int(at.timestamp()))
    signed = stamp.encode() + b"." + letter.body
    mark = hmac.new(webhook.secret.encode(), signed, hashlib.sha256).hexdigest()
    letter.headers["X-Muster-Timestamp"] = stamp
    letter.headers["X-Muster-Signature"] = f"sha256={mark}"
    return letter


_WRITERS: dict[Style, Callable[[Webhook, Saying, datetime], Letter]] = {
    Style.SLACK: _slack,
    Style.FEISHU: _feishu,
    Style.DINGTALK: _dingtalk,
    Style.WECOM: _wecom,
    Style.GENERIC: _generic,
}


def _letter(url: str, body: dict[str, Any]) -> Letter:
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "Muster"}
    return Letter(url, json.dumps(body, ensure_ascii=False).encode(), headers)


def _text(saying: Saying) -> str:
    """No name of a job or a tenant calls everybody in a chat, or looks like a link of ours."""
    says = saying.says.replace("<", "(").replace(">", ")").replace("@", "@\u200b")
    return f"{says}\n{saying.link}"
