//! Tests of the bench itself: with the null server, without peers, in a few seconds.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Result, ensure};
use expect_test::expect;
use load::null_server::{NullServer, Settings};
use record::prng::SplitMix64;

use crate::bar;
use crate::child::Runner;
use crate::client::{Engine, Part, ROLE};
use crate::contest::{Contest, Entry, SCENES};
use crate::page;
use crate::peers::{Count, Tool};
use crate::ratio;
use crate::rounds;

type Test = (&'static str, fn() -> Result<()>);

const TESTS: [Test; 7] = [
    ("client is measured", client_is_measured),
    ("failing client fails the bench", failing_client_fails),
    ("summaries are parsed", summaries_are_parsed),
    ("call counters are parsed", call_counters_are_parsed),
    ("intervals have their coverage", intervals_have_coverage),
    ("ratios are within a round", ratios_are_within_a_round),
    ("orders are random", orders_are_random),
];

pub(crate) fn run() -> Result<()> {
    for (name, test) in TESTS {
        test().map_err(|why| why.context(name))?;
        println!("test {name} ... ok");
    }
    Ok(())
}

fn part(server: SocketAddr, body: &Path) -> Part {
    Part {
        server,
        path: "/".into(),
        body: body.into(),
        connections: 2,
        keep_alive: true,
        engine: Engine::Epoll,
        rate_per_s: Some(500.0),
        bits_per_s: Vec::new(),
        sources: 2,
        warmup_ms: 0,
        window_ms: 400,
    }
}

fn client_command(part: &Part) -> Result<Vec<String>> {
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    Ok(vec![program, ROLE.into(), serde_json::to_string(part)?])
}

fn client_is_measured() -> Result<()> {
    let settings = Settings {
        threads: 1,
        bytes: 5,
        ..Settings::default()
    };
    let server = NullServer::start(([127, 0, 0, 1], 0).into(), &settings)?;
    let body = tempfile::NamedTempFile::new()?;
    std::fs::write(body.path(), "abejq")?;
    let runner = Runner::new()?;
    let command = client_command(&part(server.address(), body.path()))?;
    let usage = runner.run_on("0", &command, &mut || {})?;
    let count = Tool::Epoll.count(&usage.stdout)?;
    ensure!((count.requests, count.failed) == (200, 0), "{count:?}");
    ensure!(!usage.cpu.is_zero() && usage.peak_kib > 500, "{usage:?}");
    ensure!(runner.used() == usage.cpu);
    Ok(())
}

fn failing_client_fails() -> Result<()> {
    let part = part("127.0.0.1:1".parse()?, Path::new("/nonexistent"));
    let runner = Runner::new()?;
    // The client's error message would look like a failure of the test.
    let mut command = ["sh", "-c", "exec \"$@\" 2>/dev/null", "sh"]
        .map(str::to_owned)
        .to_vec();
    command.extend(client_command(&part)?);
    ensure!(runner.run_on("0", &command, &mut || {}).is_err());
    Ok(())
}

fn summaries_are_parsed() -> Result<()> {
    let check = |tool: Tool, text: &str, requests, failed, per_s| {
        let seen = tool.count(text)?;
        let right = Count {
            requests,
            failed,
            per_s,
        };
        ensure!(seen == right, "{seen:?} from {text}");
        Ok(())
    };
    let wrk = "  16021 requests in 1.03s, 4.74MB read\nRequests/sec:  15604.35\n";
    check(Tool::Wrk, wrk, 16021, 0, 15604.35)?;
    let errors =
        "  Socket errors: connect 1, read 2, write 0, timeout 4\n  Non-2xx or 3xx responses: 8\n";
    check(Tool::Wrk, &format!("{wrk}{errors}"), 16021, 15, 15604.35)?;
    let h2load = "finished in 1.01s, 39850.00 req/s, 11.97MB/s\n\
                  requests: 39852 total, 39914 started, 39852 done, 39850 succeeded, 2 failed, 0 errored\n";
    check(Tool::H2load, h2load, 39850, 2, 39850.0)?;
    let ab = "Complete requests:      36101\nFailed requests:        3\n\
              Requests per second:    35759.57 [#/sec] (mean)\n";
    check(Tool::Ab, ab, 36101, 3, 35759.57)?;
    let oha =
        r#"{"summary":{"requestsPerSec":812.5},"statusCodeDistribution":{"200":900,"503":7}}"#;
    check(Tool::Oha, oha, 900, 7, 812.5)?;
    for tool in Tool::ALL {
        ensure!(
            tool.count("unable to connect to server").is_err(),
            "{tool:?}"
        );
    }
    let tail = "    Latency     2.69ms  822.20us   1.01s    82.34%\n     99%    5.25ms\n";
    ensure!(bar::wrk_tail(tail) == Some((0.00525, 1.01)));
    let tail = r#"{"summary":{"slowest":1.0},"latencyPercentiles":{"p99":0.9}}"#;
    ensure!(bar::oha_tail(tail) == Some((0.9, 1.0)));
    Ok(())
}

fn call_counters_are_parsed() -> Result<()> {
    let perf = "# started on Sat Nov 21\n\n29,,raw_syscalls:sys_enter,539756,100.00,,\n";
    ensure!(rounds::perf_total(perf) == Some(29));
    let strace = "% time     seconds  usecs/call     calls    errors syscall\n\
                  ------ ----------- ----------- --------- --------- ----------------\n\
                  100.00    0.000120           4        30           write\n\
                  ------ ----------- ----------- --------- --------- ----------------\n\
                  100.00    0.000120           4        30         2 total\n";
    ensure!(rounds::strace_total(strace) == Some(30));
    ensure!(rounds::perf_total("").is_none() && rounds::strace_total("").is_none());
    Ok(())
}

fn intervals_have_coverage() -> Result<()> {
    // Tables of the sign test: at 95 %, 5 values reach no interval, 6 have their range, 10 the
    // second and the ninth, 20 the sixth and the fifteenth.
    for (count, low, high) in [(1, 1, 1), (5, 1, 5), (6, 1, 6), (10, 2, 9), (20, 6, 15)] {
        let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
        let seen = ratio::median(&values);
        let middle = f64::from(count + 1) / 2.0;
        let right = ratio::Median {
            middle,
            low: f64::from(low),
            high: f64::from(high),
        };
        ensure!(seen == right, "{count}: {seen:?}");
    }
    Ok(())
}

fn ratios_are_within_a_round() -> Result<()> {
    let entry = |tool, scale: f64| Entry {
        // The machine is half as fast in the second round.
        cpu_us: vec![2.0 * scale, 4.0 * scale, 2.1 * scale],
        kernel_us: vec![1.5 * scale, 3.0 * scale, 1.6 * scale],
        per_s: vec![1000.0, 900.0, 1100.0],
        peak_kib: 3072,
        calls: Some(0.125),
        ..Entry::new(tool)
    };
    let contest = Contest {
        scene: SCENES[0],
        entries: vec![entry(Tool::Epoll, 0.75), entry(Tool::Wrk, 1.0)],
    };
    let ratio = contest.ratio(Tool::Epoll, Tool::Wrk);
    let shown = ratio.map(page::interval).unwrap_or_default();
    expect!["0.750 [0.750, 0.750]"].assert_eq(&shown);
    ensure!(contest.ratio(Tool::Epoll, Tool::Oha).is_none());
    let mut text = String::new();
    page::scene(&mut text, &contest);
    let row = text
        .lines()
        .find(|line| line.starts_with("| bakeoff"))
        .unwrap_or_default();
    expect!["| bakeoff, epoll | 1.58 | 76 % | 0.750 [0.750, 0.750] | 635000 | 1000 | 0.125 | - | 3.00 MiB | 0 |"]
        .assert_eq(row);
    Ok(())
}

fn orders_are_random() -> Result<()> {
    let mut prng = SplitMix64::new(1);
    let mut firsts = [0; 4];
    for _ in 0..400 {
        let mut places = [0, 1, 2, 3];
        prng.shuffle(&mut places);
        firsts[places[0]] += 1;
        places.sort_unstable();
        ensure!(places == [0, 1, 2, 3]);
    }
    ensure!(
        firsts.iter().all(|count| (70..130).contains(count)),
        "{firsts:?}"
    );
    Ok(())
}
