"""Errors that a person reads: one line that says what is wrong and what to do."""


class CourseError(Exception):
    """The base of all of them; the `course` command prints the line and exits with status 2."""
