//! The servers whose configuration an arm may change, and the grammar of each.

use super::merge::{Grammar, Syntax};

/// A server whose configuration an arm may change.
pub(super) struct Form {
    pub(super) service: &'static str,
    pub(super) grammar: Grammar,
    /// A short configuration for checking an arm's directives.
    pub(super) sample: &'static str,
    /// Placeholders that a configuration file must contain.
    pub(super) needed: &'static [&'static str],
}

pub(super) const FORMS: [Form; 6] = [
    Form {
        service: "apache2",
        grammar: Grammar {
            syntax: Syntax::Apache,
            key: apache_key,
            owned: &[(
                "*",
                "serverroot defaultruntimedir pidfile documentroot errorlog scriptsock",
            )],
            repeated: "addtype alias header include includeoptional requestheader scriptalias setenv",
            ..PLAIN
        },
        sample: "Listen {address}\nDocumentRoot {root}\n",
        needed: &["{address}", "{root}"],
    },
    Form {
        service: "nginx",
        grammar: NGINX,
        sample: "events { } http { server { listen {address}; root {root}; } }",
        needed: &["{address}", "{root}"],
    },
    Form {
        service: "mariadbd",
        grammar: Grammar {
            key: mariadb_key,
            main: "mariadbd mysqld server mariadb",
            owned: &[(
                "mariadbd",
                "bind_address datadir networking pid_file port socket",
            )],
            ..PLAIN
        },
        sample: "[mariadbd]\ndatadir = {dir}\n",
        needed: &["{dir}", "{ip}", "{port}"],
    },
    Form {
        service: "postgres",
        grammar: Grammar {
            separators: &['=', ' ', '\t'],
            owned: &[(
                "*",
                "config_file data_directory hba_file listen_addresses port unix_socket_directories",
            )],
            ..PLAIN
        },
        sample: "port = {port}\n",
        needed: &["{dir}", "{ip}", "{port}"],
    },
    Form {
        service: "smbd",
        grammar: Grammar {
            key: samba_key,
            main: "global",
            owned: &[
                (
                    "*",
                    "bindinterfacesonly cachedirectory configfile interfaces lockdirectory ncalrpcdir \
                 piddirectory privatedir smbports statedirectory",
                ),
                ("share", "path"),
            ],
            ..PLAIN
        },
        sample: "[global]\n[share]\n",
        needed: &["{dir}", "{ip}"],
    },
    Form {
        service: "tomcat",
        grammar: TOMCAT,
        sample: "<Server><Service><Connector address=\"{ip}\" port=\"{port}\"/><Engine><Host>\
                 <Context docBase=\"{application}\"><JarScanner/><Manager/><Resource url=\"{database}\"/></Context>\
                 </Host></Engine></Service></Server>",
        needed: &["{ip}", "{port}", "{application}", "{database}"],
    },
];

/// One option per line, without sections; the base of most grammars.
const PLAIN: Grammar = Grammar {
    syntax: Syntax::Options,
    key: str::to_lowercase,
    separators: &['='],
    main: "",
    owned: &[],
    repeated: "",
    once: "",
    levels: &[(&[], "*")],
};

const NGINX: Grammar = Grammar {
    syntax: Syntax::Nginx,
    key: str::to_string,
    owned: &[("*", "alias daemon error_log pid root")],
    repeated: "add_header add_trailer allow deny env error_page fastcgi_param include load_module \
        proxy_set_header rewrite set set_real_ip_from sub_filter",
    // Not complete: nginx itself reports others.
    once: "accept_mutex accept_mutex_delay aio aio_write autoindex autoindex_exact_size autoindex_format \
        autoindex_localtime charset chunked_transfer_encoding client_body_buffer_size \
        client_body_in_file_only client_body_in_single_buffer client_body_timeout \
        client_header_buffer_size client_header_timeout client_max_body_size connection_pool_size \
        default_type directio directio_alignment disable_symlinks etag expires gunzip gzip gzip_buffers \
        gzip_comp_level gzip_http_version gzip_min_length gzip_static gzip_vary if_modified_since \
        ignore_invalid_headers keepalive_disable keepalive_requests keepalive_time keepalive_timeout \
        large_client_header_buffers limit_rate limit_rate_after lingering_close lingering_time \
        lingering_timeout listen location lock_file log_not_found log_subrequest master_process \
        max_ranges merge_slashes msie_padding msie_refresh multi_accept open_file_cache \
        open_file_cache_errors open_file_cache_min_uses open_file_cache_valid open_log_file_cache \
        output_buffers pcre_jit port_in_redirect postpone_output proxy_buffer_size proxy_buffering \
        proxy_buffers proxy_connect_timeout proxy_http_version proxy_read_timeout proxy_send_timeout \
        read_ahead recursive_error_pages request_pool_size reset_timedout_connection \
        resolver_timeout satisfy send_lowat send_timeout sendfile sendfile_max_chunk \
        server_name_in_redirect server_names_hash_bucket_size server_names_hash_max_size \
        server_tokens subrequest_output_buffer_size tcp_nodelay tcp_nopush timer_resolution \
        try_files types_hash_bucket_size types_hash_max_size underscores_in_headers use user \
        variables_hash_bucket_size variables_hash_max_size worker_aio_requests worker_connections \
        worker_cpu_affinity worker_priority worker_processes worker_rlimit_core \
        worker_rlimit_nofile worker_shutdown_timeout",
    levels: &[
        (
            &[],
            "debug_points env load_module lock_file master_process pcre_jit ssl_engine thread_pool \
             timer_resolution user worker_aio_requests worker_cpu_affinity worker_priority \
             worker_processes worker_rlimit_core worker_rlimit_nofile",
        ),
        (
            &["events"],
            "accept_mutex accept_mutex_delay debug_connection multi_accept use worker_connections",
        ),
        (&["http"], "*"),
        (
            &["http", "server"],
            "break if listen location return rewrite set try_files",
        ),
    ],
    ..PLAIN
};

const TOMCAT: Grammar = Grammar {
    syntax: Syntax::Xml,
    key: str::to_string,
    owned: &[
        ("Server", "port"),
        ("Connector", "address port"),
        ("Context", "docBase path"),
        (
            "Resource",
            "name type factory driverClassName url username password",
        ),
    ],
    repeated: "Environment Listener Parameter Valve",
    levels: &[
        (&[], ""),
        (&["Server"], "GlobalNamingResources Listener"),
        (&["Server", "Service"], "Executor"),
        (&["Server", "Service", "Connector"], "UpgradeProtocol"),
        (&["Server", "Service", "Engine"], "Realm"),
        (&["Server", "Service", "Engine", "Host"], "Valve"),
        (
            &["Server", "Service", "Engine", "Host", "Context"],
            "CookieProcessor Environment Loader Parameter Resources",
        ),
    ],
    ..PLAIN
};

fn apache_key(name: &str) -> String {
    let name = name.to_lowercase();
    match name.as_str() {
        "maxclients" => "maxrequestworkers".into(),
        "maxrequestsperchild" => "maxconnectionsperchild".into(),
        _ => name,
    }
}

/// `skip-name-resolve` and `loose_disable_name_resolve` are the same option; dashes equal
/// underscores.
fn mariadb_key(name: &str) -> String {
    let mut key = name.to_lowercase().replace('-', "_");
    for prefix in ["loose_", "enable_", "disable_", "skip_"] {
        if let Some(rest) = key.strip_prefix(prefix) {
            key = rest.to_string();
        }
    }
    key
}

/// Case and spaces do not matter; smb.conf(5) has synonyms of some parameters.
fn samba_key(name: &str) -> String {
    let key = name.split_whitespace().collect::<String>().to_lowercase();
    let other = match key.as_str() {
        "cachedir" => "cachedirectory",
        "debuglevel" => "loglevel",
        "directory" => "path",
        "lockdir" => "lockdirectory",
        "maxprotocol" | "protocol" => "servermaxprotocol",
        "minprotocol" => "serverminprotocol",
        "printcapname" => "printcap",
        "privatedirectory" => "privatedir",
        "writable" | "writeable" | "writeok" => "readonly",
        _ => return key,
    };
    other.into()
}
