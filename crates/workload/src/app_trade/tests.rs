use super::*;
use expect_test::{Expect as Snapshot, expect};
use record::load::Fault;
use record::load::Tick;
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Child;

use crate::figures::Meter;
use crate::{Control, Watcher};
use crate::{Wrong, testing};

const GOOD: &str = "kind = \"app-trade\"\nclients = 4\nwindow = \"1s\"";

fn read(text: &str) -> Result<Options, String> {
    testing::options(text)
}

fn check_options(text: &str, expected: &Snapshot) {
    let options = read(text).map(|options| serde_json::to_string(&options).unwrap());
    expected.assert_eq(&options.unwrap_or_else(|problems| problems));
}

#[test]
fn a_plan_names_the_clients_and_may_name_the_rest() {
    check_options(
        GOOD,
        &expect![[
            r#"{"clients":4,"application":{"broker":{"accounts":500,"symbols":1000}},"rest":{"least_ns":0,"most_ns":0},"server":"tomcat","database":"mariadb","java":{"heap_bytes":134217728,"collector":"auto","jit":"full"},"warmup_requests":2000,"warmup_ns":2000000000,"window_ns":1000000000,"deadline_ns":10000000000}"#
        ]],
    );
    check_options(
        "kind = \"app-trade\"\nclients = 5000\naccounts = 10000\nsymbols = 1\nthink = \"3s\"\nheap = \"1GiB\"\n\
         server = \"open-liberty\"\ndatabase = \"postgresql\"\ncollector = \"g1\"\njit = \"quick\"\nwarmup_requests = 0\nwarmup = \"0s\"\nwindow = \"1h\"\ndeadline = \"1m\"",
        &expect![[
            r#"{"clients":5000,"application":{"broker":{"accounts":10000,"symbols":1}},"rest":{"least_ns":3000000000,"most_ns":3000000000},"server":"open-liberty","database":"postgresql","java":{"heap_bytes":1073741824,"collector":"g1","jit":"quick"},"warmup_requests":0,"warmup_ns":0,"window_ns":3600000000000,"deadline_ns":60000000000}"#
        ]],
    );
}

#[test]
fn mistakes_are_named_with_line_and_remedy() {
    check_options(
        "kind = \"app-trade\"\naccounts = 0\nsymbols = 200000\nheap = \"1MiB\"\njit = \"none\"\nusers = 7",
        &expect![[r#"
            plan.toml:1: missing key in the file: clients (add clients = 30)
            plan.toml:1: missing key in the file: window (add window = "10s")
            plan.toml:2: accounts out of range: 0 (write 1 to 10000)
            plan.toml:3: symbols out of range: 200000 (write 1 to 100000)
            plan.toml:4: heap out of range: 1.00 MiB (write 32.0 MiB to 64.0 GiB)
            plan.toml:5: unknown jit: "none" (known: full, quick)
            plan.toml:6: unknown key in the file: users (known: accounts, clients, collector, database, deadline, heap, jit, kind, name, server, symbols, think, war, warmup, warmup_requests, window)"#]],
    );
    check_options(
        "kind = \"app-trade\"\nclients = 5001\nthink = \"long\"\nwarmup_requests = -1\nwindow = \"1ms\"\ndeadline = \"0s\"",
        &expect![[r#"
            plan.toml:2: clients out of range: 5001 (write 1 to 5000)
            plan.toml:3: think: not a duration: "long" (write it like "500ms", "10s" or "2h")
            plan.toml:4: warmup_requests out of range: -1 (write 0 to 100000000)
            plan.toml:5: window below one second: 1ms (write window = "10s")
            plan.toml:6: deadline out of range: 0s (write "1ms" to "1h")"#]],
    );
}

#[test]
fn a_users_war_has_a_script_and_no_books() {
    check_options(
        "kind = \"app-trade\"\nclients = 2\nwar = \"./day.war\"\nready = \"/up me\"\nsetup = [\"/build\"]\nwindow = \"1s\"\n\
         script = \"\"\"\nvisit /\npost /buy n=1\n\"\"\"",
        &expect![[
            r#"{"clients":2,"application":{"war":{"file":"./day.war","ready":"/up%20me","setup":["/build"],"script":"visit /\npost /buy n=1\n"}},"rest":{"least_ns":0,"most_ns":0},"server":"tomcat","database":"mariadb","java":{"heap_bytes":134217728,"collector":"auto","jit":"full"},"warmup_requests":2000,"warmup_ns":2000000000,"window_ns":1000000000,"deadline_ns":10000000000}"#
        ]],
    );
    check_options(
        "kind = \"app-trade\"\nclients = 2\nwindow = \"1s\"\nwar = \"..\"\naccounts = 5\nready = \"up\"\nsetup = []",
        &expect![[r#"
            plan.toml:1: missing key in the file: script (add script = "visit /")
            plan.toml:4: not the path of a file: ".." (write war = "./app.war")
            plan.toml:5: accounts of the broker beside war (remove it)
            plan.toml:6: path that does not begin with a slash: "up" (write "/up")
            plan.toml:7: no path (write setup = ["/"])"#]],
    );
    check_options(
        "kind = \"app-trade\"\nclients = 2\nwindow = \"1s\"\nwar = \"a.war\"\nscript = \"\"\"\nvisit\ngo home\n\"\"\"",
        &expect![[r#"
            plan.toml:5: line 1 of script: column 1: wrong number of words after: visit (write it like: visit /page)
            plan.toml:5: line 2 of script: column 4: unknown place: home (write a line like: place buy)"#]],
    );
    check_options(
        "kind = \"app-trade\"\nclients = 2\nwindow = \"1s\"\nscript = \"visit /\"",
        &expect![[r#"plan.toml:4: script without war (add war = "FILE")"#]],
    );
}

#[test]
fn a_war_whose_script_names_contents_is_verified() {
    let accepts_any = |script: &str| {
        let text = format!("{GOOD}\nwar = \"a.war\"\nscript = \"\"\"\n{script}\n\"\"\"");
        testing::read(&text).unwrap().traits.accepts_any_content
    };
    let hash = "0".repeat(64);
    assert!(accepts_any("visit /"));
    assert!(!accepts_any(&format!("visit /\nexpect 200 12 {hash}")));
    assert!(!testing::read(GOOD).unwrap().traits.accepts_any_content);
}

#[test]
fn a_war_whose_script_waits_is_decided_by_its_latency() {
    let waits = |more: &str, script: &str| {
        let text = format!("{GOOD}\nwar = \"a.war\"\n{more}\nscript = \"\"\"\n{script}\n\"\"\"");
        read(&text).unwrap().has_think_times()
    };
    assert!(!waits("", "visit /"));
    assert!(waits("", "visit /\nthink 1s"));
    assert!(waits("think = \"1s\"", "visit /"));
}

#[test]
fn a_file_that_is_no_war_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let check = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let checked = war::check_file(&path)
            .map_err(|why| why.replace(&*dir.path().to_string_lossy(), "DIR"));
        checked.map_or_else(|why| why, |()| "accepted".into())
    };
    let checked = [
        check("a.war", b"PK\x03\x04 WEB-INF/web.xml"),
        check("a.jar", b"PK\x03\x04 META-INF/MANIFEST.MF"),
        check("a.txt", b"WEB-INF/"),
    ];
    assert_eq!(
        checked,
        [
            "accepted",
            "not a WAR: DIR/a.jar (no WEB-INF in it)",
            "not a WAR: DIR/a.txt (not a ZIP)"
        ]
    );
}

#[test]
fn the_seed_determines_accounts_and_visits() {
    let mix = |seed| visits(&Opening::new(500, 1000, seed), 1000, seed);
    assert_eq!(mix(7), mix(7));
    assert_ne!(mix(7), mix(8));
}

#[test]
fn every_visitor_sells_what_it_bought_and_leaves() {
    let mut stream = stream(7, "visits");
    let mut lengths: Vec<_> = (1..=200)
        .map(|account| {
            let visit = visit(account, "secret", 9, &mut stream);
            let form_of = |path: &str| {
                let found = visit.iter().find(|exchange| exchange.path == path).unwrap();
                String::from_utf8(found.body.clone()).unwrap()
            };
            assert_eq!(form_of("/buy"), form_of("/sell"));
            assert_eq!(visit.first().unwrap().path, "/login");
            assert_eq!(visit.last().unwrap().path, "/logout");
            visit.len()
        })
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!(lengths, [12, 13, 14]);
}

/// A database and an application server on this host; they end when it is dropped.
struct Host {
    options: Options,
    context: WorkloadContext,
    processes: Vec<Child>,
    _dir: tempfile::TempDir,
}

impl Host {
    fn start(options: &str, place: u8) -> Option<Self> {
        Self::start_with(options, place, &[])
    }

    /// Starts the services with environment variables. Skips the test and returns `None` if this
    /// host lacks something.
    fn start_with(options: &str, place: u8, env: &[(&str, &str)]) -> Option<Self> {
        let options = read(options).unwrap();
        let root = rustix::process::geteuid().is_root();
        let server = match options.server {
            AppServer::Tomcat => "/usr/share/tomcat10/lib/catalina.jar",
            AppServer::Wildfly => wildfly::HOME,
            AppServer::OpenLiberty => open_liberty::HOME,
        };
        let (database, driver) = match options.database {
            Database::Mariadb => (
                "/usr/sbin/mariadbd",
                "/usr/share/java/mariadb-java-client.jar",
            ),
            Database::Postgresql => ("/usr/lib/postgresql", "/usr/share/java/postgresql.jar"),
        };
        if server.starts_with("/opt/") && !Path::new(server).exists() {
            base::skip::skip("WildFly or Open Liberty is not on this host");
            return None;
        }
        let parts = [server, database, driver];
        if !root || !parts.iter().all(|part| Path::new(part).exists()) {
            base::skip::skip(&format!(
                "no application server with a database, or not root: {parts:?}"
            ));
            return None;
        }
        // In memory as in a guest, because each commit would wait for a disk.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::set_permissions(
            dir.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let context = WorkloadContext {
            dir: dir.path().join("stage"),
            server: Ipv4Addr::new(127, 77, 1, place),
            ..WorkloadContext::example()
        };
        let mut host = Self {
            options,
            context,
            processes: Vec::new(),
            _dir: dir,
        };
        let services = host.options.prepare(&host.context).unwrap();
        for service in &services {
            let process = testing::start_service(service, &host.context.dir, env);
            host.processes.push(process);
        }
        Some(host)
    }

    /// Drives the load. `damage` is a statement that changes the database after the warm-up
    /// requests.
    fn drive(&self, damage: &str) -> Result<Driven> {
        let mut watcher = DamagingWatcher {
            options: &self.options,
            context: &self.context,
            damage,
        };
        let stop = AtomicBool::new(false);
        let mut control = Control {
            stop: &stop,
            watcher: &mut watcher,
        };
        self.options.drive(&self.context, &mut control)
    }

    /// The error of the audit after a damage.
    fn audit_error(options: &str, place: u8, damage: &str) -> Option<String> {
        let host = Self::start(options, place)?;
        let why = host.drive(damage).unwrap_err();
        assert!(why.downcast_ref::<Wrong>().is_some(), "{why:#}");
        Some(format!("{why:#}"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Changes the database between the warm-up requests and the load.
struct DamagingWatcher<'v> {
    options: &'v Options,
    context: &'v WorkloadContext,
    damage: &'v str,
}

impl Watcher for DamagingWatcher<'_> {
    fn begins(&mut self) {
        if !self.damage.is_empty() {
            self.options
                .connect(self.context)
                .unwrap()
                .execute(self.damage)
                .unwrap();
        }
    }

    fn ticks(&mut self, _: Tick) {}
}

/// Few accounts and symbols for many clients, so that trades conflict on the same rows.
const CROWD: &str = "kind = \"app-trade\"\nclients = 12\naccounts = 5\nsymbols = 4\njit = \"quick\"\n\
                     warmup_requests = 200\nwarmup = \"1s\"\nwindow = \"3s\"\ndeadline = \"1m\"";

#[test]
#[ignore = "a Tomcat and a database, 12 s of CPU time: make test-all"]
fn conflicting_trades_neither_create_nor_lose_anything() {
    let Some(host) = Host::start(CROWD, 1) else {
        return;
    };
    let driven = host.drive("").unwrap();
    let meter = Meter {
        window: Duration::from_secs(3),
        services: BTreeMap::from([
            ("tomcat".into(), Duration::from_secs(1)),
            ("mariadbd".into(), Duration::from_secs(1)),
        ]),
        ..Meter::default()
    };
    let seen = Seen {
        driven: &driven,
        meter: &meter,
        samples: &[],
        ns_per_instruction: None,
    };
    let figures = host.options.figures(&seen).unwrap();
    let names: Vec<_> = figures
        .iter()
        .map(|figure| figure.spec.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "transactions",
            "latency-mean",
            "latency-p50",
            "latency-p99",
            "server-cpu",
            "failed",
            "sessions",
            "database-cpu",
            "repeated",
            "collection-time",
            "safepoint-time"
        ]
    );
    let load = driven.load.unwrap();
    assert_eq!(load.fault_count(), 0, "{:?}", load.faults);
    assert!(load.ok > 0);
}

/// The warm-up is a number of requests, so both clients have traded before the damage on any host.
const CALM: &str = "kind = \"app-trade\"\nclients = 2\naccounts = 5\nsymbols = 4\njit = \"quick\"\n\
                    warmup_requests = 60\nwarmup = \"0s\"\nwindow = \"1s\"\nthink = \"100ms\"\ndeadline = \"1m\"";

#[test]
fn a_changed_balance_is_detected() {
    let Some(why) = Host::audit_error(CALM, 2, "update accounts set cash = cash + 1 where id = 3")
    else {
        return;
    };
    expect!["cash was made or lost: select sum(cash) from (select cash from accounts union all select cash from market) as both_sides: wrong answer: 4000503205652, not 4000503205651"].assert_eq(&why);
}

#[test]
fn a_lost_share_is_detected() {
    let damage = "update market set shares = shares - 1 where symbol = 2";
    let Some(why) = Host::audit_error(CALM, 3, damage) else {
        return;
    };
    expect!["shares were made or lost: select symbol, sum(shares) from (select symbol, shares from market union all select symbol, quantity from holdings) as b...: wrong answer: 2|1000002097, not 2|1000002098"].assert_eq(&why);
}

#[test]
fn a_transfer_without_an_order_is_detected() {
    let damage = "update accounts set cash = cash + if(id = 1, 500, -500) where id in (1, 2)";
    let Some(why) = Host::audit_error(CALM, 4, damage) else {
        return;
    };
    expect!["an account's cash is not what its orders make it: select id, sum(cash) from (select id, cash from accounts union all select account, quantity * price from orders) as undo...: wrong answer: 1|100504428, not 1|100503928"].assert_eq(&why);
}

#[test]
fn a_lost_order_is_detected() {
    let Some(why) = Host::audit_error(CALM, 5, "delete from orders limit 1") else {
        return;
    };
    assert!(
        why.starts_with("orders are not the trades that were confirmed: select count(*) from orders: wrong answer: "),
        "{why}"
    );
}

#[test]
fn a_page_of_another_visitor_is_detected() {
    let Some(host) = Host::start(CALM, 6) else {
        return;
    };
    let opening = Opening::new(5, 4, host.context.seed);
    let mut client = host.options.connect(&host.context).unwrap();
    opening.fill(Database::Mariadb, &mut client).unwrap();
    let mut traffic = host.options.traffic(&host.context, visits(&opening, 4, 6));
    let other = &opening.accounts[1];
    let login = format!("user={}&password={}", other.id, other.password);
    traffic.mix = Mix::Sessions(Script::from_visits(vec![vec![
        post("/login", &login, Expect::status(200)),
        Exchange::get("/home", Expect::begins(head("home of 1").into_bytes())),
    ]]));
    (traffic.warmup, traffic.end) = (Duration::ZERO, End::Count(20));
    let load = load::run::run(&traffic, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let wrong = load.faults.get(&Fault::BadContent).copied();
    assert!(load.ok > 0 && wrong.unwrap_or(0) > 0, "{:?}", load.faults);
}

/// A few traders on the same rows; the warm-up is enough for trades to conflict on any host.
fn crowd(server: &str, database: &str) -> String {
    format!(
        "kind = \"app-trade\"\nserver = \"{server}\"\ndatabase = \"{database}\"\nclients = 6\naccounts = 6\nsymbols = 2\n\
         jit = \"quick\"\nwarmup_requests = 400\nwarmup = \"0s\"\nwindow = \"1s\"\ndeadline = \"1m\""
    )
}

fn check_books(server: &str, database: &str, place: u8) {
    let Some(host) = Host::start(&crowd(server, database), place) else {
        return;
    };
    let load = host.drive("").unwrap().load.unwrap();
    assert_eq!(load.fault_count(), 0, "{:?}", load.faults);
    assert!(load.ok > 0);
}

#[test]
fn books_are_right_on_tomcat_with_postgresql() {
    check_books("tomcat", "postgresql", 7);
}

#[test]
fn books_are_right_on_wildfly_with_mariadb() {
    check_books("wildfly", "mariadb", 8);
}

#[test]
fn books_are_right_on_open_liberty_with_postgresql() {
    check_books("open-liberty", "postgresql", 9);
}

/// Trades that read without locks overwrite each other's changes.
#[test]
fn updates_that_are_lost_without_locks_are_detected() {
    let options = crowd("open-liberty", "mariadb");
    let env = [("TRADE_LOCKS", "none")];
    let Some(host) = Host::start_with(&options, 10, &env) else {
        return;
    };
    let why = host.drive("").unwrap_err();
    assert!(why.downcast_ref::<Wrong>().is_some(), "{why:#}");
    assert!(format!("{why:#}").contains("wrong answer"), "{why:#}");
}
