"""What the caller brings and what does not work: one sentence with the way out."""

import pytest
from django.db import connection

from portal.embedded.__main__ import make_folder
from portal.embedded.given import has_tables, require_broker, require_database
from portal.embedded.programs import CannotStart


@pytest.mark.parametrize(
    "url", ["postgresql://nobody@127.0.0.1:1/none", "psql://nobody@127.0.0.1:1/none", "nonsense"]
)
def test_a_database_that_does_not_answer_is_said_at_once(url):
    with pytest.raises(CannotStart, match="unset DATABASE_URL"):
        require_database(url)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "unix:///nowhere/v.sock", "nonsense"])
def test_a_broker_that_does_not_answer_is_said_at_once(url):
    with pytest.raises(CannotStart, match="unset REDIS_URL"):
        require_broker(url)


def test_a_folder_that_cannot_be_made_is_named_with_the_way_out(tmp_path):
    file = tmp_path / "file"
    file.touch()

    for folder in (file, file / "below"):
        with pytest.raises(CannotStart, match="--data FOLDER"):
            make_folder(folder)


def test_a_database_without_tables_is_told_from_one_with_them(db, transactional_db):
    there = connection.settings_dict
    url = f"postgresql://{there['USER']}@/{{}}?host={there['HOST'] or there['OPTIONS']['host']}"

    assert has_tables(url.format(there["NAME"]))
    assert not has_tables(url.format("template1"))
