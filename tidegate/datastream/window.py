"""Windows, triggers and evictors, under the names PyFlink gives them in `pyflink.datastream.window`."""

from tidegate.runtime.operators.window.assigner import (
    MergingWindowAssigner as MergingWindowAssigner,
    WindowAssigner as WindowAssigner,
)
from tidegate.runtime.operators.window.assigners import (
    CountSlidingWindowAssigner as CountSlidingWindowAssigner,
    CountTumblingWindowAssigner as CountTumblingWindowAssigner,
    GlobalWindows as GlobalWindows,
    SlidingEventTimeWindows as SlidingEventTimeWindows,
    SlidingProcessingTimeWindows as SlidingProcessingTimeWindows,
    TumblingEventTimeWindows as TumblingEventTimeWindows,
    TumblingProcessingTimeWindows as TumblingProcessingTimeWindows,
)
from tidegate.runtime.operators.window.evictors import (
    CountEvictor as CountEvictor,
    DeltaEvictor as DeltaEvictor,
    Evictor as Evictor,
    TimeEvictor as TimeEvictor,
    TimestampedValue as TimestampedValue,
)
from tidegate.runtime.operators.window.output import OutputMode as OutputMode
from tidegate.runtime.operators.window.sessions import (
    DynamicEventTimeSessionWindows as DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows as DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows as EventTimeSessionWindows,
    ProcessingTimeSessionWindows as ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor as SessionWindowTimeGapExtractor,
)
from tidegate.runtime.operators.window.triggers import (
    ContinuousEventTimeTrigger as ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger as ContinuousProcessingTimeTrigger,
    CountTrigger as CountTrigger,
    DeltaTrigger as DeltaTrigger,
    EventTimeTrigger as EventTimeTrigger,
    NeverTrigger as NeverTrigger,
    ProcessingTimeTrigger as ProcessingTimeTrigger,
    PurgingTrigger as PurgingTrigger,
    Trigger as Trigger,
    TriggerResult as TriggerResult,
)
from tidegate.runtime.operators.window.windows import (
    CountWindow as CountWindow,
    CountWindowSerializer as CountWindowSerializer,
    GlobalWindow as GlobalWindow,
    GlobalWindowSerializer as GlobalWindowSerializer,
    TimeWindow as TimeWindow,
    TimeWindowSerializer as TimeWindowSerializer,
    Window as Window,
    WindowSerializer as WindowSerializer,
)

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DeltaEvictor",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "OutputMode",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowSerializer",
]
