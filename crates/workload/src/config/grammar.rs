//! The servers whose configuration an arm may change, and how to read and merge the text of each.

/// Syntax of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// One directive per line, blocks as `<Name arguments>` to `</Name>`.
    Apache,
    /// Directives end with a semicolon; blocks are in braces.
    Nginx,
    /// One option per line, below `[section]` or at the top.
    Options,
    /// Elements are blocks, attributes are directives of the block `Name@`.
    Xml,
}

/// A server whose configuration an arm may change. Lists of names are separated by spaces.
pub(super) struct Grammar {
    pub(super) service: &'static str,
    pub(super) syntax: Syntax,
    /// A short configuration for checking an arm's directives.
    pub(super) sample: &'static str,
    /// Placeholders that a configuration file must contain.
    pub(super) needed: &'static [&'static str],
    /// Names of the section of options without a section.
    pub(super) main: &'static [&'static str],
    /// Directives that only bakeoff may set, with the names of the blocks around them if the
    /// block matters.
    pub(super) owned: &'static str,
    /// Directives and blocks that may be repeated: they replace nothing.
    pub(super) repeated: &'static str,
    /// Levels to which a directive outside all blocks may go, with the names that belong there.
    /// `*` is all other names. The first level that has a directive of the same name wins.
    pub(super) levels: &'static [(&'static str, &'static str)],
}

/// One option per line, without sections; the base of most grammars.
const PLAIN: Grammar = Grammar {
    service: "",
    syntax: Syntax::Options,
    sample: "",
    needed: &["{dir}", "{ip}", "{port}"],
    main: &[],
    owned: "",
    repeated: "",
    levels: &[("", "*")],
};

pub(super) const SERVERS: [Grammar; 8] = [
    Grammar {
        service: "apache2",
        syntax: Syntax::Apache,
        sample: "Listen {address}\nDocumentRoot {root}\n",
        needed: &["{address}", "{root}"],
        owned: "serverroot defaultruntimedir pidfile documentroot errorlog scriptsock",
        repeated: "addtype alias header include includeoptional requestheader scriptalias setenv",
        ..PLAIN
    },
    Grammar {
        service: "nginx",
        syntax: Syntax::Nginx,
        sample: "events { } http { server { listen {address}; root {root}; } }",
        needed: &["{address}", "{root}"],
        owned: "alias daemon error_log pid root",
        repeated: "add_header add_trailer allow deny env error_page fastcgi_param include \
                   load_module proxy_set_header rewrite set set_real_ip_from sub_filter",
        levels: &[
            (
                "",
                "debug_points env load_module lock_file master_process pcre_jit ssl_engine \
                 thread_pool timer_resolution user worker_aio_requests worker_cpu_affinity \
                 worker_priority worker_processes worker_rlimit_core worker_rlimit_nofile \
                 worker_shutdown_timeout",
            ),
            (
                "events",
                "accept_mutex accept_mutex_delay debug_connection multi_accept use \
                 worker_connections",
            ),
            ("http", "*"),
            (
                "http/server",
                "break if listen location return rewrite set try_files",
            ),
        ],
        ..PLAIN
    },
    Grammar {
        service: "mariadbd",
        sample: "[mariadbd]\ndatadir = {dir}\n",
        main: &["mariadbd", "mysqld", "server", "mariadb"],
        owned: "mariadbd/bindaddress mariadbd/datadir mariadbd/networking mariadbd/pidfile \
                mariadbd/port mariadbd/socket",
        ..PLAIN
    },
    Grammar {
        service: "postgres",
        sample: "port = {port}\n",
        owned: "configfile datadirectory hbafile listenaddresses port unixsocketdirectories",
        ..PLAIN
    },
    Grammar {
        service: "smbd",
        sample: "[global]\n[share]\n",
        needed: &["{dir}", "{ip}"],
        main: &["global"],
        // With the synonyms of smb.conf(5).
        owned: "bindinterfacesonly cachedir cachedirectory configfile interfaces lockdir \
                lockdirectory ncalrpcdir piddirectory privatedir privatedirectory smbports \
                statedirectory share/directory share/path",
        ..PLAIN
    },
    Grammar {
        service: "tomcat",
        syntax: Syntax::Xml,
        sample: "<Server><Service><Connector address=\"{ip}\" port=\"{port}\"/><Engine><Host>\
                 <Context docBase=\"{application}\"><JarScanner/><Manager/><Resource url=\"{database}\"/>\
                 </Context></Host></Engine></Service></Server>",
        needed: &["{ip}", "{port}", "{application}", "{database}"],
        owned: "Server@/port Connector@/address Connector@/port Context@/docBase Context@/path \
                Resource@/name Resource@/type Resource@/factory Resource@/driverClassName \
                Resource@/url Resource@/username Resource@/password",
        repeated: "Environment Listener Parameter Valve",
        levels: &[
            ("", ""),
            ("Server", "GlobalNamingResources Listener"),
            ("Server/Service", "Executor"),
            ("Server/Service/Connector", "UpgradeProtocol"),
            ("Server/Service/Engine", "Realm"),
            ("Server/Service/Engine/Host", "Valve"),
            (
                "Server/Service/Engine/Host/Context",
                "CookieProcessor Environment Loader Parameter Resources",
            ),
        ],
        ..PLAIN
    },
    Grammar {
        service: "wildfly",
        syntax: Syntax::Xml,
        sample: include_str!("../../../../images/app/servers/wildfly.xml"),
        needed: &["{ip}", "{port}", "{application}", "{database}"],
        owned: "inet-address@/value socket-binding@/port datasource/connection-url datasource/driver \
                datasource@/jndi-name security@/user-name security@/password fs-archive@/path fs-exploded@/path",
        repeated: "property",
        levels: &[
            ("server/profile", "subsystem"),
            ("server", "interfaces system-properties"),
        ],
        ..PLAIN
    },
    Grammar {
        service: "open-liberty",
        syntax: Syntax::Xml,
        sample: include_str!("../../../../images/app/servers/open-liberty.xml"),
        needed: &["{ip}", "{port}", "{application}", "{database}", "{driver}"],
        owned: "httpEndpoint@/host httpEndpoint@/httpPort httpEndpoint@/httpsPort dataSource@/id \
                properties@/url properties@/user properties@/password webApplication@/location \
                webApplication@/contextRoot file@/name logging@/consoleFormat",
        repeated: "feature",
        levels: &[("", "server"), ("server", "*")],
        ..PLAIN
    },
];
