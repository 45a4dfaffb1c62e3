//! Real servers for tests. Each is one process on a free port, with all its files in a temporary
//! directory. The system's services are not touched.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::program::are_installed;

/// Limit of the time until a server listens.
const START_LIMIT: Duration = Duration::from_secs(600);

/// Number of ports to try, because another process may take a free port first.
const TRIES: u32 = 5;

/// Configuration of nginx for https, with the files of `site`.
pub(crate) const SECURE: &str =
    "ssl_certificate DIR/site/cert.pem; ssl_certificate_key DIR/site/key.pem;";

/// Content of `/page.html` on every server.
pub(crate) const PAGE: &str = "hello from a real server\n";

/// Size of `/large.txt`, which needs more than one read.
pub(crate) const LARGE_BYTES: usize = 300_000;

/// A running server; it is killed when this is dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) dir: TempDir,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts nginx with these lines in its `http` and `server` blocks. `words`, such as `ssl`,
    /// follow the port.
    pub(crate) fn nginx(words: &str, http: &str, server: &str) -> Option<Self> {
        start("/usr/sbin/nginx", &["-c"], |dir, address| {
            // A single process, so that none is left when it is killed.
            format!(
                "daemon off;
                master_process off;
                pid {dir}/pid;
                error_log {dir}/error.log;
                events {{ worker_connections 512; }}
                http {{
                    access_log off;
                    keepalive_requests 1000000;
                    client_body_temp_path {dir}/body;
                    proxy_temp_path {dir}/proxy;
                    fastcgi_temp_path {dir}/fastcgi;
                    uwsgi_temp_path {dir}/uwsgi;
                    scgi_temp_path {dir}/scgi;
                    {http}
                    server {{
                        listen {address} {words};
                        root {dir}/site;
                        location = /status {{ stub_status; }}
                        {server}
                    }}
                }}\n",
                http = http.replace("DIR", dir),
                server = server.replace("DIR", dir),
            )
        })
    }

    /// Starts Apache with these lines at the end of its configuration.
    pub(crate) fn apache(lines: &str) -> Option<Self> {
        const MODULES: &str = "/usr/lib/apache2/modules";
        start("/usr/sbin/apache2", &["-X", "-f"], |dir, address| {
            format!(
                "LoadModule mpm_event_module {MODULES}/mod_mpm_event.so
                LoadModule authz_core_module {MODULES}/mod_authz_core.so
                LoadModule substitute_module {MODULES}/mod_substitute.so
                ServerRoot {dir}
                DefaultRuntimeDir {dir}
                PidFile {dir}/pid
                ErrorLog {dir}/error.log
                LogFormat \"%k %>s %U\" short
                CustomLog {dir}/access.log short
                ServerName bake.test
                User www-data
                Group www-data
                Listen {address}
                KeepAlive On
                MaxKeepAliveRequests 0
                ThreadsPerChild 64
                MaxRequestWorkers 64
                DocumentRoot {dir}/site
                {lines}\n"
            )
        })
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The CA bundle for https.
    pub(crate) fn ca_file(&self) -> String {
        let path = self.dir.path().join("site/cert.pem");
        path.to_str().unwrap().into()
    }

    /// The access log, once it has this many lines. A server may write a line after the client has
    /// read the response.
    pub(crate) fn logged(&self, lines: u64) -> String {
        let start = Instant::now();
        loop {
            let log = fs::read_to_string(self.dir.path().join("access.log")).unwrap();
            if lines <= log.lines().count() as u64 {
                return log;
            }
            assert!(
                start.elapsed() < START_LIMIT,
                "less than {lines} lines: {log}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills the server, like a power failure.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a program whose last argument is its configuration. If it is missing, reports that the
/// test is skipped.
fn start(
    program: &str,
    words: &[&str],
    configure: impl Fn(&str, SocketAddr) -> String,
) -> Option<Server> {
    if !are_installed(&[program]) {
        return None;
    }
    let mut last = String::new();
    for _ in 0..TRIES {
        let dir = site();
        let address = free_address();
        let place = dir.path().to_str().unwrap();
        let file = dir.path().join("conf");
        fs::write(&file, configure(place, address)).unwrap();
        let output = fs::File::create(dir.path().join("output")).unwrap();
        let mut process = Command::new(program)
            .args(words)
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        if listens(&mut process, address) {
            return Some(Server {
                process,
                dir,
                address,
            });
        }
        last = fs::read_to_string(dir.path().join("output")).unwrap();
        last += &fs::read_to_string(dir.path().join("error.log")).unwrap_or_default();
    }
    panic!("{program} does not start:\n{last}");
}

/// Whether the process listens. If it does not, it is killed.
fn listens(process: &mut Child, address: SocketAddr) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < START_LIMIT && process.try_wait().unwrap().is_none() {
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = process.kill();
    process.wait().unwrap();
    false
}

/// A directory with files to serve, readable for servers that drop privileges.
fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir.path(), open.clone()).unwrap();
    let site = dir.path().join("site");
    fs::create_dir(&site).unwrap();
    fs::set_permissions(&site, open).unwrap();
    fs::write(site.join("page.html"), PAGE).unwrap();
    let line = "a line of a long text, with WORD in it\n";
    let large = line.repeat(LARGE_BYTES.div_ceil(line.len()));
    let (cert, key) = certificate();
    fs::write(site.join("cert.pem"), cert).unwrap();
    fs::write(site.join("key.pem"), key).unwrap();
    fs::write(site.join("large.txt"), &large[..LARGE_BYTES]).unwrap();
    dir
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

/// A self-signed certificate for 127.0.0.1 and its key, both in PEM.
fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = made.signing_key.serialize_der();
    (
        pem("CERTIFICATE", made.cert.der()),
        pem("PRIVATE KEY", &key),
    )
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, der);
    let lines: Vec<&str> = (0..text.len())
        .step_by(64)
        .map(|start| &text[start..text.len().min(start + 64)])
        .collect();
    format!(
        "-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n",
        lines.join("\n")
    )
}
