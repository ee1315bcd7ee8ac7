# SPDX-License-Identifier: GPL-2.0-only
"""Numbers read from what the tools print."""

import json
import subprocess

import pytest

from workloads import (
    SUITES,
    Size,
    catalogue,
    cyclictest,
    hackbench,
    make,
    messages,
    nginx,
    perf_bench,
    postgresql,
    redis,
    requests,
    rt_app,
    sockets,
    stress_ng,
    suite,
    sync,
    sysbench,
)
from workloads.workload import ParseError, from_command, is_known, percentile

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
CYCLICTEST_SPUN = """spun, in seconds and turns: 4
spinning
[{"turns": 1000, "longest_gap_s": 0.1}, {"turns": 2000, "longest_gap_s": 0.2}]
"""


REQUESTS = json.dumps(
    {"requests": 1000, "unit": "us", "counts": {"500": 900, "1000": 85, "20000": 15}}
)
PERF_PIPE = """\
# Running 'sched/pipe' benchmark:
# Executed 4000 pipe operations between two processes

     Total time: 0.512 [sec]

     128.112250 usecs/op
           7805 ops/sec
"""
PERF_MESSAGING = """\
# 4 groups == 160 processes run

     Total time: 1.234 [sec]
"""
WRK = """\
Running 4s test @ http://127.0.0.1:18080/page
  2 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     3.50ms    1.02ms  20.00ms   80.00%
  Latency Distribution
     50%  900.00us
     75%    4.10ms
     90%    7.00ms
     99%    1.02s
  8012 requests in 4.01s, 33.1MB read
Requests/sec:   1998.00
Transfer/sec:      8.25MB
"""
PGBENCH = """\
transaction type: <builtin: TPC-B (sort of)>
number of transactions actually processed: 3000
latency average = 10.680 ms
initial connection time = 12.1 ms
tps = 749.063671 (without initial connection time)
"""
SOCKPERF = """\
sockperf: Test ended
sockperf: [Total Run] RunTime=1.001 sec; Warm up time=400 msec; SentMessages=9778; \
ReceivedMessages=9777
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=0.552 sec; SentMessages=4000; ReceivedMessages=4000
sockperf: Summary: Latency is 8.330 usec
"""
IPERF3 = json.dumps({"end": {"sum_received": {"bytes": 2.5e8, "bits_per_second": 2.5e9}}})
MESSAGES = """\
{"requests": 2310, "rate": 4597.1, "unit": "us", "counts": {"2.04": 1300, "10.2": 900, "300": 110}}
"""
DONE = "done 1380418\nrate 2.76066e+06\n"
MAKE = "vaware-wall-seconds 0.540\n"
REDIS = """\
"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",\
"max_latency_ms"
"SET","89285.71","0.204","0.040","0.175","0.415","0.607","1.231"
"""


def test_hackbench():
    assert hackbench.parse(HACKBENCH) == {"time": 4.21}


def test_sysbench_cpu():
    assert sysbench.parse_cpu(SYSBENCH_CPU) == {"rate": 723.45, "p95": 12.1}


def test_sysbench_threads_becomes_a_rate():
    assert sysbench.parse_threads(SYSBENCH_THREADS) == {"rate": 400.5, "p95": 23.95}


def test_stress_ng_gives_operations_per_second_of_real_time():
    assert stress_ng.parse(STRESS_NG) == {"rate": 34470.14}


def test_cyclictest_over_all_threads_and_beyond_its_histogram():
    values = cyclictest.parse(CYCLICTEST)
    assert values["p50"] == 100
    assert values["p95"] == values["p99"] == values["max"] == 900
    assert values["avg"] == pytest.approx((75 * 2 + 383.33 * 3) / 5)


def test_cyclictest_beside_spinners_tells_what_those_did():
    values = cyclictest.parse_one(CYCLICTEST + CYCLICTEST_SPUN)
    assert values["spun"] == 750
    assert values["p50"] == 100


def test_cyclictest_percentiles_of_one_thread():
    histogram = {str(latency_us): 1 for latency_us in range(1, 101)}
    thread = {"histogram": histogram, "cycles": 100, "max": 100, "avg": 50.5}
    values = cyclictest.parse(json.dumps({"thread": {"0": thread}}))
    assert values == {"avg": 50.5, "p50": 50, "p95": 95, "p99": 99, "max": 100}


@pytest.mark.parametrize("workload", catalogue(Size()).values(), ids=lambda w: w.name)
def test_output_without_numbers_is_an_error_and_no_value(workload):
    with pytest.raises(ParseError):
        workload.parse("Killed {\n")
    if workload.latencies:
        with pytest.raises(ParseError):
            workload.latencies("Killed {\n")


@pytest.mark.parametrize(
    "name, output",
    [
        ("hackbench", HACKBENCH),
        ("sysbench-cpu-4", SYSBENCH_CPU),
        ("sysbench-threads", SYSBENCH_THREADS),
        ("stress-ng-switch", STRESS_NG),
        ("cyclictest-idle", CYCLICTEST),
        ("cyclictest-one", CYCLICTEST + CYCLICTEST_SPUN),
        ("requests", REQUESTS),
        ("perf-pipe", PERF_PIPE),
        ("perf-messaging", PERF_MESSAGING),
        ("nginx", WRK),
        ("postgresql", PGBENCH),
        ("tcp-ping-pong", SOCKPERF),
        ("tcp-stream", IPERF3),
        ("messages", MESSAGES),
        ("make", MAKE),
        ("go-ping-pong", DONE),
        ("go-ping-pong-many", DONE),
        ("jvm-fork-join", DONE),
        ("redis", REDIS),
    ],
)
def test_each_metric_that_is_declared_is_parsed(name, output):
    workload = catalogue(Size("kvm"))[name]
    assert {metric.name for metric in workload.metrics} == set(workload.parse(output))


def test_requests_need_samples_enough_for_their_percentile():
    assert requests.parse(REQUESTS) == {"p50": 500, "p95": 1000, "p99": 20000}
    with pytest.raises(ParseError, match="too few"):
        requests.parse(json.dumps({"counts": {"500": 999}}))


def test_rt_app_tells_the_latency_of_each_wake_up():
    row = "   0  25600  301  6092  639409  645501  500  5474  300  6000  {:>10}"
    rows = ["# Policy : SCHED_OTHER priority : 0", "#idx perf run", row.format(113), row.format(90)]
    assert rt_app.latencies("\n".join([*rows, row.format(113)])) == {113: 2, 90: 1}
    enough = [row.format(100)] * 950 + [row.format(4000)] * 50
    assert rt_app.parse("\n".join(enough)) == {"p50": 100, "p95": 100, "p99": 4000}
    with pytest.raises(ParseError, match="too few"):
        rt_app.parse("\n".join(rows))
    with pytest.raises(ParseError, match="nothing"):
        rt_app.parse("\n".join(rows[:2]))
    with pytest.raises(ParseError, match="wu_lat"):
        rt_app.parse("   0  25600  301\n")


def test_sockets_tell_half_a_round_trip_and_what_arrived():
    assert sockets.parse_ping_pong(SOCKPERF) == {"latency": 8.33}
    assert sockets.parse_stream(IPERF3) == {"rate": 2500}


def test_messages_redis_make_and_what_tells_a_rate():
    assert messages.parse(MESSAGES) == {"rate": 4597.1, "p50": 2.04, "p99": 300}
    with pytest.raises(ParseError, match="too few"):
        messages.parse('{"requests": 9, "rate": 18, "counts": {"2": 9}}')
    assert redis.parse(REDIS) == {"rate": 89285.71, "p99": 0.607, "p50": 0.175}
    with pytest.raises(ParseError, match="6.2"):
        redis.parse('"test","rps"\n"SET","89285.71"\n')
    assert make.parse_time(MAKE) == {"time": 0.54}
    assert sync.parse(DONE) == {"rate": 2.76066e6}


@pytest.mark.parametrize(
    "name, output, operations",
    [
        ("perf-pipe", PERF_PIPE, 4000),
        ("sysbench-cpu-4", SYSBENCH_CPU, 2895),
        ("sysbench-threads", SYSBENCH_THREADS, 1602),
        ("stress-ng-switch", STRESS_NG, 138845),
        ("requests", REQUESTS, 1000),
        ("messages", MESSAGES, 2310),
        ("nginx", WRK, 8012),
        ("postgresql", PGBENCH, 3000),
        ("tcp-ping-pong", SOCKPERF, 9777),
        ("tcp-stream", IPERF3, 2000),
        ("barrier-block", DONE, 1380418),
        ("parallel-dynamic", DONE, 1380418),
        ("stages", DONE, 1380418),
        ("shootdown", DONE, 1380418),
        ("go-ping-pong", DONE, 1380418),
        ("jvm-fork-join", DONE, 1380418),
    ],
)
def test_units_of_work_are_read(name, output, operations):
    workload = catalogue(Size("kvm"))[name]
    assert workload.operations(output) == operations
    with pytest.raises(ParseError):
        workload.operations("Killed {\n")


@pytest.mark.parametrize("name", ["hackbench", "perf-messaging", "redis", "make"])
def test_units_of_work_that_are_asked_for_grow_with_the_run(name):
    short, long = (catalogue(Size("kvm", seconds=s))[name].operations("") for s in (1, 4))
    assert long == pytest.approx(4 * short, rel=0.01)


def test_beside_other_work_no_unit_has_a_cost():
    every = catalogue(Size())
    assert every["requests-best-effort"].operations is None
    assert every["parallel-best-effort"].operations is None


def test_perf_nginx_and_postgresql():
    assert perf_bench.parse_pipe(PERF_PIPE) == {"time": 128.11225}
    assert perf_bench.parse_messaging(PERF_MESSAGING) == {"time": 1.234}
    assert nginx.parse(WRK) == {"rate": 1998.0, "p50": 0.9, "p99": 1020.0}
    assert postgresql.parse(PGBENCH) == {"rate": 749.063671, "latency": 10.68}
    with pytest.raises(ParseError, match="failed"):
        nginx.parse(WRK + "  Non-2xx or 3xx responses: 3\n")


@pytest.mark.parametrize(
    "samples, percent, known",
    [(1000, 99, True), (999, 99, False), (10000, 99.9, True), (9999, 99.9, False)],
)
def test_a_percentile_needs_ten_samples_beyond_it(samples, percent, known):
    assert is_known(samples, percent) is known


def test_percentile_is_the_smallest_that_so_many_do_not_exceed():
    counts = {1.0: 90, 10.0: 9, 100.0: 1}
    assert [percentile(counts, p) for p in (50, 90, 91, 99, 100)] == [1, 1, 10, 10, 100]


def test_suites_are_made_of_workloads_that_exist():
    for name in [*SUITES, "full"]:
        assert suite(name, Size())
    assert len(suite("full", Size())) == len(catalogue(Size()))


@pytest.mark.parametrize("vcpus", [1, 4, 16])
def test_sizes_make_sense_with_few_and_many_vcpus(vcpus):
    every = catalogue(Size("virtual", vcpus, vcpus, 0.5))
    threads = max(2, vcpus)  # one alone would wait for nobody
    assert every["barrier-block"].command.endswith(f" {threads} 0.5")
    assert every["parallel-dynamic"].command.endswith(f" {threads} 0.5")
    assert every["jvm-fork-join"].command.endswith(f" {threads} 0.5")
    assert every["go-ping-pong-many"].command.endswith(f" {threads} {vcpus} 0.5")
    bosses, workers, *_ = every["messages"].command.split()[1:]
    assert int(bosses) * int(workers) == threads
    rate, service_us, _, seconds = map(float, every["requests"].command.split()[1:])
    assert rate * service_us / 1e6 == pytest.approx(requests.LOAD_RATIO * vcpus)
    assert rate * seconds >= requests.REQUESTS_WANTED - 1


def test_a_command_without_a_pattern_is_timed():
    workload = from_command("make")
    assert workload.parse("vaware-wall-seconds 9\nnoise\nvaware-wall-seconds 2.5\n") == {
        "time": 2.5
    }
    assert workload.metrics[0].better == "lower"
    done = subprocess.run(
        ["bash", "-c", from_command("sleep 0.2; exit 3").command], capture_output=True, text=True
    )
    assert done.returncode == 3
    assert workload.parse(done.stderr)["time"] >= 0.2


def test_a_command_of_the_user():
    workload = from_command("ab -n 100", r"took ([\d.]+) s", "lower", 60)
    assert workload.parse("it took 2.5 s\n") == {"value": 2.5}
    with pytest.raises(ParseError):
        workload.parse("it took long\n")


@pytest.mark.parametrize("told", ["nan", "inf", "-", "1e999"])
def test_what_is_no_finite_number_is_no_result(told):
    with pytest.raises(ParseError, match="no number"):
        from_command("ab", r"took (\S+) s", "lower", 60).parse(f"it took {told} s")


def test_a_run_in_no_time_has_no_rate():
    with pytest.raises(ParseError, match="no time"):
        sysbench.parse_threads("total time:  0.0000s\ntotal number of events:  7\n")


@pytest.mark.parametrize("pattern", ["took [", "took .* s"])
def test_a_pattern_that_cannot_give_a_number_is_refused(pattern):
    with pytest.raises(ValueError, match="correct it|put the number"):
        from_command("true", pattern, "lower", 60)
