"""The course as nbgrader and its Formgrader see it: run `nbgrader …` or JupyterLab from this folder."""

from pathlib import Path

c = get_config()  # noqa: F821

c.CourseDirectory.course_id = "training-ledger"
c.CourseDirectory.root = str(Path(__file__).resolve().parent / "classroom")

# Sealed grading: a student's code runs in a sandbox, the hidden tests don't.
c.Autograde.exporter_class = "autograder.preprocessors.SubmissionExporter"
c.Autograde.sanitize_preprocessors = [
    "autograder.preprocessors.Repair",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.autograde_preprocessors = [
    "autograder.preprocessors.SealedExecute",
    "autograder.preprocessors.SanitizeStudents",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# What an instructor's or student's browser shows of a submission cannot run as a script.
c.SanitizeStudents.enabled = True
c.SanitizeStudents.tags = ["b", "code", "details", "em", "i", "li", "ol", "p", "strong", "summary", "ul"]
c.SanitizeStudents.safe_output_keys = {"metadata", "text/plain", "image/png", "image/jpeg"}
