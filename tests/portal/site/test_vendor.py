"""Vendored files are what their manifests say."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
FOLDERS = [ROOT / "static" / "vendor", ROOT / "tests" / "data" / "vendor"]
PINS = json.loads((ROOT / "frontend" / "package.json").read_text())["dependencies"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_files_have_the_size_and_the_hash_of_the_manifest(folder):
    lines = json.loads((folder / "MANIFEST.json").read_text())

    for line in lines:
        data = (folder / line["file"]).read_bytes()
        digest = base64.b64encode(hashlib.sha384(data).digest()).decode()
        assert (line["bytes"], line["sha384"]) == (len(data), digest)
        assert line["version"] == PINS[line["package"]]
    names = {path.name for path in folder.iterdir()} - {"MANIFEST.json"}
    assert names == {line["file"] for line in lines}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_every_package_comes_with_its_licence(folder):
    lines = json.loads((folder / "MANIFEST.json").read_text())

    licensed = {line["package"] for line in lines if "LICENSE" in line["file"]}
    assert licensed == {line["package"] for line in lines}


def test_the_sprite_has_every_icon_of_the_list():
    listed = [
        line.split()[0]
        for line in (ROOT / "frontend" / "icons.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]

    sprite = (ROOT / "static" / "vendor" / "icons.svg").read_text()

    assert [name for name in listed if f'<symbol id="{name}"' not in sprite] == []
