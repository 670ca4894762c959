"""Tools for testing code that runs on perdure, part of its public API: an app with virtual time, stubs for steps, crashes at will.

>>> import asyncio
>>> from perdure import workflow
>>> from perdure.testing import TestApp
>>> @workflow
... async def patient() -> str:
...     await asyncio.sleep(7 * 24 * 3600)
...     return "a week later"
>>> async def test() -> str:
...     async with TestApp() as app:
...         return await app.run(patient())
>>> asyncio.run(test())
'a week later'
"""

from .app import TestApp
from .clock import VirtualClock
from .stubs import Stub

__all__ = ["Stub", "TestApp", "VirtualClock"]
