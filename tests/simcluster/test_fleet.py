"""From a text or a file to nodes."""

import json

import pytest

from simcluster.errors import UsageError
from simcluster.fleet import parse_nodes, read_fleet

NODES = "/api/v1/nodes"


def test_a_text_names_nodes_by_model_in_racks_of_four():
    specs = parse_nodes("6xH100-SXM:8, 2xL40S:4,1xH100-SXM:8")

    assert [(spec.name, spec.gpus, spec.rack) for spec in specs] == [
        ("h100-sxm-01", 8, "rack-1"),
        ("h100-sxm-02", 8, "rack-1"),
        ("h100-sxm-03", 8, "rack-1"),
        ("h100-sxm-04", 8, "rack-1"),
        ("h100-sxm-05", 8, "rack-2"),
        ("h100-sxm-06", 8, "rack-2"),
        ("l40s-01", 4, "rack-2"),
        ("l40s-02", 4, "rack-2"),
        ("h100-sxm-07", 8, "rack-3"),
    ]


def test_a_node_carries_labels_room_and_its_gpus(kube):
    node = kube.get(f"{NODES}/h100-sxm-01")

    labels, room = node["metadata"]["labels"], node["status"]["allocatable"]
    gpus = json.loads(node["metadata"]["annotations"]["muster.dev/gpus"])
    assert {name: labels[name] for name in labels if name.startswith(("nvidia", "muster"))} == {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": "81559",
        "muster.dev/gpu-model": "H100-SXM",
        "muster.dev/rack": "rack-1",
        "muster.dev/fabric": "infiniband-1",
        "muster.dev/gpu-driver-state": "ok",
        "muster.dev/gpudirect": "yes",
    }
    assert room == {"cpu": "128", "memory": "1024Gi", "pods": "110", "nvidia.com/gpu": "8"}
    assert [gpu["index"] for gpu in gpus] == list(range(8))
    assert [gpu["numa"] for gpu in gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {gpu["island"] for gpu in gpus} == {0}
    assert len({gpu["uuid"] for gpu in gpus}) == 8


def test_a_file_may_say_more_of_each_node(tmp_path):
    path = tmp_path / "fleet.json"
    entry = {"name": "n1", "model": "V100", "gpus": 2, "rack": "r7", "islands": [0, 1]}
    path.write_text(json.dumps([entry]))

    (spec,) = read_fleet(path)

    assert (spec.name, spec.rack, spec.islands) == ("n1", "r7", (0, 1))


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([{"name": "n", "colour": "red"}], id="an unknown field"),
        pytest.param([{"name": "n", "gpus": 2, "numas": [0]}], id="too few numbers"),
        pytest.param({"name": "n"}, id="no list"),
    ],
)
def test_a_file_that_is_no_fleet_is_refused(tmp_path, entries):
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps(entries))

    with pytest.raises(UsageError, match="is no list of nodes"):
        read_fleet(path)
