"""Window operator: adds records to their windows; a window fires when its trigger says so.

A window is only a namespace. Its contents are keyed state in that namespace, and its timers refer to it, so a restored
subtask continues with the same windows. Event-time windows end at their last moment plus the allowed lateness,
others at their last moment; windows without an end stay until they are purged.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from tidegate.backends.keyed.timers import StoredTimers
from tidegate.backends.spi import Timer
from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK
from tidegate.errors import RecordError
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.operator import Call, Emitted, Operator, Piece, StepInput, StepKind
from tidegate.runtime.operators.window.assigner import MergingWindowAssigner
from tidegate.runtime.operators.window.codec import WindowCodec
from tidegate.runtime.operators.window.contents import open_contents
from tidegate.runtime.operators.window.merged_windows import MergedWindowMap
from tidegate.runtime.operators.window.merging import Added, MergingWindows
from tidegate.runtime.operators.window.output import rows_of
from tidegate.runtime.operators.window.panes import Pane, has_panes, shortcut
from tidegate.runtime.operators.window.scope import FunctionScope, Scope
from tidegate.runtime.operators.window.sessions import EventTimeSessionWindows
from tidegate.runtime.operators.window.triggers import TriggerResult
from tidegate.runtime.operators.window.windowing import Windowing, evaluation
from tidegate.runtime.operators.window.windows import TimeWindow
from tidegate.runtime.stream.windows import ProcessAllWindowFunction, ProcessWindowFunction
from tidegate.serde import isolate

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamNode

__all__ = ["WINDOW", "WindowOperator"]


def _open(node: StreamNode, context: OperatorContext) -> Operator:
    return WindowOperator(node.payload, context)


WINDOW: Final = StepKind(
    "window",
    _open,
    inputs=(StepInput("required", "insert-only"),),
    gives="insert-only",
    side_outputs=True,
    nests=True,
    landmark=True,
)


class WindowOperator(Operator):
    """Windows of the keys of one subtask. `late_dropped` counts records that were late for all their windows."""

    def __init__(self, windowing: Windowing, context: OperatorContext) -> None:
        store = context.keyed_store("has windows")
        assigner = windowing.assigner
        self.late_dropped = context.get_metrics_group().counter("numLateRecordsDropped")
        self._windowing = windowing
        self._store = store
        self._codec = WindowCodec(assigner.get_window_serializer())
        self._merging = assigner if isinstance(assigner, MergingWindowAssigner) else None
        self._event_time = assigner.is_event_time()
        self._kept = open_contents(store, windowing)
        self._merged: Any = MergedWindowMap(store, self._codec) if self._merging is not None else None
        self._scope = scope = Scope(context, store)
        self._register_end = (
            scope.register_event_time_timer if self._event_time else scope.register_processing_time_timer
        )
        self._delete_end = (
            scope.delete_event_time_timer if self._event_time else scope.delete_processing_time_timer
        )
        self._call = evaluation(windowing.function)
        self._function_scope = FunctionScope(self._scope, context, merging=self._merging is not None)
        self._rows = rows_of(windowing.mode, store, self._codec)
        self._emitted: list[tuple[Any, int]] = []
        self._panes: dict[Any, Pane] = {}
        self._moment = MAX_WATERMARK
        self._gap = assigner.session_gap if isinstance(assigner, EventTimeSessionWindows) else 0
        steady = windowing.evictor is None and has_panes(assigner, windowing.trigger)
        self._shortcut = shortcut(self._panes, self._kept, self._gap, self._replace) if steady else None
        store.before_settling = self._leave_all
        call = Call("emit", self._on_record, bind=store.cursor, shortcut=self._shortcut)
        super().__init__((call,), store)

    def begin(self, watermark: int) -> None:
        """Records of windows that ended before it are late."""
        self._scope.watermark = watermark

    def event_time(self, watermark: int, piece: Piece) -> Emitted | None:
        """The results of windows that end by this watermark."""
        self.begin(watermark)
        return self._fire(self._store.event_timers, watermark, piece, event_time=True)

    def processing_time(self, now_ms: int, piece: Piece) -> Emitted | None:
        """The results of windows that end by this processing time."""
        # A millisecond is over when the clock shows the next one: until then it may get more records.
        return self._fire(self._store.processing_timers, now_ms - 1, piece, event_time=False)

    def next_processing_time(self) -> int | None:
        """When the next processing-time timer of a window is due."""
        time = self._store.processing_timers.next_time()
        return time + 1 if time is not None else None

    def _on_record(self, value: Any, timestamp: int | None) -> list[tuple[Any, int]]:
        self._moment = MAX_WATERMARK if timestamp is None else timestamp
        if timestamp is None:
            timestamp = self._without_timestamp(value)
        key, late = self._store.current_key, True
        before = self._leave(key)
        if before is not None and self._gap and timestamp > max(before.last, self._scope.watermark):
            self._begin(key, value, timestamp)
            return []
        for assigned in self._windowing.assigner.assign_windows(value, timestamp, self._scope):
            if self._merging is None:
                window = home = assigned
            else:
                added = self._merge(self._merging, key, assigned)
                window, home = added.window, added.home
            if self._end_of(window) > self._scope.watermark or not self._event_time:
                late = False
                self._add(key, window, home, value, timestamp, last=self._merging is None)
        if late and self._event_time and timestamp + self._windowing.lateness <= self._scope.watermark:
            self._drop(value, timestamp)
        emitted, self._emitted = self._emitted, []
        return emitted

    def _add(self, key: Any, window: Any, home: Any, value: Any, timestamp: int, *, last: bool) -> None:
        row = self._store.bind_in(key, self._codec.encode(home))
        self._kept.add(value, timestamp)
        self._scope.move(key, window, self._codec.encode(window))
        end = self._end_of(window)
        if end < MAX_WATERMARK:
            self._register_end(end)
        self._act(self._windowing.trigger.on_element(value, timestamp, window, self._scope), key, home)
        if self._shortcut is not None and window.max_timestamp() > self._scope.watermark:
            self._keep_open(key, window, home, row.values, last=last)

    def _begin(self, key: Any, value: Any, timestamp: int) -> None:
        """Add a record that is later than all sessions of its key, so that it merges with none."""
        window = TimeWindow(timestamp, timestamp + self._gap)
        self._merged.add(self._codec.encode(window))
        self._add(key, window, window, value, timestamp, last=True)

    def _keep_open(self, key: Any, window: Any, home: Any, values: list[Any], *, last: bool) -> None:
        """Open a pane for a window that did not fire; with several sessions for the last one, which overlaps no other."""
        last = last or all(self._codec.decode(name) <= window for name, _ in self._merged.names)
        if last and self._kept.is_steady(values[self._kept.slot]):
            self._panes[key] = Pane.of(window, home, values, self._kept.slot, self._gap)

    def _leave(self, key: Any) -> Pane | None:
        """Close the pane of a key, after its end was written to state and timers."""
        pane = self._panes.pop(key, None)
        if pane is not None and pane.grew:
            self._lengthen(key, pane)
        return pane

    def _leave_all(self) -> None:
        for key in list(self._panes):
            self._leave(key)

    def _lengthen(self, key: Any, pane: Pane) -> None:
        scope, window = self._scope, TimeWindow(pane.window.start, pane.last)
        old, new = self._codec.encode(pane.window), self._codec.encode(window)
        self._store.bind(key)
        self._merged.rename(old, new)
        # The same as the trigger of windows with panes, without a test of the time: the records came before the end.
        scope.move(key, pane.window, old)
        for time in self._ends(pane.window):
            self._delete_end(time)
        scope.move(key, window, new)
        for time in self._ends(window):
            self._register_end(time)
        pane.window = window

    def _replace(self, key: Any, content: Any) -> None:
        """The contents of a window have another class now, so they are written through state."""
        home = self._panes[key].home
        self._leave(key)
        self._store.bind_in(key, self._codec.encode(home))
        self._kept.clear()
        self._kept.put(content)

    def _fire(self, timers: StoredTimers, until: int, piece: Piece, *, event_time: bool) -> Emitted | None:
        fired = False
        with closing(self._store.due(timers, until, piece.limit, self._home_of)) as due:
            for timer in due:
                fired = True
                self._on_timer(timer, event_time=event_time)
                if piece.full(len(self._emitted)):
                    break
        emitted, self._emitted = self._emitted, []
        return ([value for value, _ in emitted], [time for _, time in emitted]) if fired else None

    def _home_of(self, timer: Timer) -> bytes | None:
        """The namespace of the contents of a timer's window, while its key is bound."""
        return timer.namespace if self._merging is None else self._merged.home_of(timer.namespace)

    def _on_timer(self, timer: Timer, *, event_time: bool) -> None:
        self._moment = timer.time
        pane = self._panes.get(timer.key)
        if pane is not None and timer.namespace == self._codec.encode(pane.window):
            if pane.grew:
                # The timer belongs to an earlier end of the session.
                self._lengthen(timer.key, pane)
                return
            del self._panes[timer.key]
        window = home = self._codec.decode(timer.namespace)
        if self._merging is not None:
            name = self._merged.home_of(timer.namespace)
            if name is None:
                return
            home = self._codec.decode(name)
        self._scope.move(timer.key, window, timer.namespace, fired=True)
        trigger = self._windowing.trigger
        call = trigger.on_event_time if event_time else trigger.on_processing_time
        self._act(call(timer.time, window, self._scope), timer.key, home)
        if event_time == self._event_time and timer.time == self._end_of(window):
            self._end(timer.key, window, home)

    def _act(self, result: TriggerResult, key: Any, home: Any) -> None:
        if result is TriggerResult.CONTINUE:
            return
        # The trigger may have read its own state, which is in another namespace once windows merged.
        self._store.bind_in(key, self._codec.encode(home))
        if result.is_fire():
            self._kept.fire(self._evaluate, self._scope.window, self._scope)
        if result.is_purge():
            self._kept.clear()

    def _evaluate(self, elements: list[Any]) -> None:
        window = self._scope.window
        results = self._call(self._scope.key, window, self._function_scope, elements)
        rows = self._rows(window, list(results))
        # A window without an end has no timestamp; its results have that of the record or timer that fired it, as in PyFlink.
        moment = self._moment
        self._emitted.extend(
            (isolate(value), moment if time == MAX_WATERMARK else time) for value, time in rows
        )

    def _merge(self, merging: MergingWindowAssigner, key: Any, assigned: Any) -> Added:
        windows: MergingWindows = self._merged.windows(merging)
        added = windows.add(assigned)
        if self._event_time and self._end_of(added.window) <= self._scope.watermark:
            windows.retire(added.window)
        self._merged.keep(windows)
        if added.merged:
            self._merge_triggers(key, added)
            for place in added.folded:
                self._fold(key, place, added.home)
        return added

    def _merge_triggers(self, key: Any, added: Added) -> None:
        trigger, scope = self._windowing.trigger, self._scope
        namespaces = [self._codec.encode(window) for window in added.merged]
        scope.move(key, added.window, self._codec.encode(added.window))
        scope.merged = namespaces
        trigger.on_merge(added.window, scope)
        for window, namespace in zip(added.merged, namespaces, strict=True):
            scope.move(key, window, namespace)
            trigger.clear(window, scope)
            self._delete_end(self._end_of(window))
            if window != added.home and window not in added.folded:
                self._store.delete_in(key, namespace)

    def _fold(self, key: Any, place: Any, home: Any) -> None:
        self._store.bind_in(key, self._codec.encode(place))
        content = self._kept.content()
        self._store.delete_in(key, self._codec.encode(place))
        self._store.bind_in(key, self._codec.encode(home))
        self._kept.put(content)

    def _end(self, key: Any, window: Any, home: Any) -> None:
        self._windowing.trigger.clear(window, self._scope)
        if isinstance(self._windowing.function, ProcessWindowFunction | ProcessAllWindowFunction):
            self._store.bind_in(key, self._codec.encode(window))
            self._windowing.function.clear(self._function_scope)
        # A trigger that allows panes has no state per window.
        for each in {window, home} if self._shortcut is None else (home,):
            self._store.delete_in(key, self._codec.encode(each))
        if self._merging is not None:
            self._merged.retire(self._codec.encode(window))

    def _ends(self, window: Any) -> set[int]:
        """The timers of a window: when it fires and when its state is deleted."""
        return {window.max_timestamp(), self._end_of(window)}

    def _end_of(self, window: Any) -> int:
        last: int = window.max_timestamp()
        return min(last + self._windowing.lateness, MAX_WATERMARK) if self._event_time else last

    def _drop(self, value: Any, timestamp: int) -> None:
        if self._windowing.late_tag is None:
            self.late_dropped.inc()
        else:
            self._emitted.append(((self._windowing.late_tag, value), timestamp))

    def _without_timestamp(self, value: Any) -> int:
        if self._event_time:
            raise RecordError(
                f"record {value!r} has no timestamp but event time decides its window; "
                "call assign_timestamps_and_watermarks(...) before key_by"
            )
        return MIN_WATERMARK
