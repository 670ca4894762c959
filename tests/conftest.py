"""What holds for every test: how hypothesis runs, and that a test leaves nothing running behind."""

import logging
import os
import threading
import time

import pytest
from hypothesis import HealthCheck, settings

# No deadlines: a busy machine is not a failure. In CI the same examples every time: a red build must be reproducible.
settings.register_profile("dev", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

collect_ignore_glob = ["golden/journals/*"]

GRACE = 2.0
"""Seconds that threads which were told to end get for it."""


class _AsyncioErrors(logging.Handler):
    """Keeps what asyncio complains about: tasks destroyed while pending, exceptions nobody retrieved."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request):
    """Fails a test that leaves a non-daemon thread running or an asyncio task or exception unattended."""
    if request.node.get_closest_marker("leaves_behind"):
        yield
        return
    before, errors = set(threading.enumerate()), _AsyncioErrors()
    logger = logging.getLogger("asyncio")
    logger.addHandler(errors)
    try:
        yield
    finally:
        logger.removeHandler(errors)
    left = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    until = time.monotonic() + GRACE
    for thread in left:
        thread.join(max(0.0, until - time.monotonic()))
    alive = [thread.name for thread in left if thread.is_alive()]
    assert not alive, f"threads left running: {alive}"
    assert not errors.messages, f"asyncio complained: {errors.messages}"
