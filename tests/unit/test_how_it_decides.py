"""The examples in docs/how-it-decides.md run and print what stands there."""

import re
from contextlib import redirect_stdout
from io import StringIO

import pytest

from tests.support.machine import REPOSITORY

TEXT = (REPOSITORY / "docs" / "how-it-decides.md").read_text(encoding="utf-8")
#: A program, and right after it what it prints.
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n\n```text\n(?P<printed>.*?)```", re.DOTALL)
EXAMPLES = [(found["code"], found["printed"]) for found in EXAMPLE.finditer(TEXT)]


def printed_by(code: str) -> str:
    with redirect_stdout(StringIO()) as out:
        exec(compile(code, "how-it-decides.md", "exec"), {"__name__": "example"})
    return out.getvalue()


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_an_example_prints_what_the_text_shows(code, printed):
    assert printed_by(code) == printed


def test_every_program_in_the_text_is_an_example_that_is_run():
    assert len(EXAMPLES) == TEXT.count("```python") == 4
