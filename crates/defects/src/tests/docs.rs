//! docs/reference/defects.md contains the current table; `UPDATE_EXPECT=1 cargo test -p bakeoff-defects` rewrites it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::kind::Kind;
use crate::patterns::rows;

const BEGIN: &str = "<!-- begin of the table -->\n";
const END: &str = "<!-- end of the table -->\n";

fn table() -> String {
    let mut table = String::from("| kind | severity | message |\n|---|---|---|\n");
    for kind in Kind::ALL {
        for row in rows().filter(|row| row.kind == *kind) {
            let (name, severity) = (kind.name(), row.severity.name());
            writeln!(table, "| {name} | {severity} | `{}` |", row.form)
                .expect("a String takes all");
        }
    }
    table
}

#[test]
fn the_table_in_the_docs_is_that_of_the_code() {
    // Read at run time, because the tests may have been built with the sources elsewhere.
    let crate_dir = std::env::var_os("CARGO_MANIFEST_DIR").unwrap();
    let path = Path::new(&crate_dir).join("../../docs/reference/defects.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", table())).unwrap();
        return;
    }
    assert_eq!(written, table());
}
