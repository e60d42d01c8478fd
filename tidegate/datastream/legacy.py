"""Deprecated timestamp assigners and folding state, under the names that Flink gave them."""

from tidegate.runtime.stream.legacy import (
    AscendingTimestampExtractor as AscendingTimestampExtractor,
    AssignerWithPeriodicWatermarks as AssignerWithPeriodicWatermarks,
    AssignerWithPunctuatedWatermarks as AssignerWithPunctuatedWatermarks,
    BoundedOutOfOrdernessTimestampExtractor as BoundedOutOfOrdernessTimestampExtractor,
    FoldingStateDescriptor as FoldingStateDescriptor,
)

__all__ = [
    "AscendingTimestampExtractor",
    "AssignerWithPeriodicWatermarks",
    "AssignerWithPunctuatedWatermarks",
    "BoundedOutOfOrdernessTimestampExtractor",
    "FoldingStateDescriptor",
]
