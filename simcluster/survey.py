"""What a node agent would say of a simulated node besides its GPUs: links, cards, the driver.

GPUs of an island are joined through NVSwitches; every two GPUs share a network card where the
nodes have InfiniBand.
"""

import json

from simcluster.objects import Obj

LINKS, DRIVER = "muster.dev/links", "muster.dev/gpu-driver"
DRIVER_STATE, GPUDIRECT = "muster.dev/gpu-driver-state", "muster.dev/gpudirect"
DRIVER_VERSION = "580.95.05"
_LANES = {"B200": 18, "H200-SXM": 18, "H100-SXM": 18, "A100-80GB": 12, "A100-40GB": 12}
_FEWEST_LANES = 2  # of older models, where they are joined at all
_CARD = "InfiniBand 400 Gb/sec (4X NDR)"
_GPUS_PER_CARD = 2


def annotations(gpus: list[Obj], *, has_nvlink: bool, has_cards: bool) -> dict[str, str]:
    """What stands on the node; nothing on one without GPUs."""
    if not gpus:
        return {}
    links = links_json(gpus, has_nvlink=has_nvlink, has_cards=has_cards)
    driver = {"state": "ok", "version": DRIVER_VERSION}
    return {LINKS: _compact(links), DRIVER: _compact(driver)}


def labels(*, has_cards: bool) -> dict[str, str]:
    return {DRIVER_STATE: "ok", GPUDIRECT: "yes" if has_cards else "no"}


def links_json(gpus: list[Obj], *, has_nvlink: bool, has_cards: bool) -> Obj:
    """Rows of links to the GPUs that follow, and to each network card."""
    rows = [
        " ".join(_link(one, other, has_nvlink=has_nvlink) for other in gpus[at + 1 :])
        for at, one in enumerate(gpus[:-1])
    ]
    found: Obj = {"gpus": [gpu["index"] for gpu in gpus], "links": rows}
    if has_cards:
        cards = range((len(gpus) + 1) // _GPUS_PER_CARD)
        found["nics"] = {f"mlx5_{card}": _CARD for card in cards}
        found["nic_links"] = [" ".join(_to(card, gpu, gpus) for card in cards) for gpu in gpus]
    return found


def _link(one: Obj, other: Obj, *, has_nvlink: bool) -> str:
    if has_nvlink and one["island"] == other["island"]:
        return f"NV{_LANES.get(one['model'], _FEWEST_LANES)}"
    return "PHB" if one["numa"] == other["numa"] else "SYS"


def _to(card: int, gpu: Obj, gpus: list[Obj]) -> str:
    if gpu["index"] // _GPUS_PER_CARD == card:
        return "PIX"
    return "NODE" if gpus[card * _GPUS_PER_CARD]["numa"] == gpu["numa"] else "SYS"


def _compact(value: Obj) -> str:
    return json.dumps(value, separators=(",", ":"))
