use super::*;
use expect_test::expect;
use plan::fields::{Fields, Page};
use record::hardware_counters::HardwareCounters;
use record::protocol::code::{Code, Piece, java_code};
use record::protocol::{ClientsBeside, Part, WorkloadJob};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, io, thread};
use workload::probe::Probe;
use workload::service::Service;

/// What this host lacks for a real job, if anything.
fn obstacle() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root");
    }
    if !Path::new("/usr/sbin/apache2").exists() || !Path::new("/usr/sbin/nginx").exists() {
        return Some("no Apache or no nginx");
    }
    cgroup2().is_none().then_some("no cgroup2 file system")
}

fn cgroup2() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let place = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next() == Some("cgroup2")).then(|| place.to_string())
    })?;
    Some(PathBuf::from(place))
}

fn job(options: &str) -> Job {
    job_of("web-static", options)
}

fn job_of(kind: &str, options: &str) -> Job {
    let text = format!("kind = {kind:?}\n{options}");
    let page = Page::new("plan.toml", &text);
    let table = page.parse();
    let plan = workload::check(&Fields::top(&page, &table));
    let plan = page
        .close(plan)
        .map_err(|problems| problems.to_string())
        .unwrap();
    Job {
        cmdline: String::new(),
        sysctl: [("net.core.somaxconn".to_string(), "2048".to_string())].into(),
        workload: WorkloadJob {
            kind: plan.kind,
            options: plan.options,
        },
        tuning: Tuning::default(),
        disk: None,
        disturbances: Vec::new(),
        seed: 7,
        ns_per_instruction: None,
        profiling: Profiling::None,
        target: None,
        part: Part::Whole,
        ceiling: None,
        one_fewer: false,
        accepts_busy_host: false,
        clients_beside: ClientsBeside::default(),
        servers: Vec::new(),
    }
}

/// Environment variable of a process that runs one test only.
const APART: &str = "BAKEOFF_TEST_APART";

/// Runs the calling test in a separate process, because a job moves its whole process into its cgroup. `false` in that
/// process.
fn ran_apart() -> bool {
    let thread = thread::current();
    let name = thread.name().unwrap();
    // With one thread for all tests, each of them runs in the main thread.
    if name == "main" || env::var_os(APART).is_some() {
        return false;
    }
    let mut test = Command::new(env::current_exe().unwrap());
    test.args(["--exact", name, "--nocapture", "--include-ignored"])
        .env(APART, "1");
    let output = test.output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}", output.status);
    true
}

/// A cgroup that no other test process has.
fn unused_cgroup() -> PathBuf {
    let name = format!("bakeoff-test-{}", std::process::id());
    cgroup2().unwrap().join(name)
}

fn try_on_this_host(job: &Job) -> Option<Result<(JobResult, Vec<FromAgent>), Failure>> {
    try_disturbed(job, &|_, _| {})
}

fn environment(dir: &Path) -> Environment {
    Environment {
        dir: dir.join("stage"),
        cgroup: unused_cgroup(),
        kernel_config: None,
        disk: None,
        seeks: None,
        // Other tests keep this host busy.
        max_idle_wait: Duration::ZERO,
        watches_path: true,
        box_network: None,
    }
}

/// Changes the workload's directory as a phase begins.
type Disturb<'d> = &'d (dyn Fn(Phase, &Path) + Sync);

fn try_disturbed(
    job: &Job,
    disturb: Disturb<'_>,
) -> Option<Result<(JobResult, Vec<FromAgent>), Failure>> {
    if let Some(why) = obstacle() {
        base::skip::skip(&format!("no real job on this host: {why}"));
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    // Users of servers must reach their files in it.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let environment = environment(dir.path());
    fs::create_dir(&environment.dir).unwrap();
    let messages = Mutex::new(Vec::new());
    let report = |message| {
        if let FromAgent::Phase(phase) = message {
            disturb(phase, &environment.dir);
        }
        messages.lock().unwrap().push(message);
    };
    let result = perform(
        job,
        &environment,
        &AtomicBool::new(false),
        &DefectWatch::default(),
        &report,
    );
    // A disk that the test has mounted.
    let _ = unmount(&environment.dir, UnmountFlags::DETACH);
    assert!(!environment.cgroup.exists(), "no cgroup is left behind");
    Some(result.map(|result| (result, messages.into_inner().unwrap())))
}

/// Mounts a disk of this size at the workload's directory.
fn mount_disk(workload_context: &Path, size: &CStr) {
    mount(
        "tmpfs",
        workload_context,
        "tmpfs",
        MountFlags::empty(),
        size,
    )
    .unwrap();
}

fn samples(messages: &[FromAgent]) -> impl Iterator<Item = &record::evidence::Sample> {
    messages.iter().filter_map(|message| match message {
        FromAgent::Sample(sample) => Some(&**sample),
        _ => None,
    })
}

fn check_server(server: &str, service: &str) {
    let options =
        format!("server = {server}\nconnections = 8\nwarmup = \"200ms\"\nwindow = \"1s\"");
    let Some(result) = try_on_this_host(&job(&options)) else {
        return;
    };
    let (result, messages) = result.map_err(|failure| failure.detail).unwrap();
    let load = result.measurement.load.unwrap();
    assert!(load.ok > 0 && load.fault_count() == 0, "{load:?}");
    assert!(messages.contains(&FromAgent::Phase(Phase::Measuring)));
    let window: Vec<_> = samples(&messages)
        .filter(|sample| sample.at_ms > 0)
        .collect();
    // Each begins where the previous one ends, the first at the opening. How late a reading is depends on the host's load.
    let mut covered_ms = 0_i64;
    for sample in &window {
        assert_eq!(sample.at_ms - sample.interval_ms.cast_signed(), covered_ms);
        covered_ms = sample.at_ms;
    }
    assert!(covered_ms > 0, "samples cover the window");
    let names: Vec<_> = window[0]
        .services
        .iter()
        .map(|each| each.service.as_str())
        .collect();
    assert_eq!(names, [CLIENTS, service]);
    assert!(
        window
            .iter()
            .all(|sample| sample.services[1].rss_bytes > 1 << 20)
    );
    let segments: u64 = window.iter().map(|sample| sample.tcp["TcpOutSegs"]).sum();
    assert!(segments > 0, "{:?}", window[0].tcp);
    assert_eq!(result.facts.sysctls["net.core.somaxconn"], "2048");
    assert!(!result.measurement.server.is_empty());
    match result
        .measurement
        .hardware_counters
        .expect("by the wall clock they are asked")
    {
        HardwareCounters::Counted(counted) => {
            let services: Vec<_> = counted.services.keys().collect();
            assert_eq!(services, [service], "and not the clients");
        }
        HardwareCounters::Missing(why) => println!("nothing was counted: {why:?}"),
    }
    let cost_us: Vec<_> = window.iter().map(|sample| sample.cost_us).collect();
    println!(
        "{server}: {} in {covered_ms} ms, a sample costs {cost_us:?} us",
        load.ok
    );
}

#[test]
fn apache_serves_a_real_job() {
    if ran_apart() {
        return;
    }
    check_server("\"apache\"", "apache2");
    check_server(
        "\"apache\"\nmpm = \"prefork\"\nkeep_alive = false",
        "apache2",
    );
    check_server("\"apache\"\nmpm = \"worker\"", "apache2");
}

#[test]
fn servers_have_the_arms_limit_of_open_files() {
    if ran_apart() {
        return;
    }
    for server in ["apache", "nginx"] {
        let mut job = job(&format!(
            "server = {server:?}\nconnections = 4\nwarmup = \"100ms\"\nwindow = \"1s\""
        ));
        job.tuning.nofile = Some(333);
        let Some(result) = try_on_this_host(&job) else {
            return;
        };
        let (result, _) = result.unwrap();
        let facts = result.facts.values.iter();
        let limits = facts.filter(|(fact, _)| fact.ends_with(":open files"));
        let limits: Vec<_> = limits.map(|(_, value)| value.as_str()).collect();
        assert_eq!(limits, ["333"], "{server}");
    }
}

#[test]
fn nginx_serves_a_real_job() {
    if ran_apart() {
        return;
    }
    check_server("\"nginx\"", "nginx");
    check_server("\"nginx\"\nkeep_alive = false", "nginx");
}

#[test]
fn a_real_job_is_sampled_and_its_functions_have_names() {
    if ran_apart() {
        return;
    }
    let options = "server = \"nginx\"\nconnections = 8\nwarmup = \"200ms\"\nwindow = \"1s\"";
    let job = Job {
        profiling: Profiling::Sampled,
        ..job(options)
    };
    let Some(result) = try_on_this_host(&job) else {
        return;
    };
    let (result, messages) = result.map_err(|failure| failure.detail).unwrap();
    let mut session = record::protocol::session::Session::new(record::protocol::Greeting {
        protocol: record::protocol::PROTOCOL,
        build: String::new(),
    });
    let greeting = FromAgent::Hello(record::protocol::Greeting {
        protocol: record::protocol::PROTOCOL,
        build: String::new(),
    });
    session.accept(greeting).unwrap();
    for message in messages {
        session.accept(message).unwrap();
    }
    assert_eq!(
        result.measurement.hardware_counters, None,
        "samples need the counters"
    );
    let bytes = match session.profile() {
        Ok(bytes) => bytes,
        // Without a profile, the job is done, and the message has the remedy.
        Err(why) => {
            assert!(why.contains("perf_event_open failed"), "{why}");
            base::skip::skip("no right to perf_event_open(2)");
            return;
        }
    };
    let profile = format::read(&bytes).unwrap();
    let sampling = profile.sampling.as_ref().unwrap();
    assert!(sampling.samples > 0 && sampling.cpu_ns > 0, "{sampling:?}");
    let names = |kind| {
        let nodes = profile.nodes.iter().filter(move |node| node.kind == kind);
        nodes.map(|node| node.name.as_str()).collect::<Vec<_>>()
    };
    assert!(names(profiler::profile::Kind::Task).contains(&"nginx"));
    assert!(!names(profiler::profile::Kind::User).is_empty());
    let kernel = names(profiler::profile::Kind::Kernel);
    assert!(kernel.contains(&"do_syscall_64"), "{kernel:?}");
    let last = result.measurement.figures.last().unwrap();
    assert_eq!(last.spec.name, "cpu-time");
    assert!(last.value > 0.0);
    let has = |name: &str| sampling.counters.iter().any(|counter| counter.name == name);
    assert!(has("interrupts"), "{:?}", sampling.counters);
}

fn print_figures(kind: &str, result: &JobResult) {
    for figure in &result.measurement.figures {
        println!(
            "{kind}: {} {} {}",
            figure.spec.name, figure.value, figure.spec.unit
        );
    }
}

/// The result of a short job of this kind; `None` where this host cannot run it.
fn run_short(kind: &str, options: &str) -> Option<JobResult> {
    let text = format!("warmup = \"200ms\"\nwindow = \"1s\"\n{options}");
    let result = try_on_this_host(&job_of(kind, &text))?;
    let (result, _) = result.map_err(|failure| failure.detail).unwrap();
    print_figures(kind, &result);
    for curve in &result.measurement.curves {
        println!(
            "{kind}: {} by {}: {:?}",
            curve.name, curve.axis, curve.points
        );
    }
    Some(result)
}

#[test]
fn a_ramp_gives_a_curve_of_all_its_steps() {
    if ran_apart() {
        return;
    }
    let options = "server = \"apache\"\nconnections = [1, 4, 16]";
    let Some(result) = run_short("web-ramp", options) else {
        return;
    };
    let steps: Vec<_> = result.measurement.curves[0]
        .points
        .iter()
        .map(|point| point.at)
        .collect();
    assert_eq!(steps, [1.0, 4.0, 16.0]);
    assert!(
        result
            .measurement
            .curves
            .iter()
            .all(|curve| curve.points[2].value > 0.0)
    );
    assert_eq!(result.measurement.figures[0].spec.name, "peak");
    // Three windows of a second, one after the other.
    let window_s = result.measurement.load.unwrap().window_ns as f64 / 1e9;
    assert!((2.9..4.0).contains(&window_s), "{window_s}");
}

#[test]
fn an_open_ladder_plans_the_rate_of_each_step() {
    if ran_apart() {
        return;
    }
    let options = "server = \"nginx\"\nconnections = 8\nrates = [50, 200]\narrivals = \"constant\"";
    let Some(result) = run_short("web-open", options) else {
        return;
    };
    let rates: Vec<_> = result.measurement.curves[1]
        .points
        .iter()
        .map(|point| point.at)
        .collect();
    assert_eq!(rates, [50.0, 200.0]);
    // A second of each: what is planned depends on nothing but the rate.
    let load = result.measurement.load.as_ref().unwrap();
    assert_eq!(load.planned, 250);
    assert_eq!(load.ok + load.fault_count() + load.unsent, 250);
    assert_eq!(result.measurement.figures[0].spec.name, "latency-p99");
}

#[test]
fn many_users_come_from_addresses_of_their_own() {
    if ran_apart() {
        return;
    }
    let options =
        "server = \"nginx\"\nconnections = 300\naddresses = 300\nthink = \"50ms to 150ms\"";
    let Some(result) = run_short("web-many", options) else {
        return;
    };
    let load = result.measurement.load.unwrap();
    assert_eq!((load.connections_held, load.fault_count()), (300, 0));
    assert_eq!(result.measurement.figures[0].spec.name, "latency-mean");
}

#[test]
fn browsers_play_sessions_with_cookies_and_forms() {
    if ran_apart() {
        return;
    }
    for server in ["apache", "nginx"] {
        let options = format!("server = {server:?}\nconnections = 10");
        let Some(result) = run_short("web-browse", &options) else {
            return;
        };
        let load = result.measurement.load.unwrap();
        assert!(
            load.sessions > 0 && load.fault_count() == 0,
            "{:?}",
            load.faults
        );
    }
}

#[test]
fn slow_lines_conform_with_files_and_programs_of_both_kinds_of_worker() {
    if ran_apart() {
        return;
    }
    for mpm in ["event", "prefork"] {
        let options = format!(
            "server = \"apache\"\nmpm = {mpm:?}\nconnections = 20\nlines = [200000, 400000]"
        );
        let Some(result) = run_short("web-slow", &options) else {
            return;
        };
        let load = result.measurement.load.as_ref().unwrap();
        assert!(load.ok > 0 && load.fault_count() == 0, "{:?}", load.faults);
        // The share depends on how busy the host is.
        assert!((0.0..=1.0).contains(&value(&result, "conforming-share")));
        assert_eq!(load.speed_error_ppm.count(), load.ok);
    }
}

#[test]
fn programs_make_pages_of_what_the_database_says() {
    if ran_apart() {
        return;
    }
    let driver = Command::new("perl")
        .arg("-MDBD::MariaDB")
        .arg("-e1")
        .output();
    let has_driver = driver.is_ok_and(|output| output.status.success());
    if !Path::new("/usr/sbin/mariadbd").exists() || !has_driver {
        base::skip::skip("no MariaDB, or no DBD::MariaDB for Perl");
        return;
    }
    let Some(result) = run_short("web-cgi", "server = \"apache\"\nconnections = 2") else {
        return;
    };
    let load = result.measurement.load.as_ref().unwrap();
    assert!(load.ok > 0 && load.fault_count() == 0, "{:?}", load.faults);
    assert!(value(&result, "database-cpu") > 0.0);
}

/// Whether this host has Tomcat with a database; else the test is skipped.
fn has_tomcat() -> bool {
    let parts = [
        "/usr/sbin/mariadbd",
        "/usr/share/tomcat10/lib/catalina.jar",
        "/usr/share/java/mariadb-java-client.jar",
    ];
    let missing = parts.iter().find(|part| !Path::new(part).exists());
    if let Some(missing) = missing {
        base::skip::skip(&format!("no Tomcat with a database: {missing}"));
    }
    missing.is_none()
}

/// A short job of the brokerage; `None` where this host has no Tomcat or no database.
fn brokerage(env: &[(&str, &str)]) -> Option<Result<(JobResult, Vec<FromAgent>), Failure>> {
    if !has_tomcat() {
        return None;
    }
    let options = "clients = 3\naccounts = 20\njit = \"quick\"\nwarmup_requests = 100\n\
                   warmup = \"1s\"\nwindow = \"3s\"\ndeadline = \"1m\"";
    let mut job = job_of("app-trade", options);
    let env = env
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    job.tuning.env = env.collect();
    job.profiling = Profiling::Counted;
    try_on_this_host(&job)
}

#[test]
fn tomcat_and_a_database_trade() {
    if ran_apart() {
        return;
    }
    let Some(result) = brokerage(&[]) else {
        return;
    };
    let (result, messages) = result.map_err(|failure| failure.detail).unwrap();
    let load = result.measurement.load.as_ref().unwrap();
    assert!(load.ok > 0 && load.fault_count() == 0, "{:?}", load.faults);
    assert_eq!(result.measurement.figures[0].spec.name, "transactions");
    // For profiles: a method that serves each request is compiled, and its page is in memory.
    let mut code = Code::default();
    for message in messages {
        if let FromAgent::Code(part) = message {
            code.add(*part).unwrap();
        }
    }
    let mut methods = code.methods.iter();
    let service = methods.find(|method| method.name == "trade.Trade.serve");
    let service = service.expect("a compiled method");
    let mut files = code.files.iter();
    let compiled = files.find(|file| file.path == java_code(service.process));
    let page = service.address / 4096;
    let is_in = |piece: &Piece| (piece.page..piece.page + piece.pages).contains(&page);
    assert!(compiled.unwrap().pieces.iter().any(is_in), "{service:?}");
    for name in ["transactions", "server-cpu", "database-cpu"] {
        assert!(value(&result, name) > 0.0, "{name}");
    }
    for (setting, expected) in [
        ("heap", "128M"),
        ("compilers", "quick"),
        ("worker-threads", "4"),
        ("database-connections", "3"),
    ] {
        assert_eq!(
            result.facts.values[&format!("java:{setting}")],
            expected,
            "{setting}"
        );
    }
    // Both start by the same prefix, setpriv.
    let hash = |service: &str| &result.facts.values[&format!("hash:server:{service}")];
    assert_ne!(hash("mariadbd"), hash("tomcat"));
    let curves = result.measurement.curves.iter();
    let names: Vec<_> = curves.map(|curve| curve.name.as_str()).collect();
    assert_eq!(names, ["cpu", "collections", "safepoints"]);
    assert!(!result.measurement.curves[0].points.is_empty());
    for setting in ["version", "collector"] {
        assert!(!result.facts.values[&format!("java:{setting}")].is_empty());
    }
    assert!(
        result.measurement.server.contains("MariaDB")
            && result.measurement.server.contains("Apache Tomcat/10"),
        "{}",
        result.measurement.server
    );
}

#[test]
fn a_tomcat_that_does_not_start_is_reported_with_its_log() {
    if ran_apart() {
        return;
    }
    let Some(result) = brokerage(&[("JDK_JAVA_OPTIONS", "-XX:+NoSuchThing")]) else {
        return;
    };
    let failure = result.unwrap_err();
    assert_eq!(failure.reason, VoidReason::ServiceFailed);
    println!("{}", failure.detail);
    let begin = "tomcat ended with exit status: 1\ntomcat.log:\n";
    assert!(failure.detail.starts_with(begin), "{}", failure.detail);
    assert!(failure.detail.contains("NoSuchThing"), "{}", failure.detail);
}

/// A servlet that keeps what it is posted in the data source, and does not start if the database's type is "refused".
const SERVLET: &str = r#"
import jakarta.servlet.*;
import jakarta.servlet.http.*;
import java.io.IOException;
import java.sql.*;
import javax.naming.*;
import javax.sql.DataSource;

public class Notes extends HttpServlet {
    private DataSource source;

    @Override public void init() throws ServletException {
        if (getInitParameter("refuses") != null) throw new ServletException("planted: no notes today");
        try {
            source = (DataSource) new InitialContext().lookup("java:comp/env/jdbc/trade");
        } catch (NamingException why) {
            throw new ServletException(why);
        }
    }

    @Override protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        switch (request.getRequestURI()) {
            case "/create" -> response.getWriter().print(run("create table notes (text varchar(40))"));
            case "/count" -> response.getWriter().print(run("delete from notes where text = 'none'"));
            default -> response.getWriter().print("notes\n");
        }
    }

    @Override protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.getWriter().print(run("insert into notes values ('" + request.getParameter("text") + "')"));
    }

    private int run(String statement) throws IOException {
        try (Connection connection = source.getConnection(); Statement handle = connection.createStatement()) {
            return handle.executeUpdate(statement);
        } catch (SQLException why) {
            throw new IOException(why);
        }
    }
}
"#;

/// The application's description; `parameter` is an element of the servlet.
fn web_xml(parameter: &str) -> String {
    format!(
        "<web-app xmlns=\"https://jakarta.ee/xml/ns/jakartaee\" version=\"6.0\"><servlet><servlet-name>notes</servlet-name>\
         <servlet-class>Notes</servlet-class>{parameter}<load-on-startup>1</load-on-startup></servlet>\
         <servlet-mapping><servlet-name>notes</servlet-name><url-pattern>/</url-pattern></servlet-mapping>\
         <resource-ref><res-ref-name>jdbc/trade</res-ref-name><res-type>javax.sql.DataSource</res-type></resource-ref></web-app>"
    )
}

/// A WAR of a user, compiled as bakeoff compiles the broker's.
fn notes_war(parameter: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("Notes.java");
    fs::write(&source, SERVLET).unwrap();
    let compiled = Command::new("/usr/lib/jvm/default-java/bin/java")
        .args(["-cp", "/usr/share/java/eclipse-jdt-core.jar:/usr/share/java/eclipse-jdt-core-compiler-batch.jar"])
        .args(["org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-proc:none"])
        .args(["-cp", "/usr/share/tomcat10/lib/servlet-api.jar", "-d"])
        .args([dir.path(), &source])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{compiled:?}");
    let class = fs::read(dir.path().join("Notes.class")).unwrap();
    zip(&[
        ("WEB-INF/web.xml", web_xml(parameter).as_bytes()),
        ("WEB-INF/classes/Notes.class", &class),
    ])
}

/// A ZIP without compression.
fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let mut sum = flate2::Crc::new();
        sum.update(content);
        let length = (content.len() as u32).to_le_bytes();
        // Version 2.0, no flags, stored, a date of 1980.
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 33, 0];
        common.extend(sum.sum().to_le_bytes());
        common.extend([length, length].concat());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend((archive.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(name.as_bytes());
        archive.extend(*content);
    }
    let count = (files.len() as u16).to_le_bytes();
    let (begin, length) = (archive.len() as u32, directory.len() as u32);
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count, count].concat());
    archive.extend(length.to_le_bytes());
    archive.extend(begin.to_le_bytes());
    archive.extend([0, 0]);
    archive
}

/// A short job of a user's WAR; `None` where this host lacks the server or a database.
fn try_war(server: &str, war: &[u8]) -> Option<Result<JobResult, Failure>> {
    let options = format!(
        "war = \"./notes.war\"\nserver = {server:?}\nsetup = [\"/create\"]\nclients = 2\njit = \"quick\"\n\
         warmup_requests = 20\nwarmup = \"0s\"\nwindow = \"1s\"\ndeadline = \"1m\"\n\
         script = \"\"\"\nvisit /\npost /note text=a\nvisit /count\n\"\"\""
    );
    let put = |phase, dir: &Path| {
        if phase == Phase::SettingUp {
            let files = dir.join(workload::context::FILES);
            fs::create_dir_all(&files).unwrap();
            fs::write(files.join("notes.war"), war).unwrap();
        }
    };
    let result = try_disturbed(&job_of("app-trade", &options), &put)?;
    Some(result.map(|(result, _)| result))
}

fn check_war(server: &str) {
    if ran_apart() {
        return;
    }
    let home = match server {
        "tomcat" => "/usr/share/tomcat10/lib/catalina.jar",
        "wildfly" => "/opt/wildfly-dist",
        _ => "/opt/openliberty-runtime",
    };
    if !has_tomcat() {
        return;
    }
    if !Path::new(home).exists() {
        base::skip::skip("WildFly or Open Liberty is not on this host");
        return;
    }
    let Some(result) = try_war(server, &notes_war("")) else {
        return;
    };
    let result = result.map_err(|failure| failure.detail).unwrap();
    let load = result.measurement.load.as_ref().unwrap();
    assert!(load.ok > 0 && load.fault_count() == 0, "{:?}", load.faults);
    assert_eq!(result.measurement.figures[0].spec.name, "throughput");
    assert_eq!(result.facts.values["app-trade:audit"], "none");
    assert!(value(&result, "database-cpu") > 0.0);
    let refuses =
        "<init-param><param-name>refuses</param-name><param-value>yes</param-value></init-param>";
    let failure = try_war(server, &notes_war(refuses)).unwrap().unwrap_err();
    println!("{}", failure.detail);
    assert_eq!(failure.reason, VoidReason::ServiceFailed);
    let begin = format!("{server} has not started:\n  ");
    assert!(failure.detail.starts_with(&begin), "{}", failure.detail);
    assert!(
        failure.detail.contains("planted: no notes today"),
        "{}",
        failure.detail
    );
    assert!(!failure.detail.contains('\u{1b}'), "{}", failure.detail);
}

#[test]
fn tomcat_serves_a_users_war_or_tells_why_not() {
    check_war("tomcat");
}

#[test]
fn wildfly_serves_a_users_war_or_tells_why_not() {
    check_war("wildfly");
}

#[test]
fn open_liberty_serves_a_users_war_or_tells_why_not() {
    check_war("open-liberty");
}

#[test]
fn a_soak_has_the_table_of_2004() {
    if ran_apart() {
        return;
    }
    let Some(result) = run_short("web-soak", "server = \"apache\"\nconnections = 6") else {
        return;
    };
    let value = |name| value(&result, name);
    assert!(value("unsuccessful") < 0.5);
    assert!(value("pages") > 0.0 && value("memory") > 1.0);
    assert!(value("cpu-user") + value("cpu-system") > 0.0);
}

fn value(result: &JobResult, name: &str) -> f64 {
    let figure = result
        .measurement
        .figures
        .iter()
        .find(|figure| figure.spec.name == name);
    figure.unwrap().value
}

#[test]
fn every_thread_lives_and_ends() {
    if ran_apart() {
        return;
    }
    let job = job_of("threads", "count = 2000\nat_once = 50");
    let Some(result) = try_on_this_host(&job) else {
        return;
    };
    let (result, messages) = result.map_err(|failure| failure.detail).unwrap();
    let (total, each) = (value(&result, "total-time"), value(&result, "per-thread"));
    println!("threads: {total} s, {each} us each");
    // No warm-up: every sample is of the window.
    assert!(samples(&messages).count() > 0);
    assert!(samples(&messages).all(|sample| sample.at_ms > 0));
    assert!((total * 1e6 / 2000.0 - each).abs() < 1e-6 && each > 0.5);
}

#[test]
fn short_work_is_timed_among_few_and_many_tasks() {
    if ran_apart() {
        return;
    }
    let Some(result) = run_short("interactive", "tasks = [0, 32]") else {
        return;
    };
    for curve in &result.measurement.curves {
        let tasks: Vec<_> = curve.points.iter().map(|point| point.at).collect();
        assert_eq!(tasks, [0.0, 32.0], "{}", curve.name);
    }
    // The order is certain within a step, but not between steps.
    let [p50, p99, max] = [0, 1, 2].map(|curve| &result.measurement.curves[curve].points);
    for step in 0..2 {
        let waits = [p50[step].value, p99[step].value, max[step].value];
        assert!(waits.is_sorted() && waits[0] > 0.0, "{waits:?}");
    }
}

#[test]
fn tasks_in_epoll_are_woken_all_and_those_in_accept_one_by_one() {
    if ran_apart() {
        return;
    }
    let job = job_of("accept", "waiters = [1, 32]\nwindow = \"1s\"");
    let Some(result) = try_on_this_host(&job) else {
        return;
    };
    let (result, _) = result.map_err(|failure| failure.detail).unwrap();
    print_figures("accept", &result);
    let wake_one = value(&result, "wakeups-wake-one");
    let wake_all = value(&result, "wakeups-wake-all");
    // Tasks of a busy host that have not gone to sleep again need not be woken, so neither number is certain.
    assert!(
        wake_one < 1.1 && wake_one < wake_all,
        "{wake_one} {wake_all}"
    );
}

const SMB: &str = "applications = [\"EXCEL\"]\nwarmup = \"1s\"\nwindow = \"3s\"";

/// A job with Samba on this host, if it has Samba.
fn try_samba(job: &Job, disturb: Disturb<'_>) -> Option<Result<JobResult, Failure>> {
    let parts = [
        "sbin/smbd",
        "bin/smbtorture",
        "bin/smbclient",
        "share/dbench/client.txt",
    ];
    let missing = parts
        .into_iter()
        .find(|part| !Path::new("/usr").join(part).exists());
    if let Some(why) = missing {
        base::skip::skip(&format!("no Samba with its test programs: {why}"));
        return None;
    }
    Some(try_disturbed(job, disturb)?.map(|(result, _)| result))
}

#[test]
fn samba_serves_a_real_job() {
    if ran_apart() {
        return;
    }
    let job = job_of("smb", &format!("clients = 3\n{SMB}"));
    let Some(result) = try_samba(&job, &|_, _| {}) else {
        return;
    };
    let result = result.map_err(|failure| failure.detail).unwrap();
    print_figures("smb", &result);
    assert_eq!(result.measurement.figures[0].spec.name, "throughput");
    assert!(value(&result, "throughput") > 0.0);
    assert!(value(&result, "read-mean") > 0.0 && value(&result, "open-mean") > 0.0);
    assert!(value(&result, "errors") < 0.5);
    assert!(
        result.measurement.server.starts_with("smbd 4"),
        "{}",
        result.measurement.server
    );
}

#[test]
#[ignore = "Samba at two steps, 13 s of CPU time: make test-all"]
fn more_and_more_samba_clients_give_a_curve() {
    if ran_apart() {
        return;
    }
    let job = job_of("smb-ramp", &format!("clients = [1, 4]\n{SMB}"));
    let Some(result) = try_samba(&job, &|_, _| {}) else {
        return;
    };
    let result = result.map_err(|failure| failure.detail).unwrap();
    let points = &result.measurement.curves[0].points;
    println!("smb-ramp: {points:?}");
    assert!(points.iter().all(|point| point.value > 0.0));
    assert_eq!(
        points.iter().map(|point| point.at).collect::<Vec<_>>(),
        [1.0, 4.0]
    );
    assert_eq!(result.measurement.figures[0].spec.name, "peak");
}

#[test]
fn a_file_that_changes_on_the_share_voids_the_trial() {
    if ran_apart() {
        return;
    }
    let job = job_of("smb", &format!("clients = 1\n{SMB}"));
    let corrupt = |phase, dir: &Path| {
        if phase != Phase::Measuring {
            return;
        }
        let file = dir.join("smb/share/deposit");
        let mut bytes = fs::read(&file).unwrap();
        bytes[1 << 20] ^= 1;
        fs::write(file, bytes).unwrap();
    };
    let Some(result) = try_samba(&job, &corrupt) else {
        return;
    };
    let failure = result.unwrap_err();
    assert_eq!(failure.reason, VoidReason::CheckFailed);
    let what = "file on the share did not come back as it was: 4194304 bytes";
    assert!(failure.detail.contains(what), "{}", failure.detail);
}

#[test]
fn a_full_disk_under_the_share_voids_the_trial() {
    if ran_apart() {
        return;
    }
    let job = job_of(
        "smb",
        "clients = 8\napplications = [\"SEED\"]\nwindow = \"3s\"",
    );
    let shrink = |phase, dir: &Path| {
        if phase == Phase::SettingUp {
            mount_disk(dir, c"size=20m");
        }
    };
    let Some(result) = try_samba(&job, &shrink) else {
        return;
    };
    let failure = result.unwrap_err();
    assert_eq!(failure.reason, VoidReason::CheckFailed);
    assert!(
        failure.detail.contains("NT_STATUS_DISK_FULL"),
        "{}",
        failure.detail
    );
}

#[test]
fn a_samba_that_does_not_start_is_reported_with_its_log() {
    if ran_apart() {
        return;
    }
    let mut job = job_of("smb", &format!("clients = 1\n{SMB}"));
    job.tuning.config = "passdb backend = nonsense".into();
    let Some(result) = try_samba(&job, &|_, _| {}) else {
        return;
    };
    let failure = result.unwrap_err();
    assert_eq!(failure.reason, VoidReason::ServiceFailed);
    println!("{}", failure.detail);
    assert!(
        failure
            .detail
            .contains("smbd ended with exit status: 1\nsmbd.log:")
    );
    assert!(failure.detail.contains("nonsense"), "{}", failure.detail);
}

#[test]
fn a_service_that_ends_is_reported_with_its_log() {
    if ran_apart() {
        return;
    }
    if let Some(why) = obstacle() {
        base::skip::skip(&format!("no real job on this host: {why}"));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let cgroups = Cgroups::make(&unused_cgroup()).unwrap();
    let netns = NetnsPair::create().unwrap();
    let command = ["/bin/sh", "-c", "echo no such module >&2; exit 3"];
    let service = Service {
        name: "doomed".into(),
        command: command.map(String::from).into(),
        logs: Vec::new(),
        configuration: Vec::new(),
        probe: Probe::Http {
            server: (SERVER, 80).into(),
            path: "/".into(),
            body: None,
        },
        patience: Duration::from_secs(60),
        version: Vec::new(),
        start_failure: None,
        java: None,
    };
    let mut running =
        services::start(service, &Tuning::default(), &netns, &cgroups, dir.path()).unwrap();
    let stop = AtomicBool::new(false);
    let why = running.wait_until_it_answers(&netns, &stop).unwrap_err();
    expect![[r#"
        doomed ended with exit status: 3
        doomed.log:
          no such module"#]]
    .assert_eq(&why);
}

#[test]
fn a_job_that_is_stopped_says_so_and_leaves_nothing() {
    if ran_apart() {
        return;
    }
    if let Some(why) = obstacle() {
        base::skip::skip(&format!("no real job on this host: {why}"));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let environment = environment(dir.path());
    let stop = AtomicBool::new(false);
    // The host stops the job in the middle of a window of an hour.
    let report = |message| {
        if message == FromAgent::Phase(Phase::Measuring) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let job = job("server = \"nginx\"\nconnections = 2\nwarmup = \"100ms\"\nwindow = \"1h\"");
    let failure = perform(&job, &environment, &stop, &DefectWatch::default(), &report).unwrap_err();
    assert_eq!(failure.detail, "stopped by the host");
    assert!(!environment.cgroup.exists(), "no cgroup is left behind");
}

/// A short job of the database workload; `None` where this host has no such server.
fn database(
    server: &str,
    program: &Path,
    config: &str,
) -> Option<Result<(JobResult, Vec<FromAgent>), Failure>> {
    if !program.exists() {
        base::skip::skip(&format!("program not installed: {}", program.display()));
        return None;
    }
    let procedures = "[\"alter-table\", \"connect\", \"select\"]";
    let options =
        format!("server = {server:?}\nscale = 0.002\nprocedures = {procedures}\nlimit = \"5m\"");
    let mut job = job_of("database", &options);
    job.tuning.config = config.into();
    try_on_this_host(&job)
}

/// Each server's name in plans, its program, and the name of its service.
fn databases() -> [(&'static str, PathBuf, &'static str); 2] {
    // Debian has a directory for each major version; clients alone have one too.
    let versions = Path::new("/usr/lib/postgresql").read_dir();
    let programs = versions
        .into_iter()
        .flatten()
        .map(|version| version.unwrap().path().join("bin/postgres"));
    let postgres = programs.into_iter().find(|program| program.exists());
    let postgres = postgres.unwrap_or("/usr/lib/postgresql/*/bin/postgres".into());
    [
        ("mariadb", "/usr/sbin/mariadbd".into(), "mariadbd"),
        ("postgresql", postgres, "postgres"),
    ]
}

#[test]
fn databases_do_a_real_job_that_ends_before_its_limit() {
    if ran_apart() {
        return;
    }
    for (server, program, service) in databases() {
        // Both servers have this one, and bakeoff sets it too.
        let Some(result) = database(server, &program, "max_connections = 90") else {
            continue;
        };
        let (result, messages) = result.map_err(|failure| failure.detail).unwrap();
        let figures = result
            .measurement
            .figures
            .iter()
            .map(|figure| figure.spec.name.as_str());
        let names = [
            "total-time",
            "alter-table",
            "connect",
            "select",
            "errors",
            "server-cpu",
        ];
        assert_eq!(figures.collect::<Vec<_>>(), names);
        let figure = |name| value(&result, name);
        println!("{server}: {:?}", result.measurement.figures);
        assert!(figure("errors") < 0.5);
        assert!(figure("server-cpu") > 0.0, "{}", figure("server-cpu"));
        // The samples cover the drive, and end with it instead of with the limit of 5 minutes.
        let length_ms: u64 = samples(&messages).map(|sample| sample.interval_ms).sum();
        let total_ms = figure("total-time") * 1e3;
        assert!(
            total_ms - 1000.0 < length_ms as f64 && length_ms < 299_000,
            "{length_ms} {total_ms}"
        );
        assert!(samples(&messages).all(|sample| sample.at_ms > 0));
        let first = samples(&messages).next().unwrap();
        assert_eq!(first.services[1].service, service);
        assert!(
            result
                .measurement
                .server
                .to_lowercase()
                .contains(&server[..7]),
            "{}",
            result.measurement.server
        );
    }
}

#[test]
fn a_database_that_does_not_start_is_reported_with_its_log() {
    if ran_apart() {
        return;
    }
    for (server, program, _) in databases() {
        let Some(result) = database(server, &program, "no_such_setting = 1") else {
            continue;
        };
        let failure = result.unwrap_err();
        assert!(
            failure.detail.contains("no_such_setting"),
            "{}",
            failure.detail
        );
    }
}

#[test]
fn a_full_disk_under_a_database_voids_the_trial() {
    if ran_apart() {
        return;
    }
    let fill = |phase, dir: &Path| match phase {
        Phase::SettingUp => mount_disk(dir, c"size=400m"),
        Phase::WarmingUp => {
            let ballast = fs::File::create(dir.join("ballast")).unwrap();
            let why = io::copy(&mut io::repeat(1), &mut &ballast).unwrap_err();
            assert_eq!(why.kind(), io::ErrorKind::StorageFull);
        }
        Phase::Starting | Phase::Settling | Phase::Measuring | Phase::Collecting => {}
    };
    for (server, program, _) in databases() {
        if !program.exists() {
            base::skip::skip(&format!("program not installed: {}", program.display()));
            continue;
        }
        let options = format!("server = {server:?}\nscale = 0.01\nprocedures = [\"insert\"]");
        let Some(result) = try_disturbed(&job_of("database", &options), &fill) else {
            return;
        };
        let failure = result.unwrap_err();
        println!("{server}: {:?} {}", failure.reason, failure.detail);
        assert!(
            failure.detail.contains("No space left"),
            "{}",
            failure.detail
        );
    }
}

#[test]
fn an_unknown_sysctl_fails_the_job_by_name() {
    if ran_apart() {
        return;
    }
    let mut job = job("server = \"nginx\"\nconnections = 1\nwindow = \"1s\"");
    job.sysctl
        .insert("net.ipv4.no_such_thing".into(), "1".into());
    let Some(result) = try_on_this_host(&job) else {
        return;
    };
    let failure = result.unwrap_err();
    assert_eq!(failure.reason, VoidReason::SettingRefused);
    assert!(
        failure.detail.contains("no sysctl net.ipv4.no_such_thing"),
        "{failure:?}"
    );
}
