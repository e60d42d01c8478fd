"""Window codec: windows as bytes, which are the namespaces of their state and timers."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from tidegate.errors import ConfigError
from tidegate.runtime.operators.window.windows import TimeWindowSerializer, WindowSerializer

__all__ = ["WindowCodec"]


class WindowCodec:
    """Encodes and decodes windows; caches the last one, because a step encodes it several times."""

    def __init__(self, serializer: WindowSerializer) -> None:
        self._serializer = serializer
        short = type(serializer) is TimeWindowSerializer
        self._encode: Callable[[Any], bytes] = TimeWindowSerializer.encode if short else self._written
        self._decode: Callable[[bytes], Any] = TimeWindowSerializer.decode if short else self._read
        self._window: Any = None
        self._bytes = b""

    def encode(self, window: Any) -> bytes:
        """The bytes of a window.

        Raises:
            ConfigError: the assigner's serializer cannot write its windows.
        """
        if self._window is window:
            return self._bytes
        try:
            data = self._encode(window)
        except Exception as error:
            raise self._unwritable(window, f"{type(error).__name__}: {error}") from error
        if not data:
            raise self._unwritable(window, "no bytes")
        self._window, self._bytes = window, data
        return data

    def decode(self, data: bytes) -> Any:
        """The window of bytes that `encode` returned."""
        return self._window if data == self._bytes else self._decode(data)

    def _written(self, window: Any) -> bytes:
        stream = BytesIO()
        self._serializer.serialize(window, stream)
        return stream.getvalue()

    def _read(self, data: bytes) -> Any:
        return self._serializer.deserialize(BytesIO(data))

    def _unwritable(self, window: Any, got: str) -> ConfigError:
        return ConfigError(
            f"{type(self._serializer).__name__} cannot write window {window!r}; got {got}; "
            "get_window_serializer() of the assigner must return one that can"
        )
