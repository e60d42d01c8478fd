"""Totals per account, written exactly once. Nothing to configure; also runs in a cell of a notebook."""
# mypy: allow-untyped-defs, allow-untyped-calls

from tidegate import FileSink, KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor


class RunningTotal(KeyedProcessFunction):
    def open(self, context):
        self.total = context.get_state(ValueStateDescriptor("total", default=0))

    def process_element(self, payment, ctx):
        self.total.update(self.total.value() + payment["amount"])
        yield {"account": ctx.get_current_key(), "total": self.total.value()}


env = StreamExecutionEnvironment.get_execution_environment()
payments = env.from_collection([{"account": "ann", "amount": 5}, {"account": "bob", "amount": 7}] * 1000).uid(
    "payments"
)
totals = payments.key_by(lambda p: p["account"]).process(RunningTotal()).uid("totals")
totals.sink_to(FileSink("totals")).uid("files")
print(env.execute("running totals"))
