use serde_json::{Value, json};

use super::{super::fixture::*, *};

const HEAD: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, ";

fn web(image: &str, env: &str) -> String {
    format!("spec: {{template: {{spec: {{containers: [{{name: web, image: '{image}', env: [{env}]}}]}}}}}}}}")
}

fn edit(manager: &str) -> Vec<u8> {
    json!([{"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "time": "2026-11-16T11:42:17Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}, "f:data": {}}}])
    .to_string()
    .into_bytes()
}

fn image_and_env(manager: &str) -> Event {
    let old = web("nginx:1.25", "{name: A, value: x}");
    let new = web("nginx:1.27", "{name: A, value: x}, {name: LOG_LEVEL, value: debug}");
    managed(HEAD, &old, &new, b"[]", &edit(manager))
}

#[test]
fn a_change_looks_in_a_terminal_as_it_was_drawn() {
    assert_eq!(
        terminal(&image_and_env("kubectl-edit"), &Style::plain()),
        "\
11:42:17 ~ Deployment shop/web   kubectl-edit
    spec.template.spec.containers[web].env     + LOG_LEVEL=debug
    spec.template.spec.containers[web].image   nginx:1.25 -> nginx:1.27
"
    );
    let secret = managed(
        "{apiVersion: v1, kind: Secret, metadata: {name: web-tls, namespace: shop}, ",
        "data: {tls.crt: 'hmac:0123456789ab', tls.key: 'hmac:0123456789ab'}}",
        "data: {tls.crt: 'hmac:ba9876543210', tls.key: 'hmac:ba9876543210'}}",
        b"[]",
        &edit("cert-manager"),
    );
    assert_eq!(
        terminal(&secret, &Style::plain()),
        "11:42:17 ~ Secret shop/web-tls   cert-manager\n    rotated: tls.crt, tls.key\n"
    );
    let gone = "{apiVersion: acme.example/v1, kind: Gadget, metadata: {name: old, namespace: shop, creationTimestamp: '2026-10-06T11:00:00Z'}}";
    assert_eq!(
        terminal(&event("", gone, ""), &Style::plain()),
        "11:42:17 - Gadget.acme.example shop/old   (after 41 days)\n"
    );
    let new = format!("{HEAD}{}", web("nginx:1.25", ""));
    assert_eq!(
        terminal(&event("", "", &new), &Style::plain()),
        "11:42:17 + Deployment shop/web\n    1 replica of nginx:1.25\n"
    );
}

#[test]
fn colours_are_dim_time_and_manager_amber_glyph_bold_name_red_old_green_new() {
    let style = Style { color: true, ..Style::plain() };
    let text = terminal(&image_and_env("argocd-controller"), &style);
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "\x1b[2m11:42:17\x1b[0m \x1b[33m~\x1b[0m Deployment \x1b[1mshop/web\x1b[0m   \x1b[2margocd-controller\x1b[0m"
    );
    assert!(lines.next().unwrap().ends_with("\x1b[32m+ LOG_LEVEL=debug\x1b[0m"));
    assert!(lines.next().unwrap().ends_with("\x1b[31mnginx:1.25\x1b[0m -> \x1b[32mnginx:1.27\x1b[0m"));
    // By hand is not dimmed.
    assert!(terminal(&image_and_env("kubectl-edit"), &style).lines().next().unwrap().ends_with("   kubectl-edit"));
}

#[test]
fn long_values_are_cut_to_the_width_with_the_change_in_sight() {
    let image = |tag: &str| format!("registry.example.com/a/long/way/down/to/the/team/project/web:{tag}");
    let event = event(HEAD, &web(&image("1.25"), ""), &web(&image("1.27"), ""));
    let text = terminal(&event, &Style { width: 100, ..Style::plain() });
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("1.25 -> …") && text.trim_end().ends_with("1.27"), "{text}");
}

#[test]
fn a_change_of_status_alone_is_told_by_its_sentence_unless_asked_for() {
    let event = event(
        "{apiVersion: v1, kind: Node, metadata: {name: node-1}, ",
        "status: {conditions: [{type: Ready, status: 'True'}]}}",
        "status: {conditions: [{type: Ready, status: 'False'}]}}",
    );
    assert_eq!(terminal(&event, &Style::plain()), "11:42:17 ~ Node node-1\n    Node is NotReady\n");
    assert_eq!(
        terminal(&event, &Style { status: true, ..Style::plain() }),
        "11:42:17 ~ Node node-1\n    status.conditions[Ready].status   True -> False\n"
    );
}

#[test]
fn an_object_that_is_asked_to_go_reads_so_and_a_pods_node_is_a_sentence() {
    let head = "{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop";
    let going = |time: &str, grace: u32, more: &str| {
        format!(", deletionTimestamp: '{time}', deletionGracePeriodSeconds: {grace}{more}}}}}")
    };
    let asked = going("2026-11-16T11:42:47Z", 30, "");
    assert_eq!(
        terminal(&event(head, "}}", &asked), &Style::plain()),
        "11:42:17 ~ Pod shop/web-1\n    is being deleted (within 30 s)\n"
    );
    let now = going("2026-11-16T11:42:17Z", 0, "");
    assert_eq!(
        terminal(&event(head, &asked, &now), &Style::plain()),
        "11:42:17 ~ Pod shop/web-1\n    is being deleted now\n"
    );
    let with_label = going("2026-11-16T11:42:47Z", 30, ", labels: {a: b}");
    assert_eq!(
        terminal(&event(head, ", labels: {}}}", &with_label), &Style::plain()),
        "11:42:17 ~ Pod shop/web-1\n    is being deleted (within 30 s)\n    metadata.labels.a   + b\n"
    );
    assert_eq!(
        terminal(&event(head, "}, spec: {a: b}}", "}, spec: {a: b, nodeName: node-1}}"), &Style::plain()),
        "11:42:17 ~ Pod shop/web-1\n    scheduled to node-1\n"
    );
}

#[test]
fn texts_of_several_lines_are_a_line_diff_with_two_lines_around() {
    let file = |line: &str| format!("data: {{a.conf: \"one\\ntwo\\nthree\\n{line}\\nfive\\nsix\\nseven\\n\"}}}}");
    let head = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, ";
    assert_eq!(
        terminal(&event(head, &file("four"), &file("4")), &Style::plain()),
        "\
11:42:17 ~ ConfigMap c
    data[\"a.conf\"]
         two
         three
        -four
        +4
         five
         six
"
    );
    let long =
        |line: &str| format!("data: {{a.conf: \"{}{line}\\n{}\"}}}}", "same line\\n".repeat(30), "tail\\n".repeat(30));
    let text = terminal(&event(head, &long("x"), &long("y")), &Style::plain());
    assert!(text.contains("        -x\n        +y\n") && text.lines().count() == 9, "{text}");
}

#[test]
fn markdown_makes_sense_by_its_first_line_and_forges_nothing() {
    assert_eq!(
        markdown(&image_and_env("kubectl-edit")),
        "\
**~ Deployment `shop/web`, prod-eu, changed by `kubectl-edit` (by hand)**

image of web nginx:1.25 -> nginx:1.27; env LOG\\_LEVEL=debug added to web

```diff
+ spec.template.spec.containers[web].env: LOG_LEVEL=debug
- spec.template.spec.containers[web].image: nginx:1.25
+ spec.template.spec.containers[web].image: nginx:1.27
```
"
    );
    let nasty = event(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, ",
        "data: {a: b}}",
        "data: {a: \"```\\n# <b>x</b>\"}}",
    );
    let text = markdown(&nasty);
    assert!(text.contains("````diff\n") && !text.contains("\n#"), "{text}");
}

#[test]
fn nothing_from_the_cluster_reaches_the_terminal_as_a_control_character() {
    let evil = "\\e[2J\\x07evil\\r";
    let event = event(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, ",
        "data: {a: b, l: \"1\\n2\"}}",
        &format!("data: {{a: \"{evil}\", l: \"1\\n{evil}\", \"k{evil}\": x}}}}"),
    );
    for text in [
        terminal(&event, &Style::plain()),
        markdown(&event),
        unified(&json!({"a": 1}), &json!({"a": "\u{1b}[2J"}), &Style::plain()),
    ] {
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
}

#[test]
fn yaml_reads_back_as_the_same_value() {
    let values = [
        json!({"a": "", "b": "true", "c": "1.0", "d": "null", "e": "x: y", "f": "- z", "g": "a #b", "h": " pad ", "i": "@at", "j": "2026-11-16"}),
        json!({"list": [1, [2, [3]], {"a": {"b": []}, "c": {}}, [], {}], "n": null, "t": true, "f": 1.5, "neg": -3}),
        json!({"text": "one\ntwo\n", "strip": "one\ntwo", "keep": "one\n\n\ntwo\n\n", "lead": "  one\ntwo", "tab": "a\tb", "cr": "a\r\nb"}),
        json!({"k: ey": 1, "": 2, "yes": 3, "0x1f": 4, "1e3": 5, "on": "off", "~": "~", "12:30:45": "12:30:45", "0o7": "0o7", "-": "-", "---": "---"}),
        json!({"image": "nginx:1.25", "args": ["--a=b", "-v", "*", "&x", "!tag", "%d", "{{ .x }}", "[a]", "'q'", "\"q\"", "a: ", "ends:"]}),
        json!([[["deep"]], "x"]),
        json!("scalar"),
        json!({"uni": "ä\u{2028}ö", "bom": "\u{feff}x", "ctl": "a\u{7}b", "multi": ["a\nb", {"x": "c\nd\n"}]}),
    ];
    for value in values {
        let text = yaml::yaml(&value);
        let back: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(back, value, "{text}");
    }
}

#[test]
fn a_unified_diff_folds_what_is_equal_and_keeps_the_keys_that_lead_to_the_change() {
    let document = |image: &str| {
        json!({"kind": "Deployment", "spec": {"replicas": 3, "a": [1, 2, 3, 4, 5], "template": {"labels": {"a": 1, "b": 2, "c": 3, "d": 4},
            "spec": {"containers": [{"args": [1, 2, 3], "image": image, "name": "web"}], "volumes": [1, 2, 3, 4, 5]}}}})
    };
    assert_eq!(
        unified(&document("nginx:1.25"), &document("nginx:1.27"), &Style::plain()),
        "  kind: Deployment
  spec:
    … 7 lines
    template:
      … 5 lines
      spec:
        containers:
        - args:
          - 1
          - 2
          - 3
-         image: nginx:1.25
+         image: nginx:1.27
          name: web
        volumes:
        … 5 lines
"
    );
    assert_eq!(unified(&document("a"), &document("a"), &Style::plain()), "");
    assert_eq!(
        unified(&json!({"a": 1, "b": 2, "c": 3}), &json!({"a": 4, "b": 5, "c": 3}), &Style::plain()),
        "- a: 1\n+ a: 4\n- b: 2\n+ b: 5\n  c: 3\n"
    );
    assert_eq!(unified(&Value::Null, &json!({"a": 1}), &Style::plain()), "+ a: 1\n");
}

#[test]
fn items_are_told_from_members() {
    assert_eq!(item("spec.ports[http]"), Some(("spec.ports", "http")));
    assert_eq!(item("spec.env[name=\"a[b]\"]"), Some(("spec.env", "name=\"a[b]\"")));
    assert_eq!(item("metadata.annotations[\"example.com/x\"]"), None);
    assert_eq!(item("spec.replicas"), None);
}
