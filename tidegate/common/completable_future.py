"""Futures, under PyFlink's module name: the standard library's."""

from concurrent.futures import Future as CompletableFuture

__all__ = ["CompletableFuture"]
