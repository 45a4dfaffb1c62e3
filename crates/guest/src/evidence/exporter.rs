//! Metrics of Prometheus's `node_exporter` and `windows_exporter`, in their text format.

use anyhow::{Context, Result, ensure};
use load::exchange::Exchange;
use load::expect::Expect;
use load::probe;
use load::server::Server;
use load::traffic::Protocol;
use load::url::{Scheme, Url};

use super::{Boot, Reading};

/// Collectors of `node_exporter` that are queried: a scrape costs the system 2 ms of CPU time, instead of 20 for all.
const COLLECTORS: [&str; 4] = ["cpu", "meminfo", "stat", "uname"];

pub(super) fn read(url: &str) -> Result<Reading> {
    let url = Url::read(url).map_err(anyhow::Error::msg)?;
    ensure!(
        url.scheme == Scheme::Http,
        "exporter is asked over https: {} (write http://)",
        url.host
    );
    let server = Server::reach(&url, None, Protocol::Http1).context("exporter")?;
    let collectors = COLLECTORS
        .map(|name| format!("collect%5B%5D={name}"))
        .join("&");
    let separator = if url.path.contains('?') { '&' } else { '?' };
    let narrow = format!("{}{separator}{collectors}", url.path);
    // windows_exporter refuses collectors that it does not have.
    for path in [narrow, url.path.clone()] {
        let exchange = Exchange::get(path, Expect::status(200));
        let (response, _) = probe::request(&server, &exchange).context("exporter")?;
        if response.status == 200 {
            let text = String::from_utf8_lossy(&response.body);
            return parse(&text)
                .with_context(|| format!("no exporter that is known: {}{} (node_exporter or windows_exporter, with its collector cpu)", server.address, url.path));
        }
    }
    anyhow::bail!(
        "exporter without metrics: {}{} (is that the path?)",
        server.address,
        url.path
    )
}

/// One line of the format: `name{label="value",...} number`.
struct Sample<'t> {
    name: &'t str,
    labels: &'t str,
    value: f64,
}

impl<'t> Sample<'t> {
    fn read(line: &'t str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let (head, value) = match line.rfind('}') {
            Some(end) => (&line[..end], &line[end + 1..]),
            None => line.split_once(' ')?,
        };
        let (name, labels) = head.split_once('{').unwrap_or((head, ""));
        let value = value.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Self {
            name: name.trim(),
            labels,
            value,
        })
    }

    /// A label's value, with its escapes.
    fn label(&self, name: &str) -> Option<&'t str> {
        let mut rest = self.labels;
        loop {
            let (key, after) = rest.split_once("=\"")?;
            let end = unescaped_quote(after)?;
            if key.trim_start_matches([',', ' ']) == name {
                return Some(&after[..end]);
            }
            rest = &after[end + 1..];
        }
    }
}

fn unescaped_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

fn parse(text: &str) -> Option<Reading> {
    let mut sums = Sums::default();
    text.lines()
        .filter_map(Sample::read)
        .for_each(|sample| sums.add(&sample));
    let cpu = (sums.busy + sums.idle > 0.0).then_some((sums.busy, sums.idle))?;
    Some(Reading {
        system: sums.system,
        boot: sums.boot.map(Boot::At),
        cpu: Some(cpu),
        cpus: Some(sums.cpus).filter(|cpus| *cpus > 0.0),
        memory_bytes: sums
            .total
            .zip(sums.free)
            .map(|(total, free)| total - free - sums.caches),
    })
}

#[derive(Default)]
struct Sums {
    busy: f64,
    idle: f64,
    /// Number of idle times, one per CPU.
    cpus: f64,
    total: Option<f64>,
    free: Option<f64>,
    /// Reclaimable caches: without shared memory, which Linux counts as cached.
    caches: f64,
    boot: Option<f64>,
    system: Option<String>,
}

impl Sums {
    fn add(&mut self, sample: &Sample<'_>) {
        let value = sample.value;
        match sample.name {
            "node_cpu_seconds_total" | "windows_cpu_time_total" => match sample.label("mode") {
                Some("idle") => {
                    self.idle += value;
                    self.cpus += 1.0;
                }
                Some("iowait" | "steal") => self.idle += value,
                Some(_) => self.busy += value,
                None => {}
            },
            "node_memory_MemTotal_bytes"
            | "windows_memory_physical_total_bytes"
            | "windows_cs_physical_memory_bytes" => self.total = Some(value),
            "node_memory_Buffers_bytes"
            | "node_memory_Cached_bytes"
            | "node_memory_SReclaimable_bytes" => self.caches += value,
            "node_memory_Shmem_bytes" => self.caches -= value,
            "node_memory_MemFree_bytes"
            | "windows_memory_physical_free_bytes"
            | "windows_os_physical_memory_free_bytes" => self.free = Some(value),
            "node_boot_time_seconds"
            | "windows_system_boot_time_timestamp"
            | "windows_system_boot_time_timestamp_seconds"
            | "windows_system_system_up_time" => self.boot = Some(value),
            "node_uname_info" => {
                let words = ["sysname", "release", "version", "machine"];
                let words: Vec<_> = words.iter().filter_map(|word| sample.label(word)).collect();
                self.system = Some(words.join(" "));
            }
            "windows_os_info" => {
                let words = ["product", "version"]
                    .iter()
                    .filter_map(|word| sample.label(word));
                self.system = Some(words.collect::<Vec<_>>().join(" "));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_exporter_is_read() {
        let text = r##"# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 90
node_cpu_seconds_total{cpu="0",mode="iowait"} 1.5
node_cpu_seconds_total{cpu="0",mode="user"} 7
node_cpu_seconds_total{cpu="1",mode="system"} 1e+01
node_memory_MemTotal_bytes 1e+09
node_memory_MemFree_bytes 3e+08
node_memory_Cached_bytes 1.5e+08
node_memory_Shmem_bytes 5e+07
node_boot_time_seconds 1.7e+09
node_uname_info{domainname="(none)",machine="x86_64",nodename="a \"b\"",release="6.12.1",sysname="Linux",version="#1 SMP"} 1
"##;
        let expected = Reading {
            system: Some("Linux 6.12.1 #1 SMP x86_64".into()),
            boot: Some(Boot::At(1.7e9)),
            cpu: Some((17.0, 91.5)),
            cpus: Some(1.0),
            memory_bytes: Some(6e8),
        };
        assert_eq!(parse(text), Some(expected));
    }

    #[test]
    fn windows_exporter_is_read_and_other_pages_are_not() {
        let text = r#"windows_cpu_time_total{core="0,0",mode="idle"} 30
windows_cpu_time_total{core="0,0",mode="privileged"} 10
windows_os_info{major_version="10",product="Microsoft Windows Server 2022",version="10.0.20348"} 1
"#;
        let reading = parse(text).unwrap();
        assert_eq!((reading.cpu, reading.cpus), (Some((10.0, 30.0)), Some(1.0)));
        // Without idle times the number of CPUs is unknown.
        let busy = "windows_cpu_time_total{core=\"0,0\",mode=\"user\"} 10\n";
        assert_eq!(parse(busy).unwrap().cpus, None);
        assert_eq!(
            reading.system.as_deref(),
            Some("Microsoft Windows Server 2022 10.0.20348")
        );
        assert_eq!(parse("<html>{}</html> 5\n}\n"), None);
    }
}
