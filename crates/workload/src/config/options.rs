//! Servers whose configuration is one option a line, in sections or in none: MariaDB, PostgreSQL, Samba.
//!
//! They differ in how two spellings of an option are known to be one.

use super::{Directive, refused, replace};

/// How a server writes its options.
pub(super) struct Dialect {
    /// Names of the section that options belong to when none is named; empty where there are no sections.
    main: &'static [&'static str],
    /// What an option is called however it is spelt.
    plain: fn(&str) -> String,
    /// Characters that begin a comment line.
    comments: &'static [char],
    /// Characters after an option's name.
    separators: &'static [char],
    /// Options that say where bakeoff's files are and how it reaches the server, in plain spelling.
    own: &'static [&'static str],
}

pub(super) const MARIADB: Dialect = Dialect {
    main: &["mariadbd", "mysqld", "server", "mariadb"],
    plain: plain_mariadb,
    comments: &['#', ';'],
    separators: &['='],
    own: &[
        "bind_address",
        "datadir",
        "networking",
        "pid_file",
        "port",
        "socket",
    ],
};

pub(super) const POSTGRESQL: Dialect = Dialect {
    main: &[],
    plain: str::to_lowercase,
    comments: &['#'],
    separators: &['=', ' ', '\t'],
    own: &[
        "config_file",
        "data_directory",
        "hba_file",
        "listen_addresses",
        "port",
        "unix_socket_directories",
    ],
};

pub(super) const SAMBA: Dialect = Dialect {
    main: &["global"],
    plain: plain_samba,
    comments: &['#', ';'],
    separators: &['='],
    own: &[
        "bindinterfacesonly",
        "cachedirectory",
        "configfile",
        "interfaces",
        "lockdirectory",
        "ncalrpcdir",
        "path",
        "piddirectory",
        "privatedir",
        "smbports",
        "statedirectory",
    ],
};

/// `skip-name-resolve` and `loose_disable_name_resolve` are one option; dashes are underscores.
fn plain_mariadb(name: &str) -> String {
    let mut plain = name.to_lowercase().replace('-', "_");
    for prefix in ["loose_", "enable_", "disable_", "skip_"] {
        if let Some(rest) = plain.strip_prefix(prefix) {
            plain = rest.to_string();
        }
    }
    plain
}

/// Without case and spaces; smb.conf(5) has several names for some parameters.
fn plain_samba(name: &str) -> String {
    let plain: String = name.split_whitespace().collect::<String>().to_lowercase();
    let synonyms = [
        ("cachedir", "cachedirectory"),
        ("debuglevel", "loglevel"),
        ("directory", "path"),
        ("lockdir", "lockdirectory"),
        ("maxprotocol", "servermaxprotocol"),
        ("minprotocol", "serverminprotocol"),
        ("printcapname", "printcap"),
        ("privatedirectory", "privatedir"),
        ("protocol", "servermaxprotocol"),
        ("writable", "readonly"),
        ("writeable", "readonly"),
        ("writeok", "readonly"),
    ];
    let found = synonyms.iter().find(|(other, _)| *other == plain);
    found.map_or(plain, |(_, one)| (*one).to_string())
}

/// Options below one header; the first of a file may have none.
struct Section {
    name: String,
    options: Vec<Directive>,
}

impl Dialect {
    pub(super) fn merge(&self, own: &str, arm: &str) -> Result<String, String> {
        let mut sections = self.read(own)?;
        for section in self.read(arm)? {
            let at = sections.iter().position(|own| own.name == section.name);
            let Some(at) = at else {
                sections.push(section);
                continue;
            };
            let own = |option: &&Directive| self.own.contains(&option.key.as_str());
            if let Some(option) = section.options.iter().find(own) {
                return Err(refused(self.name_of(&option.text)));
            }
            let before = std::mem::take(&mut sections[at].options);
            sections[at].options = replace(before, &section.options, |_| false);
        }
        Ok(sections.iter().map(show).collect())
    }

    fn read(&self, text: &str) -> Result<Vec<Section>, String> {
        let main = self.main.first().copied().unwrap_or_default();
        let mut sections = vec![Section {
            name: main.into(),
            options: Vec::new(),
        }];
        let joined = text.replace("\\\n", " ");
        for line in joined.lines().map(str::trim) {
            if line.is_empty() || line.starts_with(self.comments) {
                continue;
            }
            if let Some(header) = line.strip_prefix('[').filter(|_| !self.main.is_empty()) {
                let name = header
                    .strip_suffix(']')
                    .ok_or_else(|| format!("{line}: a section without its ]"))?;
                let name = name.trim().to_lowercase();
                let name = if self.main.contains(&name.as_str()) {
                    main.into()
                } else {
                    name
                };
                sections.push(Section {
                    name,
                    options: Vec::new(),
                });
                continue;
            }
            let section = sections.last_mut().expect("there is a first section");
            section.options.push(Directive {
                key: (self.plain)(self.name_of(line)),
                text: line.into(),
            });
        }
        Ok(joined_by_name(sections))
    }

    /// The option's name as it is written.
    fn name_of<'l>(&self, line: &'l str) -> &'l str {
        line.split(self.separators).next().unwrap_or(line).trim()
    }
}

/// A section may be written in several parts.
fn joined_by_name(sections: Vec<Section>) -> Vec<Section> {
    let mut joined: Vec<Section> = Vec::new();
    for section in sections {
        match joined.iter_mut().find(|before| before.name == section.name) {
            Some(before) => before.options.extend(section.options),
            None => joined.push(section),
        }
    }
    joined
}

fn show(section: &Section) -> String {
    let header = match section.name.as_str() {
        "" => String::new(),
        name => format!("[{name}]\n"),
    };
    let options = section.options.iter();
    options.fold(header, |text, option| text + &option.text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(dialect: &Dialect, own: &str, arm: &str, expected: &Expect) {
        let merged = dialect.merge(own, arm);
        expected.assert_eq(&merged.unwrap_or_else(|why| format!("refused: {why}")));
    }

    #[test]
    fn mariadb_knows_an_option_by_all_its_spellings() {
        let own = "[mariadbd]\ndatadir = /context\nskip_name_resolve = on\ninnodb_buffer_pool_size = 128M\n";
        check(
            &MARIADB,
            own,
            "# more\ninnodb-buffer-pool-size=1G\n[mysqld]\nloose-skip-name-resolve = off\nquery_cache_size = 0\n\
             [client]\nport = 1\n",
            &expect![[r"
                [mariadbd]
                datadir = /context
                loose-skip-name-resolve = off
                innodb-buffer-pool-size=1G
                query_cache_size = 0
                [client]
                port = 1
            "]],
        );
        check(
            &MARIADB,
            own,
            "skip-networking",
            &expect!["refused: skip-networking: bakeoff works by its own (remove it)"],
        );
        check(
            &MARIADB,
            own,
            "[mysqld",
            &expect!["refused: [mysqld: a section without its ]"],
        );
    }

    #[test]
    fn postgresql_takes_an_equals_sign_or_none() {
        let own = "port = 5432\nshared_buffers = 128MB\nautovacuum = off\n";
        check(
            &POSTGRESQL,
            own,
            "Shared_Buffers 1GB\nautovacuum=on\nwork_mem = '64MB' # each\n",
            &expect![[r"
                port = 5432
                Shared_Buffers 1GB
                autovacuum=on
                work_mem = '64MB' # each
            "]],
        );
        check(
            &POSTGRESQL,
            own,
            "port 1",
            &expect!["refused: port: bakeoff works by its own (remove it)"],
        );
    }

    #[test]
    fn samba_compares_names_without_case_and_spaces() {
        let own = "[global]\ninterfaces = 10.77.0.1\nserver min protocol = NT1\n[share]\npath = /context\nread only = no\n";
        check(
            &SAMBA,
            own,
            "Min Protocol = SMB2\nsocket options = TCP_NODELAY \\\n IPTOS_LOWDELAY\n[SHARE]\nwriteable = no\n[other]\npath = /srv\n",
            &expect![[r"
                [global]
                interfaces = 10.77.0.1
                Min Protocol = SMB2
                socket options = TCP_NODELAY   IPTOS_LOWDELAY
                [share]
                path = /context
                writeable = no
                [other]
                path = /srv
            "]],
        );
        check(
            &SAMBA,
            own,
            "[share]\nDirectory = /srv",
            &expect!["refused: Directory: bakeoff works by its own (remove it)"],
        );
    }
}
