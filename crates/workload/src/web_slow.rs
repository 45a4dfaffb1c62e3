//! `web-slow`: hundreds of clients with modems, and a mix of files and programs.
//!
//! After `SPECweb99`, which Linuxove noviny of September 1999 proposed instead of Mindcraft's fast
//! clients: 500 to 1000 connections of 28.8 or 56 kbit/s, dynamic pages, and more files than
//! memory. A response conforms if it has at least four fifths of its line's speed, including the
//! server's time.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, iter};

use anyhow::{Context, Result};
use load::exchange::Exchange;
use load::expect::Expect;
use load::traffic::Mix;
use plan::Traits;
use plan::fields::Fields;
use record::load::LoadResult;
use record::metric::{Direction, Figure, Role};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::context::WorkloadContext;
use crate::data::stream;
use crate::figures::{self, Seen, secondary};
use crate::options;
use crate::overview::{DEADLINE, Key, Overview};
use crate::probe::Probe;
use crate::service::Service;
use crate::web::{self, Server, SetUp, Web};
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload, disk};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "web-slow",
    |options| Traits {
        is_static: options["dynamic"] == 0.0,
        ..Traits::CLIENTS
    },
    Overview {
        summary: "clients behind slow lines: how many get what their line carries?",
        primary: "conforming",
        machine: &[],
        keys: &[
            Key::new(
                "server",
                &["\"apache\""],
                "or \"nginx\", without dynamic pages",
            ),
            Key::new("connections", &["500"], "clients"),
            Key::new(
                "lines",
                &["[28800, 56000]"],
                "bits per second, which connections have in turn",
            ),
            Key::new(
                "dynamic",
                &["\"30%\""],
                "share of requests that a program answers",
            ),
            Key::new("files", &["\"16MiB\""], "size of all files"),
            Key::new("warmup", &["\"6s\""], "load that is not counted"),
            Key::new("window", &["\"12s\""], "load that is counted"),
            DEADLINE,
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Options {
    #[serde(flatten)]
    web: Web,
    /// Speeds in bits per second, which connections use in turn.
    lines: Vec<u32>,
    /// Share of requests that a program answers.
    dynamic: f64,
    /// Number of files.
    files: u64,
    /// Whether the files are on a disk; otherwise in memory.
    is_on_disk: bool,
}

/// Size of a file: what a modem of 28.8 kbit/s carries in 3.6 s.
const FILE_BYTES: u64 = 12_800;

/// Files in one directory.
const DIRECTORY: u64 = 1000;

/// Number of different pages of the program.
const PAGES: u32 = 16;

/// Least share of the line's speed of a conforming response, counted from its request, in
/// millionths. `SPECweb99` requires 320 of 400 kbit/s.
const CONFORMING_PPM: u64 = 800_000;

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let lines = if fields.takes("lines") {
            fields.counts("lines", 1000..=1_000_000_000)
        } else {
            Some(vec![28_800, 56_000])
        };
        let web = Web::read(fields, "500");
        let dynamic = read_dynamic(fields, web.as_ref());
        let sizes = (1 << 20)..=(1 << 40);
        let bytes = options::bytes(fields, "files", sizes, 1 << 20);
        let is_on_disk = options::flag(fields, "disk", false);
        Some(Self {
            lines: lines?.into_iter().map(|bits| bits as u32).collect(),
            dynamic: dynamic?,
            files: bytes? / FILE_BYTES,
            is_on_disk: is_on_disk?,
            web: web?,
        })
    }
}

/// `SPECweb99` had 30 % of dynamic requests.
fn read_dynamic(fields: &Fields<'_>, web: Option<&Web>) -> Option<f64> {
    let is_apache = web.is_none_or(|web| matches!(web.server, Server::Apache(_)));
    if !fields.takes("dynamic") {
        return Some(if is_apache { 0.3 } else { 0.0 });
    }
    let dynamic = fields.part("dynamic")?;
    if is_apache || dynamic == 0.0 {
        return Some(dynamic);
    }
    let what = "dynamic pages of a server that runs no programs: nginx";
    fields.wrong("dynamic", what, "write 0, or server = \"apache\"");
    None
}

impl Workload for Options {
    fn packages(&self) -> Vec<&str> {
        let mut packages = self.web.packages();
        if self.is_on_disk {
            packages.extend(disk::PACKAGES);
        }
        // The program needs only the perl that every Debian has.
        packages.extend((self.dynamic > 0.0).then_some("perl-base"));
        packages
    }

    fn disk_bytes(&self) -> u64 {
        if self.is_on_disk {
            // A file of 12.5 KiB takes four blocks, and an inode.
            self.files * (16 << 10) + disk::SPARE_BYTES
        } else {
            0
        }
    }

    fn configurable(&self) -> Vec<&'static str> {
        vec![self.web.server.name()]
    }

    fn is_driven_from_outside(&self) -> bool {
        true
    }

    fn is_shareable(&self) -> bool {
        true
    }

    fn takes_addresses(&self) -> bool {
        true
    }

    fn timing(&self) -> Timing {
        self.web.timing
    }

    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        let root = if self.is_on_disk {
            disk::mount(context, self.files)?.join("site")
        } else {
            context.dir.join("site")
        };
        self.write_files(&root, context.seed)
            .with_context(|| format!("write files below {}", root.display()))?;
        if self.is_on_disk {
            disk::forget_cached()?;
        }
        let programs = (self.dynamic > 0.0).then(|| write_program(context));
        let programs = programs.transpose()?;
        let probe = Probe::Http {
            server: context.at(80),
            path: path(0),
            body: Some(Files::new(context.seed).file(0).into()),
        };
        let set_up = SetUp {
            programs,
            ..self.web.set_up(root, probe)
        };
        Ok(vec![self.web.service_of(context, set_up)?])
    }

    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let mut traffic = self.web.traffic(context);
        traffic.mix = Mix::Weighted(self.mix(context.seed));
        traffic.bits_per_s.clone_from(&self.lines);
        web::drive(&traffic, control)
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        let web = figures::web(seen, self.web.server.name())?;
        let load = figures::checked_load(seen)?;
        let share = conforming(load);
        let count = share * load.connections_held as f64;
        let higher = Direction::Higher;
        let mut figures = vec![
            Figure::new("conforming", "connections", higher, Role::Primary, count),
            secondary("conforming-share", "share", higher, share),
        ];
        if let Some(bytes) = memory_each(seen, load) {
            let (unit, lower) = ("KiB/connection", Direction::Lower);
            figures.push(secondary("memory-each", unit, lower, bytes / 1024.0));
        }
        // Throughput depends on the lines, so it is not primary.
        let secondary = figures::decided_by(web, "");
        figures.extend(secondary);
        Ok(figures)
    }
}

impl Options {
    fn write_files(&self, root: &Path, seed: u64) -> std::io::Result<()> {
        let mut files = Files::new(seed);
        for number in 0..self.files {
            let path = root.join(&path(number)[1..]);
            if number % DIRECTORY == 0 {
                let dir = path.parent().expect("a file is in a directory");
                fs::create_dir_all(dir)?;
                fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
                fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
            }
            fs::write(path, files.file(number))?;
        }
        Ok(())
    }

    /// All files with equal weights, and programs with the configured share.
    fn mix(&self, seed: u64) -> Vec<(u32, Exchange)> {
        let mut files = Files::new(seed);
        let files = (0..self.files).map(|number| {
            let sha256 = Sha256::digest(files.file(number)).into();
            Exchange::get(path(number), Expect::hash(FILE_BYTES, sha256))
        });
        let files: Vec<_> = files.collect();
        let count = files.len() as f64;
        // Weights are whole numbers, and their sum must fit in one.
        let unit = (f64::from(1 << 30) / count.max(1.0)).min(1e6);
        let each = (unit * (1.0 - self.dynamic)).round() as u32;
        let page = (unit * self.dynamic * count / f64::from(PAGES)).round() as u32;
        let pages = (0..PAGES).map(|number| {
            let path = format!("/cgi-bin/page?{number}");
            (
                page,
                Exchange::get(path, Expect::body(dynamic_page(number))),
            )
        });
        let pages: Vec<_> = match page {
            0 => Vec::new(),
            _ => pages.collect(),
        };
        files
            .into_iter()
            .map(|file| (each, file))
            .filter(|(weight, _)| *weight > 0)
            .chain(pages)
            .collect()
    }
}

/// Path of a file.
fn path(number: u64) -> String {
    format!("/{:05}/{:03}.html", number / DIRECTORY, number % DIRECTORY)
}

/// Contents of the files: seeded bytes, with the file's number in front.
struct Files(Vec<u8>);

impl Files {
    fn new(seed: u64) -> Self {
        let mut stream = stream(seed, "web-slow");
        let words = iter::repeat_with(|| stream.bits().to_le_bytes());
        Self(words.take(FILE_BYTES as usize / 8).flatten().collect())
    }

    fn file(&mut self, number: u64) -> &[u8] {
        self.0[..8].copy_from_slice(&number.to_le_bytes());
        &self.0
    }
}

/// A CGI program whose page depends on the query.
const PROGRAM: &str = r#"#!/usr/bin/perl
my $number = int($ENV{QUERY_STRING});
my $page = "<html><body>\n";
for my $row (0 .. 199) {
    $page .= sprintf("<p>page %d, row %d: %d</p>\n", $number, $row, ($number * 7919 + $row * 104729) % 1000003);
}
$page .= "</body></html>\n";
print "Content-Type: text/html\r\nContent-Length: ", length($page), "\r\n\r\n", $page;
"#;

/// The page of the program.
fn dynamic_page(number: u32) -> Vec<u8> {
    let number = u64::from(number);
    let rows = (0..200).map(|row| {
        let value = (number * 7919 + row * 104_729) % 1_000_003;
        format!("<p>page {number}, row {row}: {value}</p>\n")
    });
    let rows: String = rows.collect();
    format!("<html><body>\n{rows}</body></html>\n").into_bytes()
}

fn write_program(context: &WorkloadContext) -> Result<PathBuf> {
    let dir = context.make_dir("programs")?;
    let program = context.write("programs/page", PROGRAM)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
        .context("make a program executable")?;
    Ok(dir)
}

/// Share of all responses, including faults, that conform.
fn conforming(load: &LoadResult) -> f64 {
    let right = load.line_share_ppm.recorded();
    let right = right.iter().filter(|(ppm, _)| CONFORMING_PPM <= *ppm);
    let right: u64 = right.map(|(_, count)| count).sum();
    right as f64 / (load.ok + load.fault_count()).max(1) as f64
}

/// Growth of memory use from the start of the load to its maximum, per connection in bytes.
fn memory_each(seen: &Seen<'_>, load: &LoadResult) -> Option<f64> {
    let available = |sample: &record::evidence::Sample| sample.extremes().least_available_bytes;
    let first = seen.samples.first().map(available)?;
    let least = seen.samples.iter().map(available).min()?;
    (load.connections_held > 0)
        .then(|| first.saturating_sub(least) as f64 / load.connections_held as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::load::Fault;
    use std::process::Command;

    #[test]
    fn dynamic_pages_are_optional_and_refused_with_nginx() {
        let wrong = |server: &str, dynamic: &str| {
            let keys = "connections = 5\nfiles = \"16MiB\"\nwindow = \"2s\"";
            let text =
                format!("kind = \"web-slow\"\nserver = \"{server}\"\n{keys}\ndynamic = {dynamic}");
            crate::testing::read(&text).err()
        };
        for server in ["apache", "nginx"] {
            assert_eq!(wrong(server, "0"), None);
            assert_eq!(wrong(server, "\"0%\""), None);
            let above = wrong(server, "1.5").unwrap();
            assert!(above.contains("dynamic out of range: 1.5 (write 0 % to 100 %)"));
        }
        assert_eq!(wrong("apache", "1"), None);
        assert!(wrong("nginx", "0.3").unwrap().contains("write 0, or"));
    }

    #[test]
    fn a_response_conforms_at_four_fifths_of_its_lines_speed() {
        let mut load = LoadResult {
            ok: 3,
            ok_in_window: 3,
            faults: [(Fault::Reset, 1)].into(),
            ..LoadResult::default()
        };
        for ppm in [1_000_000, 810_000, 790_000] {
            load.line_share_ppm.record(ppm);
        }
        assert_eq!(conforming(&load).to_string(), "0.5");
        assert_eq!(conforming(&LoadResult::default()).to_string(), "0");
    }

    #[test]
    fn the_program_makes_the_pages_that_clients_expect() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        fs::write(&path, PROGRAM).unwrap();
        let mut perl = Command::new("perl");
        let output = perl.arg(&path).env("QUERY_STRING", "11").output();
        let response = output.unwrap().stdout;
        let end = response.windows(4).position(|four| four == b"\r\n\r\n");
        assert_eq!(&response[end.unwrap() + 4..], dynamic_page(11));
    }
}
