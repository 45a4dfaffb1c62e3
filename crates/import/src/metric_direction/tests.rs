use super::*;

/// `+` more is better, `-` less is better, `!` name and unit contradict each other, `?` unknown.
fn sign(metric: &str, unit: &str) -> char {
    match guess(metric, unit) {
        Guess::Known((Direction::Higher, _)) => '+',
        Guess::Known((Direction::Lower, _)) => '-',
        Guess::Contradiction => '!',
        Guess::Unknown => '?',
    }
}

#[track_caller]
fn check(metric: &str, unit: &str, want: char) {
    assert_eq!(sign(metric, unit), want, "{metric} [{unit}]");
}

#[test]
fn a_unit_decides_unless_the_name_contradicts_it() {
    check("anything", "MB/s", '+');
    check("anything", "µs", '-');
    check("cpu", "bogo ops/s", '+');
    check("cpu", "ms", '-');
    check("memory", "MiB/sec", '+');
    check("throughput", "req/s", '+');
}

#[test]
fn a_name_decides_without_a_unit() {
    check("latency-p99", "", '-');
    check("p99", "", '-');
    check("error rate", "", '-');
    check("throughput", "", '+');
    check("value", "", '?');
    check("p4 widgets", "", '?');
}

#[test]
fn a_name_against_its_unit_is_not_guessed() {
    for (metric, unit) in [
        ("failed", "requests/s"),
        ("Failed requests", "req/sec"),
        ("time per request", "requests/s"),
        ("throughput", "ns/op"),
        ("throughput", "ms"),
        ("latency", "MB/s"),
        ("p99", "ops/s"),
        ("timeouts", "req/s"),
        ("dropped packets", "pps"),
        ("score", "seconds"),
        ("uptime", "s"),
        ("cache_hits", "ms"),
        ("responseErrors", "rps"),
        ("retransmits", "Mbits/sec"),
        ("requests per second", "ms"),
        ("goodput", "errors/s"),
        ("wait rate", ""),
        ("HTTPErrors", "req/s"),
        ("walltime", "MB/s"),
        ("numFailures", "ops/s"),
        ("rejected", "transactions/s"),
        ("5xx", "responses/s"),
        ("accuracy", "ms"),
    ] {
        check(metric, unit, '!');
    }
}

/// Metric names of real tools: fio, sysbench, wrk, oha, k6, pgbench and so on.
const REAL_NAMES: &str = "\
    fio          | read bandwidth            | KiB/s       | +
    fio          | write bw_bytes            | B/s         | +
    fio          | iops                      |             | +
    fio          | iops_mean                 |             | +
    fio          | clat                      | usec        | -
    fio          | clat_ns mean              | ns          | -
    fio          | slat                      | ns          | -
    fio          | lat_ns                    | ns          | -
    fio          | clat percentile 99.00     | usec        | -
    fio          | usr_cpu                   | %           | -
    fio          | majf                      |             | -
    fio          | drop_ios                  |             | -
    fio          | total_err                 |             | -
    fio          | iodepth                   |             | ?
    sysbench     | events per second         |             | +
    sysbench     | total number of events    |             | +
    sysbench     | transactions              | per sec     | +
    sysbench     | queries                   | per sec.    | +
    sysbench     | ignored errors            | per sec     | -
    sysbench     | reconnects                | per sec     | -
    sysbench     | latency 95th percentile   | ms          | -
    sysbench     | total time                | s           | -
    sysbench     | threads fairness          |             | ?
    sysbench     | memory                    | MiB/sec     | +
    wrk          | Requests/sec              |             | +
    wrk          | Transfer/sec              | MB          | +
    wrk          | Latency                   | ms          | -
    wrk          | Latency 99%               | ms          | -
    wrk          | Req/Sec                   |             | +
    wrk          | Non-2xx or 3xx responses errors |       | -
    wrk          | Socket errors timeout     |             | -
    ab           | Requests per second       | #/sec       | +
    ab           | Time per request          | ms          | -
    ab           | Transfer rate             | Kbytes/sec  | +
    ab           | Failed requests           |             | -
    ab           | Complete requests         |             | +
    ab           | Concurrency Level         |             | ?
    ab           | Connect                   | ms          | -
    ab           | Waiting                   | ms          | -
    hey          | Requests/sec              | requests/s  | +
    hey          | Slowest                   | secs        | -
    vegeta       | latencies mean            | ns          | -
    vegeta       | throughput                |             | +
    vegeta       | success                   |             | +
    vegeta       | errors                    |             | -
    oha          | requestsPerSec            |             | +
    oha          | successRate               |             | +
    oha          | slowest                   | s           | -
    oha          | sizePerSec                | B/s         | ?
    oha          | failed                    | share       | -
    k6           | http_reqs rate            | /s          | +
    k6           | http_req_duration med     | ms          | -
    k6           | http_req_duration p(95)   | ms          | -
    k6           | http_req_failed rate      | share       | -
    k6           | http_req_waiting avg      | ms          | -
    k6           | http_req_blocked avg      | ms          | -
    k6           | iterations rate           | /s          | +
    k6           | dropped_iterations rate   | share       | -
    k6           | vus value                 |             | ?
    k6           | data_received rate        | /s          | +
    k6           | checks failed             | share       | -
    locust       | Failure Count             |             | -
    reversed     | non-2xx responses         | req/s       | !
    reversed     | unanswered                | req/s       | !
    reversed     | status 503                | req/s       | !
    reversed     | stale reads               | ops/s       | !
    reversed     | perplexity                | score       | !
    reversed     | mean time between failures | h          | !
    reversed     | time between errors       | s           | !
    reversed     | time to first failure     | s           | !
    reversed     | available memory          | MB          | !
    reversed     | memory freed              | MB          | !
    reversed     | time saved                | s           | !
    reversed     | lifetime                  | s           | !
    reversed     | battery time              | h           | !
    reversed     | timer slack               | ms          | !
    reversed     | errors avoided            |             | !
    reversed     | requests per failure      |             | !
    locust       | Requests/s                |             | +
    locust       | Failures/s                |             | -
    locust       | Average Response Time     |             | -
    locust       | 99%                       |             | ?
    gatling      | meanResponseTime          | ms          | -
    gatling      | meanNumberOfRequestsPerSecond |         | +
    jmeter       | Error %                   |             | -
    jmeter       | Throughput                | /sec        | +
    h2load       | time to 1st byte          | ms          | -
    h2load       | req/s                     |             | +
    pgbench      | tps                       |             | +
    pgbench      | latency average           | ms          | -
    pgbench      | latency stddev            | ms          | -
    pgbench      | number of failed transactions |         | -
    pgbench      | number of transactions retried |        | -
    pgbench      | initial connection time   | ms          | -
    pgbench      | number of clients         |             | ?
    hammerdb     | NOPM                      |             | +
    hammerdb     | TPM                       |             | +
    tpcc         | tpmC                      |             | +
    tpcc         | rollbacks                 |             | -
    mysqlslap    | Average number of seconds to run all queries | s | -
    redis        | SET requests per second   |             | +
    redis        | GET avg_latency_ms        |             | -
    redis        | p50_latency_ms            |             | -
    redis        | rps                       |             | +
    memtier      | Ops/sec                   |             | +
    memtier      | Hits/sec                  |             | +
    memtier      | Misses/sec                |             | -
    memtier      | Avg. Latency              |             | -
    memtier      | p99.9 Latency             |             | -
    memtier      | KB/sec                    |             | +
    mutilate     | QPS                       |             | +
    mutilate     | read p95                  | us          | -
    ycsb         | [OVERALL] RunTime(ms)     |             | -
    ycsb         | [OVERALL] Throughput(ops/sec) |         | +
    ycsb         | [READ] AverageLatency(us) |             | -
    ycsb         | [READ] 99thPercentileLatency(us) |      | -
    ycsb         | [READ-FAILED] Operations  |             | -
    ycsb         | [UPDATE] Operations       |             | +
    rocksdb      | fillseq micros/op         |             | -
    rocksdb      | readrandom                | ops/sec     | +
    rocksdb      | stalls                    |             | -
    rocksdb      | bytes per key             |             | -
    kafka        | records/sec               |             | +
    kafka        | MB/sec                    |             | +
    kafka        | avg latency               | ms          | -
    kafka        | throughput                | records/sec | +
    iperf        | bits_per_second           |             | +
    iperf        | sum_sent bandwidth        | bits/s      | +
    iperf        | retransmits               |             | -
    iperf        | jitter_ms                 |             | -
    iperf        | lost_packets              |             | -
    iperf        | lost_percent              |             | -
    iperf        | mean_rtt                  | us          | -
    iperf        | Transfer                  | GBytes/s    | +
    netperf      | THROUGHPUT                | 10^6bits/s  | +
    netperf      | TCP_RR                    | Trans/s     | +
    netperf      | P99_LATENCY               | us          | -
    netperf      | LOCAL_CPU_UTIL            | %           | -
    netperf      | LOCAL_TRANSPORT_RETRANS   |             | -
    sockperf     | avg-latency               | usec        | -
    sockperf     | dropped messages          |             | -
    ping         | rtt avg                   | ms          | -
    ping         | packet loss               | %           | -
    DPDK         | Rx-pps                    |             | +
    DPDK         | RX-missed                 |             | -
    DPDK         | RX-errors                 |             | -
    DPDK         | cycles/packet             |             | -
    phoronix     | Frames Per Second         |             | +
    phoronix     | Compression Rating        | MIPS        | +
    phoronix     | Time To Compile           | Seconds     | -
    phoronix     | Tokens Per Second         |             | +
    phoronix     | Nodes Per Second          |             | +
    phoronix     | CPU Temperature Monitor   | Celsius     | ?
    phoronix     | CPU Power Consumption     | Watts       | -
    phoronix     | Total Score               | Score       | +
    phoronix     | Performance Per Watt      |             | +
    geekbench    | Single-Core Score         |             | +
    linpack      | Rmax                      | GFLOPS      | +
    stream       | Triad                     | MB/s        | +
    stream       | Copy Best Rate            | MB/s        | +
    stress-ng    | bogo ops                  |             | +
    stress-ng    | cpu                       | bogo ops/s  | +
    coremark     | Iterations/Sec            |             | +
    unixbench    | System Benchmarks Index Score |         | +
    7zip         | Total Rating              | MIPS        | +
    stockfish    | nps                       |             | +
    graph500     | median_TEPS               |             | +
    hpcc         | GUPs                      |             | +
    hyperfine    | time                      | s           | -
    hyperfine    | memory                    | B           | -
    hyperfine    | user time                 | s           | -
    go           |                           | ns/op       | -
    go           |                           | B/op        | -
    go           |                           | allocs/op   | -
    go           |                           | MB/s        | +
    go           |                           | p99-ns/op   | -
    go           |                           | errors/s    | -
    go           |                           | req/s       | +
    go           |                           | hits/op     | ?
    go           |                           | STW-ns      | -
    go           |                           | file-bytes  | ?
    go           |                           | build-ns    | -
    go           | p50-latency-us            | p50-latency-us | -
    csv          | build_seconds             |             | -
    nginx        | connections per second    | conn/s      | +
    vmstat       | swap in                   | /s          | ?
    csv          | ops_sec                   |             | +
    csv          | uptime_seconds            |             | +
    google       | real_time                 | ns          | -
    google       | cpu_time                  | ns          | -
    google       | items_per_second          | items/s     | +
    google       | bytes_per_second          | bytes/s     | +
    google       | allocs_per_iter           |             | -
    google       | CacheMisses               |             | -
    google       | CYCLES                    |             | -
    JMH          | thrpt                     | ops/s       | +
    JMH          | avgt                      | ns/op       | -
    JMH          | sample p0.99              | us/op       | -
    JMH          | gc.alloc.rate.norm        | B/op        | -
    JMH          | gc.alloc.rate             | MB/sec      | !
    JMH          | gc.time                   | ms          | -
    criterion    |                           | ns/iteration | -
    perf         | instructions              |             | -
    perf         | cpu-cycles                |             | -
    perf         | insn per cycle            |             | +
    perf         | cycles per instruction    |             | -
    perf         | instructions per cycle    |             | +
    perf         | cache-misses              |             | -
    perf         | branch-misses             |             | -
    perf         | LLC-load-misses           |             | -
    perf         | L1-icache hit rate        |             | +
    perf         | context-switches          |             | ?
    perf         | cpu-migrations            |             | ?
    perf         | page-faults               |             | -
    perf         | task-clock                | msec        | -
    perf         | energy-pkg                | Joules      | -
    perf         | stalled-cycles-frontend   |             | -
    perf bench   | usecs/op                  |             | -
    perf bench   | ops/sec                   |             | +
    hackbench    | Time                      |             | -
    schbench     | Wakeup Latencies 99.0th   | usec        | -
    schbench     | average rps               |             | +
    cyclictest   | Max Latencies             | us          | -
    lkp          | will-it-scale.per_process_ops |         | +
    lkp          | vm-scalability.throughput |             | +
    lkp          | aim7.jobs-per-min         |             | +
    lkp          | netperf.Throughput_Mbps   |             | +
    lkp          | time.elapsed_time         |             | -
    lkp          | time.voluntary_context_switches |       | ?
    lkp          | vmstat.system.cs          |             | ?
    lkp          | proc-vmstat.pgmajfault    |             | -
    mmtests      | Hmean mb/sec              |             | +
    mmtests      | Amean elsp                | s           | -
    vmstat       | interrupts                | /s          | ?
    pidstat      | cswch/s                   |             | ?
    pidstat      | minflt/s                  |             | -
    iostat       | await                     | ms          | -
    iostat       | r_await                   | ms          | -
    iostat       | wkB/s                     |             | +
    mpstat       | %iowait                   |             | -
    mpstat       | %steal                    |             | -
    node         | process_resident_memory_bytes |         | -
    node         | nodejs_eventloop_lag_seconds |          | -
    node         | nodejs_gc_duration_seconds |            | -
    node         | nodejs_heap_size_used_bytes |           | ?
    prometheus   | http_requests_total       |             | +
    prometheus   | http_request_duration_seconds |         | -
    prometheus   | http_requests_failed_total |            | -
    prometheus   | go_goroutines             |             | ?
    prometheus   | process_open_fds          |             | ?
    prometheus   | node_cpu_seconds_total    |             | -
    prometheus   | uptime                    |             | +
    prometheus   | tcp_retransmits_total     | /s          | -
    prometheus   | rate of errors            | errors/s    | -
    prometheus   | scrape timeouts           | timeouts/s  | -
    mlperf       | Samples per second        |             | +
    llama.cpp    | prompt eval time          | ms          | -
    vllm         | Request throughput        | req/s       | +
    vllm         | Mean TTFT                 | ms          | -
    ffmpeg       | fps                       |             | +
    ffmpeg       | speed                     | x           | +
    openssl      | sign/s                    |             | +
    openssl      | rsa2048                   | signs/s     | +
    bitcoin      | hashrate                  | MH/s        | +
";

#[test]
fn real_names_of_many_tools_have_their_direction() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in REAL_NAMES.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, metric, unit, want] = cells[..] else {
            panic!("four columns: {line}");
        };
        let got = sign(metric, unit);
        if !want.starts_with(got) {
            wrong.push(format!("{got} for {line}"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 200, "{count}");
}
