//! Apache: a directive a line, sections in angle brackets. Names are compared without regard to case.
//!
//! A section of the arm's is added at the end, where Apache merges it over what stands before.

use super::{Directive, refused, replace};

/// Directives that say where bakeoff's files are, or what it reads.
const OWN: [&str; 6] = [
    "serverroot",
    "defaultruntimedir",
    "pidfile",
    "documentroot",
    "errorlog",
    "scriptsock",
];

/// Older names of directives.
const SYNONYMS: [(&str, &str); 2] = [
    ("maxclients", "maxrequestworkers"),
    ("maxrequestsperchild", "maxconnectionsperchild"),
];

/// Directives of which several say several things. A module is loaded once, so its name belongs to the key.
const REPEATED: [&str; 9] = [
    "addtype",
    "alias",
    "header",
    "include",
    "includeoptional",
    "requestheader",
    "scriptalias",
    "setenv",
    "section",
];

pub(super) fn merge(own: &str, arm: &str) -> Result<String, String> {
    let own = read(own)?;
    let arm = read(arm)?;
    let listens = |directive: &&Directive| directive.key == "listen";
    let address = own.iter().find(listens).map(|own| second_word(&own.text));
    // Within sections too: a virtual host has documents of its own, and a condition's content counts as if it stood alone.
    for line in arm.iter().flat_map(|directive| directive.text.lines()) {
        let line = line.trim_start();
        let name = first_word(line).to_lowercase();
        if OWN.contains(&name.as_str()) {
            return Err(refused(first_word(line)));
        }
        if name == "loadmodule" && second_word(line).starts_with("mpm_") {
            return Err(format!(
                "{line}: the workload says which (write mpm = \"worker\" there)"
            ));
        }
        if name == "listen" && address.is_some_and(|own| second_word(line) != own) {
            return Err(format!(
                "{line}: bakeoff has an address of its own (write Listen {{address}})"
            ));
        }
    }
    let merged = replace(own, &arm, |key| REPEATED.contains(&key));
    let lines = merged
        .iter()
        .flat_map(|directive| [directive.text.as_str(), "\n"]);
    Ok(lines.collect())
}

/// Directives and whole sections at the top.
fn read(text: &str) -> Result<Vec<Directive>, String> {
    let mut directives = Vec::new();
    let mut section: Option<(String, Vec<String>)> = None;
    let mut open: Vec<String> = Vec::new();
    for line in lines(text) {
        let name = first_word(&line).to_lowercase();
        if let Some(ended) = name.strip_prefix("</") {
            let ended = ended.trim_end_matches('>');
            if open.pop().as_deref() != Some(ended) {
                return Err(format!("{line}: no such section is open"));
            }
        } else if let Some(begun) = name.strip_prefix('<') {
            open.push(begun.trim_end_matches('>').to_string());
        }
        match &mut section {
            Some((_, lines)) => lines.push(line),
            None if name.starts_with('<') => section = Some((line.clone(), vec![line])),
            None => directives.push(Directive {
                key: key(&name, &line),
                text: line,
            }),
        }
        if open.is_empty()
            && let Some((_, lines)) = section.take()
        {
            directives.push(Directive {
                key: "section".into(),
                text: lines.join("\n"),
            });
        }
    }
    match section {
        Some((begun, _)) => Err(format!("{begun}: a section without its end")),
        None => Ok(directives),
    }
}

/// Lines without comments and empty ones; a backslash at a line's end joins it with the next.
fn lines(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim_end);
    lines
        .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .map(str::to_string)
        .collect()
}

fn key(name: &str, line: &str) -> String {
    let newer = SYNONYMS.iter().find(|(older, _)| *older == name);
    let name = newer.map_or(name, |(_, newer)| newer);
    match name {
        "loadmodule" => format!("loadmodule {}", second_word(line)),
        _ => name.to_string(),
    }
}

fn first_word(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

fn second_word(line: &str) -> &str {
    line.split_whitespace().nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const OWN_TEXT: &str = "\
LoadModule mime_module mod_mime.so
Listen 10.77.0.1:80
KeepAlive On
MaxRequestWorkers 75
AddType text/html .html
<Directory />
    Require all denied
</Directory>
";

    fn check(arm: &str, expected: &Expect) {
        let merged = merge(OWN_TEXT, arm).unwrap_or_else(|why| format!("refused: {why}"));
        expected.assert_eq(&merged);
    }

    #[test]
    fn a_directive_stands_where_bakeoffs_stood() {
        check(
            "# fewer\nkeepalive Off\nMaxClients \\\n 200\nListen 10.77.0.1:80\nLoadModule mime_module x.so\nEnableSendfile On\n",
            &expect![[r"
                LoadModule mime_module x.so
                Listen 10.77.0.1:80
                keepalive Off
                MaxClients   200
                AddType text/html .html
                <Directory />
                    Require all denied
                </Directory>
                EnableSendfile On
            "]],
        );
    }

    #[test]
    fn what_may_be_repeated_and_sections_are_added() {
        check(
            "AddType text/css .css\n<Directory />\n  <IfModule x>\n    KeepAlive Off\n  </IfModule>\n</Directory>",
            &expect![[r"
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
            "]],
        );
    }

    #[test]
    fn what_bakeoff_works_by_and_broken_sections_are_refused() {
        for (arm, expected) in [
            (
                "documentroot /srv",
                expect!["refused: documentroot: bakeoff works by its own (remove it)"],
            ),
            (
                "<VirtualHost *:80>\n  DocumentRoot /srv\n</VirtualHost>",
                expect!["refused: DocumentRoot: bakeoff works by its own (remove it)"],
            ),
            (
                "Listen 8080",
                expect![
                    "refused: Listen 8080: bakeoff has an address of its own (write Listen {address})"
                ],
            ),
            (
                "<IfModule mime_module>\n  <IfVersion >= 2.4>\n    Listen 8080\n  </IfVersion>\n</IfModule>",
                expect![
                    "refused: Listen 8080: bakeoff has an address of its own (write Listen {address})"
                ],
            ),
            (
                "LoadModule mpm_event_module x.so",
                expect![[
                    r#"refused: LoadModule mpm_event_module x.so: the workload says which (write mpm = "worker" there)"#
                ]],
            ),
            (
                "<Directory />\nRequire all denied",
                expect!["refused: <Directory />: a section without its end"],
            ),
            (
                "</Directory>",
                expect!["refused: </Directory>: no such section is open"],
            ),
        ] {
            check(arm, &expected);
        }
    }
}
