//! nginx: words up to a semicolon, blocks in braces.
//!
//! A directive of the arm's goes to the block where bakeoff sets it, and else where nginx allows it: to the top, to
//! `events`, to bakeoff's one `server`, or to `http`, where most belong. The blocks `events`, `http` and `server` of the
//! arm's are merged into bakeoff's.

use std::fmt::Write as _;

use super::refused;

/// Directives that say where bakeoff's files are, or what it reads.
const OWN: [&str; 5] = ["alias", "daemon", "error_log", "pid", "root"];

/// Blocks whose lines are values and no directives.
const TABLES: [&str; 5] = ["charset_map", "geo", "map", "split_clients", "types"];

/// Directives of which several say several things.
const REPEATED: [&str; 14] = [
    "add_header",
    "add_trailer",
    "allow",
    "deny",
    "env",
    "error_page",
    "fastcgi_param",
    "include",
    "load_module",
    "proxy_set_header",
    "rewrite",
    "set",
    "set_real_ip_from",
    "sub_filter",
];

/// Directives that nginx calls duplicate when a block has two of them. Not all that there are: of others it is left to
/// nginx to say so.
const ONCE: &str = "\
accept_mutex accept_mutex_delay aio aio_write autoindex autoindex_exact_size autoindex_format \
autoindex_localtime charset chunked_transfer_encoding client_body_buffer_size \
client_body_in_file_only client_body_in_single_buffer client_body_timeout \
client_header_buffer_size client_header_timeout client_max_body_size connection_pool_size \
default_type directio directio_alignment disable_symlinks etag expires gunzip gzip gzip_buffers \
gzip_comp_level gzip_http_version gzip_min_length gzip_static gzip_vary if_modified_since \
ignore_invalid_headers keepalive_disable keepalive_requests keepalive_time keepalive_timeout \
large_client_header_buffers limit_rate limit_rate_after lingering_close lingering_time \
lingering_timeout lock_file log_not_found log_subrequest master_process max_ranges merge_slashes \
msie_padding msie_refresh multi_accept open_file_cache open_file_cache_errors \
open_file_cache_min_uses open_file_cache_valid open_log_file_cache output_buffers pcre_jit \
port_in_redirect postpone_output proxy_buffer_size proxy_buffering proxy_buffers \
proxy_connect_timeout proxy_http_version proxy_read_timeout proxy_send_timeout read_ahead \
recursive_error_pages request_pool_size reset_timedout_connection resolver_timeout satisfy \
send_lowat send_timeout sendfile sendfile_max_chunk server_name_in_redirect \
server_names_hash_bucket_size server_names_hash_max_size server_tokens \
subrequest_output_buffer_size tcp_nodelay tcp_nopush timer_resolution try_files \
types_hash_bucket_size types_hash_max_size underscores_in_headers use user \
variables_hash_bucket_size variables_hash_max_size worker_aio_requests worker_connections \
worker_cpu_affinity worker_priority worker_processes worker_rlimit_core worker_rlimit_nofile \
worker_shutdown_timeout";

/// Directives that nginx allows at the top alone.
const AT_TOP: [&str; 16] = [
    "debug_points",
    "env",
    "load_module",
    "lock_file",
    "master_process",
    "pcre_jit",
    "ssl_engine",
    "thread_pool",
    "timer_resolution",
    "user",
    "worker_aio_requests",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_processes",
    "worker_rlimit_core",
    "worker_rlimit_nofile",
];

/// Directives of the block `events`.
const IN_EVENTS: [&str; 6] = [
    "accept_mutex",
    "accept_mutex_delay",
    "debug_connection",
    "multi_accept",
    "use",
    "worker_connections",
];

/// Directives of a `server` that `http` does not take.
const IN_SERVER: [&str; 8] = [
    "break",
    "if",
    "listen",
    "location",
    "return",
    "rewrite",
    "set",
    "try_files",
];

/// A directive; with its block, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    words: Vec<String>,
    block: Option<Vec<Node>>,
}

impl Node {
    fn name(&self) -> &str {
        &self.words[0]
    }

    fn is_block(&self, name: &str) -> bool {
        self.name() == name && self.block.is_some()
    }

    /// Whether one of the two has to go where both would stand.
    fn is_same(&self, other: &Self) -> bool {
        match (&self.block, &other.block) {
            // Blocks such as `location /a` and `location /b` are two.
            (Some(_), Some(_)) => self.words == other.words,
            (None, None) => self.name() == other.name() && !REPEATED.contains(&self.name()),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Whether nginx refuses `later` beside it.
    fn is_repeated_by(&self, later: &Self) -> bool {
        let name = self.name();
        if self.block.is_some() != later.block.is_some() || name != later.name() {
            return false;
        }
        match name {
            "location" => self.words == later.words,
            // Options of the same address belong into one directive.
            "listen" => self.words.get(1) == later.words.get(1),
            _ => ONCE.split_whitespace().any(|once| once == name),
        }
    }
}

/// A block that both have one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Events,
    Http,
    Server,
}

pub(super) fn merge(own: &str, arm: &str) -> Result<String, String> {
    let mut tree = read(own)?;
    let address = block(&mut tree, Place::Server)
        .and_then(|server| server.iter().find(|node| node.name() == "listen"))
        .and_then(|listen| listen.words.get(1).cloned());
    // All places are found before the first directive is put into one, so that they hang on bakeoff's text alone.
    let placed = places(&mut tree, Place::Top, read(arm)?);
    for (index, (place, node)) in placed.iter().enumerate() {
        refuse(node, address.as_deref())?;
        let nodes = block(&mut tree, *place)
            .ok_or_else(|| format!("{}: the file has no block for it", node.words.join(" ")))?;
        let at = nodes.iter().position(|other| other.is_same(node));
        // A second one of the same name in the arm's own text is not what takes the first one's place.
        let mut before = placed[..index].iter();
        let is_first = before.all(|(other, one)| other != place || !one.is_same(node));
        match at {
            Some(at) if is_first => nodes[at] = node.clone(),
            Some(_) | None => insert(nodes, node.clone()),
        }
    }
    refuse_repeated(&tree, "the file")?;
    Ok(show(&tree, 0))
}

/// Finds directives of which `block`, or a block in it, has more than nginx takes.
fn refuse_repeated(nodes: &[Node], block: &str) -> Result<(), String> {
    for (at, node) in nodes.iter().enumerate() {
        let twin = nodes[..at]
            .iter()
            .find(|before| before.is_repeated_by(node));
        if let Some(twin) = twin {
            return Err(format!(
                "{} and {}: nginx takes one of them in {block} (remove the other)",
                twin.words.join(" "),
                node.words.join(" ")
            ));
        }
        if let Some(inner) = &node.block {
            refuse_repeated(inner, &node.words.join(" "))?;
        }
    }
    Ok(())
}

/// The arm's directives, each with the block where it belongs; `named` is the block that the arm wrote them in.
fn places(tree: &mut Vec<Node>, named: Place, arm: Vec<Node>) -> Vec<(Place, Node)> {
    let mut placed = Vec::new();
    for node in arm {
        let inner = match node.name() {
            "events" => Some(Place::Events),
            "http" => Some(Place::Http),
            "server" => Some(Place::Server),
            _ => None,
        };
        match (inner, node.block) {
            (Some(inner), Some(nodes)) => placed.extend(places(tree, inner, nodes)),
            (_, block) => {
                let node = Node { block, ..node };
                let place = match named {
                    Place::Top => place_of(tree, &node),
                    inner => inner,
                };
                placed.push((place, node));
            }
        }
    }
    placed
}

/// Directives come before blocks, as they do in bakeoff's own text.
fn insert(nodes: &mut Vec<Node>, node: Node) {
    let end = nodes.len();
    let blocks = nodes.iter().position(|other| other.block.is_some());
    let at = match node.block {
        Some(_) => end,
        None => blocks.unwrap_or(end),
    };
    nodes.insert(at, node);
}

/// Refuses what bakeoff works by, in whatever block.
fn refuse(node: &Node, address: Option<&str>) -> Result<(), String> {
    match &node.block {
        Some(_) if TABLES.contains(&node.name()) => Ok(()),
        Some(inner) => inner.iter().try_for_each(|node| refuse(node, address)),
        None if OWN.contains(&node.name()) => Err(refused(node.name())),
        None => refuse_address(node, address),
    }
}

fn refuse_address(node: &Node, address: Option<&str>) -> Result<(), String> {
    let other = node.words.get(1).map(String::as_str) != address;
    if node.name() == "listen" && address.is_some() && other {
        return Err(format!(
            "{}: bakeoff has an address of its own (write listen {{address}} and what follows)",
            node.words.join(" ")
        ));
    }
    Ok(())
}

/// Where a directive belongs that stands in no block.
fn place_of(tree: &mut Vec<Node>, node: &Node) -> Place {
    let known = [Place::Top, Place::Events, Place::Http, Place::Server];
    let has = |place: &Place| {
        let nodes = block(tree, *place);
        nodes.is_some_and(|nodes| nodes.iter().any(|other| other.is_same(node)))
    };
    if let Some(place) = known.into_iter().find(has) {
        return place;
    }
    let name = node.name();
    if AT_TOP.contains(&name) {
        Place::Top
    } else if IN_EVENTS.contains(&name) {
        Place::Events
    } else if IN_SERVER.contains(&name) {
        Place::Server
    } else {
        Place::Http
    }
}

/// The first block of that kind in bakeoff's text.
fn block(tree: &mut Vec<Node>, place: Place) -> Option<&mut Vec<Node>> {
    let inside = |nodes: &'_ mut Vec<Node>, name: &str| -> Option<usize> {
        nodes.iter().position(|node| node.is_block(name))
    };
    match place {
        Place::Top => Some(tree),
        Place::Events => {
            let at = inside(tree, "events")?;
            tree[at].block.as_mut()
        }
        Place::Http => {
            let at = inside(tree, "http")?;
            tree[at].block.as_mut()
        }
        Place::Server => {
            let http = block(tree, Place::Http)?;
            let at = inside(http, "server")?;
            http[at].block.as_mut()
        }
    }
}

fn show(nodes: &[Node], depth: usize) -> String {
    let mut text = String::new();
    for node in nodes {
        let words = node.words.join(" ");
        let indent = "    ".repeat(depth);
        let written = match &node.block {
            None => writeln!(text, "{indent}{words};"),
            Some(inner) => {
                let inner = show(inner, depth + 1);
                writeln!(text, "{indent}{words} {{\n{inner}{indent}}}")
            }
        };
        written.expect("a string takes all text");
    }
    text
}

/// What the text of a configuration is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

fn read(text: &str) -> Result<Vec<Node>, String> {
    let tokens = tokens(text)?;
    let mut at = 0;
    let nodes = read_block(&tokens, &mut at)?;
    if at < tokens.len() {
        return Err("a } that closes nothing".into());
    }
    Ok(nodes)
}

/// Directives up to the block's end or the text's.
fn read_block(tokens: &[Token], at: &mut usize) -> Result<Vec<Node>, String> {
    let mut nodes = Vec::new();
    let mut words: Vec<String> = Vec::new();
    while let Some(token) = tokens.get(*at) {
        match token {
            Token::Word(word) => words.push(word.clone()),
            Token::Close if words.is_empty() => return Ok(nodes),
            Token::Close => break,
            Token::End | Token::Open if words.is_empty() => {
                return Err("a ; or { without a directive before it".into());
            }
            Token::End => nodes.push(Node {
                words: std::mem::take(&mut words),
                block: None,
            }),
            Token::Open => {
                *at += 1;
                let block = read_block(tokens, at)?;
                if tokens.get(*at) != Some(&Token::Close) {
                    return Err(format!("{}: a block without its }}", words.join(" ")));
                }
                nodes.push(Node {
                    words: std::mem::take(&mut words),
                    block: Some(block),
                });
            }
        }
        *at += 1;
    }
    if words.is_empty() {
        Ok(nodes)
    } else {
        Err(format!("{}: no ; after it", words.join(" ")))
    }
}

/// As nginx reads them: quotes hold words together, and the brace of `${name}` opens no block.
fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    let mut rest = text.chars().peekable();
    let finish = |word: &mut String, tokens: &mut Vec<Token>| {
        if !word.is_empty() {
            tokens.push(Token::Word(std::mem::take(word)));
        }
    };
    while let Some(c) = rest.next() {
        match c {
            '#' if word.is_empty() => while rest.next_if(|c| *c != '\n').is_some() {},
            '"' | '\'' if word.is_empty() => {
                word.push(c);
                loop {
                    let inner = rest
                        .next()
                        .ok_or_else(|| format!("a quote without its end: {word}"))?;
                    word.push(inner);
                    if inner == '\\' {
                        word.extend(rest.next());
                    } else if inner == c {
                        break;
                    }
                }
            }
            '\\' => {
                word.push(c);
                word.extend(rest.next());
            }
            '{' if word.ends_with('$') => {
                word.push(c);
                for inner in rest.by_ref() {
                    word.push(inner);
                    if inner == '}' {
                        break;
                    }
                }
            }
            ';' | '{' | '}' => {
                finish(&mut word, &mut tokens);
                tokens.push(match c {
                    ';' => Token::End,
                    '{' => Token::Open,
                    _ => Token::Close,
                });
            }
            c if c.is_whitespace() => finish(&mut word, &mut tokens),
            c => word.push(c),
        }
    }
    finish(&mut word, &mut tokens);
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const OWN_TEXT: &str = "
worker_processes 2;
events { worker_connections 164; }
http {
    sendfile on;
    types { text/html html; }
    add_header Set-Cookie \"visitor=known; Path=/\";
    server { listen 10.77.0.1:80 backlog=65535; root /context/site; }
}
";

    fn check(arm: &str, expected: &Expect) {
        let merged = merge(OWN_TEXT, arm).unwrap_or_else(|why| format!("refused: {why}"));
        expected.assert_eq(&merged);
    }

    #[test]
    fn a_directive_stands_where_bakeoffs_stood_in_whatever_block() {
        check(
            "sendfile off; # not here\nworker_processes auto; worker_connections 9;\n\
             listen 10.77.0.1:80 reuseport;\ntypes { text/html htm html; }",
            &expect![[r#"
                worker_processes auto;
                events {
                    worker_connections 9;
                }
                http {
                    sendfile off;
                    types {
                        text/html htm html;
                    }
                    add_header Set-Cookie "visitor=known; Path=/";
                    server {
                        listen 10.77.0.1:80 reuseport;
                        root /context/site;
                    }
                }
            "#]],
        );
    }

    #[test]
    fn what_bakeoff_does_not_set_goes_where_nginx_takes_it() {
        check(
            "gzip on; multi_accept on; pcre_jit on; add_header A \"b;{c\"; add_header D ${e}; \
             location /a { return 404; } http { server { gzip off; } tcp_nopush off; }",
            &expect![[r#"
                worker_processes 2;
                pcre_jit on;
                events {
                    worker_connections 164;
                    multi_accept on;
                }
                http {
                    sendfile on;
                    gzip on;
                    add_header A "b;{c";
                    add_header D ${e};
                    tcp_nopush off;
                    types {
                        text/html html;
                    }
                    add_header Set-Cookie "visitor=known; Path=/";
                    server {
                        listen 10.77.0.1:80 backlog=65535;
                        root /context/site;
                        gzip off;
                        location /a {
                            return 404;
                        }
                    }
                }
            "#]],
        );
    }

    #[test]
    fn a_directive_that_the_arm_itself_repeats_is_refused_where_nginx_refuses_it() {
        for (arm, expected) in [
            (
                "sendfile off;\nsendfile on;",
                expect![
                    "refused: sendfile off and sendfile on: nginx takes one of them in http (remove the other)"
                ],
            ),
            (
                "worker_processes 1; worker_processes 2;",
                expect![
                    "refused: worker_processes 1 and worker_processes 2: nginx takes one of them in the file (remove the other)"
                ],
            ),
            (
                "http { sendfile off; } sendfile on;",
                expect![
                    "refused: sendfile off and sendfile on: nginx takes one of them in http (remove the other)"
                ],
            ),
            (
                "server { keepalive_timeout 1; } http { server { keepalive_timeout 2; } }",
                expect![
                    "refused: keepalive_timeout 1 and keepalive_timeout 2: nginx takes one of them in server (remove the other)"
                ],
            ),
            (
                "location /a { gzip on; gzip off; }",
                expect![
                    "refused: gzip on and gzip off: nginx takes one of them in location /a (remove the other)"
                ],
            ),
            (
                "location /a { } location /a { }",
                expect![
                    "refused: location /a and location /a: nginx takes one of them in server (remove the other)"
                ],
            ),
            (
                "listen 10.77.0.1:80 reuseport; listen 10.77.0.1:80 fastopen=9;",
                expect![
                    "refused: listen 10.77.0.1:80 reuseport and listen 10.77.0.1:80 fastopen=9: nginx takes one of them in server (remove the other)"
                ],
            ),
        ] {
            check(arm, &expected);
        }
        // These may be repeated, and a block in a block has directives of its own.
        let arm = "gzip_types a/b; gzip_types c/d; access_log /a; access_log /b; gzip on; server { gzip off; } \
                   log_format a $uri; log_format b $host;";
        let merged = merge(OWN_TEXT, arm).unwrap();
        for (name, count) in [("gzip_types", 2), ("access_log", 2), ("log_format", 2)] {
            assert_eq!(merged.matches(name).count(), count, "{name}");
        }
    }

    #[test]
    fn an_order_of_blocks_and_directives_is_as_good_as_another() {
        let merged = |arm| merge(OWN_TEXT, arm).unwrap();
        let (first, last) = (
            "server { gzip off; } gzip on;",
            "gzip on; server { gzip off; }",
        );
        assert_eq!(merged(first), merged(last));
    }

    #[test]
    fn bakeoffs_own_address_may_have_parameters_in_a_block_too() {
        check(
            "server { listen 10.77.0.1:80 reuseport; } map $uri $a { root 1; listen 2; }",
            &expect![[r#"
                worker_processes 2;
                events {
                    worker_connections 164;
                }
                http {
                    sendfile on;
                    types {
                        text/html html;
                    }
                    add_header Set-Cookie "visitor=known; Path=/";
                    server {
                        listen 10.77.0.1:80 reuseport;
                        root /context/site;
                    }
                    map $uri $a {
                        root 1;
                        listen 2;
                    }
                }
            "#]],
        );
    }

    #[test]
    fn what_bakeoff_works_by_is_refused_in_every_block() {
        let address = expect![
            "refused: listen 80: bakeoff has an address of its own (write listen {address} and what follows)"
        ];
        for arm in [
            "listen 80;",
            "server { listen 80; }",
            "http { listen 80; }",
            "http { server { listen 80; } }",
            "server { listen 10.77.0.1:80; listen 80; }",
        ] {
            check(arm, &address);
        }
        let documents = expect!["refused: root: bakeoff works by its own (remove it)"];
        for arm in [
            "server { root /etc; }",
            "location / { root /etc; }",
            "server { location / { if ($a) { root /etc; } } }",
        ] {
            check(arm, &documents);
        }
        check(
            "location /a/ { alias /etc/; }",
            &expect!["refused: alias: bakeoff works by its own (remove it)"],
        );
    }

    #[test]
    fn what_bakeoff_works_by_and_broken_text_are_refused() {
        for (arm, expected) in [
            (
                "root /srv;",
                expect!["refused: root: bakeoff works by its own (remove it)"],
            ),
            (
                "http { server { root /srv; } }",
                expect!["refused: root: bakeoff works by its own (remove it)"],
            ),
            (
                "listen 8080;",
                expect![
                    "refused: listen 8080: bakeoff has an address of its own (write listen {address} and what follows)"
                ],
            ),
            ("gzip on", expect!["refused: gzip on: no ; after it"]),
            (
                "location / { gzip on;",
                expect!["refused: location /: a block without its }"],
            ),
            ("gzip on; }", expect!["refused: a } that closes nothing"]),
            (
                "add_header A \"b;",
                expect![[r#"refused: a quote without its end: "b;"#]],
            ),
        ] {
            check(arm, &expected);
        }
    }
}
