# SPDX-License-Identifier: GPL-2.0-only
"""Numbers read from what the tools print."""

import json

import pytest
from paired import workloads
from paired.workloads import ParseError

HACKBENCH = """\
Running in process mode with 4 groups using 40 file descriptors each (== 160 tasks)
Each sender will pass 300 messages of 100 bytes
Time: 4.210
"""
SYSBENCH_CPU = """\
CPU speed:
    events per second:   723.45

General statistics:
    total time:                          4.0012s
    total number of events:              2895

Latency (ms):
         min:                                    1.02
         avg:                                    1.38
         max:                                   31.55
         95th percentile:                       12.10
         sum:                                 3998.12
"""
SYSBENCH_THREADS = """\
General statistics:
    total time:                          4.0000s
    total number of events:              1602

Latency (ms):
         95th percentile:                       23.95
"""
STRESS_NG = """\
stress-ng: info:  [90] setting to a 4 second run per stressor
stress-ng: info:  [90] dispatching hogs: 4 switch
stress-ng: metrc: [90] stressor       bogo ops real time  usr time  sys time   bogo ops/s
stress-ng: metrc: [90]                           (secs)    (secs)    (secs)   (real time)
stress-ng: metrc: [90] switch       138845      4.03      0.12      0.94     34470.14    131895.30
stress-ng: metrc: [90] miscellaneous metrics:
stress-ng: metrc: [90] switch             14872.62 nanosecs per context switch (pipe method)
stress-ng: info:  [90] successful run completed in 4.04s
"""
# Two threads: 4 latencies within the histogram, one of 900 us beyond it.
CYCLICTEST = """\
WARN: not setting cpu_dma_latency from cyclictest
{
  "file_version": 1,
  "return_code": 0,
  "num_threads": 2,
  "thread": {
    "0": {
      "histogram": {
        "50": 1,
        "100": 1
      },
      "cycles": 2,
      "min": 50,
      "max": 100,
      "avg": 75.00,
      "cpu": 0
    },
    "1": {
      "histogram": {
        "50": 1,
        "200": 1
      },
      "cycles": 3,
      "min": 50,
      "max": 900,
      "avg": 383.33,
      "cpu": 1
    }
  }
}
"""


def test_hackbench():
    assert workloads.parse_hackbench(HACKBENCH) == {"time": 4.21}


def test_sysbench_cpu():
    assert workloads.parse_sysbench_cpu(SYSBENCH_CPU) == {"rate": 723.45, "p95": 12.1}


def test_sysbench_threads_becomes_a_rate():
    assert workloads.parse_sysbench_threads(SYSBENCH_THREADS) == {"rate": 400.5, "p95": 23.95}


def test_stress_ng_gives_operations_per_second_of_real_time():
    assert workloads.parse_stress_ng(STRESS_NG) == {"rate": 34470.14}


def test_cyclictest_over_all_threads_and_beyond_its_histogram():
    values = workloads.parse_cyclictest(CYCLICTEST)
    assert values["p50"] == 100
    assert values["p95"] == values["p99"] == values["max"] == 900
    assert values["avg"] == pytest.approx((75 * 2 + 383.33 * 3) / 5)


def test_cyclictest_percentiles_of_one_thread():
    histogram = {str(latency_us): 1 for latency_us in range(1, 101)}
    thread = {"histogram": histogram, "cycles": 100, "max": 100, "avg": 50.5}
    values = workloads.parse_cyclictest(json.dumps({"thread": {"0": thread}}))
    assert values == {"avg": 50.5, "p50": 50, "p95": 95, "p99": 99, "max": 100}


@pytest.mark.parametrize("workload", workloads.base_suite("tcg").values(), ids=lambda w: w.name)
def test_output_without_numbers_is_an_error_and_no_value(workload):
    with pytest.raises(ParseError):
        workload.parse("Killed {\n")


@pytest.mark.parametrize(
    "name, output",
    [
        ("hackbench", HACKBENCH),
        ("sysbench-cpu-4", SYSBENCH_CPU),
        ("sysbench-threads", SYSBENCH_THREADS),
        ("stress-ng-switch", STRESS_NG),
        ("cyclictest-idle", CYCLICTEST),
    ],
)
def test_each_metric_that_is_declared_is_parsed(name, output):
    workload = workloads.base_suite("kvm")[name]
    assert {metric.name for metric in workload.metrics} == set(workload.parse(output))


def test_a_command_of_the_user():
    workload = workloads.from_command("ab -n 100", r"took ([\d.]+) s", "lower", 60)
    assert workload.parse("it took 2.5 s\n") == {"value": 2.5}
    with pytest.raises(ParseError):
        workload.parse("it took long\n")


@pytest.mark.parametrize("pattern", ["took [", "took .* s"])
def test_a_pattern_that_cannot_give_a_number_is_refused(pattern):
    with pytest.raises(ValueError, match="correct it|put the number"):
        workloads.from_command("true", pattern, "lower", 60)
