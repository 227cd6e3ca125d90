"""Everything that the exercises register, judged; and the page of the book that says so."""

import pytest
from click.testing import CliRunner

from autograder.assignments import COURSE
from autograder.catches import page
from autograder.cli import main
from autograder.errors import CourseError
from autograder.exercises import chapters
from autograder.selftest import functions

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")  # wrong answers may warn


@pytest.fixture(scope="module")
def findings():
    return [finding for chapter in chapters().values() for finding in functions(chapter)]


def test_everything_is_as_it_should_be(findings):
    assert {finding.kind for finding in findings} == {"reference", "stub", "variant", "misconception"}
    assert [finding for finding in findings if finding.problem] == []


@pytest.mark.parametrize("name", chapters())
def test_cases_mistakes_and_lessons_are_told_apart(name):
    for exercise in chapters()[name].exercises:
        for told in (
            [case.name for case in exercise.cases],
            [mistake.name for mistake in exercise.misconceptions],
            [mistake.lesson for mistake in exercise.misconceptions],
        ):
            assert len(told) == len(set(told)), exercise.name


def test_the_page_on_what_our_tests_catch_says_what_is_found_now(findings):
    written = (COURSE / "chapters" / "catches.md").read_text()
    assert written == page(written, findings), "run `course selftest --page chapters/catches.md`"


def test_the_page_is_not_written_for_a_part_of_the_course(tmp_path):
    (tmp_path / "page.md").write_text("as it was")
    result = CliRunner().invoke(main, ["selftest", "01_descent", "--page", str(tmp_path / "page.md")])
    assert (result.exit_code, (tmp_path / "page.md").read_text()) == (2, "as it was")
    assert result.stderr == "course: --page is about all chapters: leave their names out\n"


def test_another_page_is_left_alone():
    with pytest.raises(CourseError, match="not the page"):
        page("# Another page", [])
