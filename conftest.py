"""Settings that every test shares."""

import os

# Nothing under test needs a C compiler; without this PyTensor would look for one.
os.environ.setdefault("PYTENSOR_FLAGS", "cxx=")
# Nothing goes to the home of who runs the tests; those that look at what is kept name a folder.
os.environ["PYTENSOR_JAXLINK_CACHE"] = ""

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
