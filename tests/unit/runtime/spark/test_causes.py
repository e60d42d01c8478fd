"""What is left of what Spark says; the texts are those of Spark 4.1 and 4.3."""

from __future__ import annotations

from tidegate.runtime.spark.causes import Cause

LOST = (
    "Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: Lost task 1.3 in stage 0.0 "
    "(TID 6) (worker-3 executor 1): "
)
WORKER = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
MISMATCH = (
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 "
    "than that in driver: 3.11, PySpark cannot run with different minor versions."
)
TRACED = (
    "Traceback (most recent call last):\n"
    '  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 4174, in invoke_udf\n'
    "    check_python_version(init_info.python_version)\n"
    f"{MISMATCH}\nPlease check environment variables PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are correctly set.\n"
)


class JavaError(Exception):
    """As py4j raises one."""

    def __init__(self, message: str) -> None:
        super().__init__("an error occurred while calling o1.collect")
        self.java_exception = self
        self.message = message

    def getMessage(self) -> str:  # noqa: N802 # as in Java
        return self.message


def test_what_python_said_stands_behind_what_spark_says() -> None:
    cause = Cause.of(JavaError(f"{WORKER}{TRACED} SQLSTATE: 38000"))

    assert cause.python == MISMATCH
    assert str(cause) == WORKER + MISMATCH


def test_the_frames_of_java_are_left_out() -> None:
    said = f"{LOST}org.apache.spark.api.python.PythonException: {TRACED}\n\tat org.apache.spark\n\nDriver stacktrace:"

    assert str(Cause.of(JavaError(said))) == f"{LOST}org.apache.spark.api.python.PythonException: {MISMATCH}"


def test_what_java_alone_says_is_its_first_line() -> None:
    cause = Cause.of(
        JavaError(f'{LOST}java.io.IOException: Cannot run program "/nowhere/python"\n\tat java.base')
    )

    assert str(cause) == f'{LOST}java.io.IOException: Cannot run program "/nowhere/python"'
    assert cause.python == ""


def test_a_connection_that_is_gone_is_named_by_its_class() -> None:
    assert str(Cause.of(ConnectionRefusedError("refused"))) == "ConnectionRefusedError: refused"
