"""Metrics of functions, under the names PyFlink gives them in `pyflink.metrics`."""

from tidegate.runtime.metrics import (
    Counter as Counter,
    Distribution as Distribution,
    Meter as Meter,
    Metric as Metric,
    MetricGroup as MetricGroup,
)

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
