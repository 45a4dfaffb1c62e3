//! `web-cgi`: a page that a program makes from a database for each request.
//!
//! After `InfoWorld`, 30 January 2004: Apache, a Perl CGI program and `MySQL` on one host under
//! `ab`; one select of 97 rows with 8 columns, one of them an image. Linux 2.6.0 served 14 to 22 %
//! more requests a second than 2.4.23.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use load::exchange::Exchange;
use load::expect::Expect;
use load::traffic::{Mix, Traffic};
use plan::Traits;
use plan::fields::Fields;
use record::metric::Figure;
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::data::{self, stream};
use crate::database;
use crate::database::client::Client;
use crate::database::server::{ACCOUNT, Server};
use crate::figures::{self, Seen};
use crate::overview::{DEADLINE, Key, Overview};
use crate::probe::Probe;
use crate::service::Service;
use crate::web::{self, SetUp, Web};
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload, ceiling};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "web-cgi",
    |_| Traits::CLIENTS,
    Overview {
        summary: "pages that a Perl program makes from a database",
        primary: "throughput",
        machine: &[],
        keys: &[
            Key::new("server", &["\"apache\""], "the only one that runs programs"),
            Key::new("mpm", &["\"prefork\""], ""),
            Key::new("connections", &["4"], "clients"),
            Key::new("warmup", &["\"2s\""], "load that is not counted"),
            Key::new(
                "window",
                &["\"20s\""],
                "load that is counted: a page takes a quarter of a second",
            ),
            DEADLINE,
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    #[serde(flatten)]
    web: Web,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let web = Web::read(fields, "8")?;
        if web.server == web::Server::Nginx {
            let what = "a program for each page with a server that runs none: nginx";
            fields.wrong("server", what, "write server = \"apache\"");
            return None;
        }
        Some(Self { web })
    }
}

impl Options {
    /// A closed loop over one page.
    fn traffic(&self, context: &WorkloadContext, goods: &[Good]) -> Traffic {
        let page = Exchange::get("/cgi-bin/goods", Expect::body(page(goods)));
        Traffic {
            mix: Mix::Round(vec![page]),
            ..self.web.traffic(context)
        }
    }
}

impl Workload for Options {
    fn packages(&self) -> Vec<&str> {
        let mut packages = self.web.packages();
        packages.extend(Server::Mariadb.packages());
        packages.extend(["perl", "libdbd-mariadb-perl"]);
        packages
    }

    fn configurable(&self) -> Vec<&'static str> {
        vec![self.web.server.name(), Server::Mariadb.name()]
    }

    fn is_driven_from_outside(&self) -> bool {
        true
    }

    fn takes_addresses(&self) -> bool {
        true
    }

    fn timing(&self) -> Timing {
        self.web.timing
    }

    /// The table is filled only when the database runs, so the probe of Apache requests a file.
    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        // Changes of an arm without a server's name are for the web server.
        let others = context.with_named_config();
        let database = database::service(Server::Mariadb, &others)?;
        let root = context.make_dir("site")?;
        context.write("site/up.html", UP)?;
        let probe = Probe::Http {
            server: context.at(80),
            path: "/up.html".into(),
            body: Some(UP.as_bytes().into()),
        };
        let set_up = SetUp {
            programs: Some(write_program(context)?),
            ..self.web.set_up(root, probe)
        };
        Ok(vec![database, self.web.service_of(context, set_up)?])
    }

    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let goods = goods(context.seed);
        fill(context, &goods).context("fill the table")?;
        web::drive(&self.traffic(context, &goods), control)
    }

    fn ceiling(&self, context: &WorkloadContext, null_server: &str) -> Result<Option<Traffic>> {
        let traffic = self.traffic(context, &goods(context.seed));
        Ok(ceiling::traffic(traffic, &ceiling::reach(null_server)?))
    }

    fn has_ceiling(&self) -> bool {
        true
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        let mut figures = figures::web(seen, self.web.server.name())?;
        let database = Server::Mariadb.name();
        figures.extend(figures::cpu_per_request(seen, database, "database-cpu"));
        Ok(figures)
    }
}

/// Content of the file for the probe.
const UP: &str = "up\n";

/// Rows of the table, as in 2004.
const ROWS: u64 = 97;

/// Size of a picture.
const PICTURE_BYTES: usize = 1024;

/// A row of the table: seven columns of text and numbers, and a picture.
struct Good {
    cells: [String; 7],
    picture: Vec<u8>,
}

fn goods(seed: u64) -> Vec<Good> {
    let mut stream = stream(seed, "web-cgi");
    let mut good = |number: u64| {
        let cells = [
            number.to_string(),
            format!("good {:06}", stream.below(1_000_000)),
            format!("maker {:02}", stream.below(50)),
            format!("{}.{:02}", 1 + stream.below(999), stream.below(100)),
            stream.below(1000).to_string(),
            format!(
                "{}-{:02}-{:02}",
                1999 + stream.below(6),
                1 + stream.below(12),
                1 + stream.below(28)
            ),
            format!("note {:016x}", stream.bits()),
        ];
        let picture = data::image(seed, PICTURE_BYTES, &format!("good {number}"));
        Good { cells, picture }
    };
    (1..=ROWS).map(&mut good).collect()
}

/// Makes and fills the table.
fn fill(context: &WorkloadContext, goods: &[Good]) -> Result<()> {
    let address = Server::Mariadb.address(context);
    let mut client = Client::connect(Server::Mariadb, address, Arc::default())?;
    client.execute(
        "create table goods (id int primary key, name varchar(20), maker varchar(20), \
         price decimal(8,2), stock int, added date, note varchar(40), picture blob)",
    )?;
    for good in goods {
        let cells = good.cells.join("', '");
        let picture = good.picture.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let sql = format!("insert into goods values ('{cells}', x'{picture}')");
        client.expect_affected(&sql, 1)?;
    }
    Ok(())
}

/// The CGI program, which connects for each request.
const PROGRAM: &str = r#"#!/usr/bin/perl
use strict;
use warnings;
use DBI;
use MIME::Base64 qw(encode_base64);

my $database = DBI->connect("DBI:MariaDB:database=ACCOUNT;host=HOST;port=PORT", "ACCOUNT", "ACCOUNT", { RaiseError => 1 });
my $rows = $database->selectall_arrayref("select id, name, maker, price, stock, added, note, picture from goods order by id");
my $page = "<html><body><table>\n";
for my $row (@$rows) {
    my @cells = @$row;
    my $picture = encode_base64(pop @cells, "");
    $page .= "<tr>" . join("", map { "<td>$_</td>" } @cells);
    $page .= "<td><img src=\"data:image/jpeg;base64,$picture\"></td></tr>\n";
}
$page .= "</table></body></html>\n";
print "Content-Type: text/html\r\nContent-Length: ", length($page), "\r\n\r\n", $page;
"#;

/// The page of the program.
fn page(goods: &[Good]) -> Vec<u8> {
    let mut page = String::from("<html><body><table>\n");
    for good in goods {
        let cells = good.cells.join("</td><td>");
        let picture = STANDARD.encode(&good.picture);
        let _ = writeln!(
            page,
            "<tr><td>{cells}</td><td><img src=\"data:image/jpeg;base64,{picture}\"></td></tr>"
        );
    }
    page += "</table></body></html>\n";
    page.into_bytes()
}

fn write_program(context: &WorkloadContext) -> Result<PathBuf> {
    let dir = context.make_dir("programs")?;
    let address = Server::Mariadb.address(context);
    let program = PROGRAM
        .replace("ACCOUNT", ACCOUNT)
        .replace("HOST", &address.ip().to_string())
        .replace("PORT", &address.port().to_string());
    let program = context.write("programs/goods", program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
        .context("make a program executable")?;
    Ok(dir)
}
