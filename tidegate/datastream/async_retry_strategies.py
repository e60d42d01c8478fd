"""Retry strategies of asynchronous I/O, under PyFlink's module name."""

from tidegate.runtime.stream.async_data_stream import (
    NO_RETRY_STRATEGY as NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy as ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy as FixedDelayRetryStrategy,
    NoRetryStrategy as NoRetryStrategy,
    RetryPredicate as RetryPredicate,
)

__all__ = [
    "NO_RETRY_STRATEGY",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]
