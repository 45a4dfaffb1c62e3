//! Merges an arm's directives into a server's configuration.
//!
//! Both texts are parsed into directives and blocks. An arm's directive replaces the one with the
//! same name in the same block, or is added to that block. Blocks with the same name are merged. A
//! top-level directive of the arm goes to the block that already has it, or to the one that the
//! grammar states.

use std::mem;

/// Syntax of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// One directive per line, blocks as `<Name arguments>` to `</Name>`. Blocks are always added,
    /// because Apache merges them.
    Apache,
    /// Directives end with a semicolon; blocks are in braces.
    Nginx,
    /// One option per line, below `[section]` or at the top.
    Options,
    /// Elements are blocks, attributes are directives.
    Xml,
}

/// How to parse and merge a server's directives. Lists of names are separated by spaces.
pub(super) struct Grammar {
    pub(super) syntax: Syntax,
    /// Normalises the name of a directive.
    pub(super) key: fn(&str) -> String,
    /// Characters that end an option's name.
    pub(super) separators: &'static [char],
    /// The section of top-level options, then its other names.
    pub(super) main: &'static str,
    /// Directives that only bakeoff may set, by block; `*` is every block.
    pub(super) owned: &'static [(&'static str, &'static str)],
    /// Directives and blocks that may be repeated: they are always added.
    pub(super) repeated: &'static str,
    /// Directives that the server refuses twice in a block.
    pub(super) once: &'static str,
    /// Blocks for top-level directives of an arm, with the names that belong there; `*` is all
    /// other names.
    pub(super) levels: &'static [Level],
}

type Level = (&'static [&'static str], &'static str);

/// A directive, or a block of them.
#[derive(Debug, Clone)]
struct Node {
    /// Name as written.
    name: String,
    /// Normalised name; for blocks with arguments.
    key: String,
    /// The directive, or the head of a block.
    text: String,
    inner: Option<Vec<Node>>,
    /// Whether it is from the arm.
    is_new: bool,
}

impl Node {
    fn is_like(&self, other: &Self) -> bool {
        self.key == other.key && self.inner.is_some() == other.inner.is_some()
    }

    /// The key without arguments.
    fn plain(&self) -> &str {
        self.key.split(' ').next().unwrap_or_default()
    }
}

/// nginx blocks that contain values instead of directives.
const TABLES: &str = "charset_map geo map split_clients types";

fn lists(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|other| other == name)
}

impl Grammar {
    /// Merges the arm's directives into `base`. The server listens on `address`.
    pub(super) fn merge(&self, base: &str, arm: &str, address: &str) -> Result<String, String> {
        let mut tree = self.read(base)?;
        let arm = self.read(arm)?;
        // Choose all levels before the first change, so that the order of lines does not matter.
        let levels: Result<Vec<_>, _> =
            arm.iter().map(|node| self.level(&mut tree, node)).collect();
        for (node, (path, _)) in arm.into_iter().zip(levels?) {
            let nodes = descend(&mut tree, path).expect("the level has just been found");
            self.put(nodes, path.last().unwrap_or(&""), node, address)?;
        }
        self.refuse_repeated(&tree, "the file")?;
        Ok(self.show(&tree, 0))
    }

    /// The block for a top-level directive of the arm.
    fn level(&self, tree: &mut Vec<Node>, node: &Node) -> Result<&'static Level, String> {
        let mut levels = self.levels.iter();
        let has = |(path, _): &&Level| {
            let nodes = descend(tree, path);
            nodes.is_some_and(|nodes| nodes.iter().any(|other| other.is_like(node)))
        };
        let existing = if self.is_repeated(node) {
            None
        } else {
            levels.find(has)
        };
        let named = |name| self.levels.iter().find(|(_, names)| lists(names, name));
        existing
            .or_else(|| named(node.plain()).or_else(|| named("*")))
            .filter(|(path, _)| descend(tree, path).is_some())
            .ok_or_else(|| {
                let text = &node.text;
                format!("{text}: no place for it (write it inside the block that it belongs to)")
            })
    }

    /// Adds a node of the arm to a block.
    fn put(
        &self,
        nodes: &mut Vec<Node>,
        block: &str,
        mut node: Node,
        address: &str,
    ) -> Result<(), String> {
        node.is_new = true;
        let is_old = |other: &Node| !other.is_new && other.is_like(&node);
        let old = nodes
            .iter()
            .position(is_old)
            .filter(|_| !self.is_repeated(&node));
        let Some(inner) = &mut node.inner else {
            // Repeating a directive of bakeoff is allowed; it selects a block.
            if old.is_none_or(|at| nodes[at].text != node.text) {
                self.refuse(block, &node, address)?;
            }
            if old.is_some() {
                nodes.retain(|other| other.is_new || !other.is_like(&node));
            }
            nodes.insert(old.unwrap_or_else(|| self.end(nodes)), node);
            return Ok(());
        };
        let inner = mem::take(inner);
        let at = old.unwrap_or_else(|| self.end(nodes));
        let block = node.plain().to_string();
        if old.is_none() {
            nodes.insert(at, node);
        }
        let children = nodes[at].inner.as_mut().expect("it is a block");
        let mut inner = inner.into_iter();
        inner.try_for_each(|child| self.put(children, &block, child, address))
    }

    fn is_repeated(&self, node: &Node) -> bool {
        let is_section = self.syntax == Syntax::Apache && node.inner.is_some();
        is_section || lists(self.repeated, node.plain())
    }

    /// Index for an added node: before bakeoff's blocks, or at the end for Apache, whose directives
    /// must follow their modules, and for options: Samba's shares take defaults only from what stands above them.
    fn end(&self, nodes: &[Node]) -> usize {
        let is_old_block = |node: &Node| !node.is_new && node.inner.is_some();
        let before = nodes.iter().position(is_old_block);
        before
            .filter(|_| matches!(self.syntax, Syntax::Nginx | Syntax::Xml))
            .unwrap_or(nodes.len())
    }

    /// Refuses directives that only bakeoff may set.
    fn refuse(&self, block: &str, node: &Node, address: &str) -> Result<(), String> {
        let Node { name, text, .. } = node;
        let argument = text.split_whitespace().nth(1).unwrap_or_default();
        let is_here = |place: &str| place == block || (place == "*" && !lists(TABLES, block));
        let mut owned = self.owned.iter();
        if owned.any(|(place, names)| is_here(place) && lists(names, node.plain())) {
            let place = if self.syntax == Syntax::Xml {
                format!("{block} ")
            } else {
                String::new()
            };
            return Err(format!(
                "{place}{name}: bakeoff works by its own (remove it)"
            ));
        }
        if node.key.starts_with("loadmodule mpm_") {
            return Err(format!(
                "{text}: the workload says which (write mpm = \"worker\" there)"
            ));
        }
        if node.plain() == "listen" && argument != address && is_here("*") {
            return Err(format!(
                "{text}: bakeoff has an address of its own (write {name} {{address}} and what follows)"
            ));
        }
        Ok(())
    }

    /// Refuses repeated directives in a block that the server would refuse.
    fn refuse_repeated(&self, nodes: &[Node], block: &str) -> Result<(), String> {
        for (at, node) in nodes.iter().enumerate() {
            let twin = nodes[..at].iter().find(|before| before.is_like(node));
            if let Some(twin) = twin.filter(|_| lists(self.once, node.plain())) {
                let (first, second) = (&twin.text, &node.text);
                return Err(format!(
                    "{first} and {second}: nginx takes one of them in {block} (remove the other)"
                ));
            }
            self.refuse_repeated(node.inner.as_deref().unwrap_or_default(), &node.text)?;
        }
        Ok(())
    }

    fn read(&self, text: &str) -> Result<Vec<Node>, String> {
        match self.syntax {
            Syntax::Xml => self.read_xml(text),
            Syntax::Nginx => self.tree(statements(text)?),
            Syntax::Apache | Syntax::Options => self.tree(self.lines(text)?),
        }
    }

    fn node(&self, text: String, inner: Option<Vec<Node>>) -> Node {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let (name, mut key) = match self.syntax {
            Syntax::Options if inner.is_some() => {
                let name = text.trim_matches(['[', ']', ' ']);
                let key = name.to_lowercase();
                let is_main = lists(self.main, &key);
                (
                    name,
                    if is_main {
                        self.main_section().into()
                    } else {
                        key
                    },
                )
            }
            Syntax::Options => {
                let name = text
                    .split(self.separators)
                    .next()
                    .unwrap_or_default()
                    .trim();
                (name, (self.key)(name))
            }
            Syntax::Apache | Syntax::Nginx if inner.is_some() => (first, text.clone()),
            Syntax::Apache | Syntax::Nginx | Syntax::Xml => (first, (self.key)(first)),
        };
        // These directives are repeated with different arguments.
        if inner.is_none() && lists("loadmodule listen", &key) {
            key = format!("{key} {}", words.next().unwrap_or_default());
        }
        let name = name.to_string();
        Node {
            name,
            key,
            text,
            inner,
            is_new: false,
        }
    }

    fn main_section(&self) -> &'static str {
        self.main.split(' ').next().unwrap_or_default()
    }

    /// Builds the tree of blocks.
    fn tree(&self, pieces: Vec<Piece>) -> Result<Vec<Node>, String> {
        let mut open: Vec<(String, Vec<Node>)> = Vec::new();
        let mut nodes = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Directive(text) => nodes.push(self.node(text, None)),
                Piece::Open(head) => open.push((head, mem::take(&mut nodes))),
                Piece::Close(end) => {
                    let ends = |head: &str| self.end_of(head).eq_ignore_ascii_case(&end);
                    let block = open.pop().filter(|(head, _)| ends(head));
                    let (head, outer) = block.ok_or_else(|| format!("{end}: closes no block"))?;
                    let inner = mem::replace(&mut nodes, outer);
                    nodes.push(self.node(head, Some(inner)));
                }
            }
        }
        match open.pop() {
            Some((head, _)) => Err(format!("{head}: a block without its end")),
            None => Ok(nodes),
        }
    }

    /// The end of a block with this head.
    fn end_of(&self, head: &str) -> String {
        match self.syntax {
            Syntax::Apache => {
                let name = head.trim_matches(['<', '>']).split_whitespace().next();
                format!("</{}>", name.unwrap_or_default())
            }
            Syntax::Nginx => "}".into(),
            Syntax::Options => String::new(),
            Syntax::Xml => format!("</{head}>"),
        }
    }

    /// Splits a text into lines without comments. A backslash at the end of a line joins it with
    /// the next one.
    fn lines(&self, text: &str) -> Result<Vec<Piece>, String> {
        let mut pieces = Vec::new();
        let mut has_section = false;
        let is_options = self.syntax == Syntax::Options;
        for line in text.replace("\\\n", " ").lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') || (is_options && line.starts_with(';')) {
                continue;
            }
            let is_section = is_options && line.starts_with('[');
            if is_section && !line.ends_with(']') {
                return Err(format!("{line}: a section without its ]"));
            }
            if is_section && mem::replace(&mut has_section, true) {
                pieces.push(Piece::Close(String::new()));
            }
            if is_options && !is_section && !has_section && !self.main.is_empty() {
                pieces.push(Piece::Open(format!("[{}]", self.main_section())));
                has_section = true;
            }
            pieces.push(match self.syntax {
                Syntax::Apache if line.starts_with("</") => Piece::Close(line.into()),
                Syntax::Apache if line.starts_with('<') => Piece::Open(line.into()),
                _ if is_section => Piece::Open(line.into()),
                _ => Piece::Directive(line.into()),
            });
        }
        if has_section {
            pieces.push(Piece::Close(String::new()));
        }
        Ok(pieces)
    }

    fn read_xml(&self, text: &str) -> Result<Vec<Node>, String> {
        let start = text.trim_start();
        // A declaration is not allowed within the root element that is added here.
        let body = match start.strip_prefix("<?xml") {
            Some(rest) => rest.split_once("?>").map_or(rest, |(_, body)| body),
            None => start,
        };
        let whole = format!("<config>{body}</config>");
        let page = roxmltree::Document::parse(&whole).map_err(|why| format!("not XML: {why}"))?;
        let elements = page
            .root_element()
            .children()
            .filter(roxmltree::Node::is_element);
        Ok(elements.map(|element| self.element(element)).collect())
    }

    fn element(&self, element: roxmltree::Node<'_, '_>) -> Node {
        let attributes = element.attributes().map(|attribute| {
            let value = attribute
                .value()
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('"', "&quot;");
            Node {
                text: format!("{}=\"{value}\"", attribute.name()),
                ..self.node(attribute.name().into(), None)
            }
        });
        let children = element.children().filter(roxmltree::Node::is_element);
        let children = children.map(|child| self.element(child));
        self.node(
            element.tag_name().name().into(),
            Some(attributes.chain(children).collect()),
        )
    }

    fn show<'n>(&self, nodes: impl IntoIterator<Item = &'n Node>, depth: usize) -> String {
        let indent = "    ".repeat(depth);
        let shown = nodes.into_iter().map(|node| {
            let Node { text, inner, .. } = node;
            let Some(inner) = inner else {
                let end = if self.syntax == Syntax::Nginx {
                    ";"
                } else {
                    ""
                };
                return format!("{indent}{text}{end}\n");
            };
            let is_attribute = |node: &&Node| self.syntax == Syntax::Xml && node.inner.is_none();
            let (attributes, inner): (Vec<_>, Vec<_>) = inner.iter().partition(is_attribute);
            let attributes = attributes
                .iter()
                .map(|attribute| format!(" {}", attribute.text));
            let head = match self.syntax {
                Syntax::Nginx => format!("{text} {{"),
                Syntax::Xml => format!("<{text}{}>", attributes.collect::<String>()),
                Syntax::Apache | Syntax::Options => text.clone(),
            };
            let end = match self.end_of(text) {
                end if end.is_empty() => end,
                end => format!("{indent}{end}\n"),
            };
            format!("{indent}{head}\n{}{end}", self.show(inner, depth + 1))
        });
        shown.collect()
    }
}

/// The block at the end of a path of names.
fn descend<'t>(tree: &'t mut Vec<Node>, path: &[&str]) -> Option<&'t mut Vec<Node>> {
    let Some((name, rest)) = path.split_first() else {
        return Some(tree);
    };
    let mut blocks = tree.iter_mut().filter(|node| node.key == *name);
    descend(blocks.find_map(|node| node.inner.as_mut())?, rest)
}

/// A piece of a configuration.
enum Piece {
    Directive(String),
    Open(String),
    Close(String),
}

/// Splits a text as nginx does: quotes group words, and the brace of `${name}` opens no block.
fn statements(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let (mut words, mut word) = (Vec::<String>::new(), String::new());
    let mut quote = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (_, '\\') => {
                word.push(c);
                word.extend(rest.next());
            }
            (Some(end), _) => {
                word.push(c);
                quote = quote.filter(|_| c != end);
            }
            (None, '#') if word.is_empty() => while rest.next_if(|c| *c != '\n').is_some() {},
            (None, '"' | '\'') if word.is_empty() => {
                word.push(c);
                quote = Some(c);
            }
            (None, '{') if word.ends_with('$') => {
                word.push(c);
                quote = Some('}');
            }
            (None, ';' | '{' | '}') => {
                words.extend(Some(mem::take(&mut word)).filter(|word| !word.is_empty()));
                let text = mem::take(&mut words).join(" ");
                pieces.push(match (c, text.is_empty()) {
                    ('}', true) => Piece::Close("}".into()),
                    ('}', false) => return Err(format!("{text}: no ; after it")),
                    (_, true) => return Err("a ; or { without a directive before it".into()),
                    (';', false) => Piece::Directive(text),
                    (_, false) => Piece::Open(text),
                });
            }
            (None, c) if c.is_whitespace() => {
                words.extend(Some(mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            (None, c) => word.push(c),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    match (quote, words.join(" ")) {
        (Some(_), text) => Err(format!("a quote without its end: {text}")),
        (None, text) if text.is_empty() => Ok(pieces),
        (None, text) => Err(format!("{text}: no ; after it")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::form;

    fn merge(service: &str, arm: &str) -> Result<String, String> {
        let base = match service {
            "apache2" => APACHE,
            "nginx" => NGINX,
            "mariadbd" => {
                "[mariadbd]\ndatadir = /context\nskip_name_resolve = on\ninnodb_buffer_pool_size = 128M\n"
            }
            "postgres" => "port = 5432\nshared_buffers = 128MB\nautovacuum = off\n",
            "smbd" => {
                "[global]\ninterfaces = 10.77.0.1\nserver min protocol = NT1\n[share]\npath = /context\nread only = no\n"
            }
            _ => TOMCAT,
        };
        form(service).grammar.merge(base, arm, "10.77.0.1:80")
    }

    fn check(service: &str, arm: &str, expected: &Expect) {
        let merged = merge(service, arm);
        expected.assert_eq(&merged.unwrap_or_else(|why| format!("refused: {why}")));
    }

    const APACHE: &str = "\
LoadModule mime_module mod_mime.so
Listen 10.77.0.1:80
KeepAlive On
MaxRequestWorkers 75
AddType text/html .html
<Directory />
    Require all denied
</Directory>
";

    const NGINX: &str = "
worker_processes 2;
events { worker_connections 164; }
http {
    sendfile on;
    types { text/html html; }
    add_header Set-Cookie \"visitor=known; Path=/\";
    server { listen 10.77.0.1:80 backlog=65535; root /context/site; }
}
";

    const TOMCAT: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<Server port=\"-1\"><Service name=\"trade\"><Connector address=\"10.77.0.1\" port=\"8080\" maxThreads=\"61\"/>
<Engine name=\"trade\"><Host name=\"trade\"><Context docBase=\"/app\"><Manager pathname=\"\"/></Context></Host></Engine>
</Service></Server>";

    #[test]
    fn a_directive_replaces_that_of_bakeoff() {
        check(
            "apache2",
            "# fewer\nkeepalive Off\nMaxClients \\\n 200\nListen 10.77.0.1:80\nLoadModule mime_module x.so\nEnableSendfile On\n",
            &expect![[r#"
                LoadModule mime_module x.so
                Listen 10.77.0.1:80
                keepalive Off
                MaxClients   200
                AddType text/html .html
                <Directory />
                    Require all denied
                </Directory>
                EnableSendfile On
            "#]],
        );
        check(
            "nginx",
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
    fn an_option_or_attribute_replaces_that_of_bakeoff() {
        check(
            "mariadbd",
            "# more\ninnodb-buffer-pool-size=1G\n[mysqld]\nloose-skip-name-resolve = off\nquery_cache_size = 0\n\
             [client]\nport = 1\n",
            &expect![[r#"
                [mariadbd]
                    datadir = /context
                    loose-skip-name-resolve = off
                    innodb-buffer-pool-size=1G
                    query_cache_size = 0
                [client]
                    port = 1
            "#]],
        );
        check(
            "postgres",
            "Shared_Buffers 1GB\nautovacuum=on\nwork_mem = '64MB' # each\n",
            &expect![[r#"
                port = 5432
                Shared_Buffers 1GB
                autovacuum=on
                work_mem = '64MB' # each
            "#]],
        );
        check(
            "smbd",
            "Min Protocol = SMB2\nsocket options = TCP_NODELAY \\\n IPTOS_LOWDELAY\n[SHARE]\nwriteable = no\n\
             [other]\npath = /srv\n",
            &expect![[r#"
                [global]
                    interfaces = 10.77.0.1
                    Min Protocol = SMB2
                    socket options = TCP_NODELAY   IPTOS_LOWDELAY
                [share]
                    path = /context
                    writeable = no
                [other]
                    path = /srv
            "#]],
        );
        check(
            "tomcat",
            "<Connector maxThreads=\"400\" port=\"8080\" compression=\"on &amp; off\" executor=\"pool\"/>\n<!-- why -->\n\
             <Executor name=\"pool\"/><Valve className=\"a\"/><Valve className=\"b\"/>\
             <Service><Engine jvmRoute=\"x\"><Host><Context><Manager pathname=\"p\"/></Context></Host></Engine></Service>",
            &expect![[r#"
                <Server port="-1">
                    <Service name="trade">
                        <Executor name="pool">
                        </Executor>
                        <Connector address="10.77.0.1" port="8080" maxThreads="400" compression="on &amp; off" executor="pool">
                        </Connector>
                        <Engine name="trade" jvmRoute="x">
                            <Host name="trade">
                                <Valve className="a">
                                </Valve>
                                <Valve className="b">
                                </Valve>
                                <Context docBase="/app">
                                    <Manager pathname="p">
                                    </Manager>
                                </Context>
                            </Host>
                        </Engine>
                    </Service>
                </Server>
            "#]],
        );
    }

    #[test]
    fn other_directives_are_added_to_their_blocks() {
        check(
            "apache2",
            "AddType text/css .css\n<Directory />\n  <IfModule x>\n    KeepAlive Off\n  </IfModule>\n</Directory>",
            &expect![[r#"
                LoadModule mime_module mod_mime.so
                Listen 10.77.0.1:80
                KeepAlive On
                MaxRequestWorkers 75
                AddType text/html .html
                <Directory />
                    Require all denied
                </Directory>
                AddType text/css .css
                <Directory />
                    <IfModule x>
                        KeepAlive Off
                    </IfModule>
                </Directory>
            "#]],
        );
        check(
            "nginx",
            "gzip on; multi_accept on; pcre_jit on; add_header A \"b;{c\"; add_header D ${e}; \
             location /a { return 404; } map $uri $a { root 1; listen 2; } \
             http { server { gzip off; } tcp_nopush off; }",
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
                    map $uri $a {
                        root 1;
                        listen 2;
                    }
                    tcp_nopush off;
                    types {
                        text/html html;
                    }
                    add_header Set-Cookie "visitor=known; Path=/";
                    server {
                        listen 10.77.0.1:80 backlog=65535;
                        root /context/site;
                        location /a {
                            return 404;
                        }
                        gzip off;
                    }
                }
            "#]],
        );
        let twice = "gzip_types a/b; gzip_types c/d; access_log /a; access_log /b; gzip on; server { gzip off; } \
                     log_format a $uri; log_format b $host;";
        let merged = merge("nginx", twice).unwrap();
        for name in ["gzip_types", "access_log", "log_format"] {
            assert_eq!(merged.matches(name).count(), 2, "{name}");
        }
        let merged = |arm| merge("nginx", arm).unwrap();
        assert_eq!(
            merged("server { gzip off; } gzip on;"),
            merged("gzip on; server { gzip off; }")
        );
    }

    #[test]
    fn repeated_directives_are_refused_as_nginx_does() {
        for (arm, expected) in [
            (
                "sendfile off;\nsendfile on;",
                "sendfile off and sendfile on: nginx takes one of them in http",
            ),
            (
                "sendfile on;\nsendfile off;",
                "sendfile on and sendfile off: nginx takes one of them in http",
            ),
            (
                "worker_processes 1; worker_processes 2;",
                "worker_processes 1 and worker_processes 2: nginx takes one of them in the file",
            ),
            (
                "http { sendfile off; } sendfile on;",
                "sendfile off and sendfile on: nginx takes one of them in http",
            ),
            (
                "server { keepalive_timeout 1; } http { server { keepalive_timeout 2; } }",
                "keepalive_timeout 1 and keepalive_timeout 2: nginx takes one of them in server",
            ),
            (
                "location /a { gzip on; gzip off; }",
                "gzip on and gzip off: nginx takes one of them in location /a",
            ),
            (
                "location /a { } location /a { }",
                "location /a and location /a: nginx takes one of them in server",
            ),
            (
                "listen 10.77.0.1:80 reuseport; listen 10.77.0.1:80 fastopen=9;",
                "listen 10.77.0.1:80 reuseport and listen 10.77.0.1:80 fastopen=9: nginx takes one of them in server",
            ),
        ] {
            let why = merge("nginx", arm).unwrap_err();
            assert_eq!(why, format!("{expected} (remove the other)"));
        }
    }

    #[test]
    fn directives_of_bakeoff_are_refused_in_every_block() {
        for (service, arm, name) in [
            ("apache2", "documentroot /srv", "documentroot"),
            (
                "apache2",
                "<VirtualHost *:80>\n  DocumentRoot /srv\n</VirtualHost>",
                "DocumentRoot",
            ),
            ("nginx", "root /srv;", "root"),
            ("nginx", "http { server { root /srv; } }", "root"),
            ("nginx", "location / { root /etc; }", "root"),
            (
                "nginx",
                "server { location / { if ($a) { root /etc; } } }",
                "root",
            ),
            ("nginx", "location /a/ { alias /etc/; }", "alias"),
            ("mariadbd", "skip-networking", "skip-networking"),
            ("postgres", "port 1", "port"),
            ("smbd", "[share]\nDirectory = /srv", "Directory"),
            ("tomcat", "<Connector port=\"80\"/>", "Connector port"),
        ] {
            let why = merge(service, arm).unwrap_err();
            assert_eq!(why, format!("{name}: bakeoff works by its own (remove it)"));
        }
        for arm in [
            "listen 80;",
            "server { listen 80; }",
            "http { listen 80; }",
            "http { server { listen 80; } }",
            "server { listen 10.77.0.1:80; listen 80; }",
        ] {
            let why = merge("nginx", arm).unwrap_err();
            assert_eq!(
                why,
                "listen 80: bakeoff has an address of its own (write listen {address} and what follows)"
            );
        }
        let nested = "<IfModule mime_module>\n  <IfVersion >= 2.4>\n    Listen 8080\n  </IfVersion>\n</IfModule>";
        for arm in ["Listen 8080", nested] {
            let why = merge("apache2", arm).unwrap_err();
            assert_eq!(
                why,
                "Listen 8080: bakeoff has an address of its own (write Listen {address} and what follows)"
            );
        }
    }

    #[test]
    fn invalid_directives_are_refused() {
        let cases = [
            ("apache2", "LoadModule mpm_event_module x.so"),
            ("apache2", "<Directory />\nRequire all denied"),
            ("apache2", "</Directory>"),
            ("nginx", "gzip on"),
            ("nginx", "location / { gzip on;"),
            ("nginx", "gzip on; }"),
            ("nginx", "add_header A \"b;"),
            ("mariadbd", "[mysqld"),
            ("tomcat", "<Frobnicate/>"),
            ("tomcat", "<Connector"),
        ];
        let refused = cases.map(|(service, arm)| merge(service, arm).unwrap_err() + "\n");
        expect![[r#"
            LoadModule mpm_event_module x.so: the workload says which (write mpm = "worker" there)
            <Directory />: a block without its end
            </Directory>: closes no block
            gzip on: no ; after it
            location /: a block without its end
            }: closes no block
            a quote without its end: add_header A "b;
            [mysqld: a section without its ]
            Frobnicate: no place for it (write it inside the block that it belongs to)
            not XML: expected a whitespace not '<' at 1:19
        "#]]
        .assert_eq(&refused.concat());
    }
}
