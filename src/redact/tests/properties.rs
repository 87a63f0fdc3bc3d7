//! Arbitrary JSON never panics at the door, and a secret under the name of a credential never gets through.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use crate::redact::tape::Tape;

const NAMES: &[&str] = &["password", "DB_PASSWORD", "clientSecret", "api-key", "token", "credentials", "private_key"];

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,20}",
        "[ -~\n]{0,60}",
        prop::sample::select(vec![
            "password: ",
            "--token",
            "{\"a\":",
            "kind: Secret\ndata:\n  a: b",
            "-----BEGIN PRIVATE KEY-----",
            "eyJ",
            "://a:b@",
            "key='",
            "secret=\"",
            "\\\"token\\\": \\\"",
            "data:",
            "name: PASSWORD\nvalue:",
            "hmac:0123456789ab",
            "auth:\n- x",
            "token: |\n é",
            "token: &a !b |\n é",
            "tokens:\n- name: a\n  value: ",
            "passwords:\n a: {",
            "- name: PASSWORD # é\n  a: b\n  value: ",
            "{value: é, name: PASSWORD",
            "password = <<A\né\n",
            "password=b'é",
            "password={é",
            "<password><![CDATA[",
            "last-applied-configuration:{",
            "mysql -p'$",
            "sshpass -p ",
            "redis-cli é -a ",
            "mongosh -p ",
            "ldapsearch -w ",
            "docker login -p ",
            "docker run --user a:",
            " --creds a:",
            "mc alias set a b c ",
            "aws configure set a_session_token ",
            "htpasswd -b é a ",
            "rabbitmqctl add_user a ",
            "smbclient -U a%",
            "curl -ua:",
            " -u 'a:",
            "stats auth a:",
            "sqlplus a/",
            "echo a:b | chpasswd",
            "LoginModule user_a=\"",
            "create secret --from-literal=a=",
            "user a on >",
            "identified by '",
            "identified with a as \"",
            "user a identified by ",
            "set password for a = password('",
            "insert into a (é, password) values ('b', 'c",
            "cGFzc3dvcmQ6IGh1bnRlcjI",
            "H4sIAAAAAAAA",
            "LS0tLS1CRUdJTi",
            "MHcCAQEEI",
            "basic cGFzc3dvcmQ6aHVudGVyMſ",
            "bearer cGFzc3dvcmQ6aHVudGVyM\u{212a}",
            "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB\ncGFzc3dvcmQ6\n",
        ])
        .prop_flat_map(|start| ".{0,12}".prop_map(move |rest| format!("{start}{rest}"))),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(keys(), inner, 0..6).prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

fn keys() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-zA-Z.-]{1,8}",
        1 => prop::sample::select(vec!["name", "value", "kind", "data", "metadata", "annotations", "secretName", "password", "é\"\\"])
            .prop_map(str::to_owned),
    ]
}

fn object(spec: &Value, status: &Value) -> String {
    serde_json::json!({"metadata": {"name": "a", "labels": spec, "annotations": status}, "spec": spec, "status": status}).to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn arbitrary_json_passes_once_and_stays(spec in values(), status in values()) {
        let (door, kind) = (door(), resource("x.io", "Thing"));
        let once = door.admit(&kind, object(&spec, &status).as_bytes()).expect("admitted");
        let again = door.admit(&kind, &once.to_json()).expect("admitted");
        for part in Part::ALL {
            let json = &once.section(part).json;
            if !json.is_empty() {
                let value: Value = serde_json::from_slice(json).expect("sections are JSON");
                prop_assert_eq!(value.to_string(), String::from_utf8_lossy(json), "canonical");
            }
        }
        prop_assert_eq!(once.to_json(), again.to_json());
    }

    #[test]
    fn arbitrary_bytes_never_panic(raw in prop::collection::vec(any::<u8>(), 0..200), text in texts()) {
        let (door, kind) = (door(), resource("", "Pod"));
        let _ = door.admit(&kind, &raw);
        let _ = door.admit(&kind, text.as_bytes());
        let _ = door.admit(&kind, format!("{{\"metadata\":{{\"name\":\"a\"}},{text}}}").as_bytes());
    }

    #[test]
    fn the_tape_reads_what_serde_json_reads(value in values(), cut in any::<prop::sample::Index>()) {
        let text = value.to_string();
        prop_assert!(Tape::parse(&text).is_ok());
        let mut end = cut.index(text.len() + 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        prop_assert_eq!(Tape::parse(&text[..end]).is_ok(), serde_json::from_str::<serde::de::IgnoredAny>(&text[..end]).is_ok());
    }

    #[test]
    fn a_secret_under_the_name_of_a_credential_never_survives(
        around in prop::collection::vec((values(), keys(), any::<bool>()), 0..8),
        name in prop::sample::select(NAMES),
        form in 0..7usize,
    ) {
        const SECRET: &str = "planted\"é\\hunter2";
        let planted = match form {
            0 => serde_json::json!({name: SECRET}),
            1 => serde_json::json!({"name": name, "value": SECRET}),
            2 => serde_json::json!([format!("--{name}"), SECRET]),
            3 => serde_json::json!([format!("--{name}={SECRET}")]),
            4 => serde_json::json!({name: [SECRET, {"value": SECRET}]}),
            5 => serde_json::json!({"config.json": serde_json::json!({name: SECRET}).to_string()}),
            _ => serde_json::json!({"app.yaml": format!("a: 1\n{name}: {SECRET}\nb: 2\n")}),
        };
        let mut tree = planted;
        for (sibling, key, in_list) in around {
            tree = if in_list { Value::from(vec![sibling, tree]) } else { Value::Object(Map::from_iter([(key, tree), ("z".to_owned(), sibling)])) };
        }
        let document = door().admit(&resource("x.io", "Thing"), object(&tree, &Value::Null).as_bytes()).expect("admitted");
        let output = format!("{document:?} {}", document.value());
        prop_assert!(!output.contains("planted") && !output.contains("hunter2"), "{}", output);
    }
}
