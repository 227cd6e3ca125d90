"""What holds for all tests."""

from hypothesis import settings

settings.register_profile("course", deadline=None)  # a busy machine is no bug
settings.load_profile("course")
