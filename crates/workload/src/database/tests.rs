use super::*;
use crate::testing::{read, start_service};
use expect_test::{Expect as Snapshot, expect};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Child;

const GOOD: &str = "kind = \"database\"\nserver = \"mariadb\"";

fn check_options(text: &str, expected: &Snapshot) {
    let options = read(text).map(|plan| plan.options.to_string());
    expected.assert_eq(&options.unwrap_or_else(|problems| problems));
}

#[test]
fn a_plan_names_server_scale_and_procedures() {
    check_options(
        GOOD,
        &expect![[
            r#"{"limit_ns":1800000000000,"procedures":[0,1,2,3,4,5,6,7],"scale":0.01,"server":"mariadb"}"#
        ]],
    );
    check_options(
        "kind = \"database\"\nserver = \"postgresql\"\nscale = 1\nlimit = \"10h\"\n\
         procedures = [\"wisconsin\", \"create\", \"create\"]",
        &expect![[
            r#"{"limit_ns":36000000000000,"procedures":[4,7],"scale":1.0,"server":"postgresql"}"#
        ]],
    );
}

#[test]
fn mistakes_are_named_with_line_and_remedy() {
    check_options(
        "kind = \"database\"\nscale = 0\nprocedures = [\"inserts\"]\nlimit = \"1ms\"",
        &expect![[r#"
            plan.toml:1: missing key in the file: server (add server = "mariadb" or "postgresql")
            plan.toml:2: scale out of range: 0 (write above 0 % to 1000 %)
            plan.toml:3: unknown procedure: "inserts" (did you mean "insert"?)
            plan.toml:4: limit below one second: 1ms (write limit = "10m")"#]],
    );
    check_options(
        "kind = \"database\"\nserver = \"mysql\"\nscale = 11\nprocedures = []",
        &expect![[r#"
            plan.toml:2: unknown server: "mysql" (known: mariadb, postgresql)
            plan.toml:3: scale out of range: 11 (write above 0 % to 1000 %)
            plan.toml:4: no procedure in procedures (remove it for all eight)"#]],
    );
}

/// A server on this host; ends when it is dropped.
struct Host {
    server: Server,
    address: SocketAddr,
    process: Child,
    _dir: tempfile::TempDir,
}

impl Host {
    /// Skips the test and returns `None` if this host lacks something.
    fn start(server: Server, place: u8) -> Option<Self> {
        let is_installed = match server {
            Server::Mariadb => Path::new("/usr/sbin/mariadbd").exists(),
            Server::Postgresql => postgresql::programs().is_ok(),
        };
        if !rustix::process::geteuid().is_root() || !is_installed {
            let name = server.name();
            base::skip::skip(&format!("program not installed, or not root: {name}"));
            return None;
        }
        // In memory as in a guest, because each commit would wait for a disk.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let context = WorkloadContext {
            dir: dir.path().join("stage"),
            server: Ipv4Addr::new(127, 77, 0, place),
            ..WorkloadContext::example()
        };
        let service = service(server, &context).unwrap();
        Some(Self {
            server,
            address: server.address(&context),
            process: start_service(&service, dir.path(), &[]),
            _dir: dir,
        })
    }

    fn client(&self) -> Client {
        Client::connect(self.server, self.address, Arc::default()).unwrap()
    }

    /// Fills a procedure's tables, damages them, and returns the error of the procedure.
    fn corrupt(&self, word: &str, damage: &str) -> String {
        let (_, new) = PROCEDURES.iter().find(|(name, _)| *name == word).unwrap();
        let procedure = new(Scale(0.001), 7);
        procedure.fill(&mut self.client()).unwrap();
        self.client().execute(damage).unwrap();
        let why = procedure.query(&mut self.client()).unwrap_err();
        assert!(why.downcast_ref::<Wrong>().is_some(), "{why:#}");
        why.to_string()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn perform_twice(server: Server, place: u8) {
    let Some(host) = Host::start(server, place) else {
        return;
    };
    // The first round must leave no tables behind. Another scale changes every number.
    for scale in [0.001, 0.0042] {
        let progress = Arc::<Progress>::default();
        let procedures = PROCEDURES.map(|(word, new)| (word, new(Scale(scale), 7)));
        let job = ClientJob {
            server,
            address: host.address,
            procedures: procedures.into(),
            progress: Arc::clone(&progress),
        };
        let times = job.perform().unwrap();
        let figures = figures(&times, &progress);
        assert_eq!(figures.len(), 10);
        let sum: f64 = figures[1..9].iter().map(|figure| figure.value).sum();
        assert!(
            (figures[0].value / sum - 1.0).abs() < 1e-6,
            "the total is the sum"
        );
        assert!(progress.ok.load(Ordering::Relaxed) > 1000);
        assert_eq!(progress.errors.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn mariadb_does_all_procedures() {
    perform_twice(Server::Mariadb, 1);
}

#[test]
fn postgresql_does_all_procedures() {
    perform_twice(Server::Postgresql, 2);
}

/// A damage to each procedure's tables: lost rows, wrong values, a missing table.
const DAMAGES: [(&str, &str); 8] = [
    ("alter-table", "update altered set i8 = i8 + 1 where i1 = 7"),
    ("atis", "delete from flight_fare where flight_code = 1"),
    ("big-tables", "update big set i999 = i999 + 1"),
    ("connect", "update met set i = i + 1 where a = 2"),
    ("create", "drop table many_3"),
    ("insert", "delete from bench1 where id = 30"),
    (
        "select",
        "update selected set grp = grp + 100 where idn = 5",
    ),
    (
        "wisconsin",
        "update tenk1 set unique1 = 5000 where unique2 = 100",
    ),
];

/// Damages the tables of each procedure. `missing_table` is the server's error for a missing table.
fn check_damages(server: Server, place: u8, missing_table: &str) {
    let Some(host) = Host::start(server, place) else {
        return;
    };
    let errors = DAMAGES.map(|(word, damage)| format!("{word}: {}", host.corrupt(word, damage)));
    let errors = errors.join("\n").replace(missing_table, "(missing table)");
    expect![[r#"
        alter-table: select count(*), sum(i1), sum(i8), sum(i18) from altered: wrong answer: 50|1275|1626|900, not 50|1275|1625|900
        atis: select count(*), sum(one_way) from flight, flight_fare, fare where flight.flight_code = flight_fare.flight_code and flig...: wrong answer: 59|28738, not 60|29754
        big-tables: select * from big: wrong answer: 0|930275|764448|401085|98329|867076|551634|984443|697583|378637|851796|505960|223225|111510|283509|725109|778049|827101|..., not 0|930275|764448|401085|98329|867076|551634|984443|697583|378637|851796|505960|223225|111510|283509|725109|778049|827101|...
        connect: select * from met order by a: wrong answer: 2|63879|name2, not 2|63878|name2
        create: select s, count(*), sum(i) from many_3 group by s: (missing table)
        insert: select count(*), sum(id), sum(id3) from bench1: wrong answer: 299|44820|44581, not 300|44850|44850
        select: select rev_idn, grp from selected where region = 'f' and idn = 5: wrong answer: 94|149, not 94|49
        wisconsin: select unique1 from tenk1 where unique2 = 100: wrong answer: 5000, not 34"#]].assert_eq(&errors);
}

#[test]
fn damages_of_mariadb_are_detected() {
    let missing_table = "MySqlError { ERROR 1146 (42S02): Table 'bakeoff.many_3' doesn't exist }";
    check_damages(Server::Mariadb, 3, missing_table);
}

#[test]
fn damages_of_postgresql_are_detected() {
    let missing_table = "ERROR: relation \"many_3\" does not exist";
    check_damages(Server::Postgresql, 4, missing_table);
}
