//! Samba with bakeoff's configuration: one share, one user, no printers, no directory service.
//!
//! smbd only writes below the context's directory. `bench.nbench` uses SMB1, which Samba disables
//! by default.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::config::{self, Target};
use crate::context::WorkloadContext;
use crate::probe::Probe;
use crate::service::{Service, words};
use crate::tool::Tool;

/// Name of the service.
pub(crate) const SERVICE: &str = "smbd";

/// SMB without `NetBIOS`.
const PORT: u16 = 445;

/// Time limit of the start, including helpers and databases, under emulation.
const PATIENCE: Duration = Duration::from_secs(120);

/// User and password; not root, so that permissions are checked.
const USER: &str = "www-data%bakeoff";

/// The user's smbpasswd(5) entry, with the NT hash (MD4 of UTF-16) of the password.
const ACCOUNT: &str = "www-data:33:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:6302C1ECCCCDB93C1DCFCA1509953A2A:\
    [U          ]:LCT-00000001:\n";

/// Options and names of the directories to which smbd writes.
const PLACES: [(&str, &str); 6] = [
    ("private dir", "private"),
    ("lock directory", "lock"),
    ("state directory", "state"),
    ("cache directory", "cache"),
    ("pid directory", "pid"),
    ("ncalrpc dir", "ncalrpc"),
];

/// Path of a file or directory of the workload.
pub(crate) fn place(context: &WorkloadContext, name: &str) -> PathBuf {
    context.dir.join("smb").join(name)
}

/// Writes configuration, account and an empty share.
pub(crate) fn service(context: &WorkloadContext) -> Result<Service> {
    for (_, name) in PLACES {
        context.make_dir(&format!("smb/{name}"))?;
    }
    let share = context.make_dir("smb/share")?;
    fs::set_permissions(&share, fs::Permissions::from_mode(0o777))
        .with_context(|| format!("open to all: {}", share.display()))?;
    let account = context.write("smb/private/smbpasswd", ACCOUNT)?;
    fs::set_permissions(&account, fs::Permissions::from_mode(0o600))
        .with_context(|| format!("close to others: {}", account.display()))?;
    let target = Target {
        service: SERVICE,
        address: SocketAddr::from((context.server, PORT)),
        dir: &place(context, ""),
        places: Vec::new(),
    };
    let text = config::render(&context.config, &target, &configure(context))?;
    let configuration = context.write("smb/smb.conf", text)?;
    let file = configuration.to_string_lossy();
    let program = "/usr/sbin/smbd";
    Ok(Service {
        name: SERVICE.into(),
        command: words(&[
            program,
            "--foreground",
            "--no-process-group",
            "--debug-stdout",
            "--configfile",
            &file,
        ]),
        logs: Vec::new(),
        configuration: vec![configuration.clone()],
        probe: Probe::Program {
            command: client(context, "ls").command,
        },
        patience: PATIENCE,
        version: words(&[program, "--version"]),
        start_failure: None,
        java: None,
    })
}

/// The configuration. Signing and encryption are off, as in NetBench.
fn configure(context: &WorkloadContext) -> String {
    let places = PLACES.map(|(option, name)| {
        let place = place(context, name);
        format!("{option} = {}\n", place.display())
    });
    let places = places.concat();
    let account = place(context, "private/smbpasswd");
    let (account, share) = (account.display(), place(context, "share"));
    let (server, share) = (context.server, share.display());
    format!(
        "\
[global]
workgroup = BAKEOFF
netbios name = BAKEOFF
server role = standalone server
passdb backend = smbpasswd:{account}
{places}usershare path =
log level = 0
interfaces = {server}
bind interfaces only = yes
smb ports = {PORT}
disable netbios = yes
server min protocol = NT1
load printers = no
printing = bsd
printcap name = /dev/null
disable spoolss = yes
smbd profiling level = on
[share]
path = {share}
read only = no
"
    )
}

/// Time limit of a few commands.
const CLIENT_LIMIT: Duration = Duration::from_secs(60);

/// `smbclient` with commands.
pub(crate) fn client(context: &WorkloadContext, commands: &str) -> Tool {
    let share = share(context);
    let command = [
        "/usr/bin/smbclient",
        "--configfile=/dev/null",
        &share,
        "--user",
        USER,
        "--command",
        commands,
    ];
    Tool::new(&command, CLIENT_LIMIT)
}

/// `smbtorture` with arguments.
pub(crate) fn torture(context: &WorkloadContext, arguments: &[&str], limit: Duration) -> Tool {
    let share = share(context);
    let program = "/usr/bin/smbtorture";
    let mut command = vec![program, "--configfile=/dev/null", &share, "--user", USER];
    command.extend(arguments);
    Tool {
        dir: Some(place(context, "")),
        ..Tool::new(&command, limit)
    }
}

/// `smbstatus` with the counters of smbd.
pub(crate) fn counters(context: &WorkloadContext) -> Tool {
    let configuration = place(context, "smb.conf");
    let file = configuration.to_string_lossy();
    let command = ["/usr/bin/smbstatus", "--configfile", &file, "--profile"];
    Tool::new(&command, CLIENT_LIMIT)
}

fn share(context: &WorkloadContext) -> String {
    format!("//{}/share", context.server)
}
