use super::*;

fn door() -> Door {
    Door::new(&Settings::default(), &[7; 32]).unwrap()
}

fn compared(old: &str, new: &str) -> Vec<Pair> {
    let time = "2026-11-16T11:42:17Z".parse().unwrap();
    compare(objects(old, &door()).unwrap(), &objects(new, &door()).unwrap(), time)
}

fn told(old: &str, new: &str, output: Output) -> String {
    let single = !old.contains("---") && !new.contains("---");
    let style = render::Style { zone: None, status: true, ..render::Style::plain() };
    print(&compared(old, new), output, single, &style).unwrap()
}

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: web
        image: nginx:1.25
";

#[test]
fn two_files_are_shown_as_the_fields_that_differ() {
    let new = WEB.replace("1.25", "1.27").replace("replicas: 3", "replicas: 5");
    assert_eq!(
        told(WEB, &new, Output::Text),
        "\
~ Deployment shop/web
    spec.replicas                              3 -> 5
    spec.template.spec.containers[web].image   nginx:1.25 -> nginx:1.27
"
    );
}

#[test]
fn two_files_as_markdown_are_a_line_a_sentence_and_a_diff_each() {
    let new = WEB.replace("1.25", "1.27");
    let gone = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone}\n";
    let text = told(&format!("{WEB}---\n{gone}"), &new, Output::Markdown);
    assert_eq!(
        text,
        "\
**~ Deployment `shop/web`, changed**

image of web nginx:1.25 -> nginx:1.27

```diff
- spec.template.spec.containers[web].image: nginx:1.25
+ spec.template.spec.containers[web].image: nginx:1.27
```

**- ConfigMap `gone`, deleted**
"
    );
}

#[test]
fn patterns_of_the_user_mask_what_is_shown() {
    let options = |patterns: &[&str]| {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            redaction: Redaction,
        }
        let words = ["kubediff"].into_iter().chain(patterns.iter().flat_map(|pattern| ["--pattern", pattern]));
        <Line as clap::Parser>::parse_from(words).redaction.settings()
    };
    let door = Door::new(&options(&["ACME-[0-9]+", "^colour$"]).unwrap(), &[7; 32]).unwrap();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {note: see ACME-1234, colour: red}\n";
    let text = objects(map, &door).unwrap()[0].document.value().to_string();
    assert!(text.contains("see hmac:") && !text.contains("1234") && !text.contains("red"), "{text}");
    assert!(options(&["a["]).unwrap_err().to_string().contains("\"a[\""));
}

#[test]
fn equal_files_have_no_differences_in_whatever_order_and_form() {
    let json = r#"{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"template": {"spec": {"containers": [{"image": "nginx:1.25", "name": "web"}]}}, "replicas": 3}}"#;
    assert!(compared(WEB, json).is_empty());
    assert_eq!(told(WEB, json, Output::Patch), "[]\n");
    let other = WEB.replace("name: web, n", "name: api, n");
    assert!(compared(&format!("{WEB}---{other}"), &format!("{other}---{WEB}---\n")).is_empty());
}

#[test]
fn objects_of_several_documents_and_lists_are_matched_by_kind_and_name() {
    let gone = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone}\n";
    let come = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: come}\ndata: {a: b}\n";
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {}- {}",
        WEB.trim_start().replace("1.25", "1.26").replace('\n', "\n  ").trim_end_matches(' '),
        come.replace('\n', "\n  ").trim_end_matches(' ')
    );
    assert_eq!(
        told(&format!("{WEB}---\n{gone}"), &list, Output::Text),
        "\
~ Deployment shop/web
    spec.template.spec.containers[web].image   nginx:1.25 -> nginx:1.26
+ ConfigMap come
    a
- ConfigMap gone
"
    );
}

#[test]
fn the_patch_of_one_object_leads_from_the_old_document_to_the_new_one() {
    let new = WEB.replace("1.25", "1.27");
    let patch: json_patch::Patch = serde_json::from_str(&told(WEB, &new, Output::Patch)).unwrap();
    let mut document = parse(WEB).unwrap().remove(0);
    json_patch::patch(&mut document, &patch).unwrap();
    assert_eq!(document, parse(&new).unwrap().remove(0));
    let several = told(&format!("{WEB}---"), &new, Output::Patch);
    let several: Value = serde_json::from_str(&several).unwrap();
    assert_eq!(several["Deployment shop/web"][0]["value"], "nginx:1.27");
}

#[test]
fn json_output_is_one_event_a_line() {
    let text = told(WEB, &WEB.replace("3", "4"), Output::Json);
    let event: Event = serde_json::from_str(text.trim()).unwrap();
    assert_eq!(event.summary, "replicas 3 -> 4");
}

#[test]
fn yaml_output_folds_what_is_equal() {
    assert_eq!(
        told(WEB, &WEB.replace("1.25", "1.27"), Output::Yaml),
        "\
~ Deployment shop/web
  … 5 lines
  spec:
    replicas: 3
    template:
      spec:
        containers:
-       - image: nginx:1.25
+       - image: nginx:1.27
          name: web
"
    );
}

#[test]
fn secret_values_never_show() {
    let secret = |value: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{password: {value}}}\n")
    };
    for output in [Output::Text, Output::Json, Output::Yaml, Output::Patch] {
        let text = told(&secret("hunter2secret"), &secret("swordfish99"), output);
        assert!(!text.contains("hunter2secret") && !text.contains("swordfish99"), "{text}");
        assert!(text.contains("password"), "{text}");
    }
    assert_eq!(told(&secret("a"), &secret("b"), Output::Text), "~ Secret s\n    rotated: password\n");
}

#[test]
fn what_is_wrong_is_told_by_its_place_and_without_its_text() {
    let error = |text: &str| format!("{:#}", objects(text, &door()).err().unwrap());
    assert_eq!(error("a: [hunter2secret"), error("a: [hunter2secreX"));
    assert!(error("a: [hunter2secret").starts_with("not YAML: wrong at line "));
    assert_eq!(error("foo: bar"), "no Kubernetes object: it has no kind");
    assert_eq!(error(&format!("{WEB}---\nkind: X")), "object 2: no Kubernetes object: it has no apiVersion");
    assert_eq!(error("just text"), "no Kubernetes object: it has no kind");
}

#[test]
fn plurals_are_those_of_kubernetes() {
    for (kind, want) in [
        ("Pod", "pods"),
        ("Ingress", "ingresses"),
        ("NetworkPolicy", "networkpolicies"),
        ("Gateway", "gateways"),
        ("Endpoints", "endpoints"),
    ] {
        assert_eq!(plural(kind), want);
    }
}

#[test]
fn exit_codes_tell_equal_from_different_from_trouble() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (old, new) = (file("old.yaml", WEB), file("new.yaml", &WEB.replace("1.25", "1.27")));
    let (broken, missing) = (file("broken.yaml", "a: ["), folder.path().join("missing.yaml"));
    let run = |old: &Path, new: &Path| {
        let args = Args {
            old: old.into(),
            new: new.into(),
            output: Output::Json,
            all: false,
            color: Color::Never,
            redaction: Redaction::default(),
        };
        run(&args)
    };
    let code = |result: anyhow::Result<ExitCode>| format!("{:?}", result.unwrap());
    assert_eq!(code(run(&old, &old)), format!("{:?}", ExitCode::SUCCESS));
    assert_eq!(code(run(&old, &new)), format!("{:?}", ExitCode::from(1)));
    for wrong in [&broken, &missing] {
        let error = run(&old, wrong).unwrap_err();
        assert!(error.is::<Usage>(), "{error:#}");
    }
    assert!(run(Path::new("-"), Path::new("-")).is_err());
}

#[test]
fn objects_without_a_uid_have_ids_of_their_own() {
    let other = WEB.replace("name: web, n", "name: api, n");
    let old = format!("{WEB}---{other}");
    let pairs = compared(&old, &old.replace("1.25", "1.27"));
    assert_ne!(pairs[0].event.id, pairs[1].event.id);
}
