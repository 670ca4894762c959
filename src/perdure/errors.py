"""All public errors, by the name people look for them under."""

from perdure.core.errors import *  # noqa: F403
from perdure.core.errors import __all__  # noqa: F401
