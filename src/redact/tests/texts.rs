//! What is masked in a text and what is not; the noise profile.

use serde_json::json;

use super::*;

/// A text as it comes out of a ConfigMap under a name that says nothing, with masks as `***`.
pub(super) fn masked(text: &str) -> String {
    let value = admit("ConfigMap", &json!({"metadata": {"name": "a"}, "data": {"note": text}})).value();
    let text = value["data"]["note"].as_str().expect("text").to_owned();
    regex::Regex::new("hmac:[0-9a-f]{12}").expect("a pattern").replace_all(&text, "***").into_owned()
}

#[test]
fn base64_of_json_is_masked_also_when_it_is_cut_or_no_text() {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let whole = BASE64_STANDARD.encode(br#"{"password": "hunter2-hunter2", "a": 1}"#);
    let binary = BASE64_STANDARD.encode(b"{\"password\": \"hun\xffter2-hunter2\"}");
    assert_eq!(masked(&binary), "***");
    for cut in 0..8 {
        assert_eq!(masked(&whole[..whole.len() - cut]), "***", "{cut}");
    }
    let static_key = "-----BEGIN OpenVPN Static key V1-----\nab\n-----END OpenVPN Static key V1-----\n";
    assert_eq!(masked(&BASE64_STANDARD.encode(static_key)), "***");
    let plain = BASE64_STANDARD.encode(br#"{"level": "info", "a": 1}"#);
    assert_eq!(masked(&plain), plain);
}

#[test]
fn only_the_secret_part_of_a_text_is_masked() {
    for (text, expected) in [
        ("password: hunter2", "password: ***"),
        ("PORT=80\nDB_PASSWORD={hunter2\n", "PORT=80\nDB_PASSWORD=***\n"),
        ("a: 1\n  password: hunter2 # why\nb: 2", "a: 1\n  password: ***\nb: 2"),
        ("PASSWORD='it''s' PORT=1", "PASSWORD='***' PORT=1"),
        ("{\"a\": 1, \"token\": \"x\\\"y\"}", "{\"a\": 1, \"token\": \"***\"}"),
        ("run --token hunter2 --port 80", "run --token *** --port 80"),
        ("run --token=hunter2 --port 80", "run --token=*** --port 80"),
        ("user=bob&password=hunter2&x=1", "user=bob&password=***&x=1"),
        ("https://bob:hunter2@h/p, http://h2:80/x@y", "https://bob:***@h/p, http://h2:80/x@y"),
        ("mongodb://u:p@h1,h2/db", "mongodb://u:***@h1,h2/db"),
        ("os.environ[\"API_KEY\"] = \"hunter2\"", "os.environ[\"API_KEY\"] = \"***\""),
        ("Authorization: Bearer abc123def456", "Authorization: ***"),
        ("sent with bearer abc123def456ghi today", "sent with bearer *** today"),
        // Without their case these two are an `s` and a `k`.
        ("Basic Ym9iOmh1bnRlcjIſ Bearer abc123def456ghi\u{212a}", "Basic ***ſ Bearer ***\u{212a}"),
        ("map[user:bob password:hunter2]", "map[user:bob password:***]"),
        ("<a key=\"password\">hunter2</a>", "<a key=\"password\">***</a>"),
        ("secret_key = \"\"\"a\nb\"\"\"\nport = 1", "secret_key = \"\"\"***\"\"\"\nport = 1"),
        (
            "passwords:\n  alice: hunter2\n  admin: 'x y' \nport: 1",
            "passwords:\n  alice: ***\n  admin: '***' \nport: 1",
        ),
        ("a:\n  tokens:\n    ci: abc\n    ttl: 60\n  b: 2", "a:\n  tokens:\n    ci: ***\n    ttl: 60\n  b: 2"),
        (
            "tokens:\n  prod:\n    ci: |\n      a\n      b\n    x:\n    - c\nb: 2",
            "tokens:\n  prod:\n    ci: |\n      ***\n    x:\n    - ***\nb: 2",
        ),
        ("auth:\n  realm: shop\n  bob: hunter2\nb: 2", "auth:\n  realm: shop\n  bob: ***\nb: 2"),
        ("tokens: {ci: abc, 'dev': \"d,e\", ttl: 60}\nb: 2", "tokens: {ci: ***, 'dev': \"***\", ttl: 60}\nb: 2"),
        ("tokens: {prod: {ci: abc, dev: [d, e]}}", "tokens: {prod: {ci: ***, dev: [***, ***]}}"),
        ("tokens: {\"ci\": \"abc\"}\nb: 2", "tokens: {\"ci\": \"***\"}\nb: 2"),
        ("[app]\ntokens = { ci = \"abc\" }\nb = 2", "[app]\ntokens = { ci = \"***\" }\nb = 2"),
        ("{user: bob, password: correct horse battery}", "{user: bob, password: ***}"),
        ("{user: bob, password: correct horse, port: 80}", "{user: bob, password: ***, port: 80}"),
        ("a: {b: {c: 1}, password: x, y z}\nb: 2", "a: {b: {c: 1}, password: ***}\nb: 2"),
        ("ALTER USER app WITH PASSWORD 'hunter2';", "ALTER USER app WITH PASSWORD '***';"),
        (
            "create role app login encrypted password 'it''s' valid",
            "create role app login encrypted password '***' valid",
        ),
        ("CREATE USER 'a'@'%' IDENTIFIED BY 'hunter2';", "CREATE USER 'a'@'%' IDENTIFIED BY '***';"),
        ("identified with sha256_password  by 'a\\'b', x", "identified with sha256_password  by '***', x"),
        ("CREATE USER app IDENTIFIED BY hunter2;\nGRANT ALL", "CREATE USER app IDENTIFIED BY ***;\nGRANT ALL"),
        ("SET PASSWORD FOR 'bob'@'%' = 'hunter2'", "SET PASSWORD FOR 'bob'@'%' = '***'"),
        ("SET PASSWORD FOR bob = PASSWORD('hunter2')", "SET PASSWORD FOR bob = PASSWORD('***')"),
        ("FROM a\nENV DB_PASSWORD hunter2\nRUN b", "FROM a\nENV DB_PASSWORD ***\nRUN b"),
        ("ENV API_TOKEN correct horse\nARG DB_PASSWORD API_TOKEN", "ENV API_TOKEN ***\nARG DB_PASSWORD API_TOKEN"),
        (
            "<tls-auth>\n-----BEGIN OpenVPN Static key V1-----\nab\n-----END OpenVPN Static key V1-----\n</tls-auth>",
            "<tls-auth>\n***\n</tls-auth>",
        ),
        (
            "kubectl.kubernetes.io/last-applied-configuration: |\n  {\"a\":1}\nb: 2",
            "kubectl.kubernetes.io/last-applied-configuration: |\n  ***\nb: 2",
        ),
    ] {
        assert_eq!(masked(text), expected, "{text}");
    }
}

/// One sample for each alternative of the patterns of tokens: each needs a literal by which it is looked for.
#[test]
fn every_shape_of_a_token_is_masked_wherever_it_stands() {
    let random = |len: usize| "a1B2".repeat(len / 4 + 1)[..len].to_owned();
    let hex = |len: usize| "a1b2".repeat(len / 4);
    let mut tokens = Vec::new();
    for prefix in [
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "xoxb-",
        "xoxp-",
        "xapp-",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "rk_test_",
        "AIza",
        "npm_",
        "glpat-",
        "gldt-",
        "glrt-",
        "hvs.",
        "hvb.",
        "ya29.",
        "dckr_pat_",
        "pypi-",
        "GOCSPX-",
        "sk-",
        "12345678:AA",
    ] {
        tokens.push(format!("{prefix}{}", random(40)));
    }
    for prefix in ["dop_v1_", "doo_v1_", "dor_v1_", "shpat_", "shpss_", "shpca_", "shppa_"] {
        tokens.push(format!("{prefix}{}", hex(32)));
    }
    tokens.push(format!("SG.{}.{}", random(20), random(20)));
    tokens.push(format!("AGE-SECRET-KEY-1{}", random(40).to_uppercase()));
    for token in tokens {
        for (before, after) in [("", ""), ("see ", " there"), ("a: 1\nb: ", "\n")] {
            let text = format!("{before}{token}{after}");
            assert_eq!(masked(&text), format!("{before}***{after}"), "{text}");
        }
    }
    for (before, secret) in [
        ("https://hooks.slack.com/services/", "T0/B0/abcdef"),
        ("https://hooks.slack.com/workflows/", "T0/B0/abcdef"),
        ("https://hooks.slack.com/triggers/", "T0/B0/abcdef"),
        ("https://chat.example/api/webhooks/123/", "abcdef"),
        ("https://a.blob.example/c?sv=1&sig=", "abc%2Bdef"),
    ] {
        assert_eq!(masked(&format!("{before}{secret}")), format!("{before}***"));
    }
}

#[test]
fn plain_texts_stay_as_they_are() {
    for text in [
        "",
        "Back-off restarting failed container",
        "secret \"db\" not found",
        "couldn't find key password in Secret shop/db",
        "https://example.com:8080/path@1.2?x=1#y",
        "ssh://git@github.com/a/b.git",
        "the token has expired",
        "basic authentication is off",
        "quay.io/vault/secrets:1.2",
        "password: ${DB_PASSWORD}",
        "password: $(DB_PASSWORD)",
        "password:\n  secretKeyRef:\n    name: db\n    key: pw",
        "password:\n  name: db\n  key: pw",
        "password:\n  type: string\n  pattern: x",
        "volumes:\n- name: s\n  secret:\n    secretName: db\n    defaultMode: 420\n    items:\n    - key: a\n      path: b",
        "auth:\n  kubernetes:\n    role: shop\n    bob: x",
        "secrets:\n  enabled: true\n  path: /run",
        "secrets: {enabled: true, path: /run}",
        "password: {{ .Values.password }}",
        "tokens: {{ .Values.tokens }}\nb: 2",
        "passwordSecretRef: {name: db, key: pw}",
        "password: {name: db, key: pw}",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "-----BEGIN RSA PUBLIC KEY-----\nMIIB\n-----END RSA PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n-----END CERTIFICATE REQUEST-----",
        "-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----",
        "-----BEGIN DH PARAMETERS-----\nMIIB\n-----END DH PARAMETERS-----",
        "-----BEGIN -----, and what began there",
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUI=",
        "an object that is identified by its name",
        "CREATE USER app IDENTIFIED BY '${DB_PASSWORD}';",
        "{a: 1, password: ${DB_PASSWORD}}",
        "ENV TOKEN_PATH /run/token",
        "system:serviceaccount:kube-system:token-cleaner",
        "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        "kind: Deployment\nspec:\n  data: 1",
        "{\"secretName\": \"db\", \"tokenExpirationSeconds\": 3600}",
        "auth_request /validate;\nproxy_pass http://up;",
        "export PGPASSWORD=$DB_PASSWORD\nTOKEN=$(cat /run/token)\n",
        "mysql -uroot -p\"$ROOT\" shop && redis-cli -a $REDIS ping && docker login -u bob -p \"$TOKEN\"",
        "docker run -p 8080:80 --user 1000:1000 nginx; mkdir -p /a/b; nc -w 3 web 80; ssh -p 22 web",
        "docker login registry.example\ndocker run -p 80:80 nginx",
        "mongod --port 27017 --bind_ip_all; mongosh -u bob -p --eval 1",
        "kubectl create configmap web --from-literal=mode=fast",
        "password = os.environ['DB_PASSWORD']\ntoken = get_token()\nkey = process.env.API_KEY",
        "exclude = (\"password\", \"email\")\nfields = [\"token\", \"name\"]",
        "password = ${?DB_PASSWORD}",
        "<name>password.length</name><value>12</value>",
        "INSERT INTO users (name, password) VALUES (?, ?); INSERT INTO shops (id) VALUES (7);",
        "SELECT password FROM users WHERE token = ?;",
        "SORT_KEY=created_at\nROUTING_KEY=orders.created\nCACHE_KEY=9f86d081884c7d659a2feaa0c55ad015",
        "PublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=",
        "{\"keys\": [{\"kty\": \"RSA\", \"kid\": \"1\", \"n\": \"0vx7agoebGcQSuuPiLJXZptN9nndrQmb\", \"e\": \"AQAB\"}]}",
        "ewogICJsZXZlbCI6ICJpbmZvIiwKICAiYSI6IDEKfQo=",
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9q9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==",
        "https://example.com/hooks/release, https://office.com/webhooks",
        "the firewood network is reworked on > 5 nodes",
        "docker run --user root:wheel nginx; chown --user app:app /a; sudo su -u svc:app",
        "https://git@github.com/a/b.git https://oauth2@h/x redis://default@h nats://$TOKEN@h",
        "https://registry.example/@scope/pkg@1.2 https://h:8443/a@b",
        "password_encryption = scram-sha-256\nTOKEN_LIFETIME=24h\nJWT_ALGO=HS256\n",
        "clientSecret: $oidc.okta.clientSecret\nsecret: $dex:github.webhook.secret\n",
        "metadata:\n  annotations:\n    nginx.ingress.kubernetes.io/auth-secret: shop/basic\n    haproxy.org/auth-secret: people\n",
        "secrets:\n- name: default-token\n- name: registry\n",
        "tolerations:\n- key: auth\n  operator: Equal\n  value: yes\n- {key: token, operator: Equal, value: a}\n",
        "secrets: {}\ntokens: []\nauth: { }\n",
    ] {
        assert_eq!(masked(text), text);
    }
}

#[test]
fn base64_in_lines_is_read_as_one() {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let wrap = |text: &str| -> String {
        let packed = BASE64_STANDARD.encode(text);
        let lines: Vec<&str> = packed.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
        lines.join("\n")
    };
    let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", "abcd".repeat(60));
    assert_eq!(masked(&wrap(&key)), "***");
    assert_eq!(masked(&format!("a: |\n{}\nport: 80\n", wrap(&key))), "a: |\n***\nport: 80\n");
    // Wherever the password lies, across the end of a line too.
    for before in 30..90 {
        let file = wrap(&format!("{}\npassword: hunter2-hunter2\nport: 80\n", "x".repeat(before)));
        assert_eq!(masked(&file), "***", "{before}");
    }
    let plain = wrap(&"level: info\n".repeat(20));
    assert_eq!(masked(&plain), plain);
}

/// What a shell puts in the place of a variable is no password; where there is no shell, it is one.
#[test]
fn arguments_are_read_by_their_program() {
    let command = |arguments: Value| {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "command": arguments}]}});
        let text = admit("Pod", &pod).value()["spec"]["containers"][0]["command"].to_string();
        regex::Regex::new("hmac:[0-9a-f]{12}").expect("a pattern").replace_all(&text, "***").into_owned()
    };
    for (arguments, expected) in [
        (
            json!(["/usr/bin/redis-cli", "-a", "correct horse", "ping"]),
            json!(["/usr/bin/redis-cli", "-a", "***", "ping"]),
        ),
        (json!(["redis-cli", "-a", "$ecret"]), json!(["redis-cli", "-a", "***"])),
        (json!(["redis-cli", "-a", "$(PASSWORD)"]), json!(["redis-cli", "-a", "$(PASSWORD)"])),
        (json!(["mysqldump", "-h", "db", "-phunter2", "shop"]), json!(["mysqldump", "-h", "db", "-p***", "shop"])),
        (json!(["docker", "run", "-p", "80:80", "web"]), json!(["docker", "run", "-p", "80:80", "web"])),
        (json!(["docker", "run", "--user", "1000:1000"]), json!(["docker", "run", "--user", "1000:1000"])),
        (json!(["docker", "run", "--user", "root:wheel"]), json!(["docker", "run", "--user", "root:wheel"])),
        (json!(["docker", "run", "a", "curl", "-u", "bob:x"]), json!(["docker", "run", "a", "curl", "-u", "bob:***"])),
        (json!(["curl", "-s", "-ubob:hunter2", "https://h"]), json!(["curl", "-s", "-ubob:***", "https://h"])),
        (json!(["keytool", "-storepass", "hunter2"]), json!(["keytool", "-storepass", "***"])),
        (json!(["mc", "ls", "minio/a/b", "c", "d", "e"]), json!(["mc", "ls", "minio/a/b", "c", "d", "e"])),
        (json!(["app", "-p", "8080", "-w", "3", "-a", "b"]), json!(["app", "-p", "8080", "-w", "3", "-a", "b"])),
    ] {
        assert_eq!(command(arguments), expected.to_string());
    }
}

#[test]
fn only_keys_that_look_random_are_masked_for_being_called_keys() {
    let value = admit(
        "ConfigMap",
        &json!({"metadata": {"name": "a"}, "data": {
            "MAPBOX_KEY": "pkAbCd1234eFgH5678iJkL", "sortKey": "created_at", "TLS_KEY": "/etc/tls/tls.key",
            "publicKey": "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=", "cacheKey": "9f86d081884c7d659a2feaa0c55ad015",
            "topologyKey": "topology.kubernetes.io/zone", "hostKey": "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoq"},
            "env": [{"name": "MAPS_KEY", "value": "9f86d081884c7d659a2feaa0c55ad015"}, {"name": "SORT_KEY", "value": "id"}]}),
    )
    .value();
    assert!(is_mask(&value["data"]["MAPBOX_KEY"]) && is_mask(&value["env"][0]["value"]), "{value}");
    assert_eq!(value.to_string().matches("hmac:").count(), 2, "{value}");
}

/// External Secrets name the key that a value goes under, and templates name what is put in their place.
#[test]
fn what_is_filled_in_later_stays_readable() {
    let spec = json!({"data": [{"secretKey": "password", "remoteRef": {"key": "shop/db", "property": "password"}}],
        "target": {"template": {"data": {"password": "{{ .password }}", "token": "{{ .Values.token | quote }}"}}}});
    let object = json!({"apiVersion": "external-secrets.io/v1", "metadata": {"name": "a"}, "spec": spec});
    assert_eq!(admit("ExternalSecret", &object).value()["spec"], spec);
    let given = json!({"metadata": {"name": "a"}, "spec": {"secretKey": "hunter2", "password": "{{ \"hunter2\" }}"}});
    assert!(!admit("Thing", &given).value().to_string().contains("hunter2"));
}

/// A mapping under the name of a credential, that many times inside of itself, by lines.
fn nested(levels: usize) -> String {
    let mut text = String::new();
    for level in 0..levels {
        text.push_str(&format!("{}passwords:\n", " ".repeat(level)));
    }
    text + &format!("{}alice: hunter2\n", " ".repeat(levels))
}

#[test]
fn mappings_in_mappings_are_masked_however_deep() {
    for levels in [1, 2, 7, 8, 9, 40, 400] {
        assert!(!masked(&nested(levels)).contains("hunter2"), "{levels}");
        let flow = format!("a: 1\n{}alice: hunter2{}\n", "tokens: {".repeat(levels), "}".repeat(levels));
        assert!(!masked(&flow).contains("hunter2"), "{levels}: {}", masked(&flow));
        let others = format!("tokens: {}{{alice: hunter2{}\n", "{a: ".repeat(levels), "}".repeat(levels + 1));
        assert!(!masked(&others.replacen("{{", "{", 1)).contains("hunter2"), "{levels}");
    }
}

fn quiet(kind: &str, object: &Value) -> Value {
    admit(kind, object).value()
}

#[test]
fn quiet_leaves_out_what_nobody_would_miss() {
    let node = json!({"metadata": {"name": "n"}, "status": {"images": [{"names": ["a"]}], "capacity": {"cpu": "2"},
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "t", "lastTransitionTime": "u"}]}});
    assert_eq!(
        quiet("Node", &node)["status"],
        json!({"capacity": {"cpu": "2"}, "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "u"}]})
    );
    let deployment = json!({"apiVersion": "apps/v1", "metadata": {"name": "d", "annotations": {"control-plane.alpha.kubernetes.io/leader": "x"}},
        "status": {"observedGeneration": 3, "replicas": 1, "conditions": [{"type": "A", "observedGeneration": 2, "lastUpdateTime": "t"}]}});
    let value = quiet("Deployment", &deployment);
    assert_eq!(value["status"], json!({"replicas": 1, "conditions": [{"type": "A"}]}));
    assert_eq!(value["metadata"], json!({"name": "d"}));
    let set = json!({"apiVersion": "apps/v1", "metadata": {"name": "r", "annotations": {"deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4", "deployment.kubernetes.io/revision": "5"}}});
    assert_eq!(quiet("ReplicaSet", &set)["metadata"]["annotations"], json!({"deployment.kubernetes.io/revision": "5"}));
    let only = json!({"metadata": {"name": "x"}, "status": {"observedGeneration": 3}});
    assert_eq!(quiet("Thing", &only).get("status"), None);
}

#[test]
fn the_profile_all_leaves_nothing_out() {
    let door = door_with(&Settings { noise: noise::Profile::All, ..Settings::default() });
    let object = json!({"metadata": {"name": "x"}, "status": {"observedGeneration": 3}});
    assert_eq!(admit_by(&door, "Thing", &object).value()["status"], json!({"observedGeneration": 3}));
}

#[test]
fn own_paths_are_left_out_for_the_kinds_that_they_name() {
    let ignoring = |paths: &[&str]| {
        door_with(&Settings { ignore: paths.iter().map(|path| (*path).to_owned()).collect(), ..Settings::default() })
    };
    let object = json!({"apiVersion": "apps/v1", "metadata": {"name": "a", "annotations": {"example.com/a": "1", "other.com/b": "2"}},
        "spec": {"replicas": 1, "list": [{"x": 1, "y": 2}, {"x": 3}], "deep": {"er": {"x": 4}}}});
    let spec = |paths: &[&str], kind: &str| admit_by(&ignoring(paths), kind, &object).value()["spec"].clone();
    let without_replicas = json!({"list": [{"x": 1, "y": 2}, {"x": 3}], "deep": {"er": {"x": 4}}});
    for path in [
        "/spec/replicas",
        "Deployment:/spec/replicas",
        "apps/*:/spec/replicas",
        "apps/Deployment:/spec/repl*",
        "*:/spec/r*s",
    ] {
        assert_eq!(spec(&[path], "Deployment"), without_replicas, "{path}");
    }
    for path in ["StatefulSet:/spec/replicas", "core/*:/spec/replicas", "/spec/replica", "/status/replicas"] {
        assert_eq!(spec(&[path], "Deployment"), object["spec"], "{path}");
    }
    assert_eq!(spec(&["/spec/list/*/x"], "A")["list"], json!([{"y": 2}, {}]));
    assert_eq!(spec(&["/spec/list/0"], "A")["list"], json!([{"x": 3}]));
    assert_eq!(spec(&["/spec/**/x"], "A"), json!({"replicas": 1, "list": [{"y": 2}, {}]}));
    let metadata = |path: &str| admit_by(&ignoring(&[path]), "A", &object).value()["metadata"].clone();
    assert_eq!(
        metadata("/metadata/annotations/example.com~1*"),
        json!({"name": "a", "annotations": {"other.com/b": "2"}})
    );
    assert_eq!(metadata("/metadata/annotations/*"), json!({"name": "a"}));
    for path in ["/**/metadata", "/meta*", "/*a"] {
        assert_eq!(metadata(path), object["metadata"], "{path}: an object is known by it");
    }
    let template = json!({"metadata": {"name": "a", "annotations": {"b": "c"}}, "spec": {"template": {"metadata": {"labels": {}}, "x": 1}}});
    let value = admit_by(&ignoring(&["/**/metadata", "/metadata/annotations"]), "A", &template).value();
    assert_eq!((&value["metadata"], &value["spec"]["template"]), (&json!({"name": "a"}), &json!({"x": 1})));
}
