//! The ways in which a secret value can appear, all through the door. The real API server gets the same objects in the
//! integration tests.

use serde_json::Value;

use super::*;

fn leaks() -> Vec<Value> {
    let fixture: Value = serde_json::from_str(include_str!("../../../tests/fixtures/leaks.json")).expect("the fixture");
    fixture["leaks"].as_array().expect("a list").clone()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// What must occur nowhere, also as JSON would write it.
fn secrets(leak: &Value) -> Vec<String> {
    let also = leak["also"].as_array().into_iter().flatten().filter_map(Value::as_str);
    also.chain([text(leak, "secret")])
        .flat_map(|secret| [secret.to_owned(), Value::from(secret).to_string().trim_matches('"').to_owned()])
        .collect()
}

#[test]
fn no_planted_secret_occurs_in_any_output() {
    let leaks = leaks();
    assert!(leaks.len() >= 50);
    let told = format!("{} ways in which a secret can appear", leaks.len());
    assert!(include_str!("../../../docs/events.md").contains(&told), "docs/events.md does not say {told}");
    let mut survivors = Vec::new();
    for leak in &leaks {
        let object = &leak["object"];
        let document = admit(text(object, "kind"), object);
        let outputs = [
            format!("{document:?}"),
            document.value().to_string(),
            format!("{:?}", document.value()),
            String::from_utf8_lossy(&document.to_json()).into_owned(),
            String::from_utf8_lossy(document.managed_fields()).into_owned(),
        ];
        if secrets(leak).iter().any(|secret| outputs.iter().any(|output| output.contains(secret))) {
            survivors.push(format!("{}: {}", text(leak, "name"), outputs[1]));
        }
    }
    assert!(survivors.is_empty(), "{} of {}:\n{}", survivors.len(), leaks.len(), survivors.join("\n"));
}

#[test]
fn every_leak_is_planted_so_that_the_test_above_can_fail() {
    for leak in &leaks() {
        let raw = leak["object"].to_string();
        assert!(secrets(leak).iter().any(|secret| raw.contains(secret)), "{}", text(leak, "name"));
    }
}

#[test]
fn a_rotation_of_any_of_them_shows() {
    for leak in &leaks() {
        let object = &leak["object"];
        if text(leak, "name").contains("Helm") || text(leak, "name").starts_with("last-applied-configuration of a Dep")
        {
            continue;
        }
        let raw = object.to_string();
        let secret = secrets(leak).into_iter().find(|secret| raw.contains(secret.as_str())).expect("planted");
        // Another value of the same shape: one letter or digit in the middle.
        let at = secret.char_indices().filter(|(_, c)| c.is_ascii_alphanumeric()).map(|(at, _)| at);
        let at: Vec<usize> = at.collect();
        let mut rotated = secret.clone();
        let at = at[at.len() / 2];
        rotated.replace_range(at..=at, if secret.as_bytes()[at] == b'7' { "8" } else { "7" });
        let other: Value = serde_json::from_str(&raw.replace(&secret, &rotated)).expect("json");
        let (old, new) = (admit(text(object, "kind"), object), admit(text(object, "kind"), &other));
        assert_ne!(old, new, "{}", text(leak, "name"));
        assert!(!new.value().to_string().contains(&rotated), "{}: {:?}", text(leak, "name"), new.value());
    }
}

#[test]
fn admitting_a_redacted_document_again_changes_nothing() {
    for leak in &leaks() {
        let kind = text(&leak["object"], "kind");
        let once = admit(kind, &leak["object"]);
        assert_eq!(admit(kind, &once.value()).value(), once.value(), "{}", text(leak, "name"));
    }
}

#[test]
fn what_is_around_a_secret_stays_readable() {
    for (name, around) in [
        ("a YAML file in a ConfigMap", &["port: 80", "user: bob", "password: hmac:"][..]),
        ("a JSON file in a ConfigMap", &[r#"\"user\": \"bob\""#, r#"\"password\": \"hmac:"#]),
        ("a properties file in a ConfigMap", &["server.port=80", "spring.datasource.password=hmac:"]),
        ("a connection string", &["Server=db;User Id=bob;Password=hmac:", ";Encrypt=true"]),
        ("a password in a URL", &["postgres://bob:hmac:", "@db:5432/shop"]),
        ("a private key in a ConfigMap", &["BEGIN CERTIFICATE", "MIIB"]),
        ("a flag in a shell command", &["exec app --verbose --api-key hmac:", " --port 80"]),
        ("a controller's output with a token in a URL query", &["page=2&access_token=hmac:", "&sort=asc -> 200"]),
        ("a Secret's manifest as YAML in a ConfigMap", &["kind: Service", "foo: hmac:"]),
        ("a Deployment's manifest in a ConfigMap", &["value: hmac:", "value: '80'"]),
        ("an error in a status that quotes the manifest as JSON", &["failed to apply: {", "Required value"]),
        ("an Azure storage connection string", &["AccountName=a;AccountKey=hmac:", ";EndpointSuffix=core.windows.net"]),
        ("a map below the name of a credential in a JSON file", &[r#"\"port\": 80"#, r#"\"realm\": \"shop\""#]),
        (
            "a map below the name of credentials in a YAML file",
            &["port: 80", "alice: hmac:", "bob: \\\"hmac:", "user: bob"],
        ),
        (
            "a flow mapping below the name of credentials in a YAML file",
            &["tokens: {ci: hmac:", ", ttl: 60}", "user: bob"],
        ),
        ("a password in an SQL statement", &["WITH PASSWORD 'hmac:", "';\\nGRANT ALL ON shop TO app;"]),
        ("IDENTIFIED BY in an SQL statement", &["'app'@'%' IDENTIFIED BY 'hmac:", "';\\nFLUSH PRIVILEGES;"]),
        ("a password in a Dockerfile", &["FROM alpine\\nENV DB_PASSWORD hmac:", "\\nRUN true"]),
        ("a password with blanks in a flow mapping", &["{user: bob, password: hmac:", ", host: db}"]),
        ("an OpenVPN static key", &["# 2048 bit OpenVPN static key"]),
        ("a kubeconfig in a ConfigMap", &["kind: Config", "token: hmac:", "client-key-data: hmac:"]),
        ("a private JSON Web Key", &[r#""kty":"EC""#, r#""x":"f83OJ3D2xF4""#, r#""kid":"1""#, r#""d":"hmac:"#]),
        ("redis-cli with a password as arguments", &[r#"["redis-cli","-h","127.0.0.1","-a","hmac:"#, r#"","ping"]"#]),
        ("mysqladmin with a password glued to its flag as arguments", &[r#"["mysqladmin","ping","-uroot","-phmac:"#]),
        ("mysql with a password in quotes", &["mysql -uroot -p'hmac:", "' shop"]),
        ("docker login with a password", &["docker login -u bob -p hmac:", " registry.example"]),
        ("a MinIO alias with its secret as arguments", &[r#""set","minio","http://minio:9000","bob","hmac:"#]),
        ("sqlplus with a password", &["sqlplus -s bob/hmac:", "@db:1521/shop @report.sql"]),
        ("a pre-shared key of WireGuard", &["PublicKey = abc\\nPresharedKey = hmac:", "\\nAllowedIPs = 10.0.0.0/8"]),
        ("a user of Redis", &["user default off\\nuser alice on >hmac:", " ~* +@all"]),
        ("a salted hash of LDAP", &["dn: uid=bob\\nuserHash: hmac:"]),
        ("the statistics page of HAProxy", &["bind :9000\\n  stats auth bob:hmac:"]),
        ("a user of HAProxy", &["userlist people\\n  user bob insecure-password hmac:"]),
        ("a constant of PHP", &["define('DB_NAME', 'shop');\\ndefine( 'DB_PASSWORD', 'hmac:", "' );"]),
        ("a default in a program", &[r#"os.getenv(\"DB_PASSWORD\", \"hmac:"#, r#"\")"#]),
        ("a property of Hadoop", &["ConnectionPassword</name>\\n  <value>hmac:", "</value>\\n</property>"]),
        ("a user of a login module", &["PlainLoginModule required\\n  user_bob=\\\"hmac:"]),
        ("a header that nginx sets", &["proxy_set_header X-Token hmac:", ";\\n  proxy_pass http://web;"]),
        ("a row that SQL inserts", &["VALUES ('bob', 'hmac:", "', 7), ('eve', 'hmac:", "', 8);"]),
        (
            "a pair with the value first in a manifest",
            &["- value: hmac:", "name: DB_PASSWORD\\n- name: PORT\\n  value: '80'"],
        ),
        ("a webhook of Teams", &["https://acme.webhook.office.com/webhookb2/hmac:"]),
        ("a Grafana token", &["made with hmac:", " yesterday"]),
        (
            "a list of tokens with names in a YAML file",
            &["port: 80\\ntokens:\\n- name: ci\\n  value: hmac:", "user: bob"],
        ),
        ("a here document in a Terraform file", &["password = <<EOT\\nhmac:", "\\nEOT\\nuser = "]),
        ("a variable with a field before its value in a manifest", &["required: true\\n  value: hmac:", "value: '80'"]),
        ("a variable in braces with the value first in a manifest", &["{value: hmac:", "{value: '80', name: PORT}"]),
        ("a national text in an SQL statement", &["PASSWORD = N'hmac:", "', CHECK_POLICY = OFF"]),
        ("CDATA in an XML file", &["<user>bob</user><password><![CDATA[hmac:", "]]></password>"]),
        ("the last of many JSON objects in a text", &[r#"{\"a\":19} {\"password\":\"hmac:"#, r#"\"} done"#]),
        ("a password with a slash after digits in a URL", &["postgres://bob:hmac:", "@db/shop"]),
    ] {
        let leaks = leaks();
        let leak = leaks.iter().find(|leak| text(leak, "name") == name).unwrap_or_else(|| panic!("{name}"));
        let document = admit(text(&leak["object"], "kind"), &leak["object"]).value().to_string();
        for part in around {
            assert!(document.contains(part), "{name}: {part} in {document}");
        }
    }
}
