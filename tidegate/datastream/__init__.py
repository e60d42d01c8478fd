"""Streams, functions and state, under the names PyFlink gives them in `pyflink.datastream`."""

from tidegate.backends.keyed.descriptors import (
    AggregatingStateDescriptor as AggregatingStateDescriptor,
    ListStateDescriptor as ListStateDescriptor,
    MapStateDescriptor as MapStateDescriptor,
    OrderedMapStateDescriptor as OrderedMapStateDescriptor,
    ReducingStateDescriptor as ReducingStateDescriptor,
    StateDescriptor as StateDescriptor,
    ValueStateDescriptor as ValueStateDescriptor,
)
from tidegate.backends.keyed.folding import (
    AggregatingState as AggregatingState,
    ReducingState as ReducingState,
)
from tidegate.backends.keyed.list_state import ListState as ListState
from tidegate.backends.keyed.map_state import MapState as MapState
from tidegate.backends.keyed.ordered_state import OrderedMapState as OrderedMapState
from tidegate.backends.keyed.row import ValueState as ValueState
from tidegate.connectors.functions import (
    ParallelSourceFunction as ParallelSourceFunction,
    SinkFunction as SinkFunction,
    SourceFunction as SourceFunction,
)
from tidegate.runtime.operators.operator_state import (
    BroadcastState as BroadcastState,
    ReadOnlyBroadcastState as ReadOnlyBroadcastState,
)
from tidegate.runtime.operators.window.assigner import (
    MergingWindowAssigner as MergingWindowAssigner,
    WindowAssigner as WindowAssigner,
)
from tidegate.runtime.operators.window.triggers import Trigger as Trigger, TriggerResult as TriggerResult
from tidegate.runtime.operators.window.windows import (
    CountWindow as CountWindow,
    GlobalWindow as GlobalWindow,
    TimeWindow as TimeWindow,
    Window as Window,
)
from tidegate.runtime.stream.async_data_stream import (
    AsyncDataStream as AsyncDataStream,
    AsyncFunction as AsyncFunction,
    AsyncRetryPredicate as AsyncRetryPredicate,
    AsyncRetryStrategy as AsyncRetryStrategy,
)
from tidegate.runtime.stream.broadcast import (
    BroadcastConnectedStream as BroadcastConnectedStream,
    BroadcastProcessFunction as BroadcastProcessFunction,
    BroadcastStream as BroadcastStream,
    KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction,
)
from tidegate.runtime.stream.checkpoint_config import (
    CheckpointConfig as CheckpointConfig,
    CheckpointingMode as CheckpointingMode,
    ExternalizedCheckpointRetention as ExternalizedCheckpointRetention,
)
from tidegate.runtime.stream.checkpointed import (
    CheckpointedFunction as CheckpointedFunction,
    CheckpointListener as CheckpointListener,
    ListCheckpointed as ListCheckpointed,
    OperatorStateStore as OperatorStateStore,
)
from tidegate.runtime.stream.datastream import (
    ConnectedStreams as ConnectedStreams,
    DataStream as DataStream,
    DataStreamSink as DataStreamSink,
    KeyedStream as KeyedStream,
)
from tidegate.runtime.stream.environment import StreamExecutionEnvironment as StreamExecutionEnvironment
from tidegate.runtime.stream.execution_config import RuntimeExecutionMode as RuntimeExecutionMode
from tidegate.runtime.stream.functions import (
    AggregateFunction as AggregateFunction,
    CoFlatMapFunction as CoFlatMapFunction,
    CoMapFunction as CoMapFunction,
    CoProcessFunction as CoProcessFunction,
    FilterFunction as FilterFunction,
    FlatMapFunction as FlatMapFunction,
    KeyedCoProcessFunction as KeyedCoProcessFunction,
    KeyedProcessFunction as KeyedProcessFunction,
    KeySelector as KeySelector,
    MapFunction as MapFunction,
    Partitioner as Partitioner,
    ProcessFunction as ProcessFunction,
    ReduceFunction as ReduceFunction,
    RuntimeContext as RuntimeContext,
    TimerService as TimerService,
)
from tidegate.runtime.stream.slot_sharing import (
    MemorySize as MemorySize,
    SlotSharingGroup as SlotSharingGroup,
)
from tidegate.runtime.stream.state_backends import (
    CheckpointStorage as CheckpointStorage,
    EmbeddedRocksDBStateBackend as EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage as FileSystemCheckpointStorage,
    HashMapStateBackend as HashMapStateBackend,
    JobManagerCheckpointStorage as JobManagerCheckpointStorage,
    StateBackend as StateBackend,
)
from tidegate.runtime.stream.tags import OutputTag as OutputTag
from tidegate.runtime.stream.time_characteristic import (
    TimeCharacteristic as TimeCharacteristic,
    TimeDomain as TimeDomain,
)
from tidegate.runtime.stream.windowed import (
    AllWindowedStream as AllWindowedStream,
    WindowedStream as WindowedStream,
)
from tidegate.runtime.stream.windows import (
    AllWindowFunction as AllWindowFunction,
    CoGroupFunction as CoGroupFunction,
    FlatJoinFunction as FlatJoinFunction,
    JoinFunction as JoinFunction,
    ProcessAllWindowFunction as ProcessAllWindowFunction,
    ProcessWindowFunction as ProcessWindowFunction,
    WindowFunction as WindowFunction,
)

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastState",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "GlobalWindow",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListCheckpointed",
    "ListState",
    "ListStateDescriptor",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "MemorySize",
    "MergingWindowAssigner",
    "OperatorStateStore",
    "OrderedMapState",
    "OrderedMapStateDescriptor",
    "OutputTag",
    "ParallelSourceFunction",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReadOnlyBroadcastState",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "StateBackend",
    "StateDescriptor",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "ValueState",
    "ValueStateDescriptor",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]
