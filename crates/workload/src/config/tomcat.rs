//! Tomcat: elements of `server.xml`.
//!
//! An element of the arm's changes bakeoff's of that name: its attributes take the place of those of the same name, and
//! its children are treated alike. Valves and listeners may be repeated and are added.

use std::fmt::Write as _;

use super::refused;

/// The elements that bakeoff's own text has.
pub(super) const SAMPLE: &str = "\
<Server><Service><Connector address=\"{ip}\" port=\"{port}\"/><Engine><Host><Context docBase=\"{application}\">
<JarScanner/><Manager/><Resource url=\"{database}\"/></Context></Host></Engine></Service></Server>";

/// Attributes that say where bakeoff's application is, and how it is reached.
const OWN: [(&str, &[&str]); 4] = [
    ("Server", &["port"]),
    ("Connector", &["address", "port"]),
    ("Context", &["docBase", "path"]),
    (
        "Resource",
        &[
            "name",
            "type",
            "factory",
            "driverClassName",
            "url",
            "username",
            "password",
        ],
    ),
];

/// Elements of which several say several things.
const REPEATED: [&str; 4] = ["Environment", "Listener", "Parameter", "Valve"];

/// Where an element goes that bakeoff has none of and that the arm wrote in no other.
const PARENTS: [(&str, &str); 11] = [
    ("CookieProcessor", "Context"),
    ("Environment", "Context"),
    ("Executor", "Service"),
    ("GlobalNamingResources", "Server"),
    ("Listener", "Server"),
    ("Loader", "Context"),
    ("Parameter", "Context"),
    ("Realm", "Engine"),
    ("Resources", "Context"),
    ("UpgradeProtocol", "Connector"),
    ("Valve", "Host"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Element>,
}

pub(super) fn merge(own: &str, arm: &str) -> Result<String, String> {
    let mut roots = read(own)?;
    let [root] = roots.as_mut_slice() else {
        return Err("not one Server element in the file".into());
    };
    // A declaration stands at the start of a file; within the arm's elements it has no place.
    for element in read(arm)? {
        let name = element.name.clone();
        let has_one = !REPEATED.contains(&name.as_str()) && find(root, &name).is_some();
        if has_one {
            let place = find(root, &name).expect("it has just been found");
            change(place, element)?;
            continue;
        }
        let parent = PARENTS.iter().find(|(child, _)| *child == name);
        let place = parent.and_then(|(_, parent)| find(root, parent));
        let place = place.ok_or_else(|| {
            format!("{name}: no place for it (write it inside the element that it belongs to)")
        })?;
        add(place, element);
    }
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    Ok(format!("{head}{}", show(root, 0)))
}

/// The first element of that name, from the top.
fn find<'e>(element: &'e mut Element, name: &str) -> Option<&'e mut Element> {
    if element.name == name {
        return Some(element);
    }
    let children = element.children.iter_mut();
    children.into_iter().find_map(|child| find(child, name))
}

fn change(own: &mut Element, arm: Element) -> Result<(), String> {
    let kept = OWN.iter().find(|(name, _)| *name == own.name);
    let kept = kept.map_or(&[][..], |(_, attributes)| attributes);
    for (name, value) in arm.attributes {
        let place = own.attributes.iter_mut().find(|(other, _)| *other == name);
        match place {
            // Saying which element is meant is no change.
            Some(place) if place.1 == value => {}
            _ if kept.contains(&name.as_str()) => {
                return Err(refused(&format!("{} {name}", own.name)));
            }
            Some(place) => place.1 = value,
            None => own.attributes.push((name, value)),
        }
    }
    for child in arm.children {
        let is_same = |other: &&mut Element| other.name == child.name;
        let place = own.children.iter_mut().find(is_same);
        match place {
            Some(place) if !REPEATED.contains(&child.name.as_str()) => change(place, child)?,
            Some(_) | None => add(own, child),
        }
    }
    Ok(())
}

/// After the others; but a `Service` wants its executors before its connectors.
fn add(parent: &mut Element, child: Element) {
    match child.name.as_str() {
        "Executor" => parent.children.insert(0, child),
        _ => parent.children.push(child),
    }
}

fn read(text: &str) -> Result<Vec<Element>, String> {
    let start = text.trim_start();
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
    Ok(elements.map(element).collect())
}

fn element(node: roxmltree::Node<'_, '_>) -> Element {
    let attributes = node.attributes();
    let children = node.children().filter(roxmltree::Node::is_element);
    Element {
        name: node.tag_name().name().into(),
        attributes: attributes
            .map(|attribute| (attribute.name().into(), attribute.value().into()))
            .collect(),
        children: children.map(element).collect(),
    }
}

fn show(element: &Element, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let mut text = format!("{indent}<{}", element.name);
    for (name, value) in &element.attributes {
        let value = value
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('"', "&quot;");
        write!(text, " {name}=\"{value}\"").expect("a string takes all text");
    }
    if element.children.is_empty() {
        return text + "/>\n";
    }
    text += ">\n";
    for child in &element.children {
        text += &show(child, depth + 1);
    }
    text + &format!("{indent}</{}>\n", element.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const OWN_TEXT: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<Server port=\"-1\"><Service name=\"trade\"><Connector address=\"10.77.0.1\" port=\"8080\" maxThreads=\"61\"/>
<Engine name=\"trade\"><Host name=\"trade\"><Context docBase=\"/app\"><Manager pathname=\"\"/></Context></Host></Engine>
</Service></Server>";

    fn check(arm: &str, expected: &Expect) {
        let merged = merge(OWN_TEXT, arm).unwrap_or_else(|why| format!("refused: {why}"));
        expected.assert_eq(&merged);
    }

    #[test]
    fn attributes_take_the_place_of_bakeoffs() {
        check(
            "<Connector maxThreads=\"400\" compression=\"on &amp; off\" executor=\"pool\"/>\n<!-- why -->\n\
             <Executor name=\"pool\"/><Valve className=\"a\"/><Valve className=\"b\"/>\
             <Service><Engine jvmRoute=\"x\"><Host><Context><Manager pathname=\"p\"/></Context></Host></Engine></Service>",
            &expect![[r#"
                <?xml version="1.0" encoding="UTF-8"?>
                <Server port="-1">
                  <Service name="trade">
                    <Executor name="pool"/>
                    <Connector address="10.77.0.1" port="8080" maxThreads="400" compression="on &amp; off" executor="pool"/>
                    <Engine name="trade" jvmRoute="x">
                      <Host name="trade">
                        <Context docBase="/app">
                          <Manager pathname="p"/>
                        </Context>
                        <Valve className="a"/>
                        <Valve className="b"/>
                      </Host>
                    </Engine>
                  </Service>
                </Server>
            "#]],
        );
    }

    #[test]
    fn what_bakeoff_works_by_and_broken_text_are_refused() {
        for (arm, expected) in [
            (
                "<Connector port=\"80\"/>",
                expect!["refused: Connector port: bakeoff works by its own (remove it)"],
            ),
            (
                "<Frobnicate/>",
                expect![
                    "refused: Frobnicate: no place for it (write it inside the element that it belongs to)"
                ],
            ),
            (
                "<Connector",
                expect!["refused: not XML: expected a whitespace not '<' at 1:19"],
            ),
        ] {
            check(arm, &expected);
        }
    }
}
