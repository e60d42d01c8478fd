"""Frames: the encoding of elements between processes of one run, the same on every executor."""

from __future__ import annotations

import msgspec

from tidegate.arrow_rows import ArrowRows, RowForm
from tidegate.elements import Batch, Control, Element, decode_batch
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.graph.transformations import Hash
from tidegate.runtime.task.exchange import ChannelId
from tidegate.serde import exchange_codec

__all__ = ["EdgeCodec", "Frame"]


class Frame(msgspec.Struct, frozen=True, tag=True):
    """One element of one channel; a batch is stored as columns, with separate codecs for values and keys."""

    channel: ChannelId
    control: Control | None = None
    values: bytes = b""
    arrow: RowForm | None = None
    """What the rows are whose columns `values` holds as Arrow; None if it holds rows."""
    keys: bytes | None = None
    columns: msgspec.Raw = msgspec.Raw(b"\xc0")


class EdgeCodec:
    """Encodes and decodes the elements of one edge."""

    def __init__(self, edge: JobEdge) -> None:
        self._values = exchange_codec(edge.value_type)
        self._type = edge.value_type
        key_type = edge.partition.key_type if isinstance(edge.partition, Hash) else None
        self._keys = exchange_codec(key_type, checked=False)

    def encode(self, channel: ChannelId, element: Element) -> bytes:
        """Encode an element.

        Raises:
            RecordError: a value is not of its declared type.
        """
        if not isinstance(element, Batch):
            return msgspec.msgpack.encode(Frame(channel, element))
        keys = self._keys.encode_batch(element.keys) if element.keys is not None else None
        values, form = element.values, None
        if isinstance(values, ArrowRows) and values.has_type(self._type):
            encoded, form = values.encoded(), values.form
        else:
            encoded = self._values.encode_batch(element.rows())
        columns = msgspec.Raw(element.encoded())
        return msgspec.msgpack.encode(Frame(channel, None, encoded, form, keys, columns))

    def element(self, frame: Frame) -> Element:
        """Decode a frame."""
        if frame.control is not None:
            return frame.control
        keys = self._keys.decode_batch(frame.keys) if frame.keys is not None else None
        if frame.arrow is not None:
            return decode_batch(ArrowRows.decode(frame.values, frame.arrow), keys, frame.columns)
        return decode_batch(self._values.decode_batch(frame.values), keys, frame.columns)
