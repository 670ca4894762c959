"""Values as JSON bytes by their annotations, and back: equal, of the same types, or refused with the path to what does not fit.

`schema_of` serves results, messages and answers, `arguments_of` calls, `encode_error` exceptions. Pure: it looks at values,
annotations and loaded modules, and touches nothing else.
"""

from .arguments import ArgumentsSchema, arguments_of, describe_arguments, json_digest
from .exceptions import decode_error, encode_error, traceback_of
from .hints import Unresolved, hints_of
from .naming import name_of
from .natural import natural_encode
from .schema import Schema, schema_of
from .validate import validate

__all__ = [
    "ArgumentsSchema",
    "Schema",
    "Unresolved",
    "arguments_of",
    "decode_error",
    "describe_arguments",
    "encode_error",
    "hints_of",
    "json_digest",
    "name_of",
    "natural_encode",
    "schema_of",
    "traceback_of",
    "validate",
]
