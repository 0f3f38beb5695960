"""The command line, called in this process."""

import sys

import pytest

from rigproof.cli.main import main


@pytest.fixture
def cli(monkeypatch, capsys):
    """Call the command line; its exit status, standard output and standard error. What it raises, raises."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["rigproof", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return call
