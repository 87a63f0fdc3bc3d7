//! What is masked of files of YAML and other formats within a text, and what of them stays readable.

use super::{texts::masked, *};

#[test]
fn a_list_below_the_name_of_credentials_is_read_by_its_items() {
    for (text, expected) in [
        ("tokens:\n- name: ci\n  value: a b\nx: 1", "tokens:\n- name: ci\n  value: ***\nx: 1"),
        ("credentials:\n - host: db\n   plain: 'x'\n", "credentials:\n - host: db\n   plain: '***'\n"),
        ("api_keys:\n  - id: a\n    data: x\n", "api_keys:\n  - id: a\n    data: ***\n"),
        ("tokens:\n\n# a\n- name: ci\n\n  value: x\n", "tokens:\n\n# a\n- name: ci\n\n  value: ***\n"),
        // In doubt.
        ("tokens:\n- user: bob\n  host: x\n", "tokens:\n- user: ***\n  host: ***\n"),
        ("tokens:\n-\n  name: ci\n  foo: x\n- y\n", "tokens:\n-\n  name: ci\n  foo: ***\n- ***\n"),
        ("a:\n- tokens:\n  - x\n  - y\n  port: 80\n", "a:\n- tokens:\n  ***\n  port: 80\n"),
        ("passwords:\n  alice: &a x\n  bob: *a\n", "passwords:\n  alice: &a ***\n  bob: *a\n"),
        ("passwords:\n  alice: !!str 'x'\n  eve: x\n    y\n", "passwords:\n  alice: !!str '***'\n  eve: ***\n"),
        ("auth:\n  realm: shop\n  bob: [x, y]\n", "auth:\n  realm: shop\n  bob: ***\n"),
        ("passwords:\n  a: {b: x}\n  c: {\n  d: y\n  e: z\nf: 1", "passwords:\n  a: {b: ***}\n  c: ***\nf: 1"),
    ] {
        assert_eq!(masked(text), expected, "{text}");
    }
}

#[test]
fn a_value_of_yaml_is_found_behind_its_marks_and_over_its_lines() {
    for (text, expected) in [
        ("password: | # the db\n  x\na: 1", "password: | # the db\n  ***\na: 1"),
        ("password: !!binary |-\n  x\na: 1", "password: !!binary |-\n  ***\na: 1"),
        ("password: &pw !vault >\n  x\na: 1", "password: &pw !vault >\n  ***\na: 1"),
        ("password: # the db\n  x\na: 1", "password: # the db\n  ***\na: 1"),
        ("password: &pw\n  x\na: 1", "password: &pw\n  ***\na: 1"),
        ("passwords: # a\n# b\n  bob: x\na: 1", "passwords: # a\n# b\n  bob: ***\na: 1"),
        ("token: x\n  y z\na: 1", "token: ***\na: 1"),
        ("password:\n# a\n  x\na: 1", "password:\n# a\n  ***\na: 1"),
        ("token: x\n\n  y:z\na: 1", "token: ***\na: 1"),
        ("token: x\n  b: 2\na: 1", "token: ***\n  b: 2\na: 1"),
        ("[a]\npassword = x\n\ty\nport = 1", "[a]\npassword = ***\nport = 1"),
        ("password: #hunter2\na: 1", "password: ***\na: 1"),
        ("password: !hunter2\na: 1", "password: ***\na: 1"),
        ("password = <<-EOT\n  x\n  y\n  EOT\na = 1", "password = <<-EOT\n  ***\n  EOT\na = 1"),
        ("PASSWORD=$(cat <<'E'\nx\nE\n)\nA=1", "PASSWORD=$(cat <<'E'\n***\nE\n)\nA=1"),
        ("token = 1 << shift\na = 1", "token = ***\na = 1"),
    ] {
        assert_eq!(masked(text), expected, "{text}");
    }
}

#[test]
fn the_value_of_a_variable_is_found_wherever_it_stands_beside_its_name() {
    for (text, expected) in [
        (
            "- name: DB_PASSWORD # see\n  value: x y\n- name: A\n  value: z",
            "- name: DB_PASSWORD # see\n  value: ***\n- name: A\n  value: z",
        ),
        ("- name: DB_PASSWORD\n  # a\n  b: 1\n  value: x\n", "- name: DB_PASSWORD\n  # a\n  b: 1\n  value: ***\n"),
        ("- name: DB_PASSWORD\n  value: |\n    x\n- a\n", "- name: DB_PASSWORD\n  value: |\n    ***\n- a\n"),
        ("- name: DB_PASSWORD\n  value:\n    x\n- a\n", "- name: DB_PASSWORD\n  value:\n    ***\n- a\n"),
        ("- value: x\n  b: 1\n  key: DB_PASSWORD\n", "- value: ***\n  b: 1\n  key: DB_PASSWORD\n"),
        ("[{value: x, name: TOKEN}, {value: y, name: A}]", "[{value: ***, name: TOKEN}, {value: y, name: A}]"),
        ("{name: TOKEN, b: {c: 1}, value: 'x, y'}", "{name: TOKEN, b: {c: 1}, value: '***'}"),
        // What stands between the two is looked at as well.
        ("- name: DB_PASSWORD\n  token: x\n  value: y\n", "- name: DB_PASSWORD\n  token: ***\n  value: ***\n"),
        // Of the next one.
        (
            "- name: DB_PASSWORD\n  valueFrom: a\n- name: A\n  value: x\n",
            "- name: DB_PASSWORD\n  valueFrom: a\n- name: A\n  value: x\n",
        ),
    ] {
        assert_eq!(masked(text), expected, "{text}");
    }
}

#[test]
fn quotes_may_have_a_letter_before_them_and_braces_may_be_part_of_a_word() {
    for (text, expected) in [
        ("LOGIN a WITH PASSWORD = N'x y', B = 1", "LOGIN a WITH PASSWORD = N'***', B = 1"),
        ("f(password=b'x', a=1)", "f(password=b'***', a=1)"),
        ("f(password=rb\"x\", a=1)", "f(password=rb\"***\", a=1)"),
        ("{ Password = @\"x\" }", "{ Password = @\"***\" }"),
        ("a.password={noop}x\nb=1", "a.password=***\nb=1"),
        ("run PASSWORD={x} B=1", "run PASSWORD=*** B=1"),
        ("<password> <![CDATA[x]]> </password>", "<password> <![CDATA[***]]> </password>"),
    ] {
        assert_eq!(masked(text), expected, "{text}");
    }
}

#[test]
fn what_kubectl_keeps_of_a_manifest_is_masked_whole_in_a_text() {
    for (text, expected) in [
        (
            "map[kubectl.kubernetes.io/last-applied-configuration:{\"a\":{\"b\":1}} c:d]",
            "map[kubectl.kubernetes.io/last-applied-configuration:*** c:d]",
        ),
        ("last-applied-configuration: {\"a\":{\"b\":1}}\nc: d", "last-applied-configuration: ***\nc: d"),
        (
            "kubectl.kubernetes.io/last-applied-configuration:{\"a\":{\"b\":1} c:d",
            "kubectl.kubernetes.io/last-applied-configuration:***",
        ),
    ] {
        assert_eq!(masked(text), expected, "{text}");
    }
}

#[test]
fn what_stands_in_single_quotes_is_no_variable() {
    for (text, expected) in [
        ("sshpass -p '$tr0ng' ssh h", "sshpass -p '***' ssh h"),
        ("mysql -h db -p'$ecret;x' shop", "mysql -h db -p'***' shop"),
        ("mysql -h 'a;b' -p'x' shop; ls -px", "mysql -h 'a;b' -p'***' shop; ls -px"),
        ("curl -u 'bob:$ecret pass' h", "curl -u 'bob:***' h"),
        ("curl -s -ubob:x h", "curl -s -ubob:*** h"),
        ("mysql -p\"$ecret\" shop", "mysql -p\"$ecret\" shop"),
        ("docker run a curl --user bob:x h", "docker run a curl --user bob:*** h"),
    ] {
        assert_eq!(masked(text), expected, "{text}");
    }
}

#[test]
fn a_password_in_a_url_may_hold_what_nobody_escaped() {
    for (text, expected) in [
        ("https://s3cr3tTok3n@h/x.git", "https://***@h/x.git"),
        ("nats://tok@h", "nats://***@h"),
        ("postgres://bob:ab'x@h/db", "postgres://bob:***@h/db"),
        ("'postgres://h:port','a@b'", "'postgres://h:port','a@b'"),
        ("postgres://bob:123/x@h/db", "postgres://bob:***@h/db"),
        ("ftp://bob:p@ss/word@h/x", "ftp://bob:***@h/x"),
        ("https://bob:x@h/@scope/a@1.2", "https://bob:***@h/@scope/a@1.2"),
        ("postgres://h:5432/db?user=a@b", "postgres://h:5432/db?user=a@b"),
    ] {
        assert_eq!(masked(text), expected, "{text}");
    }
}

#[test]
fn annotations_that_hold_the_name_of_a_secret_stay_readable() {
    let annotations = json!({"nginx.ingress.kubernetes.io/auth-secret": "shop/basic",
        "nginx.ingress.kubernetes.io/auth-tls-secret": "shop/ca", "haproxy.org/auth-secret": "people",
        "argocd-image-updater.argoproj.io/web.pull-secret": "pullsecret:argocd/registry"});
    let object = json!({"metadata": {"name": "a", "annotations": annotations}});
    assert_eq!(admit("Ingress", &object).value()["metadata"]["annotations"], annotations);
}
