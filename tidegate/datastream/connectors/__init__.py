"""Connector interfaces, under PyFlink's module name."""

from tidegate.connectors.spi import DeliveryGuarantee as DeliveryGuarantee, Sink as Sink, Source as Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
