//! Call trees in a real browser: drawn, zoomed and searched, with the figures of the explanation.

use crate::report::html;
use crate::topics::why::document::tests::newer;
use crate::topics::why::find::{Question, explain};
use record::fixtures::accounts::{self, Profile};
use record::rundir::Run;
use record::verdict::Judgement;
use record::verdict::why::Why;

use super::{browser, check_fit, open};

/// A name that would end a script and begin another one.
const HOSTILE: &str = "</script><script>alert(1)</script><!--";

/// An explained run of two kernels; one of its programs and one function have a hostile name.
fn explained() -> (Run, Judgement, Vec<Why>) {
    let (mut baseline, mut arm) = (Profile::web(), newer());
    for profile in [&mut baseline, &mut arm] {
        profile.function("ngx_http_process_request").name = HOSTILE.into();
        profile.function("helper_of_nobody").name = HOSTILE.into();
    }
    // Vanished and new, and not joined as renamed, because it is called twice as often.
    let lookup = arm.function("__d_lookup_rcu");
    lookup.name = "new_lookup".into();
    lookup.calls *= 2.0;
    let (run, accounts) = accounts::run(&baseline, &arm, 6, 1);
    let question = Question {
        workload: "web",
        arm: "7.2",
        metric: None,
    };
    let why = explain(&run, &accounts, &question).unwrap();
    let judgement = crate::judge(&run);
    (run, judgement, vec![why])
}

/// A script that uses the page as a person would, and writes down what it sees.
const USE: &str = "
    const page = frames[0].document;
    const all = () => [...page.querySelectorAll('.frame')];
    const named = name => all().find(one => one.getAttribute('aria-label').startsWith(name + ':'));
    const text = style => page.querySelector(style).innerText.replace(/\\s+/g, ' ');
    const said = [];
    const tell = (what, value) => said.push(`[${what}: ${value}]`);
    tell('frames', all().length > 20);
    tell('table', page.querySelector('.tree .paths').checkVisibility());
    tell('whole', text('.figures'));
    named('tcp_v4_rcv').focus();
    tell('focus', text('.figures'));
    named('tcp_v4_rcv').click();
    tell('zoomed', named('tcp_v4_rcv').style.width);
    tell('above', page.querySelectorAll('.above').length);
    named('tcp_v4_rcv').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowUp', bubbles: true }));
    tell('up', page.activeElement.getAttribute('aria-label').split(':')[0]);
    const search = page.querySelector('input');
    search.value = 'PSI_group';
    search.dispatchEvent(new Event('input'));
    tell('found', text('.matches'));
    page.querySelector('.reset').click();
    tell('reset', named('all').style.width + page.querySelectorAll('.found').length + text('.matches'));
    search.value = 'lookup';
    search.dispatchEvent(new Event('input'));
    const marks = all().filter(one => one.classList.contains('found')).map(one => one.className.split(' ').slice(2).join(' '));
    tell('marks', marks.sort().join(', '));
    document.querySelector('p').textContent = said.join('');
";

#[test]
fn a_tree_is_zoomed_and_searched() {
    let Some(browser) = browser() else { return };
    let (run, judgement, whys) = explained();
    let report = html(&run, &judgement, &whys);
    let frame = format!(
        "<iframe src='report.html' style='width:1000px;height:800px;border:0'></iframe><p></p>
        <script>onload = () => {{ {USE} }}</script>"
    );
    let seen = open(
        &browser,
        &[("report.html", &report), ("frame.html", &frame)],
    );
    assert_eq!(seen.console, Vec::<String>::new());
    let fetched = seen.requests.iter().filter(|url| !url.starts_with("file:"));
    assert_eq!(fetched.count(), 0, "{:?}", seen.requests);
    let (_, rest) = seen.dom.split_once("<p>").unwrap();
    let (results, _) = rest.split_once("</p>").unwrap();
    let lines = results.replace("][", "]\n[");
    expect_test::expect![[r#"
        [frames: true]
        [table: false]
        [whole: all 6.1 7.2 difference change with all that it calls 127.8 k 112.8 k -15.0 k -11.7 % by itself 0 0 0 -]
        [focus: tcp_v4_rcv TCP/IP 6.1 7.2 difference change with all that it calls 14.9 k 12.9 k -2.0 k -13.6 % by itself 4.1 k 4.1 k -3.4 -0.1 % calls a request 3 2.99 -0.0025 -0.1 %]
        [zoomed: 100%]
        [above: 3]
        [up: tcp_sendmsg_mine]
        [found: functions that match: 1; frames here: 1 6.1 7.2 difference change by themselves, all paths 3.0 k 330 -2.7 k -89.0 % these frames, with all that they call 3.0 k 330 -2.7 k -89.0 %]
        [reset: 100%0]
        [marks: new found, vanished found]"#]].assert_eq(&lines);
}

#[test]
fn hostile_names_of_functions_stay_names() {
    let (run, judgement, whys) = explained();
    let names = whys[0].tree.nodes.iter().map(|node| &node.name);
    assert!(names.filter(|name| name.contains(HOSTILE)).count() >= 2);
    let page = html(&run, &judgement, &whys);
    assert!(!page.contains("<script>alert"), "a name became a script");
    assert!(!page.contains("<!--"));
    // One script of data, one that draws it.
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(page.contains("\\u003c/script\\u003e"));
}

#[test]
fn a_page_with_a_tree_fits_a_phone_and_a_window() {
    let (run, judgement, whys) = explained();
    let page = html(&run, &judgement, &whys);
    check_fit(&[360, 390, 1000], &[(page, 2)]);
}

#[test]
fn a_page_without_an_explanation_has_no_script() {
    let (run, judgement, _) = explained();
    let page = html(&run, &judgement, &[]);
    assert!(!page.contains("<script") && !page.contains("script-src"));
}
