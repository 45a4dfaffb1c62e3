//! Error lines of services.

use std::time::Duration;

use crate::defect_set::LIMIT_PER_KIND;
use crate::kind::{Kind, Severity};
use crate::service_log::{LogFormat, ServiceLog};

fn check(format: LogFormat, log: &str, want: &[(Kind, Severity, &str, u64)]) {
    let mut reader = ServiceLog::new("s", format);
    reader.feed(log.as_bytes());
    reader.feed(b"\n");
    let defects = reader.defects();
    let rows = defects.iter().map(|defect| {
        let top = defect.top.as_str();
        (defect.kind, defect.severity, top, defect.count)
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows, want, "{log}");
}

#[test]
fn apache() {
    check(
        LogFormat::Apache,
        "\
[Mon Nov 23 01:02:03.123456 2026] [mpm_event:notice] [pid 1:tid 2] AH00489: Apache/2.4.62 (Debian) configured
[Mon Nov 23 01:02:03.123456 2026] [core:error] [pid 1:tid 2] (24)Too many open files: [client 10.0.0.2:40000] AH00036: access to /a failed
[Mon Nov 23 01:02:04.123456 2026] [core:error] [pid 3:tid 4] (24)Too many open files: [client 10.0.0.9:40001] AH00036: access to /b failed
[Mon Nov 23 01:02:05.123456 2026] [proxy:crit] [pid 3:tid 4] no workers left: 12
[Mon Nov 23 01:02:05.123456 2026] [core:notice] [pid 1:tid 1] AH00052: child pid 812 exit signal Segmentation fault (11)
[Mon Nov 23 01:02:05.123456 2026] [core:warn] [pid 1:tid 1] AH00045: child process 812 still did not exit, sending a SIGTERM
AH00558: apache2: Could not reliably determine the server's fully qualified domain name",
        &[
            (Kind::ServiceCrash, Severity::Defect, "s: SIGSEGV", 1),
            (Kind::ServiceLog, Severity::Suspicious, "s: AH00036", 2),
            (Kind::ServiceLog, Severity::Defect, "s: no workers left: #", 1),
        ],
    );
}

#[test]
fn nginx() {
    check(
        LogFormat::Nginx,
        "\
2026/11/23 01:02:03 [notice] 1#1: start worker process 12
2026/11/23 01:02:03 [error] 12#12: *45 open() \"/x\" failed (2: No such file or directory), client: 10.0.0.2
2026/11/23 01:02:03 [crit] 12#12: *45 accept4() failed (24: Too many open files), client: 10.0.0.2, server: s
2026/11/23 01:02:04 [crit] 12#12: *46 accept4() failed (24: Too many open files), client: 10.0.0.3, server: s
2026/11/23 01:02:05 [alert] 1#1: worker process 12 exited on signal 11 (core dumped)
2026/11/23 01:02:05 [emerg] 1#1: bind() to 0.0.0.0:80 failed (98: Address already in use)
10.0.0.2 said [alert] 1#1: nothing",
        &[
            (Kind::ServiceCrash, Severity::Defect, "s: SIGSEGV", 1),
            (Kind::ServiceLog, Severity::Suspicious, "s: accept#() failed (#: Too many open files)", 2),
            (Kind::ServiceLog, Severity::Defect, "s: bind() to #.#.#.#:# failed (#: Address already in use)", 1),
        ],
    );
}

#[test]
fn databases() {
    check(
        LogFormat::MariaDb,
        "\
2026-11-23  1:02:03 0 [Note] /usr/sbin/mariadbd: ready for connections.
2026-11-23  1:02:03 45 [Warning] Aborted connection 45 to db: 'x' user: 'y' host: 'z' (Got an error reading packets)
2026-11-23  1:02:03 0 [ERROR] InnoDB: Unable to lock ./ibdata1 error: 11
261123  1:02:03 [ERROR] mariadbd got signal 11 ;",
        &[
            (Kind::ServiceCrash, Severity::Defect, "s: SIGSEGV", 1),
            (Kind::ServiceLog, Severity::Suspicious, "s: InnoDB: Unable to lock ./ibdata# error: #", 1),
        ],
    );
    check(
        LogFormat::PostgreSql,
        "\
2026-11-23 01:02:03.123 UTC [1] LOG:  database system is ready to accept connections
2026-11-23 01:02:03.123 UTC [45] u@d FATAL:  sorry, too many clients already
2026-11-23 01:02:03.123 UTC [45] u@d FATAL:  terminating connection due to administrator command
2026-11-23 01:02:03.123 UTC [45] u@d ERROR:  duplicate key value violates unique constraint
2026-11-23 01:02:03.123 UTC [45] u@d LOG:  statement: select ' PANIC:  no'
2026-11-23 01:02:03.123 UTC [9] PANIC:  could not write to file \"pg_wal/xlogtemp.9\": No space left on device
2026-11-23 01:02:03.123 UTC [1] LOG:  server process (PID 812) was terminated by signal 9: Killed",
        &[
            (Kind::ServiceCrash, Severity::Defect, "s: SIGKILL", 1),
            (
                Kind::ServiceLog,
                Severity::Defect,
                "s: could not write to file \"pg_wal/xlogtemp.#\": No space left on device",
                1,
            ),
            (Kind::ServiceLog, Severity::Suspicious, "s: sorry, too many clients already", 1),
        ],
    );
}

#[test]
fn samba_and_tomcat() {
    check(
        LogFormat::Samba,
        "\
[2026/11/23 01:02:03.123456,  0] ../../source3/smbd/server.c:1784(main)
  smbd version 4.22.6-Debian started.
[2026/11/23 01:02:04.123456,  3] ../../source3/smbd/oplock.c:12(open_it)
  nothing to see
[2026/11/23 01:02:05.123456,  0, pid=812] ../../source3/lib/util_sock.c:12(accept_one)
  accept: Too many open files
[2026/11/23 01:02:06.123456,  0] ../../lib/util/fault.c:172(smb_panic_log)
  INTERNAL ERROR: Signal 11: Segmentation fault in pid 812",
        &[
            (Kind::ServiceCrash, Severity::Defect, "s: SIGSEGV", 1),
            (Kind::ServiceLog, Severity::Suspicious, "s: accept_one", 1),
        ],
    );
    check(
        LogFormat::Tomcat,
        "\
23-Nov-2026 01:02:03.123 INFO [main] org.apache.catalina.startup.Catalina.start Server startup in [812] ms
23-Nov-2026 01:02:03.123 SEVERE [http-nio-8080-exec-7] org.apache.tomcat.util.net.Acceptor.run Socket accept failed
\tjava.io.IOException: Too many open files",
        &[(Kind::ServiceLog, Severity::Suspicious, "s: org.apache.tomcat.util.net.Acceptor.run", 1)],
    );
}

#[test]
fn application_servers() {
    check(
        LogFormat::Wildfly,
        "\
15:29:59,265 INFO  [org.jboss.as.server] WFLYSRV0010: Deployed \"trade.war\"
15:30:01,889 ERROR [org.jboss.as.ejb3.invocation] WFLYEJB0034: Jakarta Enterprise Beans Invocation failed
15:30:02,875 ERROR [org.hibernate.engine.jdbc.spi.SqlExceptionHelper] (conn=18) Table does not exist
\tat org.hibernate@6.6.26.Final//org.hibernate.X.y(X.java:1)",
        &[
            (Kind::ServiceLog, Severity::Suspicious, "s: WFLYEJB0034", 1),
            (Kind::ServiceLog, Severity::Suspicious, "s: org.hibernate.engine.jdbc.spi.SqlExceptionHelper", 1),
        ],
    );
    check(
        LogFormat::OpenLiberty,
        "\
[11/29/26, 15:30:08:511 UTC] 00000022 com.ibm.ws.kernel.feature.internal.FeatureManager            A CWWKF0011I: The trade server is ready
[11/29/26, 15:29:26:830 UTC] 00000030 com.ibm.ws.webcontainer.servlet                              E SRVE0271E: Uncaught init() exception
[11/29/26, 15:30:12:466 UTC] 00000032 eclipselink.server                                           W CWWJP9991W: Failed to find",
        &[(Kind::ServiceLog, Severity::Suspicious, "s: SRVE0271E", 1)],
    );
}

#[test]
fn the_end_of_java_memory() {
    for format in [
        LogFormat::Tomcat,
        LogFormat::Wildfly,
        LogFormat::OpenLiberty,
    ] {
        check(
            format,
            "\
[0.012s][info][gc] Using Serial
[7.712s][info][gc] GC(11) Pause Full (Allocation Failure) 63M->21M(64M) 81.125ms
[7.812s][info][gc] GC(12) Pause Full (Allocation Failure) 63M->62M(64M) 81.125ms
Exception in thread \"http-8080\" java.lang.OutOfMemoryError: Java heap space",
            &[
                (
                    Kind::ServiceLog,
                    Severity::Defect,
                    "s: OutOfMemoryError Java heap space",
                    1,
                ),
                (
                    Kind::ServiceLog,
                    Severity::Defect,
                    "s: heap full after a collection",
                    1,
                ),
            ],
        );
    }
}

#[test]
fn a_log_is_read_in_pieces_and_bounded() {
    let mut reader = ServiceLog::new("nginx", LogFormat::Nginx);
    reader.set_clock(Duration::from_secs(7));
    for number in 0..1000_u32 {
        let name: String = number
            .to_string()
            .bytes()
            .map(|digit| char::from(digit + 49))
            .collect();
        let line = format!("2026/11/23 01:02:03 [crit] 1#1: {name} failed\n");
        for piece in line.as_bytes().chunks(9) {
            reader.feed(piece);
        }
    }
    let defects = reader.defects();
    assert_eq!(defects.len(), LIMIT_PER_KIND + 1);
    assert_eq!(defects.iter().map(|defect| defect.count).sum::<u64>(), 1000);
    assert_eq!(defects[0].first.clock, Some(Duration::from_secs(7)));
}

#[test]
fn a_log_of_another_format_has_no_defects() {
    let formats = [
        LogFormat::Apache,
        LogFormat::Nginx,
        LogFormat::MariaDb,
        LogFormat::PostgreSql,
        LogFormat::Samba,
        LogFormat::Tomcat,
        LogFormat::Wildfly,
        LogFormat::OpenLiberty,
    ];
    for format in formats {
        for line in [
            "",
            "[",
            "]",
            "[]",
            "[a] [",
            "a b SEVERE",
            ":  ",
            "é [crit] é",
            "[,0]",
            "[ERROR] ",
        ] {
            let mut reader = ServiceLog::new("s", format);
            reader.line(line.as_bytes());
            assert_eq!(reader.defects().len(), 0, "{format:?} {line}");
        }
    }
}

#[test]
fn a_worker_killed_on_purpose_is_no_crash() {
    let logs = [
        (
            LogFormat::Apache,
            "[Mon Nov 23 01:02:05.123456 2026] [core:notice] [pid 1:tid 1] AH00052: child pid 812 exit signal Killed (9)\n",
        ),
        (
            LogFormat::Nginx,
            "2026/11/23 01:02:05 [alert] 1#1: worker process 812 exited on signal 9\n",
        ),
        (
            LogFormat::PostgreSql,
            "2026-11-23 01:02:05.123 UTC [1] LOG:  server process (PID 812) was terminated by signal 9: Killed\n",
        ),
    ];
    for (format, line) in logs {
        let mut reader = ServiceLog::new("s", format);
        let crashes = |reader: &ServiceLog| {
            let defects = reader.defects().into_iter();
            defects
                .map(|defect| (defect.top, defect.count))
                .collect::<Vec<_>>()
        };
        reader.ask_end(813);
        reader.feed(line.as_bytes());
        let one_crash = [("s: SIGKILL".to_string(), 1)];
        assert_eq!(crashes(&reader), one_crash, "{format:?}");
        reader.ask_end(812);
        reader.feed(line.as_bytes());
        assert_eq!(crashes(&reader), one_crash, "{format:?}");
        // A later process with the same PID was not announced, and neither was another signal.
        reader.feed(line.as_bytes());
        assert_eq!(crashes(&reader)[0].1, 2, "{format:?}");
        reader.ask_end(812);
        reader.feed(
            line.replace('9', "11")
                .replace("Killed", "Fault")
                .as_bytes(),
        );
        assert_eq!(crashes(&reader).len(), 2, "{format:?}");
    }
}

#[test]
fn a_start_within_the_window_is_a_restart() {
    let logs = [
        (
            LogFormat::Apache,
            "[Mon Nov 23 01:02:05.123456 2026] [mpm_event:notice] [pid 1:tid 1] AH00489: Apache/2.4.62 (Debian) configured -- resuming normal operations\n",
        ),
        (
            LogFormat::MariaDb,
            "2026-11-23  1:02:05 0 [Note] /usr/sbin/mariadbd: ready for connections.\n",
        ),
        (
            LogFormat::PostgreSql,
            "2026-11-23 01:02:05.123 UTC [1] LOG:  database system is ready to accept connections\n",
        ),
    ];
    for (format, line) in logs {
        let mut reader = ServiceLog::new("s", format);
        reader.feed(line.as_bytes());
        assert_eq!(reader.defects(), [], "{format:?}");
        reader.set_clock(Duration::from_secs(7));
        reader.feed(line.as_bytes());
        let defects = reader.defects();
        assert_eq!(
            (defects[0].kind, &*defects[0].top),
            (Kind::ServiceRestart, "s"),
            "{format:?}"
        );
    }
}
