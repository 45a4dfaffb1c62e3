//! Merges an arm's directives into a server's configuration. A directive of the arm replaces those
//! of the same name in the same block. Anything else is added to that block as it is.

use std::mem;
use std::sync::LazyLock;

use regex_lite::Regex;

use super::grammar::{Grammar, Syntax};

/// Largest depth of blocks; servers need fewer than ten.
const MAX_DEPTH: usize = 64;

/// Blanks, comments, quotes, words and delimiters of nginx. The brace of `${name}` opens no block.
static NGINX_TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    let parts = [
        r"\s+",
        r"#[^\n]*",
        r#""(?:\\.|[^"\\])*""#,
        r"'(?:\\.|[^'\\])*'",
        r#"(?:\$\{[^}]*\}|\\.|[^\s;{}"'\\])(?:\$\{[^}]*\}|\\.|[^\s;{}\\])*"#,
        r".",
    ];
    Regex::new(&format!("(?s){}", parts.join("|"))).expect("the expression is valid")
});

/// A directive, or a block of them.
#[derive(Debug, Default)]
struct Node {
    /// Normalised name; for blocks with arguments.
    key: String,
    /// The directive, or the line that opens a block.
    text: String,
    inner: Option<Vec<Node>>,
    /// The line that closes a block.
    end: String,
    /// Whether it is from the arm.
    is_new: bool,
}

impl Node {
    fn is_like(&self, other: &Self) -> bool {
        self.key == other.key && self.inner.is_some() == other.inner.is_some()
    }

    /// The key without arguments.
    fn name(&self) -> &str {
        self.key.split([' ', '@']).next().unwrap_or_default()
    }

    /// The text for messages.
    fn shown(&self) -> &str {
        self.text.trim_end_matches([' ', ';', '{'])
    }
}

fn lists(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|other| other == name)
}

/// The block at the end of a path of names.
fn descend<'t>(tree: &'t mut Vec<Node>, path: &str) -> Option<&'t mut Vec<Node>> {
    path.split_terminator('/').try_fold(tree, |nodes, name| {
        let block = nodes.iter_mut().find(|node| node.key == name)?;
        block.inner.as_mut()
    })
}

fn show(nodes: &[Node], depth: usize) -> String {
    let indent = "    ".repeat(depth);
    let line = |text: &str| match text {
        "" => String::new(),
        text => format!("{indent}{text}\n"),
    };
    let shown = nodes.iter().map(|node| {
        let inner = show(node.inner.as_deref().unwrap_or_default(), depth + 1);
        [line(&node.text), inner, line(&node.end)].concat()
    });
    shown.collect()
}

impl Grammar {
    /// Merges the arm's directives into `base`. The server listens on `address`.
    pub(super) fn merge(&self, base: &str, arm: &str, address: &str) -> Result<String, String> {
        let mut tree = self.read(base, false)?;
        for node in self.read(arm, true)? {
            let path = self.level(&mut tree, &node)?;
            let nodes = descend(&mut tree, path).expect("the level has just been found");
            let block = path.rsplit('/').next().unwrap_or_default();
            self.put(nodes, block, node, address)?;
        }
        Ok(show(&tree, 0))
    }

    /// The path of the block for a directive or block of the arm that is outside all blocks.
    fn level(&self, tree: &mut Vec<Node>, node: &Node) -> Result<&'static str, String> {
        let is_same = |old: &Node| !old.is_new && old.is_like(node);
        let mut has = |path| descend(tree, path).is_some_and(|nodes| nodes.iter().any(is_same));
        let mut levels = self.levels.iter();
        let existing = levels.find(|(path, _)| !lists(self.repeated, node.name()) && has(path));
        let named = |name| self.levels.iter().find(|(_, names)| lists(names, name));
        let level = existing.or_else(|| named(node.name()).or_else(|| named("*")));
        let path = level.map(|(path, _)| *path);
        path.filter(|path| descend(tree, path).is_some())
            .ok_or_else(|| {
                let text = node.shown();
                format!("{text}: no place for it (write it inside the block that it belongs to)")
            })
    }

    /// Merges a node of the arm into a block.
    fn put(
        &self,
        nodes: &mut Vec<Node>,
        block: &str,
        mut node: Node,
        address: &str,
    ) -> Result<(), String> {
        let is_repeated = lists(self.repeated, node.name());
        let is_old = |old: &Node| !is_repeated && !old.is_new && old.is_like(&node);
        // Of several sections of a name, the last one counts.
        let old = match self.syntax {
            Syntax::Options if node.inner.is_some() => nodes.iter().rposition(is_old),
            _ => nodes.iter().position(is_old),
        };
        let at = old.unwrap_or_else(|| self.place(nodes));
        let Some(inner) = node.inner.as_mut().map(mem::take) else {
            // To repeat a directive unchanged is allowed; it may select a block.
            if old.is_none_or(|at| nodes[at].text != node.text) {
                self.refuse(block, &node, address)?;
            }
            if old.is_some() {
                nodes.retain(|old| old.is_new || !old.is_like(&node));
            }
            nodes.insert(at, node);
            return Ok(());
        };
        let block = node.key.clone();
        if old.is_none() {
            nodes.insert(at, node);
        }
        let children = nodes[at].inner.as_mut().expect("it is a block");
        let mut inner = inner.into_iter();
        inner.try_for_each(|child| self.put(children, &block, child, address))
    }

    /// Index for an added node. It is the end of a block for Apache, whose directives must follow
    /// their modules, and for options, the last of which counts. It is the start for nginx, whose
    /// formats must precede their use, and for Tomcat, whose executors must precede connectors.
    fn place(&self, nodes: &[Node]) -> usize {
        let first_old = nodes.iter().position(|node| !node.is_new);
        match self.syntax {
            Syntax::Apache | Syntax::Options => nodes.len(),
            Syntax::Nginx | Syntax::Xml => first_old.unwrap_or(nodes.len()),
        }
    }

    /// Refuses directives that only bakeoff may set.
    fn refuse(&self, block: &str, node: &Node, address: &str) -> Result<(), String> {
        let (text, in_block) = (node.shown(), format!("{block}/{}", node.key));
        if lists(self.owned, &node.key) || lists(self.owned, &in_block) {
            return Err(format!("{text}: only bakeoff sets this (remove it)"));
        }
        if node.key.starts_with("loadmodule mpm_") {
            return Err(format!(
                "{text}: the workload says which (write mpm = \"worker\" there)"
            ));
        }
        let target = node.key.strip_prefix("listen ");
        if target.is_some_and(|target| target != address) {
            let name = text.split_whitespace().next().unwrap_or_default();
            return Err(format!(
                "{text}: only bakeoff sets the address (write {name} {{address}} and what follows)"
            ));
        }
        Ok(())
    }

    fn read(&self, text: &str, is_new: bool) -> Result<Vec<Node>, String> {
        let mut reader = Reader {
            grammar: self,
            is_new,
            open: vec![Node::default()],
        };
        match self.syntax {
            Syntax::Apache | Syntax::Options => reader.read_lines(text)?,
            Syntax::Nginx => reader.read_nginx(text)?,
            Syntax::Xml => reader.read_xml(text)?,
        }
        let last = reader.open.pop().expect("the root is open");
        if !reader.open.is_empty() {
            return Err(format!("{}: a block without its end", last.shown()));
        }
        Ok(last.inner.unwrap_or_default())
    }

    /// The normalised name of a directive.
    fn key(&self, text: &str) -> String {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        if self.syntax != Syntax::Options {
            let key = first.trim_matches(['"', '\'']).to_lowercase();
            return match key.as_str() {
                // These are repeated with different arguments.
                "listen" | "loadmodule" => format!("{key} {}", words.next().unwrap_or_default()),
                _ => key,
            };
        }
        // `loose-skip-name-resolve`, `skip_name_resolve` and `Name Resolve` are the same option.
        let name = text.split_once('=').map_or(first, |(name, _)| name);
        let mut key = name.to_lowercase();
        key.retain(|letter| !matches!(letter, ' ' | '\t' | '-' | '_'));
        for prefix in ["loose", "enable", "disable", "skip"] {
            key = key.strip_prefix(prefix).unwrap_or(&key).to_string();
        }
        key
    }
}

/// Reads a configuration without its comments.
struct Reader<'g> {
    grammar: &'g Grammar,
    is_new: bool,
    /// The root, and the blocks that have no end yet.
    open: Vec<Node>,
}

impl Reader<'_> {
    fn add(&mut self, node: Node) {
        let block = self.open.last_mut().expect("the root stays open");
        block.inner.get_or_insert_default().push(node);
    }

    fn directive(&mut self, key: String, text: String) {
        self.add(Node {
            key,
            text,
            is_new: self.is_new,
            ..Node::default()
        });
    }

    fn open(&mut self, key: &str, text: &str, end: &str) -> Result<(), String> {
        if self.open.len() > MAX_DEPTH {
            return Err(format!("{text}: over {MAX_DEPTH} blocks within each other"));
        }
        self.open.push(Node {
            key: key.into(),
            text: text.into(),
            inner: Some(Vec::new()),
            end: end.into(),
            is_new: self.is_new,
        });
        Ok(())
    }

    fn close(&mut self, end: &str) -> Result<(), String> {
        let ends = |block: &mut Node| block.end.eq_ignore_ascii_case(end);
        let block = self
            .open
            .pop_if(|block| block.inner.is_some() && ends(block));
        self.add(block.ok_or_else(|| format!("{end}: closes no block"))?);
        Ok(())
    }

    /// Reads Apache's directives, or options. A backslash joins a line with the next one.
    fn read_lines(&mut self, text: &str) -> Result<(), String> {
        let is_options = self.grammar.syntax == Syntax::Options;
        let joined = text.replace("\\\n", " ");
        let is_comment =
            |line: &str| line.starts_with('#') || (is_options && line.starts_with(';'));
        let lines = joined.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !is_comment(line)) {
            match (is_options, line.as_bytes()[0]) {
                (true, b'[') => self.section(line)?,
                (false, b'<') if line.starts_with("</") => self.close(line)?,
                (false, b'<') => {
                    let name = line.trim_matches(['<', '>']).split_whitespace().next();
                    self.open(line, line, &format!("</{}>", name.unwrap_or_default()))?;
                }
                _ => {
                    if let (1, Some(main)) = (self.open.len(), self.grammar.main.first()) {
                        self.open(main, &format!("[{main}]"), "")?;
                    }
                    self.directive(self.grammar.key(line), line.into());
                }
            }
        }
        if is_options && self.open.len() > 1 {
            self.close("")?;
        }
        Ok(())
    }

    /// Begins a section, which ends the one before.
    fn section(&mut self, line: &str) -> Result<(), String> {
        if self.open.len() > 1 {
            self.close("")?;
        }
        let name = line[1..].strip_suffix(']');
        let name = name.ok_or_else(|| format!("{line}: a section without its ]"))?;
        let (name, main) = (name.trim().to_lowercase(), self.grammar.main);
        let is_main = main.contains(&name.as_str());
        self.open(if is_main { main[0] } else { &name }, line, "")
    }

    fn read_nginx(&mut self, text: &str) -> Result<(), String> {
        let mut statement = String::new();
        for token in NGINX_TOKEN.find_iter(text).map(|token| token.as_str()) {
            match (token, statement.trim_end()) {
                (";" | "{", "") => return Err(format!("{token} without a directive before it")),
                (";", text) => self.directive(self.grammar.key(text), format!("{text};")),
                ("{", text) => self.open(text, &format!("{text} {{"), "}")?,
                ("}", "") => self.close("}")?,
                ("\"" | "'", text) => return Err(format!("{text}: a quote without its end")),
                ("}", text) => return Err(format!("{text}: no ; after it")),
                (_, _) => {
                    let is_blank = token.starts_with('#') || token.trim().is_empty();
                    if !is_blank {
                        statement += token;
                    } else if !(statement.is_empty() || statement.ends_with(' ')) {
                        statement.push(' ');
                    }
                    continue;
                }
            }
            statement.clear();
        }
        match statement.trim() {
            "" => Ok(()),
            text => Err(format!("{text}: no ; after it")),
        }
    }

    fn read_xml(&mut self, text: &str) -> Result<(), String> {
        // A declaration is not allowed within the root element that is added here.
        let body = match text.trim_start().strip_prefix("<?xml") {
            Some(rest) => rest.split_once("?>").map_or(rest, |(_, body)| body),
            None => text,
        };
        let whole = format!("<config>{body}</config>");
        let page = roxmltree::Document::parse(&whole).map_err(|why| format!("not XML: {why}"))?;
        let mut children = page.root_element().children();
        let has_elements = children.clone().any(|child| child.is_element());
        children.try_for_each(|child| self.read_element(child))?;
        if has_elements || body.trim().is_empty() {
            return Ok(());
        }
        Err("no element".into())
    }

    fn read_element(&mut self, element: roxmltree::Node<'_, '_>) -> Result<(), String> {
        if !element.is_element() {
            let text = element.text().filter(|_| element.is_text());
            return match text.map_or("", str::trim) {
                "" => Ok(()),
                text => Err(format!("not an element: {text}")),
            };
        }
        let name = element.tag_name().name();
        let is_leaf = !element.children().any(|child| child.is_element());
        if is_leaf && element.text().is_some_and(|text| !text.trim().is_empty()) {
            let text = &element.document().input_text()[element.range()];
            self.directive(name.into(), text.into());
            return Ok(());
        }
        // Elements of one name may differ by their namespace, whose version does not count.
        let namespace = |element: roxmltree::Node<'_, '_>| {
            let name = element.tag_name().namespace();
            name.unwrap_or_default().to_string()
        };
        let outer = element.parent().map(namespace).unwrap_or_default();
        let inner = namespace(element);
        let is_declared = inner != outer;
        let key = match inner.rsplit_once(':') {
            Some((family, version)) if is_declared && self.open.len() > 1 => {
                let is_version = version.starts_with(|c: char| c.is_ascii_digit());
                let family = if is_version { family } else { &inner };
                format!("{name} {family}")
            }
            _ => name.into(),
        };
        self.open(&format!("{key}@"), &format!("<{name}"), ">")?;
        // An arm that leaves out the version means the element that is there.
        let has_version = inner.ends_with(|c: char| c.is_ascii_digit());
        if is_declared && (has_version || !self.is_new) {
            self.directive("xmlns".into(), format!("xmlns=\"{inner}\""));
        }
        for attribute in element.attributes() {
            let text = &element.document().input_text()[attribute.range()];
            self.directive(attribute.name().into(), text.into());
        }
        self.close(">")?;
        let end = format!("</{name}>");
        self.open(&key, "", &end)?;
        element
            .children()
            .try_for_each(|child| self.read_element(child))?;
        self.close(&end)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::grammar;

    fn merge(service: &str, arm: &str) -> Result<String, String> {
        let base = match service {
            "apache2" => APACHE,
            "nginx" => NGINX,
            "mariadbd" => "[mariadbd]\ndatadir = /context\nskip_name_resolve = on\n",
            "postgres" => "port = 5432\nshared_buffers = 128MB\n",
            "wildfly" | "open-liberty" => grammar(service).sample,
            "smbd" => "[global]\nserver min protocol = NT1\n[share]\npath = /context\n",
            _ => TOMCAT,
        };
        grammar(service).merge(base, arm, "10.77.0.1:80")
    }

    fn check(service: &str, arm: &str, expected: &Expect) {
        let merged = merge(service, arm);
        expected.assert_eq(&merged.unwrap_or_else(|why| format!("refused: {why}")));
    }

    const APACHE: &str = "\
LoadModule mime_module mod_mime.so
Listen 10.77.0.1:80
KeepAlive On
AddType text/html .html
<Directory />
    Require all denied
</Directory>
";

    const NGINX: &str = "
worker_processes 2;
events { worker_connections 164; }
http {
    access_log off;
    add_header Set-Cookie \"visitor=known; Path=/\";
    server { listen 10.77.0.1:80 backlog=65535; root /context/site; }
}
";

    const TOMCAT: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<Server port=\"-1\"><Service name=\"trade\"><Connector port=\"8080\" maxThreads=\"61\"/>
<Engine name=\"trade\"><Host name=\"trade\"><Context docBase=\"/app\"/></Host></Engine>
</Service></Server>";

    #[test]
    fn directives_replace_those_of_bakeoff_or_are_added() {
        check(
            "apache2",
            "# fewer\nkeepalive Off\nMaxClients \\\n 200\nListen 10.77.0.1:80\n\
             LoadModule mime_module x.so\nAddType text/css .css\n\
             <directory />\n<IfModule x>\nKeepAlive Off\n</IfModule>\n</Directory>\n\
             <Directory />\nRequire all granted\n</Directory>",
            &expect![[r#"
                LoadModule mime_module x.so
                Listen 10.77.0.1:80
                keepalive Off
                AddType text/html .html
                <Directory />
                    Require all granted
                </Directory>
                MaxClients   200
                AddType text/css .css
                <directory />
                    <IfModule x>
                        KeepAlive Off
                    </IfModule>
                </directory>
            "#]],
        );
        check(
            "nginx",
            "worker_processes auto; multi_accept on; access_log /a main; access_log /b; # two\n\
             log_format main '$uri ; {'; add_header A \"b\\\";c\"; add_header D x${e}#f; gzip on;\n\
             listen 10.77.0.1:80 reuseport; location /a { return 404; } server { gzip off; }",
            &expect![[r#"
                worker_processes auto;
                events {
                    multi_accept on;
                    worker_connections 164;
                }
                http {
                    access_log /a main;
                    access_log /b;
                    log_format main '$uri ; {';
                    add_header A "b\";c";
                    add_header D x${e}#f;
                    gzip on;
                    add_header Set-Cookie "visitor=known; Path=/";
                    server {
                        listen 10.77.0.1:80 reuseport;
                        location /a {
                            return 404;
                        }
                        gzip off;
                        root /context/site;
                    }
                }
            "#]],
        );
        check(
            "mariadbd",
            "loose-skip-name-resolve=off\n[mysqld]\n; more\nquery_cache_size = 0\n[client]\nport = 1",
            &expect![[r#"
                [mariadbd]
                    datadir = /context
                    loose-skip-name-resolve=off
                    query_cache_size = 0
                [client]
                    port = 1
            "#]],
        );
        let twice = "[mysqld]\na = 1\n[mariadb]\na = 2\na = 3\n";
        let merged = grammar("mariadbd").merge(twice, "a = 4", "").unwrap();
        assert_eq!(merged, "[mysqld]\n    a = 1\n[mariadb]\n    a = 4\n");
        check(
            "postgres",
            "Shared_Buffers 1GB\nwork_mem = '64MB' # each",
            &expect![[r#"
                port = 5432
                Shared_Buffers 1GB
                work_mem = '64MB' # each
            "#]],
        );
        check(
            "smbd",
            "Server Min  Protocol = SMB2\nsocket options = A \\\n B\n[SHARE]\nwriteable = no\n\
             [other]\npath = /srv",
            &expect![[r#"
                [global]
                    Server Min  Protocol = SMB2
                    socket options = A   B
                [share]
                    path = /context
                    writeable = no
                [other]
                    path = /srv
            "#]],
        );
        let tomcat = "<Connector maxThreads='400' port=\"8080\" compression='a &amp; b'/>\n<!-- -->\n\
             <Executor name='p'/><Valve className='a'/><Valve className='b'/>\
             <Service><Engine jvmRoute='x'><Host><Context><Manager/></Context></Host></Engine></Service>";
        let merged = merge("tomcat", tomcat).unwrap();
        let words: Vec<&str> = merged.split_whitespace().collect();
        expect![[r#"<Server port="-1"> <Service name="trade"> <Executor name='p'> </Executor> <Connector port="8080" maxThreads='400' compression='a &amp; b'> </Connector> <Engine jvmRoute='x' name="trade"> <Host name="trade"> <Valve className='a'> </Valve> <Valve className='b'> </Valve> <Context docBase="/app"> <Manager> </Manager> </Context> </Host> </Engine> </Service> </Server>"#]].assert_eq(&words.join(" ").replace(" >", ">"));
    }

    /// The lines of a merged configuration that the base does not have, without indentation.
    fn changed_lines(service: &str, arm: &str) -> String {
        let merged = merge(service, arm).unwrap();
        let base = grammar(service)
            .merge(grammar(service).sample, " ", "")
            .unwrap();
        let base: Vec<_> = base.lines().map(str::trim).collect();
        let lines = merged.lines().map(str::trim);
        lines
            .filter(|line| !base.contains(line))
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn elements_of_application_servers_are_found_by_name_and_namespace() {
        let io = "<subsystem xmlns=\"urn:jboss:domain:io\"><worker io-threads=\"3\"/></subsystem>";
        expect![[r#"io-threads="3""#]].assert_eq(&changed_lines("wildfly", io));
        let isolation = "<transaction-isolation>TRANSACTION_SERIALIZABLE</transaction-isolation>";
        let isolation = format!(
            "<subsystem xmlns=\"urn:jboss:domain:datasources:7.2\"><datasources><datasource>{isolation}</datasource></datasources></subsystem>"
        );
        expect!["<transaction-isolation>TRANSACTION_SERIALIZABLE</transaction-isolation>"]
            .assert_eq(&changed_lines("wildfly", &isolation));
        let features = "<featureManager><feature>monitor-1.0</feature></featureManager><executor maxThreads=\"50\"/>";
        expect![[r#"
            <feature>monitor-1.0</feature>
            maxThreads="50""#]]
        .assert_eq(&changed_lines("open-liberty", features));
    }

    #[test]
    fn directives_of_bakeoff_are_refused_in_every_block() {
        let refused = [
            ("apache2", "<If a>\n\"documentroot\" /srv\n</If>"),
            ("apache2", "<If a>\n<If b>\nListen 8080\n</If>\n</If>"),
            ("apache2", "LoadModule mpm_event_module x.so"),
            ("nginx", "root /srv;"),
            ("nginx", "server { location / { if ($a) { alias /etc; } } }"),
            ("nginx", "server { listen 10.77.0.1:80; listen 80; }"),
            ("mariadbd", "[server]\nskip-networking"),
            ("postgres", "port 1"),
            ("smbd", "[share]\nDirectory = /srv"),
            ("smbd", "lock dir = /srv"),
            ("tomcat", "<Connector port=\"80\"/>"),
            ("open-liberty", "<httpEndpoint host=\"*\"/>"),
            (
                "wildfly",
                "<interfaces><interface><inet-address value=\"0.0.0.0\"/></interface></interfaces>",
            ),
        ];
        let refused = refused.map(|(service, arm)| merge(service, arm).unwrap_err() + "\n");
        expect![[r#"
            "documentroot" /srv: only bakeoff sets this (remove it)
            Listen 8080: only bakeoff sets the address (write Listen {address} and what follows)
            LoadModule mpm_event_module x.so: the workload says which (write mpm = "worker" there)
            root /srv: only bakeoff sets this (remove it)
            alias /etc: only bakeoff sets this (remove it)
            listen 80: only bakeoff sets the address (write listen {address} and what follows)
            skip-networking: only bakeoff sets this (remove it)
            port 1: only bakeoff sets this (remove it)
            Directory = /srv: only bakeoff sets this (remove it)
            lock dir = /srv: only bakeoff sets this (remove it)
            port="80": only bakeoff sets this (remove it)
            host="*": only bakeoff sets this (remove it)
            value="0.0.0.0": only bakeoff sets this (remove it)
        "#]]
        .assert_eq(&refused.concat());
    }

    #[test]
    fn invalid_directives_are_refused() {
        let refused = [
            ("apache2", "<Directory />\nRequire all denied"),
            ("apache2", "</Directory>"),
            ("nginx", "gzip on"),
            ("nginx", "location / { gzip on }"),
            ("nginx", "location / { gzip on;"),
            ("nginx", "gzip on; }"),
            ("nginx", "; gzip on;"),
            ("nginx", "add_header A \"b;"),
            ("mariadbd", "[mysqld"),
            ("tomcat", "<Frobnicate/>"),
            ("tomcat", "<Connector"),
            ("wildfly", "io-threads=3"),
            ("open-liberty", "<logging>INFO<file/></logging>"),
            ("open-liberty", "<!-- nothing -->"),
        ];
        let refused = refused.map(|(service, arm)| merge(service, arm).unwrap_err() + "\n");
        let deep = [
            ("apache2", "<a>\n".repeat(70_000)),
            ("nginx", "a{".repeat(100_000)),
            ("tomcat", "<a>".repeat(35_000) + &"</a>".repeat(35_000)),
        ];
        let deep = deep.map(|(service, arm)| merge(service, &arm).unwrap_err() + "\n");
        expect![[r#"
            <Directory />: a block without its end
            </Directory>: closes no block
            gzip on: no ; after it
            gzip on: no ; after it
            location /: a block without its end
            }: closes no block
            ; without a directive before it
            add_header A: a quote without its end
            [mysqld: a section without its ]
            <Frobnicate: no place for it (write it inside the block that it belongs to)
            not XML: expected a whitespace not '<' at 1:19
            not an element: io-threads=3
            not an element: INFO
            no element
            <a>: over 64 blocks within each other
            a {: over 64 blocks within each other
            <a: over 64 blocks within each other
        "#]]
        .assert_eq(&(refused.concat() + &deep.concat()));
    }
}
