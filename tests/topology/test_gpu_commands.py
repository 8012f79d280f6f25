"""The commands on GPUs: what they print, and how they end."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

DATA = Path(__file__).parents[1] / "data" / "gpu"


def run(command, *words):
    """What a command prints, what it complains of, and its exit status."""
    out, err, status = StringIO(), StringIO(), 0
    try:
        call_command(command, *words, stdout=out, stderr=err)
    except SystemExit as stop:
        status = stop.code
    return out.getvalue(), err.getvalue(), status


def mig(*words):
    return run("mig", *words)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["A100-40GB", "3g.20gb", "4g.20gb"], "ok 4g.20gb@0 3g.20gb@4\n"),
        (["A100-40GB", *["2g.10gb"] * 2, "3g.20gb"], "ok 3g.20gb@4 2g.10gb@0 2g.10gb@2\n"),
        (["A100-40GB", "4g.20gb", "--keep", "3g.20gb@4"], "ok 4g.20gb@0 3g.20gb@4\n"),
        (["NVIDIA A30", "4g.24gb"], "ok 4g.24gb@0\n"),
    ],
)
def test_a_possible_set_is_printed_largest_first(words, answer):
    assert mig(*words) == (answer, "", 0)


@pytest.mark.parametrize(
    ("words", "answer", "reason"),
    [
        (["A100-40GB", "4g.20gb", "4g.20gb"], "no 4g.20gb\n", "at most 1 of 4g.20gb, not 2"),
        (["A100-40GB", "3g.20gb", "3g.20gb", "1g.5gb"], "no 1g.5gb\n", "8 memory slices, not 9"),
        (["A100-40GB", "3g.40gb"], "no 3g.40gb\n", "has no profile 3g.40gb"),
        (["A100-40GB", "4g.20gb", "--keep", "3g.20gb@0"], "no 4g.20gb\n", "no free place"),
        (["L40S", "1g.5gb"], "no 1g.5gb\n", "L40S-48GB has no MIG"),
    ],
)
def test_an_impossible_set_names_the_profile_without_a_place(words, answer, reason):
    out, err, status = mig(*words)

    assert (out, status) == (answer, 1)
    assert reason in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["A100", "1g.5gb"], "A100 may be any of A100-40GB, A100-80GB"),
        (["B9000", "1g.5gb"], "there is no GPU model B9000"),
        (["", "1g.5gb"], "there is no GPU model"),
        (["A100-40GB", "half"], "half is no MIG profile: write 3g.20gb"),
        (["A100-40GB", "1g.5gb", "--keep", "3g.20gb"], "3g.20gb is no instance of A100-40GB"),
        (["A100-40GB", "1g.5gb", "--keep", "3g.20gb@3"], "cannot start at 3, only at 0, 4"),
        (
            ["A100-40GB", "1g.5gb", "--keep", "3g.20gb@0", "4g.20gb@0"],
            "--keep: 4g.20gb@0 does not fit",
        ),
    ],
)
def test_unknown_words_are_answered_on_standard_error(words, complaint):
    out, err, status = mig(*words)

    assert (out, status) == ("", 2)
    assert complaint in err


def test_something_to_cut_it_into_is_asked_for():
    with pytest.raises(CommandError, match="profile"):
        mig("A100-40GB")


def test_each_configuration_of_a_file_is_judged_on_the_nodes_gpus():
    out, err, status = run(
        "check_layout", str(DATA / "mig-mixed-node.yaml"), "A100-80GB", "A30", "L40S"
    )

    assert out.splitlines()[:4] == [
        "ok a30-quarters; GPU 1: 1g.6gb@0 1g.6gb@1 1g.6gb@2 1g.6gb@3",
        "no everything-sevenths",
        "   mig-configs.everything-sevenths[0]: GPU 1: A30-24GB has no profile 1g.10gb",
        "   mig-configs.everything-sevenths[0]: GPU 2: L40S-48GB has no MIG",
    ]
    assert (err, status) == ("", 1)


def test_files_of_the_device_plugin_are_told_by_what_stands_in_them():
    misplaced, _, refused = run(
        "check_layout", str(DATA / "timeslicing-misplaced-keys.yaml"), "4xA100-40GB"
    )
    good = run("check_layout", str(DATA / "timeslicing-per-node.yaml"), "2xA100-40GB")

    assert misplaced.splitlines()[0] == "no any; nvidia.com/gpu: 64 on 4 GPUs"
    assert len(misplaced.splitlines()) == 3
    assert refused == 1
    assert good[0].splitlines() == [
        "ok exclusive; nvidia.com/gpu: 2 on 2 GPUs",
        "ok notebooks; nvidia.com/gpu.shared: 8 on 2 GPUs",
        "ok mig-notebooks; nvidia.com/gpu: 2 on 2 GPUs",
    ]
    assert good[1:] == ("", 0)


def test_mig_switched_off_and_on_is_said_in_words(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(
        "version: v1\nmig-configs: {a: ["
        "{devices: [0], mig-enabled: false}, {devices: [1], mig-enabled: true, mig-devices: {}}]}"
    )

    assert run("check_layout", str(file), "2xA30")[0] == "ok a; GPU 0: MIG off; GPU 1: MIG on\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere.yaml", "A30"], "cannot read nowhere.yaml: No such file"),
        ([str(DATA / "topo-numa-range.txt"), "A30"], "line 1: "),
        ([str(DATA / "mig-mixed-node.yaml"), "B9000"], "there is no GPU model B9000"),
        ([str(DATA / "mig-mixed-node.yaml"), "999xA30"], "no node has more than 64 GPUs"),
    ],
)
def test_what_cannot_be_checked_is_said_on_standard_error(words, complaint):
    out, err, status = run("check_layout", *words)

    assert (out, status) == ("", 2)
    assert complaint in err


def test_a_table_of_links_is_told_in_islands():
    out, err, status = run("read_topology", str(DATA / "topo-nvlink-pairs.txt"))

    assert out.splitlines()[:5] == [
        "island 0: GPU 0,2 NV12",
        "island 1: GPU 1,3 NV12",
        "island 2: GPU 4,5 NV12",
        "island 3: GPU 6,7 NV12",
        "GPU 0: numa 0, nearest card none",
    ]
    assert (err, status) == ("", 0)


def test_unknown_numa_nodes_are_said_to_be():
    out, _, _ = run("read_topology", str(DATA / "topo-numa-range.txt"))

    assert out.splitlines()[-2:] == [
        "GPU 2: numa 1,2, nearest card none",
        "GPU 3: numa unknown, nearest card none",
    ]


def test_a_table_that_is_cut_off_is_refused_with_its_line(tmp_path):
    file = tmp_path / "topo.txt"
    lines = (DATA / "topo-nvlink-pairs.txt").read_text().splitlines()
    file.write_text("\n".join(lines[:3]))

    assert run("read_topology", str(file)) == (
        "",
        "line 4: cut off: the row of GPU2 is missing\n",
        2,
    )


def test_training_that_does_not_fit_is_told_what_would():
    out, _, status = run("gpu_memory", "train", "7b", "--data-parallel=8", "--on=A100-40GB")

    assert out.splitlines() == [
        "weights 14000 MB",
        "gradients 14000 MB",
        "master_weights 28000 MB",
        "moments 56000 MB",
        "reserve 1074 MB",
        "activations unknown without --shape and --sequence",
        "in all 107836 MiB a GPU",
        "no: A100-40GB has 40960 MiB",
        "would fit with --zero 1",
    ]
    assert status == 1


def test_what_was_advised_fits():
    out, _, status = run(
        "gpu_memory", "train", "7b", "--data-parallel=8", "--zero=1", "--on=A100-40GB"
    )

    assert (out.splitlines()[-1], status) == ("ok: A100-40GB has 40960 MiB", 0)


def test_where_a_served_model_fits():
    out, _, status = run(
        "gpu_memory", "serve", "13e9", "--shape=40,5120,40", "--sequence=2048", "--batch=8"
    )

    assert "kv_cache 13422 MB" in out.splitlines()
    assert out.splitlines()[-1].startswith("fits A100-40GB 7g.40gb, A100-80GB 3g.40gb")
    assert status == 0


def test_what_is_on_the_host_is_told():
    out, _, _ = run("gpu_memory", "train", "7b", "--zero=2", "--offload=optimiser")

    assert "on the host 98000 MB" in out.splitlines()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["train", "7b", "--zero=4"], "there is no ZeRO stage 4"),
        (["train", "7b", "--shape=1,2"], "write layers,hidden,heads"),
        (["train", "7b", "--shape=1,x,2"], "'x'"),
        (["serve", "0"], "parameters must be at least 1"),
    ],
)
def test_work_that_cannot_be_is_refused(words, complaint):
    out, err, status = run("gpu_memory", *words)

    assert (out, status) == ("", 2)
    assert complaint in err


@pytest.mark.parametrize("word", ["seven", "7x", "-1", "1.5", "inf", "nan"])
def test_what_is_no_number_is_refused(word):
    with pytest.raises(CommandError, match="is no"):
        run("gpu_memory", "train", "--", word)
