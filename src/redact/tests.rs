//! What passes the door, and what does not.

mod bounds;
mod files;
mod leaks;
mod names;
mod properties;
mod texts;

use serde_json::{Value, json};

use super::*;
use crate::cluster::Resource;

fn resource(group: &str, kind: &str) -> Resource {
    let singular = kind.to_lowercase();
    Resource {
        group: group.into(),
        version: "v1".into(),
        plural: format!("{singular}s"),
        singular,
        kind: kind.into(),
        short_names: vec![],
        namespaced: true,
    }
}

fn door_with(settings: &Settings) -> Door {
    Door::new(settings, &[7; 32]).expect("a door")
}

fn door() -> Door {
    door_with(&Settings::default())
}

fn admit(kind: &str, object: &Value) -> Document {
    admit_by(&door(), kind, object)
}

fn admit_by(door: &Door, kind: &str, object: &Value) -> Document {
    let group = object["apiVersion"].as_str().and_then(|v| v.split_once('/')).map_or("", |(group, _)| group);
    door.admit(&resource(group, kind), object.to_string().as_bytes()).expect("admitted")
}

fn is_mask(value: &Value) -> bool {
    value.as_str().is_some_and(mask::is_mask)
}

#[test]
fn values_of_a_secret_are_hashed_and_its_keys_stay() {
    let value = admit(
        "Secret",
        &json!({"metadata": {"name": "db"}, "type": "Opaque", "data": {"user": "Ym9i", "password": "aHVudGVyMg=="},
                "stringData": {"again": "hunter2"}}),
    )
    .value();
    assert_eq!(
        (&value["apiVersion"], &value["kind"], &value["type"]),
        (&json!("v1"), &json!("Secret"), &json!("Opaque"))
    );
    assert!(is_mask(&value["data"]["user"]) && is_mask(&value["data"]["password"]));
    assert_ne!(value["data"]["password"], value["data"]["user"]);
}

#[test]
fn equal_values_have_equal_masks_wherever_they_stand() {
    let secret = admit(
        "Secret",
        &json!({"metadata": {"name": "a"}, "data": {"a": "aHVudGVyMg=="}, "stringData": {"b": "hunter2"}}),
    );
    let pod = admit(
        "Pod",
        &json!({"metadata": {"name": "a"}, "spec": {"env": [{"name": "PASSWORD", "value": "hunter2"}],
                "args": ["--password=hunter2", "--token", "hunter2"], "url": "redis://u:hunter2@h"}}),
    );
    let (secret, pod) = (secret.value(), pod.value());
    let mask = secret["data"]["a"].as_str().expect("a mask");
    assert_eq!(secret["stringData"]["b"], mask);
    assert_eq!(pod["spec"]["env"][0]["value"], mask);
    assert_eq!(pod["spec"]["args"], json!([format!("--password={mask}"), "--token", mask]));
    assert_eq!(pod["spec"]["url"], format!("redis://u:{mask}@h"));
}

#[test]
fn a_rotation_shows_as_a_change_and_another_key_gives_other_masks() {
    let with = |data: &str| json!({"metadata": {"name": "a"}, "data": {"k": data}});
    let (old, new) = (admit("Secret", &with("b2xk")), admit("Secret", &with("bmV3")));
    assert_ne!(old.section(Part::Body).hash, new.section(Part::Body).hash);
    assert_eq!(old.section(Part::Metadata), new.section(Part::Metadata));
    let other = Door::new(&Settings::default(), &[8; 32]).expect("a door");
    assert_ne!(admit_by(&other, "Secret", &with("b2xk")).section(Part::Body), old.section(Part::Body));
}

#[test]
fn a_list_item_and_a_watch_event_give_equal_documents() {
    let item = r#"{"metadata":{"name":"web","uid":"u","resourceVersion":"7","labels":{"b":"1","a":"2"}},
                   "spec":{"z":1,"a":{"y":1.50,"x":"\u003cb\u003e"}},"status":{"phase":"Running"}}"#;
    let event = r#"{"kind":"Pod","apiVersion":"v1","status":{"phase":"Running"},"spec":{"a":{"x":"<b>","y":1.5},"z":1},
                    "metadata":{"uid":"u","labels":{"a":"2","b":"1"},"resourceVersion":"7","name":"web"}}"#;
    let (door, pod) = (door(), resource("", "Pod"));
    let (item, event) = (door.admit(&pod, item.as_bytes()), door.admit(&pod, event.as_bytes()));
    assert_eq!(item.as_ref().expect("admitted"), event.as_ref().expect("admitted"));
    let document = item.expect("admitted");
    assert_eq!(
        document.section(Part::Body).json.as_ref(),
        br#"{"apiVersion":"v1","kind":"Pod","spec":{"a":{"x":"<b>","y":1.5},"z":1}}"#
    );
    assert_eq!(document.section(Part::Status).json.as_ref(), br#"{"phase":"Running"}"#);
    assert_eq!(document.to_json(), serde_json::to_vec(&document.value()).expect("json"));
}

#[test]
fn the_metadata_travels_beside_the_document() {
    let document = admit(
        "Pod",
        &json!({"metadata": {"name": "web-1", "namespace": "shop", "uid": "u-1", "resourceVersion": "42", "generation": 3,
            "selfLink": "/x", "labels": {"app": "web"}, "creationTimestamp": "2026-01-02T03:04:05Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-0", "controller": true}],
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]}}),
    );
    let meta = document.meta();
    assert_eq!((meta.name.as_str(), meta.namespace.as_str(), meta.uid.as_str()), ("web-1", "shop", "u-1"));
    assert_eq!((meta.version.as_str(), meta.generation), ("42", Some(3)));
    assert_eq!(meta.labels.get("app").map(String::as_str), Some("web"));
    assert_eq!(meta.created, "2026-01-02T03:04:05Z".parse().ok());
    assert!(meta.owners[0].controller && meta.owners[0].kind == "ReplicaSet");
    let metadata = &document.value()["metadata"];
    for field in ["managedFields", "resourceVersion", "generation", "selfLink"] {
        assert_eq!(metadata.get(field), None, "{field}");
    }
    assert_eq!(document.managed_fields(), br#"[{"fieldsV1":{"f:spec":{}},"manager":"kubectl"}]"#);
    assert_eq!(document.section(Part::Status), &Section::default());
    let restored = Document::restore(
        meta.clone(),
        Part::ALL.map(|part| document.section(part).clone()),
        document.managed_fields(),
    );
    assert_eq!(restored, document);
}

#[test]
fn a_part_of_a_document_has_the_fields_of_its_sections() {
    let document = admit("Pod", &json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"y": 2}}));
    assert_eq!(document.partial(&[Part::Status]), json!({"status": {"y": 2}}));
    assert_eq!(document.partial(&[Part::Body]), json!({"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}}));
    assert_eq!(
        document.partial(&[Part::Metadata, Part::Status]),
        json!({"metadata": {"name": "a"}, "status": {"y": 2}})
    );
}

#[test]
fn helm_releases_keep_their_labels_only() {
    let labels = json!({"owner": "helm", "status": "deployed", "version": "3"});
    let metadata = json!({"name": "sh.helm.release.v1.shop.v3", "labels": labels, "annotations": {"a": "b"}});
    let document =
        admit("Secret", &json!({"metadata": metadata, "type": "helm.sh/release.v1", "data": {"release": "SDRzSQ=="}}));
    assert_eq!(
        document.value(),
        json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
               "metadata": {"name": "sh.helm.release.v1.shop.v3", "labels": labels}})
    );
}

#[test]
fn what_is_only_labelled_as_helm_labels_its_own_keeps_its_data() {
    let of = |kind: &str, name: &str| {
        let metadata = json!({"name": name, "labels": {"owner": "helm"}, "annotations": {"a": "b"}});
        admit(kind, &json!({"metadata": metadata, "data": {"greeting": "aGVsbG8="}})).value()
    };
    assert_eq!(of("ConfigMap", "settings")["data"]["greeting"], "aGVsbG8=");
    assert!(is_mask(&of("Secret", "settings")["data"]["greeting"]));
    assert_eq!(of("Secret", "settings")["metadata"]["annotations"]["a"], "b");
    for kind in ["ConfigMap", "Secret"] {
        assert_eq!(of(kind, "sh.helm.release.v1.shop.v3").get("data"), None, "{kind}");
    }
}

#[test]
fn metadata_mode_keeps_only_the_metadata_of_secrets() {
    for secrets in [Secrets::Metadata, Secrets::Off] {
        let door = door_with(&Settings { secrets, ..Settings::default() });
        // What the server answers when it is asked for metadata alone names another kind.
        let partial =
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "a"}});
        let whole = json!({"metadata": {"name": "a"}, "type": "Opaque", "data": {"k": "eA=="}});
        let pass =
            |object: &Value| door.admit(&resource("", "Secret"), object.to_string().as_bytes()).expect("admitted");
        assert_eq!(pass(&partial).value(), json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}));
        assert_eq!(pass(&partial), pass(&whole));
    }
}

#[test]
fn an_annotation_that_is_left_out_leaves_no_empty_map_behind() {
    let with =
        |annotations: Value| json!({"metadata": {"name": "a", "annotations": annotations}, "spec": {"emptyDir": {}}});
    let applied = admit("Pod", &with(json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"})));
    let created = admit("Pod", &json!({"metadata": {"name": "a"}, "spec": {"emptyDir": {}}}));
    assert_eq!(applied, created);
    assert_eq!(created.value()["spec"], json!({"emptyDir": {}}));
}

#[test]
fn an_object_that_is_nested_too_deep_is_masked_whole() {
    let deep = |levels: usize, leaf: &str| {
        format!(r#"{{"metadata":{{"name":"a"}},"spec":{}"{leaf}"{}}}"#, "[".repeat(levels), "]".repeat(levels))
    };
    let (door, kind) = (door(), resource("x.io", "Deep"));
    let pass = |raw: &str| door.admit(&kind, raw.as_bytes()).expect("admitted");
    let deepest = pass(&deep(126, "hunter2"));
    assert!(deepest.value()["spec"].is_array(), "depth 127 is read");
    for levels in [127, 128, 100_000] {
        let masked = pass(&deep(levels, "hunter2"));
        let value = masked.value();
        assert_eq!(value["kind"], "Deep");
        assert_eq!(value["metadata"]["name"], "a");
        assert!(
            value["kubediff"].as_str().is_some_and(|text| text.starts_with("masked: nested too deep (hmac:")),
            "{value}"
        );
        assert_ne!(masked, pass(&deep(levels, "hunter3")), "a change shows");
    }
    let deep_metadata = format!(r#"{{"metadata":{{"name":"a","x":{}1{}}}}}"#, "[".repeat(200), "]".repeat(200));
    assert_eq!(door.admit(&kind, deep_metadata.as_bytes()), Err(Refused::NoMetadata));
    let fields = format!(
        r#"{{"metadata":{{"name":"a","managedFields":[{{"manager":"m","fieldsV1":{}1{}}}]}},"spec":1}}"#,
        r#"{"f:x":"#.repeat(200),
        "}".repeat(200)
    );
    let document = pass(&fields);
    assert_eq!(document.value()["spec"], 1);
    assert_eq!(document.managed_fields(), br#"[{"manager":"m"}]"#);
}

/// Counted, not timed: at the depth limit once more a level is a number that no machine counts to.
#[test]
fn every_value_is_looked_at_once_however_deep_credentials_are_nested() {
    fn nest(levels: usize, around: impl Fn(Value) -> Value) -> Value {
        (0..levels).fold(json!("hunter2"), |inner, _| around(inner))
    }
    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(fields) => fields.values().map(count).sum(),
            _ => 0,
        }
    }
    type Around = fn(Value) -> Value;
    let shapes: [(Around, usize); 4] = [
        (|inner| json!({"password": {"values": [inner]}}), 3),
        (|inner| json!({"name": "PASSWORD", "value": [inner]}), 2),
        (|inner| json!({"passwords": {"a": inner, "b": "x"}}), 2),
        (|inner| json!({"kind": "SecretList", "items": [{"data": inner}]}), 3),
    ];
    for (around, depth) in shapes {
        // Deeper and deeper, so that what doubles is seen before it is endless.
        for levels in [1, 2, 4, 6, 120 / depth] {
            let spec = nest(levels, around);
            let of = |object: &Value| {
                mark::visits::take();
                let text = admit("ConfigMap", object).value().to_string();
                assert!(!text.contains("hunter2"), "{text}");
                mark::visits::take()
            };
            let object = json!({"metadata": {"name": "a"}, "spec": spec});
            assert_eq!(of(&object), count(&object), "{levels}: {spec}");
            let file = json!({"metadata": {"name": "a"}, "data": {"file": spec.to_string()}});
            assert_eq!(of(&file), count(&file) + count(&spec), "{levels}: {spec}");
        }
    }
}

#[test]
fn an_object_that_is_too_large_is_masked_whole() {
    let door = door_with(&Settings { max_bytes: 100, ..Settings::default() });
    let value =
        admit_by(&door, "ConfigMap", &json!({"metadata": {"name": "a"}, "data": {"file": "x".repeat(100)}})).value();
    assert!(
        value["kubediff"].as_str().is_some_and(|text| text.starts_with("masked: larger than 100 bytes (hmac:")),
        "{value}"
    );
    assert_eq!(value.get("data"), None);
}

#[test]
fn what_has_no_readable_metadata_is_refused_without_quoting_it() {
    let (door, pod) = (door(), resource("", "Pod"));
    for (raw, expected) in [
        (&br#"{"metadata":{"name":"a"},"password":"hunter2"#[..], "not JSON"),
        (br#"{"metadata":{"name":"a"}} hunter2"#, "not JSON"),
        (br#"["hunter2"]"#, "not an object with metadata"),
        (br#"{"metadata":"hunter2"}"#, "not an object with metadata"),
        (br#"{"metadata":{"name":7}}"#, "no metadata.name"),
        (b"{\"metadata\":{\"name\":\"\xff hunter2\"}}", "not UTF-8"),
        (b"", "not JSON"),
    ] {
        let refused = door.admit(&pod, raw).expect_err("refused");
        let text = format!("{refused} {refused:?}");
        assert!(text.contains(expected) && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn managed_fields_hold_no_values() {
    let fields = json!({"f:spec": {
        "f:tokens": {"v:\"hunter2-in-a-set\"": {}},
        "f:hosts": {"v:\"https://bob:hunter2-in-a-url@h\"": {}, "v:\"plain\"": {}},
        "f:env": {"k:{\"name\":\"DB_PASSWORD\",\"value\":\"hunter2-in-a-key\"}": {".": {}}, "k:{\"name\":\"web\"}": {}}}});
    let document =
        admit("Pod", &json!({"metadata": {"name": "a", "managedFields": [{"manager": "m", "fieldsV1": fields}]}}));
    let text = String::from_utf8_lossy(document.managed_fields()).into_owned();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains(r#""k:{\"name\":\"web\"}""#) && text.contains(r#""v:\"plain\"""#), "{text}");
    serde_json::from_str::<Value>(&text).expect("still JSON");
}

#[test]
fn wrong_settings_are_errors_that_name_what_is_wrong() {
    let fails = |settings: Settings| Door::new(&settings, &[0; 32]).expect_err("an error").to_string();
    let pattern =
        |pattern: &str| fails(Settings { patterns: vec!["fine".into(), pattern.into()], ..Settings::default() });
    assert!(pattern("internal-[").contains("\"internal-[\""));
    assert!(pattern("x*").contains("\"x*\""));
    let path = |path: &str| fails(Settings { ignore: vec![path.into()], ..Settings::default() });
    for wrong in ["spec", "spec/replicas", "", "/", "/metadata/name", ":/spec", "/a~2b", "/*", "apps/:/x", "/spec/**"] {
        let error = path(wrong);
        assert!(error.contains(&format!("{wrong:?}")), "{wrong}: {error}");
    }
}

#[test]
fn patterns_of_the_user_mask_keys_and_values() {
    let door = door_with(&Settings {
        patterns: vec!["(?i)^x-internal".into(), r"ACME-(\d{4})".into()],
        ..Settings::default()
    });
    let value = admit_by(
        &door,
        "ConfigMap",
        &json!({"metadata": {"name": "a"}, "data": {"X-Internal-Id": "hunter2", "note": "see ACME-1234 there", "n": "x"},
            "image": "registry.example/ACME-1234/web:1", "imageID": "https://a:hunter2@h/ACME-1234"}),
    )
    .value();
    let images = format!("{} {}", value["image"], value["imageID"]);
    assert!(images.contains("registry.example/ACME-hmac:") && images.contains("/web:1"), "{images}");
    assert!(!images.contains("1234") && !images.contains("hunter2"), "{images}");
    assert!(is_mask(&value["data"]["X-Internal-Id"]));
    let note = value["data"]["note"].as_str().expect("text");
    assert!(note.starts_with("see ACME-hmac:") && note.ends_with(" there"), "{note}");
    assert_eq!(value["data"]["n"], "x");
}
