"""The short set: benchmarks that together take at most 10 minutes on two idle cores, by name, in the order in which they run."""

SHORT_SET = {
    "llm_step": "tests.benchmarks.llm_step:benchmark",
    "shared_prefix": "tests.benchmarks.shared_prefix:benchmark",
    "marl_environments": "tests.benchmarks.marl_throughput:environments",
    "marl_training": "tests.benchmarks.marl_throughput:training_compared",
    "imports": "tests.benchmarks.imports:benchmark",
    "log_call": "tests.benchmarks.log_call:benchmark",
    "client_ingest": "tests.benchmarks.client_ingest:benchmark",
    "event_to_pixel": "tests.benchmarks.event_to_pixel:benchmark",
    "first_point": "tests.benchmarks.first_point:benchmark",
    "dashboard": "tests.benchmarks.dashboard:benchmark",
    "search": "tests.benchmarks.search:benchmark",
}
"""Name -> module and the function in it that returns the benchmark; its argument is `small`."""
