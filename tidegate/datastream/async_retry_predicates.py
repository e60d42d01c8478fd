"""Retry predicates of asynchronous I/O, under PyFlink's module name."""

from tidegate.runtime.stream.async_data_stream import (
    empty_result_predicate as empty_result_predicate,
    exception_type_predicate as exception_type_predicate,
    has_exception_predicate as has_exception_predicate,
)

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]
